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
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from typing import Any, NamedTuple

from msgspec import Struct

from goldspan.mappers.dialects.reading.model_messages import nested
from goldspan.mappers.dialects.reading.value_parsing import decoded, literal
from goldspan.mappers.span_facts import LogFacts, ModelFacts, Role, SpanFacts
from goldspan.mappers.spans import SpanView
from goldspan.scoring.json_values import is_mapping, is_sequence
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
    texts: Mapping[ValuePlace, str]
    """Short texts: what may be a name, an id or a kind."""
    objects: Mapping[ValuePlace, Fingerprint]
    """Objects that may be arguments."""
    reprs: frozenset[ValuePlace]
    """Those of them that are written as Python literals."""
    places: frozenset[ValuePlace]
    """Every attribute that has a value, of the span and of its events."""
    is_root: bool
    unread: bool
    """No dialect gives it a role."""
    candidate: bool
    """No dialect reads a tool call of this span with its arguments."""


class _Request(NamedTuple):
    """A request for a call, as some span holds it."""

    name: str
    arguments: Fingerprint
    call_id: str
    span_id: str


@dataclass(slots=True)
class _Asked:
    """All requests in a trace for one tool with the same arguments."""

    name: str
    arguments: Fingerprint
    call_ids: set[str] = field(default_factory=set[str])
    span_ids: set[str] = field(default_factory=set[str])
    """The spans that hold them."""

    def add(self, request: _Request) -> None:
        if request.call_id:
            self.call_ids.add(request.call_id)
        self.span_ids.add(request.span_id)


_AllAsked = dict[tuple[str, Fingerprint], dict[str, _Asked]]
"""By trace id and arguments, then by name."""


