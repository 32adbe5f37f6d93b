"""What a span says by the shape of its values, with no instrumentation named: what is read below all tables.

A table knows keys. This reader knows how models speak (messages, requests, results), how values are wrapped (JSON in
JSON, Python reprs, `a.b.0.c`) and common words of keys. It gives a span no role: what looks like the arguments of a
call is a call only if a model requested it, or the span says so, and that only the other spans of the trace tell
(`assembly/shaped_calls.py`).

    llamaindex.step.input_summary = "ToolCall(tool_name='book', tool_kwargs={'seat': 7}, tool_id='c1')"
        texts:   tool_name 'book', tool_id 'c1'        objects: tool_kwargs {'seat': 7}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from goldspan.mappers.carrying_keys import (
    ASKED_WORDS,
    CALL_WORDS,
    ERROR_WORDS,
    INPUT_WORDS,
    NO_ERRORS,
    OTHER_WORK,
    OUTPUT_WORDS,
    OWN_RESULTS,
    are_of_agent,
    begins_as_call,
    is_tool_name,
    tool_in,
    words_of,
)
from goldspan.mappers.dialects.reading import model_messages
from goldspan.mappers.dialects.reading.dialect_table import (
    DialectTable,
    Source,
    asks_for_tools,
    error_of,
    is_named,
    returned_in,
)
from goldspan.mappers.dialects.reading.value_parsing import (
    describes_parameters,
    read_arguments,
    read_content,
    unbound,
)
from goldspan.mappers.span_facts import SHAPE, ContextFacts, ModelFacts, SpanLook, ValuePlace, first_known
from goldspan.mappers.spans import EventView, SpanView
from goldspan.scoring.json_values import is_mapping, is_sequence, read_value
from goldspan.scoring.messages import MessageResult, is_definition, raw_messages, role_of
from goldspan.scoring.patterns import regex
from goldspan.scoring.sessions import NO_CONTENT, Capture, Content

_KINDS = frozenset({"kind", "type", "subtype", "step", "operation", "category", "class", "method"})
_MODELS = frozenset({"chat", "generation", "inference", "llm", "model", "completion"})
_AGENTS = frozenset({"agent", "agentic"})
_OTHERS = frozenset(
    {
        "agent",
        "agentic",
        "workflow",
        "chain",
        "embedding",
        "evaluator",
        "flow",
        "guardrail",
        "retriever",
        "rag",
        "reranker",
    }
)
_FAILURES: tuple[tuple[str, object], ...] = (
    *((key, word) for key in ("tool.status", "status") for word in ("error", "failed", "failure")),
    *(("tool.success", False), ("success", False), ("tool.is_error", True), ("is_error", True)),
)
"""Attributes that mark a call as failed."""
_PARAMETERS = frozenset({"parameters", "params"})
"""Words of keys that hold the arguments of a call in some instrumentations, and the tool's schema in others."""
_SEPARATORS = regex(r"[^a-z]+")
_TOOL_KIND = regex(r"(?:tools?|function)(?:call|execution|invocation|run|use)?$")
"""How kinds of tools end, without what divides their words."""
_NAME = regex(r"[A-Za-z_][\w\-]{0,79}(?<!true)(?<!false)(?<!none)", re.IGNORECASE)
_SHORT = 200  # characters of a text that may be a name, an id or a kind
_MOST_TEXTS = 64
_MOST_OBJECTS = 16
_MOST_MEMBERS = 64
_MOST_MESSAGES = 2_000


def says_kind(key: str) -> bool:
    """Say whether a key is that of a kind."""
    return not words_of(key).isdisjoint(_KINDS)


def is_tool_kind(kind: str) -> bool:
    """Say whether a kind is a tool's: `TOOL`, `execute_tool`, `toolCall`, not `tools/list`."""
    return _TOOL_KIND.search(_SEPARATORS.sub("", kind.lower())) is not None


def says_tool(text: str) -> bool:
    """Say whether a kind, a key or the name of a span is a tool's."""
    return not CALL_WORDS.isdisjoint(words_of(text)) or "toolcall" in text.lower()


# How values are wrapped.

_NUMBERED = regex(r"\.\d{1,7}(?:\.|$)")
_MEMBER = regex(r"((?:.*[._])?(?:inputs|arguments|args|kwargs|function\.parameter|outputs|results))\.(?=[^.])")
_BEFORE_OBJECT = ' \n\t"\\'  # of JSON text within JSON text
_CUT_REPR = regex(r"[A-Za-z_][\w.]*\(\w+=")
_NAMED_TEXT = regex(r"(\w+)='([^'\\]{1,200})'")


