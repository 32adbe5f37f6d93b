"""Calls that repeat earlier ones and change nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldspan.scoring import Capture, Session, ToolCall, Turn, score_sessions
from goldspan.scoring.metrics.repetition import ToolCallRepetition
from goldspan.scoring.sessions import Content
from goldspan.scoring.verdict import Finding, MetricScore, Reason


def call(x: Any = 1, result: Any = "ok", *, name: str = "f", **named: Any) -> ToolCall:
    return ToolCall(name, {"x": x}, result=Content(result, Capture.CAPTURED), **named)


def unseen(x: Any = 1, name: str = "f", **named: Any) -> ToolCall:
    return ToolCall(name, {"x": x}, **named)


def failed(x: Any = 1, error: str = "timeout") -> ToolCall:
    return ToolCall("f", {"x": x}, error=error)


def repeated_calls(calls: Sequence[ToolCall]) -> dict[int, Finding]:
    """What is said of the calls that repeat earlier ones, by position."""
    (turn,) = ToolCallRepetition()(Session("s", (Turn(tuple(calls)),))).turns
    assert isinstance(turn, MetricScore)
    judged = (one.findings for one in turn.calls if isinstance(one, MetricScore))
    return {index: findings[0] for index, findings in enumerate(judged) if findings}


def kinds(*calls: ToolCall) -> list[str]:
    found = repeated_calls(calls)
    return [found[index].kind if index in found else "" for index in range(len(calls))]


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([call(), call()], ["", "identical"]),
        ([call(1), call(2)], ["", ""]),
        ([call(), call(name="g")], ["", ""]),
        ([call(result="pending"), call(result="done")], ["", ""]),
        ([call(result="a"), call(result="b"), call(result="a")], ["", "", "identical"]),
        ([call({"a": 1, "b": 2}), call({"b": 2, "a": 1})], ["", "identical"]),
        ([call([1, 2]), call([2, 1])], ["", ""]),
        ([call(1), call("1")], ["", ""]),
        ([call(result='{"a": 1, "b": 2}'), call(result={"b": 2, "a": 1})], ["", "identical"]),
        ([call(batch=1), call(batch=1)], ["", "identical"]),
        ([failed(), failed()], ["", "retry_unchanged"]),
        ([failed(error="request 17"), failed(error="request 18")], ["", "retry_unchanged"]),
        ([failed(1), failed(2)], ["", ""]),
        ([failed(), call()], ["", ""]),
        ([failed(), call(), call(), failed()], ["", "", "identical", "retry_unchanged"]),
        ([unseen(), unseen()], ["", ""]),
        ([unseen(), unseen(), unseen()], ["", "loop", "loop"]),
        ([call(result=1), call(result=2), call(result=3)], ["", "", ""]),
        ([unseen(1), unseen(2)] * 3, ["", "", "loop", "loop", "loop", "loop"]),
        ([unseen(1), unseen(2)] * 2, ["", "", "", ""]),
        ([unseen(1), unseen(1), unseen(2), unseen(1), unseen(1)], [""] * 5),
        ([call(rejected=True), call(), call(rejected=True)], ["", "", ""]),
    ],
)
def test_what_repeats(calls: list[ToolCall], expected: list[str]) -> None:
    assert kinds(*calls) == expected


def test_the_earlier_call_is_named() -> None:
    found = repeated_calls([call(5), call(1), call(2), call(1)])
    assert {index: one.message for index, one in found.items()} == {
        3: "the same call returned the same before (call 2 of the session)"
    }


def test_what_is_hidden_is_not_compared() -> None:
    hidden = call(argument_captures={"x": Capture.REDACTED})
    session = Session("s", (Turn((hidden, hidden, ToolCall("f", None, capture=Capture.TRUNCATED))),))
    score = ToolCallRepetition()(session)
    assert (score.score, score.reason) == (None, Reason.ARGUMENTS_REDACTED)


def test_calls_of_other_turns_count_and_a_session_passes_unless_a_threshold_is_set() -> None:
    session = Session("s", (Turn((call(),)), Turn((call(), call(2)))))
    for chosen, label in (("tool_call_repetition", None), ("tool_call_repetition=1", "fail")):
        (result,) = [
            one
            for one in score_sessions(None, session, metrics=[chosen]).sessions[0].metrics
            if "repetition" in one.name
        ]
        assert (round(result.verdict.score or 0, 2), result.label) == (0.67, label)
        assert [turn.verdict.score for turn in result.turns] == [1, 0.5]


def drawn_call(x: Any, result: Any, failing: bool, seen: bool) -> ToolCall:
    return failed(x) if failing else call(x, result) if seen else unseen(x)


calls = st.lists(
    st.builds(drawn_call, st.sampled_from([1, 2, "a", None]), st.sampled_from([1, 2]), st.booleans(), st.booleans()),
    max_size=12,
)


@given(calls, calls)
def test_what_comes_later_changes_nothing_but_the_beginning_of_a_loop(
    before: list[ToolCall], after: list[ToolCall]
) -> None:
    found, longer = repeated_calls(before), repeated_calls([*before, *after])
    known = {index: one for index, one in longer.items() if index < len(before) and one.kind != "loop"}
    assert known == {index: one for index, one in found.items() if one.kind != "loop"}


@pytest.mark.parametrize("length", [1, 3, 4, 8])
@pytest.mark.parametrize("others", [1, 5, 20])
def test_a_loop_that_ended_is_one_after_more_turns_too(length: int, others: int) -> None:
    turns = [
        Turn((*(unseen(x) for x in range(length)),) * 4 + tuple(unseen(f"a{x}") for x in range(others))),
        Turn(tuple(unseen(f"b{x}") for x in range(3))),
        Turn((unseen("c"),)),
    ]
    metric = ToolCallRepetition()
    growing = metric.running()
    for count in (1, 2, 3, 1, 2):
        session = Session("s", tuple(turns[:count]))
        assert growing(session) == metric(session)


@given(calls)
def test_calls_whose_arguments_all_differ_do_not_repeat(made: list[ToolCall]) -> None:
    different = [ToolCall(one.name, {"x": index}, error=one.error, result=one.result) for index, one in enumerate(made)]
    assert repeated_calls(different) == {}


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "odd",
    [nested(5000), 10**5000, float("nan"), float("inf"), "\ud800", b"x", {1: 2, "a": 3}, {(1, 2): 3}, object(), {1, 2}],
    ids=lambda value: type(value).__name__,
)
def test_odd_values_do_not_raise(odd: Any) -> None:
    for made in ([call(odd)] * 3, [call(1, odd)] * 3, [unseen(odd)] * 3):
        ToolCallRepetition()(Session("s", (Turn(tuple(made)),)))


def test_many_calls_take_linear_time() -> None:
    many = [unseen(number % 7) for number in range(20_000)]
    assert len(repeated_calls(many)) == 20_000 - 7


def reworded(*queries: str) -> list[str]:
    turn = Turn(tuple(ToolCall("search", {"query": query, "limit": 5}) for query in queries))
    score = ToolCallRepetition()(Session("s", (turn,)))
    (scored,) = score.turns
    assert isinstance(scored, MetricScore)
    return [one.findings[0].kind if one.findings else "" for one in scored.calls if isinstance(one, MetricScore)]


def test_a_search_in_other_words_again_and_again_is_said() -> None:
    same = ("cheap hotels in Rome", "hotels in Rome cheap today", "cheap hotel Rome centre", "Rome cheap hotels list")
    assert reworded(*same) == ["", "", "", "reworded"]
    assert reworded(*same[:3]) == ["", "", ""]
    assert (
        reworded("cheap hotels in Rome", "flights to Oslo", "cheap hotel Rome centre", "weather in Bern now")
        == [""] * 4
    )
    assert reworded(*(f"order number {number}" for number in range(4))) == [""] * 4
