"""The benchmarks' own arithmetic, on a clock that only moves when a subject says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, cycle, repeat

from benchmarks.harness import ATTEMPTS, Subject, compare


class FakeClock:
    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now

    def taking(self, name: str, times: Iterator[int]) -> Subject:
        def work() -> None:
            self.now += next(times)

        def beside() -> None:
            self.now += 1_000_000

        return Subject(name, work, before=beside, after=beside)


def compared(reference: Iterator[int], control: Iterator[int], candidate: Iterator[int]):
    clock: Callable[[], int] = FakeClock()
    subjects = [clock.taking(name, times) for name, times in zip("rcx", (reference, control, candidate), strict=True)]
    return compare(
        "title",
        item="thing",
        items=10,
        reference=subjects[0],
        control=subjects[1],
        candidates=subjects[2:],
        clock=clock,
        rounds=12,
    )


def test_a_ratio_is_of_slices_alone_and_of_the_same_run() -> None:
    found = compared(repeat(1000), repeat(1000), repeat(1500))
    (row,) = found.rows
    assert (row.ratio.fastest, row.ratio.quartile) == (1.5, 1.5)
    assert (found.reference.each, row.each) == (100, 150)
    assert (found.quiet, found.attempts) == (True, 1)


def test_one_lucky_slice_does_not_win() -> None:
    lucky = chain([1000, 10], repeat(1000))  # the first is the warm-up
    (row,) = compared(repeat(1000), repeat(1000), lucky).rows
    assert (row.ratio.fastest, row.ratio.quartile) == (0.01, 1.0)


def test_a_noisy_run_is_done_again_and_said_to_be_noisy() -> None:
    assert compared(repeat(1000), repeat(1040), repeat(1000)).quiet is False
    settles = chain(repeat(1100, 13), repeat(1000))
    found = compared(repeat(1000), settles, repeat(1000))
    assert (found.quiet, found.attempts) == (True, 2)


def test_the_quietest_of_the_noisy_runs_is_reported() -> None:
    runs = [repeat(level, 13) for level in (1100, 1050, 1200)]
    assert len(runs) == ATTEMPTS
    found = compared(cycle([1000]), chain.from_iterable(runs), repeat(1000))
    assert (found.attempts, found.control.fastest) == (2, 1.05)
