"""A dialect said in a table: which attribute means what.

    rules            -> role of the span
    name, arguments, call_id, result, error flags  -> ToolFacts
    output, input    -> ModelFacts
    user_text, answer, messages, tool_definitions  -> context
    log_scope, tool_log_events                     -> which log records are its own

What a table cannot say goes into its hooks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from goldspan.mappers.dialects.reading.arguments import NO_ARGUMENTS, Arguments, read_arguments, read_content
from goldspan.mappers.dialects.reading.call_status import asked_for_tools, error_of
from goldspan.mappers.dialects.reading.log_records import MESSAGE_EVENTS, LogAsSpan, event_name, messages_in_log
from goldspan.mappers.dialects.reading.messages import (
    InputEnd,
    end_of_input,
    last_answer,
    last_user_text,
    parsed_if_asking,
    requests_in,
)
from goldspan.mappers.dialects.reading.protocol import NO_ADVICE, Advice, LogReading, Reading
from goldspan.mappers.dialects.reading.recorded_values import identifier
from goldspan.mappers.dialects.reading.redaction_and_truncation import REDACTION_TOKENS
from goldspan.mappers.dialects.reading.rules import Rule, Sources, first_text, first_value
from goldspan.mappers.facts import ContextFacts, ModelFacts, Role, ToolFacts
from goldspan.mappers.spans import Attributes, LogView, SpanView
from goldspan.scoring.sessions import Capture, Content
from goldspan.scoring.type_guards import is_mapping


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
    """When `{}` for arguments means that content was switched off: a witness is `{}` too, or is not there."""

    witness: str


@dataclass(frozen=True, slots=True)
class DialectTable:
    """A dialect as a table; it is a `Dialect`."""

    name: str
    rules: tuple[Rule, ...]
    title: str = ""
    docs: str = ""
    advice: Advice = NO_ADVICE

    tool_name: tuple[str, ...] = ()
    """Attributes that name the tool, in order; where none does, the span's name."""
    name_affixes: Affixes = Affixes()
    """Affixes of the attribute's value."""
    span_name_affixes: Affixes = Affixes()
    """Affixes of the span's name."""
    arguments: Sources = ()
    flattened_arguments: str = ""
    """A prefix under which single arguments are attributes of their own."""
    elision: Elision | None = None
    redaction_tokens: frozenset[str] = REDACTION_TOKENS
    call_id: Sources = ()
    result: Sources = ()
    error_flags: tuple[tuple[str, object], ...] = ()
    """Attributes that say by their value that the call failed, whatever the status says (R12)."""
    pseudo_tools: frozenset[str] = frozenset()
    merged_tools: frozenset[str] = frozenset()
    """Names of synthetic spans that repeat others (R5)."""

    pseudo_requests: tuple[str, ...] = ()
    """How names begin under which a model asks for what the framework does by itself, such as a hand-off."""

    output: Sources = ()
    """A model's output messages."""
    input: Sources = ()
    """A model's input messages."""
    user_text: Sources = ()
    """Texts, for spans whose input holds no user message."""
    answer: Sources = ()
    """Texts, for spans whose output holds no message."""
    messages: Sources = ()
    """The whole conversation; where none is there, the input."""
    tool_definitions: Sources = ()

    agent: tuple[str, ...] = ()
    turn_id: tuple[str, ...] = ()
    session_keys: tuple[str, ...] = ()
    extra_markers: frozenset[str] = frozenset()

    log_scope: str | None = None
    """How the scope of log records begins that hold messages as OpenTelemetry's conventions write them."""
    tool_log_events: frozenset[str] = frozenset()
    """Events of that scope that tell of an execution, in attributes as the dialect's tool spans have them."""

    request_name: Callable[[str], str] | None = None
    """Names a tool that a model asks for as its user knows it (R9)."""
    tool_hook: Callable[[SpanView, Attributes, ToolFacts], ToolFacts] | None = None
    """Changes or completes what was read of a tool span."""

    markers: frozenset[str] = field(init=False)
    bare_scopes: frozenset[str] = field(init=False)
    """Scopes whose spans are worth reading even without any attribute."""
    log_events: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        keys = {rule.marker for rule in self.rules}.union(self.turn_id, self.session_keys)
        object.__setattr__(self, "markers", frozenset(keys - {""}) | self.extra_markers)
        bare = {rule.scope for rule in self.rules if not (rule.key or rule.also)}
        object.__setattr__(self, "bare_scopes", frozenset(bare))
        messages = frozenset[str]() if self.log_scope is None else MESSAGE_EVENTS
        object.__setattr__(self, "log_events", messages | self.tool_log_events)

    def narrowed(self, keys: frozenset[str], scope: str) -> DialectTable | None:
        """Return as much of this table as matters to spans of this scope with these markers, if any of it does."""
        rules = tuple(rule for rule in self.rules if rule.marker in keys and scope.startswith(rule.scope))
        if not rules and keys.isdisjoint(self.turn_id) and keys.isdisjoint(self.session_keys):
            return None
        return dataclasses.replace(self, rules=rules)

    def outline(self, span: SpanView) -> Reading | None:
        """Read of a span what it is, and not what it holds."""
        rule, turn_id, session_keys = self._recognised(span, span.attributes)
        if rule is None or rule.role is None:
            return Reading(turn_id=turn_id, session_keys=session_keys) if turn_id or session_keys else None
        return Reading(rule.role, session_keys=session_keys, turn_id=turn_id, no_turn=rule.no_turn)

    def _recognised(
        self, span: SpanView, attributes: Attributes
    ) -> tuple[Rule | None, str | None, tuple[tuple[str, str], ...]]:
        rule = None
        for candidate in self.rules:
            if candidate.holds(span, attributes):
                rule = candidate
                break
        turn_id = first_text(attributes, self.turn_id) if self.turn_id else None
        return rule, turn_id, self._sessions(attributes) if self.session_keys else ()

    def read(self, span: SpanView) -> Reading | None:
        """Read one span; none where no rule holds and nothing else of this dialect is on it."""
        attributes = span.attributes
        rule, turn_id, session_keys = self._recognised(span, attributes)
        role = rule.role if rule is not None else None
        if role is None:
            return Reading(turn_id=turn_id, session_keys=session_keys) if turn_id or session_keys else None
        agent = first_text(attributes, self.agent)
        if role is Role.TOOL:
            tool = self._tool(span, attributes, pseudo=rule is not None and rule.pseudo)
            no_turn = rule is not None and rule.no_turn
            return Reading(role, agent, tool, session_keys=session_keys, turn_id=turn_id, no_turn=no_turn)
        output = parsed_if_asking(first_value(self.output, span, attributes))
        given = first_value(self.input, span, attributes)
        end = end_of_input(given) if role is Role.MODEL else InputEnd(user_text=self._asked(span, attributes, given))
        speaks = role is Role.MODEL or (rule is not None and rule.speaks)
        model = self._model(output, end) if speaks else None
        if role is Role.MODEL and model is not None and not model.requests and self._hides_requests(span, attributes):
            model = replace(model, unseen_requests=True)
        return Reading(
            role,
            agent,
            model=model,
            user_text=end.user_text,
            context=lambda: self._context(span, attributes, output, given, end.user_text),
            session_keys=session_keys,
            turn_id=turn_id,
            no_turn=rule is not None and rule.no_turn,
            hides_calls=rule is not None and rule.hides_calls and not (model is not None and model.requests),
        )

    def read_log(self, log: LogView) -> LogReading | None:
        """Read one log record; none where its scope is another dialect's, or nothing is in it."""
        if self.log_scope is None or not log.scope_name.startswith(self.log_scope):
            return None
        name, attributes = event_name(log), log.attributes
        turn_id, session_keys = first_text(attributes, self.turn_id), self._sessions(attributes)
        if name in self.tool_log_events:
            tool = self._tool(LogAsSpan(log), attributes, pseudo=False)
            return LogReading(tools=(tool,), session_keys=session_keys, turn_id=turn_id)
        said = messages_in_log(log, name)
        if said is None:
            return LogReading(session_keys=session_keys, turn_id=turn_id) if session_keys or turn_id else None
        end = end_of_input(said.given)
        model = self._model(said.output, end)
        return LogReading(
            None if model == ModelFacts() else model,
            said.whole,
            said.own_message,
            results=said.results,
            user_text=end.user_text,
            context=lambda: said.context(end.user_text),
            session_keys=session_keys,
            turn_id=turn_id,
        )

    def _sessions(self, attributes: Attributes) -> tuple[tuple[str, str], ...]:
        found = ((key, identifier(attributes.get(key))) for key in self.session_keys)
        return tuple((key, value) for key, value in found if value is not None)

    def _tool(self, span: SpanView, attributes: Attributes, *, pseudo: bool) -> ToolFacts:
        named = first_text(attributes, self.tool_name)
        name = self.name_affixes.strip(named) if named else self.span_name_affixes.strip(span.name)
        arguments = self._arguments(span, attributes)
        tool = ToolFacts(
            name,
            arguments.content,
            arguments.captures,
            identifier(first_value(self.call_id, span, attributes)),
            read_content(first_value(self.result, span, attributes), self.redaction_tokens),
            error_of(span, attributes, self.error_flags),
            pseudo or name in self.pseudo_tools,
            name in self.merged_tools,
        )
        return tool if self.tool_hook is None else self.tool_hook(span, attributes, tool)

    def _arguments(self, span: SpanView, attributes: Attributes) -> Arguments:
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
                return NO_ARGUMENTS if self._elided(arguments.content, attributes) else arguments
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

    def _model(self, output: Any, end: InputEnd) -> ModelFacts:
        requests = requests_in(output)
        if self.request_name is not None:
            requests = tuple(replace(request, name=self.request_name(request.name)) for request in requests)
        if self.pseudo_requests:
            requests = tuple(
                replace(request, pseudo=True) if request.name.startswith(self.pseudo_requests) else request
                for request in requests
            )
        return ModelFacts(requests, end.answered, end.new_user_message)

    def _hides_requests(self, span: SpanView, attributes: Attributes) -> bool:
        answer = first_value(self.answer, span, attributes)
        return asked_for_tools(attributes) or (isinstance(answer, str) and answer in self.redaction_tokens)

    def _asked(self, span: SpanView, attributes: Attributes, given: Any) -> Content:
        text = last_user_text(given)
        if text.capture is Capture.NOT_CAPTURED and self.user_text:
            return read_content(first_value(self.user_text, span, attributes), self.redaction_tokens)
        return text

    def _context(
        self, span: SpanView, attributes: Attributes, output: Any, given: Any, user_text: Content
    ) -> ContextFacts:
        answer = last_answer(output)
        if answer.capture is Capture.NOT_CAPTURED:
            answer = read_content(first_value(self.answer, span, attributes), self.redaction_tokens)
        messages = first_value(self.messages, span, attributes)
        return ContextFacts(
            user_text,
            answer,
            read_content(given if messages is None else messages, self.redaction_tokens),
            read_content(first_value(self.tool_definitions, span, attributes), self.redaction_tokens),
        )