class _Found(Struct, frozen=True, gc=False):
    """A span that looks like a tool call, and the places where it may hold arguments."""

    look: _Look
    arguments: frozenset[ValuePlace]
    request: _Asked | None = None

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
        self._requests: dict[str, list[_Request]] = defaultdict(list)
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
                print_ = _fingerprint(request.arguments.raw)
                self._requests[ref.trace_id].append(_Request(request.name, print_, request.call_id or "", ref.span_id))

    def _look(self, ref: SpanRef, view: SpanView, facts: SpanFacts, *, is_read: bool) -> _Look:
        texts: dict[ValuePlace, str] = {}
        objects: dict[ValuePlace, Fingerprint] = {}
        places, reprs = set[ValuePlace](), set[ValuePlace]()
        candidate = not is_read and facts.role in (None, Role.TOOL) and not _does_other_work(view.attributes)
        asks = facts.tool is None and (facts.model is None or not facts.model.requests)
        for place, value in _values(view):
            if value is None or value == "" or (_NUMBERED.search(place.key) and not place.event):
                continue  # a leaf of messages
            places.add(place)
            if isinstance(value, str) and len(value) <= _SHORT:
                texts[place] = value
            if not (candidate or asks):
                continue
            written = _literal(value) if candidate else None
            if written is not None:
                reprs.add(place)
            if (found := self._json(value) if written is None else written) is None:
                continue
            if candidate:
                _envelopes(place, found, texts, objects)
            if asks:
                self._requests[ref.trace_id] += _requests_inside(found, ref.span_id)
        if asks:
            numbered = {key: value for key, value in view.attributes.items() if _NUMBERED.search(str(key))}
            if numbered:
                self._requests[ref.trace_id] += _requests_inside(nested(numbered), ref.span_id)
        return _Look(
            ref,
            view.scope_name,
            view.name,
            texts,
            objects,
            frozenset(reprs),
            frozenset(places),
            not facts.parent_id,
            facts.role is None,
            candidate,
        )

    def _json(self, value: Any) -> Any:
        """Return the value if it is an object or an array, or JSON text of one."""
        if isinstance(value, str):
            if value[:1] not in {"{", "["} or len(value) > min(_LONGEST, self._characters_left):
                return None
            self._characters_left -= len(value)
            value = decoded(value)
        return value if is_mapping(value) or is_sequence(value) else None

    # Everything that was looked at, together.

    def found(self) -> tuple[UnknownTools, ...]:
        """Return the groups of spans that look like tool calls, the plainest first."""
        asked = self._asked()
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

    def _asked(self) -> _AllAsked:
        """Return the requests of each trace by their arguments, those that ask for one call together."""
        asked: _AllAsked = defaultdict(dict)
        for trace_id, requests in self._requests.items():
            for request in sorted(set(requests)):
                by_name = asked[trace_id, request.arguments]
                if request.name in by_name or len(by_name) < _MOST_NAMES:
                    by_name.setdefault(request.name, _Asked(request.name, request.arguments)).add(request)
        return asked

    def _found(self, look: _Look, asked: _AllAsked) -> _Found | None:
        known = self._known.get(look.ref.trace_id, set())
        texts = frozenset(look.texts.values())
        matches: dict[ValuePlace, _Asked] = {}
        for place, print_ in look.objects.items():
            for name, request in asked.get((look.ref.trace_id, print_), {}).items():
                if name in known or request.span_ids == {look.ref.span_id}:
                    continue
                # A call id that the span has too tells which of equal arguments it was called with.
                better = place not in matches or not texts.isdisjoint(request.call_ids)
                if better and any(True for _ in _name_places(look, name)):
                    matches[place] = request
        if matches and not _is_model(look):
            best = min(matches, key=_argument_rank)
            return _Found(look, frozenset(matches), matches[best])
        if not _says_tool(look) or not known.isdisjoint(texts):
            return None
        named = frozenset(
            _unwrapped(place, look)
            for place in look.objects
            if not place.path and not place.event and _last(place.key) in _ARGUMENT_WORDS
        )
        return _Found(look, named) if named else None

    def _without_wrappers(self, groups: list[list[_Found]]) -> list[list[_Found]]:
        """Of spans that hold one requested call, and of spans above each other, keep those of the plainest group."""
        kept: list[list[_Found]] = []
        taken = set[tuple[SpanRef, Fingerprint | None]]()
        above_taken = set[tuple[SpanRef, Fingerprint | None]]()
        answered = set[tuple[str, str, Fingerprint]]()
        for group in sorted(groups, key=_group_rank):
            left: list[tuple[_Found, list[tuple[SpanRef, Fingerprint | None]]]] = []
            for one in group:
                if one.answers in answered:
                    continue
                call = one.request.arguments if one.request is not None else None
                above = [(ref, call) for ref in self._ancestors(one.look.ref)]
                if (one.look.ref, call) not in above_taken and taken.isdisjoint(above):
                    left.append((one, above))
            for one, above in left:
                taken.add((one.look.ref, one.request.arguments if one.request is not None else None))
                above_taken.update(above)
                if one.answers is not None:
                    answered.add(one.answers)
            if left:
                kept.append([one for one, _ in left])
        return kept[:_MOST_GROUPS]

    def _ancestors(self, ref: SpanRef) -> Iterator[SpanRef]:
        for _ in range(_MOST_ANCESTORS):
            parent = self._parents.get(ref, "")
            if not parent:
                return
            ref = SpanRef(ref.trace_id, parent)
            yield ref

    def _described(self, group: list[_Found]) -> UnknownTools | None:
        [arguments] = group[0].arguments
        asked = {one.request.name for one in group if one.request is not None}
        group = [one for one in group if one.request is not None or _is_alike(one.look, asked)]
        looks = [one.look for one in group]
        inside = {look.ref for look in looks}
        others = [look for look in self._looks.values() if look.ref not in inside]
        alike = [look for look in others if look.candidate and arguments in look.objects and _is_alike(look, asked)]
        refs = {look.ref for look in alike}
        mark, also_marked = _mark(looks, [look for look in others if look.ref not in refs], arguments)
        whole = [*looks, *(look for look in alike if _holds(mark, look))]
        result = _result_place(whole, arguments)
        requested = sum(one.request is not None for one in group)
        if mark.key == "" or not (requested or result) or all(look.objects[arguments] == _NOTHING for look in whole):
            return None
        name, prefix, suffix = _name_of(group, arguments)
        traces = {look.ref.trace_id for look in whole}
        session, known = self._session(traces)
        names = {
            look.texts.get(name, "") if name else look.name.removeprefix(prefix).removesuffix(suffix) for look in whole
        }
        return UnknownTools(
            scope=looks[0].scope,
            spans=tuple(sorted(look.ref for look in whole)),
            requested=requested,
            tools=tuple(sorted(names - {""})),
            mark=mark,
            agents=_agents(mark, self._looks.values()),
            also_marked=also_marked,
            name=name,
            name_prefix=prefix,
            name_suffix=suffix,
            arguments=arguments,
            python_repr=any(arguments in look.reprs for look in whole),
            result=result,
            call_id=_call_id_place(group, whole),
            session=session,
            session_known=known,
        )

    def _session(self, traces: set[str]) -> tuple[str | None, bool]:
        """Return the attribute that names the session of these traces, best one with one value in each of them."""
        values: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        for look in self._looks.values():
            if look.ref.trace_id not in traces:
                continue
            for place, text in look.texts.items():
                if place.path or place.event:
                    continue
                if place.key in self._session_keys or _names_session(place.key):
                    values[place.key][look.ref.trace_id].add(text)
        if not values:
            return None, False

        def rank(key: str) -> tuple[object, ...]:
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