def _unflattened(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return attributes with those that have a position in their key, a.b.0.c = x, as a.b = [{c: x}].

    So are those that hold one argument each: a.inputs.b = x as a.inputs = {b: x}.
    """
    lists: dict[str, dict[str, Any]] = {}
    whole: dict[str, Any] = {}
    for key, value in attributes.items():
        text = key if isinstance(key, str) else ""  # pyright: ignore
        numbered = _NUMBERED.search(text)
        # What is numbered within an argument is a list in it: a.inputs.b.0.c = x.
        member = _MEMBER.match(text if numbered is None else text[: numbered.start()])
        if member is not None:
            lists.setdefault(member[1], {})[key[member.end() :]] = read_value(value)
        elif numbered is not None:
            lists.setdefault(key[: numbered.start()], {})[key[numbered.start() + 1 :]] = value
        else:
            whole[key] = value
    return {**whole, **{key: model_messages.nested(below) for key, below in lists.items()}}


def _weight(messages: Iterable[Mapping[str, Any]]) -> int:
    return sum(10 + 3 * (role_of(one) == "user") for one in messages)


# The look.


class _Look:
    """What was found in the values of one span so far."""

    def __init__(self, span_name: str) -> None:
        self._span_name = span_name
        self.texts: dict[ValuePlace, str] = {}
        self.objects: dict[ValuePlace, Any] = {}
        self.results: dict[ValuePlace, Any] = {}
        self.given: dict[ValuePlace, Any] = {}
        """What stands at keys of arguments."""
        self._kinds: tuple[list[str], list[str]] = ([], [])  # what keys of kinds say, and what those of subtypes do
        self.error = ""
        self.is_of_llm = False
        self.is_to_llm = False
        """A key about language models has messages."""
        self.spoken: dict[bool, list[Mapping[str, Any]]] = {True: [], False: []}
        self.said: dict[bool, list[Mapping[str, Any]]] = {}
        """Messages that are an event each."""
        self.definitions: Any = None

    def add(self, key: str, value: Any, event: str = "") -> None:
        """Look at an attribute of the span, or of one of its events."""
        if isinstance(value, model_messages.LazyMessages):
            value = [*iter(value)]  # pyright: ignore - what a look holds is compared, and kept
        words = words_of(key)
        self.is_of_llm = (
            self.is_of_llm or not words.isdisjoint({"tokens", "token", "usage"}) or "llm" in words_of(event)
        )
        place = ValuePlace(key, event)
        if isinstance(value, str) and len(value) <= _SHORT:
            self._note_text(place, value, words)
        found = read_value(value)
        if found is value and isinstance(value, str):
            self._note_cut_repr(place, value)
        if is_mapping(found) or is_sequence(found):
            self._add_structure(place, value, found, words)
        elif not words.isdisjoint(OUTPUT_WORDS):
            self.results.setdefault(place, value)
        elif not words.isdisjoint(INPUT_WORDS):
            self.given[place] = value

    def _add_structure(self, place: ValuePlace, value: Any, found: Any, words: frozenset[str]) -> None:
        """Look at an object or a list, `found` in a value, and at the messages in it."""
        messages = list(islice(raw_messages(found), _MOST_MESSAGES))
        roles = list(map(role_of, messages))
        spoken, given = any(roles), not words.isdisjoint(INPUT_WORDS)
        out = not OUTPUT_WORDS.isdisjoint(words | words_of(place.event)) and words.isdisjoint({"input", "prompt"})
        out = out or (spoken and words.isdisjoint(ASKED_WORDS) and set(roles) == {"assistant"})
        self.is_to_llm = self.is_to_llm or (spoken and "llm" in words)
        if spoken or (out and messages):
            self.note_messages(messages, out=out)
        if out:
            self.results.setdefault(place, found)
        elif roles == ["tool"]:
            inside = place._replace(path=(0, "content") if is_sequence(found) else ("content",))
            self.note_object(inside, messages[0].get("content"), given=given)
        elif not spoken:
            self.note_object(place, found if is_mapping(found) else value, given=given)
        if self.definitions is None and not words.isdisjoint({"tools", "functions", "definitions"}):
            self.definitions = value

    @property
    def is_empty(self) -> bool:
        """Nothing in it may be of a call or of a conversation."""
        return not (any(self.spoken.values()) or self.objects or self.texts or self.given)

    @property
    def kinds(self) -> Sequence[str]:
        """Its kinds. A subtype, which may as well be that of an answer, counts where the rest tell nothing."""
        telling = (says_tool(kind) or not words_of(kind).isdisjoint(_OTHERS | _MODELS) for kind in self._kinds[0])
        return self._kinds[0] if any(telling) else [*self._kinds[0], *self._kinds[1]]

    @property
    def of_other(self) -> bool:
        """Its kind says that it is no tool's."""
        kinds = frozenset[str]().union(*map(words_of, self.kinds))
        return not any(map(says_tool, self.kinds)) and not kinds.isdisjoint(_OTHERS | _MODELS)

    @property
    def of_chain(self) -> bool:
        """Its kind says that it is around other spans."""
        kinds = frozenset[str]().union(*map(words_of, self.kinds))
        return self.of_other and not self.is_of_llm and kinds.isdisjoint(_MODELS)

    @property
    def of_agent(self) -> bool:
        """Its kind says that it is an agent's work, and not that an agent was made."""
        if any("create" in words_of(kind) for kind in self.kinds):
            return False
        return any(not words_of(kind).isdisjoint(_AGENTS) and not says_tool(kind) for kind in self.kinds)

    @property
    def of_tool(self) -> bool:
        """Its kind says that it is a tool's; or an attribute or its name names a tool, and arguments are an object."""
        if any(map(is_tool_kind, self.kinds)):
            return not any("list" in words_of(kind) for kind in self.kinds)  # MCP's `tools/list`
        names = [text for place, text in self.texts.items() if _holds_tool(place) and _NAME.fullmatch(text)]
        called = begins_as_call(self._span_name)
        if called and tool_in(self._span_name) in names:
            return True  # `tool: search`, and its name once more: that is a call, with arguments or without
        if not called and all(map(is_tool_kind, names)):
            return False
        objects = (value for value in self.given.values() if not describes_parameters(value))
        return any(
            is_mapping(value) or (isinstance(value, str) and value.lstrip(_BEFORE_OBJECT)[:1] == "{")
            for value in objects
        )

    def _read_given(self, attributes: Mapping[str, Any]) -> Mapping[ValuePlace, Content]:
        """Return what stands at keys of arguments; parameters may be a schema, and count where nothing else does."""
        read = {place: read_arguments(value, attributes).content for place, value in self.given.items()}
        plainly = {place: one for place, one in read.items() if words_of(place.key).isdisjoint(_PARAMETERS)}
        if any(one.capture in (Capture.CAPTURED, Capture.REDACTED) for one in plainly.values()):
            return plainly
        return read

    def own(self, attributes: Mapping[str, Any], name: str) -> tuple[ValuePlace, Content] | None:
        """Return what stands where the arguments of the tool of this name do; None where nothing does."""
        read = self._read_given(attributes)
        captured = {place: one for place, one in read.items() if one.capture is Capture.CAPTURED}
        if not captured:
            return next(((place, one) for place, one in read.items() if one is not NO_CONTENT), None)
        captured = {place: one for place, one in captured.items() if one.raw and not describes_parameters(one.raw)}
        if not captured:
            return None  # a schema, or nothing: that may as well say that arguments are not recorded
        plain = {place: found for place, one in captured.items() if (found := _without_envelope(one, name)) is not None}
        if plain:
            (place, found), *others = plain.items()
            unclear = any(one.raw != found.raw for _, one in others)
            return place, Content(found.raw, Capture.UNPARSABLE) if unclear else found
        place, found = next(iter(captured.items()))
        inside = place._replace(path=(*place.path, *_inner_keys(found.raw)[:1]))
        return inside, Content(found.raw, Capture.UNPARSABLE)

    @property
    def tool_in_request(self) -> tuple[ValuePlace, str] | None:
        """Return the tool that a request names, `{"name": ..., "arguments": ...}`, if the span names none."""
        if not is_tool_kind(self._span_name) and is_tool_name(tool_in(self._span_name)):
            return None
        for place, value in self.given.items():
            if is_mapping(value) and value.keys() - {"_meta"} == {"name", "arguments"}:
                return place._replace(path=(*place.path, "name")), str(value["name"])
        return None

    def returned(self) -> tuple[ValuePlace | None, MessageResult]:
        """Return what a tool returned, and where it stands: at a key about tools, else at the first of results."""
        of_tool = ((place, value) for place, value in self.results.items() if says_tool(place.key))
        place, result = next(of_tool, next(iter(self.results.items()), (None, None)))
        bound = unbound(result) if is_mapping(result) else None
        return place, returned_in(result if bound is None else bound)

    @property
    def of_model(self) -> bool:
        """Its kind says that it is a model's, it counts tokens, or has events of an LLM."""
        return self.is_of_llm or any(not _MODELS.isdisjoint(words_of(kind)) for kind in self.kinds)

    @property
    def told(self) -> Content:
        """Return what an agent was told, where its input is one text and no messages."""
        given = [value for place, value in self.given.items() if words_of(place.key).isdisjoint(("mime", "type"))]
        if not self.of_agent or len(given) != 1 or not isinstance(given[0], str):
            return NO_CONTENT
        return read_content(given[0])

    def first(self, fits: Callable[[ValuePlace], bool], alone: frozenset[str]) -> tuple[ValuePlace, str] | None:
        """Return the plainest of the short texts whose place fits; else of those in whose key one word is `alone`."""
        found = [(len(place.path), place.event != "", place, text) for place, text in self.texts.items() if fits(place)]
        if not found:
            found = [
                (len(place.path), place.event != "", place, text)
                for place, text in self.texts.items()
                if _ends_with(place, alone) and _NAME.fullmatch(text) and not is_tool_kind(text)
            ]
        return min(found)[2:] if found else None

    def note_messages(self, messages: list[Mapping[str, Any]], *, out: bool) -> None:
        """Keep the larger of two conversations; an output with messages of users is a transcript."""
        out = out and all(role_of(one) != "user" for one in messages)
        if _weight(messages) > _weight(self.spoken[out]):
            self.spoken[out] = messages

    def _note_text(self, place: ValuePlace, value: str, words: frozenset[str]) -> None:
        text = value.strip('"')
        if len(self.texts) < _MOST_TEXTS:
            self.texts[place] = text
        if not place.event and says_kind(place.key) and len(text) < 60:
            self._kinds["subtype" in words].append(text)
        named = not words.isdisjoint(ERROR_WORDS) and text.lower() not in NO_ERRORS
        if not place.event and (named or (text.lower() == "error" and "level" in words and "log" not in words)):
            self.error = self.error or text

    def _note_cut_repr(self, place: ValuePlace, value: str) -> None:
        """Take the short texts of a repr that is cut, or holds what is no literal."""
        if _CUT_REPR.match(value):
            for name, text in islice(_NAMED_TEXT.findall(value[: _SHORT * 10]), 8):
                self.texts.setdefault(ValuePlace(place.key, place.event, (name,)), text)

    def note_object(self, place: ValuePlace, value: Any, *, given: bool = False) -> None:
        """Note what may be arguments, and what is inside of it; `given` says that its key is one of arguments."""
        found = read_value(value)
        if is_sequence(found) and len(found) == 1:
            found, place = read_value(found[0]), place._replace(path=(*place.path, 0))
        if given:
            self.given[place] = found if is_mapping(found) else value
        if not is_mapping(found) or describes_parameters(found) or is_definition(found):
            return
        if len(self.objects) < _MOST_OBJECTS:
            self.objects[place] = found
        for name, inner in islice(found.items(), _MOST_MEMBERS if len(place.path) < 2 else 0):
            below = place._replace(path=(*place.path, str(name)))
            if isinstance(inner, str) and len(inner) <= _SHORT and len(self.texts) < _MOST_TEXTS:
                self.texts[below] = inner
            if isinstance(inner, dict | list | str):
                self.note_object(below, inner)


def _names_tool(place: ValuePlace) -> bool:
    """Say whether a key is that of a tool's name. `code.function.name` is where a span was started."""
    words = words_of(str(place.path[-1]) if place.path else place.key)
    return (
        "name" in words and not words.isdisjoint(CALL_WORDS) and words.isdisjoint({"agent", "model", "scope", "code"})
    )


def _holds_tool(place: ValuePlace) -> bool:
    return _names_tool(place) or _ends_with(place, _TOOL_ALONE)


def _names_call(place: ValuePlace) -> bool:
    words = words_of(str(place.path[-1]) if place.path else place.key)
    return "id" in words and not words.isdisjoint({"call", "tool", "toolcall"})


_TOOL_ALONE, _CALL_ALONE = frozenset({"tool", "function"}), frozenset({"call"})


def _ends_with(place: ValuePlace, alone: frozenset[str]) -> bool:
    """Say whether a key ends with one word that is one of these: `app.tool` may hold a name without saying so.

    `code.function` is where a span was started.
    """
    words = words_of(str(place.path[-1]) if place.path else place.key.rpartition(".")[2])
    return len(words) == 1 and words <= alone and "code" not in words_of(place.key)


_OF_CALLS = INPUT_WORDS.union(
    ("name", "id", "type", "class", "call", "tool", "config", "options", "run", "method", "str", "meta")
)


def _inner_keys(found: object) -> list[str]:
    """Return the keys under which an object may be an envelope around arguments, the likelier first."""
    items = found.items() if is_mapping(found) else ()
    keys = [key for key, value in items if is_mapping(value) and not words_of(key).isdisjoint(INPUT_WORDS)]
    return sorted(keys, key=lambda key: key != "kwargs")


def _without_envelope(arguments: Content, name: str) -> Content | None:
    """Return arguments that are in no envelope, or in one that has the tool's name; None where that is open."""
    found, inner = arguments.raw, _inner_keys(arguments.raw)
    if not is_mapping(found):
        return None
    if (bound := unbound(found)) is not None:
        return Content(bound, Capture.CAPTURED) if is_mapping(bound) else None
    if not inner or not ("kwargs" in inner or all(words_of(key) <= _OF_CALLS for key in found)):
        return arguments
    if len(inner) == 1 and len(found) > 1 and name and name in found.values():
        return Content(found[inner[0]], Capture.CAPTURED)
    return None


def look_at(view: SpanView, *, content: bool, is_marked: bool) -> SpanLook | None:
    """Return what a span says by the shape of its values; None if that is nothing, or it does other work."""
    attributes = view.attributes
    if any(isinstance(key, str) and OTHER_WORK.match(key) for key in attributes):  # pyright: ignore
        return None
    look = _look_at_values(view)
    if not is_marked:
        look.is_of_llm = look.is_of_llm or look.is_to_llm or _is_completion(attributes)
    model = _model_of(look, attributes)
    if model is None and look.is_empty:
        return None
    name = look.first(_names_tool, _TOOL_ALONE) or look.tool_in_request
    result_place, returned = look.returned()
    error = _error_of(look, view, returned)
    return SpanLook(
        view.name,
        view.scope_name,
        tuple(look.texts.items()),
        tuple(look.objects.items()),
        is_marked or are_of_agent(attributes),
        look.of_tool,
        look.of_agent,
        look.of_other,
        look.of_chain and any(look.spoken.values()),
        look.own(attributes, "" if name is None else name[1]),
        name,
        look.first(_names_call, _CALL_ALONE),
        model,
        _context_of(look, content=content),
        read_content(returned.content) if content else NO_CONTENT,
        result_place,
        error,
        is_named(error, view, returned.content),
    )


def _is_completion(attributes: Mapping[str, Any]) -> bool:
    """Say whether a span has a prompt and a completion: a model's, whatever they say."""
    words = frozenset[str]().union(*(words_of(key) for key in attributes))
    return not words.isdisjoint({"prompt", "prompts"}) and not words.isdisjoint({"completion", "completions"})


def _error_of(look: _Look, view: SpanView, returned: MessageResult) -> str | None:
    return look.error or error_of(view, view.attributes, _FAILURES) or ("error" if returned.failed else None)


def _may_be_argument(key: object) -> bool:
    """Say whether an attribute may be an argument by itself: it is named as one, by no namespace and no outcome."""
    return isinstance(key, str) and _NAME.fullmatch(key) is not None and OUTPUT_WORDS.isdisjoint(words_of(key))


def _look_at_values(view: SpanView) -> _Look:
    """Return the looks at each value of a span and of its events, with the messages among them."""
    look = _Look(view.name)
    for key, value in _unflattened(view.attributes).items():
        if isinstance(key, str) and value not in (None, "", [], {}) and not OWN_RESULTS.match(key):  # pyright: ignore
            look.add(key, value)
    plain = {key: value for key, value in view.attributes.items() if _may_be_argument(key)}
    if plain:
        look.objects[ValuePlace("")] = plain
    for event in view.events:
        _look_at_event(look, event)
    for out, messages in look.said.items():
        look.note_messages(messages, out=out)
    return look


def _context_of(look: _Look, *, content: bool) -> ContextFacts:
    """Return the user's text, and the `content` that other metrics read."""
    inputs, outputs = look.spoken[False], look.spoken[True]
    user_text = model_messages.end_of_input(inputs).user_text if inputs else look.told
    if not content:
        return ContextFacts(user_text)
    return ContextFacts(
        user_text,
        model_messages.last_answer(outputs) if outputs else NO_CONTENT,
        read_content(inputs) if inputs else NO_CONTENT,
        read_content(look.definitions),
    )


def _look_at_event(look: _Look, event: EventView) -> None:
    """Look at an event. Its attributes by the words of its name, too: `LLMChatEnd`, `gen_ai.choice`."""
    name, attributes = event.name, event.attributes
    words = words_of(name)
    if "exception" in words:
        look.error = look.error or str(attributes.get("exception.message") or "exception")
        return
    if name in model_messages.MESSAGE_EVENTS:
        message = model_messages.event_message(event)
        look.said.setdefault(name == model_messages.CHOICE, []).append(message)
        if role_of(message) == "tool":  # on a tool's own span these are what it was called with, and what it returned
            look.note_object(ValuePlace("content", name), attributes.get("content"), given=True)
        elif "message" in attributes:
            look.results.setdefault(ValuePlace("message", name), attributes["message"])
        return
    held = _unflattened(attributes)
    calls = next((value for key, value in held.items() if key.rpartition(".")[2] in {"tool_calls", "toolCalls"}), None)
    if calls is not None and is_sequence(requests := read_value(calls)):
        look.note_messages([{"role": "assistant", "tool_calls": requests}], out=True)
    for key, value in held.items():
        if value not in (None, "", [], {}):
            look.add(key, value, name)


def _model_of(look: _Look, attributes: Mapping[str, Any]) -> ModelFacts | None:
    """Return what a span says of a model call: by its messages, or as the kind of span that it says it is."""
    inputs, outputs = look.spoken[False], look.spoken[True]
    requests = model_messages.requests_in(outputs) if outputs else ()
    speaks = any(role_of(one) == "assistant" for one in outputs)
    if not requests and not speaks and not look.of_model:
        return None
    end = model_messages.end_of_input(inputs)
    if not requests and look.of_chain:
        return None  # what is around models repeats what they said
    is_mute = not requests and not speaks
    reasons = (value for key, value in attributes.items() if "finish" in words_of(str(key)))
    return ModelFacts(
        requests,
        end.answered,
        end.new_user_message,
        unseen_requests=not requests and any(map(asks_for_tools, reasons)),
        user_messages=end.user_messages,
        silent=is_mute,
        without_output=is_mute,
    )


_SESSIONS_IN_METADATA = ("session_id", "thread_id", "conversation_id", "sessionId", "threadId", "conversationId")


def _session_in_metadata(value: Any) -> Any:
    """Return the session's id in what a user gave a trace along."""
    found = read_value(value)
    return first_known(found.get(key) for key in _SESSIONS_IN_METADATA) if is_mapping(found) else None


BY_SHAPE = DialectTable(
    name=SHAPE,
    title="Anything else, by the shape of its spans",
    docs="https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/#execute-tool-span",
    rules=(),
    session_keys=(
        *("lmnr.association.properties.session_id", "langwatch.thread.id", "scope.agentic.session"),
        *("judgment.session_id", "respan.threads.thread_identifier", "respan.sessions.session_identifier"),
        *("mirascope.ops.session.id", "confident.trace.thread_id", "netra.session_id"),
    ),
    sessions_inside=(Source("metadata", take=_session_in_metadata),),
    extra_markers=frozenset(
        {
            *("span.type", "span.kind", "span_kind", "spanType", "operation.type", "gen_ai.span.kind"),
            *("agentops.span.kind", "lmnr.span.type", "langwatch.span.type", "honeyhive_event_type"),
            *("llamaindex.step.input_event", "haystack.component.output"),
            *("function.name", "function_name", "function.arguments", "function.args", "function_args"),
            *("arguments", "args", "input", "inputs", "input.value", "parameters", "params"),
        }
    ),
)
"""Has no rule: it names what else makes a trace an agent's, session ids that no words tell, and what to switch on."""
