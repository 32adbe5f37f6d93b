"""Requests that wait for the worker: those of one trace wait for each other, and no other for them.

A trace of 100,000 spans that comes in many requests takes the worker seconds. What comes meanwhile is received next:

    waiting    trace A, 1 MB   trace A, 1 MB   trace A, 1 MB
    arrives    trace B, 1 kB                                   -> received behind the first of A

This is start-time fair queueing. A request begins where the one before it of its trace ends, in bytes, and not before
the one that is being received; the one that begins first is the next. Requests of many traces wait for none.

Where new traces come faster than they are received, that alone would never come to the second request of A. So the
one that waits longest is passed over by as many bytes as it has, and then is the next: no request waits more than
twice as long as it would in the order in which they came, but for one request.
"""

from __future__ import annotations

import heapq
import threading
from collections import OrderedDict
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
        self._waiting = OrderedDict[int, Arrival]()
        """All, in the order in which they came, by number."""
        self._heap: list[tuple[int, int]] = []
        """Where each request begins, and its number; of some that were taken, too."""
        self._ends: dict[bytes, int] = {}
        self._at = self._count = 0
        self._passed = 0
        """Bytes of requests that were taken since the one that waits longest is that."""

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, arrival: Arrival) -> bool:
        """Add one; tell whether it is alone."""
        with self._lock:
            self._count += 1
            self._waiting[self._count] = arrival
            if isinstance(arrival, ReceivedBody):
                begin = self._at
                if (trace := _only_trace(arrival)) is not None:
                    begin = max(begin, self._ends.pop(trace, 0))
                    self._ends[trace] = begin + _size(arrival)
                    if len(self._ends) > _MOST_ENDS:
                        self._ends = dict(islice(self._ends.items(), _MOST_ENDS // 2, None))
                heapq.heappush(self._heap, (begin, self._count))
            return len(self._waiting) == 1

    def take(self) -> Arrival:
        """Remove and return the next one."""
        with self._lock:
            number, is_oldest = self._next()
            arrival = self._waiting.pop(number)
            self._passed = 0 if is_oldest else self._passed + _size(arrival)
            if self._heap and self._heap[0][1] == number:
                self._at, _ = heapq.heappop(self._heap)
            if not self._waiting:
                self._at = 0
                self._heap.clear()
                self._ends.clear()
            elif len(self._heap) > 2 * len(self._waiting):
                self._heap = [one for one in self._heap if one[1] in self._waiting]
                heapq.heapify(self._heap)
            return arrival

    def waits_since(self) -> float | None:
        """Return when the next one was acknowledged; None where that is not known, or nothing waits."""
        with self._lock:
            arrival = self._waiting[self._next()[0]] if self._waiting else None
        return arrival.time if isinstance(arrival, ReceivedBody) else None

    def _next(self) -> tuple[int, bool]:
        """Return the number of the next one, and whether it waits longest."""
        oldest = next(iter(self._waiting))
        while self._heap and self._heap[0][1] not in self._waiting:
            heapq.heappop(self._heap)
        if not self._heap or self._passed >= _size(self._waiting[oldest]):
            return oldest, True
        number = self._heap[0][1]
        return number, number == oldest


def _size(arrival: Arrival) -> int:
    """Return the bytes of a request; 0 for what is done between requests."""
    return len(arrival.request.body) if isinstance(arrival, ReceivedBody) else 0


def _only_trace(received: ReceivedBody) -> bytes | None:
    """Return the trace of a request that, by its first and last span, has but one."""
    groups = [group.spans for group in received.groups if group.spans]
    if not groups:
        return None
    first = trace_id_of(groups[0][0])
    return first if first == trace_id_of(groups[-1][-1]) else None
