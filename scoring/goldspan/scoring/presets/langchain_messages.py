"""Chat messages as agentevals sees them: OpenAI roles, and the tool calls of what the assistant said.

agentevals turns every message into OpenAI's format first, so arguments go through JSON once. Read here are dict
messages with OpenAI's or LangChain's roles and tool calls, and Anthropic's and OpenAI's content blocks as far as they
hold calls.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from goldspan.scoring.presets.calls import InputMissingError, items, named_call, plain_call, plain_calls
from goldspan.scoring.presets.shapes import is_list, is_mapping

_ROLES = {
    "human": "user",
    "user": "user",
    "ai": "assistant",
    "assistant": "assistant",
    "system": "system",
    "developer": "developer",
    "function": "function",
    "tool": "tool",
}
_BLOCK_IDS = {"tool_use": "id", "function_call": "call_id"}
"""Content blocks that hold a call, and where its id stands."""


class MessageCall(NamedTuple):
    """A tool call in a message."""

    name: str
    args: Any


class Message(NamedTuple):
    """What is compared of a message."""

    role: str
    calls: list[MessageCall] | None
    """None where the message has no tool calls, never empty."""


def read_messages(given: object, *, roles_matter: bool) -> list[Message]:
    """Read messages, or a mapping that holds them under `messages`; `None` is no message.

    A bare list of calls is read as one assistant message where roles do not matter.

    Raises:
        InputMissingError: bare calls, where roles matter.
        KeyError, TypeError, ValueError: what is no message, or no tool call.

    """
    if is_mapping(given):
        if "role" in given:
            return [_message(given)]
        if "messages" not in given:
            raise ValueError("if messages is a dict, it must contain a 'messages' key")
        given = given["messages"]
    entries = items(given)
    if not entries or any(_is_message(entry) for entry in entries):
        return [_message(entry) for entry in entries]
    if roles_matter:
        raise InputMissingError("messages with their roles: strict matching compares message by message")
    return [Message("assistant", [_through_json(*named_call(plain)) for plain in plain_calls(entries)] or None)]


def _is_message(entry: object) -> bool:
    return is_mapping(entry) and ("role" in entry or "tool_calls" in entry or entry.get("type") in _ROLES)


def _message(message: object) -> Message:
    if not is_mapping(message):
        raise TypeError(f"a message is a mapping with a 'role', not {type(message).__name__}")
    said = message["role"] if "role" in message else message["type"]
    if said not in _ROLES:
        raise ValueError(f"Unexpected message type: {said!r}. Use one of {', '.join(map(repr, _ROLES))}.")
    role = _ROLES[said]
    blocks = _blocks(message.get("content"))
    if blocks and all(block.get("type") == "tool_result" for block in blocks):
        return Message("tool", None)
    if role != "assistant":
        return Message(role, None)
    stated = [plain_call(call) for call in items(message.get("tool_calls"))]
    known = {call.get("id", "") for call in stated}
    calls = [_tool_call(call) for call in stated]
    calls += [
        _block_call(block)
        for block in blocks
        if block.get("type") in _BLOCK_IDS and block[_BLOCK_IDS[block["type"]]] not in known
    ]
    return Message(role, calls or None)


def _tool_call(call: Mapping[str, Any]) -> MessageCall:
    if "function" in call:
        args = call["function"]["arguments"]
        args = json.loads(args, strict=False) if isinstance(args, str) else args
        return _through_json(*named_call({"name": call["function"]["name"], "args": args}))
    return _through_json(*named_call({"name": call["name"], "args": call["args"]}))


def _blocks(content: object) -> list[Mapping[str, Any]]:
    return [block for block in content if is_mapping(block)] if is_list(content) else []


def _block_call(block: Mapping[str, Any]) -> MessageCall:
    if block["type"] == "tool_use":
        return _through_json(block["name"], block["input"])
    return MessageCall(block["name"], json.loads(block["arguments"]))


def _through_json(name: str, args: Any) -> MessageCall:
    return MessageCall(name, json.loads(json.dumps(args)))
