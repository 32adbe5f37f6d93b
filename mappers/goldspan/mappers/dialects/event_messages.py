"""Messages written as span events, before semantic conventions 1.37 and by those who still do so.

`gen_ai.user.message`, `gen_ai.assistant.message`, `gen_ai.tool.message`, `gen_ai.system.message` are a model's input,
`gen_ai.choice` its output. Strands writes content as JSON text of Bedrock's blocks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from goldspan.mappers.dialects.lazy_messages import LazyMessages
from goldspan.mappers.json_shapes import is_mapping, is_sequence
from goldspan.mappers.json_texts import loads
from goldspan.mappers.spans import EventView, SpanView

CHOICE = "gen_ai.choice"
"""A model's output."""
INPUT_EVENTS = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
"""A model's input, and whose message each is."""


def event_messages(events: Sequence[EventView]) -> LazyMessages[EventView]:
    """Return the messages of span events."""
    return LazyMessages(events, event_message)


def output_events(span: SpanView, _: Mapping[str, Any]) -> LazyMessages[EventView] | None:
    """Return a model's output as far as events hold it."""
    return _of(span, (CHOICE,))


def input_events(span: SpanView, _: Mapping[str, Any]) -> LazyMessages[EventView] | None:
    """Return a model's input as far as events hold it."""
    return _of(span, INPUT_EVENTS)


def _of(span: SpanView, names: Collection[str]) -> LazyMessages[EventView] | None:
    events = [event for event in span.events if event.name in names]
    return event_messages(events) if events else None


def event_message(event: EventView) -> Mapping[str, Any]:
    """Return the message that an event holds, in a shape that is read everywhere."""
    attributes = event.attributes
    body = _decoded(attributes.get("gen_ai.event.content"))
    held: Mapping[str, Any] = body if is_mapping(body) else attributes
    role = "assistant" if event.name == CHOICE else INPUT_EVENTS.get(event.name, "")
    inner = _decoded(held.get("message"))
    content = _decoded(held.get("content")) if inner is None else inner
    if is_mapping(content) and (content is inner or "parts" in content):
        # A message of its own, with its own role: Google's writers log the model's earlier answers as the user's.
        message = {"role": role, **{key: value for key, value in content.items() if value is not None}}
    else:
        message = {"role": role, "content": content if content is not None else ""}
    if "tool_calls" not in message and (calls := _decoded(held.get("tool_calls"))):
        message["tool_calls"] = calls
    if role == "tool" and isinstance(call_id := held.get("id"), str):
        message["tool_call_id"] = call_id
    return message


def _decoded(value: object) -> object:
    """Decode JSON text of an object or an array; other text is text."""
    if isinstance(value, str) and value[:1] in {"{", "["}:
        try:
            decoded: object = loads(value)
        except (ValueError, RecursionError):
            return value
        return decoded if is_mapping(decoded) or is_sequence(decoded) else value
    return value
