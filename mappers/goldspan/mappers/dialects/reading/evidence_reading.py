"""What a span says by the shape of its values: no key of an instrumentation is named here, only common words of keys.

{"role": "assistant", "tool_calls": [...]}            anywhere in a value: messages, whatever is around them
llm.input_messages.0.message.role, gen_ai.prompt.0.*  numbered keys: messages, a leaf under each key
...output..., ...completion..., ...response...        the words of keys tell what came out of a model or a tool
...arguments..., ...input..., ...args...              an object there is what a tool was called with
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from msgspec.structs import replace

from goldspan.mappers.carrying_keys import ERROR_WORDS, INPUT_WORDS, NO_ERRORS, OUTPUT_WORDS, names_session
from goldspan.mappers.dialects.reading import model_messages
from goldspan.mappers.dialects.reading.value_parsing import is_redacted, session_identifier
from goldspan.mappers.span_facts import (
    NO_EVIDENCE,
    RequestEvidence,
    ResultEvidence,
    Role,
    SpanEvidence,
    ToolFacts,
    value_digest,
)
from goldspan.mappers.spans import NO_ATTRIBUTES, STATUS_ERROR, Attributes, SpanView
from goldspan.scoring.json_values import is_mapping, is_sequence, may_be_object, read_value
from goldspan.scoring.messages import Message, MessageRequest, MessageResult, result_text
from goldspan.scoring.patterns import regex
from goldspan.scoring.sessions import Capture

_WORD = regex(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_NUMBERED = regex(r"(.+?)\.(\d{1,6})\.(.+)")
_SPEAKING = frozenset(
    {
        *("messages", "message", "chat", "contents", "context", "ctx", "conversation", "history", "transcript"),
        *("in", "input", "inputs", "prompt", "prompts", "request", "llm", "body", "payload", "event", "data"),
    }
).union(OUTPUT_WORDS)
"""Words of keys under which messages may stand."""
_IN = frozenset({"in", "input", "inputs", "prompt", "prompts", "request"})
_NO_MESSAGES = frozenset({"tools", "functions", "definitions", "metadata", "usage", "schema", "config", "invocation"})
_NO_OBJECT = frozenset(
    {"id", "ids", "model", "tokens", "temperature", "reason", "reasons", "count", "type", "seed", "role"}
)
"""Last words of keys of plain values, which need not be decoded and are no answer."""
_FAILURES = frozenset({"error", "failure", "failed"})
_NAMES_ERROR = regex(
    r"\W*(?:an? )?(?:\w+ )?(?:\w*error|exception|traceback|failed)\b"
    r"|\W*status\W{1,3}(?:error|failure|failed)\b"
    r"|.{0,60}\b(?:error (?:occurred|executing|while|running|calling|invoking)|execution failed|failed with)\b",
    re.IGNORECASE | re.DOTALL,
)
_MOST_OBJECTS = 12
_LONGEST_RESULT = 1 << 14  # characters of a result that is looked into; of a longer one, only the beginning is
_SCALARS = (str, bytes, int, float)
_ENVELOPES = frozenset({"content", "contents", "data", "output", "outputs", "result", "results", "response", "value"})


class _Key(NamedTuple):
    """What the words of a key say of its value."""

    out: bool
    arguments: bool
    error: bool
    outcome: bool
    session: bool
    messages: bool  # messages may be in it
    list: str = ""  # the part before a number, where the key is numbered; `number` and `leaf` are what follows
    number: int = 0
    leaf: str = ""


def _says_out(words: frozenset[str], last: Iterable[str]) -> bool:
    """Say whether words are of what came out of a model or a tool, and not of its type or its count."""
    return not words.isdisjoint(OUTPUT_WORDS) and words.isdisjoint(_IN) and _NO_OBJECT.isdisjoint(last)


@lru_cache(1 << 14)
def _read_key(key: str) -> _Key | None:
    """Return what a key says; none where nothing of interest can stand under it."""
    numbered = _NUMBERED.fullmatch(key)
    base = key if numbered is None else numbered[1]
    in_order = [word.lower() for word in _WORD.findall(base)]
    words = frozenset(in_order)
    found = _Key(
        out=_says_out(words, {*in_order[-1:], *(word.lower() for word in _WORD.findall(key)[-1:])}),
        arguments=not words.isdisjoint(INPUT_WORDS) and words.isdisjoint(OUTPUT_WORDS),
        error=not words.isdisjoint(ERROR_WORDS),
        outcome="outcome" in words,
        session=names_session(base),
        messages=not words.isdisjoint(_SPEAKING) and words.isdisjoint(_NO_MESSAGES) and in_order[-1] not in _NO_OBJECT,
        list="" if numbered is None else base,
        number=0 if numbered is None else int(numbered[2]),
        leaf="" if numbered is None else numbered[3],
    )
    return found if any(found[:6]) and (found.messages or not found.list) else None


@lru_cache(1 << 10)
def _telling_keys(keys: tuple[object, ...], *, of_tool: bool) -> tuple[tuple[str, _Key], ...]:
    """Return the keys whose values may be evidence; spans of one kind have the same keys."""
    read = ((key, _read_key(key)) for key in keys if type(key) is str)
    telling = [(key, says) for key, says in read if says is not None]
    if of_tool:
        return tuple((key, says) for key, says in telling if not says.list and any(says[:5]))
    return tuple((key, says) for key, says in telling if says.messages or says.session)


def evidence_of(span: SpanView, role: Role | None, tool: ToolFacts | None = None) -> SpanEvidence:
    """Return what the values of a span say; `role` and `tool` only tell what need not be looked for."""
    if role is Role.TOOL:
        is_known = tool is not None and tool.call_id and tool.arguments.capture is Capture.CAPTURED
        found = _evidence_of_tool(span, arguments=not is_known)
    else:
        found = _evidence_of_model(span, given=role is Role.MODEL)
    if span.status_code == STATUS_ERROR:
        found = replace(found, status=value_digest(span.status_message))
    return NO_EVIDENCE if found == NO_EVIDENCE else found


def _evidence_of_tool(span: SpanView, *, arguments: bool) -> SpanEvidence:
    """Return the evidence of a span that is a tool's; `arguments` says whether these are wanted."""
    attributes = span.attributes
    held: list[Any] = []
    results: list[Any] = []
    sessions: list[tuple[str, str]] = []
    names_error = False
    for key, says in _telling_keys(tuple(attributes), of_tool=True):
        value = attributes[key]
        if value is None:
            continue
        if says.session:
            sessions += _session(key, value)
        if says.error or says.outcome:
            names_error |= _names_error(value, outcome=says.outcome)
        if says.out:
            results += () if isinstance(value, str) and _is_no_result(value) else (value,)
        elif arguments and says.arguments and (may_be_object(value) if isinstance(value, str) else is_mapping(value)):
            held.append(value)
    results += _results_in_events(span)
    return SpanEvidence(
        arguments=_digests_of_objects(held),
        failed=any_failed([says_failed(result) for result in results]) if results else None,
        names_error=names_error,
        sessions=tuple(sessions),
    )


