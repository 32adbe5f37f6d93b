"""Finds spans that look like tool calls and that no dialect reads, by what they say.

Either of these makes a span look like one:

- its name and its arguments are those of a tool call that a model requested in the same trace;
- it says that it is a tool's, and holds arguments as an object beside a result.

Nothing here changes how sessions are built. What is looked at is bounded, in spans and in characters.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from typing import Any, NamedTuple

from msgspec import Struct

from goldspan.mappers.dialects.reading.model_messages import nested
from goldspan.mappers.dialects.reading.value_parsing import decoded, describes_parameters
from goldspan.mappers.span_facts import LogFacts, ModelFacts, Role, SpanFacts
from goldspan.mappers.spans import SpanView
from goldspan.scoring.json_values import is_mapping, is_sequence
from goldspan.scoring.recorded_values import literal
from goldspan.scoring.sessions import Capture, SpanRef

MOST_SPANS = 20_000
"""Spans that are looked at; those that come later are left out."""
MOST_CHARACTERS = 16_000_000
"""Characters of JSON that are decoded in all."""
_LONGEST = 1_000_000
"""Characters of one value that is decoded."""
_MOST_NODES = 20_000
"""Values inside one attribute that are looked at."""
_LONGEST_LITERAL = 20_000
_SHORT = 200
"""Characters of a text that may be a name, an id or a kind."""
_DEEPEST = 24
_MOST_ANCESTORS = 64
_MOST_GROUPS = 16
_MOST_NAMES = 64
"""Tools that are requested with the same arguments in one trace."""
_MOST_MEMBERS = 64
"""Members of an object in which a name, an id or arguments are looked for."""

Fingerprint = bytes
"""A digest of arguments, equal for equal arguments."""


class ValuePlace(NamedTuple):
    """Where a span holds a value."""

    key: str
    event: str = ""
    """The span event that has the attribute; `""` for an attribute of the span."""
    path: tuple[str | int, ...] = ()
    """Keys and positions inside the attribute's JSON."""

    def __str__(self) -> str:
        key = f"event {self.event}: {self.key}" if self.event else self.key
        return " > ".join([key, *map(str, self.path)])


class Mark(NamedTuple):
    """What tells a group's spans from all others in the same traces."""

    key: str
    values: frozenset[str] | None = None
    """Values of the attribute; none allows any."""
    scope: str = ""
    name_prefix: str = ""
    parent: bool | None = None
    """True for spans below another."""


@dataclass(frozen=True, slots=True)
class UnknownTools:
    """Spans of one kind that look like tool calls of an unknown dialect."""

    scope: str
    """The instrumentation scope of the first span."""
    spans: tuple[SpanRef, ...]
    """In order of trace and span id."""
    requested: int
    """How many of them have the name and the arguments of a call that a model requested in the same trace."""
    tools: tuple[str, ...]
    """Names of the tools, in alphabetical order."""
    mark: Mark
    agents: frozenset[str]
    """Values of the mark's attribute on spans of agents."""
    also_marked: int
    """How many other spans have the mark all the same; 0 where it tells them apart."""
    name: ValuePlace | None
    """None for the span's name."""
    name_prefix: str
    """What stands before the tool's name in the span's name."""
    name_suffix: str
    arguments: ValuePlace
    python_repr: bool
    """Arguments are written as Python literals."""
    result: ValuePlace | None
    call_id: ValuePlace | None
    session: str | None
    """The attribute with the session id, on any span of the same traces."""
    session_known: bool
    """That attribute is read as a session id in every dialect."""


# What is kept of each span.


