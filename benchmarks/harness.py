"""Ratios that can be believed on a shared machine.

Absolute times on a machine that also does other work are worth little. Here every subject runs one short slice a
round, in an order shuffled anew, each right beside the others, many rounds long, with CPU clocks. A subject is compared
to the reference by two ratios: of the fastest slices, and of the first quartiles of all slices. (The least of the
*paired* ratios would be a prize for the luckiest round: it reads below 1 for two identical subjects.) A second copy of
the reference, the control, shows what the method itself is worth: when its ratios are off by more than `NOISE`, the
whole run is thrown away and done again, and the quietest is reported as what it is if none was quiet.
"""

from __future__ import annotations

import gc
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

NOISE = 0.03
"""How far from 1 the control may read."""
ATTEMPTS = 3
ROUNDS = int(os.environ.get("GOLDSPAN_BENCH_ROUNDS", "30"))

Clock = Callable[[], int]
"""Nanoseconds."""
THREAD_CPU: Clock = time.thread_time_ns
"""What the calling thread pays."""
PROCESS_CPU: Clock = time.process_time_ns
"""What every thread of the process pays together."""


def nothing() -> None:
    """Leave nothing to be done."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Something to be measured: `slice` under the clock, `before` and `after` each slice beside it."""

    name: str
    slice: Callable[[], object]
    before: Callable[[], object] = nothing
    after: Callable[[], object] = nothing


class Ratio(NamedTuple):
    """How a subject compares to the reference; below 1 is cheaper."""

    fastest: float
    quartile: float

    def __str__(self) -> str:
        return f"{self.fastest:.3f} {self.quartile:.3f}"

    @property
    def noise(self) -> float:
        """How far from 1 the worse of the two is."""
        return max(abs(self.fastest - 1), abs(self.quartile - 1))


@dataclass(frozen=True, slots=True)
class Row:
    """One subject beside the reference."""

    name: str
    ratio: Ratio
    each: float
    """Nanoseconds of one item in the fastest slice."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One reference, its control and what was measured beside them, in one run."""

    title: str
    item: str
    """What `each` counts, as in `span`."""
    reference: Row
    control: Ratio
    rows: tuple[Row, ...]
    attempts: int

    @property
    def quiet(self) -> bool:
        """Whether the control agreed with the reference."""
        return self.control.noise <= NOISE


def pin() -> None:
    """Keep this process, and the threads it starts from now on, on one core where the system lets it."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def compare(
    title: str,
    *,
    item: str,
    items: int,
    reference: Subject,
    control: Subject,
    candidates: Sequence[Subject],
    clock: Clock,
    rounds: int | None = None,
) -> Comparison:
    """Measure the candidates beside the reference; `items` is how many `item`s one slice handles."""
    best: Comparison | None = None
    for attempt in range(1, ATTEMPTS + 1):
        slices = _measure([reference, control, *candidates], clock, rounds or ROUNDS)
        first, second, *others = slices
        run = Comparison(
            title,
            item,
            Row(reference.name, Ratio(1.0, 1.0), min(first) / items),
            _ratio(second, first),
            tuple(
                Row(subject.name, _ratio(taken, first), min(taken) / items)
                for subject, taken in zip(candidates, others, strict=True)
            ),
            attempt,
        )
        if best is None or run.control.noise < best.control.noise:
            best = run
        if run.quiet:
            return run
    assert best is not None
    return best


def _measure(subjects: Sequence[Subject], clock: Clock, rounds: int) -> list[list[int]]:
    taken: list[list[int]] = [[] for _ in subjects]
    for subject in subjects:  # warm up: imports, caches, connections
        subject.before()
        subject.slice()
        subject.after()
    gc.collect()
    gc.freeze()  # what was there before is not collected again before every slice
    order = list(range(len(subjects)))
    shuffled = Random(rounds)
    for _ in range(rounds):
        shuffled.shuffle(order)
        for index in order:
            subject = subjects[index]
            subject.before()
            gc.collect()
            began = clock()
            subject.slice()
            taken[index].append(clock() - began)
            subject.after()
    gc.unfreeze()
    return taken


def _ratio(taken: Sequence[int], reference: Sequence[int]) -> Ratio:
    return Ratio(min(taken) / min(reference), _quartile(taken) / _quartile(reference))


def _quartile(taken: Sequence[int]) -> float:
    return statistics.quantiles(taken, n=4)[0] if len(taken) > 1 else taken[0]


def print_tables(comparisons: Iterable[Comparison]) -> None:
    """Print every ratio beside its reference and its control, as soon as it is known."""
    for comparison in comparisons:
        item = comparison.item
        width = max(len(row.name) for row in (comparison.reference, *comparison.rows)) + 2
        print(f"\n{comparison.title}")
        print(f"  {'':{width}}{'fastest':>9}{'quartile':>10}{'us/' + item:>14}{item + 's/s':>13}")
        _print_row(comparison.reference, width, "   reference")
        fastest, quartile = comparison.control
        print(f"  {'the reference again':{width}}{fastest:>9.3f}{quartile:>10.3f}{'':>27}   {_worth(comparison)}")
        for row in comparison.rows:
            _print_row(row, width)
        sys.stdout.flush()


def _print_row(row: Row, width: int, note: str = "") -> None:
    fastest, quartile = row.ratio
    print(f"  {row.name:{width}}{fastest:>9.3f}{quartile:>10.3f}{row.each / 1000:>14.2f}{1e9 / row.each:>13,.0f}{note}")


def _worth(comparison: Comparison) -> str:
    if comparison.quiet:
        return f"A/A control, quiet at attempt {comparison.attempts}"
    return f"A/A control, NOISY: none of {ATTEMPTS} attempts was within {NOISE:.0%}"
