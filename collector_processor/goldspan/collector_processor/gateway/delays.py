"""How long requests waited for their delivery, as a histogram."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from goldspan.collector_processor.gateway.interfaces import Sample

_BOUNDS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 60.0, 300.0, 3600.0)
"""Seconds: what a good network takes, one retry or two, a receiver that is away."""


class Delays:
    """Seconds in buckets. One thread adds; reading is safe from any."""

    def __init__(self) -> None:
        self._counts = [0] * (len(_BOUNDS) + 1)
        self._sum = 0.0

    def add(self, seconds: float) -> None:
        """Count one delay."""
        self._counts[bisect_left(_BOUNDS, seconds)] += 1
        self._sum += seconds

    def samples(self, name: str) -> Iterator[Sample]:
        """Yield the histogram of this name."""
        counts, total = list(self._counts), 0
        for bound, count in zip((*map(str, _BOUNDS), "+Inf"), counts, strict=True):
            total += count
            yield f"{name}_bucket", {"le": bound}, total
        yield f"{name}_sum", {}, self._sum
        yield f"{name}_count", {}, total
