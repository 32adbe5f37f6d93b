"""Messages written as span events, or as one attribute for each leaf. They are decoded when they are used."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Generic, TypeVar, overload

from goldspan.mappers.dialects.reading.value_parsing import loads
from goldspan.mappers.spans import EventView, SpanView
from goldspan.scoring.json_values import is_dict, is_mapping, is_sequence

Held = TypeVar("Held")


class LazyMessages(Sequence[Mapping[str, Any]], Generic[Held]):
    """Messages as they are held, and how one of them is read."""

    def __init__(self, held: Sequence[Held], read: Callable[[Held], Mapping[str, Any]], *, whole: bool = True) -> None:
        self._held = held
        self._read = read
        self.whole = whole
        """No message is missing: an attribute limit drops those that were written first."""

    def __len__(self) -> int:
        return len(self._held)

    @overload
    def __getitem__(self, index: int) -> Mapping[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Mapping[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> Mapping[str, Any] | Sequence[Mapping[str, Any]]:
        if isinstance(index, slice):
            return LazyMessages(self._held[index], self._read)
        return self._read(self._held[index])


# Messages as span events, the format before semantic conventions 1.37.
#
# `gen_ai.user.message`, `gen_ai.assistant.message`, `gen_ai.tool.message`, `gen_ai.system.message` are a model's input,
# `gen_ai.choice` its output. Strands writes content as JSON text of Bedrock's blocks.

CHOICE = "gen_ai.choice"
"""A model's output."""
INPUT_EVENTS = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
"""Events of a model's input, with the role of each message."""


def event_messages(events: Sequence[EventView]) -> LazyMessages[EventView]:
    """Return the messages of span events."""
    return LazyMessages(events, event_message)


def output_events(span: SpanView, _: Mapping[str, Any]) -> LazyMessages[EventView] | None:
    """Return a model's output as far as events hold it."""
    return _event_messages(span, (CHOICE,))


def input_events(span: SpanView, _: Mapping[str, Any]) -> LazyMessages[EventView] | None:
    """Return a model's input as far as events hold it."""
    return _event_messages(span, INPUT_EVENTS)


def _event_messages(span: SpanView, names: Collection[str]) -> LazyMessages[EventView] | None:
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
    """Decode JSON text of an object or an array; other text is unchanged."""
    if isinstance(value, str) and value[:1] in {"{", "["}:
        try:
            decoded: object = loads(value)
        except (ValueError, RecursionError):
            return value
        return decoded if is_mapping(decoded) or is_sequence(decoded) else value
    return value


# Messages written as one attribute for each leaf: `llm.output_messages.0.message.tool_calls.1.tool_call.id`.


def _message_from_leaves(leaves: Mapping[str, Any]) -> Mapping[str, Any]:
    return _message(nested(leaves))


def flat_messages(prefix: str) -> Callable[[SpanView, Mapping[str, Any]], LazyMessages[Mapping[str, Any]] | None]:
    """Return a reader of the messages under a prefix, which ends with a dot."""
    start = len(prefix)

    def read(_: SpanView, attributes: Mapping[str, Any]) -> LazyMessages[Mapping[str, Any]] | None:
        groups: dict[int, dict[str, Any]] = {}
        for key, value in attributes.items():
            if type(key) is str and key.startswith(prefix):
                number, _dot, rest = key[start:].partition(".")
                if number.isdecimal() and len(number) < 8 and rest:
                    groups.setdefault(int(number), {})[rest] = value
        if not groups:
            return None
        whole = max(groups) == len(groups) - 1 and any("role" in key for key in groups[0])
        return LazyMessages([groups[number] for number in sorted(groups)], _message_from_leaves, whole=whole)

    return read


def flat_texts(prefix: str, suffix: str) -> Callable[[SpanView, Mapping[str, Any]], str | None]:
    """Return a reader of JSON texts numbered between a prefix and a suffix, as the text of one array."""

    def read(_: SpanView, attributes: Mapping[str, Any]) -> str | None:
        texts: list[tuple[int, str]] = []
        for key, value in attributes.items():
            if type(key) is str and key.startswith(prefix) and key.endswith(suffix) and isinstance(value, str):
                number = key[len(prefix) : -len(suffix)]
                if number.isdecimal() and len(number) < 8:
                    texts.append((int(number), value))
        return f"[{', '.join(text for _, text in sorted(texts))}]" if texts else None

    return read


def nested(leaves: Mapping[str, Any]) -> dict[str, Any]:
    """Turn dotted keys into nested objects. An object replaces a plain value under the same key."""
    tree: dict[str, Any] = {}
    for key, value in leaves.items():
        node = tree
        *path, last = key.split(".")
        for step in path:
            inner = node.get(step)
            if not is_dict(inner):
                inner = node[step] = {}
            node = inner
        if not is_dict(node.get(last)):
            node[last] = value
    return tree


def _message(tree: Mapping[str, Any]) -> Mapping[str, Any]:
    held = tree.get("message")
    message: Mapping[str, Any] = held if is_dict(held) else tree
    calls = numbered(message.get("tool_calls"))
    parts = numbered(message.get("contents"))
    made: dict[str, Any] = {
        key: value for key, value in message.items() if key not in {"tool_calls", "contents"} and not is_dict(value)
    }
    if calls:
        made["tool_calls"] = [_inner(call, "tool_call") for call in calls]
    if parts:
        # Anthropic's calls are written twice: contents count only if there are no `tool_calls`.
        made["contents"] = [_part(part, bool(calls)) for part in parts]
    return made


def _part(part: Mapping[str, Any], calls_known: bool) -> Mapping[str, Any]:  # noqa: FBT001 - private
    content = _inner(part, "message_content")
    if "tool_call" in part and not calls_known:
        return {"tool_call": _flat_call(_inner(part, "tool_call"))}
    return {key: value for key, value in content.items() if key != "tool_call"} if content is not part else {}


def _flat_call(call: Mapping[str, Any]) -> Mapping[str, Any]:
    function = call.get("function")
    return {"id": call.get("id"), **function} if is_dict(function) else call


def _inner(holder: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    inner = holder.get(key)
    return inner if is_dict(inner) else holder


def numbered(node: object) -> list[Mapping[str, Any]]:
    """Return the objects under numbers, in their order."""
    if not is_dict(node):
        return []
    numbers = sorted((int(key), key) for key in node if key.isdecimal() and len(key) < 8)
    return [node[key] for _, key in numbers if is_dict(node[key])]
