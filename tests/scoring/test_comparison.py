"""Strategies: tables of their rules, the laws they keep, and values that are out to break them."""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from functools import partial
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldspan.scoring.comparison import (
    LONGEST_SIMILAR,
    _indel,
    casefold_exact,
    comparison,
    contains,
    equal,
    exact,
    numeric,
    similarity,
)
from goldspan.scoring.errors import CriterionError
from goldspan.scoring.json_values import shown

NAN = float("nan")
brief = partial(shown, longest=30)
STRATEGIES = ["exact", "casefold_exact", "numeric", "contains"]

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4)
)


def without_nan(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(without_nan, value))
    if isinstance(value, dict):
        return all(map(without_nan, value.values()))
    return not (isinstance(value, float) and math.isnan(value))


def nested(depth: int, leaf: Any, kind: type = list) -> Any:
    for _ in range(depth):
        leaf = [leaf] if kind is list else {"k": leaf}
    return leaf


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        (1, 1.0, True),
        (1, 1.5, False),
        (0, -0.0, True),
        (True, 1, False),
        (1, True, False),
        (False, 0, False),
        (True, True, True),
        (NAN, NAN, False),
        ([NAN], [NAN], False),
        (None, None, True),
        (None, False, False),
        (None, 0, False),
        (None, "", False),
        ("a", "a", True),
        ("a", "A", False),
        ("1", 1, False),
        ("é", "e\N{COMBINING ACUTE ACCENT}", False),
        ([1, 2], [1, 2.0], True),
        ([1, 2], [2, 1], False),
        ([1], [1, 1], False),
        ([True], [1], False),
        ([], {}, False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": 1}, {"a": 1, "b": None}, False),
        ({"a": None}, {}, False),
        ({"a": [{"b": 1}]}, {"a": [{"b": 1.0}]}, True),
        (2**53 + 1, float(2**53), False),
        (10**400, 1e308, False),
        (10**400, math.inf, False),
        ((1, 2), [1, 2], True),
    ],
    ids=brief,
)
def test_exact_is_equality_of_json(expected: Any, actual: Any, same: bool) -> None:
    assert exact(expected, actual) == same
    assert exact(actual, expected) == same


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        ("Paris", "PARIS", True),
        ("straße", "STRASSE", True),
        (["A", {"k": "B"}], ["a", {"k": "b"}], True),
        ({"Key": "x"}, {"key": "x"}, False),
        (1, 1.0, True),
        (True, 1, False),
        ("1", 1, False),
    ],
)
def test_casefold_folds_strings_and_leaves_keys(expected: Any, actual: Any, same: bool) -> None:
    assert casefold_exact(expected, actual) == same


@pytest.mark.parametrize(
    ("expected", "actual", "tolerance", "same"),
    [
        (5, 5.0, "0", True),
        (5, "5", "0", True),
        ("5", 5, "0", True),
        ("5", " 5.00\n", "0", True),
        ("5", "05", "0", True),
        (21.6, 21.5, "0.1", True),
        (21.5, 21.6, "0.1", True),
        (0.3, 0.1 + 0.2, "0", False),
        (0.3, 0.30000000000000004, "1e-16", True),
        (20, 20.5, "0.5", True),
        (20, 20.50001, "0.5", False),
        (-1, 1, "2", True),
        (1, True, "5", False),
        (0, False, "5", False),
        (True, True, "0", True),
        (1, None, "5", False),
        ("abc", "abc", "1", True),
        ("abc", "abd", "1", False),
        (1000, "1,000", "0", False),
        (1000, "1_000", "0", False),
        (16, "0x10", "0", False),
        (0.5, "1/2", "0", False),
        (1500, "1.5e3", "0", True),
        (5, "\N{ARABIC-INDIC DIGIT FIVE}", "0", False),
        (NAN, NAN, "1", False),
        (1, NAN, "1", False),
        (math.inf, math.inf, "0", True),
        (1, math.inf, "1", False),
        ("NaN", "NaN", "0", True),
        (1, "Infinity", "9", False),
        (1, "1e999999999", "1", False),
        ("1e999999999", "1e999999999", "0", True),
        ("1e1001", "10e1000", "0", False),
        ("1e1000", "10e999", "0", True),
        (10**5000, 10**5000 + 1, "1", True),
        (1, "9" * 10_000, "1", False),
        ([1], ["1"], "0", False),
        ([1.0], [1], "0", True),
    ],
    ids=brief,
)
def test_numeric_takes_numbers_as_written(expected: Any, actual: Any, tolerance: str, same: bool) -> None:
    assert numeric(expected, actual, tolerance=Fraction(tolerance)) == same


@pytest.mark.parametrize(
    ("expected", "actual", "relative", "same"),
    [(200, 210, "0.05", True), (200, 211, "0.05", False), (-200, -190, "0.05", True), (0, 0.001, "0.5", False)],
)
def test_a_relative_tolerance_is_a_share_of_the_expected_number(
    expected: Any, actual: Any, relative: str, same: bool
) -> None:
    assert numeric(expected, actual, relative_tolerance=Fraction(relative)) == same


def test_the_wider_tolerance_holds() -> None:
    compare = comparison("numeric", tolerance=Fraction(2), relative_tolerance=Fraction(1, 10))
    assert [compare(10, actual) for actual in (12, 12.1)] == [1, 0]
    assert [compare(100, actual) for actual in (110, 111)] == [1, 0]


