"""A dialect as a table: which attribute means what.

    rules            -> role of the span
    name, arguments, call_id, result, error flags  -> ToolFacts
    output, input    -> ModelFacts
    user_text, answer, messages, tool_definitions  -> context
    log_scope, tool_log_events                     -> which log records are its own

What a table cannot say goes into its hooks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from msgspec.structs import replace

from goldspan.mappers.dialects.reading.evidence_reading import system_in, users_in, wrote_in
from goldspan.mappers.dialects.reading.log_records import MESSAGE_EVENTS, event_name, log_as_span, messages_in_log
from goldspan.mappers.dialects.reading.model_messages import (
    CHOICE,
    InputEnd,
    are_garbled,
    end_of_input,
    last_answer,
    last_user_text,
    requests_in,
    says_nothing,
)
from goldspan.mappers.dialects.reading.protocol import Advice, LogReading, Reading
from goldspan.mappers.dialects.reading.value_parsing import (
    NO_ARGUMENTS,
    REDACTION_TOKENS,
    Arguments,
    Unwrap,
    identifier,
    is_redacted,
    out_of_envelope,
    positive_number,
    read_arguments,
    read_content,
    session_identifier,
    session_identifiers,
)
from goldspan.mappers.span_facts import ContextFacts, ModelFacts, Role, ToolFacts, ToolRequest
from goldspan.mappers.spans import NO_ATTRIBUTES, STATUS_ERROR, Attributes, LogView, SpanView
from goldspan.scoring.json_values import is_mapping, is_sequence
from goldspan.scoring.messages import MessageResult, begins_as_error, result_of
from goldspan.scoring.sessions import Capture, Content

# What a dialect's table is made of: rules that recognise spans, and sources of values.


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition on a span and the role it gives; the first rule of a table that holds is the span's."""

    role: Role | None
    key: str = ""
    """An attribute that must be there; none for a rule about spans without any attribute."""
    values: frozenset[str] | None = None
    """The attribute's value must be one of these texts. None allows any value."""
    also: tuple[str, ...] = ()
    """Attributes that must be there too. The first of them, where there is one, is the marker of this rule."""
    without: tuple[str, ...] = ()
    """Attributes that must not be there."""
    scope: str | tuple[str, ...] = ""
    """The scope's name must start with this or, of several, with one. Needed where dialects share attributes."""
    name_prefix: str = ""
    """The span's name must start with this."""
    name_suffix: str = ""
    """The span's name must end with this."""
    kind: int = 0
    """The required span kind, such as 2 for a server; 0 allows any."""
    parent: bool | None = None
    """Whether the span must have a parent, or must have none."""
    no_turn: bool = False
    hides_calls: bool = False
    holds_model_output: bool = False
    """This agent span holds the tool requests of its models, and no other span does."""
    without_output: bool = False
    """This model span never holds the model's answer. Tools that run next were requested by it (R8)."""
    pseudo: bool = False
    """A tool span that is no call of the user's (R5)."""
    silent: bool = False
    """Finish reasons of these models never tell whether they requested tools."""

    @property
    def marker(self) -> str:
        """The attribute that a span must have for this rule to be looked at; `""` where it must have none."""
        return self.also[0] if self.also else self.key

    def narrowed(self, keys: frozenset[str], scope: str) -> Self | None:
        """Return what is still to be asked of a span with this scope and, of the keys that tables name, these.

        None if this rule cannot hold for it. A rule with a `holds` of its own stays as it is.
        """
        if self.marker not in keys or not scope.startswith(self.scope):
            return None
        if type(self).holds is not Rule.holds:
            return self
        known = not self.key or self.key in keys
        if not known or not keys.issuperset(self.also) or not keys.isdisjoint(self.without):
            return None
        return dataclasses.replace(self, also=(), without=(), scope="")

    def holds(self, span: SpanView, attributes: Attributes) -> bool:
        """Say whether this rule holds."""
        if self.key:
            value = attributes.get(self.key)
            if value is None or (self.values is not None and not (isinstance(value, str) and value in self.values)):
                return False
        for key in self.also:
            if key not in attributes:
                return False
        for key in self.without:
            if key in attributes:
                return False
        return self._fits(span)

    def _fits(self, span: SpanView) -> bool:
        if self.name_prefix and not span.name.startswith(self.name_prefix):
            return False
        if self.name_suffix and not span.name.endswith(self.name_suffix):
            return False
        if self.scope and not span.scope_name.startswith(self.scope):
            return False
        if self.parent is not None and self.parent is not bool(span.parent_id):
            return False
        return not self.kind or span.kind == self.kind