class _Look(Struct, frozen=True, gc=False):
    ref: SpanRef
    scope: str
    name: str
    texts: dict[ValuePlace, str]
    """Short texts: what may be a name, an id or a kind."""
    objects: dict[ValuePlace, Fingerprint]
    """Objects that may be arguments."""
    reprs: set[ValuePlace]
    """Those of them that are written as Python literals."""
    places: set[ValuePlace]
    """Every attribute that has a value, of the span and of its events."""
    is_root: bool
    unread: bool
    """No dialect gives it a role."""
    candidate: bool
    """No dialect reads a tool call of this span with its arguments."""

    @property
    def plain_texts(self) -> Iterator[tuple[ValuePlace, str]]:
        """The short texts that are attributes of the span by themselves."""
        return ((place, text) for place, text in self.texts.items() if not place.path and not place.event)

    @property
    def kinds(self) -> list[str]:
        """What the span says of its kind."""
        return [text for place, text in self.plain_texts if _says_kind(place.key) and len(text) <= _LONGEST_KIND]

    def note_text(self, place: ValuePlace, value: Any) -> None:
        """Note a value that is a short text."""
        if isinstance(value, str) and len(value) <= _SHORT:
            self.texts[place] = value

    def note(self, place: ValuePlace, found: Any) -> None:
        """Note the object at this place, and the objects and short texts up to two levels inside it."""
        if not is_mapping(found) or describes_parameters(found):
            return
        self.objects[place] = _fingerprint(found)
        for key, value in islice(found.items(), _MOST_MEMBERS if len(place.path) < 2 else 0):
            inside = place._replace(path=(*place.path, str(key)))
            self.note_text(inside, value)
            if is_sequence(value) and value and key == "args" and (first := _object(value[0])) is not None:
                self.note(inside._replace(path=(*inside.path, 0)), first)  # the only positional argument
            elif (inner := _object(value)) is not None:
                self.note(inside, inner)


class _Asked(NamedTuple):
    """All requests in a trace for one tool with the same arguments."""

    name: str
    arguments: Fingerprint
    call_ids: set[str]
    span_ids: set[str]
    """The spans that hold them."""


_AllAsked = dict[tuple[str, Fingerprint], dict[str, _Asked]]
"""By trace id and arguments, then by name."""


_Holder = tuple[SpanRef, Fingerprint | None]
"""A span, and the arguments of the call that it holds."""


class _Found(Struct, frozen=True, gc=False):
    """A span that looks like a tool call, and the places where it may hold arguments."""

    look: _Look
    arguments: frozenset[ValuePlace]
    request: _Asked | None = None

    @property
    def call(self) -> Fingerprint | None:
        """The arguments of the requested call."""
        return None if self.request is None else self.request.arguments

    @property
    def holder(self) -> _Holder:
        """The span, as holder of the requested call."""
        return self.look.ref, self.call

    @property
    def answers(self) -> tuple[str, str, Fingerprint] | None:
        """The requested call: trace, tool and arguments."""
        return None if self.request is None else (self.look.ref.trace_id, self.request.name, self.request.arguments)


