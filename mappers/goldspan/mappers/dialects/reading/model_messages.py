"""The messages of a model call, in any provider's format and however spans hold them.

Two questions, answered apart. How are the messages *held*: as one attribute with JSON, as span events, or as one
attribute for each leaf? The dialect's table says it, and the first part of this module makes a sequence of messages of
each, decoded when they are used. What do they *say*: tool requests, results and texts? The second part reads them, and
`goldspan.scoring.messages` the parts of one message. Each format is told by its own keys, so that one reader serves
every dialect: OpenTelemetry's parts, OpenAI's `tool_calls` and Responses items, Anthropic's and Bedrock's content
blocks, Gemini's `function_call`, Vercel's `tool-call`, Genkit's `toolRequest`.

    llm.output_messages.0.message.tool_calls.0.tool_call.function.name = "book"      (OpenInference: a leaf)
    llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments = '{"seat": 7}'
        flat_messages -> [{"tool_calls": [{"function": {"name": "book", "arguments": '{"seat": 7}'}}]}]
    gen_ai.choice {"message": {"tool_calls": [{"function": {"name": "book", ...}}]}}  (a span event)
        output_events -> the same
    requests_in(either) -> [ToolRequest("book", {"seat": 7})]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar, overload

from goldspan.mappers.dialects.reading.value_parsing import REDACTION_TOKENS, Take, at, loads, read_arguments
from goldspan.mappers.span_facts import ToolRequest
from goldspan.mappers.spans import EventView, SpanView
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


def message_of_leaves(leaves: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the message whose leaves stand under these dotted keys."""
    return _message_of_tree(nested(leaves))


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
        return LazyMessages([groups[number] for number in sorted(groups)], message_of_leaves, whole=whole)

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


def _message_of_tree(tree: Mapping[str, Any]) -> Mapping[str, Any]:
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


# What messages say: requests, results and texts.

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
    counts = _user_messages(messages, latest) if new_user_message else None
    return InputEnd(new_user_message, answered or None, user_text, counts)


def _user_messages(messages: object, latest: int) -> UserMessages | None:
    """Count the users' messages, of which so many are the latest; none where the first may be missing, or too long."""
    if not getattr(messages, "whole", True) or (isinstance(messages, str) and len(messages) > _LONGEST_COUNTED):
        return None
    total = sum(map(is_user_message, _messages(messages)))
    return UserMessages(total - latest, total) if total >= latest else None


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


def user_text_at(*path: str) -> Take:
    """Return a step that follows a path to messages, and takes the last text of a user out of them."""
    down = at(*path)
    return lambda value: last_user_text(down(value)).value


def answer_at(*path: str) -> Take:
    """Return a step that follows a path to messages, and takes the model's last text out of them."""
    down = at(*path)
    return lambda value: last_answer(down(value)).value


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
                return _build_request(inner, call_id, "name", "tool_name")
    if part.get("type") in REQUEST_TYPES or "toolName" in part:
        call_id = part.get("call_id") or part.get("toolCallId") or part.get("id")
        return _build_request(part, call_id, "name", "toolName", "tool_name")
    if "arguments" in part:
        return _build_request(part, part.get("id"), "tool_name", "name")
    return None


def _build_request(holder: Mapping[str, Any], call_id: object, *names: str) -> ToolRequest | None:
    name = next((found for key in names if (found := holder.get(key))), None)
    if not isinstance(name, str) or name in REDACTION_TOKENS:
        return None
    raw = next((found for key in ("arguments", "input", "args") if (found := holder.get(key)) is not None), None)
    content, captures = read_arguments(raw, {})
    return ToolRequest(name, content, call_id if isinstance(call_id, str) and call_id else None, captures)


def _failed(answer: Mapping[str, Any]) -> bool:
    if answer.get("is_error") is True or answer.get("isError") is True or answer.get("error") is True:
        return True
    output = answer.get("output")
    kind = output.get("type") if is_mapping(output) else None
    return answer.get("status") == "error" or (isinstance(kind, str) and kind.startswith("error"))
