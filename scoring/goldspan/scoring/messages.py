"""Messages of models in any provider's format: who said what, what was asked of tools, and what they answered.

    value (JSON text, JSON within JSON, a Python repr, objects) -> raw_messages, out of whatever wraps them
    raw message -> message_of -> Message(role, text, requests, results)
    what a tool returned -> result_of -> MessageResult, out of the message or protocol that wraps it

Known shapes: OpenTelemetry's parts, OpenAI's `tool_calls` and Responses items, Anthropic's and Bedrock's content
blocks, Gemini's `function_call`, Vercel's `tool-call`, Genkit's `toolRequest`, dumps of LangChain, LangChain4j,
Haystack, LlamaIndex and Pydantic AI, content of MCP. They are told by their own keys, so one reader serves all. The
definition of a tool is no message, whatever role it is given.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeGuard

from msgspec import Struct
from msgspec.structs import replace

from goldspan.scoring.json_values import (
    is_dict,
    is_list,
    is_mapping,
    is_sequence,
    may_be_object,
    may_be_value,
    read_value,
)
from goldspan.scoring.sessions import Capture, Content

_JSON = json.JSONEncoder(ensure_ascii=False, default=str)


class MessageRequest(Struct, frozen=True, gc=False):
    """A tool call that a message asks for."""

    name: str
    arguments: object = None
    """As recorded: an object, its JSON text, or none."""
    call_id: str = ""
    failed: bool = False
    """The provider ran it itself, and it failed."""


class MessageResult(Struct, frozen=True, gc=False):
    """What a tool answered."""

    call_id: str = ""
    content: object = None
    """What the tool returned, out of its envelope."""
    failed: bool = False
    """The result is marked as an error."""
    name: str = ""


class Message(Struct, frozen=True, gc=False):
    """One message of a conversation."""

    role: str
    """`user`, `assistant`, `tool` or `system`; empty if it is unknown."""
    text: str = ""
    requests: tuple[MessageRequest, ...] = ()
    results: tuple[MessageResult, ...] = ()


def read_messages(content: Content) -> tuple[Message, ...]:
    """Return the messages that were recorded; none unless they were captured.

    Text that is neither JSON nor a repr is a message of the user. What is no message is left out.
    """
    if content.capture is not Capture.CAPTURED:
        return ()
    value = read_value(content.raw)
    found = tuple(map(message_of, raw_messages(value)))
    if found or not (isinstance(value, str) or is_sequence(value)):
        return found
    texts = (value,) if isinstance(value, str) else value
    plain = (text for text in texts if isinstance(text, str) and text.strip() and not may_be_object(text))
    return tuple(Message("user", text) for text in plain)


def message_of(raw: Mapping[str, Any]) -> Message:
    """Read one message that `raw_messages` found."""
    if _PLAIN_KEYS.issuperset(raw) and (plain := _message_of_parts(raw)) is not None:
        return plain
    role, parts = role_of(raw), parts_of(raw)
    kinds = [_kind(part) for part in parts]
    results = _results(raw, role, parts, kinds)
    text = "" if role == "tool" and results else _text_of(parts)
    if results and role in ("", "user") and not text:
        role = "tool"
    elif role == "user" and not text and "parts" in raw and all(map(_is_empty, parts)):
        role, results = "tool", UNWRITTEN
    requests = () if results and role == "tool" else _requests(raw, parts, kinds)
    return Message(role, text, requests, results)


UNWRITTEN = (MessageResult(),)
"""What a message in the user's name that says nothing is: some writers write results so, as LiteLLM."""
_PLAIN_KEYS = frozenset({"role", "parts", "finish_reason"})
_REQUEST_KEYS = frozenset({"type", "id", "name", "arguments"})
_ANSWER_KEYS = frozenset({"type", "id", "response"})


def _message_of_parts(raw: Mapping[str, Any]) -> Message | None:
    """Read a message with no other keys than the conventions have; what follows tells the same of it at more cost."""
    said_by = raw.get("role")
    parts: list[object] | None = raw.get("parts")
    role = _ROLES.get(said_by) if type(said_by) is str else None
    if role is None or not is_list(parts) or (read := _plain_parts(parts)) is None:
        return None
    texts, requests, results = read
    if role == "tool" and not results:
        return None
    text = "" if role == "tool" else "\n".join(filter(None, texts))
    if role == "user" and not text:
        role, results = "tool", results or list(UNWRITTEN)
    return Message(role, text, () if role == "tool" else tuple(requests), tuple(results))


