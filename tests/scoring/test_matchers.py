"""Values of goldens that match more than themselves: what each matches, how they nest, and what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldspan.scoring import (
    Capture,
    ExpectedCall,
    MatcherError,
    ToolCall,
    explain,
    score_turn,
)
from goldspan.scoring.json_values import shown
from goldspan.scoring.matchers import escape_literal
from goldspan.scoring.matchers.reading import MATCHER_KINDS, NAMES

NAN = float("nan")
brief = partial(shown, longest=40)
NOTHING = object()
"""In the place of an actual value: the argument is left out."""


def score(expected: Any, actual: Any = NOTHING, **criterion: Any) -> float | None:
    """The score of one call with one argument, aligned by its name alone."""
    args = {} if actual is NOTHING else {"x": actual}
    criterion.setdefault("match_mode", "name_only")
    return score_turn([{"name": "f", "args": {"x": expected}}], [{"name": "f", "args": args}], criterion).verdict.score


ROWS: list[tuple[Any, list[Any], list[Any]]] = [
    ({"$any_of": ["a", "b"]}, ["a", "b"], ["c", "A", None, ["a"], NOTHING]),
    ({"$any_of": [None, 1]}, [None, 1.0], [True, "1", NOTHING]),
    ({"$any_of": [1, {"$absent": True}]}, [1, NOTHING], [2, None]),
    ({"$any_of": [{"$regex": "a+"}, {"$any_of": [5]}]}, ["aa", 5], ["b", 6]),
    ({"$regex": "[A-Z]{2}[0-9]+"}, ["AB1", "AB12"], ["AB", "xAB1", "AB1x", "AB1\n", 1, None, ["AB1"], NOTHING]),
    ({"$regex": "a|ab"}, ["a", "ab"], ["abc"]),
    ({"$regex": "(?i)paris.*"}, ["PARIS, France"], ["in Paris"]),
    ({"$regex": ""}, [""], ["a"]),
    ({"$regex": "."}, ["é", "\U0001f600"], ["\ud800", "ab"]),
    ({"$approx": 21.5, "tolerance": 0.1}, [21.6, 21.4, "21.6", 21.5], [21.61, 21.39, "x", None, True, NOTHING]),
    ({"$approx": 200, "relative": 0.05}, [210, 190], [210.01, 189.99]),
    ({"$approx": -200, "relative": 0.05}, [-210, -190], [-211, 200]),
    ({"$approx": 10, "relative": 0.1, "tolerance": 2}, [12, 8], [12.1]),
    ({"$approx": 100, "relative": 0.1, "tolerance": 2}, [110, 90], [111]),
    ({"$approx": 1}, [1, 1.0, "1"], [True, 1.0000001, NAN]),
    ({"$approx": 0, "relative": 0.5}, [0, -0.0], [0.001]),
    ({"$datetime": "2026-03-01T09:00:00Z"}, ["2026-03-01T10:00:00+01:00"], ["2026-03-01T09:00:01Z", "no", None]),
    (
        {"$datetime": "21:30"},
        ["21:30:00", "9:30 PM", "9:30pm"],
        ["09:30", "21:30:01", "2026-03-01T21:30:00Z", 77400, None],
    ),
    ({"$key_facts": [1200.5, "usd"]}, ["USD 1,200.50", "1200.5 usd"], [1200.5, "1200.50 EUR"]),
    ({"$key_facts": [1200.5]}, [1200.5, "1,200.50", "$1200.50"], [1200, True, None]),
    ({"$contains": "Paris"}, ["in Paris, France", ["Paris", "Rome"]], ["paris", ["in Paris"], NOTHING]),
    ({"$contains": [1, 1]}, [[1, 2, 1]], [[1, 2], 1]),
    ({"$contains": {"a": 1}}, [{"a": 1, "b": 2}], [{"b": 2}, [{"a": 1}]]),
    ({"$contains": {"a": {"$regex": "x+"}}}, [{"a": "xx", "b": 1}], [{"a": "y"}, {}]),
    ({"$contains": [{"$regex": "a.*"}, {"$regex": ".*b"}]}, [["ab", "ab"], ["b", "c", "a"]], [["ab"], "ab"]),
    ({"$casefold": "Straße"}, ["STRASSE", "straße"], ["strasse ", None, NOTHING]),
    ({"$casefold": {"K": ["A"]}}, [{"K": ["a"]}], [{"k": ["a"]}, {"K": ["a", "a"]}]),
    ({"$type": "string"}, ["", "a"], [1, None, NOTHING]),
    ({"$type": "number"}, [1, 1.5], [True, "1", NAN, float("inf")]),
    ({"$type": "integer"}, [1, 1.0, 10**400], [1.5, True, "1", NAN]),
    ({"$type": "number", "minimum": 1, "maximum": 2.5}, [1, 2.5], [0.9, 2.6, "2", NOTHING]),
    ({"$type": ["integer", "null"], "maximum": 3}, [3, None, -9], [4, 2.5]),
    ({"$not": "a"}, ["b", None, 1], ["a", NOTHING]),
    ({"$not": {"$any_of": [1, {"$type": "string"}]}}, [2, None], [1, "x", NOTHING]),
    ({"$type": "boolean"}, [True, False], [0, 1, "true"]),
    ({"$type": "null"}, [None], [0, "", NOTHING]),
    ({"$type": "array"}, [[], [1], (1, 2)], [{}, "[]"]),
    ({"$type": "object"}, [{}, {"a": 1}], [[], None]),
    ({"$type": ["string", "null"]}, ["a", None], [1, NOTHING]),
    ({"$present": True}, [1, None, "", [], False], [NOTHING]),
    ({"$absent": True}, [NOTHING], [None, "", 0, [], {}]),
    ({"$unordered": [1, 1, "a"]}, [["a", 1, 1.0]], [["a", 1], ["a", 1, 1, 1], ["a", "a", 1], "a", {}, NOTHING]),
    ({"$unordered": []}, [[]], [[1], None]),
    ({"$unordered": [{"a": [1]}, {"b": 2}]}, [[{"b": 2}, {"a": [1]}]], [[{"b": 2}, {"a": [1, 1]}]]),
    # The first element could take either; only one way leaves something for the second.
    ({"$unordered": [{"$type": "number"}, 1]}, [[1, 2], [2, 1]], [[2, 3]]),
    ({"$unordered": [{"$any_of": [1, 2]}, {"$any_of": [1, 3]}, 1]}, [[1, 2, 3], [3, 1, 2]], [[1, 1, 4]]),
    ({"$unordered": [{"$unordered": [1, 2]}, 3]}, [[3, [2, 1]]], [[3, [2, 2]]]),
    ({"$unordered": [NAN]}, [], [[NAN]]),
    ({"$unordered": [{"a": 1}, {"a": 2}], "common_keys": True}, [[{"a": 2, "b": 0}, {"a": 1}]], [[{"a": 2}, {"b": 1}]]),
    ({"$common_keys": {"a": {"b": 1}}}, [{"a": {"b": 1, "c": 2}, "d": 3}], [{"a": {"c": 1}}, {"d": 3}, "x", NOTHING]),
    ({"$common_keys": [{"a": 1}]}, [[{"a": 1, "b": 2}]], [[{"b": 2}], [{"a": 1}, {}], {}]),
    ({"$alphanumeric": "#W-123 b"}, ["w123 B", "W123B", "#w.1 23-b"], ["W123", "W124b", None, 1, NOTHING]),
    (
        {"$alphanumeric": {"a": ["5", "-"]}},
        [{"a": [5, "-"]}, {"a": ["5.0", "-"]}],
        [{"a": ["-5", "-"]}, {"a": ["5", "!"]}],
    ),
    (
        {"$key_facts": ["Ada Lee", 20, "2026-03-01"]},
        ["To ADA lee: $20.00 by March 1, 2026", "ada-lee, 1st of March: twenty"],
        ["Ada: 20, 2026-03-01", "Ada Lee 21 2026-03-01", "Ada Lee, 20, 2025-03-01", "", None, 20, NOTHING],
    ),
    (
        {"$key_facts": "Refund of 20.50 EUR for order W123 on 2026-03-01"},
        ["W123: 20.5 euros, March 1"],
        ["W124: 20.5 on 2026-03-01", "W123: 20 on 2026-03-01", "W123: 20.50"],
    ),
    ({"$literal": {"$regex": "a"}}, [{"$regex": "a"}], ["a", {"$regex": "b"}]),
    ({"$literal": {"x": [{"$any_of": [1]}]}}, [{"x": [{"$any_of": [1]}]}], [{"x": [1]}]),
    ({"$literal": 5}, [5], [6]),
    # Nested: what stands beside matchers is compared as ever.
    ({"a": {"$regex": "x+"}, "b": 1}, [{"b": 1.0, "a": "x"}], [{"a": "x"}, {"a": "x", "b": 1, "c": 2}, "x", []]),
    ({"a": {"$absent": True}}, [{}], [{"a": None}, None, [], "text"]),
    ({"a": {"$ignore": True}, "b": 1}, [{"b": 1}, {"a": 9, "b": 1}], [{"a": 9}, {"a": 9, "b": 2}]),
    ([1, {"$type": "string"}], [[1, "a"]], [[1], [1, "a", "b"], ["a", 1], {"0": 1}]),
    ([{"$present": True}, [[{"$approx": 1, "tolerance": 1}]]], [[None, [[2]]]], [[None, [[3]]]]),
]


@pytest.mark.parametrize(("expected", "right", "wrong"), ROWS, ids=brief)
def test_each_matcher_matches_this_and_not_that(expected: Any, right: list[Any], wrong: list[Any]) -> None:
    assert [value for value in right if score(expected, value) != 1] == []
    assert [value for value in wrong if score(expected, value) != 0] == []


def test_there_is_a_row_for_every_matcher() -> None:
    written = json.dumps([expected for expected, _, _ in ROWS])
    of_sessions = ["$date", "$from_result", "$generated", "$mentions"]  # in test_session_matchers.py
    assert [name for name in NAMES if f'"{name}"' not in written] == of_sessions
    assert tuple(sorted(MATCHER_KINDS)) == NAMES


@pytest.mark.parametrize(
    ("criterion", "expected", "right", "wrong"),
    [
        ({"default_strategy": "casefold_exact"}, {"$any_of": ["Paris", "Rome"]}, ["PARIS"], ["PARI"]),
        ({"default_strategy": "casefold_exact"}, {"$unordered": ["A", "b"]}, [["B", "a"]], [["B", "b"]]),
        ({"default_strategy": "casefold_exact"}, {"a": "X", "b": {"$type": "null"}}, [{"a": "x", "b": None}], []),
        ({"default_strategy": "numeric", "numeric_tolerance": 1}, {"$any_of": [5, 10]}, [6, "9"], [7.5]),
        ({"default_strategy": "numeric", "numeric_tolerance": 1}, {"$approx": 5}, [6, 4], [6.1]),
        ({"default_strategy": "numeric", "numeric_tolerance": 1}, {"$approx": 5, "tolerance": 0}, [5], [6]),
        (
            {"default_strategy": "numeric", "numeric_tolerance": 1},
            {"a": 5, "b": {"$present": True}},
            [],
            [{"a": 6, "b": 1}],
        ),
        ({"default_strategy": "contains"}, {"$any_of": ["Paris", "Rome"]}, ["in Rome"], ["Oslo"]),
        ({"default_strategy": "contains"}, {"a": {"$type": "string"}}, [{"a": "", "b": 1}], [{"b": 1}]),
        ({"default_strategy": "contains"}, {"$casefold": "rome"}, ["ROME"], ["in ROME"]),
        ({"default_strategy": "contains"}, [{"$type": "string"}, 1], [[2, 1, "a"]], [["a"]]),
    ],
    ids=brief,
)
def test_values_inside_a_matcher_are_compared_by_the_argument_s_strategy(
    criterion: dict[str, Any], expected: Any, right: list[Any], wrong: list[Any]
) -> None:
    assert [value for value in right if score(expected, value, **criterion) != 1] == []
    assert [value for value in wrong if score(expected, value, **criterion) != 0] == []


def test_any_of_takes_the_best_similarity() -> None:
    pytest.importorskip("rapidfuzz", reason="the extra `similarity` is not installed")
    best = score({"$any_of": ["abd", "xyz"]}, "abc", default_strategy="similarity")
    assert best == score("abd", "abc", default_strategy="similarity") == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("args", "actual", "outcomes", "expected"),
    [
        ({"x": {"$ignore": True}, "y": 1}, {"y": 1}, ["ignored", "matched"], 1),
        ({"x": {"$ignore": True}, "y": 1}, {"x": 5, "y": 2}, ["ignored", "mismatched"], 0),
        ({"y": 1, "x": {"$ignore": True}, "z": 2}, {"z": 3, "y": 1}, ["matched", "ignored", "mismatched"], 0.5),
        ({"x": {"$ignore": True}}, {}, ["ignored"], 1),
        ({"x": {"$absent": True}, "y": 1}, {"y": 2}, ["matched", "mismatched"], 0.5),
        ({"x": {"$absent": True}, "y": 1}, {"x": None, "y": 1}, ["mismatched", "matched"], 0.5),
        ({"x": {"$any_of": [1, {"$absent": True}]}, "y": 1}, {"y": 1}, ["matched", "matched"], 1),
    ],
)
def test_absence_satisfies_some_and_keeps_no_call_from_being_aligned(
    args: Any, actual: Any, outcomes: list[str], expected: float
) -> None:
    turn = score_turn([{"name": "f", "args": args}], [{"name": "f", "args": actual}])
    assert [argument.outcome for argument in turn.calls[0].arguments] == outcomes
    assert turn.calls[0].aligned
    assert turn.verdict.score == expected
    assert turn.calls[0].extra_arguments == ()


@pytest.mark.parametrize(
    ("actual", "aligned"), [({"y": 1}, True), ({"x": 1, "y": 1}, False), ({"y": 2}, False), ({"y": 1, "z": 1}, False)]
)
def test_name_and_args_wants_every_matcher_satisfied(actual: Any, aligned: bool) -> None:
    expected = [{"name": "f", "args": {"x": {"$absent": True}, "y": {"$any_of": [1, 3]}, "v": {"$ignore": True}}}]
    turn = score_turn(expected, [{"name": "f", "args": actual}], {"match_mode": "name_and_args"})
    assert turn.calls[0].aligned == aligned


def test_alignment_sees_what_matches() -> None:
    expected = [{"name": "f", "args": {"x": {"$regex": "b+"}}}, {"name": "f", "args": {"x": {"$regex": "a+"}}}]
    actual = [{"name": "f", "args": {"x": "aa"}}, {"name": "f", "args": {"x": "bb"}}]
    assert score_turn(expected, actual, {"ordered": False}).verdict.score == 1


def test_a_near_miss_is_the_call_whose_matchers_match() -> None:
    expected = [{"name": "f", "args": {"x": {"$regex": "a+"}, "y": 1}}]
    turn = score_turn(expected, [{"name": "f", "args": {"x": "b"}}, {"name": "f", "args": {"x": "aa"}}])
    assert turn.calls[0].missing
    assert turn.calls[0].actual_index == 1


@pytest.mark.parametrize(
    ("expected", "label", "known"),
    [
        ({"$present": True}, "pass", True),
        ({"$absent": True}, "fail", True),
        ({"$ignore": True}, "pass", True),
        ({"$type": "string"}, "not_evaluated", False),
        ({"$any_of": [1, 2]}, "not_evaluated", False),
    ],
)
def test_of_a_hidden_value_it_is_known_that_it_was_passed(expected: Any, label: str, known: bool) -> None:
    hidden = ToolCall("f", {"x": "[REDACTED]"}, argument_captures={"x": Capture.REDACTED})
    turn = score_turn([{"name": "f", "args": {"x": expected}}], [hidden])
    assert turn.verdict.label == label
    assert (turn.calls[0].verdict.reason is None) == known


def test_a_call_without_known_arguments_is_right_if_all_is_ignored() -> None:
    unknown = ToolCall("f", None, Capture.NOT_CAPTURED)
    [call] = score_turn([{"name": "f", "args": {"x": {"$ignore": True}}}], [unknown]).calls
    assert (call.verdict.label, [one.outcome for one in call.arguments]) == ("pass", ["ignored"])


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4)
keys = st.sampled_from(["a", "b", "$regex", "$any_of", "$literal", "$x", "$ignore"])
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=3), max_leaves=10
)


@given(values)
def test_what_is_escaped_matches_itself_and_nothing_in_it_is_a_matcher(value: Any) -> None:
    call = ExpectedCall("f", {"x": escape_literal(value)})
    assert json.dumps(call.values["x"]) == json.dumps(value)
    assert score(escape_literal(value), value) == 1


@given(values, values)
def test_what_is_escaped_matches_what_it_would_match_literally(expected: Any, actual: Any) -> None:
    call = ExpectedCall("f", {"x": expected}, literal=True)
    assert (
        score(escape_literal(expected), actual)
        == score_turn([call], [{"name": "f", "args": {"x": actual}}]).verdict.score
    )


@pytest.mark.parametrize(
    ("value", "escaped"),
    [
        ({"$any_of": [1]}, {"$literal": {"$any_of": [1]}}),
        ({"$approx": 1, "tolerance": 1}, {"$literal": {"$approx": 1, "tolerance": 1}}),
        ({"$literal": 1}, {"$literal": {"$literal": 1}}),
        ({"$x": 1}, {"$literal": {"$x": 1}}),
        ({"$regex": "a", "$options": "i"}, {"$literal": {"$regex": "a", "$options": "i"}}),
        ({"a": [{"$x": {"$y": 1}}], "b": 1}, {"a": [{"$literal": {"$x": {"$y": 1}}}], "b": 1}),
        ("$any_of", "$any_of"),
        ({"a$": 1}, {"a$": 1}),
    ],
)
def test_what_is_escaped(value: Any, escaped: Any) -> None:
    assert escape_literal(value) == escaped


plain = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=1), inner, max_size=3)
)


@given(plain, plain)
def test_unordered_is_order_without_meaning(one: Any, other: Any) -> None:
    assert score({"$unordered": [one, other]}, [other, one]) == 1
    assert score({"$unordered": [one, {"$any_of": [other]}]}, [other, one]) == 1
    assert score({"$unordered": [one]}, [one, other]) == 0


@given(plain, plain)
def test_any_of_one_value_is_that_value(one: Any, other: Any) -> None:
    """What a matcher makes of a value is what the value is worth by itself, however deep they stand."""
    assert score({"$any_of": [one]}, other) == score(one, other)
    assert score([{"a": {"$any_of": [one]}}], [{"a": other}]) == score([{"a": one}], [{"a": other}])
    assert score({"$casefold": one}, other) == score(one, other, default_strategy="casefold_exact")
    assert score({"$contains": one}, other) == score(one, other, default_strategy="contains")
    assert score([{"$any_of": [one]}], other, default_strategy="contains") == score(
        [one], other, default_strategy="contains"
    )


@given(st.lists(plain, max_size=3), plain)
def test_more_alternatives_never_lower_a_score(alternatives: list[Any], actual: Any) -> None:
    scores = [score({"$any_of": alternatives[:count]}, actual) or 0 for count in range(1, len(alternatives) + 1)]
    assert scores == sorted(scores)


MATCHERS = [
    {"$any_of": [NAN]},
    {"$approx": 1, "tolerance": 5},
    {"$contains": [NAN]},
    {"$casefold": [NAN]},
    {"$type": "number"},
    {"$unordered": [NAN]},
    {"$literal": NAN},
    {"a": NAN, "b": {"$present": True}},
]


@pytest.mark.parametrize("expected", MATCHERS, ids=brief)
def test_nan_never_matches(expected: Any) -> None:
    assert [score(expected, actual) for actual in (NAN, [NAN], {"a": NAN, "b": 1})] == [0, 0, 0]


@pytest.mark.parametrize("pattern", ["(a|aa)+$", "(a*)*b", "(.*a){20}", "(x+x+)+y"])
def test_no_pattern_can_stall(pattern: str) -> None:
    started = time.process_time()
    assert score({"$regex": pattern}, "a" * 100_000 + "!") == 0
    assert score({"$regex": pattern}, "x" * 100_000) == 0
    assert time.process_time() - started < 20


def test_long_lists_are_bounded() -> None:
    expected = {"$contains": [{"$type": "null"}] * 200}
    started = time.process_time()
    assert score(expected, [1] * 10_001 + [None] * 200) == 0
    assert score(expected, [None] * 10_000) == 1
    assert score({"$unordered": list(range(20_000))}, list(range(20_000))[::-1]) == 1
    assert time.process_time() - started < 20


def test_values_are_shown_as_they_stand_in_the_golden() -> None:
    turn = score_turn([{"name": "f", "args": {"x": {"$regex": "a+"}}}], [{"name": "f", "args": {"x": "b"}}])
    text = explain(turn.calls[0], include_values=True)
    assert 'mismatched: x (expected {"$regex": "a+"}, found "b")' in text


def test_the_same_in_every_process() -> None:
    program = """
from goldspan.scoring import score_turn
args = {"x": {"$unordered": [{"$any_of": ["a", "b"]}, {"$type": "string"}, "c"]}, "y": {"a": 1, "b": {"$regex": "q+"}},
        "z": {"k": [1, {"m": 2, "n": 3}], "l": "v"}}
actual = {"x": ["c", "b", "a"], "y": {"b": "q", "a": 2}, "z": {"l": "w", "k": [1, {"n": 4, "m": 2}]}}
print(repr(score_turn([{"name": "f", "args": args}], [{"name": "f", "args": actual}], {"argument_score": "mean"})))
"""

    def printed(seed: str) -> bytes:
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True).stdout

    assert len({printed(seed) for seed in ("0", "1", "7", "4242")}) == 1


def test_without_re2_a_regex_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    module = "goldspan.scoring.matchers.kinds.single_values.regex_is_available"
    monkeypatch.setattr(module, lambda: False)
    with pytest.raises(MatcherError, match=r"install goldspan\[regex\]"):
        ExpectedCall("f", {"x": {"$regex": "a"}})
