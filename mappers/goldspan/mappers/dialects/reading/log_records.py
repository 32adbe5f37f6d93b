"""Log records hold content of the span they were written in, as span events of the same name do (R11).

`gen_ai.client.inference.operation.details` holds a whole model call in its attributes; the older events, one message
each in the record's body: structured, or as JSON text.
https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-events/
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from goldspan.mappers.dialects.reading.model_messages import (
    CHOICE,
    INPUT_EVENTS,
    event_message,
    last_answer,
    newest_first,
)
from goldspan.mappers.dialects.reading.protocol import LogDialect, LogReading
from goldspan.mappers.dialects.reading.value_parsing import decoded, identifiers, lists_and_dicts, read_content
from goldspan.mappers.span_facts import NO_CONTEXT, ContextFacts, LogFacts, ToolFacts
from goldspan.mappers.spans import DecodedSpan, EventView, LogView, SpanView
from goldspan.scoring.errors import DialectError
from goldspan.scoring.json_values import is_mapping
from goldspan.scoring.messages import answers_in, role_of
from goldspan.scoring.sessions import NO_CONTENT, Content

DETAILS = "gen_ai.client.inference.operation.details"
MESSAGE_EVENTS = frozenset({DETAILS, CHOICE, *INPUT_EVENTS})
"""Events that hold messages of a model call."""
_ELIDED = "<elided>"
"""What google-adk writes for any message, a user's, the model's own or a tool's, where content is off."""


class LogMessages(NamedTuple):
    """The messages in one record."""

    output: Any = None
    input_messages: Any = None
    tool_definitions: Any = None
    whole: bool = False
    own_message: bool = False

    def context(self, user_text: Content) -> ContextFacts:
        """Return what other metrics read."""
        definitions = read_content(self.tool_definitions)
        return ContextFacts(user_text, last_answer(self.output), read_content(self.input_messages), definitions)

    def results(self) -> tuple[ToolFacts, ...]:
        """Return what the tools returned that the input answers for since the model last spoke, by call id."""
        return tuple(_results(self.input_messages))


def event_name(log: LogView) -> str:
    """Return the event's name, of which older writers make an attribute."""
    name = log.event_name or log.attributes.get("event.name")
    return name if isinstance(name, str) else ""


def messages_in_log(log: LogView, name: str) -> LogMessages | None:
    """Return the messages in a record of this event name; none where it holds none."""
    held = _fields_of(log)
    if name == DETAILS:
        output, given = held.get("gen_ai.output.messages"), held.get("gen_ai.input.messages")
        return LogMessages(output, given, held.get("gen_ai.tool.definitions"), whole=True)
    if name not in MESSAGE_EVENTS or held.get("content") == _ELIDED:
        return None
    message = event_message(EventView(name, held))
    if name == CHOICE:
        return LogMessages(output=[message])
    return LogMessages(input_messages=[message], own_message=role_of(message) == "assistant")


def log_as_span(log: LogView) -> SpanView:
    """Return a log record where the tables of dialects read a span."""
    return DecodedSpan(
        log.trace_id,
        log.span_id,
        name=event_name(log),
        start=log.time,
        end=log.time,
        attributes=log.attributes,
        scope_name=log.scope_name,
        resource=log.resource,
    )


def _fields_of(log: LogView) -> Mapping[str, Any]:
    body = decoded(log.body) if isinstance(log.body, str) and log.body[:1] == "{" else log.body
    if is_mapping(body):
        return {**log.attributes, **body}
    return {**log.attributes, "content": body} if isinstance(body, str) and body else log.attributes


def _results(messages: object) -> Iterator[ToolFacts]:
    for message in newest_first(messages):
        role = role_of(message)
        if role == "assistant":
            return
        for call_id, answer in answers_in(message, role):
            returned = (answer[key] for key in ("response", "result", "output", "content") if key in answer)
            if call_id and (result := next(returned, None)) is not None:
                yield ToolFacts("", call_id=call_id, result=read_content(result))


# Log records are read like spans: one record gives its facts, or None if it has no content (R11).

