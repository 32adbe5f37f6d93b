"""Items of Axion's data sets (ax-foundry/axion), told by their fields: nothing of Axion's is imported.

    for item in dataset.items:
        print(score_session(golden_of(item), session_of(item)))

An item is a `DatasetItem`, or the same as JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from goldspan.collector_processor.adapters.session_metric import content_of
from goldspan.scoring.goldens.golden import ExpectedCall, Golden
from goldspan.scoring.json_values import is_mapping
from goldspan.scoring.sessions import Session, ToolCall, Turn

__all__ = ["golden_of", "session_of"]


def golden_of(item: object) -> Golden | None:
    """Return what an item expects: its `expected_tools`, else the `reference_tool_calls` of its conversation.

    They are one list for the whole session, literal. None: the item expects nothing.
    """
    expected = _field(item, "expected_tools")
    if expected is None:
        expected = _field(_conversation(item), "reference_tool_calls")
    if expected is None:
        return None
    calls = (ExpectedCall(str(_field(call, "name")), _field(call, "args") or {}, literal=True) for call in expected)
    return Golden(_id(item), calls=tuple(calls))


def session_of(item: object) -> Session:
    """Return what happened: the turns of its conversation, each from a user's message on, or one turn of its query.

    The calls are those of the assistant's messages, else `tools_called`, which belong to the last turn. Without both,
    the calls are unknown.
    """
    called = _field(item, "tools_called")
    turns = list(_turns(_field(_conversation(item), "messages") or ()))
    if not turns:
        query = _field(item, "query", "single_turn_query")
        turns = [Turn(user_text=content_of(query), answer=content_of(_field(item, "actual_output")))]
    if not any(turn.calls for turn in turns) and not _conversation_has_tools(item):
        last = turns[-1]
        calls = () if called is None else tuple(_call(call, {}, 0) for call in called)
        turns[-1] = Turn(calls, user_text=last.user_text, answer=last.answer, calls_visible=called is not None)
    return Session(_id(item), tuple(turns))


def _turns(messages: Sequence[object]) -> Iterator[Turn]:
    number = 0
    numbered: list[tuple[int, object]] = []
    for message in messages:
        number += _field(message, "role") == "user"
        numbered.append((number, message))
    for _, group in groupby(numbered, key=lambda one: one[0]):
        yield _turn([message for _, message in group])


def _turn(messages: Sequence[object]) -> Turn:
    user = [_field(one, "content") for one in messages if _field(one, "role") == "user"]
    said = [text for one in messages if _field(one, "role") == "assistant" and (text := _field(one, "content"))]
    answers = {_field(one, "tool_call_id"): one for one in messages if _field(one, "role") == "tool"}
    calls = (
        _call(call, answers, number)
        for number, message in enumerate(messages, start=1)
        for call in _field(message, "tool_calls") or ()
    )
    return Turn(
        tuple(calls), user_text=content_of(user[0] if user else None), answer=content_of(said[-1] if said else None)
    )


def _call(call: object, answers: dict[Any, object], batch: int) -> ToolCall:
    """Return a call with its answer; those of one message are a parallel batch."""
    call_id = _field(call, "id")
    answer = answers.get(call_id)
    result = _field(answer, "content")
    failed = bool(_field(answer, "is_error"))
    return ToolCall(
        str(_field(call, "name")),
        _field(call, "args") or {},
        call_id=call_id,
        batch=batch,
        result=content_of(result),
        error=(str(result) or "error") if failed else None,
    )


def _conversation(item: object) -> object:
    return _field(item, "conversation", "multi_turn_conversation")


def _conversation_has_tools(item: object) -> bool:
    """Return whether the messages of an item would show its calls: an item with `tools_called` keeps them there."""
    return _conversation(item) is not None and _field(item, "tools_called") is None


def _id(item: object) -> str:
    return str(_field(item, "session_id") or _field(item, "id", "dataset_id") or "")


def _field(value: object, *names: str) -> Any:
    """Return the first field of an object or a mapping that is there and not None."""
    for name in names:
        found = value.get(name) if is_mapping(value) else getattr(value, name, None)
        if found is not None:
            return found
    return None