def _is_no_result(text: str) -> bool:
    return text in ("", "null") or is_redacted(text)


def _digests_of_objects(values: Sequence[Any]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([value_digest(one) for value in values for one in _objects_in(value)]))


def _results_in_events(span: SpanView) -> Iterator[Any]:
    for event in span.events:
        for key, value in event.attributes.items():
            says = _read_key(f"{event.name}.{key}")
            if says is not None and says.out:
                yield value


def _session(key: str, value: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, str) or value.isdecimal() or (found := session_identifier(value)) is None:
        return ()
    return ((key, found),)


def _names_error(value: object, *, outcome: bool) -> bool:
    if isinstance(value, str):
        text = value.strip().strip('"').lower()
        return text in _FAILURES if outcome else text not in NO_ERRORS
    return value is True


def _evidence_of_model(span: SpanView, *, given: bool) -> SpanEvidence:
    """Return the evidence of any other span.

    Where nothing is `given` to a model, as for an agent, only a transcript tells responses apart.
    """
    attributes = span.attributes
    (given_to, said), sessions, texts = _told_by(span)
    texts = texts if given else []
    ended = _input(given_to) if given else _NO_INPUT
    if not given:
        said = [one for one in said if not isinstance(one, str) or _is_transcript(one)]
    requests = _requests(said)
    answers = not all(map(_says_nothing, [*said, *texts]))
    wrote = _written([*said, *texts]) if given and answers and not requests else ""
    asks_in_text = not requests and any(map(_asks_in_text, [*texts, wrote]))
    ends = _first_and_last_user(given_to) if requests and given else ()
    return SpanEvidence(
        requests,
        ended.results,
        ended.continues,
        ended.users,
        system_in(given_to, attributes) if ended.users or (given and given_to and ended == _NO_INPUT) else "",
        ends,
        answers,
        _answer_digest(wrote),
        asks_in_text,
        sessions=tuple(sessions),
        may_be_user=ended.may_be_user,
        with_arguments=ended.with_arguments,
        speaks=bool(wrote),
    )