# Where a dialect table finds its values.


@dataclass(frozen=True, slots=True)
class Source:
    """Where a value is found: an attribute, an attribute of a span event, or several of them combined."""

    key: str = ""
    event: str = ""
    """The event's name; of several events of this name the last that has the attribute."""
    compute: Callable[[SpanView, Attributes], Any] | None = None
    """Builds the value from several attributes or events; `key` then only documents it."""
    take: Callable[[Any], Any] | None = None
    """Extracts the wanted part of the recorded value; returns None if the value has another form."""
    unwrap: Unwrap | None = None
    """The envelope around arguments."""
    unwrap_by_scope: Mapping[str, Unwrap] | None = None
    """Envelopes that only these instrumentation scopes use."""
    python_repr: bool = True
    """The value may be a Python literal where JSON is expected: a program wrote `str(arguments)`."""

    def value(self, span: SpanView, attributes: Attributes) -> Any:
        """Return the value, or none."""
        if self.compute is not None:
            found = self.compute(span, attributes)
        elif self.event:
            found = self._in_events(span)
        else:
            found = attributes.get(self.key)
        return found if found is None or self.take is None else self.take(found)

    def may_have_value(self, keys: frozenset[str]) -> bool:
        """Say whether there can be a value in a span that has, of the keys that tables name, these."""
        return self.compute is not None or bool(self.event) or self.key in keys

    def _in_events(self, span: SpanView) -> Any:
        for event in reversed(span.events):
            if event.name == self.event and (value := event.attributes.get(self.key)) is not None:
                return value
        return None

    def envelope(self, span: SpanView) -> Unwrap | None:
        """Return the envelope this span's instrumentation uses."""
        if self.unwrap_by_scope:
            return self.unwrap_by_scope.get(span.scope_name, self.unwrap)
        return self.unwrap


Sources = tuple[Source, ...]


def first_value(sources: Sources, span: SpanView, attributes: Attributes) -> Any:
    """Return the value of the first source that has one."""
    for source in sources:
        if (value := source.value(span, attributes)) is not None:
            return value
    return None


def first_text(attributes: Attributes, keys: tuple[str, ...]) -> str | None:
    """Return the first non-empty text under one of these keys."""
    for key in keys:
        value = attributes.get(key)
        if isinstance(value, str) and value:
            return value
    return None


# Call status: failed (R12), only attempted, or a model that stopped to call tools.

_MAX_ERROR = 200
_TRACEBACK = "Traceback (most recent call last)"


def error_of(span: SpanView, attributes: Attributes, flags: tuple[tuple[str, object], ...] = ()) -> str | None:
    """Return why the span failed: `error.type`, else the status message, else an exception's type (R12)."""
    error_type = attributes.get("error.type")
    named = error_type if isinstance(error_type, str) and error_type else None
    if span.status_code != STATUS_ERROR:
        if named is not None or any(_is_flag(attributes.get(key), value) for key, value in flags):
            return named or "error"
        return None
    if named is not None:
        return named
    if message := span.status_message.strip():
        return message.partition(_TRACEBACK)[0].partition("\n")[0].strip()[:_MAX_ERROR] or "error"
    return _raised(span) or "error"


def _raised(span: SpanView) -> str | None:
    """Return the type of the first exception in a span's events; Go's `RecordError` leaves the status alone."""
    raised = [event.attributes.get("exception.type") for event in span.events if event.name == "exception"]
    return next((kind for kind in raised if isinstance(kind, str) and kind), "error") if raised else None


