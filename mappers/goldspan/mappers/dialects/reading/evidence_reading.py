"""What a span says by the shape of its values: no key of an instrumentation is named here, only common words of keys.

{"role": "assistant", "tool_calls": [...]}            anywhere in a value: messages, whatever is around them
llm.input_messages.0.message.role, gen_ai.prompt.0.*  numbered keys: messages, a leaf under each key
...output..., ...completion..., ...response...        the words of keys tell what came out of a model or a tool
...arguments..., ...input..., ...args...              an object there is what a tool was called with
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from goldspan.mappers.dialects.reading.model_messages import (
    LazyMessages,
    input_events,
    is_user_message,
    message_of_leaves,
    newest_first,
    output_events,
    requests_in,
)
from goldspan.mappers.dialects.reading.value_parsing import identifier
from goldspan.mappers.span_evidence import (
    NO_EVIDENCE,
    RequestEvidence,
    ResultEvidence,
    SpanEvidence,
    value_digest,
)
from goldspan.mappers.span_facts import Role
from goldspan.mappers.spans import NO_ATTRIBUTES, SpanView
from goldspan.scoring.json_values import is_mapping, is_sequence
from goldspan.scoring.messages import MessageResult, message_of, raw_messages, result_text, role_of, text_of
from goldspan.scoring.recorded_values import loads
from goldspan.scoring.sessions import Capture

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_NUMBERED = re.compile(r"(.+?)\.(\d{1,6})\.(.+)")
_OUT = frozenset(
    {
        *("output", "outputs", "completion", "completions", "response", "result", "results"),
        *("choice", "choices", "answer", "returned", "generation"),
    }
)
_IN = frozenset({"input", "inputs", "prompt", "prompts", "request"})
_ARGUMENTS = frozenset({"arguments", "args", "input", "inputs", "parameters", "params", "kwargs"})
_NO_MESSAGES = frozenset({"tools", "functions", "definitions", "metadata", "usage", "schema", "config", "invocation"})
_ERROR = frozenset({"error", "exception", "failure"})
_SESSION = frozenset({"session", "conversation", "thread"})
_NO_SESSION = frozenset({"mcp", "transport", "parent", "user", "name"})
_NO_ERROR = frozenset({"", "false", "none", "null", "ok", "success", "0"})
_FAILURES = frozenset({"error", "failure", "failed"})
_MESSAGE_MARKS = ("role", "ool", "unction", "essage")
"""Parts of words, one of which any text with messages has."""
_NAMES_ERROR = re.compile(
    r"\W*(?:an? )?(?:\w+ )?(?:\w*error|exception|traceback|failed)\b"
    r"|.{0,60}\b(?:error (?:occurred|executing|while|running|calling|invoking)|execution failed|failed with)\b",
    re.IGNORECASE | re.DOTALL,
)
_MOST_KEYS = 1 << 14
_MOST_OBJECTS = 12
_LONGEST_COUNTED = 1 << 20
_DEEPEST = 6
_ENVELOPES = frozenset({"content", "contents", "data", "output", "outputs", "result", "results", "response", "value"})


class _Key(NamedTuple):
    """What the words of a key say of its value."""

    out: bool
    arguments: bool
    error: bool
    outcome: bool
    session: bool
    messages: bool
    list: str = ""
    """The part before a number, where the key is numbered; `number` and `leaf` are what follows."""
    number: int = 0
    leaf: str = ""


_keys: dict[str, _Key] = {}


def _key(key: str) -> _Key:
    known = _keys.get(key)
    if known is None:
        if len(_keys) >= _MOST_KEYS:
            _keys.clear()
        known = _keys[key] = _read_key(key)
    return known


def _read_key(key: str) -> _Key:
    numbered = _NUMBERED.fullmatch(key)
    base = key if numbered is None else numbered[1]
    words = frozenset(word.lower() for word in _WORD.findall(base))
    return _Key(
        out=not words.isdisjoint(_OUT) and words.isdisjoint(_IN),
        arguments=not words.isdisjoint(_ARGUMENTS) and words.isdisjoint(_OUT),
        error=not words.isdisjoint(_ERROR),
        outcome="outcome" in words,
        session="id" in words and not words.isdisjoint(_SESSION) and words.isdisjoint(_NO_SESSION),
        messages=words.isdisjoint(_NO_MESSAGES),
        list="" if numbered is None else base,
        number=0 if numbered is None else int(numbered[2]),
        leaf="" if numbered is None else numbered[3],
    )


def evidence_of(span: SpanView, role: Role | None) -> SpanEvidence:
    """Return what the values of a span say; `role` only tells what need not be looked for."""
    seen = _Seen(role)
    for key, value in span.attributes.items():
        if type(key) is str and value is not None:
            seen.add(_key(key), key, value)
    if span.events:
        seen.add_messages(input_events(span, NO_ATTRIBUTES), out=False)
        seen.add_messages(output_events(span, NO_ATTRIBUTES), out=True)
    found = seen.evidence()
    return NO_EVIDENCE if found == NO_EVIDENCE else found


class _Seen:
    """What was seen of a span until now."""

    def __init__(self, role: Role | None) -> None:
        self._role = role
        self._given: list[Any] = []
        self._said: list[Any] = []
        """Values that may hold messages, by where they stand."""
        self._lists: dict[str, dict[int, dict[str, Any]]] = {}
        self._arguments: list[Any] = []
        self._results: list[Any] = []
        self._sessions: list[tuple[str, str]] = []
        self._names_error = False

    def add(self, says: _Key, key: str, value: Any) -> None:
        """Add an attribute."""
        if says.list:
            if says.messages:
                self._lists.setdefault(says.list, {}).setdefault(says.number, {})[says.leaf] = value
            return
        if (says.error or says.outcome) and self._role is Role.TOOL:
            self._note_error(says, value)
        if isinstance(value, str):
            if says.session and (found := identifier(value)) is not None:
                self._sessions.append((key, found))
            holds_json = value[:1] in ("{", "[", '"') or value.lstrip()[:1] in ("{", "[")
        else:
            holds_json = is_mapping(value) or is_sequence(value)
        if self._role is Role.TOOL or self._role is None:
            if says.out:
                self._results.append(value)
            elif says.arguments and holds_json:
                self._arguments.append(value)
        if holds_json and says.messages and self._role is not Role.TOOL:
            (self._said if says.out else self._given).append(value)

    def add_messages(self, messages: Sequence[Mapping[str, Any]] | None, *, out: bool) -> None:
        """Add messages that are held in a way of their own."""
        if messages is not None:
            (self._said if out else self._given).append(messages)

    def _note_error(self, says: _Key, value: Any) -> None:
        if isinstance(value, str):
            text = value.strip().strip('"').lower()
            self._names_error = self._names_error or (text in _FAILURES if says.outcome else text not in _NO_ERROR)
        else:
            self._names_error = self._names_error or value is True

    def evidence(self) -> SpanEvidence:
        for base, leaves in self._lists.items():
            whole = max(leaves) == len(leaves) - 1
            messages = LazyMessages([leaves[number] for number in sorted(leaves)], message_of_leaves, whole=whole)
            self.add_messages(messages, out=_key(base).out)
        requests, speaks = self._requests()
        results, continues, users = self._input()
        return SpanEvidence(
            requests,
            results,
            speaks,
            continues,
            users,
            tuple(dict.fromkeys(value_digest(one) for value in self._arguments for one in _objects_in(value))),
            self._failed(),
            self._names_error,
            tuple(self._sessions),
        )

    def _failed(self) -> bool | None:
        found = [names_error(value) for value in self._results if value not in ("", "null")]
        return any(found) if found else None

    def _requests(self) -> tuple[tuple[RequestEvidence, ...], bool]:
        for said in self._said:
            messages = tuple(raw_messages(said))
            if not any(role_of(message) in {"assistant", ""} for message in messages):
                continue
            found: list[RequestEvidence] = []
            response, answered = 0, False
            for message in messages:
                if role_of(message) in {"user", "tool"}:
                    answered = True
                    continue
                asked = requests_in([message])
                if asked and answered:
                    response, answered = response + 1, False
                for one in asked:
                    known = one.arguments.raw if one.arguments.capture is Capture.CAPTURED else None
                    digest = "" if known is None else value_digest(known)
                    names = tuple(known) if is_mapping(known) else ()
                    found.append(RequestEvidence(one.name, one.call_id, digest, names, response))
            return tuple(found), True
        return (), False

    def _input(self) -> tuple[tuple[ResultEvidence, ...], bool | None, tuple[str, ...] | None]:
        for given in self._given:
            results: list[ResultEvidence] = []
            continues: bool | None = None
            known = False
            for raw in newest_first(given):
                message = message_of(raw)
                known = known or bool(message.role)
                if message.role == "assistant":
                    break
                results += map(_result, message.results)
                if continues is None and (message.results or message.role == "user"):
                    continues = bool(message.results)
            if known:
                users = None if continues is not False else _users(given)
                return tuple(reversed(results)), continues, users
        return (), None, None


def _result(result: MessageResult) -> ResultEvidence:
    content = result_text(result)
    failed = True if result.failed else names_error(content) if content else None
    return ResultEvidence(result.call_id or None, result.name or None, failed)


def _users(messages: object) -> tuple[str, ...] | None:
    """Return digests of what users said: where the model had finished, not where it waits for a tool."""
    if not getattr(messages, "whole", True) or (isinstance(messages, str) and len(messages) > _LONGEST_COUNTED):
        return None
    users: list[str] = []
    is_free = True
    for message in raw_messages(messages):
        role = role_of(message)
        if role == "assistant":
            is_free = not requests_in([message])
        elif role == "tool" or (role == "user" and not is_user_message(message)):
            is_free = False
        elif role == "user":
            if is_free:
                users.append(value_digest(text_of(message).strip()))
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
            if one.lstrip()[:1] not in ("{", "[", '"'):
                continue
            try:
                one = loads(one)
            except (ValueError, RecursionError):
                continue
            waiting += [one] if isinstance(one, str) else []
        if is_mapping(one):
            found += [one] if one else []
            waiting += one.values()
        elif is_sequence(one):
            waiting += one[:_MOST_OBJECTS]
    return found


def names_error(value: object, depth: int = 3) -> bool:
    """Return whether a result is marked as an error or begins as the text of one does: a reason for doubt, no more."""
    if isinstance(value, str) and value[:1] in ("{", "[", '"'):
        try:
            value = loads(value)
        except (ValueError, RecursionError):
            return False
    if is_mapping(value):
        if value.get("is_error") is True or value.get("isError") is True or value.get("status") in _FAILURES:
            return True
        if value.get("error") or value.get("exception"):
            return True
        return depth > 0 and any(names_error(inner, depth - 1) for key, inner in value.items() if key in _ENVELOPES)
    if is_sequence(value):
        return depth > 0 and any(names_error(inner, depth - 1) for inner in value[:20])
    return isinstance(value, str) and _NAMES_ERROR.match(value) is not None