def _kinds(look: _Look) -> list[str]:
    """Return what the span says of its kind."""
    return [
        text
        for place, text in look.texts.items()
        if not place.path and not place.event and _last(place.key) in _KIND_WORDS and len(text) <= _LONGEST_KIND
    ]


def _is_model(look: _Look) -> bool:
    """Say whether the span is a model's, or a part of its answer, and no tool's."""
    kinds = _kinds(look)
    return not any(map(_is_tool_word, kinds)) and any(not _MODEL_WORDS.isdisjoint(_words(kind)) for kind in kinds)


def _is_alike(look: _Look, asked: set[str]) -> bool:
    """Say whether a span without a request is a tool's all the same, beside spans of the tools in `asked`."""
    if any(map(_is_tool_word, _kinds(look))):
        return True
    return not asked.isdisjoint((look.name, *look.texts.values())) if asked else _says_tool(look)


def _says_tool(look: _Look) -> bool:
    """Say whether a kind, the keys of name and arguments, or the start of the span's name say `tool`."""
    kinds = _kinds(look)
    if any(map(_is_tool_word, kinds)):
        return True
    named = any(not p.path and not p.event and _last(p.key) == "name" and _is_tool_word(p.key) for p in look.texts)
    called = any(
        not p.path and not p.event and _last(p.key) in _ARGUMENT_WORDS and _is_tool_word(p.key) for p in look.objects
    )
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
    for key, value in view.attributes.items():
        yield ValuePlace(str(key)), value
    for event in view.events:
        for key, value in event.attributes.items():
            yield ValuePlace(str(key), event.name), value


def _literal(value: Any) -> Any:
    """Return the object that a text is the Python repr of."""
    is_repr = isinstance(value, str) and value.startswith("{'") and len(value) <= _LONGEST_LITERAL
    found = literal(value) if is_repr else None
    return found if is_mapping(found) else None


def _unwrapped(place: ValuePlace, look: _Look) -> ValuePlace:
    """Return where an envelope holds arguments: `kwargs`, `arguments` beside a name, `inputs` beside `input_str`."""
    kwargs, arguments, inputs = (place._replace(path=(key,)) for key in ("kwargs", "arguments", "inputs"))
    if kwargs in look.objects:
        return kwargs
    if arguments in look.objects and any(place._replace(path=(key,)) in look.texts for key in _NAME_KEYS):
        return arguments
    return inputs if inputs in look.objects and place._replace(path=("input_str",)) in look.texts else place