_EVALUATIONS = "gen_ai.evaluation.result"
"""Events that evaluate a span, such as goldspan's own. They are no evidence of what ran."""
_NOTHING = LogReading()

OnFailure = Callable[[str, Exception, LogView], object]
"""Called with the name of a dialect that raised, the exception and the log record."""


class LogRegistry:
    """Reads log records by the dialects that know their events, and the session attributes of any record."""

    def __init__(self, dialects: Iterable[object], session_keys: Iterable[str], on_failure: OnFailure) -> None:
        """Keep the dialects that read log records."""
        self._on_failure = on_failure
        self._readers: dict[str, tuple[LogDialect, ...]] = {}
        for dialect in dialects:
            if isinstance(dialect, LogDialect):
                for name in dialect.log_events:
                    self._readers[name] = (*self._readers.get(name, ()), dialect)
        self._session_keys = dict.fromkeys(session_keys)

    def may_tell(self, name: str, attributes: Mapping[str, Any]) -> bool:
        """Return, at little cost, whether a record with this event name is worth reading."""
        older = attributes.get("event.name")
        if name in self._readers or (isinstance(older, str) and older in self._readers):
            return True
        return name != _EVALUATIONS and not self._session_keys.keys().isdisjoint(attributes)

    def read(self, log: LogView, *, content: bool) -> LogFacts | None:
        """Return the facts of a record, or None if it has none. A broken view may raise anything."""
        name = event_name(log)
        if not log.trace_id or name == _EVALUATIONS:
            return None
        dialect, reading = self._reading(name, log)
        session_keys = (*identifiers(log.attributes, self._session_keys), *reading.session_keys)
        context, results = self._content(dialect, reading, log, content=content)
        tools = (*reading.tools, *results)
        if reading.model is None and not tools and context == NO_CONTEXT and not reading.own_message:
            # Only session and turn ids are left. Many records repeat them, so equal ones count once.
            if not session_keys and reading.turn_id is None:
                return None
            time: int = 0
            identity_parts: Sequence[object] = [*session_keys, reading.turn_id]
        else:
            time = log.time
            identity_parts = [name, log.scope_name, log.body, log.attributes]
        return LogFacts(
            log.trace_id,
            log.span_id,
            _digest((log.trace_id, log.span_id, time), identity_parts),
            time,
            dialect,
            reading.model,
            reading.whole,
            reading.own_message,
            tools,
            context,
            session_keys,
            reading.turn_id,
        )

    def _reading(self, name: str, log: LogView) -> tuple[str, LogReading]:
        for dialect in self._readers.get(name, ()):
            try:
                reading = dialect.read_log(log)
                if reading is not None and not isinstance(reading, LogReading):  # pyright: ignore[reportUnnecessaryIsInstance]
                    raise DialectError(f"read_log() returned a {type(reading).__name__}; expected a LogReading or none")
            except Exception as error:  # noqa: BLE001 - a dialect must not stop its neighbours, nor the agent
                self._on_failure(dialect.name, error, log)
                continue
            if reading is not None:
                return dialect.name, reading
        return "", _NOTHING

    def _content(
        self, dialect: str, reading: LogReading, log: LogView, *, content: bool
    ) -> tuple[ContextFacts, tuple[ToolFacts, ...]]:
        if content:
            try:
                results = reading.results() if reading.results is not None else ()
                if reading.context is not None:
                    return reading.context(), results
            except Exception as error:  # noqa: BLE001 - as above
                self._on_failure(dialect, error, log)
            else:
                return _context_of_user_text(reading.user_text), results
        return _context_of_user_text(reading.user_text), ()


def _context_of_user_text(user_text: Content) -> ContextFacts:
    return NO_CONTEXT if user_text is NO_CONTENT else ContextFacts(user_text)


def _digest(place: tuple[str, str, int], identity_parts: Sequence[object]) -> str:
    """Return a digest that is equal for one record in any container, and differs between records."""
    try:
        text = json.dumps(lists_and_dicts((place, identity_parts)), sort_keys=True, default=repr)
    except (ValueError, RecursionError):  # a number of thousands of digits
        text = repr(place)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
