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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeVar, overload

from goldspan.mappers.dialects.reading.value_parsing import Take, at, decoded, is_redacted, read_arguments
from goldspan.mappers.span_facts import ToolRequest
from goldspan.mappers.spans import EventView, SpanView
from goldspan.scoring.json_values import is_dict, is_mapping, is_sequence, read_value
from goldspan.scoring.messages import (
    CALL_KEYS,
    UNWRITTEN,
    Message,
    MessageRequest,
    MessageResult,
    message_of,
    parts_within,
    raw_messages,
    raw_messages_backwards,
    role_of,
    text_of,
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
MESSAGE_EVENTS = frozenset({CHOICE, *INPUT_EVENTS})
"""Events that are a message each."""


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
    if "content" not in attributes and "message" not in attributes:  # someone may have put a word before each key
        attributes = {key.rpartition(".")[2]: value for key, value in attributes.items()} | dict(attributes)
    body = read_value(attributes.get("gen_ai.event.content"))
    held: Mapping[str, Any] = body if is_mapping(body) else attributes
    role = "assistant" if event.name == CHOICE else INPUT_EVENTS.get(event.name, "")
    inner = read_value(held.get("message"))
    content: Any = _without_wrapper(read_value(held.get("content")) if inner is None else inner)
    if is_mapping(content) and (content is inner or "parts" in content):
        # A message of its own, with its own role: Google's writers log the model's earlier answers as the user's.
        message = {"role": role, **{key: value for key, value in content.items() if value is not None}}
    else:
        message = {"role": role, "content": content if content is not None else ""}
    calls = read_value(next(filter(None, map(held.get, CALL_KEYS)), None))
    if calls and message.keys().isdisjoint(CALL_KEYS):
        message["tool_calls"] = calls
    if role == "tool" and isinstance(call_id := held.get("id"), str):
        message["tool_call_id"] = call_id
    return message


def _without_wrapper(content: object) -> object:
    return parts_within(content) or content


# Messages written as one attribute for each leaf: `llm.output_messages.0.message.tool_calls.1.tool_call.id`.


def message_of_leaves(leaves: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the message whose leaves stand under these dotted keys."""
    message = nested(leaves)
    return held if is_dict(message) and is_dict(held := message.get("message")) else message


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


def nested(leaves: Mapping[str, Any]) -> Any:
    """Turn dotted keys into nested objects, and numbers into lists. An object replaces a plain value at its key."""
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
    return _listed(tree)


def _listed(node: Any) -> Any:
    """Return an object with numbers for keys as the list of what is under them, in their order."""
    if not is_dict(node):
        return node
    numbers = sorted((int(key), key) for key in node if key.isdecimal() and len(key) < 8)
    if numbers:
        return [_listed(node[key]) for _, key in numbers]
    return {key: _listed(value) for key, value in node.items()}


# What messages say: requests, results and texts.

_REQUEST_MARKS = (
    *("tool_call", "toolCall", "toolUse", "tool_use", "function_call", "functionCall", "tool-call", "toolName"),
    *("toolRequest", "ToolCall", '"function"', "mcp_call", '"args"', "oolExecutionRequest"),
)
_OPENING = re.compile(r'\[\s*(\{"\w+")')  # how the first message begins; one writer begins them all alike
_LONGEST_COUNTED = 1 << 20  # characters of a history whose user messages are counted: it is parsed once for each turn


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
    repeated: tuple[ToolRequest, ...] = ()
    """The requests with ids whose answers it holds, in their order."""


def said_in(output: object) -> Iterable[Message]:
    """Return the messages of output that may ask for tools; other text is not parsed, and has none."""
    return _said_in_text(output) if isinstance(output, str) else map(message_of, raw_messages(output))


@lru_cache(8)
def _said_in_text(text: str) -> tuple[Message, ...]:
    """Several readers of one span ask for the same text. What was read is shared, so it must not be changed."""
    if not any(mark in text for mark in _REQUEST_MARKS):
        return ()
    return tuple(map(message_of, raw_messages(text)))


def requests_in(output: object) -> tuple[ToolRequest, ...]:
    """Return the tool calls that a model's output asks for, in its order."""
    said = _asking_in(output)
    asked = [request for one in said for request in one.requests]
    if any(_is_garbled(request.arguments) for request in asked):
        return ()
    failed = {result.call_id for one in said for result in one.results if result.failed}
    return tuple([_tool_request(request, failed) for request in asked if not is_redacted(request.name)])


def are_garbled(output: object) -> bool:
    """Say whether a model's output asks for tools that cannot be told: some writers join the arguments streamed."""
    if isinstance(output, str) and asks_in_part(output):
        return True
    return any(_is_garbled(request.arguments) for one in _asking_in(output) for request in one.requests)


def _asking_in(output: object) -> list[Message]:
    return [one for one in said_in(output) if one.requests and one.role in {"assistant", ""}]


def _is_garbled(arguments: object) -> bool:
    return isinstance(arguments, str) and "}{" in arguments and read_value(arguments) is arguments


def _tool_request(request: MessageRequest, failed: Collection[str]) -> ToolRequest:
    content, captures = read_arguments(request.arguments, {})
    has_failed = request.failed or (request.call_id != "" and request.call_id in failed)
    return ToolRequest(request.name, content, request.call_id or None, captures, failed=has_failed)


_BEGINS_AS_OBJECT = re.compile(r"(?:[A-Za-z]\w* ?)?[\[{]|[A-Za-z]\w*\(")
"""As JSON does, or what languages print: `Object {"tool_calls": ...`, `ChatCompletionMessage(...`."""
_NO_VALUE = re.compile(rf"(?:{'|'.join(_REQUEST_MARKS)})\w{{0,9}}[\"']? ?[=:] ?(?:None|[Nn]ull|nil|(?:Array )?\[\])")


@lru_cache(8)
def asks_in_part(text: str) -> bool:
    """Say whether a text is of messages that ask for tools, and cannot be read: cut, or written for people to read."""
    if _BEGINS_AS_OBJECT.match(text) is None or not any(mark in text for mark in _REQUEST_MARKS):
        return False
    told = _NO_VALUE.sub("", text)
    return any(mark in told for mark in _REQUEST_MARKS) and read_value(text) is text


_LONGEST_NOTHING = 100  # characters of messages with nothing but their role and why they end


def says_nothing(output: object) -> bool:
    """Say whether a model's output has messages, and these nothing but their role and why they end."""
    is_long = isinstance(output, str) and len(output) > _LONGEST_NOTHING
    messages = () if is_long else tuple(raw_messages(output))
    return bool(messages) and not any(one[key] for one in messages for key in one.keys() - {"role", "finish_reason"})


def end_of_input(messages: object) -> InputEnd:
    """Read the messages since the model's last one. The history before is parsed only where a turn begins."""
    found = list(since_the_model(messages))
    answered: dict[str, bool] = {}
    for result in (one for message in found for one in message.results if one.call_id):
        answered.setdefault(result.call_id, result.failed)
    new_user_message, user_text = _told_by_user(found)
    latest = sum(message.role == "user" and not message.results for message in found)
    counts = _user_messages(messages, latest) if new_user_message else None
    asked = [one for message in reversed(found) for one in message.requests if one.call_id in answered]
    return InputEnd(
        new_user_message, answered or None, user_text, counts, tuple([_tool_request(one, ()) for one in asked])
    )


def _told_by_user(found: Iterable[Message]) -> tuple[bool | None, Content]:
    """Return whether these messages, the last of them first, end with one of a user, and what a user says in them."""
    new_user_message: bool | None = None
    user_text = NO_CONTENT
    for message in found:
        if message.results and (new_user_message is None or user_text is NO_CONTENT):
            if new_user_message is None and message.role == "user" and message.text:
                user_text = _captured(message.text)  # beside results: a user's only where a run begins with it
            new_user_message = False  # a message without text behind results may be the framework's
        elif new_user_message is None and message.role == "user":
            new_user_message = True
            user_text = _captured(message.text)
    return new_user_message, user_text


def since_the_model(messages: object) -> Iterable[Message]:
    """Return the messages since the model's last one, from the last to the first, and what that asked for."""
    return _end_of_text(messages) if isinstance(messages, str) else _since_the_model(messages)


def _until_the_model(messages: object) -> tuple[list[tuple[Mapping[str, Any], str]], Mapping[str, Any] | None]:
    """Return the messages since the model's last one with their roles, from the last to the first, and that one."""
    latest: list[tuple[Mapping[str, Any], str]] = []
    for raw in newest_first(messages):
        role = role_of(raw)
        if role == "assistant":
            return latest, raw
        latest.append((raw, role))
    return latest, None


def _since_the_model(messages: object) -> Iterator[Message]:
    latest, asking = _until_the_model(messages)
    said = Message("") if asking is None else message_of(asking)
    asked = [one.name for one in said.requests]
    is_whole = getattr(messages, "whole", True)
    for place, (raw, role) in enumerate(latest, start=1):
        if not role and raw.get("role") in asked:  # Langfuse's handler for LangChain.js writes the tool's name there
            yield message_of({**raw, "role": "tool", "name": raw["role"]})
        elif asking is not None and place == len(latest) and is_whole:
            yield _answering(message_of(raw), role, asking)
        else:
            yield message_of(raw)
    if said.results and latest and not any(is_user_message(raw) for raw, _ in latest):
        yield Message("tool", results=said.results)  # what the provider ran itself, beside what it asked for
    if latest and said.requests:
        yield Message("", requests=said.requests)


def _answering(message: Message, said_by: str, asking: Mapping[str, Any]) -> Message:
    """Return the message behind a model's last one: a result, if that asked for tools, and only then.

    Providers accept none of a user there. Some writers leave out what marks a result, and others what a user said.
    """
    if said_by == "user" and message.results == UNWRITTEN and (asked := message_of(asking)).text and not asked.requests:
        return Message("user")
    if message.role == "user" and not message.results and awaits_results(message_of(asking)):
        return Message("user", results=(MessageResult(content=message.text),))
    if message == Message("user") and asking.get("role") == "model" and message_of(asking) == Message("assistant"):
        return Message("user", results=UNWRITTEN)  # LangSmith writes no function of Gemini's: neither of them is empty
    return message


def awaits_results(message: Message) -> bool:
    """Say whether a message asks for tools and does not hold what they answered."""
    return bool(message.requests) and not message.results


@lru_cache(8)
def _end_of_text(text: str) -> tuple[Message, ...]:
    return tuple(_since_the_model(text))


def whole_history(messages: object) -> Iterable[Message] | None:
    """Return all messages; none where the first may be missing, or where they are too long."""
    if not getattr(messages, "whole", True) or (isinstance(messages, str) and len(messages) > _LONGEST_COUNTED):
        return None
    if isinstance(messages, str) and (inside := _conversation_in(messages)) is not None:
        return map(message_of, raw_messages(inside))
    return _history_in_text(messages) if isinstance(messages, str) else map(message_of, raw_messages(messages))


_TEXT_OF_LIST = '"[{\\"'
"""How a list of objects begins where it is the text of a message."""


def _conversation_in(text: str) -> Sequence[Any] | None:
    """Return the conversation that is the text of its user's only message: some writers know no list of items."""
    if _TEXT_OF_LIST not in text or text.count('"role"') > 1:
        return None
    told = [message_of(raw).text for raw in raw_messages(text)]
    inside = _elements(told[0].strip()) if len(told) == 1 else None
    are_messages = bool(inside) and all(is_mapping(one) and _is_of_conversation(one) for one in inside or ())
    return inside if are_messages else None


def _is_of_conversation(item: Mapping[str, Any]) -> bool:
    message = message_of(item)
    return "role" in item or bool(message.requests or message.results)


_recent: dict[str, tuple[Message, ...]] = {}
"""The histories that were read last, each by its text up to the closing bracket."""
_MOST_RECENT = 8


@lru_cache(4)
def _history_in_text(text: str) -> tuple[Message, ...]:
    """Read a history. One that begins as another did, as that of the next call does, is read from where that ends."""
    for begin, read in reversed(tuple(_recent.items())):
        if text.startswith(begin):
            more = _elements(f"[{rest[1:]}") if (rest := text[len(begin) :].lstrip())[:1] == "," else None
            if more or rest == "]":
                _recent.pop(begin, None)
                return _remember(text, (*read, *_messages_in(more or ())))
    elements = _elements(text)
    if elements is None:
        return _messages_in(text)
    return _remember(text, _messages_in(elements))


def _messages_in(value: object) -> tuple[Message, ...]:
    return tuple(map(message_of, raw_messages(value)))


def _elements(text: str) -> Sequence[Any] | None:
    """Return the elements of a JSON array."""
    value = decoded(text) if text.startswith("[") and text.endswith("]") else None
    return value if is_sequence(value) else None


def _remember(text: str, read: tuple[Message, ...]) -> tuple[Message, ...]:
    _recent[text[:-1]] = read
    for oldest in tuple(_recent)[:-_MOST_RECENT]:
        _recent.pop(oldest, None)
    return read


def _user_messages(messages: object, latest: int) -> UserMessages | None:
    """Count the users' messages, of which so many are the latest; none where the first may be missing, or too long."""
    history = whole_history(messages)
    if history is None:
        return None
    total = sum(message.role == "user" and not message.results for message in history)
    return UserMessages(total - latest, total) if total >= latest else None


def is_user_message(raw: Mapping[str, Any]) -> bool:
    """Return whether a user wrote this message, and not a tool in the user's name."""
    return role_of(raw) == "user" and not message_of(raw).results


def last_user_text(messages: object) -> Content:
    """Return the text of the last message that a user wrote, answers of tools aside."""
    if isinstance(messages, str) and is_redacted(messages):
        return Content(messages, Capture.REDACTED)
    for raw in newest_first(messages):
        if is_user_message(raw) and (text := text_of(raw)):
            return _captured(text)
    return NO_CONTENT


def last_answer(messages: object) -> Content:
    """Return the text of the model's last message, if it has any."""
    if isinstance(messages, str) and is_redacted(messages):
        return Content(messages, Capture.REDACTED)
    said = _said_in_text(messages) if isinstance(messages, str) else ()
    if said and said[-1].role == "assistant":
        return _captured(said[-1].text)
    for raw in newest_first(messages):
        if role_of(raw) in {"assistant", ""}:
            return _captured(text_of(raw))
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
    read = 0
    if isinstance(messages, str) and (inside := _conversation_in(messages)) is not None:
        messages = inside
    elif isinstance(messages, str):
        text = messages.rstrip()
        stop = len(text) - 1
        opening = _OPENING.match(text)
        while opening is not None and (start := text.rfind(opening[1], 0, stop)) >= 0:
            # It is an element of the outermost array only if a comma or the last bracket follows.
            element = text[start : stop + (read == 0)].rstrip()
            message = decoded(element[:-1]) if element[-1:] == ("," if read else "]") else None
            if not is_dict(message):
                break
            yield from raw_messages_backwards(message)
            read += 1
            stop = start
            if start == opening.start(1):
                return
        messages = read_value(text)
    if is_sequence(messages):
        for position in range(len(messages) - 1 - read, -1, -1):
            yield from raw_messages_backwards(messages[position])
    elif not isinstance(messages, str):
        yield from raw_messages_backwards(messages)