class UnknownToolFinder:
    """Is shown spans one by one, and then says which of them look like tool calls of an unknown dialect."""

    def __init__(
        self, session_keys: Iterable[str], *, spans: int = MOST_SPANS, characters: int = MOST_CHARACTERS
    ) -> None:
        """Take the attributes that are known to hold session ids."""
        self._session_keys = frozenset(session_keys)
        self._spans_left = spans
        self._characters_left = characters
        self._looks: dict[SpanRef, _Look] = {}
        self._parents: dict[SpanRef, str] = {}
        self._asked: _AllAsked = defaultdict(dict)
        self._known: dict[str, set[str]] = defaultdict(set)
        """Names of tools whose calls are read with their arguments, by trace."""

    def add(self, view: SpanView, facts: SpanFacts) -> None:
        """Look at a span; `facts` are what dialects read of it."""
        ref = SpanRef(facts.trace_id, facts.span_id)
        if self._spans_left <= 0 or ref in self._looks:
            return
        attributes = view.attributes
        if not attributes and not view.events:
            self._parents[ref] = facts.parent_id
            return
        self._spans_left -= 1
        self._parents[ref] = facts.parent_id
        read = facts.tool is not None and facts.tool.arguments.capture is not Capture.NOT_CAPTURED
        if read and facts.tool is not None:
            self._known[ref.trace_id].add(facts.tool.name)
        self._add_requests(ref, facts.model)
        self._looks[ref] = self._look(ref, view, facts, is_read=read)

    def add_log(self, facts: LogFacts) -> None:
        """Take the requests that a log record holds."""
        self._add_requests(SpanRef(facts.trace_id, facts.span_id), facts.model)

    def _add_requests(self, ref: SpanRef, model: ModelFacts | None) -> None:
        for request in model.requests if model is not None else ():
            if is_mapping(request.arguments.raw):
                self._ask(ref, request.name, request.arguments.raw, request.call_id or "")

    def _ask(self, ref: SpanRef, name: str, arguments: Mapping[str, Any], call_id: str) -> None:
        print_ = _fingerprint(arguments)
        asked = self._asked[ref.trace_id, print_].setdefault(name, _Asked(name, print_, set(), set()))
        asked.call_ids.update({call_id} - {""})
        asked.span_ids.add(ref.span_id)

    def _look(self, ref: SpanRef, view: SpanView, facts: SpanFacts, *, is_read: bool) -> _Look:
        candidate = not is_read and facts.role in (None, Role.TOOL) and not _does_other_work(view.attributes)
        asks = facts.tool is None and (facts.model is None or not facts.model.requests)
        unread = facts.role is None
        look = _Look(ref, view.scope_name, view.name, {}, {}, set(), set(), not facts.parent_id, unread, candidate)
        for place, value in _values(view):
            look.places.add(place)
            look.note_text(place, value)
            found = self._structure(look, place, value) if candidate or asks else None
            if candidate and found is not None:
                look.note(place, found)
            if asks and found is not None:
                self._look_for_requests(found, ref)
        if asks and (numbered := _numbered_leaves(view.attributes)):
            self._look_for_requests(nested(numbered), ref)
        return look

    def _look_for_requests(self, value: Any, ref: SpanRef) -> None:
        """Note what looks like the request of a call, at any depth: a name beside an object of arguments."""
        waiting: list[tuple[Any, str, int]] = [(value, "", 0)]
        left = _MOST_NODES
        while waiting and left > 0:
            left -= 1
            found, call_id, depth = waiting.pop()
            if is_mapping(found):
                call_id = _first_text(found, _ID_KEYS) or call_id
                name = _first_text(found, _NAME_KEYS)
                if name and len(name) <= _SHORT and (arguments := _arguments_of(found)) is not None:
                    self._ask(ref, name, arguments, call_id)
                inner: Iterable[Any] = found.values()
            elif is_sequence(found):
                call_id, inner = "", found
            else:
                continue
            if depth < _DEEPEST:
                waiting += [(_inside(one), call_id, depth + 1) for one in inner if isinstance(one, str) or one]

    def _structure(self, look: _Look, place: ValuePlace, value: Any) -> Any:
        """Return the value if it is an object or an array, or a text of one: JSON, or a Python repr of an object."""
        if isinstance(value, str):
            if look.candidate and (written := _literal(value)) is not None:
                look.reprs.add(place)
                return written
            if value[:1] not in {"{", "["} or len(value) > min(_LONGEST, self._characters_left):
                return None
            self._characters_left -= len(value)
            value = decoded(value)
        return value if is_mapping(value) or is_sequence(value) else None

    # Everything that was looked at, together.

    def found(self) -> tuple[UnknownTools, ...]:
        """Return the groups of spans that look like tool calls, the plainest first."""
        asked = {key: dict(sorted(by_name.items())[:_MOST_NAMES]) for key, by_name in self._asked.items()}
        found = [one for look in self._looks.values() if look.candidate and (one := self._found(look, asked))]
        groups: list[list[_Found]] = []
        by_scope: dict[str, list[_Found]] = defaultdict(list)
        for one in found:
            by_scope[one.look.scope].append(one)
        for scope in sorted(by_scope):
            groups += _by_arguments(by_scope[scope])
        made: list[UnknownTools] = []
        for group in self._without_wrappers(groups):
            described = {ref for one in made for ref in one.spans}
            left = [one for one in group if one.look.ref not in described]
            if left and (kind := self._described(left)) is not None:
                made.append(kind)
        return tuple(made)

    def _found(self, look: _Look, asked: _AllAsked) -> _Found | None:
        known = self._known.get(look.ref.trace_id, set())
        matches = self._matches(look, asked, known)
        if matches and not _is_model(look):
            best = min(matches, key=_argument_rank)
            return _Found(look, frozenset(matches), matches[best])
        if not _says_tool(look) or not known.isdisjoint(look.texts.values()):
            return None
        named = frozenset(_unwrapped(place, look) for place in look.objects if _is_argument_word(place))
        return _Found(look, named) if named else None

    def _matches(self, look: _Look, asked: _AllAsked, known: set[str]) -> dict[ValuePlace, _Asked]:
        """Return the objects of a span that are the arguments of a request elsewhere, whose tool it names."""
        matches: dict[ValuePlace, _Asked] = {}
        for place, print_ in look.objects.items():
            for name, request in asked.get((look.ref.trace_id, print_), {}).items():
                if name in known or request.span_ids == {look.ref.span_id}:
                    continue
                # A call id that the span has too tells which of equal arguments it was called with.
                better = place not in matches or not request.call_ids.isdisjoint(look.texts.values())
                if better and any(True for _ in _name_places(look, name)):
                    matches[place] = request
        return matches

    def _without_wrappers(self, groups: list[list[_Found]]) -> list[list[_Found]]:
        """Of spans that hold one requested call, and of spans above each other, keep those of the plainest group."""
        kept: list[list[_Found]] = []
        taken = set[_Holder]()
        above_taken = set[_Holder]()
        answered = set[tuple[str, str, Fingerprint] | None]()
        for group in sorted(groups, key=_group_rank):
            above = {one.holder: {(ref, one.call) for ref in self._ancestors(one.look.ref)} for one in group}
            left = [
                one
                for one in group
                if one.answers not in answered and one.holder not in above_taken and taken.isdisjoint(above[one.holder])
            ]
            for one in left:
                taken.add(one.holder)
                above_taken |= above[one.holder]
            answered |= {one.answers for one in left} - {None}
            if left:
                kept.append(left)
        return kept[:_MOST_GROUPS]

    def _ancestors(self, ref: SpanRef) -> Iterator[SpanRef]:
        for _ in range(_MOST_ANCESTORS):
            parent = self._parents.get(ref, "")
            if not parent:
                return
            ref = SpanRef(ref.trace_id, parent)
            yield ref

    def _described(self, group: list[_Found]) -> UnknownTools | None:
        """Find what marks the spans of a group, with those that are like them, and describe them all."""
        [arguments] = group[0].arguments
        asked = {one.request.name for one in group if one.request is not None}
        group = [one for one in group if one.request is not None or _is_alike(one.look, asked)]
        looks = [one.look for one in group]
        alike, others = self._besides(looks, arguments, asked)
        mark, also_marked = _mark(looks, others, arguments)
        if mark.key == "":
            return None
        return self._kind(group, [*looks, *(look for look in alike if _holds(mark, look))], mark, also_marked)

    def _besides(self, looks: list[_Look], arguments: ValuePlace, asked: set[str]) -> tuple[list[_Look], list[_Look]]:
        """Return the other spans that are like these, and all others."""
        inside = {look.ref for look in looks}
        alike, others = list[_Look](), list[_Look]()
        for look in self._looks.values():
            if look.ref not in inside:
                is_alike = look.candidate and arguments in look.objects and _is_alike(look, asked)
                (alike if is_alike else others).append(look)
        return alike, others

    def _kind(self, group: list[_Found], looks: list[_Look], mark: Mark, also_marked: int) -> UnknownTools | None:
        """Describe the spans of a group and those like them; None where neither a request nor a result says that."""
        [arguments] = group[0].arguments
        result = _result_place(looks, arguments)
        requested = sum(one.request is not None for one in group)
        if not (requested or result) or all(look.objects[arguments] == _NOTHING for look in looks):
            return None
        name, prefix, suffix = _name_of(group, arguments)
        session, known = self._session({look.ref.trace_id for look in looks})
        names = (
            look.texts.get(name, "") if name else look.name.removeprefix(prefix).removesuffix(suffix) for look in looks
        )
        return UnknownTools(
            scope=group[0].look.scope,
            spans=tuple(sorted(look.ref for look in looks)),
            requested=requested,
            tools=tuple(sorted({*names} - {""})),
            mark=mark,
            agents=_agents(mark, self._looks.values()),
            also_marked=also_marked,
            name=name,
            name_prefix=prefix,
            name_suffix=suffix,
            arguments=arguments,
            python_repr=any(arguments in look.reprs for look in looks),
            result=result,
            call_id=_call_id_place(group, looks),
            session=session,
            session_known=known,
        )

    def _session(self, traces: set[str]) -> tuple[str | None, bool]:
        """Return the attribute that names the session of these traces, best one with one value in each of them."""
        values: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        for look in self._looks.values():
            for place, text in look.plain_texts if look.ref.trace_id in traces else ():
                if place.key in self._session_keys or _names_session(place.key):
                    values[place.key][look.ref.trace_id].add(text)
        if not values:
            return None, False

        def rank(key: str) -> _Rank:
            unclear = any(len(texts) > 1 for texts in values[key].values())
            return unclear, -len(values[key]), key not in self._session_keys, "thread" in _words(key), len(key), key

        best = min(values, key=rank)
        return best, best in self._session_keys


