"""One turn: what each rule of the criterion does to calls, the mean and the label."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldspan.scoring import (
    ArgumentOutcome,
    Capture,
    Criterion,
    ExpectedCall,
    Label,
    Reason,
    ScoringResult,
    SessionResult,
    ToolCall,
    Turn,
    TurnResult,
    explain,
    score_turn,
)

OF_ADK_ISSUE_5643 = {
    "matchMode": "name_and_required_args",
    "defaultStrategy": "exact",
    "perArgStrategies": {"temperature": "numeric"},
    "numericTolerance": 0.5,
    "ordered": True,
    "threshold": 0.8,
}


def call(name: str, /, **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args}


def verdict(result: TurnResult) -> tuple[Fraction | None, Label, Reason | None]:
    return result.verdict.exact, result.verdict.label, result.verdict.reason


WEATHER = call("get_weather", city="Paris", unit="celsius", days=3)
HALF, THIRD, TWO_THIRDS = Fraction(1, 2), Fraction(1, 3), Fraction(2, 3)


@pytest.mark.parametrize(
    ("expected", "actual", "criterion", "score"),
    [
        pytest.param([WEATHER], [WEATHER], {}, 1, id="equal"),
        pytest.param([WEATHER], [call("get_weather", city="Paris", unit="F", days=3)], {}, TWO_THIRDS, id="one wrong"),
        pytest.param([WEATHER], [], {}, 0, id="no call"),
        pytest.param([WEATHER], [call("Get_Weather", city="Paris", unit="celsius", days=3)], {}, 0, id="other name"),
        pytest.param([call("f")], [call("f", x=1)], {}, 1, id="no argument expected"),
        pytest.param([call("f", x=1)], [call("f", x=1, y=2)], {}, 1, id="extra argument is free"),
        pytest.param([call("f")], [call("g"), call("f"), call("f")], {}, 1, id="extra calls are free"),
        pytest.param([call("f", x=None)], [call("f", x=None)], {}, 1, id="null is null"),
        pytest.param(
            [call("f", x=None, y=1)], [call("f", y=1)], {"match_mode": "name_only"}, HALF, id="null is not absent"
        ),
        pytest.param([call("f", x=True)], [call("f", x=1)], {}, 0, id="true is not 1"),
        pytest.param([call("f", x=1)], [call("f", x=1.0)], {}, 1, id="1 is 1.0"),
        # Which calls may be aligned.
        pytest.param([call("f", x=1, y=2)], [call("f", x=1)], {}, 0, id="required argument absent"),
        pytest.param([call("f", x=1, y=2)], [call("f", x=1)], {"match_mode": "name_only"}, HALF, id="name is enough"),
        pytest.param([call("f", x=1)], [call("f", x=2)], {"match_mode": "name_and_args"}, 0, id="all must match"),
        pytest.param([call("f", x=1)], [call("f", x=1, y=2)], {"match_mode": "name_and_args"}, 0, id="same keys"),
        pytest.param([call("f", x=1)], [call("f", x=1)], {"match_mode": "name_and_args"}, 1, id="same call"),
        pytest.param(
            [call("f", x="a")],
            [call("f", x="A")],
            {"match_mode": "name_and_args", "default_strategy": "casefold_exact"},
            1,
            id="strategies decide what may be aligned",
        ),
        pytest.param(
            [call("f", x=1, y=2)],
            [call("f", x=1)],
            {"tools": {"f": {"args": {"y": {"required": False}}}}},
            HALF,
            id="argument that is not required",
        ),
        # Order.
        pytest.param(
            [call("f", x=1, y=1), call("f", x=1, y=2)],
            [call("f", x=1, y=2), call("f", x=1, y=9)],
            {},
            HALF,
            id="trap, ordered",
        ),
        pytest.param(
            [call("f", x=1, y=1), call("f", x=1, y=2)],
            [call("f", x=1, y=2), call("f", x=1, y=9)],
            {"ordered": False},
            Fraction(3, 4),
            id="trap, any order",
        ),
        pytest.param(
            [call("f1"), call("f2"), call("f3")], [call("f2"), call("f3"), call("f9")], {}, TWO_THIRDS, id="score first"
        ),
        pytest.param(
            [call("a"), call("b"), call("c")], [call("b"), call("c"), call("a")], {}, TWO_THIRDS, id="rotated"
        ),
        pytest.param(
            [call("a"), call("b"), call("c")],
            [call("b"), call("c"), call("a")],
            {"ordered": False},
            1,
            id="rotated, any order",
        ),
        pytest.param([call("f", x=1)], [call("f", x=2), call("f", x=1)], {}, 1, id="retry, then right"),
        # Aggregation.
        pytest.param([call("f", x=1, y=2)], [call("f", x=1, y=3)], {"call_score": "all"}, 0, id="all arguments"),
        pytest.param([call("f"), call("g")], [call("f")], {"turn_score": "all"}, 0, id="all calls"),
        pytest.param([call("f"), call("g")], [call("f"), call("g")], {"turn_score": "all"}, 1, id="really all calls"),
        pytest.param(
            [call("f", x=1)], [call("f", x=1, y=2)], {"extra_arguments": "penalize"}, HALF, id="extra argument"
        ),
        pytest.param([call("f")], [call("f", y=2)], {"extra_arguments": "penalize"}, 0, id="only extra arguments"),
        pytest.param([call("f")], [call("f")], {"extra_arguments": "penalize"}, 1, id="no extra argument"),
        pytest.param([call("f")], [call("f"), call("g")], {"extra_calls": "penalize"}, HALF, id="extra call"),
        pytest.param(
            [call("f")],
            [call("f"), call("g")],
            {"extra_calls": "penalize", "turn_score": "all"},
            0,
            id="extra call, all",
        ),
        pytest.param(
            [call("f", x=1, y=2)],
            [call("f", x=1, y=3)],
            {"tools": {"f": {"args": {"x": {"weight": 3}}}}},
            Fraction(3, 4),
            id="weight",
        ),
        pytest.param(
            [call("f", x=1, y=2)],
            [call("f", x=1, y=3)],
            {"tools": {"f": {"args": {"x": {"weight": 0.1}, "y": {"weight": 0.2}}}}},
            THIRD,
            id="weights as written",
        ),
    ],
)
def test_a_turn_scores(
    expected: Sequence[Any], actual: Sequence[Any], criterion: Mapping[str, Any], score: Fraction
) -> None:
    assert score_turn(expected, actual, criterion).verdict.exact == score


@pytest.mark.parametrize(
    ("temperature", "score"), [(20.5, 1), (19.5, 1), ("20.5", 1), (20.6, HALF), (None, HALF), (True, HALF)]
)
def test_adks_own_example(temperature: Any, score: Fraction) -> None:
    expected = [call("set_thermostat", room="office", temperature=20)]
    result = score_turn(expected, [call("set_thermostat", room="office", temperature=temperature)], OF_ADK_ISSUE_5643)
    assert result.verdict.exact == score
    assert result.verdict.label == (Label.PASS if score == 1 else Label.FAIL)


def test_four_of_five_pass_a_threshold_of_four_fifths() -> None:
    calls = [call(f"f{number}") for number in range(5)]
    assert verdict(score_turn(calls, calls[:4])) == (Fraction(4, 5), Label.FAIL, None)
    assert verdict(score_turn(calls, calls[:4], {"threshold": 0.8})) == (Fraction(4, 5), Label.PASS, None)
    assert verdict(score_turn(calls, calls[:4], {"threshold": 0.8000001})) == (Fraction(4, 5), Label.FAIL, None)


def test_a_call_passes_only_when_everything_is_right() -> None:
    arguments = {f"a{number}": 0 for number in range(100)}
    result = score_turn([call("f", **arguments)], [call("f", **arguments | {"a0": 1})], {"threshold": 0.99})
    assert result.verdict.label is Label.PASS
    assert result.calls[0].verdict.exact == Fraction(99, 100)
    assert result.calls[0].verdict.label is Label.FAIL


def test_nothing_expected_is_not_evaluated_and_extras_are_still_named() -> None:
    result = score_turn([], [call("f")], {"extra_calls": "penalize"})
    assert verdict(result) == (None, Label.NOT_EVALUATED, Reason.NOTHING_EXPECTED)
    assert [extra.actual.name for extra in result.unexpected_calls if extra.actual] == ["f"]
    assert result.calls_expected == 0


def test_what_became_of_each_argument_is_told() -> None:
    expected = [call("f", right=1, wrong=2, absent=3)]
    result = score_turn(expected, [call("f", right=1, wrong=0, extra=4)], {"match_mode": "name_only"})
    (found,) = result.calls
    assert [(one.name, one.outcome, one.expected_value, one.actual_value) for one in found.arguments] == [
        ("right", ArgumentOutcome.MATCHED, 1, 1),
        ("wrong", ArgumentOutcome.MISMATCHED, 2, 0),
        ("absent", ArgumentOutcome.MISSING, 3, None),
    ]
    assert found.extra_arguments == ("extra",)
    assert found.aligned
    assert explain(found) == "1 of 3 arguments match; mismatched: wrong; missing: absent; extra: extra"
    assert "wrong (expected 2, found 0)" in explain(found, include_values=True)


@pytest.mark.parametrize(
    ("made", "score", "says"), [(3, 1, "1 of 1 arguments match; extra: w"), (4, 0, "0 of 1 argum")]
)
def test_ignored_arguments_count_neither_in_the_score_nor_in_words(made: int, score: int, says: str) -> None:
    expected = [call("f", x={"$ignore": True}, y={"$ignore": True}, z=3)]
    (found,) = score_turn(expected, [call("f", x=1, z=made, w=5)]).calls
    assert found.verdict.score == score
    assert explain(found).startswith(says)
    (found,) = score_turn([call("f", x={"$ignore": True})], [call("f", x=1)]).calls
    assert explain(found) == "no arguments are expected"


class TestNearMisses:
    def test_degrees_of_likeness_tell_which_call_is_nearest(self) -> None:
        expected = [call("f", text="hello world", y=2)]
        actual = [call("f", text="abc"), call("f", text="hello words")]
        (found,) = score_turn(expected, actual, {"default_strategy": "similarity"}).calls
        assert (found.missing, found.actual_index) == (True, 1)
        expected = [call("f", text="hello world", x=1, y=2)]
        actual = [call("f", text="hxx", x=9), call("f", text="", x=1)]
        (found,) = score_turn(expected, actual, {"default_strategy": "similarity"}).calls
        assert (found.missing, found.actual_index) == (True, 1)

    def test_a_missing_call_names_what_the_nearest_call_got_wrong(self) -> None:
        actual = [call("f", x=9), call("f", x=1), call("g", x=1, y=2)]
        (found,) = score_turn([call("f", x=1, y=2)], actual).calls
        assert found.missing
        assert found.verdict.exact == 0
        assert found.actual_index == 1
        assert found.arguments_with(ArgumentOutcome.MATCHED) == ("x",)
        assert found.arguments_with(ArgumentOutcome.MISSING) == ("y",)
        assert explain(found) == "f.y (not passed); 1 of 2 arguments match"

    def test_a_call_is_the_near_miss_of_one_expected_call_and_still_unexpected(self) -> None:
        result = score_turn([call("f", x=1), call("f", x=2)], [call("f")])
        assert [found.actual_index for found in result.calls] == [0, None]
        assert [extra.actual_index for extra in result.unexpected_calls] == [0]
        assert (result.calls_missing, result.calls_aligned) == (2, 0)

    def test_a_call_out_of_order_is_the_near_miss(self) -> None:
        result = score_turn([call("a"), call("b")], [call("b"), call("a")])
        missing = [found for found in result.calls if found.missing]
        assert [explain(found) for found in missing] == ["b (called, but out of order)"]


class TestOrder:
    SWAPPED = (ToolCall("b", batch=1), ToolCall("a", batch=1))
    EXPECTED = (ExpectedCall("a"), ExpectedCall("b"))

    def test_order_is_free_among_calls_that_were_asked_for_at_once(self) -> None:
        assert score_turn(self.EXPECTED, self.SWAPPED).verdict.exact == 1
        assert score_turn(self.EXPECTED, self.SWAPPED, {"parallel_calls": "in_order"}).verdict.exact == HALF

    def test_batches_keep_their_order(self) -> None:
        apart = (ToolCall("b", batch=1), ToolCall("a", batch=2))
        assert score_turn(self.EXPECTED, apart).verdict.exact == HALF

    def test_calls_in_no_batch_keep_their_order(self) -> None:
        assert score_turn(self.EXPECTED, [ToolCall("b"), ToolCall("a")]).verdict.exact == HALF
        assert score_turn(self.EXPECTED, [{"name": "b", "batch": 3}, {"name": "a", "batch": 3}]).verdict.exact == 1


class TestFailedAndRejected:
    def test_a_failed_call_is_a_call_unless_the_criterion_ignores_it(self) -> None:
        failed = ToolCall("f", {"x": 1}, error="timeout")
        counted = score_turn([call("f", x=1)], [failed])
        assert counted.verdict.exact == 1
        assert "the call failed" in explain(counted.calls[0])
        ignored = score_turn([call("f", x=1)], [failed], {"failed_calls": "ignore"})
        assert ignored.verdict.exact == 0
        assert ignored.calls[0].actual is failed
        assert "f (not called; the nearest call failed)" in explain(ignored.calls[0])

    def test_of_equal_calls_the_one_that_worked_is_the_partner(self) -> None:
        calls = [ToolCall("f", {"x": 1}, error="timeout"), ToolCall("f", {"x": 1})]
        assert score_turn([call("f", x=1)], calls).calls[0].actual_index == 1

    def test_a_rejected_request_is_reported_and_stands_for_a_call_only_if_told_to(self) -> None:
        rejected = ToolCall("f", {"x": 1}, requested=True, rejected=True)
        reported = score_turn([call("f", x=1)], [rejected])
        assert reported.verdict.exact == 0
        assert reported.rejected == (rejected,)
        assert reported.unexpected_calls == ()
        assert "the nearest call was requested, but not executed" in explain(reported.calls[0])
        counted = score_turn([call("f", x=1)], [rejected], {"rejected_requests": "count"})
        assert counted.verdict.exact == 1

    def test_a_request_whose_tool_never_ran_in_the_turn_is_a_call(self) -> None:
        assert score_turn([call("f", x=1)], [ToolCall("f", {"x": 1}, requested=True)]).verdict.exact == 1

    def test_a_rejected_request_is_no_extra_call(self) -> None:
        rejected = ToolCall("f", requested=True, rejected=True)
        assert score_turn([call("f")], [ToolCall("f"), rejected], {"extra_calls": "penalize"}).verdict.exact == 1


def unknown(capture: Capture) -> ToolCall:
    return ToolCall("f", None, capture)


class TestUnknown:
    @pytest.mark.parametrize(
        ("capture", "reason"),
        [
            (Capture.NOT_CAPTURED, Reason.ARGUMENTS_NOT_CAPTURED),
            (Capture.REDACTED, Reason.ARGUMENTS_REDACTED),
            (Capture.TRUNCATED, Reason.ARGUMENTS_TRUNCATED),
            (Capture.UNPARSABLE, Reason.ARGUMENTS_UNPARSABLE),
        ],
    )
    def test_unknown_arguments_are_not_wrong(self, capture: Capture, reason: Reason) -> None:
        result = score_turn([call("f", x=1)], [unknown(capture)])
        assert verdict(result) == (None, Label.NOT_EVALUATED, reason)
        assert result.calls[0].aligned
        assert result.calls[0].arguments_with(ArgumentOutcome.UNKNOWN) == ("x",)
        assert (result.calls_expected, result.calls_evaluated, result.calls_aligned) == (1, 0, 1)

    def test_a_call_of_which_no_argument_is_expected_needs_none(self) -> None:
        assert score_turn([call("f")], [unknown(Capture.NOT_CAPTURED)]).verdict.exact == 1
        strict = score_turn([call("f")], [unknown(Capture.NOT_CAPTURED)], {"extra_arguments": "penalize"})
        assert strict.verdict.reason is Reason.ARGUMENTS_NOT_CAPTURED

    def test_captured_arguments_that_are_no_mapping_cannot_be_read(self) -> None:
        strange = ToolCall("f", ["x"])  # type: ignore[arg-type]
        assert score_turn([call("f", x=1)], [strange]).verdict.reason is Reason.ARGUMENTS_UNPARSABLE

    def test_one_call_in_ten_with_captured_arguments_is_not_a_pass(self) -> None:
        result = score_turn([call("f", x=1)] * 10, [ToolCall("f", {"x": 1}), *[unknown(Capture.NOT_CAPTURED)] * 9])
        assert verdict(result) == (Fraction(1), Label.NOT_EVALUATED, Reason.ARGUMENTS_NOT_CAPTURED)
        assert (result.calls_expected, result.calls_evaluated) == (10, 1)

    def test_a_verdict_is_given_where_the_unknown_cannot_change_it(self) -> None:
        right, lost = ToolCall("f", {"x": 1}), unknown(Capture.NOT_CAPTURED)
        passes = score_turn([call("f", x=1)] * 5, [right] * 4 + [lost], {"threshold": 0.8})
        assert verdict(passes) == (Fraction(1), Label.PASS, None)
        fails = score_turn([call("f", x=1)] * 5, [ToolCall("f", {"x": 2})] * 2 + [lost] * 3)
        assert verdict(fails) == (Fraction(0), Label.FAIL, None)

    def test_the_reason_is_that_of_a_call_whose_tool_is_expected(self) -> None:
        other, lost = ToolCall("g", None, Capture.NOT_CAPTURED), unknown(Capture.REDACTED)
        result = score_turn([call("f", x=1)], [ToolCall("f", {"x": 9}), other, lost])
        assert verdict(result) == (Fraction(0), Label.NOT_EVALUATED, Reason.ARGUMENTS_REDACTED)

    def test_a_redacted_argument_is_not_a_zero(self) -> None:
        hidden = ToolCall("f", {"x": 1, "key": "[REDACTED]"}, argument_captures={"key": Capture.REDACTED})
        result = score_turn([call("f", x=1, key="secret")], [hidden])
        assert verdict(result) == (None, Label.NOT_EVALUATED, Reason.ARGUMENTS_REDACTED)
        assert [one.outcome for one in result.calls[0].arguments] == [ArgumentOutcome.MATCHED, ArgumentOutcome.UNKNOWN]
        assert result.calls[0].arguments[1].exact is None

    def test_a_known_mistake_beside_a_redacted_argument_still_fails_the_turn(self) -> None:
        hidden = ToolCall("f", {"x": 2, "key": "***"}, argument_captures={"key": Capture.REDACTED})
        result = score_turn([call("f", x=1, key="secret")], [hidden])
        assert result.calls[0].verdict.label is Label.NOT_EVALUATED
        assert verdict(result) == (None, Label.FAIL, None)

    def test_a_hidden_argument_that_is_not_expected_does_not_matter(self) -> None:
        hidden = ToolCall("f", {"x": 1, "key": "***"}, argument_captures={"key": Capture.REDACTED})
        assert score_turn([call("f", x=1)], [hidden]).verdict.exact == 1

    def test_known_calls_are_aligned_before_unknown_ones(self) -> None:
        calls = [unknown(Capture.NOT_CAPTURED), ToolCall("f", {"x": 1})]
        assert score_turn([call("f", x=1)], calls, {"ordered": False}).calls[0].actual_index == 1

    def test_a_call_that_is_known_comes_before_one_that_is_known_in_part(self) -> None:
        hidden = ToolCall("f", {"x": 1, "y": "***"}, argument_captures={"y": Capture.REDACTED})
        result = score_turn([call("f", x=1, y=2)], [hidden, ToolCall("f", {"x": 1, "y": 9})])
        assert (result.calls[0].actual_index, result.verdict.exact) == (1, HALF)

    def test_no_calls_must_not_be_concluded_where_calls_are_not_visible(self) -> None:
        result = score_turn([call("f"), call("g")], Turn((ToolCall("f"),), calls_visible=False))
        assert verdict(result) == (Fraction(1), Label.NOT_EVALUATED, Reason.CALLS_NOT_VISIBLE)
        assert result.calls[1].verdict.reason is Reason.CALLS_NOT_VISIBLE
        assert score_turn([call("f")], Turn((ToolCall("f"),), calls_visible=False)).verdict.label is Label.PASS

    def test_extra_calls_that_may_be_hidden_keep_a_strict_turn_from_passing(self) -> None:
        seen = Turn((ToolCall("f"),), calls_visible=False)
        assert score_turn([call("f")], seen, {"extra_calls": "penalize"}).verdict.reason is Reason.CALLS_NOT_VISIBLE


def test_an_expected_call_may_have_a_criterion_of_its_own() -> None:
    lenient = Criterion(default_strategy="casefold_exact")
    expected = [ExpectedCall("f", {"x": "a"}, lenient), ExpectedCall("f", {"x": "b"})]
    actual = [call("f", x="A"), call("f", x="B")]
    assert score_turn(expected, actual).verdict.exact == HALF
    assert score_turn(expected, actual, lenient).verdict.exact == 1
    assert score_turn(expected, actual, {}).verdict.exact == 0, "a criterion that is given replaces all others"


@pytest.mark.parametrize(
    ("expected", "actual", "message"),
    [
        ([{"nme": "f"}], [], 'found {"nme": "f"}, expected an expected call such as'),
        ([{"name": "f", "argument": {}}], [], "`criterion`, `optional`, `forbidden`, `result`, not"),
        ([{"name": "f", "args": [1]}], [], "args of f: found [1], expected a mapping"),
        ("f", [], "expected a list"),
        ({"name": "f"}, [], "expected a list"),
        ([], [3], "found 3, expected a call"),
        ([], [{"name": "f", "args": "x"}], "None for not captured"),
    ],
)
def test_what_is_no_call_is_refused_with_a_reason(expected: Any, actual: Any, message: str) -> None:
    with pytest.raises(TypeError, match=re.escape(message)):
        score_turn(expected, actual)


# Laws.

values = st.sampled_from([0, 1, 2, "a", "A", None, True, [1], {"k": 1}])
arguments = st.dictionaries(st.sampled_from("xyz"), values, max_size=3)
calls = st.lists(st.builds(lambda name, args: call(name, **args), st.sampled_from("fg"), arguments), max_size=5)
criteria = st.builds(
    Criterion,
    match_mode=st.sampled_from(["name_only", "name_and_required_args", "name_and_args"]),
    default_strategy=st.sampled_from(["exact", "casefold_exact", "numeric", "contains"]),
    ordered=st.booleans(),
    call_score=st.sampled_from(["mean", "all"]),
    extra_arguments=st.sampled_from(["report", "penalize"]),
    extra_calls=st.sampled_from(["report", "penalize"]),
)


@given(calls, calls, criteria)
def test_a_score_is_a_share_and_counts_add_up(expected: Any, actual: Any, criterion: Criterion) -> None:
    result = score_turn(expected, actual, criterion)
    assert (result.verdict.exact is None) == (not expected)
    assert 0 <= (result.verdict.exact or 0) <= 1
    assert len(result.calls) == result.calls_expected == result.calls_aligned + result.calls_missing == len(expected)
    assert result.calls_aligned + len(result.unexpected_calls) == len(actual)
    assert (result.verdict.reason is None) == (result.verdict.label is not Label.NOT_EVALUATED)


@given(calls, criteria)
def test_what_was_expected_is_right(expected: Any, criterion: Criterion) -> None:
    assert score_turn(expected, expected, criterion).verdict.exact in (None, 1)


@given(calls, calls, criteria, st.randoms(use_true_random=False))
def test_in_any_order_the_order_of_calls_never_changes_the_score(
    expected: Any, actual: Any, criterion: Criterion, random: Any
) -> None:
    free = criterion.model_copy(update={"ordered": False})
    shuffled = list(actual)
    random.shuffle(shuffled)
    assert score_turn(expected, shuffled, free).verdict == score_turn(expected, actual, free).verdict


@given(calls, calls)
def test_order_costs_and_never_pays(expected: Any, actual: Any) -> None:
    ordered, free = score_turn(expected, actual), score_turn(expected, actual, {"ordered": False})
    assert (ordered.verdict.exact or 0) <= (free.verdict.exact or 0)


hostile = st.recursive(
    st.sampled_from(
        [None, True, float("nan"), float("inf"), 10**4000, -1, "\ud800", "\x1b[31m", "x" * 10_000, b"\xff"]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["", "x", "\n"]), inner, max_size=3),
    max_leaves=6,
)


def deep() -> Any:
    value: Any = 1
    for _ in range(10_000):
        value = [value]
    return value


@given(hostile, st.sampled_from(["exact", "casefold_exact", "numeric", "contains"]), st.sampled_from(["f", "", "\x07"]))
def test_no_value_stops_a_score_or_its_report(value: Any, strategy: str, name: str) -> None:
    for nasty in (value, deep()):
        expected = [ExpectedCall(name, {"x": [1], "y": nasty})]
        actual = ToolCall(name, {"x": nasty, "y": 1, "\ud800": nasty}, error="\x1b")
        result = score_turn(expected, [actual], {"default_strategy": strategy})
        assert result.verdict.exact is not None
        assert explain(result.calls[0], include_values=True).isprintable()
        run = ScoringResult((SessionResult(result.verdict, None, None, (result,), 1, 1),))
        json.dumps(run.to_json(), allow_nan=False).encode()
        str(run).encode()


def test_numbers_python_will_not_print_are_reported() -> None:
    result = score_turn([call("f", x=10**5000)], [call("f", x=10**5000 + 1)])
    assert explain(result.calls[0], include_values=True) == (
        '0 of 1 arguments match; mismatched: x (expected "<integer of 16610 bits>", found "<integer of 16610 bits>")'
    )