def _plain_parts(parts: list[Any]) -> tuple[list[str], list[MessageRequest], list[MessageResult]] | None:
    """Read the texts, requests and results of parts; None if one has other keys than the conventions have."""
    texts: list[str] = []
    requests: list[MessageRequest] = []
    results: list[MessageResult] = []
    for part in parts:
        if not is_dict(part):
            return None
        kind, call_id = part.get("type"), part.get("id")
        call_id = call_id if isinstance(call_id, str) else ""
        if kind == "text" and len(part) == 2 and isinstance(text := part.get("content"), str):
            texts.append(text)
        elif kind == "tool_call" and _REQUEST_KEYS.issuperset(part) and isinstance(name := part.get("name"), str):
            requests += (MessageRequest(name, part.get("arguments"), call_id),) if name else ()
        elif kind == "tool_call_response" and _ANSWER_KEYS.issuperset(part) and "response" in part:
            returned = _returned(content := part["response"])
            results.append(MessageResult(call_id, returned, _is_failed(content) or begins_as_error(returned)))
        else:
            return None
    return texts, requests, results


# Which values are messages.

_DEEPEST = 8  # lists and envelopes around a message
_MOST_KEYS = 64  # keys of an envelope that are looked at
_NO_MESSAGES = frozenset(
    {
        *("tools", "functions", "tool_choice", "definitions", "tool_definitions", "metadata", "usage", "schema"),
        *("config", "generation_config", "response_metadata", "usage_metadata", "response_format", "extra"),
    }
)
"""Keys of envelopes under which there are settings."""
_CONTENT_KEYS = ("parts", "content", "contents")
_PARTS_KEYS = (*_CONTENT_KEYS, "_content", "blocks")
CALL_KEYS = ("tool_calls", "toolCalls", "toolExecutionRequests")
"""What stands beside a message's content where it asks for tools."""
_SAYING = frozenset({*_CONTENT_KEYS, *CALL_KEYS, "text", "function_call", "_content", "blocks", "finish_reason"})


def raw_messages(value: object) -> Iterator[Mapping[str, Any]]:
    """Yield the messages of a value in their order, out of whatever wraps them: a list of them, one, or an envelope."""
    return iter((value,)) if _is_plain(value) else _raw_messages(value, _DEEPEST)


def raw_messages_backwards(value: object) -> Sequence[Mapping[str, Any]]:
    """Return the messages of a value from the last to the first."""
    return (value,) if _is_plain(value) else tuple(_raw_messages(value, _DEEPEST))[::-1]


def _raw_messages(value: object, depth: int) -> Iterator[Mapping[str, Any]]:
    value = read_value(value) if isinstance(value, str) else value
    if _is_plain(value):
        yield value
    elif is_mapping(value):
        message = unwrapped(_decapitalised(value, depth) if isinstance(value.get("Role"), str) else value)
        if _is_message(message):
            if not is_definition(message):
                yield message
            return
        found = _most_messages(message, depth - 1) if depth else ()
        if found:
            yield from found
        elif not _SAYING.isdisjoint(message) or _is_bare_request(message):
            yield message
    elif is_sequence(value) and depth:
        for item in value:
            if _is_plain(item):
                yield item
            elif not isinstance(item, str) or may_be_value(item):
                yield from _raw_messages(item, depth - 1)


def _decapitalised(value: Any, depth: int) -> Any:
    """Return a message of .NET, `Role` and `ToolCalls`, with keys as others write them; what is a tool's stays."""
    if is_sequence(value):
        return [_decapitalised(one, depth - 1) for one in value] if depth else value
    if not is_mapping(value) or not depth:
        return value
    return {
        key[:1].lower() + key[1:]: one
        if key in _OF_TOOLS or (key == "Content" and is_mapping(one))
        else _decapitalised(one, depth - 1)
        for key, one in value.items()
    }


_OF_TOOLS = frozenset({"Arguments", "Args", "Input", "Parameters", "Result", "Output", "Response"})
_NOT_PLAIN = frozenset({"message", "messages", "kwargs", "data", "name", "function"})
"""Keys of what may wrap a message, or define a tool."""