# Words in the keys of attributes, in any way of writing: `tool.call.arguments`, `toolArgs`, `tool_input`.

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_NUMBERED = re.compile(r"\.\d{1,7}\.")
_ARGUMENT_WORDS = frozenset({"arguments", "argument", "args", "kwargs", "input", "inputs", "parameters", "params"})
_RESULT_WORDS = frozenset({"result", "results", "output", "outputs", "response", "return", "returned", "completion"})
_KIND_WORDS = frozenset({"kind", "type", "subtype", "step", "operation", "category", "class"})
_FUNCTION_PARTS = ("call", *sorted(_ARGUMENT_WORDS))
_LONGEST_KIND = 40
_MODEL_WORDS = frozenset({"chat", "generation", "llm", "model"})
_OTHER_KINDS = frozenset(
    {"agent", "chain", "embedding", "evaluator", "flow", "generation", "guardrail", "llm", "model", "retriever"}
    | {"rag", "reranker", "task", "workflow"}
)
"""Kinds of spans that are no tool's, whatever their names say."""
_FILLING = frozenset({"value", "json", "content", "text"})
"""Words that may follow the one that tells: `input.value`."""
_OTHER_WORK = ("http.", "db.", "rpc.", "messaging.", "graphql.", "faas.")
_SPAN_NAME = ValuePlace("")
_BETWEEN = " :./"


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _last(key: str) -> str:
    """Return the word of a key that says what it holds."""
    words = _words(key)
    if words[-2:] == ["operation", "name"]:
        return "operation"
    while len(words) > 1 and words[-1] in _FILLING:
        words.pop()
    return words[-1] if words else ""


