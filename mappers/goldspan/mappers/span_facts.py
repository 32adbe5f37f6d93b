"""What goldspan keeps of a span: ids and times of each, and facts of those that a dialect recognises.

SpanView -> dialects -> SpanFacts -> assembly -> Session
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from hashlib import blake2b
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr, replace

from goldspan.mappers.spans import SpanOutline, UndecodedSpan
from goldspan.scoring.json_values import is_dict, is_mapping, is_sequence, loads, read_value
from goldspan.scoring.sessions import NO_CONTENT, Capture, Content, SpanRef, UserMessages

_FIRST = itemgetter(0)
_encode = msgspec.json.Encoder(order="sorted").encode
_DIGEST = 8
_DEEPEST = 32

Known = TypeVar("Known")


class Role(StrEnum):
    """What a recognised span stands for."""

    AGENT = "agent"
    """An invocation of an agent or of a workflow of agents; the outermost one is a turn."""
    MODEL = "model"
    """A call of a language model; its output holds requests for tools."""
    TOOL = "tool"
    """An execution of a tool."""


class ToolRequest(Struct, frozen=True, gc=False, omit_defaults=True):
    """A tool call in a model's output."""

    name: str
    arguments: Content
    call_id: str | None = None
    argument_captures: Mapping[str, Capture] | None = None
    """Single arguments whose value is hidden, by name."""
    pseudo: bool = False
    """Asks for something the framework does by itself, such as a hand-off: no call where no execution answers it."""
    failed: bool = False
    """The provider ran it itself, and the output says that it failed."""


class ToolFacts(Struct, frozen=True, gc=False, omit_defaults=True):
    """What a dialect read of one execution of a tool, or of an attempt at one."""

    name: str
    """As the framework's user knows the tool: affixes of the dialect are gone (R9)."""
    arguments: Content = NO_CONTENT
    """Captured arguments are a dict in `raw`; `value` is then that dict."""
    argument_captures: Mapping[str, Capture] | None = None
    call_id: str | None = None
    result: Content = NO_CONTENT
    error: str | None = None
    pseudo: bool = False
    """Made by the framework and not a call in the user's eyes: a hand-off, a merged span, a final answer (R5)."""
    merged: bool = False
    """A synthetic span that repeats others; never a call, whatever the configuration says."""
    evidence: tuple[SpanRef, ...] = ()
    """Other spans that hold content of this call, such as spans with its log records."""
    executed: bool = True
    """False if the span only records a request that was refused or awaits a person's decision."""
    named: bool = True
    """False if the name is that of the tool's class: a request with these arguments tells the tool's own."""
    repeats: tuple[str, ...] = ()
    """Of a `merged` span: the call ids of the parallel calls that it repeats, in the order of their requests."""
    error_is_named: bool = False
    """An attribute or the result says that the call failed, and not its span's status alone."""


class ModelFacts(Struct, frozen=True, gc=False, omit_defaults=True):
    """What a dialect read of one model call."""

    requests: tuple[ToolRequest, ...] = ()
    """From the output only, never from the input history (R3)."""
    answered: Mapping[str, bool] | None = None
    """Call ids that the *input* holds a result for, with whether that result is an error."""
    new_user_message: bool | None = None
    """The input ends with a user message (starts a turn) rather than with tool results; none where unknown."""
    unseen_requests: bool = False
    """The model requested tools, or its answer is hidden, and no request can be read."""
    user_messages: UserMessages | None = None
    """Counted only where the input ends with a user message; none where part of the input is missing."""
    silent: bool = False
    """Nothing tells whether tools were requested: no output is recorded, and this model's finish reasons never say."""
    without_output: bool = False
    """The span never holds an answer: which tools the model requested, only their executions tell."""
    response_id: str | None = None
    untold: bool = False
    """Neither an answer is recorded nor why it ended."""
    repeated: tuple[ToolRequest, ...] = ()
    """The requests with ids that the *input* repeats, and whose results it ends with."""

    @property
    def may_have_asked(self) -> bool:
        """The model requested tools, or may have, and no request can be read."""
        return not self.requests and (self.unseen_requests or self.without_output)


class ContextFacts(Struct, frozen=True, gc=False, omit_defaults=True):
    """Content that other metrics read. It is kept as recorded and decoded on first use."""

    user_text: Content = NO_CONTENT
    answer: Content = NO_CONTENT
    messages: Content = NO_CONTENT
    tool_definitions: Content = NO_CONTENT


NO_CONTEXT = ContextFacts()


