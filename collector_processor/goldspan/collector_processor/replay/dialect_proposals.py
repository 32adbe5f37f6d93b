"""Calls that only the shape of their spans told: which attributes carried them, and a dialect for them.

`inspect` and `doctor` say the first; `goldspan dialects propose` writes the second, Python for a package of its own.
"""

from __future__ import annotations

import keyword
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, NamedTuple

from goldspan.mappers.assembly.shaped_calls import Places, places_of
from goldspan.mappers.carrying_keys import names_session
from goldspan.mappers.dialects.reading.value_parsing import identifier
from goldspan.mappers.dialects.shape import is_tool_kind, says_kind, says_tool
from goldspan.mappers.span_facts import SHAPE, LazySpanFacts, LogFacts, ModelFacts, SpanFacts, ValuePlace
from goldspan.mappers.spans import SpanView
from goldspan.scoring.pages import counted
from goldspan.scoring.sessions import Capture, Session, SpanRef, ToolCall

_MOST_SPANS = 20_000  # spans whose session attributes are looked at
_LONGEST_ID = 200


@dataclass(frozen=True, slots=True)
class ShapedTools:
    """Calls of spans of one kind that were read by their shape."""

    scope: str
    """The instrumentation scope of the spans."""
    spans: tuple[SpanRef, ...]
    """In order of trace and span id."""
    requested: int
    """How many of them a model requested in the same trace."""
    tools: tuple[str, ...]
    """Names of the tools, in alphabetical order."""
    name: ValuePlace | None
    """None for the span's name."""
    arguments: ValuePlace | None
    """None where only requests have them."""
    result: ValuePlace | None
    call_id: ValuePlace | None
    session: str | None
    """The attribute with the session id, on any span of the same traces."""
    session_known: bool
    """That attribute is read as a session id in every dialect."""

    def to_json(self) -> dict[str, Any]:
        """Return it as in the document of `goldspan inspect`."""
        places = {name: getattr(self, name) for name in ("name", "arguments", "result", "call_id")}
        return {
            "scope": self.scope,
            "spans": len(self.spans),
            "requested": self.requested,
            "tools": list(self.tools),
            **{name: None if place is None else str(place) for name, place in places.items()},
            "session": self.session,
        }


_Shaped = tuple[SpanRef, ToolCall, Places]  # the span that told a call, the call, and where it told it


class ShapedToolFinder:
    """Is shown records one by one, and then says which attributes carried the calls of the sessions made of them."""

    def __init__(self, session_keys: Iterable[str]) -> None:
        """Take the attributes that are known to hold session ids."""
        self._session_keys = frozenset(session_keys)
        self._facts: dict[SpanRef, SpanFacts] = {}
        self._sessions: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        """Values by trace and attribute."""
        self._spans_left = _MOST_SPANS
        self._models: dict[str, list[ModelFacts]] = defaultdict(list)

    def add(self, view: SpanView, facts: SpanFacts) -> None:
        """Take a span and what was read of it."""
        if isinstance(facts, LazySpanFacts) or facts.role is not None:
            self._facts[facts.ref] = facts
        if self._spans_left > 0:
            self._spans_left -= 1
            for key, value in view.attributes.items():
                is_id = isinstance(value, str) and 0 < len(value) <= _LONGEST_ID and identifier(value) is not None
                if is_id and (key in self._session_keys or names_session(key)):
                    self._sessions[facts.trace_id][key].add(value)

    def add_log(self, facts: LogFacts) -> None:
        """Take the requests that a log record holds."""
        if facts.model is not None:
            self._models[facts.trace_id].append(facts.model)

    def found(self, sessions: Iterable[Session]) -> tuple[ShapedTools, ...]:
        """Return the calls that were read by shape, by the kind of their spans."""
        kinds: dict[tuple[str, str], list[_Shaped]] = defaultdict(list)
        calls = (call for session in sessions for call in session.calls)
        for call in calls:
            for fact in (self._facts.get(ref) for ref in call.evidence):
                if fact is not None and fact.look is not None and _is_shaped(call, fact):
                    places = places_of(call, fact.look)
                    kinds[fact.look.scope, str(places.name)].append((fact.ref, call, places))
                    break
        return tuple(self._kind(scope, kinds[scope, name]) for scope, name in sorted(kinds))

    def _kind(self, scope: str, calls: Sequence[_Shaped]) -> ShapedTools:
        refs = [ref for ref, _, _ in calls]
        session = self._session({ref.trace_id for ref in refs})
        places = [places for _, _, places in calls]
        return ShapedTools(
            scope,
            tuple(sorted(refs)),
            sum(self._is_requested(call) for _, call, _ in calls),
            tuple(sorted({call.name for _, call, _ in calls})),
            places[0].name,
            _most_frequent(one.arguments for one in places),
            _most_frequent(one.result for one in places),
            _most_frequent(one.call_id for one in places),
            session,
            session in self._session_keys,
        )

    def _is_requested(self, call: ToolCall) -> bool:
        trace = "" if call.span is None else call.span.trace_id
        return any(
            (request.call_id and request.call_id == call.call_id)
            or (request.name == call.name and request.arguments.raw == call.arguments)
            for model in (*self._models[trace], *self._models_of(trace))
            for request in model.requests
        )

    def _models_of(self, trace: str) -> Iterator[ModelFacts]:
        for ref, fact in self._facts.items():
            if ref.trace_id == trace:
                shaped = None if fact.look is None else fact.look.model
                yield from (model for model in (fact.model, shaped) if model is not None)

    def _session(self, traces: set[str]) -> str | None:
        """Return the attribute that names the session of these traces, best one with one value in each of them."""
        keys = {key for trace in traces for key in self._sessions.get(trace, ())}

        def rank(key: str) -> tuple[object, ...]:
            values = [self._sessions[trace][key] for trace in traces if key in self._sessions.get(trace, ())]
            return any(len(one) > 1 for one in values), -len(values), key not in self._session_keys, len(key), key

        return min(keys, key=rank, default=None)