def _is_tool_word(key: str) -> bool:
    """Say whether a key or a kind says `tool`."""
    words = _words(key)
    text = " ".join(words)
    return "tool" in words or "functioncall" in words or any(f"function {word}" in text for word in _FUNCTION_PARTS)


def _names_tool(key: str) -> bool:
    """Say whether a key that ends with `name` is a tool's. `code.function.name` is where a span was started."""
    words = _words(key)
    return _is_tool_word(key) or ("function" in words and "code" not in words)


def _names_session(key: str) -> bool:
    words = _words(key)
    return (
        words[-1:] == ["id"]
        and words[-2:-1] in (["session"], ["conversation"], ["thread"])
        and ("mcp" not in words and key != "thread.id")
    )


def _says_kind(key: str) -> bool:
    return _last(key) in _KIND_WORDS


def _is_argument_word(place: ValuePlace) -> bool:
    """Say whether an attribute of the span is called what arguments are."""
    return not place.path and not place.event and _last(place.key) in _ARGUMENT_WORDS


def _is_model(look: _Look) -> bool:
    """Say whether the span is a model's, or a part of its answer, and no tool's."""
    kinds = look.kinds
    return not any(map(_is_tool_word, kinds)) and any(not _MODEL_WORDS.isdisjoint(_words(kind)) for kind in kinds)


def _is_alike(look: _Look, asked: set[str]) -> bool:
    """Say whether a span without a request is a tool's all the same, beside spans of the tools in `asked`."""
    if any(map(_is_tool_word, look.kinds)):
        return True
    return not asked.isdisjoint((look.name, *look.texts.values())) if asked else _says_tool(look)


def _says_tool(look: _Look) -> bool:
    """Say whether a kind, the keys of name and arguments, or the start of the span's name say `tool`."""
    kinds = look.kinds
    if any(map(_is_tool_word, kinds)):
        return True
    named = any(_last(place.key) == "name" and _is_tool_word(place.key) for place, _ in look.plain_texts)
    called = any(_is_argument_word(place) and _is_tool_word(place.key) for place in look.objects)
    if named and called:
        return True
    words = _words(look.name)
    said = named or called or "tool" in words[:2] or words[:2] == ["function", "call"]
    return said and _OTHER_KINDS.isdisjoint(map(str.lower, kinds))


def _does_other_work(attributes: Mapping[str, Any]) -> bool:
    """Say whether this is the span of an HTTP request, a database or a message queue."""
    return any(str(key).startswith(_OTHER_WORK) for key in attributes)


