"""Real golden and actual calls of a published benchmark, where they are at hand: no copy of them is kept here."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from itertools import permutations
from typing import Any

import pytest

from goldspan.scoring import score_turn
from rigs.repository import ROOT

SESSIONS = ROOT.parent / "shared" / "data" / "tau2.jsonl.gz"


@pytest.fixture(scope="module")
def sessions() -> list[tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
    if not SESSIONS.exists():
        pytest.skip("the benchmark's sessions are not on this machine")
    with gzip.open(SESSIONS, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [(plain(row["expected"]), plain(row["actual"])) for row in rows]


def plain(calls: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"name": call["name"], "args": call["args"] or {}} for call in calls]


def right(expected: dict[str, Any], actual: dict[str, Any]) -> bool:
    return expected["name"] == actual["name"] and all(
        name in actual["args"] and actual["args"][name] == value for name, value in expected["args"].items()
    )


def most_right_in_order(expected: list[dict[str, Any]], actual: list[dict[str, Any]]) -> int:
    """The longest common subsequence of calls that are wholly right."""
    best = [0] * (len(actual) + 1)
    for wanted in expected:
        before = best.copy()
        for index, call in enumerate(actual, 1):
            best[index] = max(best[index - 1], before[index], before[index - 1] + right(wanted, call))
    return best[-1]


def most_right_in_any_order(expected: list[dict[str, Any]], actual: list[dict[str, Any]]) -> int:
    """Kuhn's augmenting paths."""
    owner: dict[int, int] = {}

    def place(row: int, seen: set[int]) -> bool:
        for index, call in enumerate(actual):
            if index not in seen and right(expected[row], call):
                seen.add(index)
                if index not in owner or place(owner[index], seen):
                    owner[index] = row
                    return True
        return False

    return sum(place(row, set()) for row in range(len(expected)))


@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "any_order"])
def test_calls_that_are_wholly_right_are_never_lost(sessions: Any, ordered: bool) -> None:
    best = most_right_in_order if ordered else most_right_in_any_order
    for expected, actual in sessions:
        result = score_turn(expected, actual, {"ordered": ordered, "call_score": "all", "match_mode": "name_only"})
        assert sum(call.verdict.exact == 1 for call in result.calls) == best(expected, actual)
        assert not result.approximate


def test_partial_credit_never_costs_a_session(sessions: Any) -> None:
    for expected, actual in sessions:
        mean, strict = (score_turn(expected, actual, {"call_score": how}).verdict.exact for how in ("mean", "all"))
        assert (mean or 0) >= (strict or 0)


def test_the_oracles_agree_on_small_cases() -> None:
    one, two = {"name": "f", "args": {"x": 1}}, {"name": "f", "args": {}}
    for actual in permutations([one, {"name": "f", "args": {"x": 2}}]):
        assert most_right_in_any_order([two, one], list(actual)) == 2