def _is_shaped(call: ToolCall, fact: SpanFacts) -> bool:
    """Say whether the call, or the arguments of one that a table read, were told by the shape of this span."""
    if call.dialect == SHAPE:
        return True
    bare = fact.tool is None or fact.tool.arguments.capture is Capture.NOT_CAPTURED
    owned = fact.look is not None and fact.look.of_tool and fact.look.own is not None
    return bare and owned and call.capture is not Capture.NOT_CAPTURED


def _most_frequent(places: Iterable[ValuePlace | None]) -> ValuePlace | None:
    counts = Counter(place for place in places if place is not None)
    return min(counts, key=lambda place: (-counts[place], place), default=None)


_WORD = re.compile(r"[a-z0-9]+")
_COMMON = frozenset(
    {"args", "arguments", "attributes", "call", "data", "gen", "gen_ai", "input", "inputs", "org", "com", "io"}
    | {"parameters", "span", "tool", "tools", "function", "opentelemetry", "instrumentation", "name"}
)
"""Words that name no framework."""
_IMPORTED = {
    "Affixes": "Affixes(",
    "Attributes": "SpanView",
    "DialectTable": "DialectTable(",
    "Role": "Role.",
    "Rule": "Rule(",
    "Source": "Source(",
    "SpanView": "SpanView",
    "ToolFacts": "ToolFacts",
    "at": "take=at(",
}
"""What a dialect imports, and what in its source uses that."""
_BETWEEN = " :./"  # marks between the words of a span's name
_LONGEST_KIND = 40
_MOST_KINDS = 3


class Proposal(NamedTuple):
    """A package with one dialect for each kind of unknown tool spans."""

    name: str
    """The name of the first dialect: lower-case letters, digits and `_`."""
    module: str
    """The Python source of its only module."""
    pyproject: str

    @property
    def module_name(self) -> str:
        """The name of that module."""
        return f"goldspan_dialect_{self.name}"


class _Mark(NamedTuple):
    """What tells the spans of some calls from all others in the same traces."""

    key: str
    values: frozenset[str] | None = None  # values of the attribute; none allows any
    scope: str = ""
    also_marked: int = 0  # how many other spans have the mark all the same; 0 where it tells them apart


def proposal(found: Sequence[ShapedTools], views: Iterable[SpanView], name: str | None = None) -> Proposal:
    """Write dialects for these calls; `found` must not be empty, `views` are the spans of their traces.

    `name` names the first of the dialects.
    """
    spans = {SpanRef(view.trace_id, view.span_id): view for view in views}
    marks = [_mark(one, spans) for one in found]
    first = name or _name_from(found[0], marks[0])
    names = [first, *(f"{first}_{number}" for number in range(2, len(found) + 1))]
    tool_names = [_tool_name(one, spans) for one in found]
    tables = _rendered(
        "proposed_dialect.py.jinja",
        tables=list(zip(found, marks, names, tool_names, strict=True)),
    )
    tools = sum(len(one.spans) for one in found)
    about = f'"""Reads tool calls that goldspan does not know. Proposed from {counted(tools, "span")}: check it."""'
    module = "\n\n".join([about, "from __future__ import annotations", _imports(tables)]) + tables
    return Proposal(first, module, _rendered("proposed_pyproject.toml.jinja", first=first, names=names))


