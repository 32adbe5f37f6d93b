"""Messages of models in any provider's format, as plain values: who said what, and which calls were answered.

Known shapes: OpenTelemetry's parts, OpenAI's `tool_calls` and Responses items, Anthropic's and Bedrock's content
blocks, Gemini's `function_call`, Vercel's `tool-call`, Genkit's `toolRequest`. They are told by their own keys, so one
reader serves all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from goldspan.scoring.json_values import is_mapping, is_sequence
from goldspan.scoring.sessions import Capture, Content

_ROLES = {
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "system": "system",
    "human": "user",
    "ai": "assistant",
    "model": "assistant",
    "developer": "system",
    "function": "tool",
}
REQUEST_KEYS = ("toolUse", "function_call", "functionCall", "tool_call", "function", "toolRequest")
"""Keys of a message's part, any of which holds a request for a tool."""
REQUEST_TYPES = ("tool_call", "tool_use", "function_call", "tool-call", "function")
"""Types of a part that is a request itself."""
_ANSWER_KEYS = ("toolResult", "function_response", "functionResponse", "tool_call_result", "toolResponse")
_ANSWER_TYPES = ("tool_call_response", "tool_result", "function_call_output", "tool-result")
_REQUEST_KEY_SET, _ANSWER_KEY_SET = frozenset(REQUEST_KEYS), frozenset(_ANSWER_KEYS)
_JSON = json.JSONEncoder(ensure_ascii=False, default=str)


class Message(Struct, frozen=True, gc=False):
    """One message of a conversation."""

    role: str
    """`user`, `assistant`, `tool` or `system`; empty if it is unknown."""
    text: str = ""
    requests: tuple[str, ...] = ()
    """Ids of the calls that it asks for; empty text for one without an id."""
    results: tuple[tuple[str, str], ...] = ()
    """The calls that it answers: id and the result as text."""


def read_messages(content: Content) -> tuple[Message, ...]:
    """Return the messages that were recorded; none unless they were captured.

    Text that is no JSON is a message of the user. What is no message is left out.
    """
    if content.capture is not Capture.CAPTURED:
        return ()
    return tuple(map(_message, _each(content.raw, _DEEPEST)))


_DEEPEST = 8
"""Lists and envelopes around a message."""


def _each(messages: object, depth: int) -> Iterator[Mapping[str, Any]]:
    messages = _parsed(messages)
    if is_mapping(messages):
        inner = messages.get("messages")
        if is_sequence(inner) and depth:
            yield from _each(inner, depth - 1)
        else:
            yield unwrapped(messages)
    elif is_sequence(messages):
        for item in messages if depth else ():
            yield from _each(item, depth - 1)
    elif isinstance(messages, str) and messages.strip():
        yield {"role": "user", "content": messages}


def _message(message: Mapping[str, Any]) -> Message:
    role, parts = role_of(message), parts_of(message)
    results = tuple([(call_id, result_text(held)) for call_id, held in _answers(message, role, parts)])
    text = "" if role == "tool" and results else _text_of(parts)
    if results and role in ("", "user") and not text:
        role = "tool"
    return Message(role, text, tuple(_requests(message, parts)), results)


def _requests(message: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    calls = message.get("tool_calls") or message.get("toolCalls")
    for part in (*parts, *filter(is_mapping, calls if is_sequence(calls) else ())):
        held = () if _REQUEST_KEY_SET.isdisjoint(part) else REQUEST_KEYS
        inner = next((found for key in held if is_mapping(found := part.get(key))), None)
        if inner is not None:
            yield _first_text(inner.get("toolUseId"), inner.get("ref"), inner.get("id"), part.get("id"))
        elif part.get("type") in REQUEST_TYPES or "toolName" in part:
            yield _first_text(part.get("call_id"), part.get("toolCallId"), part.get("id"))


def _first_text(*values: object) -> str:
    return next((value for value in values if isinstance(value, str) and value), "")


def result_text(held: Mapping[str, Any]) -> str:
    """Return the result that a message or a part of one holds, as text."""
    for key in ("response", "result", "output", "content", "text"):
        if (found := held.get(key)) is not None:
            return as_text(found)
    return ""


def as_text(value: object) -> str:
    """Return a recorded value as text: text as it is, text parts joined, anything else as JSON."""
    if isinstance(value, str):
        return value
    if is_sequence(value) and value and all(is_mapping(part) and isinstance(part.get("text"), str) for part in value):
        return "\n".join(part["text"] for part in value)
    try:
        return _JSON.encode(value)
    except (TypeError, ValueError, RecursionError):
        return ""


def unwrapped(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the message inside one that only wraps it."""
    if "message" not in message:
        return message
    inner = message["message"]
    return inner if is_mapping(inner) else message


def _parsed(value: object) -> object:
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def role_of(message: Mapping[str, Any]) -> str:
    """Return the role as user, assistant, tool or system; `""` if it is unknown."""
    role = message.get("role") or message.get("type")
    return _ROLES.get(role.lower(), "") if isinstance(role, str) else ""


def parts_of(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the parts of a message, under any of the known keys. A message without parts is its own part."""
    return _parts(message, _DEEPEST)


def _parts(message: Mapping[str, Any], depth: int) -> list[Mapping[str, Any]]:
    for key in ("parts", "content", "contents"):
        parts = message.get(key)
        if isinstance(parts, str):
            return [{"type": "text", "content": parts}]
        if is_sequence(parts):
            return [part for part in parts if isinstance(part, dict) or is_mapping(part)]
        if is_mapping(parts):
            return _parts(parts, depth - 1) if "parts" in parts and depth else [parts]
    return [message]


def text_of(message: Mapping[str, Any]) -> str:
    """Return the text parts of a message, joined by newlines."""
    return _text_of(parts_of(message))


def _text_of(parts: Sequence[Mapping[str, Any]]) -> str:
    texts = [_text(part) for part in parts]
    return "\n".join(text for text in texts if text)


def _text(part: Mapping[str, Any]) -> str:
    if part.get("type") in (None, "text", "input_text", "output_text"):
        for key in ("content", "text"):
            if isinstance(text := part.get(key), str):
                return text
    return ""


def answers_in(message: Mapping[str, Any], role: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the ids of the calls that a message answers, `""` for an unnamed one, each with what holds the answer."""
    return _answers(message, role, parts_of(message))


def _answers(
    message: Mapping[str, Any], role: str, parts: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    named = message.get("tool_call_id") or message.get("toolCallId")
    if role == "tool" and isinstance(named, str):
        yield named, message
        return
    for part in parts:
        if not _ANSWER_KEY_SET.isdisjoint(part):
            for key in _ANSWER_KEYS:
                if is_mapping(inner := part.get(key)):
                    yield _id(inner), inner
        if part.get("type") in _ANSWER_TYPES:
            yield _id(part), part


def _id(part: Mapping[str, Any]) -> str:
    for key in ("toolUseId", "tool_use_id", "tool_call_id", "toolCallId", "call_id", "ref", "id"):
        if isinstance(call_id := part.get(key), str):
            return call_id
    origin = part.get("origin")
    return _id(origin) if is_mapping(origin) and "origin" not in origin else ""
