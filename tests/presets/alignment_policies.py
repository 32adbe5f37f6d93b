"""How much the alignment alone moves a score, on the recorded tau2 sessions.

    python tests/presets/alignment_policies.py

Every row counts the expected calls whose arguments are all equal to those of their partner; only how partners are
found differs. goldspan's own two rows are what its criterion gives; the others are presets, or policies of others
played over goldspan's judgement of single pairs.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from goldspan.scoring import Criterion, score_turn
from goldspan.scoring.presets import score_with_preset

TAU2 = Path(__file__).resolve().parents[3] / "shared" / "data" / "tau2.jsonl.gz"
"""Published benchmark data; it may be used from there and is not part of the repository."""

Call = Mapping[str, Any]
ANY_ORDER = Criterion(ordered=False, call_score="all")
IN_ORDER = Criterion(ordered=True, call_score="all")


def sessions(path: Path = TAU2) -> Iterator[tuple[list[Call], list[Call]]]:
    """Expected and actual calls of the sessions whose verdicts are recorded."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if (row.get("official") or {}).get("action_match"):
                yield row["expected"], row["actual"]


def plain(calls: Sequence[Call]) -> list[Call]:
    return [{"name": call["name"], "args": call["args"] or {}} for call in calls]


def own(criterion: Criterion) -> Callable[[Sequence[Call], Sequence[Call]], int]:
    def count(expected: Sequence[Call], actual: Sequence[Call]) -> int:
        result = score_turn(plain(expected), plain(actual), criterion)
        return sum(call.expected is not None and call.verdict.score == 1.0 for call in result.calls)

    return count


def tau2(expected: Sequence[Call], actual: Sequence[Call]) -> int:
    return sum(one["score"] == 1.0 for one in score_with_preset("tau2", expected, actual).per_call)


def pull_request_6726(expected: Sequence[Call], actual: Sequence[Call]) -> int:
    result = score_with_preset("adk_parameter_match", plain(expected), plain(actual))
    return sum(one["score"] == 1.0 for one in result.per_call)


def any_match(expected: Sequence[Call], actual: Sequence[Call]) -> int:
    return sum(own(ANY_ORDER)([one], actual) for one in expected)


def first_match_in_order(expected: Sequence[Call], actual: Sequence[Call]) -> int:
    """Each expected call takes the first equal call after the partner of the one before."""
    found, start = 0, 0
    for one in expected:
        partner = next((index for index in range(start, len(actual)) if _equal(one, actual[index])), None)
        if partner is not None:
            found, start = found + 1, partner + 1
    return found


def first_of_the_name(expected: Sequence[Call], actual: Sequence[Call]) -> int:
    """Each expected call takes the first free call of its name, whatever its arguments."""
    free = list(actual)
    found = 0
    for one in expected:
        partner = next((call for call in free if call["name"] == one["name"]), None)
        if partner is not None:
            free.remove(partner)
            found += _equal(one, partner)
    return found


def _equal(expected: Call, actual: Call) -> bool:
    if expected["name"] != actual["name"]:
        return False
    return _pair(json.dumps(plain([expected])), json.dumps(plain([actual])))


@cache
def _pair(expected: str, actual: str) -> bool:
    return score_turn(json.loads(expected), json.loads(actual), IN_ORDER).verdict.score == 1.0


POLICIES: Mapping[str, Callable[[Sequence[Call], Sequence[Call]], int]] = {
    "tau2's own rule: any call of the name, no one-to-one (preset `tau2`)": tau2,
    "any call with all arguments equal, no one-to-one": any_match,
    "goldspan, `ordered: false`: one to one, best": own(ANY_ORDER),
    "one to one, first of the name": first_of_the_name,
    "goldspan, `ordered: true`: in order, best": own(IN_ORDER),
    "in order, first equal call": first_match_in_order,
    "in order, first of the name (preset `adk_parameter_match`)": pull_request_6726,
}


def table() -> dict[str, int]:
    """Expected calls with all arguments equal, by policy."""
    data = list(sessions())
    return {name: sum(policy(*session) for session in data) for name, policy in POLICIES.items()}


def main() -> None:
    """Print the table."""
    expected = sum(len(one) for one, _ in sessions())
    shown = Table("policy", "calls at 1.0", "share")
    for name, count in table().items():
        shown.add_row(name, str(count), f"{count / expected:.1%}")
    Console(width=110).print(f"tau2, {expected} expected calls in {sum(1 for _ in sessions())} sessions", shown)


if __name__ == "__main__":
    main()