def _rendered(template: str, **context: object) -> str:
    """Return a file of the package, made by a template that stands beside this module."""
    # Imported when a dialect is proposed: few commands need it.
    from jinja2 import Environment, FunctionLoader, StrictUndefined  # noqa: PLC0415

    templates = Environment(
        loader=FunctionLoader(lambda name: (files("goldspan.collector_processor.replay") / name).read_text("utf-8")),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters["literal"] = _literal
    return templates.get_template(template).render(context, counted=counted)


def _mark(found: ShapedTools, spans: Mapping[SpanRef, SpanView]) -> _Mark:
    """Choose an attribute that says `tool`, else one that only these spans have; and count others that have it."""
    own = [spans[ref].attributes for ref in found.spans if ref in spans]
    inside, traces = set(found.spans), {ref.trace_id for ref in found.spans}
    others = [view for ref, view in spans.items() if ref.trace_id in traces and ref not in inside]
    options = list(_possible_marks(found, own))
    options += [(tier + 5, mark._replace(scope=found.scope)) for tier, mark in options if found.scope]
    best = [
        (sum(_holds(mark, view) for view in others), tier, len(mark.key), mark.key, mark.scope, mark)
        for tier, mark in options
    ]
    if not best:
        return _Mark("")
    wrong, *_, mark = min(best, key=lambda one: one[:-1])
    return mark._replace(also_marked=wrong)


def _possible_marks(found: ShapedTools, own: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, _Mark]]:
    """Yield each attribute that all these spans share as a mark, with how little it says: 0 is a kind of tool."""
    for key in sorted(set(own[0]).intersection(*own[1:])) if own else ():
        values = frozenset(value for one in own if isinstance(value := one[key], str) and len(value) < _LONGEST_KIND)
        if says_kind(key) and values and len(values) <= _MOST_KINDS:
            yield 0 if all(map(is_tool_kind, values)) else 2, _Mark(key, values)
        is_arguments = found.arguments is not None and key == found.arguments.key
        yield 1 if says_tool(key) else 3 if is_arguments else 4, _Mark(key)


def _holds(mark: _Mark, view: SpanView) -> bool:
    value = view.attributes.get(mark.key)
    return (
        value is not None and (mark.values is None or value in mark.values) and view.scope_name.startswith(mark.scope)
    )


def is_dialect_name(text: str) -> bool:
    """Say whether this can name a dialect: lower-case letters, digits and `_`, as in Python."""
    return text.isidentifier() and text.islower() and text.isascii() and not keyword.iskeyword(text)


def _name_from(found: ShapedTools, mark: _Mark) -> str:
    """Name a dialect after the first telling word of its attributes, else of its scope."""
    for text in (mark.key, "" if found.arguments is None else found.arguments.key, found.scope):
        words = _WORD.findall(text.lower())
        if words and words[0] not in _COMMON and len(words) > 1 and is_dialect_name(words[0]):
            return str(words[0])
    words = [word for word in _WORD.findall(found.scope.lower()) if word not in _COMMON and is_dialect_name(word)]
    return words[0] if words else "proposed"


def _tool_name(found: ShapedTools, spans: Mapping[SpanRef, SpanView]) -> str:
    """Return where the names of tools are: what stands around them in names of spans, an `attribute`, or a `hook`."""
    if found.name is None or _is_quoted(found, spans):
        affixes = zip(("prefixes", "suffixes"), _around(found, spans), strict=True)
        return ", ".join(f"{what}=({_literal(affix)},)" for what, affix in affixes if affix)
    return "hook" if found.name.path or found.name.event else "attribute"


def _around(found: ShapedTools, spans: Mapping[SpanRef, SpanView]) -> tuple[str, str]:
    """Return what stands before and after the names of tools in the names of their spans: `tool: ` and `.call`."""
    names = {spans[ref].name for ref in found.spans if ref in spans}
    for name in sorted(names.difference(found.tools)):
        tool = next((one for one in sorted(found.tools, key=len, reverse=True) if one in name), "")
        if tool:
            before, _, after = name.partition(tool)
            return before, after
    if len(names) < 2:
        return "", ""
    start = _shared_start(min(names), max(names))
    backwards = [name[::-1] for name in names]
    end = _shared_start(min(backwards), max(backwards))[::-1]
    first = next((place for place, letter in enumerate(end) if letter in _BETWEEN), len(end))
    return start[: 1 + max(map(start.rfind, _BETWEEN))], end[first:]


def _shared_start(first: str, second: str) -> str:
    """Return what two texts begin with; of many texts, what the least and the greatest begin with."""
    pairs = zip(first, second, strict=False)
    return first[: next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(first), len(second)))]


def _is_quoted(found: ShapedTools, spans: Mapping[SpanRef, SpanView]) -> bool:
    """Say whether names of tools are written as JSON text."""
    place = found.name
    values = (spans[ref].attributes.get(place.key) for ref in found.spans if place is not None and ref in spans)
    return any(isinstance(value, str) and value[:1] == '"' for value in values)


def _literal(value: str | int) -> str:
    """Return a Python literal of a number, or of a text that came with telemetry."""
    if isinstance(value, int):
        return str(value)
    return ascii(value) if '"' in value or "\\" in value or not value.isprintable() else f'"{value}"'


def _imports(source: str) -> str:
    used = ", ".join(name for name, sign in _IMPORTED.items() if sign in source)
    replace = "from msgspec.structs import replace\n\n" if "SpanView" in source else ""
    return f"{replace}from goldspan.mappers.dialects import {used}"
