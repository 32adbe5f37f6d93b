"""How many user messages a model's input holds, in the encodings of several dialects."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.dialects.reading.model_messages import (
    end_of_input,
    flat_messages,
    since_the_model,
    whole_history,
)
from goldspan.mappers.span_facts import Role
from goldspan.mappers.spans import DecodedSpan
from goldspan.scoring import json_values
from goldspan.scoring.sessions import UserMessages

ASK = {"role": "user", "content": "And to Oslo?"}
ANSWER = {"role": "assistant", "content": "Two flights."}
ASKING = {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}
ANSWERED = {"role": "assistant", "parts": [{"type": "tool_call", "name": "f"}, {"type": "tool_call_response"}]}
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
        ([ASK, ANSWER, {"role": "user", "tool_call_id": "1", "content": "2"}], None),
        ([ASK, ANSWER, {"role": "tool", "tool_call_id": "1", "content": "2"}, {"role": "user", "content": ""}], None),
        ([ASK, ANSWER, {"role": "user", "content": "x" * (1 << 20)}], None),
        ([ASK, ASKING, {"role": "user", "content": '{"flights": 2}'}], None),
        ([ASK, ASKING, {"role": "tool", "content": "2"}, ASK], (1, 2)),
        ([ASK, ANSWERED, ASK], (1, 2)),
    ],
)
def test_user_messages_are_counted_where_a_turn_begins(messages: list[Any], counted: tuple[int, int] | None) -> None:
    expected = None if counted is None else UserMessages(*counted)
    assert end_of_input(json.dumps(messages)).user_messages == expected
    if len(json.dumps(messages)) < 1 << 20:
        assert end_of_input(messages).user_messages == expected


def test_a_message_whose_role_is_the_name_of_an_asked_tool_is_its_result() -> None:
    asking = {"role": "assistant", "tool_calls": [{"function": {"name": name, "arguments": "{}"}} for name in "fg"]}
    answers = [{"role": "f", "content": "2"}, {"role": "g", "content": "Error: none left"}]
    messages = [ASK, asking, *answers]
    assert end_of_input(messages).new_user_message is False
    found = [
        (result.name, result.content, result.failed) for one in since_the_model(messages) for result in one.results
    ]
    assert found == [("g", "Error: none left", True), ("f", "2", False)]
    for role in ("critic", ["f"]):  # nobody asked it
        assert end_of_input([ASK, asking, {"role": role, "content": "2"}]).new_user_message is None


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


EARLIER = json.dumps([{**ANSWER, "id": None}, ASK])
WRITTEN = {
    "the same": EARLIER,
    "longer": json.dumps([ANSWER, ASK, ANSWER, ASK]),
    "longer, with spaces": f"{EARLIER[:-1]}  ,\n {json.dumps(ASK)}] ",
    "with a comma and no more": f"{EARLIER[:-1]},]",
    "with text between": f"{EARLIER[:-1]} x, {json.dumps(ASK)}]",
    "cut off": json.dumps([ANSWER, ASK, ANSWER, ASK])[:-3],
    "two in one": f"{EARLIER[:-1]}, {json.dumps(ASK)}], [{json.dumps(ASK)}]",
    "with a number that is none": f"{EARLIER[:-1]}, {{**}}, NaN]",
    "another": json.dumps([ASK]),
    "none": "[]",
}


@pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)
def test_a_history_that_begins_as_one_read_before_says_what_it_says_alone(written: str) -> None:
    alone = f'[{{"role": "system", "content": "none read before begins so"}}{"," if written[1:-1] else ""}{written[1:]}'
    expected = whole_history(alone)
    assert expected is not None
    for earlier in ("[]", EARLIER):
        whole_history(earlier)
    assert list(whole_history(written) or ()) == list(expected)[1:]


def test_a_history_is_decoded_once_however_often_calls_repeat_it(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[str] = []
    decode: Callable[[str], Any] = json_values._decode  # pyright: ignore[reportPrivateUsage]

    def counted(text: str) -> Any:
        decoded.append(text)
        return decode(text)

    monkeypatch.setattr(json_values, "_decode", counted)
    said: list[Any] = [{"role": "system", "content": "Be brief."}, ASK]
    for number in range(40):
        call = {"id": f"{number}", "function": {"name": "f", "arguments": json.dumps({"x": f"{number}"})}}
        asked = [{"role": "assistant", "tool_calls": [call]}]
        names = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
        texts = {"gen_ai.input.messages": json.dumps(said), "gen_ai.output.messages": json.dumps(asked)}
        facts = DialectRegistry().read(DecodedSpan("t", f"{number}", attributes={**names, **texts}))
        assert facts is not None
        assert facts.role is Role.MODEL
        said += [*asked, {"role": "tool", "tool_call_id": f"{number}", "content": f"{number} " * 20}]
    assert sum(map(len, decoded)) < 4 * len(json.dumps(said))  # whole histories: twenty times as much
