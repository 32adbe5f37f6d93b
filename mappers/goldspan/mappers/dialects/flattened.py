"""Messages written as one attribute for each leaf: `llm.output_messages.0.message.tool_calls.1.tool_call.id`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from goldspan.mappers.dialects.lazy_messages import LazyMessages
from goldspan.mappers.json_shapes import is_object
from goldspan.mappers.spans import SpanView


def _of_leaves(leaves: Mapping[str, Any]) -> Mapping[str, Any]:
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
        return LazyMessages([groups[number] for number in sorted(groups)], _of_leaves) if groups else None

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
    """Turn dotted keys into objects; a leaf that stands where an object is needed loses."""
    tree: dict[str, Any] = {}
    for key, value in leaves.items():
        node = tree
        *path, last = key.split(".")
        for step in path:
            inner = node.get(step)
            if not is_object(inner):
                inner = node[step] = {}
            node = inner
        if not is_object(node.get(last)):
            node[last] = value
    return tree


def _message(tree: Mapping[str, Any]) -> Mapping[str, Any]:
    held = tree.get("message")
    message: Mapping[str, Any] = held if is_object(held) else tree
    calls = _numbered(message.get("tool_calls"))
    parts = _numbered(message.get("contents"))
    made: dict[str, Any] = {
        key: value for key, value in message.items() if key not in {"tool_calls", "contents"} and not is_object(value)
    }
    if calls:
        made["tool_calls"] = [_inner(call, "tool_call") for call in calls]
    if parts:
        # Anthropic's calls stand in both families: the contents count only where there are no tool calls.
        made["contents"] = [_part(part, bool(calls)) for part in parts]
    return made


def _part(part: Mapping[str, Any], calls_known: bool) -> Mapping[str, Any]:  # noqa: FBT001 - private
    content = _inner(part, "message_content")
    if "tool_call" in part and not calls_known:
        return {"tool_call": _flat_call(_inner(part, "tool_call"))}
    return {key: value for key, value in content.items() if key != "tool_call"} if content is not part else {}


def _flat_call(call: Mapping[str, Any]) -> Mapping[str, Any]:
    function = call.get("function")
    return {"id": call.get("id"), **function} if is_object(function) else call


def _inner(holder: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    inner = holder.get(key)
    return inner if is_object(inner) else holder


def _numbered(node: object) -> list[Mapping[str, Any]]:
    if not is_object(node):
        return []
    numbers = sorted((int(key), key) for key in node if key.isdecimal() and len(key) < 8)
    return [node[key] for _, key in numbers if is_object(node[key])]