def _told_by(span: SpanView) -> tuple[tuple[list[Any], list[Any]], list[tuple[str, str]], list[str]]:
    """Return what may hold messages, given to a model and said by it; the ids of sessions; and all texts said."""
    attributes = span.attributes
    values: tuple[list[Any], list[Any]] = ([], [])
    lists: dict[str, dict[int, dict[str, str]]] = {}
    """The keys of numbered attributes by base, number and leaf."""
    sessions: list[tuple[str, str]] = []
    texts: list[str] = []
    for key, says in _telling_keys(tuple(attributes), of_tool=False):
        value = attributes[key]
        if says.out and isinstance(value, str) and value:
            texts.append(value)
        if says.list:
            lists.setdefault(says.list, {}).setdefault(says.number, {})[says.leaf] = key
        elif value is not None:
            sessions += _session(key, value) if says.session else ()
            if says.messages and (may_be_object(value) if isinstance(value, str) else not isinstance(value, _SCALARS)):
                values[says.out].append(value)
    if span.events:
        _add_events(values, span)
    return _with_lists(values, lists, attributes) if lists else values, sessions, texts


_ASKING_TEXTS = ("Action Input:", "next_tool_name", "<tool_call>", "<function_calls>", "<function=")
"""What texts hold that ask for a tool: ReAct, DSPy, and the templates of open models."""


def _asks_in_text(text: str) -> bool:
    return any(mark in text[:_LONGEST_RESULT] for mark in _ASKING_TEXTS) or model_messages.asks_in_part(text)


def _add_events(values: tuple[list[Any], list[Any]], span: SpanView) -> None:
    """Add the messages in events: what a model was given, and what it said."""
    for out, messages in enumerate(
        (model_messages.input_events(span, NO_ATTRIBUTES), model_messages.output_events(span, NO_ATTRIBUTES))
    ):
        values[out].extend((messages,) if messages is not None else ())
    for event in span.events:
        for key, value in event.attributes.items() if event.name not in model_messages.MESSAGE_EVENTS else ():
            says = _read_key(f"{event.name}.{key}")
            if says is not None and says.messages and not says.list and isinstance(value, str) and may_be_object(value):
                values[says.out].append(value)


def _with_lists(
    values: tuple[list[Any], list[Any]], lists: Mapping[str, Mapping[int, Mapping[str, str]]], attributes: Attributes
) -> tuple[list[Any], list[Any]]:
    """Return the messages of numbered attributes before those that other attributes hold."""

    def message(leaves: Mapping[str, str]) -> Mapping[str, Any]:
        return model_messages.message_of_leaves({leaf: attributes[key] for leaf, key in leaves.items()})

    found: tuple[list[Any], list[Any]] = ([], [])
    for base, leaves in lists.items():
        whole = max(leaves) == len(leaves) - 1
        says = _read_key(base)
        messages = model_messages.LazyMessages([leaves[number] for number in sorted(leaves)], message, whole=whole)
        found[says is not None and says.out].append(messages)
    return found[0] + values[0], found[1] + values[1]


_LONGEST_EMPTY = 99  # characters of an answer without content, about: its role and why it ended