def _is_schema(value: Mapping[str, Any]) -> bool:
    """Say whether this describes arguments instead of holding them: JSON Schema, Gemini's, zod's, or one for each."""
    kind = value.get("type")
    if isinstance(kind, str) and kind.lower() == "object" and is_mapping(value.get("properties")):
        return True
    inner = value.get("def") or value.get("_def")
    if "$schema" in value or (is_mapping(inner) and not {"shape", "type", "typeName"}.isdisjoint(inner)):
        return True
    return bool(value) and all(is_mapping(one) and isinstance(one.get("type"), str) for one in value.values())


def _object(value: Any) -> Mapping[str, Any] | None:
    """Return an object, or the object of a JSON text, unless it is a schema."""
    if isinstance(value, str):
        value = decoded(value) if value[:1] == "{" and len(value) <= _LONGEST else None
    return value if is_mapping(value) and not _is_schema(value) else None


def _envelopes(
    place: ValuePlace, found: Any, texts: dict[ValuePlace, str], objects: dict[ValuePlace, Fingerprint]
) -> None:
    """Note the object at this place, and the objects and short texts up to two levels inside it."""
    if not is_mapping(found) or _is_schema(found):
        return
    objects[place] = _fingerprint(found)
    if len(place.path) >= 2:
        return
    for number, (key, value) in enumerate(found.items()):
        if number >= _MOST_MEMBERS:
            return
        inside = place._replace(path=(*place.path, str(key)))
        if isinstance(value, str) and len(value) <= _SHORT:
            texts[inside] = value
        if is_sequence(value) and value and key == "args" and (first := _object(value[0])) is not None:
            _envelopes(inside._replace(path=(*inside.path, 0)), first, texts, objects)  # the only positional argument
        elif (inner := _object(value)) is not None:
            _envelopes(inside, inner, texts, objects)


_NAME_KEYS = ("name", "tool_name", "toolName", "tool", "function_name", "functionName")
_ARGUMENT_KEYS = ("arguments", "args", "input", "toolInput", "tool_input", "kwargs", "parameters", "params")
_ID_KEYS = ("call_id", "callId", "tool_call_id", "toolCallId", "toolUseId", "tool_use_id", "id", "ref")


def _requests_inside(value: Any, span_id: str) -> Iterator[_Request]:
    """Yield what looks like the request of a call, at any depth: a name beside an object of arguments."""
    waiting: list[tuple[Any, str, int]] = [(value, "", 0)]
    left = _MOST_NODES
    while waiting and left > 0:
        left -= 1
        found, id_above, depth = waiting.pop()
        if is_mapping(found):
            call_id = next((text for key in _ID_KEYS if isinstance(text := found.get(key), str) and text), id_above)
            name = next((text for key in _NAME_KEYS if isinstance(text := found.get(key), str) and text), "")
            if name and len(name) <= _SHORT and (arguments := _arguments_of(found)) is not None:
                yield _Request(name, _fingerprint(arguments), call_id, span_id)
            inner: Iterable[Any] = found.values()
        elif is_sequence(found):
            call_id, inner = "", found
        else:
            continue
        if depth < _DEEPEST:
            waiting += [(_inside(one), call_id, depth + 1) for one in inner if isinstance(one, str) or one]


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


def _argument_rank(place: ValuePlace) -> tuple[object, ...]:
    return len(place.path), place.event != "", _last(place.key) not in _ARGUMENT_WORDS, len(place.key), place


def _most_frequent(places: Iterable[ValuePlace], rank: Callable[[ValuePlace], tuple[object, ...]]) -> ValuePlace | None:
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


def _group_rank(group: list[_Found]) -> tuple[object, ...]:
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


