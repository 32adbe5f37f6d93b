"""What is judged of a turn whose reading its telemetry contradicts: nothing that the doubted fact decides."""

from __future__ import annotations

import pytest

from goldspan.scoring.goldens.golden import ExpectedCall, Golden, GoldenTurn
from goldspan.scoring.lazy_names import texts_beside
from goldspan.scoring.metrics.repetition import ToolCallRepetition
from goldspan.scoring.result_words import doubt_document, doubt_words
from goldspan.scoring.run import ScoringResult
from goldspan.scoring.session_score import score_run
from goldspan.scoring.sessions import Doubt, DoubtedFact, Session, SpanRef, ToolCall, Turn

CALL, RIGHT = ExpectedCall("f", {"x": 1}), ToolCall("f", {"x": 1})
DECIDING = ["calls", "turns", "arguments"]
SAID = ["batch", "failure", "session"]


def doubt(fact: str) -> Doubt:
    return Doubt("read_twice", DoubtedFact(fact))


def turn(call: ToolCall = RIGHT, *facts: str) -> Turn:
    return Turn((call,), doubts=tuple(map(doubt, facts)))


def golden(turns: int = 1) -> Golden:
    return Golden("s", turns=tuple(GoldenTurn((CALL,)) for _ in range(turns)))


@pytest.mark.parametrize("fact", DECIDING)
@pytest.mark.parametrize("call", [RIGHT, ToolCall("f", {"x": 2}), ToolCall("g")])
def test_a_doubted_fact_makes_neither_a_pass_nor_a_failure(fact: str, call: ToolCall) -> None:
    result = score_run(golden(), Session("s", (turn(call, fact),)))
    assert (result.label, result.reason, result.score) == ("not_evaluated", "reading_doubtful", None)
    assert [(one.label, one.reason) for one in result.turns[0].calls] == [("not_evaluated", "reading_doubtful")]


@pytest.mark.parametrize("fact", SAID)
def test_other_doubts_are_said_with_the_score(fact: str) -> None:
    result = score_run(golden(), Session("s", (turn(RIGHT, fact),)))
    assert result.passed
    assert f"in doubt: {fact}" in str(result)


@pytest.mark.parametrize("fact", [*DECIDING, *SAID])
def test_strict_coverage_fails_on_every_doubt(fact: str) -> None:
    result = ScoringResult((score_run(golden(), Session("s", (turn(RIGHT, fact),))),))
    assert not result.passed
    assert result.passes("lenient")


def test_turns_beside_a_doubted_one_are_scored() -> None:
    result = score_run(golden(2), Session("s", (turn(RIGHT, "calls"), turn(ToolCall("g")))))
    assert [one.label for one in result.turns] == ["not_evaluated", "fail"]


def test_a_turn_may_be_missing_because_two_were_read_as_one() -> None:
    whole = score_run(golden(2), Session("s", (turn(RIGHT, "turns"),)))
    assert [one.reason for one in whole.turns] == ["reading_doubtful"] * 2
    known = score_run(golden(2), Session("s", (turn(RIGHT, "calls"),)))
    assert [one.label for one in known.turns] == ["not_evaluated", "fail"]


def test_bounds_of_turns_decide_nothing_where_a_session_is_judged_as_one() -> None:
    judged = Golden("s", calls=(CALL,))
    assert score_run(judged, Session("s", (turn(RIGHT, "turns"),))).passed
    assert score_run(judged, Session("s", (turn(RIGHT, "calls"),))).reason == "reading_doubtful"


@pytest.mark.parametrize(("fact", "judged"), [("calls", False), ("arguments", False), ("turns", True), ("batch", True)])
def test_metrics_of_calls_judge_calls_that_are_known(fact: str, judged: bool) -> None:
    found = ToolCallRepetition()(Session("s", (Turn((RIGHT, RIGHT), doubts=(doubt(fact),)),)))
    assert (found.score is not None) is judged
    assert judged or found.reason == "reading_doubtful"


@pytest.mark.parametrize("code", texts_beside("goldspan.scoring", "result_words.toml")["doubts"])
def test_each_doubt_says_both_sides_and_no_value(code: str) -> None:
    one = Doubt(code, DoubtedFact.CALLS, (SpanRef("t", "s"),), ("a", "b\n", "c", "d", "e"), "generic")
    text, document = doubt_words(one), doubt_document(one)
    assert "\n" not in text
    assert "{" not in text
    assert document["read"] in text
    assert document["telemetry"] in text
    assert document["spans"] == [{"trace_id": "t", "span_id": "s"}]