# Values of a span.


def _values(view: SpanView) -> Iterator[tuple[ValuePlace, Any]]:
    """Yield what is in attributes, of the span and of its events, but for those that are a leaf of a message each."""
    for key, value in view.attributes.items():
        if value is not None and value != "" and not _NUMBERED.search(str(key)):
            yield ValuePlace(str(key)), value
    for event in view.events:
        for key, value in event.attributes.items():
            if value is not None and value != "":
                yield ValuePlace(str(key), event.name), value


def _numbered_leaves(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that are a leaf of a message each."""
    return {key: value for key, value in attributes.items() if _NUMBERED.search(str(key))}


def _literal(text: str) -> Any:
    """Return the object that a text is the Python repr of."""
    found = literal(text) if text.startswith("{'") and len(text) <= _LONGEST_LITERAL else None
    return found if is_mapping(found) else None


def _unwrapped(place: ValuePlace, look: _Look) -> ValuePlace:
    """Return where an envelope holds arguments: `kwargs`, `arguments` beside a name, `inputs` beside `input_str`."""
    kwargs, arguments, inputs = (place._replace(path=(key,)) for key in ("kwargs", "arguments", "inputs"))
    if kwargs in look.objects:
        return kwargs
    if arguments in look.objects and any(place._replace(path=(key,)) in look.texts for key in _NAME_KEYS):
        return arguments
    return inputs if inputs in look.objects and place._replace(path=("input_str",)) in look.texts else place


def _object(value: Any) -> Mapping[str, Any] | None:
    """Return an object, or the object of a JSON text, unless it is a schema."""
    if isinstance(value, str):
        value = decoded(value) if value[:1] == "{" and len(value) <= _LONGEST else None
    return value if is_mapping(value) and not describes_parameters(value) else None


_NAME_KEYS = ("name", "tool_name", "toolName", "tool", "function_name", "functionName")
_ARGUMENT_KEYS = ("arguments", "args", "input", "toolInput", "tool_input", "kwargs", "parameters", "params")
_ID_KEYS = ("call_id", "callId", "tool_call_id", "toolCallId", "toolUseId", "tool_use_id", "id", "ref")


def _first_text(holder: Mapping[str, Any], keys: Iterable[str]) -> str:
    return next((text for key in keys if isinstance(text := holder.get(key), str) and text), "")


def _inside(value: Any) -> Any:
    """Return the value of JSON text inside JSON."""
    return decoded(value) if isinstance(value, str) and value[:1] in {"{", "["} and len(value) <= _LONGEST else value


def _arguments_of(holder: Mapping[str, Any]) -> Mapping[str, Any] | None:
    for key in _ARGUMENT_KEYS:
        if key in holder and (found := _object(holder[key])) is not None:
            # Definitions of tools have empty `parameters` beside a name too.
            return found if found or key not in {"parameters", "params"} else None
    return None


def _fingerprint(arguments: Mapping[str, Any]) -> Fingerprint:
    text = json.dumps(_canonical(arguments, 0), sort_keys=True, ensure_ascii=True)
    return blake2b(text.encode("ascii"), digest_size=16).digest()


def _canonical(value: Any, depth: int) -> Any:
    """Return one form for equal arguments: writers drop nulls, and write 3 as 3.0."""
    if depth > _DEEPEST:
        return "..."
    if is_mapping(value):
        return {str(key): _canonical(inner, depth + 1) for key, inner in value.items() if inner is not None}
    if is_sequence(value):
        return [_canonical(inner, depth + 1) for inner in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)


_NOTHING = _fingerprint({})


# Groups of spans that hold the same things at the same places.


_Rank = tuple[object, ...]


def _rank(place: ValuePlace, *against: bool) -> _Rank:
    """Put plain places first: attributes of the span by themselves, of those the ones with nothing against them."""
    return (len(place.path), place.event != "", *against, len(place.key), place)


def _argument_rank(place: ValuePlace) -> _Rank:
    return _rank(place, _last(place.key) not in _ARGUMENT_WORDS)


def _name_rank(place: ValuePlace) -> _Rank:
    return _rank(place, place == _SPAN_NAME, _last(place.key) != "name", "tool" not in _words(place.key))


def _call_id_rank(place: ValuePlace) -> _Rank:
    return _rank(place, "call" not in _words(place.key))


def _most_frequent(places: Iterable[ValuePlace], rank: Callable[[ValuePlace], _Rank]) -> ValuePlace | None:
    counts = Counter(places)
    return min(counts, key=lambda place: (-counts[place], rank(place)), default=None)


def _by_arguments(found: list[_Found]) -> Iterator[list[_Found]]:
    """Put spans together that hold their arguments at one place, most first."""
    while found:
        place = _most_frequent((place for one in found for place in one.arguments), _argument_rank)
        if place is None:
            return
        yield [_Found(one.look, frozenset({place}), one.request) for one in found if place in one.arguments]
        found = [one for one in found if place not in one.arguments]


def _group_rank(group: list[_Found]) -> _Rank:
    [place] = group[0].arguments
    named = sum(_says_tool(one.look) for one in group)
    requested = sum(one.request is not None for one in group)
    return (
        -requested * 2 // len(group),
        -named * 2 // len(group),
        _argument_rank(place),
        -len(group),
        group[0].look.scope,
    )


def _name_places(look: _Look, name: str) -> Iterator[ValuePlace]:
    """Yield where a span holds this name; its own name may have more before it."""
    for place, text in look.texts.items():
        if text == name:
            yield place
    if _around(look.name, name) is not None:
        yield _SPAN_NAME


def _around(span_name: str, name: str) -> tuple[str, str] | None:
    """Return what stands before and after a tool's name in its span's name; none where it is no word of it."""
    before, found, after = span_name.partition(name)
    if not found or before[-1:].isalnum() or after[:1].isalnum() or "_" in (before[-1:], after[:1]):
        return None
    return before, after


def _name_of(group: list[_Found], arguments: ValuePlace) -> tuple[ValuePlace | None, str, str]:
    """Return where the spans of a group name their tool, and what stands around it in the span's name."""
    requested = [(one.look, one.request.name) for one in group if one.request is not None]
    looks = [one.look for one in group]
    if requested:
        best = _most_frequent((place for look, name in requested for place in _name_places(look, name)), _name_rank)
    else:
        best = _name_place(looks, arguments)
    if best is not None and best != _SPAN_NAME:
        return best, "", ""
    around = Counter(found for look, name in requested if (found := _around(look.name, name)) is not None)
    if around:
        return None, *around.most_common(1)[0][0]
    return None, *_shared_ends({look.name for look in looks})


def _is_name(place: ValuePlace) -> bool:
    return not place.event and _last(place.key) == "name"


def _name_place(looks: Sequence[_Look], arguments: ValuePlace) -> ValuePlace | None:
    """Return the place of a name where no request tells it: by its key, beside the arguments, or as the span's name."""
    named = [place for look in looks for place in look.texts if _is_name(place)]
    by_key = (place for place in named if not place.path and _names_tool(place.key))
    beside = (one for one in named if one.key == arguments.key and one.path[:-1] == arguments.path[:-1])
    as_span = (place for look in looks for place, text in look.texts.items() if text == look.name and not place.path)
    found = (_most_frequent(places, _name_rank) for places in (by_key, beside, as_span))
    return next(filter(None, found), None)


def _shared_ends(names: set[str]) -> tuple[str, str]:
    """Return what all names begin and end with, up to a mark between words, such as `tool: ` and `.call`."""
    if len(names) < 2:
        (name,) = names
        head, mark, _ = name.rpartition(": ")
        return (head + mark, "") if _is_tool_word(head) else ("", "")
    start = _shared_start(min(names), max(names))
    reversed_names = [name[::-1] for name in names]
    end = _shared_start(min(reversed_names), max(reversed_names))[::-1]
    marks = [place for place, letter in enumerate(start, 1) if letter in _BETWEEN]
    first = next((place for place, letter in enumerate(end) if letter in _BETWEEN), len(end))
    return start[: max(marks, default=0)], end[first:]


def _result_place(looks: Sequence[_Look], arguments: ValuePlace) -> ValuePlace | None:
    def rank(place: ValuePlace) -> _Rank:
        shared = len(_shared_start(place.key, arguments.key))
        return place.event != arguments.event, -shared, "tool" not in _words(place.key), len(place.key), place

    places = (
        place
        for look in looks
        for place in look.places
        if (place.key, place.event) != (arguments.key, arguments.event) and _may_be_result(place, arguments)
    )
    return _most_frequent(places, rank)


def _may_be_result(place: ValuePlace, arguments: ValuePlace) -> bool:
    if arguments.event and place.event not in {"", arguments.event}:
        return place.key in {"message", "content", "result", "output"}
    return place.event in {"", arguments.event} and _last(place.key) in _RESULT_WORDS


def _shared_start(first: str, second: str) -> str:
    """Return what two texts begin with; of many texts, what the least and the greatest begin with."""
    length = next(
        (n for n, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second))
    )
    return first[:length]


