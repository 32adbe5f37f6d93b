"""The differences of a result: what they are, in which order, and that they never touch a score."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldspan.scoring import (
    Capture,
    ExpectedCall,
    Golden,
    GoldenTurn,
    Label,
    Session,
    ToolCall,
    Turn,
    score_session,
    score_sessions,
    score_turn,
)

MAIL = {"to": "ann@example.org", "subject": "Hi", "body": "…"}


def expected(name: str, **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args}


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in MAIL.items() if key != name}


CASES: dict[str, tuple[list[dict[str, Any]], list[ToolCall], dict[str, Any], list[str]]] = {
    "an argument left out": (
        [expected("send_email", **MAIL)],
        [ToolCall("send_email", without("to"))],
        {},
        ["send_email.to (not passed)"],
    ),
    "wrong before left out before unexpected": (
        [expected("f", a=1, b=2)],
        [ToolCall("f", {"a": 9, "c": 3})],
        {},
        ["f.a (expected 1, found 9)", "f.b (not passed)", "f.c (not expected)"],
    ),
    "what is only reported comes last": (
        [expected("f", a=1), expected("g")],
        [ToolCall("f", {"a": 1, "b": 2}), ToolCall("h")],
        {},
        ["g (not called)", "f.b (not expected)", "h (not expected)"],
    ),
    "what is penalized is not only reported": (
        [expected("f", a=1), expected("g")],
        [ToolCall("f", {"a": 1, "b": 2}), ToolCall("h")],
        {"extra_arguments": "penalize", "extra_calls": "penalize"},
        ["f.b (not expected)", "g (not called)", "h (not expected)"],
    ),
    "an argument too many keeps calls apart": (
        [expected("f", a=1)],
        [ToolCall("f", {"a": 1, "b": 2})],
        {"match_mode": "name_and_args"},
        ["f.b (not expected)"],
    ),
    "out of order": (
        [expected("a", x=1), expected("b", x=1)],
        [ToolCall("b", {"x": 1, "y": 2}), ToolCall("a", {"x": 1})],
        {},
        ["b (called, but out of order)", "b.y (not expected)"],
    ),
    "forbidden": (
        [expected("f", a=1), {"name": "pay", "forbidden": True}],
        [ToolCall("f", {"a": 2}), ToolCall("pay")],
        {},
        ["pay (forbidden)", "f.a (expected 1, found 2)"],
    ),
    "optional and wrong": (
        [expected("f"), {**expected("log", a=1), "optional": True}],
        [ToolCall("log", {"a": 2})],
        {},
        ["f (not called)", "log.a (expected 1, found 2)"],
    ),
    "parts of a value": (
        [expected("f", place={"city": "Paris", "zip": 1})],
        [ToolCall("f", {"place": {"city": "Rome", "zip": 1}})],
        {},
        ['f.place (city: expected "Paris", found "Rome")'],
    ),
    "each near miss to the call it is like": (
        [expected("f", a=1, b=1), expected("f", a=2, b=2)],
        [ToolCall("f", {"a": 2})],
        {"ordered": False},
        ["f.b (not passed)", "f (not called)"],
    ),
    "the nearest call failed": (
        [expected("f", a=1)],
        [ToolCall("f", {"a": 1}, error="timeout")],
        {"failed_calls": "ignore"},
        ["f (not called; the nearest call failed)"],
    ),
    "the nearest call was refused": (
        [expected("f", a=1)],
        [ToolCall("f", {"a": 1}, requested=True, rejected=True)],
        {},
        ["f (not called; the nearest call was requested, but not executed)"],
    ),
    "a tool renamed": (
        [expected("get_weather", city="Paris"), expected("book", id=1)],
        [ToolCall("fetch_weather", {"city": "Paris"}), ToolCall("book", {"id": 1})],
        {},
        [
            "get_weather (not called; same arguments as `fetch_weather`: renamed? then add "
            "`aliases: {get_weather: [fetch_weather]}` to the golden set)"
        ],
    ),
    "another tool with other arguments": (
        [expected("get_weather", city="Paris")],
        [ToolCall("fetch_weather", {"city": "Rome"})],
        {},
        ["get_weather (not called)", "fetch_weather (not expected)"],
    ),
    "no arguments are no hint": (
        [expected("get_weather")],
        [ToolCall("fetch_weather")],
        {},
        ["get_weather (not called)", "fetch_weather (not expected)"],
    ),
    "a forbidden tool is not a new name": (
        [expected("charge", amount=5), {"name": "pay", "forbidden": True}],
        [ToolCall("pay", {"amount": 5})],
        {},
        ["pay (forbidden)", "charge (not called)"],
    ),
    "nothing": ([expected("f", a=1)], [ToolCall("f", {"a": 1})], {}, []),
    "not known": ([expected("f", a=1)], [ToolCall("f", None, Capture.REDACTED)], {}, []),
}


@pytest.mark.parametrize(("golden", "calls", "criterion", "says"), CASES.values(), ids=CASES)
def test_differences_explain_a_turn_the_heaviest_first(
    golden: list[dict[str, Any]], calls: list[ToolCall], criterion: dict[str, Any], says: list[str]
) -> None:
    result = score_turn(golden, Turn(tuple(calls)), criterion)
    assert [str(one) for one in result.differences] == says
    assert (str(result.first_difference) if says else result.first_difference) == (says[0] if says else None)
    if result.verdict.label is Label.FAIL:
        assert result.first_difference is not None
        assert result.first_difference.lowers_score


def test_without_values_a_difference_names_what_differs_only() -> None:
    secret = score_turn([expected("f", a="secret", b={"c": "secret"})], [ToolCall("f", {"a": "x", "b": {"c": "x"}})])
    assert [one.text() for one in secret.differences] == ["f.a (wrong)", "f.b (wrong at /c)"]


def test_a_renamed_tool_is_found_and_its_alias_is_what_mends_it() -> None:
    document = {"golden_set": "g", "goldens": [{"session": "s", "turns": [{"calls": [expected("old", a=1, b="x")]}]}]}
    session = Session("s", (Turn((ToolCall("new", {"a": 1, "b": "x"}),)),))
    result = score_sessions(document, session)
    assert "same arguments as `new`: renamed? then add `aliases: {old: [new]}` to the golden set" in str(result)
    assert "extra new" not in str(result)
    assert score_sessions({**document, "aliases": {"old": ["new"]}}, session).passed


def test_a_session_says_in_which_turn_and_names_a_turn_that_never_came() -> None:
    turns = tuple(GoldenTurn((ExpectedCall("f", {"a": number}),)) for number in range(3))
    result = score_session(
        Golden("s", turns), Session("s", (Turn((ToolCall("f", {"a": 0}),)), Turn((ToolCall("f", {"a": 7}),))))
    )
    assert [(one.turn, str(one)) for one in result.differences] == [
        ("turn 2", "f.a (expected 1, found 7)"),
        ("turn 3", "turn 3 (never seen)"),
    ]
    assert str(result).startswith("✗ 0.33  s  f.a (expected 1, found 7)\n")
    assert "\n  ✗ 0.00  turn 3  never happened: f" in str(result)
    assert "turn 2: f.a (expected 1, found 7)" in repr(result)


names = st.sampled_from("abc")
arguments = st.dictionaries(st.sampled_from("xyz"), st.integers(0, 2), max_size=3)
criteria = st.fixed_dictionaries(
    {
        "match_mode": st.sampled_from(["name_only", "name_and_required_args", "name_and_args"]),
        "ordered": st.booleans(),
        "extra_arguments": st.sampled_from(["report", "penalize"]),
        "extra_calls": st.sampled_from(["report", "penalize"]),
    }
)


@given(st.lists(st.tuples(names, arguments), max_size=4), st.lists(st.tuples(names, arguments), max_size=4), criteria)
def test_a_turn_scores_1_exactly_if_no_difference_lowers_its_score(
    golden: list[tuple[str, dict[str, int]]], calls: list[tuple[str, dict[str, int]]], criterion: dict[str, Any]
) -> None:
    result = score_turn([ExpectedCall(*one) for one in golden], [ToolCall(*one) for one in calls], criterion)
    lowered = any(one.lowers_score for one in result.differences)
    if golden:
        assert (result.verdict.exact != 1) is lowered
    unpaired = {call.actual_index for call in result.unpaired_calls}
    assert unpaired <= {call.actual_index for call in result.unexpected_calls}
