"""How many user messages a model's input holds, in the encodings of several dialects."""

from __future__ import annotations

import json
from typing import Any

import pytest

from goldspan.mappers.dialects.reading.model_messages import end_of_input, flat_messages
from goldspan.mappers.spans import DecodedSpan
from goldspan.scoring.sessions import UserMessages

ASK = {"role": "user", "content": "And to Oslo?"}
ANSWER = {"role": "assistant", "content": "Two flights."}
TOOL_IN_USERS_NAME = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "2"}]}


@pytest.mark.parametrize(
    ("messages", "counted"),
    [
        ([ASK], (0, 1)),
        ([ASK, ANSWER, ASK], (1, 2)),
        ([ASK, ANSWER, ASK, ASK], (1, 3)),
        ([ASK, ANSWER, TOOL_IN_USERS_NAME, ANSWER, ASK], (1, 2)),
        ([ASK, ANSWER, TOOL_IN_USERS_NAME], None),
        ([ANSWER], None),
        ([ASK, ANSWER, {"role": "user", "content": "x" * (1 << 20)}], None),
    ],
)
def test_user_messages_are_counted_where_a_turn_begins(messages: list[Any], counted: tuple[int, int] | None) -> None:
    expected = None if counted is None else UserMessages(*counted)
    assert end_of_input(json.dumps(messages)).user_messages == expected
    if len(json.dumps(messages)) < 1 << 20:
        assert end_of_input(messages).user_messages == expected


def test_they_are_not_counted_where_an_attribute_limit_dropped_the_first_messages() -> None:
    attributes = {
        f"llm.input_messages.{number}.message.{key}": value
        for number, message in enumerate([ASK, ANSWER, ASK])
        for key, value in message.items()
    }
    span = DecodedSpan("t", "s", attributes=attributes)
    read = flat_messages("llm.input_messages.")
    assert end_of_input(read(span, attributes)).user_messages == UserMessages(1, 2)
    for dropped in range(1, 4):
        kept = dict(list(attributes.items())[dropped:])
        assert end_of_input(read(span, kept)).user_messages is None