def is_named(error: str | None, span: SpanView, returned: object) -> bool:
    """Say whether an attribute, the result or an exception names the error, and not the span's status alone."""
    if error is None:
        return False
    if any(event.name == "exception" for event in span.events):
        return True
    try:
        text = str(returned)
    except ValueError:  # an integer with more digits than Python writes
        text = ""
    return error in text or (error[:4] == text[:4] and error.startswith(text)) or error != error_of(span, NO_ATTRIBUTES)


def returned_in(recorded: Any) -> MessageResult:
    """Return what a tool returned, out of the message that may be around it, and whether that is an error."""
    return result_of(recorded) or MessageResult(content=recorded, failed=begins_as_error(recorded))


def _is_flag(found: object, expected: object) -> bool:
    return type(found) is type(expected) and found == expected


# Some frameworks write a tool span before a person approves the call. These hooks mark it as not executed.

_OPENAI_AGENTS = "openai_agents"


def undecided_without_result(span: SpanView, _: Attributes, tool: ToolFacts) -> ToolFacts:
    """Take a call without result or error for one that awaits approval: so the OpenAI Agents SDK ends its span.

    A tool that returns nothing looks the same; its calls are requests then, which count as calls all the same.
    """
    silent = tool.error is None and tool.result.capture is Capture.NOT_CAPTURED
    if silent and tool.arguments.capture is Capture.CAPTURED and span.scope_name.endswith(_OPENAI_AGENTS):
        return replace(tool, executed=False)
    return tool


_GEMINI = frozenset({"gemini", "gcp.gemini", "gcp.vertex_ai", "vertex_ai"})
"""Providers whose finish reason is `STOP`, with tool calls and without."""


def _says_no_reason(attributes: Attributes) -> bool:
    """Say whether nothing tells why a model stopped; a framework above it may know better.

    `completed` is the status of an answer of the Responses API, with tool calls and without.
    """
    reasons = [value for key, value in attributes.items() if "finish" in str(key)]
    return attributes.get("gen_ai.provider.name") in _GEMINI or all(map(_is_status, reasons))


def _is_status(reason: object) -> bool:
    return reason == "completed" or (is_sequence(reason) and all(one == "completed" for one in reason))


def error_message_for(*vague: str) -> Callable[[SpanView, Attributes, ToolFacts], ToolFacts]:
    """Return a hook that takes `error.message` in the place of these values of `error.type`, which say little."""

    def with_message(_: SpanView, attributes: Attributes, tool: ToolFacts) -> ToolFacts:
        message = attributes.get("error.message")
        if tool.error in vague and isinstance(message, str) and message.strip():
            return replace(tool, error=message.strip().partition("\n")[0][:_MAX_ERROR])
        return tool

    return with_message


# The finish reason tells whether a model requested tools. It is recorded even if content capture is off.

_KEYS = (
    *("gen_ai.response.finish_reasons", "gen_ai.response.finish_reason", "llm.finish_reason"),
    *("ai.response.finishReason", "gen_ai.completion.0.finish_reason"),
)
_ASKING = ("tool_call", "tool_use", "tool-call", "function_call", "tool_execution")


def asked_for_tools(attributes: Attributes) -> bool:
    """Return whether a finish reason, as a text, a list or JSON text, says that the model requested tools."""
    return any(asks_for_tools(attributes.get(key)) for key in _KEYS)


def asks_for_tools(reason: object) -> bool:
    """Say whether this finish reason says so."""
    texts = () if reason is None else reason if is_sequence(reason) else (reason,)
    return any(isinstance(text, str) and any(word in text.lower() for word in _ASKING) for text in texts)


_RESPONSE_IDS = ("gen_ai.response.id", "ai.response.id")