def _says_nothing(said: object) -> bool:
    return model_messages.says_nothing(
        read_value(said) if isinstance(said, str) and len(said) < _LONGEST_EMPTY else said
    )


def _is_transcript(text: str) -> bool:
    return any(mark in text for mark in ('"user"', '"human"', "HumanMessage"))


def _requests(said: Sequence[Any]) -> tuple[RequestEvidence, ...]:
    """Return the requests of the value that has the most: others leave out what a provider ran itself."""
    most: list[RequestEvidence] = []
    for output in said:
        found: list[RequestEvidence] = []
        response, answered = 0, False
        for message in model_messages.said_in(output):
            if message.role in {"user", "tool"}:
                answered = True
                found = found if message.role == "tool" or message.results else []  # of a transcript, the last turn
            elif message.requests:
                response, answered = response + answered, False
                found += [_asked(request, response) for request in message.requests]
        most = max(most, found, key=len)
    return tuple(most)


def _asked(request: MessageRequest, response: int) -> RequestEvidence:
    arguments = read_value(request.arguments)
    if not is_mapping(arguments):
        return RequestEvidence(request.name, request.call_id or None, response=response)
    names = tuple([name for name, value in arguments.items() if value is not None])
    return RequestEvidence(request.name, request.call_id or None, value_digest(arguments), names, response)


def _written(said: Iterable[Any]) -> str:
    """Return the text that a model answered."""
    short = (one for one in said if not isinstance(one, str) or len(one) <= _LONGEST_RESULT)
    answers = (one if isinstance(one, str) and not may_be_object(one) else _answer_in(one) for one in short)
    return next(filter(None, answers), "").strip()


def wrote_in(said: Iterable[Any]) -> str:
    """Return a digest of what a model answered, if that is long enough to tell where it goes."""
    return _answer_digest(_written(said))


def _answer_digest(wrote: str) -> str:
    return value_digest(wrote) if len(wrote) >= _SHORTEST_ANSWER and not is_redacted(wrote) else ""


def _answer_in(output: Any) -> str:
    text = model_messages.last_answer(output).value
    return text if isinstance(text, str) else ""


_SHORTEST_ANSWER = 12  # characters of a text that a user says after a model by no chance


class _Input(NamedTuple):
    """What the messages since the model's last one say."""

    results: tuple[ResultEvidence, ...] = ()
    continues: bool | None = None
    users: tuple[str, ...] | None = None
    may_be_user: bool = False
    with_arguments: tuple[str, ...] = ()


_NO_INPUT = _Input()


def _input(given: Sequence[Any]) -> _Input:
    for messages in given:
        end = tuple(model_messages.since_the_model(messages))
        if not any([message.role for message in end]):  # noqa: C419 - two or three messages: a generator costs more
            continue
        last = [bool(one.results) for one in end if one.results or one.role == "user"]
        continues = last[0] if last else None
        results = tuple([_result(result) for message in reversed(end) for result in message.results])
        users = users_in(messages) if continues is False else None
        return _Input(results, continues, users, _may_be_user(end), _with_arguments(end))
    return _NO_INPUT


def _may_be_user(end: Sequence[Message]) -> bool:
    told = ((one, result) for one in end if one.role == "user" for result in one.results)
    return any(not result.call_id and not may_be_object(result_text(result)) for _, result in told)


def _with_arguments(end: Sequence[Message]) -> tuple[str, ...]:
    asked = [one for message in end for one in message.requests if one.call_id and one.arguments]
    return tuple([one.call_id for one in asked if read_value(one.arguments) != {}])


def system_in(given: Sequence[Any], attributes: Attributes) -> str:
    """Return a digest of what the system told a model, in its messages or beside them."""
    for messages in given:
        history = model_messages.whole_history(messages)
        told = next((one.text for one in history or () if one.role == "system"), None)
        if told is not None:
            return value_digest(told)
        if history is None:
            continue
        body = read_value(messages) if isinstance(messages, str) and _BESIDE.search(messages) else messages
        if is_mapping(body) and (beside := _system_beside(body) or _system_beside(body.get("config"))):
            return value_digest(beside)
    beside = _system_beside(attributes)
    return "" if beside is None else value_digest(beside)


