"""Which tests a quick run leaves out, and a whole one with few examples; `conftest.py` asks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from zlib import crc32

import pytest

FIXTURES = Path(__file__).parent / "fixtures"


def quick_recordings() -> frozenset[str]:
    """Return one recording a dialect, the plainest: the part of all recordings that a quick run tries."""
    dialects = (sorted(folder.glob("*.facts.json")) for folder in sorted((FIXTURES / "dialects").iterdir()))
    plainest = (min(facts, key=lambda path: len(path.name)) for facts in dialects if facts)
    return frozenset(path.name.removesuffix(".facts.json") for path in plainest)


def part_of_a_whole_run(config: pytest.Config) -> int:
    """Return n, where a run with few examples tries every n-th of what is costly: 1 for 100 examples and more."""
    return max(1, 100 // config.getoption("--examples")) if config.getoption("--all") else 1


def thinned_out(items: list[pytest.Item], every: int) -> list[pytest.Item]:
    """Return the cases of tests marked `costly` but every n-th: other recordings for each test."""
    by_test = cases_by_test(items, "costly")
    kept = {case for test, cases in by_test.items() for case in cases[crc32(test.encode()) % every :: every]}
    return [case for cases in by_test.values() for case in cases if case not in kept]


def left_out(items: list[pytest.Item], also: Iterable[str] = ()) -> list[pytest.Item]:
    """Return the tests that only a whole run needs.

    These are the tests marked `exhaustive`, and the cases of those marked `every_recording` whose recording is none
    of `quick_recordings` and of those that are tried `also`. A test with none of these recordings keeps its first case.
    """
    quick = quick_recordings().union(also)
    out = {item for item in items if item.get_closest_marker("exhaustive")}
    for cases in cases_by_test(items, "every_recording").values():
        kept = [case for case in cases if not quick.isdisjoint(recordings_of(case))] or cases[:1]
        out.update(set(cases).difference(kept))
    return [item for item in items if item in out]


def cases_by_test(items: Iterable[pytest.Item], marker: str) -> dict[str, list[pytest.Item]]:
    """Return the cases of each test that has a marker."""
    by_test: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker(marker):
            by_test.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return by_test


def recordings_of(item: pytest.Item) -> Iterator[str]:
    """Yield what may be a recording's name among the parameters of a case."""
    for value in item.callspec.params.values() if isinstance(item, pytest.Function) else ():
        if isinstance(value, str):
            yield value
        elif isinstance(value, Path):
            yield value.name.partition(".otlp.")[0]
