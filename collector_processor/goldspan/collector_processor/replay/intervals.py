"""How sure a difference is: intervals that hold the true one in 95 of 100 cases, and tests of "no difference".

The unit is the task, since runs and calls of one task are not independent of each other. Of each task there is one
number: after minus before, from -1 to 1. Sources: Tango, Statistics in Medicine 17 (1998), for rates; Hesterberg, The
American Statistician 69 (2015), for the widened percentiles of the bootstrap; Holm (1979) for several tests at once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate
from random import Random
from statistics import NormalDist, fmean
from typing import NamedTuple

LEVEL = 0.95
_Z = NormalDist().inv_cdf((1 + LEVEL) / 2)
_DRAWS = 2_000
_MOST_SUMS = 20_000  # different sums up to which all signs are tried; beyond that they are drawn


class Interval(NamedTuple):
    """The ends of a confidence interval."""

    low: float
    high: float


def difference_interval(differences: Sequence[float]) -> Interval | None:
    """Return the interval of the mean of paired differences; None for fewer than two.

    Differences that are all -1, 0 or 1 are those of a rate, and get Tango's score interval; others the bootstrap.
    """
    if len(differences) < 2:
        return None
    if all(one in {-1, 0, 1} for one in differences):
        counts = Counter(differences)
        return rate_interval(counts[1], counts[-1], len(differences))
    return _bootstrap(len(differences), lambda random: fmean(random.choices(differences, k=len(differences))))


def unpaired_interval(before: Sequence[float], after: Sequence[float]) -> Interval | None:
    """Return the interval of the difference of two means of different tasks; None for fewer than two on a side."""
    if min(len(before), len(after)) < 2:
        return None
    return _bootstrap(
        min(len(before), len(after)),
        lambda random: fmean(random.choices(after, k=len(after))) - fmean(random.choices(before, k=len(before))),
    )


def rate_interval(gained: int, lost: int, tasks: int) -> Interval:
    """Return Tango's score interval of a rate's difference: `gained` of `tasks` pass only after, `lost` only before."""
    observed = (gained - lost) / tasks

    def score(difference: float) -> float:
        b = (2 * tasks - gained + lost) * difference - gained - lost
        q = (math.sqrt(max(b * b + 8 * tasks * lost * difference * (1 - difference), 0.0)) - b) / (4 * tasks)
        variance = tasks * (2 * q + difference * (1 - difference))
        distance = gained - lost - tasks * difference
        return distance / math.sqrt(variance) if variance > 1e-12 else math.copysign(math.inf, distance)

    return Interval(_where(score, _Z, -1.0, observed), _where(score, -_Z, observed, 1.0))


def _where(falling: Callable[[float], float], value: float, low: float, high: float) -> float:
    """Return where a falling function takes a value, by halving."""
    for _ in range(60):
        middle = (low + high) / 2
        if falling(middle) > value:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _bootstrap(size: int, draw: Callable[[Random], float]) -> Interval:
    random = Random(size)
    means = sorted(draw(random) for _ in range(_DRAWS))
    # Plain percentiles are too narrow for few tasks: they lack Student's t and the n - 1 of the variance.
    widened = _student(size - 1) * math.sqrt(size / (size - 1))
    tail = NormalDist().cdf(-widened)
    at = min(max(round(tail * _DRAWS) - 1, 0), _DRAWS - 1)
    return Interval(means[at], means[-1 - at])


def _student(freedom: int) -> float:
    """Return the quantile of Student's t by Cornish and Fisher's expansion."""
    z, n = _Z, freedom
    terms = (z**3 + z) / (4 * n), (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
    return z + sum(terms) + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)


def chance_of(differences: Sequence[float]) -> float:
    """Return how often a mean at least as far from 0 comes by chance alone, if no task has a side that is better.

    Each difference could as well have had the other sign. All signs are tried, which for a rate is McNemar's exact
    test; where that takes too long they are drawn.
    """
    changed = [one for one in differences if one]
    if not changed:
        return 1.0
    least = abs(sum(changed)) - 1e-9
    sums: Counter[float] = Counter({0.0: 1})
    for one in changed:
        more: Counter[float] = Counter()
        for total, ways in sums.items():
            more[round(total + one, 9)] += ways
            more[round(total - one, 9)] += ways
        sums = more
        if len(sums) > _MOST_SUMS:
            return _drawn_chance(least, lambda random: sum(random.choice((one, -one)) for one in changed))
    return math.ldexp(sum(ways for total, ways in sums.items() if abs(total) >= least), -len(changed))


def unpaired_chance(before: Sequence[float], after: Sequence[float]) -> float:
    """Return how often means of two sides are as far apart by chance alone, whichever task is on which side."""
    if not before or not after:
        return 1.0
    every = [*before, *after]
    total = sum(every)

    def apart(mine: Sequence[float]) -> float:
        return abs((total - sum(mine)) / len(after) - sum(mine) / len(before))

    return _drawn_chance(apart(before) - 1e-9, lambda random: apart(random.sample(every, len(before))))


def _drawn_chance(least: float, draw: Callable[[Random], float]) -> float:
    random = Random(_DRAWS)
    found = sum(abs(draw(random)) >= least for _ in range(_DRAWS))
    return (found + 1) / (_DRAWS + 1)


def corrected(chances: Sequence[float]) -> list[float]:
    """Return the chances after Holm's correction: by the number of tests, all taken together."""
    order = sorted(range(len(chances)), key=chances.__getitem__)
    steps = [(len(chances) - rank) * chances[at] for rank, at in enumerate(order)]
    kept = dict(zip(order, accumulate(steps, max), strict=True))
    return [min(kept[at], 1.0) for at in range(len(chances))]


def fewer_by_chance(passed_before: int, runs_before: int, passed: int, runs: int) -> float:
    """Return how often so few of `runs` pass by chance, if both sides pass equally often: Fisher's exact test."""
    total, right = runs_before + runs, passed_before + passed
    ways = math.comb(total, right)
    least = max(0, right - runs_before)
    return sum(math.comb(runs, k) * math.comb(runs_before, right - k) for k in range(least, passed + 1)) / ways
