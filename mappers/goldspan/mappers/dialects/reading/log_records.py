"""Log records hold content of the span they were written in, as span events of the same name do (R11).

`gen_ai.client.inference.operation.details` holds a whole model call in its attributes; the older events, one message
each in the record's body: structured, or as JSON text.
https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-events/
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from goldspan.mappers.dialects.reading import model_messages
from goldspan.mappers.dialects.reading.value_parsing import decoded, lists_and_dicts, read_content
from goldspan.mappers.span_facts import ContextFacts, ToolFacts
from goldspan.mappers.spans import DecodedSpan, EventView, LogView, SpanView
from goldspan.scoring.json_values import is_mapping
from goldspan.scoring.messages import message_of, role_of
from goldspan.scoring.sessions import Content

DETAILS = "gen_ai.client.inference.operation.details"
MESSAGE_EVENTS = frozenset({DETAILS, model_messages.CHOICE, *model_messages.INPUT_EVENTS})
"""Events that hold messages of a model call."""
EVALUATIONS = "gen_ai.evaluation.result"
"""Events that evaluate a span, such as goldspan's own. They are no evidence of what ran."""
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
        return ContextFacts(
            user_text, model_messages.last_answer(self.output), read_content(self.input_messages), definitions
        )

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
    message = model_messages.event_message(EventView(name, held))
    if name == model_messages.CHOICE:
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
    for raw in model_messages.newest_first(messages):
        if role_of(raw) == "assistant":
            return
        for result in message_of(raw).results:
            if result.call_id and result.content is not None:
                yield ToolFacts("", call_id=result.call_id, result=read_content(result.content))


def digest(place: tuple[str, str, int], identity_parts: Sequence[object]) -> str:
    """Return a digest that is equal for one record in any container, and differs between records."""
    try:
        text = json.dumps(lists_and_dicts((place, identity_parts)), sort_keys=True, default=repr)
    except (ValueError, RecursionError):  # a number of thousands of digits
        text = repr(place)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
