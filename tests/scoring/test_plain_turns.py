"""The short cut for plain turns says what the long way says, and nobody can tell that results are made late."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import FrozenInstanceError, replace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldspan.scoring import (
    Criterion,
    ExpectedCall,
    Golden,
    GoldenTurn,
    Session,
    SessionResult,
    ToolCall,
    Turn,
    score_session,
    score_turn,
)
from goldspan.scoring.plain_turn import PlainTurn
from goldspan.scoring.sessions import Capture, Content

VALUES = st.sampled_from(["Paris", "paris", 0, 1, 1.0, True, False, None, 2, float("nan"), "1", [1], [True], {"a": 1}])
ARGUMENTS = st.dictionaries(st.sampled_from(["city", "days", "unit"]), VALUES)
CRITERIA = st.fixed_dictionaries(
    {},
    optional={
        "match_mode": st.sampled_from(["name_only", "name_and_args"]),
        "ordered": st.just(False),
        "parallel_calls": st.just("in_order"),
        "default_strategy": st.sampled_from(["numeric", "contains", "casefold_exact"]),
        "extra_calls": st.just("penalize"),
        "extra_arguments": st.just("penalize"),
        "call_score": st.just("all"),
        "turn_score": st.just("all"),
        "scope": st.just("session"),
        "threshold": st.sampled_from([0, 0.5, 1]),
        "tools": st.just({"f": {"args": {"city": {"weight": 3}, "days": {"required": False}}}}),
    },
)
DEFINITIONS = [{"name": "f", "parameters": {"properties": {"days": {"default": 1}}}}]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Golden, Session]:
    turns: list[tuple[GoldenTurn, Turn]] = []
    for _ in range(draw(st.integers(1, 2))):
        expected = [ExpectedCall(draw(st.sampled_from("fg")), draw(ARGUMENTS)) for _ in range(draw(st.integers(0, 4)))]
        actual: list[ToolCall] = []
        for call in draw(st.permutations([*expected, *expected[:1]])) if draw(st.booleans()) else expected:
            args = draw(st.just(dict(call.args)) | ARGUMENTS)
            made = ToolCall(call.name, args, batch=draw(st.integers(0, 3)))
            failed = replace(made, error="x")
            hidden = replace(made, argument_captures={"city": Capture.REDACTED})
            actual.append(draw(st.sampled_from([made, made, made, made, failed, hidden])))
        definitions = Content(DEFINITIONS, Capture.CAPTURED) if draw(st.booleans()) else Content()
        turns.append((GoldenTurn(tuple(expected)), Turn(tuple(actual), tool_definitions=definitions)))
    golden = Golden("s", tuple(one for one, _ in turns), criterion=Criterion.parse(draw(CRITERIA)))
    return golden, Session("s", tuple(turn for _, turn in turns))


@given(cases())
def test_the_short_cut_says_what_the_long_way_says(case: tuple[Golden, Session]) -> None:
    golden, session = case
    found = score_session(golden, session)
    with patch.object(PlainTurn, "score", return_value=None):
        assert repr(score_session(golden, session)) == repr(found)


@pytest.fixture
def golden() -> Golden:
    calls = (ExpectedCall("f", {"city": "Paris", "days": 2}), ExpectedCall("g", {}))
    return Golden("s", (GoldenTurn(calls),))


@pytest.fixture
def session() -> Session:
    return Session("s", (Turn((ToolCall("f", {"city": "Rome", "days": 2}), ToolCall("h"))),))


def test_plain_turns_take_the_short_cut(golden: Golden, session: Session) -> None:
    with patch.object(PlainTurn, "score", autospec=True, side_effect=PlainTurn.score) as score:
        assert score_session(golden, session).verdict.score == 0.25
    assert score.call_count == 1


def fresh(golden: Golden, session: Session) -> Iterator[SessionResult]:
    while True:
        yield score_session(golden, session)


def test_results_that_were_not_looked_at_are_like_those_that_were(golden: Golden, session: Session) -> None:
    results = fresh(golden, session)
    seen = next(results)
    assert [call.name for call in [seen.turns[0].calls[0].arguments[0]]] == ["city"]
    assert next(results) == seen
    assert repr(next(results)) == repr(seen)
    again = copy.copy(next(results).turns[0])
    assert again == seen.turns[0]
    assert again.matched == 1
    assert replace(next(results).turns[0], turn_index=7).unexpected == seen.turns[0].unexpected
    assert next(results).turns[0].expected == 2


def test_they_are_frozen_and_have_no_other_fields(golden: Golden, session: Session) -> None:
    turn = score_session(golden, session).turns[0]
    with pytest.raises(FrozenInstanceError):
        turn.expected = 3  # type: ignore[misc]
    with pytest.raises(AttributeError, match="'TurnResult' has no attribute 'call'"):
        turn.call  # type: ignore[attr-defined]  # noqa: B018


def test_what_is_kept_of_a_golden_is_kept_for_one_criterion_and_is_no_part_of_it(
    golden: Golden, session: Session
) -> None:
    twin = replace(golden)
    for _ in range(3):
        criteria: list[Mapping[str, Any] | None] = [None, {"match_mode": "name_only"}, {"match_mode": "name_and_args"}]
        found = [score_session(golden, session, criterion).verdict.score for criterion in criteria]
        assert found == [0.25, 0.25, 0.0]
    assert twin == golden
    assert copy.copy(golden) == golden


@pytest.mark.parametrize("ordered", [True, False])
def test_what_begins_right_does_not_take_what_a_later_call_needs(ordered: bool) -> None:
    expected = [{"name": "f", "args": {"x": 1}}, {"name": "f", "args": {"x": 2}}]
    actual = [ToolCall("f", {"x": 1}), ToolCall("g"), ToolCall("f", {"x": 2})]
    found = score_turn(expected, actual, {"ordered": ordered})
    assert [call.actual_index for call in found.calls] == [0, 2]
    assert found.verdict.score == 1