_SYSTEM = ("gen_ai.system_instructions", "system", "system_instruction", "systemInstruction", "instructions")
_BESIDE = regex(r'"(?:system|system_?[iI]nstruction|instructions)"\s*:')


def _system_beside(request: object) -> Any:
    """Return what a request tells a model in the system's name, beside the messages."""
    return next(filter(None, map(request.get, _SYSTEM)), None) if is_mapping(request) else None


def _first_and_last_user(given: Sequence[Any]) -> tuple[str, ...]:
    """Return digests of what a user said first and last, where the input is recorded whole."""
    for messages in given:
        history = model_messages.whole_history(messages)
        said = [one.text.strip() for one in history or () if one.role == "user" and not one.results]
        if said:
            return value_digest(said[0]), value_digest(said[-1])
    return ()


def _result(result: MessageResult) -> ResultEvidence:
    content = result.content if is_mapping(result.content) else result_text(result)
    failed = True if result.failed else None if content == "" else says_failed(content)
    return ResultEvidence(result.call_id or None, result.name or None, failed)


def users_in(messages: object) -> tuple[str, ...] | None:
    """Return digests of what users said: where the model had finished, not where it waits for a tool.

    None where a message of a model and the next are both empty, as some write requests and their results.
    """
    history = model_messages.whole_history(messages)
    if history is None:
        return None
    users: list[str] = []
    is_free, is_empty = True, False
    for message in history:
        if message.role == "assistant":
            is_free, is_empty = not model_messages.awaits_results(message), not message.text and not message.requests
        elif message.role == "tool" or message.results:
            is_free = False
        elif message.role == "user":
            if is_empty and not message.text:
                return None
            if is_free:
                users.append(value_digest(message.text.strip()))
            is_free = False
    return tuple(users)


# Objects and errors inside values.


def _objects_in(value: object) -> list[Mapping[str, Any]]:
    """Return the objects inside a value that is written as arguments are, from the outside inwards."""
    found: list[Mapping[str, Any]] = []
    waiting = [value]
    while waiting and len(found) < _MOST_OBJECTS:
        one = waiting.pop(0)
        if isinstance(one, str):
            one = read_value(one) if may_be_object(one) else None
        if is_mapping(one):
            found += [one] if one else []
            waiting += one.values()
        elif is_sequence(one):
            waiting += one[:_MOST_OBJECTS]
    return found


def says_failed(value: object, depth: int = 3) -> bool | None:
    """Return whether a result is marked as an error or begins as the text of one does: a reason for doubt, no more.

    None where a tool returned an object with an error of its own, which may be its normal answer.
    """
    if isinstance(value, str):
        text = value[:_LONGEST_RESULT].lower()
        if not ("error" in text or "exception" in text or "traceback" in text or "fail" in text or "\\u" in text):
            return False  # however it is read, it names no error
        if len(value) <= _LONGEST_RESULT and may_be_object(value):
            value = read_value(value)
    inner: Sequence[Any] = ()
    if is_mapping(value):
        status = value.get("status")
        is_marked = value.get("is_error") is True or value.get("isError") is True
        if is_marked or (isinstance(status, str) and status in _FAILURES):
            return True
        if value.get("error") or value.get("exception"):
            return None
        inner = [held for key, held in value.items() if key in _ENVELOPES]
    elif is_sequence(value):
        inner = value[:_MOST_OBJECTS]
    elif isinstance(value, str):
        return _begins_as_error(value)
    return any_failed([says_failed(one, depth - 1) for one in inner]) if inner and depth else False


def _begins_as_error(text: str) -> bool | None:
    """Say whether a text begins as an error; none of an object that is cut."""
    if _NAMES_ERROR.match(text) is None:
        return False
    return None if may_be_object(text) else True


def any_failed(found: Iterable[bool | None]) -> bool | None:
    """Return whether one of several failed; none where that is not known."""
    every = tuple(found)
    return True if True in every else None if None in every else False
