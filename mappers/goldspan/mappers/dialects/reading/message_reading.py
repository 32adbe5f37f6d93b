"""Messages of models in any provider's format: tool requests, tool results and text.

Known shapes: OpenTelemetry's parts, OpenAI's `tool_calls` and Responses items, Anthropic's and Bedrock's content
blocks, Gemini's `function_call`, Vercel's `tool-call`, Genkit's `toolRequest`. They are told by their own keys, so that
one reader serves every dialect that carries them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from goldspan.mappers.dialects.reading.arguments import REDACTION_TOKENS, read_arguments
from goldspan.mappers.dialects.reading.value_parsing import loads
from goldspan.mappers.span_facts import ToolRequest
from goldspan.scoring.json_values import is_dict, is_mapping, is_sequence
from goldspan.scoring.messages import (
    REQUEST_KEYS,
    REQUEST_TYPES,
    answers_in,
    parts_of,
    role_of,
    text_of,
    unwrapped,
)
from goldspan.scoring.sessions import NO_CONTENT, Capture, Content, UserMessages

_REQUEST_MARKS = (
    *("tool_call", "toolUse", "tool_use", "function_call", "functionCall", "tool-call", "toolName", "toolRequest"),
)
_REQUEST_KEYS = frozenset(REQUEST_KEYS)
_OPENING = re.compile(r'\[\s*(\{"\w+")')
"""How the first message begins; one writer begins them all alike."""
_LONGEST_COUNTED = 1 << 20
"""Characters of a history whose user messages are counted: it is parsed once for each turn."""


class InputEnd(NamedTuple):
    """The part of a model's input after its own last message."""

    new_user_message: bool | None = None
    """The input ends with a user message rather than with tool results; none where it holds neither."""
    answered: Mapping[str, bool] | None = None
    """Ids of the calls answered there, with whether the answer is an error."""
    user_text: Content = NO_CONTENT
    """The text of the user message it ends with."""
    user_messages: UserMessages | None = None
    """Counted only if it ends with a user message, which is when a turn begins."""


def parsed_if_asking(output: object) -> object:
    """Parse JSON text of output that may ask for tools; other text stays text, and is cheap."""
    if isinstance(output, str):
        for mark in _REQUEST_MARKS:
            if mark in output:
                return _parsed(output)
    return output


def requests_in(output: object) -> tuple[ToolRequest, ...]:
    """Return the tool calls that a model's output asks for, in its order."""
    if isinstance(output, str):
        output = parsed_if_asking(output)
    if isinstance(output, str):
        return ()
    found: list[ToolRequest] = []
    for message in _messages(output):
        if role_of(message) in {"assistant", ""}:
            parts = (*parts_of(message), *_tool_calls(message))
            found += [request for part in parts if (request := _request(part)) is not None]
    return tuple(found)


def end_of_input(messages: object) -> InputEnd:
    """Read the messages since the model's last one. The history before is parsed only where a turn begins."""
    new_user_message: bool | None = None
    user_text = NO_CONTENT
    answered: dict[str, bool] = {}
    latest = 0
    for message in newest_first(messages):
        role = role_of(message)
        if role == "assistant":
            break
        answers = list(answers_in(message, role))
        for call_id, answer in answers:
            if call_id:
                answered.setdefault(call_id, _failed(answer))
        if new_user_message is None and (answers or role == "tool"):
            new_user_message = False
        elif new_user_message is None and role == "user":
            new_user_message = True
            user_text = _captured(text_of(message))
        latest += role == "user" and not answers
    counts = None
    if new_user_message and getattr(messages, "whole", True) and not _is_too_long(messages):
        total = sum(map(is_user_message, _messages(messages)))
        counts = UserMessages(total - latest, total) if total >= latest else None
    return InputEnd(new_user_message, answered or None, user_text, counts)


def _is_too_long(messages: object) -> bool:
    return isinstance(messages, str) and len(messages) > _LONGEST_COUNTED


def is_user_message(message: Mapping[str, Any]) -> bool:
    """Return whether a user wrote this message, and not a tool in the user's name."""
    return role_of(message) == "user" and not any(True for _ in answers_in(message, "user"))


