"""Records that nothing needs to be known of yet, unread, by trace: plain spans, and what no golden wants.

The spans have already left. Should a span of their trace turn up that a golden does want, those on the shelf are read
after all, since plain spans stand between tools and agents. What is older than the retention, or beyond the bound in
bytes, is forgotten; only that there was something is remembered.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, TypeVar

Trace = TypeVar("Trace")
Record = TypeVar("Record")

_REMEMBERED = 100_000


class SpanBuffer(Generic[Trace, Record]):
    """Unread records by trace id. For one thread."""

    def __init__(self, *, retention: float, max_bytes: int) -> None:
        """Keep records for so many seconds, and so many bytes of them."""
        self._retention = retention
        self.max_bytes = max_bytes
        self._by_trace: dict[Trace, list[tuple[int, Sequence[Record]]]] = {}
        self._batches: deque[tuple[float, int, int, tuple[Trace, ...]]] = deque()
        self._number = 0
        self.unwanted: set[Trace] = set()
        """Traces of which all sessions that are known are such that no golden wants."""
        self._telling: set[Trace] = set()
        self._forgotten: OrderedDict[Trace, bool] = OrderedDict()
        self.size = 0
        """Bytes of all records, as those who put them here estimated them."""

    def add(self, records: Mapping[Trace, Sequence[Record]], size: int, now: float, *, telling: bool = False) -> None:
        """Put records on the shelf, by trace id; `telling` ones may say something of calls, wanted or not."""
        if telling:
            self._telling.update(records)
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
        """Take the records of a trace off the shelf."""
        self.unwanted.discard(trace)
        self._telling.discard(trace)
        return [record for _, some in self._by_trace.pop(trace, ()) for record in some]

    def records(self, trace: Trace) -> list[Record]:
        """Return the records of a trace."""
        return [record for _, some in self._by_trace.get(trace, ()) for record in some]

    def was_forgotten(self, trace: Trace) -> bool | None:
        """Tell whether records of a trace were forgotten, and calls perhaps among them; none where nothing was."""
        return self._forgotten.get(trace)

    def expire(self, now: float) -> None:
        """Forget what is too old or too much."""
        while self._batches and (self._batches[0][0] + self._retention <= now or self.size > self.max_bytes):
            _, number, size, traces = self._batches.popleft()
            self.size -= size
            self._forget(number, traces)

    def _forget(self, number: int, traces: Iterable[Trace]) -> None:
        for trace in traces:
            entries = self._by_trace.get(trace)
            if entries is None or entries[0][0] > number:
                continue
            del entries[0]
            calls = trace in self.unwanted or trace in self._telling
            if not entries:
                del self._by_trace[trace]
                self.unwanted.discard(trace)
                self._telling.discard(trace)
            self._forgotten[trace] = calls or self._forgotten.get(trace, False)
            if len(self._forgotten) > _REMEMBERED:
                self._forgotten.popitem(last=False)