def _is_plain(value: object) -> TypeGuard[dict[str, Any]]:
    """Say whether this is a message as most are written; the checks of any other cost more."""
    if not is_dict(value) or not isinstance(value.get("role"), str) or not _NOT_PLAIN.isdisjoint(value):
        return False
    content = value.get("content")
    if isinstance(content, str):
        return "parameters" not in content
    return content is None or not is_mapping(content)


def _most_messages(envelope: Mapping[str, Any], depth: int) -> Sequence[Mapping[str, Any]]:
    """Return the messages under the key that has the most of them, the first of several."""
    best: Sequence[Mapping[str, Any]] = ()
    for _, (key, held) in zip(range(_MOST_KEYS), envelope.items(), strict=False):
        if key not in _NO_MESSAGES and (may_be_value(held) if isinstance(held, str) else held):
            found = [one for one in _raw_messages(held, depth) if _is_message(one)]
            if len(found) > len(best):
                best = found
    return best


def _is_message(value: Mapping[str, Any]) -> bool:
    if isinstance(value.get("role"), str):
        return not is_sequence(value.get("messages"))
    if not _SAYING.isdisjoint(value) and role_of(value):
        return True
    return not _CALLS.isdisjoint(value) or _kind(value) != ""


def unwrapped(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the message inside one that only wraps it: a choice of OpenAI, a dump of LangChain."""
    if is_mapping(inner := message.get("message")):
        return inner
    if is_mapping(inner := message.get("kwargs")) and "lc" in message:
        names = message.get("id")
        return {**inner, "role": names[-1]} if is_sequence(names) and names else inner
    if is_mapping(inner := message.get("data")) and role_of(message):
        return {**inner, "role": role_of(message)}
    return message


_SCHEMAS = ("parameters", "input_schema", "inputSchema", "parametersJsonSchema", "args_schema", "jsonSchema")


def is_definition(message: Mapping[str, Any]) -> bool:
    """Say whether this defines a tool, or holds nothing but a definition."""
    content = message.get("content")
    if isinstance(content, str) and "parameters" in content:
        content = read_value(content)
    return _defines(content) if is_mapping(content) else _defines(message)


def _defines(value: Mapping[str, Any]) -> bool:
    if "name" not in value and "function" not in value:
        return False
    inner = value.get("function")
    holder = inner if inner is not None and is_mapping(inner) else value
    if not isinstance(holder.get("name"), str) or "arguments" in holder:
        return False
    if any(_is_schema(holder[key]) for key in _SCHEMAS if key in holder):
        return True
    return holder is not value and "description" in holder and "id" not in value


def _is_schema(value: object) -> bool:
    value = read_value(value)
    return is_mapping(value) and (is_mapping(value.get("properties")) or value.get("type") in ("object", "OBJECT"))


# Who says it.

_ROLES = {
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "system": "system",
    "human": "user",
    "ai": "assistant",
    "model": "assistant",
    "chatbot": "assistant",
    "developer": "system",
    "function": "tool",
    "tool_execution_result": "tool",
    "request": "user",  # Pydantic AI's kinds of messages
    "response": "assistant",
}
_NO_ROLE = frozenset({"function"})  # types of parts that are roles elsewhere


def role_of(message: Mapping[str, Any]) -> str:
    """Return the role as user, assistant, tool or system; `""` if it is unknown.

    A message in the user's name that names the call it answers is a tool's.
    """
    role = message.get("role") or message.get("_role")
    if isinstance(role, str):
        named = _role_named(role)
        return "tool" if named == "user" and message.get("tool_call_id") else named
    kind = message.get("type") or message.get("__class__") or ("parts" in message and message.get("kind"))
    return _role_named(kind) if isinstance(kind, str) and kind not in _NO_ROLE else ""


@lru_cache(256)
def _role_named(name: str) -> str:
    """Return the role of a name: `user`, `MessageRole.USER`, `HumanMessage`, `AIMessageChunk`."""
    bare = name.rpartition(".")[2].lower()
    return _ROLES.get(bare.removesuffix("chunk").removesuffix("message").rstrip("_"), "") if len(bare) < 40 else ""


# What it says.


def parts_of(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the parts of a message, under any of the known keys. A message without parts is its own part."""
    return _parts(message, _DEEPEST)


def _parts(message: Mapping[str, Any], depth: int) -> list[Mapping[str, Any]]:
    for key in _PARTS_KEYS:
        parts = message.get(key)
        if isinstance(parts, str):
            held = read_value(parts) if depth and may_be_object(parts) else parts
            if held is parts or not _are_parts(held):
                return [{"type": "text", "content": parts}]
            parts = held
        parts = parts_within(parts) or parts
        if is_sequence(parts):
            return [_part(part) for part in parts if isinstance(part, (str, dict)) or is_mapping(part)]
        if is_mapping(parts):
            return _parts(parts, depth - 1) if "parts" in parts and depth else [_part(parts)]
    return [message]


def parts_within(value: object) -> Sequence[Any] | None:
    """Return the parts of a message that an object does nothing but wrap: `{"data": [{"text": "x"}]}`."""
    for _ in range(_DEEPEST):
        if not is_mapping(value) or len(value) != 1:
            break
        [value] = value.values()
    return value if is_sequence(value) and _are_parts(value) else None


def _part(part: Any) -> Mapping[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "content": part}
    inner = part.get("message_content")
    if isinstance(kind := part.get("part_kind"), str):  # Pydantic AI's
        return {**part, "type": "text" if kind.endswith("-prompt") else kind}
    return inner if inner is not None and is_mapping(inner) else part


def _are_parts(value: object) -> bool:
    """Say whether JSON text in the place of a text is the parts of a message, and no text that happens to be JSON."""
    if is_mapping(value):
        return is_sequence(value.get("parts")) or ("function" in value and _is_part(value))
    return is_sequence(value) and bool(value) and all(is_mapping(one) and _is_part(one) for one in value)


def _is_part(value: Mapping[str, Any]) -> bool:
    return _kind(value) != "" or value.get("type") in _TEXT_TYPES or (set(value) == {"text"})


_TEXT_TYPES = ("text", "input_text", "output_text", "TextContent", "TEXT", "SYSTEM", "AI")  # LangChain4j's in capitals


def text_of(message: Mapping[str, Any]) -> str:
    """Return the text parts of a message, joined by newlines."""
    return _text_of(parts_of(message))


def _text_of(parts: Sequence[Mapping[str, Any]]) -> str:
    return "\n".join([text for part in parts if (text := _text(part))])


_NO_TEXT = "[non_text_content]"
"""What ADK for TypeScript writes in the place of a request or a result."""


def _is_empty(part: Mapping[str, Any]) -> bool:
    return (part.get("type") == "text" and part.get("content") == "") or part.get("text") == _NO_TEXT


def _text(part: Mapping[str, Any]) -> str:
    if part.get("type") in _TEXTS:
        for key in ("content", "text"):
            if isinstance(text := part.get(key), str):
                return "" if text == _NO_TEXT else text
    return ""


_TEXTS = (None, *_TEXT_TYPES)

# Requests for tools, and their answers.

_REQUEST, _ANSWER = "request", "answer"
_KINDS = {
    **dict.fromkeys(("toolcall", "tooluse", "functioncall", "function", "toolrequest", "mcpcall"), _REQUEST),
    **dict.fromkeys(("toolcallresponse", "toolresult", "functioncalloutput", "functionresponse"), _ANSWER),
    "functionresult": _ANSWER,  # .NET's, as `callId` and `$type`
    **dict.fromkeys(("toolresponse", "toolcallresult", "toolcalloutput", "tooloutput", "toolreturn"), _ANSWER),
}
_WRAPPERS = {
    **dict.fromkeys(("toolUse", "tool_use", "function_call", "functionCall", "tool_call", "toolCall"), _REQUEST),
    "server_tool_call": _REQUEST,
    **dict.fromkeys(("function", "toolRequest"), _REQUEST),
    **dict.fromkeys(("toolResult", "function_response", "functionResponse"), _ANSWER),
    **dict.fromkeys(("tool_call_result", "toolResponse", "tool_result"), _ANSWER),
}
_WRAPPER_KEYS = frozenset(_WRAPPERS)
_CALLS = frozenset(CALL_KEYS)
_NAMES = ("name", "toolName", "tool_name", "tool.name")
_ARGUMENTS = ("arguments", "input", "args", "tool_kwargs", "tool.args")
_ANSWERED = ("toolUseId", "tool_use_id", "tool_call_id", "toolCallId")  # how a message names the call that it answers
_IDS = (*_ANSWERED, "call_id", "callId", "ref", "tool_id", "id")


def _kind(part: Mapping[str, Any]) -> str:
    """Say whether a part is a request, an answer, or neither (`""`)."""
    named = part.get("type") or part.get("__class__") or part.get("$type")
    kind = _kind_named(named) if isinstance(named, str) else ""
    for key in () if _WRAPPER_KEYS.isdisjoint(part) or kind == _ANSWER else _WRAPPERS:
        if is_mapping(part.get(key)):
            return _WRAPPERS[key]
    if kind:
        return kind
    return _REQUEST if "toolName" in part or _is_bare_request(part) else ""


def _is_bare_request(value: Mapping[str, Any]) -> bool:
    has_id = "id" in value and "name" in value  # Sentry lists requests without ids twice
    return (has_id and is_mapping(value.get("args"))) or ("tool.name" in value and "tool.args" in value)


@lru_cache(256)
def _kind_named(name: str) -> str:
    bare = "".join(filter(str.isalpha, name)).lower() if len(name) < 40 else ""
    # What the provider runs has words before: `server_tool_use`, `mcp_tool_use`, `web_search_tool_result`.
    if bare.endswith("toolresult"):
        return _ANSWER
    return _KINDS.get(bare) or _KINDS.get(bare.removeprefix("server").removeprefix("mcp"), "")


def _opened(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a part with the fields of the object that it wraps: `{"id": 1, "function": {"name": "x"}}`."""
    for _ in () if _WRAPPER_KEYS.isdisjoint(part) else range(3):
        key = next((one for one in _WRAPPERS if is_mapping(part.get(one))), None)
        if key is None:
            break
        inner = {name: value for name, value in part[key].items() if value is not None}
        part = {**{name: value for name, value in part.items() if name not in (key, "type")}, **inner}
    return part


def _requests(
    message: Mapping[str, Any], parts: Sequence[Mapping[str, Any]], kinds: Sequence[str]
) -> tuple[MessageRequest, ...]:
    """Return the requests of a message. Some writers repeat those of the list of calls among the parts."""
    found: tuple[MessageRequest, ...] = ()
    if not _LISTING.isdisjoint(message):
        found = _read_requests([call for call in _listed_calls(message) if _asks(call, _kind(call))])
    if not found:
        found = _read_requests([part for part, kind in zip(parts, kinds, strict=True) if _asks(part, kind)])
    if not found and is_mapping(call := message.get("function_call")):
        found = _read_requests((call,))
    if not found and "tool_call_id" in message and is_mapping(call := read_value(message.get("content"))):
        found = _read_requests(({**call, "id": message["tool_call_id"]},)) if "arguments" in call else ()
    return found


def _read_requests(parts: Iterable[Mapping[str, Any]]) -> tuple[MessageRequest, ...]:
    return tuple([request for part in parts if (request := _request(part)) is not None])


_LISTING = frozenset({*CALL_KEYS, "additional_kwargs"})


def _listed_calls(message: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    calls = read_value(next(filter(None, map(message.get, CALL_KEYS)), None))
    if not calls and is_mapping(more := message.get("additional_kwargs")):
        calls = more.get("tool_calls")
    return filter(is_mapping, map(read_value, calls)) if is_sequence(calls) else ()


def _asks(part: Mapping[str, Any], kind: str) -> bool:
    return kind == _REQUEST or "arguments" in part or part.get("type") == "tool_call"


def _request(part: Mapping[str, Any]) -> MessageRequest | None:
    """Read one request in any known format."""
    held = _opened(part)
    name = _first(held, _NAMES)
    if not isinstance(name, str) or not name or _defines(held) or "tools" in held:  # a list of a server's tools
        return None
    failed = held.get("status") == "failed" or _is_failed(held)
    arguments = _first(held, _ARGUMENTS)
    if isinstance(arguments, str) and arguments.startswith(_DUMPED_BLOCK) and set(part) == {"function"}:
        inner = read_value(arguments)
        arguments = inner["input"] if is_mapping(inner) and len(inner) == 1 else arguments
    return MessageRequest(name, arguments, _id(held), failed)


_DUMPED_BLOCK = '{"input":{'
"""How arguments begin that Logfire, until 4.10 at least, dumps with the block of Anthropic's that holds them."""


def _first(held: Mapping[str, Any], keys: Iterable[str]) -> Any:
    for key in keys:
        if (found := held.get(key)) is not None:
            return found
    return None


def _id(part: Mapping[str, Any]) -> str:
    for key in _IDS:
        if key in part and isinstance(call_id := part[key], str) and call_id:
            return call_id
    origin = part.get("origin")
    return _id(origin) if is_mapping(origin) and "origin" not in origin else ""


def _results(
    message: Mapping[str, Any], role: str, parts: Sequence[Mapping[str, Any]], kinds: Sequence[str]
) -> tuple[MessageResult, ...]:
    if _ANSWER in kinds:
        return tuple([_answer(part) for part, kind in zip(parts, kinds, strict=True) if kind == _ANSWER])
    is_blank = not parts and message.get("parts") == []  # Koog adds `{"role": "tool", "parts": []}`
    return (_result(message),) if role == "tool" and not is_blank else ()


def _answer(part: Mapping[str, Any]) -> MessageResult:
    """Read a result that a part wraps; Gemini's API says that one under `error` alone is a failure."""
    result, wrapped = _result(_opened(part)), _first(part, ("functionResponse", "function_response", "function"))
    told = wrapped.get("response") if is_mapping(wrapped) else None
    return replace(result, failed=True) if is_mapping(told) and tuple(told) == ("error",) else result


_RESULTS = ("response", "result", "output", "content", "_content", "tool_output", "parts", "text")


def _result(held: Mapping[str, Any]) -> MessageResult:
    content = _first(held, _RESULTS)
    name = _first(held, _NAMES)
    returned = _returned(content)
    failed = _is_failed(held) or _is_failed(content) or begins_as_error(returned)
    return MessageResult(_id(held), returned, failed, name if isinstance(name, str) else "")


def _returned(content: Any) -> Any:
    """Return the value that a tool returned: of parts their text, of a typed value the value."""
    if is_mapping(content) and "value" in content and isinstance(content.get("type"), str):
        return content["value"]  # Vercel's {"type": "json", "value": ...}
    if is_mapping(content) and _is_protocol(content):
        content = content["content"]
    if isinstance(content, str) and content.startswith(_PARTS_AS_TEXT):
        content = read_value(content)
    texts = _texts_in(content) if is_sequence(content) else None
    return content if texts is None else texts


_PARTS_AS_TEXT = ('[{"type"', "[{'type'")


def _texts_in(parts: Sequence[Any]) -> str | None:
    """Return the text of parts that are all text; none where there are others."""
    read = [part for part in parts if is_mapping(part) and part.get("type") in _TEXTS]
    held = [part.get("text", part.get("content") if "type" in part else None) for part in read]
    texts = [text for text in held if isinstance(text, str)]
    return "\n".join(texts) if texts and len(texts) == len(parts) else None


_PROTOCOL = frozenset(
    {
        *("content", "isError", "is_error", "structuredContent", "meta", "_meta", "type", "id", "name"),
        *("metadata", "stream", "is_last", "is_interrupted", "state"),
    }
)
_MARKS = frozenset({"isError", "structuredContent", "is_interrupted", "state"})


def _is_protocol(value: Mapping[str, Any]) -> bool:
    """Say whether this is a result of MCP, or of AgentScope."""
    content = value.get("content")
    return is_sequence(content) and _PROTOCOL.issuperset(value) and _texts_in(content) is not None


def _is_failed(held: object) -> bool:
    """Say whether a result is marked as an error, by a field of its own."""
    if not is_mapping(held):
        return False
    if held.get("is_error") is True or held.get("isError") is True or held.get("error") is True:
        return True
    if held.get("status") == "error" or (held.get("state") == "error" and is_sequence(held.get("content"))):
        return True
    output = held.get("output")
    kind = (output if is_mapping(output) else held).get("type")
    return isinstance(kind, str) and (kind.startswith("error") or kind.endswith("_error"))


_ERROR = re.compile(
    r"""\s*(?:\[\{"text": ?|"?\{\s*\\*["'](?:error|result|output)\\*["']\s*:\s*)?(?:\\*["']){0,2}"""
    r"(?:(?:Tool)?(?:Error|Exception)(?::|\s(?:executing|calling|invoking|running|while|in)\b)"
    r"|(?:Fehler|Erreur|Errore|Erro|Fout|Fel|Fejl|Feil|Błąd|Chyba|Hata|Ошибка|Помилка|错误|錯誤|エラー|오류)\s?[:\uff1a]"
    r"|Traceback \(most recent call last\)|An (?:internal )?error occurred\b"
    r"|Invalid input for tool\b|Tool execution failed\b|Failed to invoke (?:function|[Tt]ool)\b"
    r"|Model tried to call unavailable tool\b|Tool with name '[^'\n]{1,99}' failed\b)"
)
"""How frameworks begin the text that they give a model in the place of the result of a tool that failed."""


def begins_as_error(result: object) -> bool:
    """Say whether a result is the text of a failure, or holds nothing else, by the words in which frameworks begin."""
    if is_sequence(result) and len(result) == 1 and is_mapping(result[0]):
        [result] = result  # a block of Bedrock's
    if is_mapping(result) and len(result) == 1 and result.keys() <= {"error", "result", "output", "text"}:
        [result] = result.values()
    return isinstance(result, str) and _ERROR.match(result) is not None


_OF_A_MESSAGE = re.compile(
    r'"(?:tool(?:_call_id|_use_id|UseId|CallId)\\*"|function_call_output\\*"|isError\\*"|is_error\\*"|structuredContent\\*"'
    r'|lc\\*"|type\\*"\s*:\s*\\*"(?:text|tool)\\*")'
)
"""What stands in a result that a message or a protocol wraps; other results are not parsed.

All begin with a quote, so that the search goes from one to the next.
"""
_IN_A_REPR = "tool_call_id="
_REPRS = ("{'", "[{'")
_ENVELOPES = ("output", "tool_output", "update", "result", "data", "value", "messages")


def result_of(value: object) -> MessageResult | None:
    """Read a tool's result out of the message that wraps it: LangChain's, a provider's, MCP's; none where none does."""
    if isinstance(value, str):
        if _OF_A_MESSAGE.search(value) is None and _IN_A_REPR not in value and not value.startswith(_REPRS):
            return None
        value = read_value(value)
    found = _wrapped_result(value, 4)
    inner = None if found is None or not isinstance(found.content, str) else result_of(found.content)
    if found is None or inner is None:
        return found
    return replace(inner, call_id=found.call_id or inner.call_id, failed=found.failed or inner.failed)


def _is_answer(message: Mapping[str, Any]) -> bool:
    return "content" in message and (isinstance(_first(message, _ANSWERED), str) or role_of(message) == "tool")


def _wrapped_result(value: object, depth: int) -> MessageResult | None:
    if is_sequence(value):
        typed = all(is_mapping(part) and "type" in part for part in value)
        if typed and (texts := _texts_in(value)) is not None:
            return MessageResult(content=texts, failed=begins_as_error(texts))
        return _wrapped_result(value[0], depth - 1) if len(value) == 1 and depth else None
    if not is_mapping(value):
        return None
    message = unwrapped(value)
    if _kind(message) == _ANSWER and _id(answer := _opened(message)):
        return _result(answer)
    if _is_answer(message):
        parts = parts_of(message)
        found = _results(message, "tool", parts, [_kind(part) for part in parts])
        return found[0] if len(found) == 1 else None
    return _marked_result(value) or _result_inside(value, depth)


def _marked_result(value: Mapping[str, Any]) -> MessageResult | None:
    """Return the result that a protocol's object holds beside a mark of failure: MCP's, and LlamaIndex's."""
    if _is_protocol(value) and (len(value) == 1 or not _MARKS.isdisjoint(value)):
        texts = _texts_in(value["content"])
        return MessageResult(content=texts, failed=_is_failed(value) or begins_as_error(texts))
    if "raw_output" in value and isinstance(value.get("is_error"), bool):
        return MessageResult(content=value["raw_output"], failed=_is_failed(value))
    return None


def _result_inside(value: Mapping[str, Any], depth: int) -> MessageResult | None:
    inner = [key for key in _ENVELOPES if key in value]
    held = value[inner[0]] if len(inner) == 1 and depth else None
    if isinstance(held, str) and _IN_A_REPR in held:
        held = read_value(held)
    return _wrapped_result(held, depth - 1) if is_mapping(held) or is_sequence(held) else None


# Values as text.


def result_text(result: MessageResult) -> str:
    """Return what a tool returned as text."""
    return "" if result.content is None else as_text(result.content)


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
