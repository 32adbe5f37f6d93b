"""What log records say of the span they were written in: what a span event of that name would say (R11).

`gen_ai.client.inference.operation.details` holds a whole model call in its attributes; the older events, one message
each in the record's body: structured, or as JSON text.
https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-events/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from goldspan.mappers.dialects.capture import read_content
from goldspan.mappers.dialects.event_messages import CHOICE, INPUT_EVENTS, event_message
from goldspan.mappers.dialects.messages import answers_in, last_answer, newest_first, role_of
from goldspan.mappers.dialects.taking import decoded
from goldspan.mappers.facts import ContextFacts, ToolFacts
from goldspan.mappers.json_shapes import is_mapping
from goldspan.mappers.spans import EventView, LogView, ResourceView
from goldspan.scoring.sessions import Content, SpanRef

DETAILS = "gen_ai.client.inference.operation.details"
MESSAGE_EVENTS = frozenset({DETAILS, CHOICE, *INPUT_EVENTS})
"""Events that hold messages of a model call."""
_ELIDED = "<elided>"
"""What google-adk writes for any message, a user's, the model's own or a tool's, where content is off."""


class Said(NamedTuple):
    """The messages in one record."""

    output: Any = None
    given: Any = None
    tool_definitions: Any = None
    whole: bool = False
    own_message: bool = False

    def context(self, user_text: Content) -> ContextFacts:
        """Return what other metrics read."""
        definitions = read_content(self.tool_definitions)
        return ContextFacts(user_text, last_answer(self.output), read_content(self.given), definitions)

    def results(self) -> tuple[ToolFacts, ...]:
        """Return what the tools returned that the input answers for since the model last spoke, by call id."""
        return tuple(_results(self.given))


def event_name(log: LogView) -> str:
    """Return the event's name, of which older writers make an attribute."""
    name = log.event_name or log.attributes.get("event.name")
    return name if isinstance(name, str) else ""


def said_in(log: LogView, name: str) -> Said | None:
    """Return the messages in a record of this event name; none where it holds none."""
    held = _held(log)
    if name == DETAILS:
        output, given = held.get("gen_ai.output.messages"), held.get("gen_ai.input.messages")
        return Said(output, given, held.get("gen_ai.tool.definitions"), whole=True)
    if name not in MESSAGE_EVENTS or held.get("content") == _ELIDED:
        return None
    message = event_message(EventView(name, held))
    if name == CHOICE:
        return Said(output=[message])
    return Said(given=[message], own_message=role_of(message) == "assistant")


class LogSpan:
    """A log record where the tables of dialects read a span."""

    def __init__(self, log: LogView) -> None:
        self.trace_id = log.trace_id
        self.span_id = log.span_id
        self.parent_id = ""
        self.name = event_name(log)
        self.start = self.end = log.time
        self.kind = self.status_code = 0
        self.parent_is_remote = False
        self.status_message = ""
        self.attributes: Mapping[str, Any] = log.attributes
        self.events: Sequence[EventView] = ()
        self.links: Sequence[SpanRef] = ()
        self.scope_name = log.scope_name
        self.resource: ResourceView = log.resource


def _held(log: LogView) -> Mapping[str, Any]:
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
