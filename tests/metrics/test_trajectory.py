"""The companion metrics: each by its own alignment, from the calls that `tool_parameter_match` judges."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from goldspan.scoring import Capture, Content, Session, ToolCall, Turn, find_metric, score_session, score_sessions
from goldspan.scoring.metrics import MetricResult

NAMES = ("exact_match", "in_order_match", "any_order_match", "precision", "recall", "f1")
ALL = [f"trajectory_{name}" for name in NAMES]


def call(text: str, **more: Any) -> ToolCall:
    """`f1` is f(x=1)."""
    return ToolCall(text[0], {"x": int(text[1:])} if text[1:] else {}, **more)


def wanted(text: str) -> dict[str, Any]:
    return {"name": text[0], "args": {"x": int(text[1:])} if text[1:] else {}}


def judged(turns: list[list[str]], made: list[list[ToolCall]], **golden: Any) -> dict[str, MetricResult]:
    session = Session("s", tuple(Turn(tuple(calls), start=index + 1) for index, calls in enumerate(made)))
    goldens = {
        "golden_set": "g",
        "goldens": [{"session": "s", "turns": [{"calls": list(map(wanted, calls))} for calls in turns], **golden}],
    }
    result = score_sessions(goldens, session, metrics=ALL).sessions[0]
    return {one.name.removeprefix("trajectory_"): one for one in result.metrics}


def scores(turns: list[list[str]], made: list[list[ToolCall]], **golden: Any) -> list[Fraction | None]:
    found = judged(turns, made, **golden)
    return [found[name].verdict.exact for name in NAMES]


def of(text: str) -> list[str]:
    return text.split()


HALF, THIRD = Fraction(1, 2), Fraction(1, 3)


@pytest.mark.parametrize(
    ("expected", "actual", "exact", "in_order", "any_order", "precision", "recall", "f1"),
    [
        ("f1 g2", "f1 g2", 1, 1, 1, 1, 1, 1),
        ("f1 g2", "g2 f1", 0, 0, 1, 1, 1, 1),
        ("f1 g2", "f1 h g2", 0, 1, 1, 2 * THIRD, 1, Fraction(4, 5)),
        ("f1 g2", "f1", 0, 0, 0, 1, HALF, 2 * THIRD),
        ("f1 g2", "f9 g9", 0, 0, 0, 0, 0, 0),
        ("f1", "", 0, 0, 0, 0, 0, 0),
        ("f1 f1", "f1", 0, 0, 0, 1, HALF, 2 * THIRD),
        ("f1", "f1 f1", 0, 1, 1, HALF, 1, 2 * THIRD),
        ("f1 f2 f3", "f2 f3 f9", 0, 0, 0, 2 * THIRD, 2 * THIRD, 2 * THIRD),
        ("f f1", "f1 f", 0, 0, 1, 1, 1, 1),
    ],
)
def test_each_has_an_alignment_of_its_own(
    expected: str,
    actual: str,
    exact: Fraction,
    in_order: Fraction,
    any_order: Fraction,
    precision: Fraction,
    recall: Fraction,
    f1: Fraction,
) -> None:
    made = [call(text) for text in of(actual)]
    assert scores([of(expected)], [made]) == [exact, in_order, any_order, precision, recall, f1]


def test_a_partner_is_found_for_every_call_that_can_have_one() -> None:
    # The first expected call takes either; taken greedily it would take the only one that the second can have.
    goldens = [{"session": "s", "turns": [{"calls": [{"name": "f", "args": {}}, wanted("f1")]}]}]
    session = Session("s", (Turn((call("f1"), call("f2"))),))
    (found,) = score_sessions({"golden_set": "g", "goldens": goldens}, session, metrics=["trajectory_recall"]).sessions
    assert found.metrics[0].verdict.exact == 1


def test_a_session_is_the_mean_of_its_turns() -> None:
    found = judged([of("f1"), of("f2")], [[call("f1")], [call("f9")]])
    assert found["recall"].verdict.exact == HALF
    assert [turn.verdict.exact for turn in found["recall"].turns] == [1, 0]
    assert found["recall"].verdict.explanation == "mean of 2 turns"
    assert found["recall"].turns[1].verdict.explanation == "0 of 1 expected calls match, 1 were made"


def test_a_turn_that_never_came_is_wrong_and_one_nobody_expects_is_nothing() -> None:
    assert scores([of("f1"), of("f2")], [[call("f1")]])[4] == HALF
    found = judged([of("f1")], [[call("f1")], [call("g2")]])
    assert found["precision"].verdict.exact == 1
    assert found["precision"].turns[1].verdict.reason == "turn_not_expected"
    assert judged([[]], [[call("f1")]])["precision"].verdict.reason == "nothing_expected"


def test_what_was_asked_for_at_once_has_no_order() -> None:
    at_once = [call("g2", batch=1), call("f1", batch=1)]
    assert scores([of("f1 g2")], [at_once])[:2] == [1, 1]
    assert scores([of("f1 g2")], [at_once], criterion={"parallel_calls": "in_order"})[:2] == [0, 0]


def test_groups_of_free_order_have_none() -> None:
    turns = [{"calls": [{"parallel": list(map(wanted, of("f1 g2")))}, wanted("h3")]}]
    for made, exact in (("g2 f1 h3", 1), ("f1 h3 g2", 0)):
        session = Session("s", (Turn(tuple(call(text) for text in of(made))),))
        goldens = {"golden_set": "g", "goldens": [{"session": "s", "turns": turns}]}
        (found,) = score_sessions(goldens, session, metrics=ALL).sessions
        assert found.metrics[0].verdict.exact == exact


def test_optional_and_forbidden_calls_count_on_neither_side() -> None:
    calls = [wanted("f1"), {**wanted("g2"), "optional": True}, {"name": "h", "forbidden": True}]
    goldens = {"golden_set": "g", "goldens": [{"session": "s", "turns": [{"calls": calls}]}]}
    for made, exact, precision in (("f1", 1, 1), ("f1 g2", 1, 1), ("f1 h3", 0, HALF)):
        session = Session("s", (Turn(tuple(call(text) for text in of(made))),))
        (found,) = score_sessions(goldens, session, metrics=ALL).sessions
        assert [found.metrics[place].verdict.exact for place in (0, 3)] == [exact, precision]


def test_aliases_and_matchers_hold_here_too() -> None:
    calls = [{"name": "f", "args": {"x": {"$any_of": [1, 2]}}}]
    goldens = {
        "golden_set": "g",
        "aliases": {"f": ["old.f"]},
        "goldens": [{"session": "s", "turns": [{"calls": calls}]}],
    }
    for name, number, score in (("old.f", 2, 1), ("f", 3, 0)):
        session = Session("s", (Turn((ToolCall(name, {"x": number}),)),))
        (found,) = score_sessions(goldens, session, metrics=ALL).sessions
        assert {metric.verdict.exact for metric in found.metrics} == {score}


@pytest.mark.parametrize(("cancels", "score"), [(20, 1), (17, HALF)])
def test_what_one_call_of_an_earlier_turn_returned_may_be_expected(cancels: int, score: Fraction) -> None:
    cancel = {"name": "cancel", "args": {"id": {"$from_result": {"call": "0.1", "path": "/id"}}}}
    turns = [{"calls": [wanted("f1"), wanted("f2")]}, {"calls": [cancel]}]
    goldens = {"golden_set": "g", "goldens": [{"session": "s", "turns": turns}]}
    returned = (("f1", 17), ("f2", 20))
    created = tuple(call(text, result=Content({"id": number}, Capture.CAPTURED)) for text, number in returned)
    session = Session("s", (Turn(created, start=1), Turn((ToolCall("cancel", {"id": cancels}),), start=2)))
    (found,) = score_sessions(goldens, session, metrics=["trajectory_recall"]).sessions
    assert found.metrics[0].verdict.exact == score


def test_the_criterion_says_what_matches() -> None:
    assert scores([of("f1")], [[call("f2")]], criterion={"default_strategy": "numeric", "numeric_tolerance": 1})[0] == 1
    extra = ToolCall("f", {"x": 1, "y": 2})
    assert scores([of("f1")], [[extra]])[0] == 1
    assert scores([of("f1")], [[extra]], criterion={"extra_arguments": "penalize"})[0] == 0


def test_the_criterion_says_which_calls_count() -> None:
    retried = [call("f1", error="no"), call("f1")]
    assert scores([of("f1")], [retried])[3] == HALF
    assert scores([of("f1")], [retried], criterion={"failed_calls": "ignore"})[3] == 1
    refused = [call("f1", requested=True, rejected=True)]
    assert scores([of("f1")], [refused])[4] == 0
    assert scores([of("f1")], [refused], criterion={"rejected_requests": "count"})[4] == 1


def test_unknown_is_not_wrong() -> None:
    hidden = ToolCall("f", None, Capture.NOT_CAPTURED)
    found = judged([of("f1 g2")], [[hidden, call("g2")]])
    assert found["recall"].verdict.exact is None
    assert found["recall"].verdict.reason == "arguments_not_captured"
    # Whatever its argument was: there are three calls and two are expected, so that this is no exact match.
    assert judged([of("f1 g2")], [[hidden, call("g2"), call("h1")]])["exact_match"].verdict.exact == 0


def test_calls_that_cannot_be_seen_are_not_missing() -> None:
    session = Session("s", (replace(Turn(), calls_visible=False),))
    goldens = {"golden_set": "g", "goldens": [{"session": "s", "turns": [{"calls": [wanted("f1")]}]}]}
    (found,) = score_sessions(goldens, session, metrics=ALL).sessions
    assert {metric.verdict.reason for metric in found.metrics} == {"calls_not_visible"}


def test_a_session_judged_as_one_is_one_list() -> None:
    goldens = {"golden_set": "g", "goldens": [{"session": "s", "calls": list(map(wanted, of("f1 g2")))}]}
    session = Session("s", (Turn((call("f1"),), start=1), Turn((call("g2"),), start=2)))
    (found,) = score_sessions(goldens, session, metrics=ALL).sessions
    assert {metric.verdict.exact for metric in found.metrics} == {1}
    assert [len(metric.turns) for metric in found.metrics] == [1] * 6


def test_the_main_score_is_what_it_was() -> None:
    goldens = {"golden_set": "g", "goldens": [{"session": "s", "turns": [{"calls": list(map(wanted, of("f1 g2")))}]}]}
    session = Session("s", (Turn((call("f1"), call("g3"))),))
    alone, beside = score_sessions(goldens, session), score_sessions(goldens, session, metrics=ALL)
    assert replace(beside.sessions[0], metrics=()) == alone.sessions[0]


CALLS = st.lists(st.sampled_from(of("f1 f2 g1 h")), max_size=5)


@given(CALLS.filter(bool), CALLS)
def test_they_are_what_brute_force_finds(expected: list[str], actual: list[str]) -> None:
    found = judged([expected], [[call(text) for text in actual]])

    def most(*, ordered: bool) -> int:
        """The most pairs of equal calls, by trying every way to place the expected ones."""
        places = [*range(len(actual)), *[None] * len(expected)]
        best = 0
        for choice in set(permutations(places, len(expected))):
            taken = [place for place in choice if place is not None]
            if ordered and taken != sorted(taken):
                continue
            pairs = zip(expected, choice, strict=True)
            if all(place is None or actual[place] == text for text, place in pairs):
                best = max(best, len(taken))
        return best

    free, in_order = most(ordered=False), most(ordered=True)
    assert found["recall"].verdict.exact == Fraction(free, len(expected))
    assert found["precision"].verdict.exact == (Fraction(free, len(actual)) if actual else 0)
    assert found["f1"].verdict.exact == Fraction(2 * free, len(actual) + len(expected))
    assert found["any_order_match"].verdict.exact == (free == len(expected))
    assert found["in_order_match"].verdict.exact == (in_order == len(expected))
    assert found["exact_match"].verdict.exact == (expected == actual)


@given(CALLS.filter(bool), CALLS)
def test_they_are_ordered_by_strictness(expected: list[str], actual: list[str]) -> None:
    exact, in_order, any_order, *_ = scores([expected], [[call(text) for text in actual]])
    assert exact is not None
    assert in_order is not None
    assert any_order is not None
    assert exact <= in_order <= any_order


def test_a_golden_made_in_code_may_be_judged_alone() -> None:
    golden = score_session([{"name": "f", "args": {}}], [{"name": "f"}]).golden
    assert golden is not None
    answer = find_metric("trajectory_f1")(Session("s", (Turn((call("f"),)),)), golden)
    assert answer.score == 1  # type: ignore[union-attr]