SHAPE = "shape"
"""The name of the dialect of what is read by its shape."""


class ValuePlace(NamedTuple):
    """Where a span holds a value."""

    key: str
    event: str = ""
    """The span event that has the attribute; `""` for an attribute of the span."""
    path: tuple[str | int, ...] = ()
    """Keys and positions inside the attribute's value."""

    def __str__(self) -> str:
        key = f"event {self.event}: {self.key}" if self.event else self.key
        return " > ".join([key, *map(str, self.path)])


class SpanLook(Struct, frozen=True, gc=False, omit_defaults=True):
    """What a span says by the shape of its values, where no table reads it: nothing of it is decided yet."""

    name: str
    """The span's name."""
    scope: str
    texts: tuple[tuple[ValuePlace, str], ...] = ()
    """Short texts: what may be a name, an id or a kind."""
    objects: tuple[tuple[ValuePlace, Any], ...] = ()
    """Objects that may be arguments."""
    names_agent: bool = False
    """Its keys are an agent's, by a dialect or by their words."""
    of_tool: bool = False
    """Its kind says that it is a tool's, or the keys of a name and of arguments do."""
    of_agent: bool = False
    of_other: bool = False
    """Its kind says that it is an agent's, a chain's, a retriever's or the like, and no tool's."""
    of_transcript: bool = False
    """It is a chain's with a conversation: alone in its trace it stands for an agent."""
    own: tuple[ValuePlace, Content] | None = None
    """What stands where arguments do; unparsable where that may be an envelope around them (R2)."""
    tool_name: tuple[ValuePlace, str] | None = None
    """The text whose key says that it is a tool's name."""
    call_id: tuple[ValuePlace, str] | None = None
    """The text whose key says that it is a call's id."""
    model: ModelFacts | None = None
    """What its messages say of a model call."""
    context: ContextFacts = NO_CONTEXT
    result: Content = NO_CONTENT
    result_place: ValuePlace | None = None
    error: str | None = None
    error_is_named: bool = False


# What a span says by its content alone, with no instrumentation named: a reading is held against it.
#
# Names of tools and arguments, ids and digests, so that it is small. It is filled from the shape of values, in
# `dialects/reading/evidence_reading.py`, and never by a dialect's table, whose mistakes it is to show.


class RequestEvidence(Struct, frozen=True, gc=False, omit_defaults=True):
    """A tool call that a model's output asks for."""

    name: str
    call_id: str | None = None
    arguments: str = ""
    """The digest of the arguments; `""` where they are not recorded as an object."""
    names: tuple[str, ...] = ()
    """The names of the arguments."""
    response: int = 0
    """Requests of one span with the same number are of one response of the model."""


class ResultEvidence(Struct, frozen=True, gc=False, omit_defaults=True):
    """A tool's result as the next model call was shown it."""

    call_id: str | None = None
    name: str | None = None
    failed: bool | None = None
    """It is marked as an error, or its text names one; none where that is not known."""


class SpanEvidence(Struct, frozen=True, gc=False, omit_defaults=True):
    """What the values of one span say."""

    requests: tuple[RequestEvidence, ...] = ()
    """In its output."""
    results: tuple[ResultEvidence, ...] = ()
    """In its input, after the model's last message there."""
    continues: bool | None = None
    """Its input ends with results of tools rather than with a user's message; none where it holds neither."""
    users: tuple[str, ...] | None = None
    """Digests of the user's messages in its input, in order; none unless it ends with one and is recorded whole."""
    system: str = ""
    """The digest of what the system told the model, beside `users`; `""` where it told nothing."""
    first_and_last_user: tuple[str, ...] = ()
    """Digests of the user's first and last messages in its input, where the input is recorded whole."""
    answers: bool = False
    """It holds an output of a model."""
    wrote: str = ""
    """The digest of the text that it answered, if that asks for no tool and is long enough to tell where it goes."""
    asks_in_text: bool = False
    """Its output is a text that asks for a tool, as models do that are told how in their prompt, or is cut there."""
    arguments: tuple[str, ...] = ()
    """Digests of the objects that stand where a tool's arguments do, the outer ones first."""
    failed: bool | None = None
    """What the span itself holds as a tool's result is or names an error; none where that is not known."""
    names_error: bool = False
    """An attribute or event of its own names an error, whatever its status is."""
    status: str | None = None
    """The digest of the message of its error status; none of any other status."""
    sessions: tuple[tuple[str, str], ...] = ()
    """Attributes that hold the id of a session or a conversation by their names, with the id."""
    may_be_user: bool = False
    """Its input ends with a text in the user's name where results are awaited, and nothing says which it is."""
    with_arguments: tuple[str, ...] = ()
    """The ids of the calls with arguments that its input repeats as the model's last request."""
    speaks: bool = False
    """Its output is a text, however short, and no request."""


