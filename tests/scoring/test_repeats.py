"""Goldens that are judged over several runs of their session."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldspan.scoring import Capture, Label, Reason, ScoringResult, Session, ToolCall, Turn, score_sessions

RUNS = {
    "right": (ToolCall("f", {"x": 1}),),
    "wrong": (ToolCall("f", {"x": 2}),),
    "lost": (ToolCall("f", None, Capture.NOT_CAPTURED),),
}


def golden(**repeat: Any) -> dict[str, Any]:
    one = {"session_pattern": "run-*", "repeat": repeat, "calls": [{"name": "f", "args": {"x": 1}}]}
    return {"golden_set": "g", "goldens": [one]}


def scored(seen: str, **repeat: Any) -> ScoringResult:
    names = {"+": "right", "-": "wrong", "?": "lost"}
    sessions = [Session(f"run-{number}", (Turn(RUNS[names[run]]),)) for number, run in enumerate(seen)]
    return score_sessions(golden(**repeat), sessions)


@pytest.mark.parametrize(
    ("runs", "label", "reason"),
    [
        ("+++++", Label.PASS, None),
        ("++-++", Label.PASS, None),
        ("+-+-+", Label.FAIL, None),
        ("++++", Label.NOT_EVALUATED, Reason.INPUT_MISSING),
        ("+", Label.NOT_EVALUATED, Reason.INPUT_MISSING),
        ("-+++", Label.NOT_EVALUATED, Reason.INPUT_MISSING),
        ("--", Label.FAIL, None),
        ("++?++", Label.PASS, None),
        ("+?++-", Label.NOT_EVALUATED, Reason.ARGUMENTS_NOT_CAPTURED),
        ("+?+--", Label.FAIL, None),
        ("++++-++++-", Label.PASS, None),
        ("++++-+++--", Label.FAIL, None),
    ],
)
def test_four_of_five_runs_must_pass(runs: str, label: Label, reason: Reason | None) -> None:
    result = scored(runs, runs=5, passes=4)
    [repeat] = result.repeats
    assert (repeat.verdict.label, repeat.verdict.reason) == (label, reason)
    assert (len(repeat.runs), repeat.runs_passed) == (len(runs), runs.count("+"))
    assert repeat.verdict.exact == Fraction(runs.count("+"), len(runs))
    assert result.passed is (label is Label.PASS and "?" not in runs)
    assert result.passes("lenient") is (label is not Label.FAIL)


def test_all_must_pass_where_nothing_else_is_said() -> None:
    assert scored("++", runs=2).passed
    assert not scored("+-", runs=2).passed


def test_it_is_told_in_words_and_in_json() -> None:
    result = scored("+-+", runs=5, passes=4)
    assert "golden run-*: 2 of 3 runs passed, 4 of 5 must: too few were seen" in str(result)
    [repeat] = result.to_json()["repeats"]
    assert (repeat["label"], repeat["runs"], repeat["passed"]) == ("not_evaluated", 3, 2)


def test_other_sessions_are_judged_as_ever() -> None:
    document = golden(runs=1)
    document["goldens"].append({"session": "other", "calls": [{"name": "f", "args": {"x": 1}}]})
    sessions = [Session("run-1", (Turn(RUNS["right"]),)), Session("other", (Turn(RUNS["wrong"]),))]
    assert not score_sessions(document, sessions).passed


@given(st.text("+-?", min_size=1, max_size=8), st.integers(1, 6), st.data())
def test_a_run_that_turns_out_right_never_makes_it_worse(runs: str, needed: int, data: st.DataObject) -> None:
    passes = data.draw(st.integers(1, needed))
    order = (Label.FAIL, Label.NOT_EVALUATED, Label.PASS)
    place = data.draw(st.integers(0, len(runs) - 1))
    better = runs[:place] + "+" + runs[place + 1 :]
    [before], [after] = (scored(some, runs=needed, passes=passes).repeats for some in (runs, better))
    assert order.index(before.verdict.label) <= order.index(after.verdict.label)
