"""Which elements of a list stand for which expected ones, whatever their order.

Plain elements are counted, in linear time. Where there are matchers, elements are paired as a bipartite matching, which
is bounded: golden lists with matchers by `MOST_ITEMS`, actual ones by `LONGEST_ACTUAL`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from goldspan.scoring.comparison import ONE, ZERO, canonical
from goldspan.scoring.matchers.matcher import Expected, holds_matchers
from goldspan.scoring.sessions import JsonValue

if TYPE_CHECKING:
    from goldspan.scoring.argument_rules import Rule
    from goldspan.scoring.matchers.history import Earlier

MOST_ITEMS = 200
LONGEST_ACTUAL = 10_000


def included(
    expected: Sequence[Expected], actual: Sequence[JsonValue], rule: Rule, earlier: Earlier | None
) -> list[Fraction | None]:
    """Return for each expected element whether an element of the actual list stands for it alone: 1, 0 or unknown."""
    if not any(map(holds_matchers, expected)):
        casefold = rule.strategy == "casefold_exact"
        left = Counter(canonical(item, casefold=casefold) for item in actual)
        found: list[Fraction | None] = []
        for item in expected:
            key = canonical(item, casefold=casefold)
            found.append(ONE if left[key] > 0 else ZERO)
            left[key] -= 1
        return found
    if len(actual) > LONGEST_ACTUAL:
        return [ZERO] * len(expected)
    return _matched(expected, actual, rule, earlier)


def _matched(
    expected: Sequence[Expected], actual: Sequence[JsonValue], rule: Rule, earlier: Earlier | None
) -> list[Fraction | None]:
    from goldspan.scoring.matchers.judging import score_of  # noqa: PLC0415 - written in terms of this module

    sure: list[list[int]] = []
    possible: list[list[int]] = []
    for item in expected:
        yes: list[int] = []
        maybe: list[int] = []
        for index, value in enumerate(actual):
            score = score_of(item, value, rule, earlier)
            if score is None:
                maybe.append(index)
            elif score == 1:
                yes.append(index)
            if len(yes) >= len(expected):
                break  # one of so many is always left for it
        sure.append(yes)
        possible.append(yes + maybe)
    paired = _pair(sure)
    if len(paired) == len(expected) or sure == possible:
        return [ONE if row in paired else ZERO for row in range(len(expected))]
    perhaps = _pair(possible)
    return [None if row in perhaps else ZERO for row in range(len(expected))]


def _pair(candidates: Sequence[Sequence[int]]) -> set[int]:
    """Return rows that can be paired at once, each with its own candidate: as many as possible, early ones first."""
    owner: dict[int, int] = {}
    paired: set[int] = set()

    def free(row: int, seen: set[int]) -> bool:
        for column in candidates[row]:
            if column not in seen:
                seen.add(column)
                if column not in owner or free(owner[column], seen):
                    owner[column] = row
                    return True
        return False

    for row in range(len(candidates)):
        if free(row, set()):
            paired.add(row)
    return paired