NO_EVIDENCE = SpanEvidence()


def value_digest(value: Any) -> str:
    """Return a digest that is the same for equal values: without nulls, whole numbers by value."""
    try:
        content = _encode(_canonical(value, _DEEPEST))
    except (TypeError, ValueError, OverflowError, RecursionError):  # a lone surrogate, an object of the sender's own
        content = repr(value).encode(errors="replace")
    return blake2b(content, digest_size=_DIGEST).hexdigest()


_AS_THEY_ARE = frozenset({str, int, bool})


def _canonical(value: Any, depth: int) -> Any:
    if type(value) in _AS_THEY_ARE:
        return value
    if is_dict(value) and _AS_THEY_ARE.issuperset(map(type, value.values())):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if not depth:
        return None
    if is_mapping(value):
        return {key: _canonical(inner, depth - 1) for key, inner in value.items() if inner is not None}
    return [_canonical(inner, depth - 1) for inner in value] if is_sequence(value) else value


_LITERALS: Mapping[str, bool | None] = {"None": None, "True": True, "False": False}


def says_as_texts(held: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    """Say whether arguments are others with some values as texts: `{"days": "3"}` for `{"days": 3}`."""
    if held == values or value_digest(held) == value_digest(values):
        return False
    return all(_says(held.get(key), values.get(key)) for key in held.keys() | values.keys())


def read_as_values(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with what their texts read as: the same for two of which `says_as_texts` is true."""
    return {key: _read(value) if isinstance(value, str) else value for key, value in arguments.items()}


def _says(held: Any, value: Any) -> bool:
    if held == value or isinstance(value, str) or not isinstance(held, str):
        return value_digest(held) == value_digest(value)
    if held in _LITERALS:
        return value is _LITERALS[held]
    return value_digest(_read(held)) == value_digest(value)


def _read(text: str) -> Any:
    if text in _LITERALS:
        return _LITERALS[text]
    try:
        return loads(text)
    except (ValueError, RecursionError):
        return read_value(text)


# What is kept of a span, of many plain ones, and of a log record.


class ResourceFacts(Struct, frozen=True, gc=False, omit_defaults=True):
    """What is kept of a resource; one object for all spans of a source."""

    service_name: str | None = None
    environment: str | None = None
    session_keys: tuple[tuple[str, str], ...] = ()
    run_id: str | None = None
    join_attributes: tuple[tuple[str, Any], ...] = ()
    """Attributes that goldens may join on, where the resource has them."""
    service_version: str | None = None


NO_RESOURCE = ResourceFacts()


class SpanFacts(Struct, frozen=True, gc=False, omit_defaults=True):
    """One span as goldspan keeps it. Without a `role` it only links other spans.

    Two deliveries of one span are the same record; of two versions the greater `version` wins (R4), so that
    which one came first never matters.
    """

    trace_id: str
    span_id: str
    parent_id: str
    start: int
    end: int
    version: tuple[int, int, str] = (0, 0, "")
    """End, number of attributes where some are known, and a text of the content that breaks the last ties."""
    role: Role | None = None
    dialect: str = ""
    agent: str | None = None
    tool: ToolFacts | None = None
    model: ModelFacts | None = None
    context: ContextFacts = NO_CONTEXT
    session_keys: tuple[tuple[str, str], ...] = ()
    """All session attributes of the span, in order of precedence (R6)."""
    turn_id: str | None = None
    turn_number: int | None = None
    """The dialect's own number of the turn in its session, from 1."""
    run_id: str | None = None
    join_attributes: Mapping[str, Any] | None = None
    """Attributes that goldens may join on, such as `test.case.name`."""
    no_turn: bool = False
    """Recognised, but never the start of a turn: agent construction, an MCP server of its own (R7)."""
    hides_calls: bool = False
    """Tools ran under this span, and its dialect writes no spans for them: "no calls" must not be concluded."""
    entry: bool = False
    """Its parent is in another process: a server or consumer span, or OTLP's `CONTEXT_IS_REMOTE` flag."""
    resource: ResourceFacts = NO_RESOURCE
    notes: tuple[LogFacts, ...] = ()
    """Content for spans in other traces, to which this span is linked."""
    evidence: SpanEvidence = NO_EVIDENCE
    """What its values say, whatever a dialect read of them."""
    look: SpanLook | None = None
    """What it says by its shape, where no table reads it, or not all of it."""
    lost: bool = False
    """It stands for a span that could not be read, so that its trace, or else its session, is incomplete."""

    @property
    def ref(self) -> SpanRef:
        """The span's identity."""
        return SpanRef(self.trace_id, self.span_id)

    def changed(self, **changes: Any) -> SpanFacts:
        """Return these facts with other values of some fields."""
        return replace(self, **changes)

    def supersedes(self, other: SpanFacts) -> bool:
        """Say whether this is the version of a span to keep (R4): by `version`, and between equals by content."""
        if self.version != other.version:
            return self.version > other.version
        return self != other and _content_text(self) > _content_text(other)


def asks_unread(span: SpanFacts) -> bool:
    """Say whether a model's output holds requests that its table did not read."""
    return (
        span.role is Role.MODEL and span.model is not None and not span.model.requests and bool(span.evidence.requests)
    )


class LazySpanFacts(SpanFacts, frozen=True, gc=False, kw_only=True):
    """Facts of a recognised span whose content is read when it is first used.

    Most sessions in recorded traffic have no golden: a replay of such traffic takes a tenth less CPU this way.
    """

    content: Callable[[], SpanFacts] | SpanFacts
    """Reads the span; the facts that it returned, once they were used."""

    @property
    def is_read(self) -> bool:
        """The content was used."""
        return isinstance(self.content, SpanFacts)

    def read(self) -> SpanFacts:
        """Return the same facts with their content."""
        return SpanFacts(*[getattr(self, name) for name in SpanFacts.__struct_fields__])

    def read_by(self, content: Callable[[], SpanFacts]) -> LazySpanFacts:
        """Return the same facts with another reader of their content."""
        facts = copy.copy(self)
        force_setattr(facts, "content", content)
        return facts

    def changed(self, **changes: Any) -> SpanFacts:
        """Return the same facts, with their content, and with other values of some fields."""
        return self.read().changed(**changes)

    def __eq__(self, other: object) -> bool:
        return self.read() == (other.read() if isinstance(other, LazySpanFacts) else other)

    __hash__ = SpanFacts.__hash__

    def __repr__(self) -> str:
        return repr(self.read())

    def __reduce__(self) -> Any:
        return self.read().__reduce__()


def _read_first(name: str) -> property:
    own: Callable[[SpanFacts], Any] = vars(SpanFacts)[name].__get__

    def field(facts: LazySpanFacts) -> Any:
        if facts.role is None and name not in {"look", "evidence"}:
            return own(facts)  # of a span that no table reads, only its shape is read later
        content = facts.content
        if not isinstance(content, SpanFacts):
            content = content()
            force_setattr(facts, "content", content)
        return getattr(content, name)

    return property(field)


_DEFERRED = ("dialect", "agent", "tool", "model", "context", "hides_calls", "evidence", "look")

for _name in _DEFERRED:
    setattr(LazySpanFacts, _name, _read_first(_name))


class PlainSpanFacts(Struct, frozen=True, gc=False, eq=False):
    """Plain spans of one trace and one source. They are decoded when the ancestors of a recognised span are needed."""

    trace_id: str
    undecoded: Sequence[UndecodedSpan]
    skeleton: Callable[[UndecodedSpan], SpanOutline]
    resource: ResourceFacts = NO_RESOURCE

    def __len__(self) -> int:
        return len(self.undecoded)

    def ids(self) -> Iterator[str]:
        """Yield the id of each of these spans."""
        return map(_FIRST, self.undecoded)

    def read(self) -> Iterator[SpanOutline]:
        """Yield the outline of each span."""
        return map(self.skeleton, self.undecoded)

    def fact(self, skeleton: SpanOutline) -> SpanFacts:
        """Return one of them as facts."""
        span_id, parent_id, start, end, entry = skeleton
        return SpanFacts(
            self.trace_id, span_id, parent_id, start, end, (end, 0, ""), entry=entry, resource=self.resource
        )


def _content_text(facts: SpanFacts) -> str:
    try:
        return repr(facts)
    except (ValueError, RecursionError):  # an integer of thousands of digits, a value nested without end
        return ""


class LogFacts(Struct, frozen=True, gc=False, omit_defaults=True):
    """What a dialect read of a log record that belongs to a span: content that the span itself does not hold (R11)."""

    trace_id: str
    span_id: str
    """The span in which it was written; `""` if only the trace is known."""
    identity: str
    """Tells log records apart and puts them in order where times do not: a digest of the record."""
    time: int = 0
    dialect: str = ""
    model: ModelFacts | None = None
    whole: bool = False
    """The record holds the whole input and output of its model call, not one message."""
    own_message: bool = False
    """The record is an earlier answer of the model, repeated in its input. Messages before it are history."""
    tools: tuple[ToolFacts, ...] = ()
    """Executions of tools, joined to their spans by call id; the name is `""` where the record has none."""
    context: ContextFacts = NO_CONTEXT
    session_keys: tuple[tuple[str, str], ...] = ()
    turn_id: str | None = None
    said_by: SpanRef | None = None
    """The span that holds the content, if it belongs to another trace."""
    users: tuple[str, ...] | None = None
    """Digests of what users said in the input, as in `SpanEvidence`; so are the next two."""
    system: str = ""
    wrote: str = ""

    @property
    def evidence(self) -> tuple[SpanRef, ...]:
        """The span that holds the content; empty if only the trace is known."""
        if self.said_by is not None:
            return (self.said_by,)
        return (SpanRef(self.trace_id, self.span_id),) if self.span_id else ()


Record = SpanFacts | LogFacts
"""What the engine and assembly take in."""


def first_captured(copies: Iterable[Content]) -> Content:
    """Return the first captured copy of some content, else the first copy with a reason (R10)."""
    known = NO_CONTENT
    for one in copies:
        if one.capture is Capture.CAPTURED:
            return one
        if known.capture is Capture.NOT_CAPTURED:
            known = one
    return known


def first_known(values: Iterable[Known | None]) -> Known | None:
    """Return the first value that is neither none nor empty; none if there is no such."""
    return next(filter(None, values), None)


# What several dialects, spans or log records say of one thing: of each value the first that is known (R10).


def joined_tool(tools: Sequence[ToolFacts]) -> ToolFacts:
    """Return the first of these facts of one execution, with what the others have where it says nothing."""
    arguments = first_captured(tool.arguments for tool in tools)
    return replace(
        tools[0],
        arguments=arguments,
        argument_captures=next((tool.argument_captures for tool in tools if tool.arguments is arguments), None),
        call_id=first_known(tool.call_id for tool in tools),
        result=first_captured(tool.result for tool in tools),
        error=first_known(tool.error for tool in tools),
        executed=all(tool.executed for tool in tools),
        repeats=first_known(tool.repeats for tool in tools) or (),
        error_is_named=any(tool.error_is_named for tool in tools),
    )


def joined_model(models: Sequence[ModelFacts]) -> ModelFacts:
    """Return what these facts say together of one model call."""
    requests = first_known(model.requests for model in models) or ()
    return ModelFacts(
        requests,
        first_known(model.answered for model in models),
        next(filter(_is_told, (model.new_user_message for model in models)), None),
        not requests and any(model.unseen_requests for model in models),
        user_messages=next(filter(_is_told, (model.user_messages for model in models)), None),
        silent=all(model.silent for model in models),
        without_output=not requests and any(model.without_output for model in models),
        response_id=first_known(model.response_id for model in models),
        repeated=first_known(model.repeated for model in models) or (),
    )


def _is_told(value: object) -> bool:
    return value is not None


def joined_context(contexts: Sequence[ContextFacts]) -> ContextFacts:
    """Return of each content the first that was captured."""
    return ContextFacts(
        first_captured(one.user_text for one in contexts),
        first_captured(one.answer for one in contexts),
        first_captured(one.messages for one in contexts),
        first_captured(one.tool_definitions for one in contexts),
    )


def content_size(record: Record) -> int:
    """Return the characters of messages, definitions of tools, results and answers in a record, about."""
    tools = record.tools if isinstance(record, LogFacts) else () if record.tool is None else (record.tool,)
    context = record.context
    contents = (context.user_text, context.answer, context.messages, context.tool_definitions)
    return sum(_characters(one.raw) for one in (*contents, *(tool.result for tool in tools)) if one.raw is not None)


def _characters(value: object) -> int:
    if isinstance(value, str):
        return len(value)
    size = 0
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            size += len(one)
        elif is_mapping(one):
            size += sum(map(len, one))
            waiting += one.values()
        elif is_sequence(one):
            waiting += one
        size += _NODE
    return size


_NODE = 16  # characters that a number, or an object around others, counts as
