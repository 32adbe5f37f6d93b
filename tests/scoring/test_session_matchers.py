"""Matchers of what a session has beside the value: its clock, its own calls, and what these returned."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldspan.scoring import (
    Capture,
    Content,
    ExpectedCall,
    Golden,
    MatcherError,
    Session,
    ToolCall,
    Turn,
    score_session,
    score_turn,
)

MORNING = datetime(2026, 2, 25, 9, 30, tzinfo=UTC)
"""A Wednesday."""
UUID = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"


def nanoseconds(when: datetime) -> int:
    return int(when.timestamp()) * 10**9


def returned(value: object) -> Content:
    return Content(value, Capture.CAPTURED)


def judged(
    expected: Any, actual: Any, *before: ToolCall, when: datetime | None = MORNING, said: str = "", **others: Any
) -> str:
    """The label of a call with one argument x, after others."""
    call = ToolCall("f", {"x": actual, **others}, start=nanoseconds(when) if when else 0)
    turn = Turn((*before, call), user_text=returned(said) if said else Content())
    return score_turn([ExpectedCall("f", {"x": expected})], turn, {"match_mode": "name_only"}).calls[0].verdict.label


# Dates.


@pytest.mark.parametrize(
    ("expected", "right", "wrong"),
    [
        ({"days": -7}, ["2026-02-18", "20260218", "February 18, 2026", "2026-02-18T23:00"], ["2026-02-19", "x", 7]),
        ({"days": 1, "time": "09:00"}, ["2026-02-26T09:00Z", "2026-02-26 09:00"], ["2026-02-26", "2026-02-26T09:01"]),
        ({"months": 1}, ["2026-03-25"], ["2026-03-26"]),
        ({"weeks": 1, "days": -1}, ["2026-03-03"], ["2026-03-04"]),
        ("today", ["2026-02-25", 1772013600, "2026-02-25T01:00+02:00"], ["2026-02-26", 1772100000]),
        ("tomorrow", ["2026-02-26"], ["2026-02-27", "2026-02-25"]),
        ("day after tomorrow", ["2026-02-27"], ["2026-02-26"]),
        ("yesterday", ["2026-02-24"], ["2026-02-26"]),
        ("next Friday", ["2026-02-27", "2026-03-06"], ["2026-02-20", "2026-02-26"]),
        ("last Friday", ["2026-02-20"], ["2026-02-27"]),
        ("next week", ["2026-03-04"], ["2026-02-24"]),
        ("end of month", ["2026-02-28"], ["2026-02-25", "2026-03-01"]),
        ("end of next month", ["2026-03-31"], ["2026-03-30"]),
        ("start of the quarter", ["2026-01-01"], ["2026-04-01"]),
        ("end of this week", ["2026-03-01"], ["2026-02-28"]),
        ("first day of next year", ["2027-01-01"], ["2026-01-01"]),
    ],
)  # fmt: skip
def test_a_date_is_told_by_its_distance_from_the_day_of_the_call(expected: Any, right: Any, wrong: Any) -> None:
    assert [value for value in right if judged({"$date": expected}, value) != "pass"] == []
    assert [value for value in wrong if judged({"$date": expected}, value) != "fail"] == []


def test_a_date_is_of_the_clock_that_shows_it() -> None:
    late = MORNING.replace(hour=23)
    assert judged({"$date": "today"}, "2026-02-26", when=late) == "fail"
    assert judged({"$date": "today", "zone": "+02:00"}, "2026-02-26", when=late) == "pass"
    assert judged({"$date": "today"}, "2026-02-26T01:00:00+02:00", when=late) == "pass"
    assert judged({"$date": "today", "tolerance": "1d"}, "2026-02-26", when=late) == "pass"
    assert judged({"$date": "today", "tolerance": "1d"}, "2026-02-27", when=late) == "fail"


def test_a_time_with_a_zone_is_an_instant() -> None:
    expected = {"$date": {"days": 1, "time": "09:00Z"}}
    rows = ["2026-02-26T09:00:00Z", "2026-02-26T10:00:00+01:00", "2026-02-26T10:00:00Z", "2026-02-26"]
    assert [judged(expected, value) for value in rows] == ["pass", "pass", "fail", "fail"]
    assert judged({"$date": {"days": 1, "time": "23:30+02:00"}}, "2026-02-26T21:30:00Z") == "pass"
    assert judged({"$date": {"days": 1, "time": "00:30+02:00"}}, "2026-02-25T22:30:00Z") == "pass"


def test_a_text_mentions_a_time_however_it_is_written() -> None:
    call = ToolCall("book", {"at": "08:00"})
    rows = ["See you at 8:00", "at 8 am", "at 9:00"]
    assert [judged({"$mentions": ["book.at"]}, text, call) for text in rows] == ["pass", "pass", "fail"]


def test_without_a_clock_no_date_is_wrong() -> None:
    assert judged({"$date": "today"}, "2026-02-26", when=None) == "not_evaluated"
    assert judged({"$date": "today"}, "soon", when=None) == "fail"


@pytest.mark.parametrize("expected", [{"years": -2026}])
def test_a_day_beyond_the_calendar_is_none(expected: Any) -> None:
    assert judged({"$date": expected}, "2026-02-26") == "fail"
    assert judged({"$date": {"days": 1}, "tolerance": "1d"}, "9999-12-31") == "fail"


@given(st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1)), st.integers(-3000, 3000))
def test_moving_the_clock_and_the_date_alike_changes_nothing(when: datetime, days: int) -> None:
    at = when.replace(tzinfo=UTC)
    wanted = datetime.fromtimestamp(at.timestamp() + days * 86_400, UTC).date()
    assert judged({"$date": {"days": days}}, str(wanted), when=at) == "pass"
    assert judged({"$date": {"days": days + 1}}, str(wanted), when=at) == "fail"


# Values that the agent makes up.


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        ("uuid", [UUID, UUID.upper(), UUID.replace("-", "")], ["req-1", "", UUID[:-1], 5, None]),
        ("ulid", ["01ARZ3NDEKTSV4RRFFQ69G5FAV"], ["01ARZ3NDEKTSV4RRFFQ69G5FAU", UUID]),
        ("hex", ["8f3a2b", "0" * 64], ["8f3a2", "8f3a2g"]),
        ("token", ["req_8Fa.2-b"], ["request", "a b1", "1"]),
        ("counter", [17, "0017"], ["x17", -1, 1.5]),
        ("timestamp", [1772012000, "2026-02-25T09:29:00Z", 1772012000123], [1772412000, "2026-03-25", "now"]),
        (UUID, [UUID.replace("f8", "0a")], ["8f3a2b"]),
        ("req_8f3a2b", ["req_00aa11"], ["8f3a2b", "req_xyz"]),
        ("INV-20260225-007", ["INV-20260301-123"], ["REF-20260301-123"]),
    ],
)
def test_a_generated_value_is_of_its_kind(kind: Any, right: Any, wrong: Any) -> None:
    assert [value for value in right if judged({"$generated": kind}, value) != "pass"] == []
    assert [value for value in wrong if judged({"$generated": kind}, value) != "fail"] == []


def test_a_generated_id_is_new() -> None:
    expected = {"$generated": "uuid"}
    assert judged(expected, UUID, ToolCall("g", result=returned({"order": {"id": UUID}}))) == "fail"
    assert judged(expected, UUID, said=f"Cancel {UUID}, please") == "fail"
    assert judged(expected, UUID, ToolCall("f", {"y": UUID})) == "pass"
    again = [ToolCall("f", {"x": UUID}), ToolCall("f", {"x": UUID})]
    both = [ExpectedCall("f", {"x": expected})] * 2
    assert [call.verdict.label for call in score_turn(both, again).calls] == ["pass", "fail"]
    retried = [ToolCall("f", {"x": UUID}, error="timeout"), ToolCall("f", {"x": UUID})]
    assert [call.verdict.label for call in score_turn(both, retried).calls] == ["pass", "pass"]


def test_a_number_may_be_there_for_another_reason() -> None:
    assert (
        judged({"$generated": "counter"}, 3, ToolCall("g", result=returned({"count": 3})), said="3 of them") == "pass"
    )


def test_a_prefix_stands_before_it() -> None:
    expected = {"$generated": "uuid", "prefix": "req:"}
    assert judged(expected, f"req:{UUID}") == "pass"
    assert judged(expected, UUID) == "fail"


# What calls returned, and what they were passed.


def test_a_result_is_found_in_lists_and_texts() -> None:
    found = ToolCall("search", result=returned('{"orders": [{"id": "W1"}, {"id": "W2"}], "note": "see W3, or R-4."}'))

    def says(actual: Any, **where: Any) -> str:
        return judged({"$from_result": {"call": "search", **where}}, actual, found)

    assert (says("W2", path="/orders/*/id"), says("W9", path="/orders/*/id")) == ("pass", "fail")
    assert (says("W2", path="/*/*/id"), says("W2", path="/orders/id")) == ("pass", "fail")
    assert (says("W2", anywhere=True), says("R-4", anywhere=True), says("W", anywhere=True)) == ("pass", "pass", "fail")
    assert says("W1", path="/note", anywhere=True) == "fail"
    expected = [{"$from_result": {"call": "search", "path": "/orders/*/id"}}] * 2
    assert judged(expected, ["W2", "W1"], found) == "pass"
    assert (
        judged({"$contains": {"$from_result": {"call": "search", "path": "/orders/0/id"}}}, "For W1.", found) == "pass"
    )


def test_an_absent_field_of_one_result_is_no_value() -> None:
    found = ToolCall("search", result=returned({"orders": []}))
    assert judged({"$from_result": {"call": "search", "path": "/orders/*/id"}}, "W1", found) == "fail"


class TestMentions:
    REFUND = ToolCall("refund", {"amount": 20.5, "to": {"name": "Ada Lee"}}, result=returned({"id": "R-77"}))

    def said(self, text: Any, *references: Any, before: tuple[ToolCall, ...] = (REFUND,), **others: Any) -> str:
        return judged({"$mentions": list(references)}, text, *before, **others)

    def test_a_text_says_what_was_passed_and_returned(self) -> None:
        reference = {"call": "refund", "path": "/id"}
        assert self.said("We sent $20.50 (R-77) to Ada Lee.", "refund.amount", "refund.to.name", reference) == "pass"
        assert self.said("We sent $20.00 (R-77).", "refund.amount", reference) == "fail"
        assert self.said("We sent $20.50 (R-7).", "refund.amount", reference) == "fail"
        assert self.said(["20.5", "Ada Lee"], "refund.to.name") == "pass"
        assert self.said("", "refund.amount") == self.said(None, "refund.amount") == "fail"

    def test_an_argument_of_the_call_itself(self) -> None:
        assert self.said("Your order 17", "order", order=17) == "pass"
        assert self.said("Your order 18", "order", order=17) == "fail"

    def test_what_the_run_never_did_needs_no_mention(self) -> None:
        assert self.said("Hello", "refund.amount", before=()) == "pass"
        assert self.said("Hello", "refund.tax") == "pass"
        assert self.said("Hello", "refund.amount", before=(ToolCall("refund", {"amount": 5}, error="no"),)) == "pass"

    def test_what_is_hidden_is_unknown(self) -> None:
        hidden = ToolCall("refund", None, Capture.NOT_CAPTURED)
        assert self.said("Hello", "refund.amount", before=(hidden,)) == "not_evaluated"
        assert self.said("Hello", {"call": "refund", "path": "/id"}, before=(ToolCall("refund"),)) == "not_evaluated"


def test_lists_that_belong_together_have_one_order() -> None:
    expected = {"$unordered": ["a", "b"], "together": {"y": [1, 2]}}
    assert judged(expected, ["a", "b"], y=[1, 2]) == judged(expected, ["b", "a"], y=[2, 1]) == "pass"
    assert judged(expected, ["b", "a"], y=[1, 2]) == "fail"
    assert judged(expected, ["b", "a"], y=[2]) == judged(expected, ["b", "a"]) == "fail"
    hidden = ToolCall("f", {"x": ["a", "b"], "y": None}, argument_captures={"y": Capture.REDACTED})
    assert score_turn([ExpectedCall("f", {"x": expected})], [hidden]).calls[0].verdict.label == "not_evaluated"


class TestMadeUpIds:
    EXPECTED: ClassVar = {"$key_facts": ["W1001"]}

    def test_an_id_that_nobody_said_is_made_up(self) -> None:
        assert judged(self.EXPECTED, "W1001, as W1002") == "fail"
        assert judged(self.EXPECTED, "W1001, as W1002", said="Not W1002?") == "pass"
        assert judged(self.EXPECTED, "W1001, as W1002", ToolCall("g", result=returned(["W1002"]))) == "pass"
        assert judged(self.EXPECTED, "W1001 and the form W2", said="Hi") == "pass"

    def test_a_fact_may_be_a_matcher(self) -> None:
        facts = {"$key_facts": [{"$date": {"days": 3}}, {"$from_result": {"call": "g", "path": "/id"}}]}
        found = ToolCall("g", result=returned({"id": "r-5"}))
        assert judged(facts, "R-5 comes on February 28, 2026".lower(), found) == "pass"
        assert judged(facts, "r-5 comes on 2026-02-27", found) == "fail"


# In sessions of several turns.


def test_what_earlier_turns_did_counts_whether_turns_or_the_session_are_scored() -> None:
    refund = ToolCall("refund", {"amount": 5}, result=returned({"id": "R-1"}), tool_definitions=Content())
    send = ToolCall("send", {"body": "5 EUR, R-1"})
    tools = Content([{"name": "send", "parameters": {"type": "object", "properties": {}}}], Capture.CAPTURED)
    session = Session("s", (Turn((refund,), tool_definitions=tools), Turn((send,))))
    body = {"$mentions": ["refund.amount", {"call": "refund", "path": "/id"}]}
    calls = (ExpectedCall("refund"), ExpectedCall("send", {"body": body}))
    assert score_session(Golden("s", calls=calls), session).passed
    assert score_session([[{"name": "refund"}], [{"name": "send", "args": {"body": body}}]], session).passed
    wrong = Session("s", (Turn((ToolCall("refund", {"amount": 6}),), tool_definitions=tools), Turn((send,))))
    assert score_session(Golden("s", calls=calls), wrong).turns[0].calls[1].verdict.label == "fail"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"$date": "soon"}, "expected words such as tomorrow"),
        ({"$date": {"day": 1}}, "unknown field: expected days, weeks, months, years or time"),
        ({"$date": {"days": 1.5}}, "expected a whole number"),
        ({"$date": {"time": "9"}}, 'expected text such as "09:30"'),
        ({"$date": []}, "expected words such as tomorrow"),
        ({"$date": "today", "zone": "CET"}, 'expected an offset from UTC such as "+02:00"'),
        ({"$date": "today", "tolerance": "x"}, "expected seconds"),
        ({"$generated": "uid"}, "did you mean `uuid`?"),
        ({"$generated": "a b"}, "expected one of uuid"),
        ({"$generated": "uuid", "prefix": 1}, "expected text"),
        ({"$mentions": []}, "expected a list such as [create_refund.amount]"),
        ({"$mentions": ["a..b"]}, "expected tool.argument"),
        ({"$mentions": [{"call": "f", "anywhere": True}]}, "unknown field"),
        ({"$from_result": {"call": "f", "anywhere": 1}}, "expected true or false"),
        ({"$key_facts": []}, "expected a text, or a list of what a text must say"),
        ({"$key_facts": [True]}, "expected a number, or text with letters or digits"),
        ({"$alphanumeric": {"$any_of": [1]}}, "expected plain values"),
        ({"$common_keys": 1}, "expected an object, or a list of objects"),
        ({"$unordered": [1], "together": {"y": [1, 2]}}, "as many elements as the list that they belong to has: 1"),
        ({"$unordered": [1], "together": ["y"]}, "expected an object of the other arguments"),
        ({"$unordered": [1], "common_keys": 1}, "expected true or false"),
    ],
)
def test_a_wrong_matcher_is_refused(wrong: Any, said: str) -> None:
    with pytest.raises(MatcherError) as caught:
        ExpectedCall("f", {"x": wrong})
    assert said in str(caught.value)
