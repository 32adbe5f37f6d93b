"""Rules that reach into arguments, partial credit for nested values, and how the parts that differ are named."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldspan.scoring import CallResult, Criterion, CriterionError, Label, Session, ToolCall, Turn, explain, score_turn
from goldspan.scoring.json_values import pointer_to, steps_of, value_at

ADDRESS = {"street": "Rue X", "zip": 75001, "geo": {"lat": 48.85, "lon": 2.35}}


def call(expected: Any, actual: Any, rules: Any = None, **criterion: Any) -> CallResult:
    """One call with one argument, `x`, aligned by its name alone unless the criterion says otherwise."""
    criterion.setdefault("match_mode", "name_only")
    tools = {} if rules is None else {"tools": {"f": {"args": rules}}}
    args = {} if actual is None else {"x": actual}
    return score_turn(
        [{"name": "f", "args": {"x": expected}}], [{"name": "f", "args": args}], {**criterion, **tools}
    ).calls[0]


def score(expected: Any, actual: Any, rules: Any = None, **criterion: Any) -> Fraction | None:
    return call(expected, actual, rules, **criterion).verdict.exact


def address(**changed: Any) -> dict[str, Any]:
    return {**ADDRESS, **changed}


class TestRulesForParts:
    def test_a_part_has_a_strategy_and_tolerances_of_its_own(self) -> None:
        rules = {"/x/zip": {"strategy": "numeric", "tolerance": 1}}
        assert score(ADDRESS, address(zip="75002"), rules) == 1
        assert score(ADDRESS, address(zip=75003), rules) == 0
        assert score(ADDRESS, address(zip=75002, street="rue x"), rules) == 0
        relative = {"/x/geo/lat": {"strategy": "numeric", "relativeTolerance": 0.1}}
        assert score(ADDRESS, address(geo={"lat": 50, "lon": 2.35}), relative) == 1
        assert score(ADDRESS, address(geo={"lat": 50, "lon": 2.4}), relative) == 0

    def test_the_more_specific_rule_wins(self) -> None:
        rules = {
            "x": "casefold_exact",
            "/x/geo": {"strategy": "contains"},
            "/x/geo/lat": {"strategy": "numeric", "tolerance": 1},
        }
        assert score(ADDRESS, address(street="RUE X"), rules) == 1
        assert score(ADDRESS, address(geo={"lat": "49", "lon": 2.35, "alt": 3}), rules) == 1
        assert score(ADDRESS, address(geo={"lat": "50", "lon": 2.35}), rules) == 0
        assert score(ADDRESS, address(extra=1), rules) == 0

    def test_a_part_inherits_from_the_nearest_rule_around_it(self) -> None:
        rules = {"/x/geo": {"strategy": "numeric", "tolerance": 5}, "/x/geo/lat": {"tolerance": 1}, "/x/geo/lon": {}}
        assert score(ADDRESS, address(geo={"lat": 49.8, "lon": 7}), rules) == 1
        assert score(ADDRESS, address(geo={"lat": 49.9, "lon": 7}), rules) == 0
        assert score({"a": 1}, {"a": 1.5}, {"/x/a": "numeric"}, numeric_tolerance=0.5) == 1
        assert (
            score({"a": {"b": 1}}, {"a": {"b": 2}}, {"x": {"strategy": "numeric", "tolerance": 1}, "/x/a/b": {}}) == 1
        )
        assert score({"a": {"b": 1}}, {"a": {"b": 2}}, {"x": {"strategy": "numeric", "tolerance": 1}}) == 0

    def test_elements_of_lists_have_their_index(self) -> None:
        rules = {"/x/1": "casefold_exact", "/x/0/a": "numeric"}
        assert score([{"a": 1}, "B", "C"], [{"a": "1"}, "b", "C"], rules) == 1
        assert score([{"a": 1}, "B", "C"], [{"a": "1"}, "b", "c"], rules) == 0
        assert score([{"a": 1}, "B"], [{"a": "1"}, "b", "C"], rules) == 0

    def test_a_pointer_with_one_step_is_the_argument(self) -> None:
        assert score("A", "a", {"/x": "casefold_exact"}) == 1
        escaped = {"tools": {"f": {"args": {"/a~1b/m~0n": "casefold_exact"}}}}
        turn = score_turn(
            [{"name": "f", "args": {"a/b": {"m~n": "A"}}}], [{"name": "f", "args": {"a/b": {"m~n": "a"}}}], escaped
        )
        assert turn.verdict.score == 1

    def test_a_rule_for_a_part_that_is_not_expected_means_nothing(self) -> None:
        rules = {"/x/nowhere": {"strategy": "numeric", "required": True, "weight": 5}, "/x/street/deep": "numeric"}
        assert score(ADDRESS, ADDRESS, rules) == 1
        assert score(ADDRESS, address(zip=1), rules) == 0

    def test_similarity_of_a_part_counts_itself(self) -> None:
        pytest.importorskip("rapidfuzz", reason="the extra `similarity` is not installed")
        assert score({"a": "abc", "b": 1}, {"a": "abd", "b": 1}, {"/x/a": "similarity"}) == Fraction(2, 3)
        assert score({"a": "abc", "b": 1}, {"a": "abd", "b": 2}, {"/x/a": "similarity"}) == 0

    def test_parts_without_their_own_rule_are_not_compared_by_similarity(self) -> None:
        pytest.importorskip("rapidfuzz", reason="the extra `similarity` is not installed")
        nearly = {"a": "abc", "b": 1}, {"a": "abd", "b": 1}
        assert score(*nearly, {"x": "similarity", "/x/b": {"weight": 1}}) == Fraction(1, 2)
        assert score(*nearly, {"x": "similarity"}, argument_score="mean") == Fraction(1, 2)
        assert score("abc", "abd", {"x": "similarity"}) == Fraction(2, 3)

    def test_a_part_with_a_weight_counts_beside_the_rest(self) -> None:
        rules = {"/x/zip": {"weight": 2}}
        assert score(ADDRESS, ADDRESS, rules) == 1
        assert score(ADDRESS, address(zip=1), rules) == Fraction(1, 3)
        assert score(ADDRESS, address(street=1), rules) == Fraction(2, 3)
        assert score(ADDRESS, address(street=1, geo={}), rules) == Fraction(2, 3)
        assert score(ADDRESS, address(extra=1), rules) == Fraction(2, 3)
        assert score(ADDRESS, "text", rules) == score(ADDRESS, None, rules) == 0
        both = {"/x/lat": {"weight": 1}, "/x/lon": {"weight": 3}}
        assert score({"lat": 1, "lon": 2}, {"lat": 1, "lon": 9}, both) == Fraction(1, 4)
        assert score({"lat": 1, "lon": 2}, {"lat": 1, "lon": 2, "alt": 3}, both) == Fraction(4, 5)

    def test_weights_of_arguments_and_of_parts_are_apart(self) -> None:
        rules = {"x": {"weight": 3}, "/x/a": {"weight": 1}}
        expected = [{"name": "f", "args": {"x": {"a": 1, "b": 2}, "y": 1}}]
        turn = score_turn(
            expected, [{"name": "f", "args": {"x": {"a": 1, "b": 9}, "y": 1}}], {"tools": {"f": {"args": rules}}}
        )
        assert turn.verdict.exact == Fraction(3 * Fraction(1, 2) + 1) / 4

    @pytest.mark.parametrize(
        ("actual", "aligned"),
        [({"a": {"b": 9}}, True), ({"a": {}}, False), ({"a": 1}, False), ({}, False), (None, False), ("x", False)],
    )
    def test_a_required_part_keeps_calls_without_it_from_being_aligned(self, actual: Any, aligned: bool) -> None:
        rules = {"x": {"required": False}, "/x/a/b": {"required": True}}
        found = call({"a": {"b": 1}}, actual, rules, match_mode="name_and_required_args")
        assert found.aligned == aligned

    def test_parts_are_not_required_unless_a_rule_says_so(self) -> None:
        rules = {"/x/a": {"strategy": "numeric"}}
        assert call({"a": 1}, {}, rules, match_mode="name_and_required_args").aligned

    def test_a_part_that_may_be_absent_is_never_required(self) -> None:
        rules = {"/x/a": {"required": True}}
        for expected in ({"$absent": True}, {"$ignore": True}, {"$any_of": [1, {"$absent": True}]}):
            assert call({"a": expected}, {}, rules, match_mode="name_and_required_args").aligned
        assert not call({"a": {"$present": True}}, {}, rules, match_mode="name_and_required_args").aligned

    def test_rules_hold_inside_alternatives(self) -> None:
        rules = {"/x/n": {"strategy": "numeric", "tolerance": 1}}
        expected = {"$any_of": [{"n": 1}, {"n": 10}]}
        assert [score(expected, {"n": number}, rules) for number in (2, 11, 5)] == [1, 1, 0]

    @pytest.mark.parametrize(
        ("rules", "said"),
        [
            ({"/x/~": "exact"}, 'found "/x/~", expected a JSON Pointer'),
            ({"/x/y": {"tolerance": 1}}, "tools.f.args./x/y.tolerance: the strategy is `exact`"),
            ({"/x/y": {"weight": -1}}, "expected 0 or more"),
            ({"/x": {}, "x": {}}, '"/x" and "x" are one argument'),
        ],
    )
    def test_wrong_rules_are_refused(self, rules: Any, said: str) -> None:
        with pytest.raises(CriterionError) as caught:
            Criterion.parse({"tools": {"f": {"args": rules}}})
        assert said in str(caught.value)

    def test_a_tolerance_is_right_where_a_rule_around_is_numeric(self) -> None:
        Criterion.parse({"tools": {"f": {"args": {"/x/y": {"tolerance": 1}, "x": "numeric"}}}})
        Criterion.parse({"default_strategy": "numeric", "tools": {"f": {"args": {"/x/y": {"tolerance": 1}}}}})


class TestPartialCredit:
    @pytest.mark.parametrize(
        ("expected", "actual", "share"),
        [
            ({"a": 1, "b": 2}, {"a": 1, "b": 3}, Fraction(1, 2)),
            ({"a": 1, "b": {"c": 2, "d": [3, 4]}}, {"a": 1, "b": {"c": 2, "d": [3, 5]}}, Fraction(3, 4)),
            ({"a": 1, "b": 2}, {"a": 1}, Fraction(1, 2)),
            ({"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}, Fraction(2, 3)),
            ([1, 2, 3], [1, 2], Fraction(2, 3)),
            ([1, 2], [1, 2, 3], Fraction(2, 3)),
            ([1, 2], [2, 1], Fraction(0)),
            ([[1, 2], [3]], [[1, 2], 3], Fraction(2, 3)),
            ({"a": {}}, {"a": {}}, Fraction(1)),
            ({}, {"a": 1}, Fraction(0)),
            ({"a": 1}, None, Fraction(0)),
            ({"a": 1}, [1], Fraction(0)),
            ("a", "b", Fraction(0)),
            ({"a": {"$regex": "x+"}, "b": 1}, {"a": "y", "b": 1}, Fraction(1, 2)),
            ({"a": {"$ignore": True}, "b": 1, "c": 2}, {"b": 1, "c": 3}, Fraction(1, 2)),
            ({"$unordered": [1, 2, 3]}, [3, 1], Fraction(2, 3)),
            ({"$unordered": [1, 2]}, [2, 1, 4], Fraction(2, 3)),
            ({"$any_of": [{"a": 1, "b": 2}, {"a": 5, "b": 6}]}, {"a": 5, "b": 2}, Fraction(1, 2)),
            ({"$casefold": {"a": "X", "b": "Y"}}, {"a": "x", "b": "z"}, Fraction(1, 2)),
        ],
    )
    def test_a_value_scores_the_share_of_its_leaves(self, expected: Any, actual: Any, share: Fraction) -> None:
        assert score(expected, actual, argument_score="mean") == share
        assert score(expected, actual) == (1 if share == 1 else 0)

    def test_contains_asks_for_the_share_that_is_contained(self) -> None:
        mean = {"argument_score": "mean", "default_strategy": "contains"}
        assert score({"a": "x", "b": [1, 2]}, {"a": "xyz", "b": [2, 3], "c": 1}, **mean) == Fraction(2, 3)
        assert score([1, 1, 2], [1, 2, 3], **mean) == Fraction(2, 3)

    def test_weights_of_parts_count_among_leaves(self) -> None:
        rules = {"/x/geo": {"weight": 2}}
        mean = {"argument_score": "mean"}
        assert score(ADDRESS, address(geo={"lat": 48.85, "lon": 0}), rules, **mean) == Fraction(3, 4)
        assert (
            score(ADDRESS, address(geo={"lat": 48.85, "lon": 2.35, "alt": 1}), rules, **mean)
            == Fraction(2 + Fraction(4, 3)) / 4
        )

    def test_a_partial_match_is_a_mismatch_that_counts(self) -> None:
        found = call({"a": 1, "b": 2}, {"a": 1, "b": 3}, argument_score="mean")
        assert (found.arguments[0].outcome, found.arguments[0].score) == ("mismatched", 0.5)
        assert (found.verdict.label, found.verdict.score) == (Label.FAIL, 0.5)

    def test_alignment_prefers_what_is_more_alike(self) -> None:
        expected = [{"name": "f", "args": {"x": {"a": 1, "b": 2}}}]
        actual = [{"name": "f", "args": {"x": {"a": 9, "b": 9}}}, {"name": "f", "args": {"x": {"a": 1, "b": 9}}}]
        assert score_turn(expected, actual, {"argument_score": "mean"}).calls[0].actual_index == 1


scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.sampled_from(["a", "A", "b", "1"])
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
)
STRATEGIES = st.sampled_from(["exact", "casefold_exact", "numeric", "contains"])


@given(values, values, STRATEGIES)
def test_partial_credit_changes_only_what_a_wrong_value_is_worth(expected: Any, actual: Any, strategy: str) -> None:
    whole = score(expected, actual, default_strategy=strategy)
    by_leaf = score(expected, actual, default_strategy=strategy, argument_score="mean")
    assert whole is not None
    assert by_leaf is not None
    assert (whole == 1) == (by_leaf == 1)
    assert 0 <= by_leaf <= 1


@given(values, values, STRATEGIES)
def test_rules_that_say_what_holds_anyway_change_nothing(expected: Any, actual: Any, strategy: str) -> None:
    """Judging part by part, for some rule, agrees with comparing as a whole."""
    rules = {"/x/a/b": {"required": False}, "/x/0": {"required": False}}
    of_parts = {
        path: {**rule, "strategy": "exact" if strategy == "numeric" else strategy} for path, rule in rules.items()
    }
    if strategy == "contains" and isinstance(expected, list):
        return  # elements are looked for as equals, a rule's own strategy is for one place
    assert score(expected, actual, of_parts, default_strategy=strategy) == score(
        expected, actual, default_strategy=strategy
    )


def leaves(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict) and value:
        return [place for key, item in value.items() for place in leaves(item, (*way, key))]
    if isinstance(value, list) and value:
        return [place for index, item in enumerate(value) for place in leaves(item, (*way, index))]
    return [way]


def replaced(value: Any, way: tuple[Any, ...], new: Any) -> Any:
    if not way:
        return new
    if isinstance(value, dict):
        return {key: replaced(item, way[1:], new) if key == way[0] else item for key, item in value.items()}
    return [replaced(item, way[1:], new) if index == way[0] else item for index, item in enumerate(value)]


nested = st.dictionaries(st.sampled_from("abc"), values, min_size=1, max_size=3)


@given(nested, st.data())
def test_a_better_part_never_lowers_a_score(expected: Any, data: st.DataObject) -> None:
    """From the expected value, wrong leaf by wrong leaf: each makes the score less, or leaves it."""
    rules = {"/x/a": {"weight": 2}, "/x/b/0": {"strategy": "casefold_exact", "weight": 0.5}}
    criterion = {"argument_score": data.draw(st.sampled_from(["all", "mean"]))}
    actual, last = expected, score(expected, expected, rules, **criterion)
    assert last is not None
    for place in data.draw(st.permutations(leaves(expected)))[:4]:
        actual = replaced(actual, place, "wrong")
        now = score(expected, actual, rules, **criterion)
        assert now is not None
        assert now <= last
        last = now


@given(st.dictionaries(st.sampled_from("abc"), values, max_size=3), values)
def test_an_absent_argument_more_never_raises_a_score(args: dict[str, Any], value: Any) -> None:
    """Something else that is expected and was not passed: whatever it is, the call is worth no more."""
    actual = [{"name": "f", "args": dict(list(args.items())[:2])}]
    for more in (value, {"$any_of": [{"$literal": value}]}, {"$present": True}, {"$type": "null"}):
        before = score_turn([{"name": "f", "args": args}], actual, {"match_mode": "name_only"}).verdict.exact
        after = score_turn(
            [{"name": "f", "args": {**args, "z": more}}], actual, {"match_mode": "name_only"}
        ).verdict.exact
        assert before is not None
        assert after is not None
        assert after <= before


class TestNames:
    def test_parts_that_differ_are_named(self) -> None:
        found = call(ADDRESS, address(zip=1, geo={"lat": 48.85}))
        assert found.arguments[0].differing == ("/zip", "/geo/lon")
        assert "mismatched: x (/zip, /geo/lon)" in explain(found)
        text = explain(found, include_values=True)
        assert "x (zip: expected 75001, found 1; geo.lon: expected 2.35, found nothing)" in text

    def test_what_only_the_actual_value_has_is_not_named(self) -> None:
        found = call(ADDRESS, address(secret="s3cr3t"))
        assert found.arguments[0].differing == ()
        assert "secret" not in explain(found)
        assert "secret" in explain(found, include_values=True)

    def test_a_few_are_named_and_the_rest_counted(self) -> None:
        found = call({str(number): number for number in range(20)}, {})
        assert len(found.arguments[0].differing) == 10
        assert "x (/0, /1, /2, and 7 more)" in explain(found)

    def test_a_near_miss_names_them_too(self) -> None:
        expected = [{"name": "f", "args": {"x": {"a": 1, "b": 2}, "y": 1}}]
        turn = score_turn(expected, [{"name": "f", "args": {"x": {"a": 1, "b": 3}}}])
        assert turn.calls[0].missing
        assert explain(turn.calls[0]) == "f.x (wrong at /b); f.y (not passed); 0 of 2 arguments match"

    def test_values_without_parts_are_named_as_before(self) -> None:
        assert explain(call("a", "b"), include_values=True).endswith('mismatched: x (expected "a", found "b")')
        assert explain(call({"a": 1}, "b"), include_values=True).endswith("x (a: expected 1, found nothing)")

    @pytest.mark.parametrize("expected", [{"$contains": [1, 2]}, {"$unordered": [{"a": 1}]}, {"$casefold": {"a": "b"}}])
    def test_parts_of_a_matcher_do_not_stop_an_explanation(self, expected: Any) -> None:
        assert "found 5" in explain(call(expected, 5), include_values=True)


def test_the_same_session_is_scored_the_same_whatever_was_scored_before() -> None:
    rules = {"tools": {"f": {"args": {"/x/zip": {"strategy": "numeric", "tolerance": 1, "weight": 2}}}}}
    criterion = Criterion.parse(rules)
    session = Session("s", (Turn((ToolCall("f", {"x": address(zip=75002)}),)),))
    results = [score_turn([{"name": "f", "args": {"x": ADDRESS}}], session.turns[0], criterion) for _ in range(3)]
    assert len(set(map(repr, results))) == 1


@given(st.lists(st.text(max_size=4), max_size=4))
def test_a_pointer_leads_where_it_was_made_for(steps: list[str]) -> None:
    assert list(steps_of(pointer_to(steps))) == steps
    value: Any = "here"
    for step in reversed(steps):
        value = {step: value}
    assert value_at(value, steps) == "here"


@pytest.mark.parametrize(
    ("value", "pointer"), [([1], "/1"), ([1], "/-1"), ([1], "/01"), ([1], "/a"), ({}, "/a"), (1, "/0")]
)
def test_where_nothing_stands_there_is_nothing(value: Any, pointer: str) -> None:
    with pytest.raises(LookupError):
        value_at(value, steps_of(pointer))