@dataclass(frozen=True, slots=True)
class Affixes:
    """What a dialect adds to a tool's name."""

    prefixes: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()

    def strip(self, name: str) -> str:
        """Return the name as the framework's user knows it (R9); never an empty one."""
        for prefix in self.prefixes:
            name = name.removeprefix(prefix) or name
        for suffix in self.suffixes:
            name = name.removesuffix(suffix) or name
        return name


@dataclass(frozen=True, slots=True)
class Elision:
    """`{}` for arguments means that content capture is off if the `witness` attribute is `{}` or missing, too."""

    witness: str


_KEY_FIELDS = ("tool_name", "agent", "turn_id", "session_keys")
_SOURCE_FIELDS = (
    *("arguments", "call_id", "result", "output", "input", "user_text", "answer", "messages", "tool_definitions"),
    *("turn_number", "sessions_inside"),
)


@dataclass(frozen=True, slots=True)
class DialectTable:
    """A dialect as a table; it is a `Dialect`."""

    name: str
    rules: tuple[Rule, ...]
    title: str = ""
    docs: str = ""
    advice: Advice | tuple[Advice, ...] = ()
    """What to switch on; of several, the first for the user's language and instrumentation scope."""

    tool_name: tuple[str, ...] = ()
    """Attributes that name the tool, in order. Without one, the span's name is used."""
    name_affixes: Affixes = Affixes()
    """Affixes of the attribute's value."""
    span_name_affixes: Affixes = Affixes()
    """Affixes of the span's name."""
    arguments: Sources = ()
    flattened_arguments: str = ""
    """A prefix of attributes that hold one argument each."""
    elision: Elision | None = None
    redaction_tokens: frozenset[str] = REDACTION_TOKENS
    call_id: Sources = ()
    result: Sources = ()
    error_flags: tuple[tuple[str, object], ...] = ()
    """Attributes and their values that mark the call as failed, whatever the span status is (R12)."""
    pseudo_tools: frozenset[str] = frozenset()
    merged_tools: frozenset[str] = frozenset()
    """Names of synthetic spans that repeat others (R5)."""

    pseudo_requests: tuple[str, ...] = ()
    """Prefixes of tool names that the framework handles by itself, such as a hand-off."""

    output: Sources = ()
    """A model's output messages."""
    input: Sources = ()
    """A model's input messages."""
    user_text: Sources = ()
    """Used for spans whose input holds no user message."""
    answer: Sources = ()
    """Used for spans whose output holds no message."""
    messages: Sources = ()
    """The whole conversation. Without one, the input is used."""
    tool_definitions: Sources = ()

    agent: tuple[str, ...] = ()
    turn_id: tuple[str, ...] = ()
    turn_number: Sources = ()
    """The number of an agent's turn in its session, from 1."""
    session_keys: tuple[str, ...] = ()
    sessions_inside: Sources = ()
    """Session ids inside longer values, under the key of each source. Live doors read each span with such a key."""
    extra_markers: frozenset[str] = frozenset()

    log_scope: str | None = None
    """Log records whose scope name starts with this hold messages in OpenTelemetry's format."""
    tool_log_events: frozenset[str] = frozenset()
    """Events of that scope that describe a tool execution, with the attributes of the dialect's tool spans."""

    request_name: Callable[[str], str] | None = None
    """Converts a requested tool's name to the name its user knows (R9)."""
    tool_hook: Callable[[SpanView, Attributes, ToolFacts], ToolFacts] | None = None
    """Changes or completes the facts of a tool span."""

    markers: frozenset[str] = field(init=False)
    named_keys: frozenset[str] = field(init=False)
    """All attributes that it looks for by their whole key, the markers among them."""
    bare_scopes: frozenset[str] = field(init=False)
    """Scopes whose spans are read even if they have no attributes."""
    log_events: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        keys = {rule.marker for rule in self.rules}.union(self.turn_id, self.session_keys)
        inside = frozenset(source.key for source in self.sessions_inside)
        object.__setattr__(self, "markers", frozenset(keys - {""}) | self.extra_markers | inside)
        named = {key for rule in self.rules for key in (rule.key, *rule.also, *rule.without)}
        named.update(key for name in _KEY_FIELDS for key in getattr(self, name))
        named.update(source.key for name in _SOURCE_FIELDS for source in getattr(self, name))
        named.update(key for key, _ in self.error_flags)
        object.__setattr__(self, "named_keys", self.markers.union(named) - {""})
        bare = {rule.scope for rule in self.rules if not (rule.key or rule.also) and isinstance(rule.scope, str)}
        object.__setattr__(self, "bare_scopes", frozenset(bare))
        messages = frozenset[str]() if self.log_scope is None else MESSAGE_EVENTS
        object.__setattr__(self, "log_events", messages | self.tool_log_events)

    def knows(self, keys: frozenset[str], scope: str) -> bool:
        """Say whether a rule is about spans with this scope and one of these keys, or a key is of a turn or session."""
        rules = (rule.marker in keys and scope.startswith(rule.scope) for rule in self.rules)
        inside = (source.key for source in self.sessions_inside)
        return any(rules) or not keys.isdisjoint((*self.turn_id, *self.session_keys, *inside))

    def narrowed(self, keys: frozenset[str], scope: str) -> DialectTable | None:
        """Return this table without all that a span with this scope lacks, if of `named_keys` it has these.

        None if nothing is left that recognises a span or a session.
        """
        rules = tuple(dict.fromkeys(rule for one in self.rules if (rule := one.narrowed(keys, scope)) is not None))
        left: dict[str, Any] = {name: tuple(key for key in getattr(self, name) if key in keys) for name in _KEY_FIELDS}
        for name in _SOURCE_FIELDS:
            left[name] = tuple(source for source in getattr(self, name) if source.may_have_value(keys))
        if not (rules or left["turn_id"] or left["session_keys"] or left["sessions_inside"]):
            return None
        left["error_flags"] = tuple(flag for flag in self.error_flags if flag[0] in keys)
        return dataclasses.replace(self, rules=rules, **left)

    def outline(self, span: SpanView) -> Reading | None:
        """Read what a span is, without its content."""
        rule, turn_id, session_keys = self._recognised(span, span.attributes)
        if rule is None or rule.role is None:
            return Reading(turn_id=turn_id, session_keys=session_keys) if turn_id or session_keys else None
        return Reading(rule.role, session_keys=session_keys, turn_id=turn_id, no_turn=rule.no_turn)

    def _recognised(
        self, span: SpanView, attributes: Attributes
    ) -> tuple[Rule | None, str | None, tuple[tuple[str, str], ...]]:
        rule = None
        for one in self.rules:
            if one.holds(span, attributes):
                rule = one
                break
        turn_id = first_text(attributes, self.turn_id) if self.turn_id else None
        sessions = self._sessions(attributes) if self.session_keys else ()
        if self.sessions_inside:
            inside = (
                (source.key, session_identifier(source.value(span, attributes))) for source in self.sessions_inside
            )
            sessions = (*sessions, *((key, found) for key, found in inside if found is not None))
        return rule, turn_id, sessions

    def read(self, span: SpanView) -> Reading | None:
        """Read one span; None if no rule matches and it has no turn or session id of this dialect."""
        attributes = span.attributes
        rule, turn_id, session_keys = self._recognised(span, attributes)
        if rule is None or rule.role is None:
            return Reading(turn_id=turn_id, session_keys=session_keys) if turn_id or session_keys else None
        role, agent = rule.role, first_text(attributes, self.agent)
        if role is Role.TOOL:
            tool = self._tool(span, attributes, pseudo=rule.pseudo)
            return Reading(role, agent, tool, session_keys=session_keys, turn_id=turn_id, no_turn=rule.no_turn)
        output = first_value(self.output, span, attributes)
        input_messages = first_value(self.input, span, attributes)
        input_end = (
            end_of_input(input_messages)
            if role is Role.MODEL
            else InputEnd(user_text=self._user_text_of(span, attributes, input_messages))
        )
        model = self._model(output, input_end) if role is Role.MODEL or rule.holds_model_output else None
        if role is Role.MODEL and model is not None:
            if not model.requests:
                model = self._without_requests(model, rule, span, attributes, output)
            model = replace(model, response_id=first_text(attributes, _RESPONSE_IDS))
        return Reading(
            role,
            agent,
            model=model,
            user_text=input_end.user_text,
            context=lambda: self._context(span, attributes, output, input_messages, input_end.user_text),
            tool_definitions=lambda: self._definitions(span, attributes),
            session_keys=session_keys,
            turn_id=turn_id,
            turn_number=positive_number(first_value(self.turn_number, span, attributes)) if self.turn_number else None,
            no_turn=rule.no_turn,
            hides_calls=rule.hides_calls and not (model is not None and model.requests),
        )

    def read_log(self, log: LogView) -> LogReading | None:
        """Read one log record; None if it belongs to another dialect or is empty."""
        if self.log_scope is None or not log.scope_name.startswith(self.log_scope):
            return None
        name, attributes = event_name(log), log.attributes
        turn_id, session_keys = first_text(attributes, self.turn_id), self._sessions(attributes)
        if name in self.tool_log_events:
            tool = self._tool(log_as_span(log), attributes, pseudo=False)
            return LogReading(tools=(tool,), session_keys=session_keys, turn_id=turn_id)
        messages_of_log = messages_in_log(log, name)
        if messages_of_log is None:
            return LogReading(session_keys=session_keys, turn_id=turn_id) if session_keys or turn_id else None
        input_end = end_of_input(messages_of_log.input_messages)
        model = self._model(messages_of_log.output, input_end)
        return LogReading(
            None if model == ModelFacts() else model,
            messages_of_log.whole,
            messages_of_log.own_message,
            results=messages_of_log.results,
            user_text=input_end.user_text,
            context=lambda: messages_of_log.context(input_end.user_text),
            tool_definitions=lambda: read_content(messages_of_log.tool_definitions),
            session_keys=session_keys,
            turn_id=turn_id,
            users=users_in(messages_of_log.input_messages) if input_end.new_user_message else None,
            system=system_in((messages_of_log.input_messages,), attributes),
            wrote="" if model.requests or messages_of_log.output is None else wrote_in((messages_of_log.output,)),
        )

    def _sessions(self, attributes: Attributes) -> tuple[tuple[str, str], ...]:
        return tuple(session_identifiers(attributes, self.session_keys))

    def _tool(self, span: SpanView, attributes: Attributes, *, pseudo: bool) -> ToolFacts:
        named = first_text(attributes, self.tool_name)
        name = self.name_affixes.strip(named) if named else self.span_name_affixes.strip(span.name)
        arguments = self._arguments(span, attributes, name)
        call_id = identifier(first_value(self.call_id, span, attributes))
        error = error_of(span, attributes, self.error_flags)
        returned = returned_in(first_value(self.result, span, attributes))
        error = error or ("error" if returned.failed else None)
        if error is None and returned.content is None:
            error = _raised(span)  # what is thrown ends a tool, unless there is a result (R12)
        tool = ToolFacts(
            name,
            arguments.content,
            arguments.captures,
            call_id or returned.call_id or None,
            read_content(returned.content, self.redaction_tokens),
            error,
            pseudo or name in self.pseudo_tools,
            name in self.merged_tools,
            error_is_named=is_named(error, span, returned.content),
            named=not name.endswith(".__call__"),  # which is a method of the tool's class
        )
        return tool if self.tool_hook is None else self.tool_hook(span, attributes, tool)

    def _arguments(self, span: SpanView, attributes: Attributes, name: str) -> Arguments:
        best = NO_ARGUMENTS
        for source in self.arguments:
            raw = source.value(span, attributes)
            if raw is None:
                continue
            arguments = read_arguments(
                raw,
                attributes,
                unwrap=source.envelope(span),
                python_repr=source.python_repr,
                tokens=self.redaction_tokens,
            )
            if arguments.content.capture is Capture.CAPTURED:
                found = out_of_envelope(arguments, name, attributes.get("tool.json_schema"))
                return NO_ARGUMENTS if self._elided(found.content, attributes) else found
            if best.content.capture is Capture.NOT_CAPTURED:
                best = arguments
        if self.flattened_arguments and best.content.capture is Capture.NOT_CAPTURED:
            start = len(self.flattened_arguments)
            single = {
                key[start:]: value
                for key, value in attributes.items()
                if isinstance(key, str) and key.startswith(self.flattened_arguments)  # pyright: ignore
            }
            if single:
                return read_arguments(single, attributes, tokens=self.redaction_tokens)
        return best

    def _elided(self, content: Content, attributes: Attributes) -> bool:
        if self.elision is None or content.raw != {}:
            return False
        witness = attributes.get(self.elision.witness)
        return witness is None or witness == "{}" or (is_mapping(witness) and not witness)

    def _model(self, output: Any, input_end: InputEnd) -> ModelFacts:
        return ModelFacts(
            self._named(requests_in(output)),
            input_end.answered,
            input_end.new_user_message,
            user_messages=input_end.user_messages,
            repeated=self._named(input_end.repeated),
        )

    def _named(self, requests: tuple[ToolRequest, ...]) -> tuple[ToolRequest, ...]:
        """Return requests with the names that users know, and with a mark where the framework does it by itself."""
        if self.request_name is not None:
            requests = tuple(replace(request, name=self.request_name(request.name)) for request in requests)
        if self.pseudo_requests:
            requests = tuple(
                replace(request, pseudo=True) if request.name.startswith(self.pseudo_requests) else request
                for request in requests
            )
        return requests

    def _without_requests(
        self, model: ModelFacts, rule: Rule, span: SpanView, attributes: Attributes, output: Any
    ) -> ModelFacts:
        """Say what is known of a model call whose requests, if it made any, cannot be read."""
        no_reason = _says_no_reason(attributes)
        unexplained = no_reason and not any("finish_reason" in event.attributes for event in span.events)
        hidden = unexplained and isinstance(output, str) and is_redacted(output, self.redaction_tokens)
        unseen = hidden or self._hides_requests(span, attributes) or are_garbled(output)
        never_says = output is None and (rule.silent or (not span.parent_id and no_reason))
        silent = not unseen and (never_says or (no_reason and says_nothing(output)))
        untold = output is None and no_reason
        return replace(model, unseen_requests=unseen, silent=silent, without_output=rule.without_output, untold=untold)

    def _hides_requests(self, span: SpanView, attributes: Attributes) -> bool:
        answer = first_value(self.answer, span, attributes)
        reasons = (event.attributes.get("finish_reason") for event in span.events if event.name == CHOICE)
        redacted = isinstance(answer, str) and is_redacted(answer, self.redaction_tokens)
        return redacted or asked_for_tools(attributes) or any(map(asks_for_tools, reasons))

    def _user_text_of(self, span: SpanView, attributes: Attributes, input_messages: Any) -> Content:
        text = last_user_text(input_messages)
        if text.capture is Capture.NOT_CAPTURED and self.user_text:
            return read_content(first_value(self.user_text, span, attributes), self.redaction_tokens)
        return text

    def _context(
        self, span: SpanView, attributes: Attributes, output: Any, input_messages: Any, user_text: Content
    ) -> ContextFacts:
        answer = last_answer(output)
        if answer.capture is Capture.NOT_CAPTURED:
            answer = read_content(first_value(self.answer, span, attributes), self.redaction_tokens)
        messages = first_value(self.messages, span, attributes)
        return ContextFacts(
            user_text,
            answer,
            read_content(input_messages if messages is None else messages, self.redaction_tokens),
            self._definitions(span, attributes),
        )

    def _definitions(self, span: SpanView, attributes: Attributes) -> Content:
        return read_content(first_value(self.tool_definitions, span, attributes), self.redaction_tokens)
