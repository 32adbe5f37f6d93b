"""Spans that nothing needs to be known of yet, as they came, by trace: plain ones, and those no golden wants.

They have already left. Should a span of their trace turn up that a golden does want, those on the shelf are read after
all, since plain spans stand between tools and agents. What is older than the retention, or beyond the bound in bytes,
is forgotten; only that there was something is remembered.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping

from goldspan.collector_processor.gateway.splitting import Envelope, Group

_REMEMBERED = 100_000
_OVERHEAD = 120
"""Bytes that a span on the shelf takes beside its own."""


class Shelf:
    """Encoded spans by trace id. For one thread."""

    def __init__(self, *, retention: float, max_bytes: int) -> None:
        """Keep spans for so many seconds, and so many bytes of them."""
        self._retention = retention
        self.max_bytes = max_bytes
        self._by_trace: dict[bytes, list[tuple[int, Envelope, list[bytes]]]] = {}
        self._batches: deque[tuple[float, int, int, tuple[bytes, ...]]] = deque()
        self._number = 0
        self.unwanted: dict[bytes, None] = {}
        """Traces of which all sessions that are known are such that no golden wants."""
        self._forgotten: OrderedDict[bytes, bool] = OrderedDict()
        self.size = 0
        """Bytes of all spans, with an estimate of what holds them."""

    def add(self, envelope: Envelope, spans: Mapping[bytes, list[bytes]], now: float) -> None:
        """Put spans on the shelf, by trace id."""
        self._number += 1
        number, by_trace = self._number, self._by_trace
        size = 0
        for trace, encoded in spans.items():
            entry = (number, envelope, encoded)
            if trace in by_trace:
                by_trace[trace].append(entry)
            else:
                by_trace[trace] = [entry]
            size += sum(map(len, encoded)) + _OVERHEAD * len(encoded)
        self.size += size
        self._batches.append((now, number, size, tuple(spans)))

    def take(self, trace: bytes) -> list[Group]:
        """Take the spans of a trace off the shelf."""
        self.unwanted.pop(trace, None)
        return [Group(envelope, spans) for _, envelope, spans in self._by_trace.pop(trace, ())]

    def spans(self, trace: bytes) -> list[Group]:
        """Return the spans of a trace."""
        return [Group(envelope, spans) for _, envelope, spans in self._by_trace.get(trace, ())]

    def is_unwanted(self, trace: bytes) -> bool:
        """Tell whether the trace is known to belong to sessions that no golden wants."""
        return trace in self.unwanted

    def mark_unwanted(self, trace: bytes) -> None:
        """Note that all sessions that are known of a trace are such that no golden wants."""
        self.unwanted[trace] = None

    def forget_all_unwanted(self) -> None:
        """Take nothing for unwanted any more: the goldens are others."""
        self.unwanted.clear()

    def was_forgotten(self, trace: bytes) -> bool | None:
        """Tell whether spans of a trace were forgotten, and calls perhaps among them; none where nothing was."""
        return self._forgotten.get(trace)

    def expire(self, now: float) -> None:
        """Forget what is too old or too much."""
        while self._batches and (self._batches[0][0] + self._retention <= now or self.size > self.max_bytes):
            _, number, size, traces = self._batches.popleft()
            self.size -= size
            self._forget(number, traces)

    def _forget(self, number: int, traces: Iterable[bytes]) -> None:
        for trace in traces:
            entries = self._by_trace.get(trace)
            if entries is None or entries[0][0] > number:
                continue
            del entries[0]
            calls = trace in self.unwanted
            if not entries:
                del self._by_trace[trace]
                self.unwanted.pop(trace, None)
            self._forgotten[trace] = calls or self._forgotten.get(trace, False)
            if len(self._forgotten) > _REMEMBERED:
                self._forgotten.popitem(last=False)
