"""Items of Axion's data sets, as objects and as JSON, in the shape of its models: Axion is on no package index."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from goldspan.collector_processor.adapters.axion import golden_of, session_of
from goldspan.scoring import Reason, score_session, score_sessions

PARIS = {"id": "c1", "name": "get_weather", "args": {"city": "Paris"}, "tags": []}
ROME = {"id": "c2", "name": "get_weather", "args": {"city": "Rome"}, "tags": []}
OSLO = {"id": "c3", "name": "get_weather", "args": {"city": "Oslo"}, "tags": []}
MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": "Paris?"},
    {"role": "assistant", "content": None, "tool_calls": [PARIS]},
    {"role": "tool", "tool_call_id": "c1", "content": "sunny", "is_error": False},
    {"role": "assistant", "content": "Sunny.", "tool_calls": None},
    {"role": "user", "content": "And Rome?"},
    {"role": "assistant", "content": None, "tool_calls": [ROME, OSLO]},
    {"role": "tool", "tool_call_id": "c2", "content": "no such city", "is_error": True},
]
SINGLE = {"id": "i1", "query": "Paris?", "actual_output": "Sunny.", "tools_called": [PARIS], "expected_tools": [PARIS]}
CONVERSATION = {
    "dataset_id": "i2",
    "session_id": "s2",
    "conversation": {"messages": MESSAGES, "reference_tool_calls": [PARIS, ROME]},
}


def as_object(value: Any) -> Any:
    """The same with attributes, as Axion's models."""
    if isinstance(value, dict):
        held = {name: item if name == "args" else as_object(item) for name, item in value.items()}
        return SimpleNamespace(**held)
    return [as_object(item) for item in value] if isinstance(value, list) else value


def both(item: Any) -> Any:
    return pytest.mark.parametrize("item", [item, as_object(item)], ids=["JSON", "object"])


@both(SINGLE)
def test_an_item_of_one_turn_is_scored(item: Any) -> None:
    session = session_of(item)
    assert (session.id, session.turns[0].user_text.value, session.turns[0].answer.value) == ("i1", "Paris?", "Sunny.")
    assert score_session(golden_of(item), session).score == 1
    scored = {one.name: one.score for one in score_sessions(None, session).sessions[0].metrics}
    assert scored["tool_parameter_grounding"] == 1


@both(CONVERSATION)
def test_a_conversation_has_a_turn_for_each_message_of_the_user(item: Any) -> None:
    session = session_of(item)
    assert session.id == "s2"
    assert [[call.args for call in turn.calls] for turn in session.turns] == [
        [{"city": "Paris"}],
        [{"city": "Rome"}, {"city": "Oslo"}],
    ]
    assert [turn.user_text.value for turn in session.turns] == ["Paris?", "And Rome?"]
    assert session.turns[0].calls[0].result.value == "sunny"
    rome, oslo = session.turns[1].calls
    assert rome.error == "no such city"
    assert (rome.batch, oslo.error) == (oslo.batch, None)
    assert score_session(golden_of(item), session).score == 1


@both(SINGLE | {"tools_called": [ROME]})
def test_a_wrong_argument_lowers_the_score(item: Any) -> None:
    assert score_session(golden_of(item), session_of(item)).score == 0


@both({"id": "i3", "query": "Paris?", "expected_tools": [PARIS]})
def test_calls_that_were_not_recorded_are_unknown_and_not_missing(item: Any) -> None:
    assert score_session(golden_of(item), session_of(item)).reason is Reason.CALLS_NOT_VISIBLE


@both({"id": "i4", "query": "Paris?", "tools_called": [PARIS]})
def test_an_item_that_expects_nothing_has_no_golden(item: Any) -> None:
    assert golden_of(item) is None
    assert score_session(golden_of(item), session_of(item)).reason is Reason.NO_GOLDEN


@both({"id": "i5", "tools_called": [], "conversation": {"messages": MESSAGES[:1]}, "expected_tools": [PARIS]})
def test_no_call_at_all_misses_what_is_expected(item: Any) -> None:
    assert score_session(golden_of(item), session_of(item)).score == 0


@both({"id": "i6", "tools_called": [PARIS], "conversation": {"messages": MESSAGES[:1]}, "expected_tools": [PARIS]})
def test_tools_called_belong_to_the_last_turn_of_a_conversation_without_calls(item: Any) -> None:
    assert score_session(golden_of(item), session_of(item)).score == 1