def _call_id_place(group: list[_Found], looks: Sequence[_Look]) -> ValuePlace | None:
    asked = [(one.look, one.request.call_ids) for one in group if one.request is not None and one.request.call_ids]
    same = (place for look, ids in asked for place, text in look.texts.items() if text in ids)
    named = (place for look in looks for place, _ in look.plain_texts if _words(place.key)[-2:] == ["call", "id"])
    return _most_frequent(same if asked else named, _call_id_rank)


# What tells the spans of a group from all others.

_MOST_KINDS = 3
_MOST_MARKS = 256
_HEADS = ("execute_tool", "tool", "Tool")


def _holds(mark: Mark, look: _Look) -> bool:
    place = ValuePlace(mark.key)
    if mark.key and place not in look.places:
        return False
    if mark.values is not None and look.texts.get(place) not in mark.values:
        return False
    if mark.parent and look.is_root:
        return False
    return look.scope.startswith(mark.scope) and look.name.startswith(mark.name_prefix)


def _agents(mark: Mark, looks: Iterable[_Look]) -> frozenset[str]:
    if mark.values is None:
        return frozenset()
    kinds = {text for look in looks if look.unread and (text := look.texts.get(ValuePlace(mark.key))) is not None}
    return frozenset(
        kind for kind in kinds if _words(kind)[-1:] == ["agent"] or _words(kind)[:2] == ["invoke", "agent"]
    )


