"""Spans that no engine reads yet, by trace id: those without a dialect's marker, and those of unwanted sessions.

The spans themselves were sent on already. If a later span of their trace belongs to a session that a golden wants, the
buffered ones are read after all, since unmarked spans stand between tools and agents. Spans older than the retention,
and the oldest ones beyond the bound in bytes, are dropped; the buffer remembers only that a trace lost some.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, TypeVar

Trace = TypeVar("Trace")
Record = TypeVar("Record")

_MAX_REMEMBERED_LOSSES = 100_000
"""Traces; beyond it the loss that was noted first is forgotten."""


class SpanBuffer(Generic[Trace, Record]):
    """Unread records by trace id, bounded in age and bytes. For one thread."""

    def __init__(self, *, retention: float, max_bytes: int) -> None:
        """Keep records for `retention` seconds, and at most `max_bytes` of them."""
        self._retention = retention
        self.max_bytes = max_bytes
        self._by_trace: dict[Trace, list[tuple[int, Sequence[Record]]]] = {}
        self._batches: deque[tuple[float, int, int, tuple[Trace, ...]]] = deque()
        self._number = 0
        self.unwanted: set[Trace] = set()
        """Traces whose sessions are known, and wanted by no golden."""
        self._with_calls: set[Trace] = set()
        self._lost: OrderedDict[Trace, bool] = OrderedDict()
        self.size = 0
        """Bytes of all records, as estimated by the callers of `add`."""

    def add(self, records: Mapping[Trace, Sequence[Record]], size: int, now: float, *, calls: bool = False) -> None:
        """Add records by trace id; `calls` says that some may describe calls even where the trace is not unwanted."""
        if calls:
            self._with_calls.update(records)
        self._number += 1
        number, by_trace = self._number, self._by_trace
        for trace, some in records.items():
            if trace in by_trace:
                by_trace[trace].append((number, some))
            else:
                by_trace[trace] = [(number, some)]
        self.size += size
        self._batches.append((now, number, size, tuple(records)))

    def take(self, trace: Trace) -> list[Record]:
        """Remove and return the records of a trace."""
        self.unwanted.discard(trace)
        self._with_calls.discard(trace)
        return [record for _, some in self._by_trace.pop(trace, ()) for record in some]

    def records(self, trace: Trace) -> list[Record]:
        """Return the records of a trace."""
        return [record for _, some in self._by_trace.get(trace, ()) for record in some]

    def lost_calls(self, trace: Trace) -> bool | None:
        """Tell whether the records that a trace lost may have described calls; None if it lost none."""
        return self._lost.get(trace)

    def expire(self, now: float) -> None:
        """Drop records that are too old, then the oldest ones until the rest fits into `max_bytes`."""
        while self._batches and (self._batches[0][0] + self._retention <= now or self.size > self.max_bytes):
            _, number, size, traces = self._batches.popleft()
            self.size -= size
            self._drop(number, traces)

    def _drop(self, number: int, traces: Iterable[Trace]) -> None:
        for trace in traces:
            entries = self._by_trace.get(trace)
            if entries is None or entries[0][0] > number:
                continue
            del entries[0]
            calls = trace in self.unwanted or trace in self._with_calls
            if not entries:
                del self._by_trace[trace]
                self.unwanted.discard(trace)
                self._with_calls.discard(trace)
            self._lost[trace] = calls or self._lost.get(trace, False)
            if len(self._lost) > _MAX_REMEMBERED_LOSSES:
                self._lost.popitem(last=False)