@pytest.mark.parametrize(
    ("expected", "actual", "inside"),
    [
        ("Paris", "in Paris, France", True),
        ("paris", "in Paris", False),
        ("", "anything", True),
        ("", 1, False),
        ([1, 2], [3, 2.0, 1], True),
        ([1, 1], [1, 2], False),
        ([1, 1], [1, 2, 1], True),
        ([], [1], True),
        ([True], [1], False),
        ([NAN], [NAN], False),
        ([[1, 2]], [[1, 2], 3], True),
        ([[1]], [[1, 2]], False),
        ([{"a": 1}], [{"a": 1}], True),
        ([{"a": 1}], [{"a": 1, "b": 2}], False),
        (2, [1, 2], True),
        ("a", ["a", "b"], True),
        ("a", ["ab"], False),
        (None, [None], True),
        (True, [1], False),
        ({"a": 1}, [{"a": 1}], False),
        ({"a": 1}, {"a": 1.0, "b": 2}, True),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, True),
        ({"a": "x"}, {"a": "xyz"}, True),
        ({"a": [1]}, {"a": [2, 1]}, True),
        ({"a": None}, {}, False),
        ({}, {"a": 1}, True),
        ([1], 1, False),
        (5, 5.0, True),
        (5, "15", False),
    ],
)
def test_contains_looks_for_the_expected_in_the_actual(expected: Any, actual: Any, inside: bool) -> None:
    assert contains(expected, actual) == inside


@given(json_values.filter(without_nan))
def test_every_strategy_finds_a_value_like_itself(value: Any) -> None:
    assert [comparison(strategy)(value, value) for strategy in STRATEGIES] == [1, 1, 1, 1]


@given(json_values, json_values)
def test_equality_is_symmetric(one: Any, other: Any) -> None:
    assert equal(one, other) == equal(other, one)


@given(json_values, json_values)
def test_multiset_inclusion_agrees_with_equality(one: Any, other: Any) -> None:
    """Two implementations of one rule: walking both values, and canonical forms that hash."""
    assert contains([one], [other]) == exact(one, other)


@given(json_values, json_values)
def test_what_is_equal_is_found_by_every_other_strategy(one: Any, other: Any) -> None:
    if equal(one, other):
        assert casefold_exact(one, other) == numeric(one, other) == contains(one, other) == 1


@given(json_values, json_values, st.sampled_from(STRATEGIES))
def test_a_comparison_is_0_or_1(one: Any, other: Any, strategy: str) -> None:
    assert comparison(strategy)(one, other) in (0, 1)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-1000, max_value=1000))
def test_a_number_is_within_the_tolerance_that_is_its_distance(number: Any) -> None:
    wanted, distance = float(number), Fraction(1, 10)
    assert numeric(wanted, float(number + number.__class__("0.1")), tolerance=distance) == 1
    assert numeric(wanted, float(number + number.__class__("0.11")), tolerance=distance) == 0


DEEP = 10_000


class Hostile:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("never believe an object")

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("strategy", [*STRATEGIES, "similarity"])
@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (nested(DEEP, 1), nested(DEEP, 1)),
        (nested(DEEP, 1, dict), nested(DEEP, 2, dict)),
        ([nested(DEEP, 1)], [nested(DEEP, 1), 2]),
        (nested(DEEP, 1), 1),
        (10**5000, "1"),
        (10**5000, 0.5),
        ("a", b"a"),
        (Hostile(), Hostile()),
        ([Hostile()], [Hostile()]),
        ({1: "a"}, {"1": "a"}),
        ([{1: 2, "b": 3}], [{"b": 3, 1: 2}]),
        ("\ud800", "\ud800x"),
        (set(), set()),
    ],
    ids=brief,
)
def test_no_value_raises(strategy: str, expected: Any, actual: Any) -> None:
    if strategy == "similarity":
        pytest.importorskip("rapidfuzz", reason="the extra `similarity` is not installed")
    assert sys.getrecursionlimit() < DEEP
    assert 0 <= comparison(strategy)(expected, actual) <= 1


class TestSimilarity:
    @pytest.fixture(autouse=True)
    def _needs_the_extra(self) -> None:
        pytest.importorskip("rapidfuzz", reason="the extra `similarity` is not installed")

    @pytest.mark.parametrize(
        ("expected", "actual", "score"),
        [
            ("abc", "abc", Fraction(1)),
            ("", "", Fraction(1)),
            ("", "a", Fraction(0)),
            ("abc", "abd", Fraction(2, 3)),
            ("what is ML", "what is machine learning", Fraction(8, 17)),
            (5, 5.0, Fraction(1)),
            (5, "5", Fraction(0)),
            (["abc"], ["abd"], Fraction(0)),
        ],
    )
    def test_it_is_an_exact_share(self, expected: Any, actual: Any, score: Fraction) -> None:
        assert similarity(expected, actual) == score

    @given(st.text(max_size=20), st.text(max_size=20))
    def test_it_is_what_rapidfuzz_says(self, one: str, other: str) -> None:
        indel = import_module("rapidfuzz.distance.Indel")
        assert float(similarity(one, other)) == pytest.approx(indel.normalized_similarity(one, other))
        assert (similarity(one, other) == 1) == (one == other)

    def test_very_long_strings_are_compared_for_equality_only(self) -> None:
        long = "a" * (LONGEST_SIMILAR + 1)
        assert similarity(long, long) == 1
        assert similarity(long, long + "b") == 0


def test_without_rapidfuzz_similarity_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goldspan.scoring.comparison.similarity_is_available", lambda: False)
    _indel.cache_clear()
    with pytest.raises(CriterionError, match=r"install goldspan\[similarity\]"):
        similarity("a", "b")