def _mark(looks: Sequence[_Look], others: Sequence[_Look], arguments: ValuePlace) -> tuple[Mark, int]:
    """Choose an attribute that says `tool`, else one that only these spans have; and count others that have it."""
    best, fewest = Mark(""), len(others) + 1
    for _, mark in sorted(_narrowed(list(_marks(looks, arguments)), looks), key=_option_rank)[:_MOST_MARKS]:
        wrong = sum(1 for _ in islice((look for look in others if _holds(mark, look)), fewest))
        if wrong < fewest:
            best, fewest = mark, wrong
        if not wrong:
            break
    return best, fewest if best.key else 0


def _narrowed(options: list[tuple[int, Mark]], looks: Sequence[_Look]) -> list[tuple[int, Mark]]:
    """Return the marks, and each with what else these spans share: their scope, a parent, how their names begin."""
    options += [(5 + tier, mark._replace(scope=looks[0].scope)) for tier, mark in options]
    if not any(look.is_root for look in looks):
        options += [(10 + tier, mark._replace(parent=True)) for tier, mark in options]
    heads = [head for head in _HEADS if all(look.name.startswith(head) for look in looks)]
    return options + [(20 + tier, mark._replace(name_prefix=head)) for tier, mark in options for head in heads]


def _marks(looks: Sequence[_Look], arguments: ValuePlace) -> Iterator[tuple[int, Mark]]:
    """Yield what all these spans have; the lower the number, the better: a kind that says `tool`, a key that does."""
    shared = frozenset[ValuePlace].intersection(*(frozenset(look.places) for look in looks))
    for place in (place for place in shared if not place.event):
        texts = {look.texts.get(place) for look in looks}
        values = frozenset(text for text in texts if text is not None)
        if len(values) == len(texts) <= _MOST_KINDS and _says_kind(place.key):
            if all(map(_is_tool_word, values)):
                yield 0, Mark(place.key, values)
            if len(values) == 1 and len(looks) > 1:
                yield 2, Mark(place.key, values)
        yield 1 if _is_tool_word(place.key) else 3 if place.key == arguments.key else 4, Mark(place.key)


def _option_rank(option: tuple[int, Mark]) -> _Rank:
    tier, mark = option
    return tier, len(mark.key), mark.key, sorted(mark.values or ()), mark.scope, mark.name_prefix