def last_user_text(messages: object) -> Content:
    """Return the text of the last message that a user wrote, answers of tools aside."""
    if isinstance(messages, str) and messages in REDACTION_TOKENS:
        return Content(messages, Capture.REDACTED)
    for message in newest_first(messages):
        if is_user_message(message) and (text := text_of(message)):
            return _captured(text)
    return NO_CONTENT


def last_answer(messages: object) -> Content:
    """Return the text of the model's last message, if it has any."""
    if isinstance(messages, str) and messages in REDACTION_TOKENS:
        return Content(messages, Capture.REDACTED)
    for message in newest_first(messages):
        if role_of(message) in {"assistant", ""}:
            return _captured(text_of(message))
    return NO_CONTENT


def _captured(text: str) -> Content:
    return Content(text, Capture.CAPTURED) if text else NO_CONTENT


def newest_first(messages: object) -> Iterator[Mapping[str, Any]]:
    """Yield messages from the last to the first; JSON text is parsed from its end, only as far as needed."""
    count = 0
    if isinstance(messages, str):
        text = messages.rstrip()
        stop = len(text) - 1
        opening = _OPENING.match(text)
        while opening is not None and (start := text.rfind(opening[1], 0, stop)) >= 0:
            # It is an element of the outermost array only if a comma or the last bracket follows.
            element = text[start : stop + (count == 0)].rstrip()
            message = _parsed(element[:-1]) if element[-1:] == ("," if count else "]") else None
            if not is_dict(message):
                break
            yield unwrapped(message)
            count += 1
            stop = start
            if start == opening.start(1):
                return
        messages = _parsed(text)
    if is_sequence(messages):
        for position in range(len(messages) - 1 - count, -1, -1):
            if (message := _message(messages[position])) is not None:
                yield message
    elif is_mapping(messages):
        yield unwrapped(messages)


def _messages(messages: object) -> Iterator[Mapping[str, Any]]:
    if isinstance(messages, str):
        messages = _parsed(messages)
    if is_mapping(messages):
        yield unwrapped(messages)
    elif is_sequence(messages):
        for item in messages:
            if (message := _message(item)) is not None:
                yield message


def _message(item: object) -> Mapping[str, Any] | None:
    if isinstance(item, str) and item[:1] == "{":
        item = _parsed(item)
    return unwrapped(item) if is_mapping(item) else None


def _parsed(text: str) -> object:
    try:
        return loads(text)
    except (ValueError, RecursionError):
        return None


def _tool_calls(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    calls = message.get("tool_calls") or message.get("toolCalls")
    return [call for call in calls if is_mapping(call)] if is_sequence(calls) else []


def _request(part: Mapping[str, Any]) -> ToolRequest | None:
    """Read one request in any known format. The key that names the tool tells the format."""
    if not _REQUEST_KEYS.isdisjoint(part):
        for key in REQUEST_KEYS:
            if is_mapping(inner := part.get(key)):
                call_id = inner.get("toolUseId") or inner.get("ref") or inner.get("id") or part.get("id")
                return _build_request(inner.get("name") or inner.get("tool_name"), inner, call_id)
    if part.get("type") in REQUEST_TYPES or "toolName" in part:
        call_id = part.get("call_id") or part.get("toolCallId") or part.get("id")
        return _build_request(part.get("name") or part.get("toolName") or part.get("tool_name"), part, call_id)
    if "arguments" in part:
        return _build_request(part.get("tool_name") or part.get("name"), part, part.get("id"))
    return None


def _build_request(name: object, holder: Mapping[str, Any], call_id: object) -> ToolRequest | None:
    if not isinstance(name, str) or not name or name in REDACTION_TOKENS:
        return None
    raw = None
    for key in ("arguments", "input", "args"):
        if (raw := holder.get(key)) is not None:
            break
    content, captures = read_arguments(raw, {})
    return ToolRequest(name, content, call_id if isinstance(call_id, str) and call_id else None, captures)


def _failed(answer: Mapping[str, Any]) -> bool:
    if answer.get("is_error") is True or answer.get("isError") is True or answer.get("error") is True:
        return True
    output = answer.get("output")
    kind = output.get("type") if is_mapping(output) else None
    return answer.get("status") == "error" or (isinstance(kind, str) and kind.startswith("error"))
