"""Traces that name no session so far: what of them waits, and until when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from goldspan.scoring.sessions import SpanRef

MAX_UNDECIDED = 1000
"""Traces at once, for they are all looked at in each step."""


@dataclass(slots=True)
class _Waiting:
    since: float
    last: float
    rooted: bool = False
    refs: list[SpanRef] = field(default_factory=list[SpanRef])


class Undecided:
    """Traces by id. A root that ended, and nothing new for a while, decides that they belong to no session at all."""

    def __init__(self, settle: float, hold_timeout: float) -> None:
        """Wait for news of a trace whose root has ended, and for the session's name, no longer than this."""
        self._settle = settle
        self._hold_timeout = hold_timeout
        self._waiting: dict[int, _Waiting] = {}

    def __contains__(self, trace: int) -> bool:
        return trace in self._waiting

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another trace."""
        return len(self._waiting) >= MAX_UNDECIDED

    def add(self, trace: int, refs: Iterable[SpanRef], now: float, *, rooted: bool) -> None:
        """Note that spans of a trace came, and those of them that wait."""
        waiting = self._waiting.setdefault(trace, _Waiting(now, now))
        waiting.last = now
        waiting.rooted = waiting.rooted or rooted
        waiting.refs += refs

    def take(self, trace: int) -> list[SpanRef]:
        """Return what of a trace waits, and know of it no more."""
        waiting = self._waiting.pop(trace, None)
        return [] if waiting is None else waiting.refs

    def rooted(self, now: float) -> list[int]:
        """Return the traces whose root has ended, and that were quiet for long enough."""
        return [trace for trace, one in self._waiting.items() if one.rooted and one.last + self._settle <= now]

    def overdue(self, now: float) -> list[int]:
        """Return the traces that have waited for too long."""
        return [trace for trace, one in self._waiting.items() if one.since + self._hold_timeout <= now]

    def deadline(self) -> float | None:
        """Return when there will be something to do next, or none."""
        times = (
            min(one.since + self._hold_timeout, one.last + self._settle if one.rooted else float("inf"))
            for one in self._waiting.values()
        )
        return min(times, default=None)
