"""`$datetime`: one instant is one instant however it is written, and nothing that comes from telemetry raises."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldspan.scoring import MatcherError, ToolCall, score_turn
from goldspan.scoring.comparison import instant_of

NINE = "2026-03-01T09:00:00Z"
UNIX = 1772355600


def at(expected: Any, actual: Any, **options: Any) -> bool:
    golden = [{"name": "f", "args": {"x": {"$datetime": expected, **options}}}]
    return score_turn(golden, [ToolCall("f", {"x": actual})]).passed


SAME: list[Any] = [
    NINE,
    "2026-03-01t09:00:00z",
    "2026-03-01 09:00:00Z",
    "  2026-03-01T09:00Z ",
    "2026-03-01T09Z",
    "20260301T090000Z",
    "2026-03-01T09:00:00.000Z",
    "2026-03-01T09:00:00,0Z",
    "2026-03-01T10:00:00+01:00",
    "2026-03-01T10:00:00 +0100",
    "2026-03-01T10+01",
    "2026-02-28T23:30:00-09:30",
    "2026-03-01T10:00:00+01:00[Europe/Paris]",
    "2026-03-01T09:00:00",
    UNIX,
    float(UNIX),
    str(UNIX),
    UNIX * 1_000,
    str(UNIX * 1_000),
    UNIX * 1_000_000,
    UNIX * 1_000_000_000,
]
OTHERS: list[Any] = [
    "2026-03-01T09:00:01Z",
    "2026-03-01T09:00:00.001Z",
    "2026-03-01T09:00:00+01:00",
    "2026-03-01T10:00:00",
    "2026-03-01",
    "2026-02-30T09:00:00Z",
    "2026-03-01T09:60:00Z",
    "2026-03-01T25:00Z",
    "0000-03-01T09:00:00Z",
    "tomorrow at nine",
    "",
    "9",
    UNIX + 1,
    float("nan"),
    float("inf"),
    10**400,
    -(10**400),
    True,
    None,
    [NINE],
    {"dateTime": NINE},
    "2" * 100_000,
]


@pytest.mark.parametrize("actual", SAME, ids=repr)
def test_one_instant_in_all_its_spellings(actual: Any) -> None:
    assert at(NINE, actual)
    assert at(actual, NINE)


@pytest.mark.parametrize("actual", OTHERS, ids=lambda value: repr(value)[:30])
def test_another_instant_or_none(actual: Any) -> None:
    assert not at(NINE, actual)


@pytest.mark.parametrize("tolerance", [60, "60s", "60 s", "1m", 60.0, "60000ms", "0.5h", "2d"])
def test_a_tolerance_is_inclusive_and_in_any_unit(tolerance: Any) -> None:
    assert at(NINE, UNIX + 60, tolerance=tolerance)
    assert at(NINE, UNIX - 60, tolerance=tolerance)
    assert not at(NINE, UNIX + 60.001, tolerance=60)


def test_the_end_of_a_day_and_a_leap_second_are_the_next_day() -> None:
    assert at("2017-01-01T00:00:00Z", "2016-12-31T24:00:00Z")
    assert at("2017-01-01T00:00:00Z", "2016-12-31T23:59:60Z")


@pytest.mark.parametrize(
    ("value", "options", "says"),
    [
        ("soon", {}, 'expected ISO 8601 such as "2026-03-01T09:00:00Z", Unix time, or a time such as "09:00"'),
        (None, {}, "found null, expected ISO 8601"),
        (NINE, {"tolerance": "soon"}, 'found "soon", expected seconds, as a number or as 500ms, 60s, 5m, 1h, 1d'),
        (NINE, {"tolerance": -1}, "found -1, expected seconds"),
        (NINE, {"tolerence": 1}, "unknown option of $datetime: did you mean `tolerance`?"),
    ],
)
def test_a_wrong_one_is_refused_with_what_is_expected(value: Any, options: Any, says: str) -> None:
    with pytest.raises(MatcherError) as caught:
        at(value, NINE, **options)
    assert says in str(caught.value)


offsets = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(datetime(1973, 3, 4), datetime(2500, 1, 1), timezones=offsets)


@given(moments, offsets, st.sampled_from(["T", " "]), st.integers(0, 10**6))
def test_it_agrees_with_the_standard_library(one: datetime, zone: timezone, between: str, apart: int) -> None:
    other = one.astimezone(zone) + timedelta(microseconds=apart)
    seconds = Fraction(apart, 10**6)
    first, second = instant_of(one.isoformat(between)), instant_of(other.isoformat())
    assert first is not None
    assert second is not None
    assert first.seconds_from(second) == second.seconds_from(first) == seconds
    unix = instant_of(round(one.astimezone(UTC).timestamp()))
    assert unix is not None
    assert unix.seconds_from(first) <= 1


@given(st.text() | st.from_regex(r"[0-9TZ:+.\-\[\] ]{0,40}") | st.floats() | st.integers())
def test_nothing_raises(value: Any) -> None:
    found = instant_of(value)
    assert found is None or found.seconds_from(found) == 0


HINTS: list[tuple[Any, Any, str]] = [
    (NINE, "2026-03-01T10:00:00+01:00", "the same instant: use $datetime"),
    (NINE, UNIX, "the same instant: use $datetime"),
    (UNIX, UNIX * 1_000, "the same instant: use $datetime"),
    ({"at": [NINE]}, {"at": ["20260301T0900Z"]}, "the same instant: use $datetime"),
    (NINE, "2026-03-01T09:00:01Z", ""),
    (1.0, 1.000000001, "differ by 1e-9: use a tolerance ($approx)"),
    (0.3, 0.1 + 0.2, "differ by 4e-17: use a tolerance ($approx)"),
    (1.0, 1.1, ""),
    (0.0, 1e-300, ""),
    (1_000_000_000, 1_000_000_001, ""),
    (10**400, 10**400 + 1, ""),
    (5, "5", "the same number as text: use $approx"),
    ("5.0", 5, ""),
    (20260301, "2026-03-01", ""),
    (True, 1, ""),
    ("Paris", "paris", "the same but for case: use $casefold"),
    ("Paris", " Paris ", "the same but for spaces at the ends: use $regex or $alphanumeric"),
    ("Zo\u00eb", "Zoe\u0308", "the same text in another Unicode form: use $alphanumeric"),
    ("W-123", "#w123", "the same letters and digits: use $alphanumeric"),
    (["a", "b"], ["b", "a"], "the same elements in another order: use $unordered"),
    ({"a": 1}, {"a": 1, "b": 2}, "the same but for other keys: use $common_keys"),
    (f"{'0' * 31}1", f"{'0' * 31}2", "both are made up: use $generated"),
    ({"to": {"zip": "75 001"}}, {"to": {"zip": "75001"}}, "the same letters and digits: use $alphanumeric"),
    ({"$datetime": NINE}, "2026-03-01T08:00:00Z", ""),
]


@pytest.mark.parametrize(("expected", "actual", "hint"), HINTS, ids=lambda value: repr(value)[:30])
def test_values_that_seem_to_mean_the_same_are_told(expected: Any, actual: Any, hint: str) -> None:
    result = score_turn([{"name": "f", "args": {"x": expected}}], [ToolCall("f", {"x": actual})])
    [argument] = result.calls[0].arguments
    assert argument.hint == hint
    assert (f"x: {hint}" in str(result)) if hint else ("use " not in str(result))
