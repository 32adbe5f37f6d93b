"""Ragas and tau2-bench, whose recorded verdicts are not part of the repository: what each rule makes of a few calls."""

from __future__ import annotations

from typing import Any

import pytest

from goldspan.scoring.presets import score_with_preset

NAN = float("nan")


def calls(*named: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"name": name, "args": args} for name, args in named]


A, B = ("a", {"x": 1}), ("b", {"y": 2})
ACCURACY: list[tuple[list[Any], list[Any], float, float]] = [
    # expected, actual, in strict order, in any
    ([], [], 1.0, 1.0),
    ([A], [], 0.0, 0.0),
    ([], [A], 0.0, 0.0),
    ([A, B], [A, B], 1.0, 1.0),
    ([A, B], [B, A], 0.0, 1.0),
    ([A, B], [A], 0.0, 0.0),
    ([A], [A, B], 0.0, 0.0),
    ([A], [("a", {"x": 1, "z": 2})], 1.0, 1.0),
    ([("a", {})], [("a", {})], 1.0, 1.0),
    ([("a", {})], [("a", {"z": 2})], 0.0, 0.0),
    ([A], [("a", {"x": "1"})], 1.0, 1.0),
    ([A], [("a", {"x": 1.0})], 0.0, 0.0),
    ([A], [("a", {"x": True})], 0.0, 0.0),
    ([("a", {"x": NAN})], [("a", {"x": float("nan")})], 1.0, 1.0),
    ([("a", {"x": None})], [("a", {})], 0.0, 0.0),
    ([("a", {"x": 1, "y": 2}), B], [("a", {"x": 1, "y": 3}), B], 0.75, 0.75),
    ([("a", {"x": 2}), A], [A, ("a", {"x": 2})], 0.0, 1.0),
    ([("a", {"y": 1, "x": 2}), ("a", {"x": 1})], [("a", {"x": 1}), ("a", {"x": 2, "y": 1})], 0.0, 1.0),
]


@pytest.mark.parametrize(("expected", "actual", "strict", "flexible"), ACCURACY)
def test_ragas_accuracy(expected: list[Any], actual: list[Any], strict: float, flexible: float) -> None:
    sides = calls(*expected), calls(*actual)
    assert score_with_preset("ragas", *sides).score == strict
    assert score_with_preset("ragas", *sides, strict_order=None).score == strict
    assert score_with_preset("ragas", *sides, strict_order=False).score == flexible


F1: list[tuple[list[Any], list[Any], float]] = [
    ([], [], 0.0),
    ([A], [], 0.0),
    ([A], [A], 1.0),
    ([A, A], [A], 1.0),
    ([A], [B], 0.0),
    ([A, B], [A], 0.6667),
    ([A], [A, B], 0.6667),
    ([A, B, ("c", {})], [A], 0.5),
    ([A], [("a", {"x": 1.0})], 1.0),
    ([A], [("a", {"x": True})], 1.0),
    ([("a", {"x": [1, {"k": [2]}]})], [("a", {"x": [1, {"k": [2]}]})], 1.0),
    ([("a", {"x": [1, 2]})], [("a", {"x": [2, 1]})], 0.0),
    ([("a", {"x": {"k": 1, "l": 2}})], [("a", {"x": {"l": 2, "k": 1}})], 1.0),
    ([("a", {"x": {}})], [("a", {"x": []})], 0.0),
    ([("a", {"x": NAN})], [("a", {"x": float("nan")})], 0.0),
]


@pytest.mark.parametrize(("expected", "actual", "score"), F1)
def test_ragas_f1(expected: list[Any], actual: list[Any], score: float) -> None:
    assert score_with_preset("ragas", calls(*expected), calls(*actual), metric="ToolCallF1").score == score


def test_ragas_draws_no_line() -> None:
    assert score_with_preset("ragas", calls(A), calls(B)).label is None


TAU2: list[tuple[dict[str, Any], list[Any], bool]] = [
    # what the action says beside its name, the calls, whether it is matched
    ({"args": {"x": 1}}, [A], True),
    ({"args": {"x": 1}}, [("b", {"x": 1})], False),
    ({"args": {"x": 1}}, [("a", {"x": 2}), A], True),
    ({"args": {"x": 1}}, [("a", {})], True),
    ({"args": {"x": 1, "y": 2}}, [A], True),
    ({"args": {"x": 1}}, [("a", {"x": 1, "z": 0})], False),
    ({"args": {"x": 1}}, [("a", {"x": 1.0})], True),
    ({"args": {"x": 1}}, [("a", {"x": True})], True),
    ({"args": {"x": {"k": [1]}}}, [("a", {"x": {"k": [2]}})], False),
    ({"args": {"x": 1}, "compare_args": None}, [("a", {"x": 2})], False),
    ({"args": {"x": 1}, "compare_args": []}, [("a", {"x": 2, "z": 0})], True),
    ({"args": {"x": 1, "y": 2}, "compare_args": ["x"]}, [("a", {"x": 1, "y": 3, "z": 0})], True),
    ({"args": {"x": 1, "y": 2}, "compare_args": ["x"]}, [("a", {"y": 2})], False),
    ({"args": {"x": 1}, "compare_args": ["q"]}, [("a", {"x": 2})], True),
    ({"arguments": {"x": 1}}, [A], True),
]


@pytest.mark.parametrize(("action", "called", "matched"), TAU2)
def test_tau2_action_check(action: dict[str, Any], called: list[Any], matched: bool) -> None:
    result = score_with_preset("tau2", [{"name": "a", **action}], calls(*called))
    assert result.score == float(matched)
    assert result.per_call == ({"expected_index": 0, "action_match": matched, "score": float(matched)},)


def test_tau2_lets_one_call_stand_for_several_actions_and_wants_all_matched() -> None:
    assert score_with_preset("tau2", calls(A, A), calls(A)).score == 1.0
    half = score_with_preset("tau2", calls(A, B), calls(A))
    assert half.score == 0.0
    assert [one["action_match"] for one in half.per_call or ()] == [True, False]


@pytest.mark.parametrize(("expected", "note"), [(None, "No evaluation criteria"), ([], "No actions to evaluate")])
def test_tau2_rewards_a_task_without_actions(expected: Any, note: str) -> None:
    result = score_with_preset("tau2", expected, calls(A))
    assert (result.score, result.explanation) == (1.0, {"note": note})
