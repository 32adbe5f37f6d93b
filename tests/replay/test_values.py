"""Values as a person reads them: printable, on one line, cut where the interesting part stays visible."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldspan.scoring.matchers.matcher import ABSENT
from goldspan.scoring.pages import Page, cells, contrast, counted, listed, printable, score_text, shorten
from goldspan.scoring.result_words import differences, one_line

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("text", ["\x1b[31mred", "a\rb", "\x9b2J", "\u202eevil", "tab\there", "\ud800"])
def test_nothing_from_a_trace_can_steer_the_terminal(text: str) -> None:
    assert printable(text).isprintable()
    assert one_line({text: text}).isprintable()


def test_printable_text_is_left_as_it_is() -> None:
    assert printable("Chez Léa 東京") == "Chez Léa 東京"
    assert one_line({"name": "Chez Léa", "id": 42, "notes": None}) == '{"name": "Chez Léa", "id": 42, "notes": null}'


@given(st.text(), st.integers(2, 40))
def test_a_shortened_text_fits_and_starts_as_the_text_does(text: str, width: int) -> None:
    shown = shorten(text, width)
    assert cells(shown) <= width
    assert shown == text or text.startswith(shown.removesuffix("…").rstrip())


@given(st.text("ab", max_size=60), st.text("ab", max_size=60), st.integers(12, 30))
def test_a_contrast_fits_and_still_shows_that_the_texts_differ(first: str, second: str, width: int) -> None:
    shown = contrast(first, second, width)
    assert all(cells(text) <= width for text in shown)
    assert (shown[0] == shown[1]) == (first == second)


@given(VALUES, VALUES)
def test_two_values_differ_somewhere_exactly_where_they_are_not_equal(first: Any, second: Any) -> None:
    def kinds(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: kinds(inner) for key, inner in value.items()}
        return [kinds(inner) for inner in value] if isinstance(value, list) else (isinstance(value, bool), value)

    assert (differences(first, second) == ()) == (kinds(first) == kinds(second))


@pytest.mark.parametrize(
    ("expected", "actual", "places"),
    [
        ({"address": {"zip": "1", "city": "P"}}, {"address": {"zip": "2", "city": "P"}}, [("address.zip", "1", "2")]),
        ({"stops": ["a", "b"]}, {"stops": ["a", "c"]}, [("stops[1]", "b", "c")]),
        ({"stops": ["a"]}, {"stops": ["a", "c"]}, [("stops", ["a"], ["a", "c"])]),
        ({"a": 1}, {"b": 1}, [("a", 1, ABSENT), ("b", ABSENT, 1)]),
        ({"a": None}, {}, [("a", None, ABSENT)]),
        (1, True, [("", 1, True)]),
        (1, 1.0, []),
        ({"a": {"$approx": 1}}, {"a": {"b": 1}}, [("a", {"$approx": 1}, {"b": 1})]),
        ({"a": {"$approx": 1}, "b": 2}, {"a": "1", "b": 3}, [("b", 2, 3)]),
        ({"a": [{"$any_of": ["x", "y"]}, 1]}, {"a": ["y", 2]}, [("a[1]", 1, 2)]),
        ({"a": {"$absent": True}, "b": 2}, {}, [("b", 2, ABSENT)]),
        ({"a": {"$absent": True}}, {"a": None}, [("a", {"$absent": True}, None)]),
        ({"a": {"$rgx": "x"}}, {"a": "x"}, [("a", {"$rgx": "x"}, "x")]),
    ],
)
def test_the_innermost_differences_are_named(expected: Any, actual: Any, places: list[Any]) -> None:
    assert [(d.path, d.expected, d.actual) for d in differences(expected, actual)] == places


def test_differences_in_case_are_none_where_case_is_folded() -> None:
    assert differences({"city": "paris"}, {"city": "Paris"}, casefold=True) == ()
    assert differences({"city": "paris"}, {"city": "Paris"}) != ()


def test_a_value_nested_beyond_reason_is_still_shown() -> None:
    deep = json.loads("[" * 500 + "]" * 500)
    assert one_line(deep).startswith("[[[[")
    assert differences(deep, [deep])


@pytest.mark.parametrize(
    ("score", "text"), [(None, " -  "), (0, "0.00"), (1, "1.00"), (0.999, "0.99"), (0.001, "0.01"), (2 / 3, "0.67")]
)
def test_only_a_perfect_score_reads_as_one(score: float | None, text: str) -> None:
    assert score_text(score) == text


def test_names_are_listed_once_with_their_number_and_the_rest_is_counted() -> None:
    assert listed(["a", "b", "a"]) == "a x2, b"
    assert listed("abcdefgh", 6) == "a, b, c, d, e, f and 2 more"
    assert listed("abcdefg", 6) == "a, b, c, d, e, f, g"
    assert (counted(1, "golden was", "goldens were"), counted(1200, "span")) == ("1 golden was", "1,200 spans")


def test_paragraphs_break_at_spaces_and_hang_under_their_label() -> None:
    page = Page(30)
    page.paragraph("some words and a-very-long-id-that-is-longer-than-the-page end", label="label: ")
    assert str(page).splitlines() == [
        "label: some words and",
        "       a-very-long-id-that-is-longer-than-the-page",
        "       end",
    ]
