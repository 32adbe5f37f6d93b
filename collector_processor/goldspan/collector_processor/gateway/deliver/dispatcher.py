"""Delivery by several threads, with retries.

Requests of one signal and one tenant share a queue. After a failure the queue pauses, twice as long after each further
one or as long as the receiver asked for; then one request is tried before the others. A request is retried until it is
delivered or refused: https://opentelemetry.io/docs/specs/otlp/#failures
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from goldspan.collector_processor.gateway.deliver.retry import Backoff
from goldspan.collector_processor.gateway.interfaces import (
    DeliveryResult,
    Exporter,
    Headers,
    Refused,
    Request,
    Retry,
    Signal,
)
from goldspan.collector_processor.gateway.prometheus import DurationHistogram


@dataclass(eq=False, slots=True)
class PendingRequest:
    """A request that waits to be delivered. Its body may be on disk only until the attempt."""

    signal: Signal
    headers: Headers
    size: int
    body: bytes | None
    load: Callable[[], bytes | None] | None = None
    """Reads the body from disk, or returns None if it is gone there. None: the body is in memory only."""
    attempts: int = 0
    since: float = 0.0
    """When it was put into the queue, by the dispatcher's clock."""
    sources: object = None
    """What the sender notes once it was delivered."""

    def read_body(self) -> bytes | None:
        """Return the body, from disk if it is not in memory; None if it is gone."""
        return self.body if self.body is not None or self.load is None else self.load()


@dataclass(slots=True)
class _TenantQueue:
    waiting: deque[PendingRequest] = field(default_factory=deque[PendingRequest])
    busy: int = 0
    failures: int = 0
    resumes: float = 0.0


OnResult = Callable[[PendingRequest, DeliveryResult], object]
"""Called once for each request with its result, by the thread that delivered it."""


class Dispatcher:
    """Threads that deliver requests through an exporter."""

    def __init__(
        self,
        exporter: Exporter,
        on_result: OnResult,
        *,
        threads: int,
        max_memory: int,
        backoff: Backoff,
        now: Callable[[], float],
        random: Random,
    ) -> None:
        """Keep at most `max_memory` bytes of bodies in memory, except bodies that are nowhere else."""
        self._exporter = exporter
        self._on_result = on_result
        self._backoff = backoff
        self._now = now
        self._random = random
        self._max_memory = max_memory
        self._queues: dict[tuple[Signal, Headers], _TenantQueue] = {}
        self._changed = threading.Condition()
        self._closed = False
        self.waiting = 0
        """Requests that are not delivered yet."""
        self.waiting_bytes = 0
        self._in_memory = 0
        self.attempts = 0
        self.delays = DurationHistogram()
        """From `put` to the delivery or refusal of a request."""
        self.retries: dict[Signal, int] = dict.fromkeys(Signal, 0)
        self._threads = [
            threading.Thread(target=self._run, name=f"goldspan-delivery-{number}", daemon=True)
            for number in range(threads)
        ]

    @property
    def is_slow(self) -> bool:
        """More than a quarter of `max_memory` is in use."""
        return self._in_memory > self._max_memory // 4

    def start(self) -> None:
        """Start delivering."""
        for thread in self._threads:
            thread.start()

    def put(self, pending: PendingRequest) -> None:
        """Deliver a request later."""
        with self._changed:
            pending.since = self._now()
            if pending.body is not None:
                if pending.load is not None and self._in_memory + pending.size > self._max_memory:
                    pending.body = None
                else:
                    self._in_memory += pending.size
            self.waiting += 1
            self.waiting_bytes += pending.size
            self._queues.setdefault((pending.signal, pending.headers), _TenantQueue()).waiting.append(pending)
            self._changed.notify()

    def withdraw(self, pending: PendingRequest) -> bool:
        """Remove a request that is no longer needed; False if it is being delivered, or was."""
        with self._changed:
            queue = self._queues.get((pending.signal, pending.headers))
            if queue is None or pending not in queue.waiting:
                return False
            queue.waiting.remove(pending)
            self._remove(pending)
            return True

    def close(self, timeout: float) -> None:
        """Begin no further attempt, and wait at most `timeout` seconds for those that are being made."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        end = self._now() + timeout
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, end - self._now()))

    def _run(self) -> None:
        while (found := self._next()) is not None:
            queue, pending = found
            body = pending.read_body()
            if body is None:
                result: DeliveryResult = Refused("the body is no longer in the journal")
            else:
                result = self._exporter.deliver(Request(pending.signal, body, pending.headers))
            self._note_result(queue, pending, result)

    def _next(self) -> tuple[_TenantQueue, PendingRequest] | None:
        with self._changed:
            while not self._closed:
                now = self._now()
                soonest: float | None = None
                for key, queue in self._queues.items():
                    if not queue.waiting or (queue.failures and queue.busy):
                        continue
                    if queue.resumes <= now:
                        queue.busy += 1
                        self.attempts += 1
                        self._queues[key] = self._queues.pop(key)  # the other queues come first next time
                        return queue, queue.waiting.popleft()
                    soonest = min(queue.resumes, soonest or queue.resumes)
                self._changed.wait(None if soonest is None else max(0.0, soonest - now))
            return None

    def _note_result(self, queue: _TenantQueue, pending: PendingRequest, result: DeliveryResult) -> None:
        with self._changed:
            queue.busy -= 1
            if isinstance(result, Retry):
                pending.attempts += 1
                # Attempts that fail together count once.
                queue.failures += queue.resumes <= self._now() or not queue.failures
                self.retries[pending.signal] += 1
                pause = self._backoff.pause(queue.failures, result.after_seconds, self._random)
                queue.resumes = max(queue.resumes, self._now() + pause)
                queue.waiting.appendleft(pending)
                self._changed.notify_all()
            else:
                if queue.failures:  # all threads may take waiting requests again
                    self._changed.notify_all()
                queue.failures = 0
                queue.resumes = 0.0
                self.delays.add(self._now() - pending.since)
                self._remove(pending)
                if not queue.waiting and not queue.busy:
                    self._queues.pop((pending.signal, pending.headers), None)
        if not isinstance(result, Retry):
            self._on_result(pending, result)

    def _remove(self, pending: PendingRequest) -> None:
        self.waiting -= 1
        self.waiting_bytes -= pending.size
        if pending.body is not None:
            self._in_memory -= pending.size