def _name_rank(place: ValuePlace) -> tuple[object, ...]:
    return (
        len(place.path),
        place.event != "",
        place == _SPAN_NAME,
        _last(place.key) != "name",
        ("tool" not in _words(place.key)),
        len(place.key),
        place,
    )


def _name_of(group: list[_Found], arguments: ValuePlace) -> tuple[ValuePlace | None, str, str]:
    """Return where the spans of a group name their tool, and what stands around it in the span's name."""
    requested = [(one.look, one.request.name) for one in group if one.request is not None]
    looks = [one.look for one in group]
    if requested:
        places = (place for look, name in requested for place in _name_places(look, name))
        best = _most_frequent(places, _name_rank)
    else:
        named = [place for look in looks for place in look.texts if place.event == "" and _last(place.key) == "name"]
        best = _most_frequent((place for place in named if not place.path and _names_tool(place.key)), _name_rank)
        inside = arguments.path[:-1]
        best = best or _most_frequent(
            (place for place in named if place.key == arguments.key and place.path[:-1] == inside), _name_rank
        )
        best = best or _most_frequent(
            (place for look in looks for place, text in look.texts.items() if text == look.name and not place.path),
            _name_rank,
        )
    if best is not None and best != _SPAN_NAME:
        return best, "", ""
    around = Counter(found for look, name in requested if (found := _around(look.name, name)) is not None)
    if around:
        return None, *around.most_common(1)[0][0]
    return None, *_shared_ends({look.name for look in looks})


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
    def rank(place: ValuePlace) -> tuple[object, ...]:
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
    def rank(place: ValuePlace) -> tuple[object, ...]:
        return len(place.path), place.event != "", "call" not in _words(place.key), len(place.key), place

    asked = [(one.look, one.request.call_ids) for one in group if one.request is not None and one.request.call_ids]
    same = _most_frequent((place for look, ids in asked for place, text in look.texts.items() if text in ids), rank)
    if same is not None or asked:
        return same
    named = (place for look in looks for place in look.texts if not place.path and not place.event)
    return _most_frequent((one for one in named if _words(one.key)[-2:] == ["call", "id"]), rank)


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
    shared = [
        place for place in frozenset[ValuePlace].intersection(*(look.places for look in looks)) if not place.event
    ]
    options: list[tuple[int, Mark]] = []
    for place in shared:
        texts = {look.texts.get(place) for look in looks}
        values = frozenset(text for text in texts if text is not None)
        is_kind = len(values) == len(texts) <= _MOST_KINDS and _last(place.key) in _KIND_WORDS
        if is_kind and all(map(_is_tool_word, values)):
            options.append((0, Mark(place.key, values)))
        if is_kind and len(values) == 1 and len(looks) > 1:
            options.append((2, Mark(place.key, values)))
        options.append((1 if _is_tool_word(place.key) else 3 if place.key == arguments.key else 4, Mark(place.key)))
    scope = looks[0].scope
    options += [(5 + tier, mark._replace(scope=scope)) for tier, mark in options]
    if not any(look.is_root for look in looks):
        options += [(10 + tier, mark._replace(parent=True)) for tier, mark in options]
    heads = [head for head in _HEADS if all(look.name.startswith(head) for look in looks)]
    options += [(20 + tier, mark._replace(name_prefix=head)) for tier, mark in options for head in heads]

    def rank(option: tuple[int, Mark]) -> tuple[object, ...]:
        tier, mark = option
        return tier, len(mark.key), mark.key, sorted(mark.values or ()), mark.scope, mark.name_prefix

    best, fewest = Mark(""), len(others) + 1
    for _, mark in sorted(options, key=rank)[:_MOST_MARKS]:
        wrong = sum(1 for _ in islice((look for look in others if _holds(mark, look)), fewest))
        if wrong < fewest:
            best, fewest = mark, wrong
        if not wrong:
            break
    return best, fewest if best.key else 0
