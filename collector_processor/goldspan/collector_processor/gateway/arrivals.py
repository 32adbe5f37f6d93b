"""Requests that wait for the worker: those of one trace wait for each other, and no other for them.

A trace of 100,000 spans that comes in many requests takes the worker seconds. What comes meanwhile is received next:

    waiting    trace A, 1 MB   trace A, 1 MB   trace A, 1 MB
    arrives    trace B, 1 kB                                   -> received behind the first of A

This is start-time fair queueing. A request begins where the one before it of its trace ends, in bytes, and not before
the one that is being received; the one that begins first is the next. Requests of many traces wait for none.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable
from itertools import islice

from goldspan.collector_processor.encoded_spans.span_groups import trace_id_of
from goldspan.collector_processor.gateway.worker import ReceivedBody

Arrival = ReceivedBody | Callable[[float], object]
"""A request, or what is done once the requests before it were received."""

_MOST_ENDS = 10_000
"""How many traces are remembered by where their last request ends; then the older half is forgotten."""


class Arrivals:
    """For the threads of receivers, and one that takes."""

    def __init__(self) -> None:
        """Begin empty."""
        self._lock = threading.Lock()
        self._heap: list[tuple[int, int, Arrival]] = []
        self._ends: dict[bytes, int] = {}
        self._at = self._count = 0

    def __len__(self) -> int:
        return len(self._heap)

    def put(self, arrival: Arrival) -> bool:
        """Add one; tell whether it is alone."""
        with self._lock:
            begin = self._at
            if not isinstance(arrival, ReceivedBody):
                begin = max((begin for begin, *_ in self._heap), default=begin)
            elif (trace := _only_trace(arrival)) is not None:
                begin = max(begin, self._ends.pop(trace, 0))
                self._ends[trace] = begin + len(arrival.request.body)
                if len(self._ends) > _MOST_ENDS:
                    self._ends = dict(islice(self._ends.items(), _MOST_ENDS // 2, None))
            self._count += 1
            heapq.heappush(self._heap, (begin, self._count, arrival))
            return len(self._heap) == 1

    def take(self) -> Arrival:
        """Remove and return the next one."""
        with self._lock:
            self._at, _, arrival = heapq.heappop(self._heap)
            if not self._heap:
                self._at = 0
                self._ends.clear()
            return arrival

    def waits_since(self) -> float | None:
        """Return when the next one was acknowledged; None where that is not known, or nothing waits."""
        with self._lock:
            arrival = self._heap[0][2] if self._heap else None
        return arrival.time if isinstance(arrival, ReceivedBody) else None


def _only_trace(received: ReceivedBody) -> bytes | None:
    """Return the trace of a request that, by its first and last span, has but one."""
    groups = [group.spans for group in received.groups if group.spans]
    if not groups:
        return None
    first = trace_id_of(groups[0][0])
    return first if first == trace_id_of(groups[-1][-1]) else None
