"""Delivery by several threads, with retries.

Requests of one signal and one tenant share a queue. After a failure the queue pauses, twice as long after each further
one or as long as the receiver asked for; then one request is tried before the others. A request is retried until it is
delivered or refused: https://opentelemetry.io/docs/specs/otlp/#failures
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

from goldspan.collector_processor.gateway.deliver.outages import OutageLog
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
from goldspan.collector_processor.gateway.otlp_responses import MAX_SHOWN
from goldspan.collector_processor.gateway.prometheus import DurationHistogram
from goldspan.collector_processor.gateway.threads import GuardedThread, OnFailure
from goldspan.collector_processor.http_client import describe


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
    moved: float = 0.0
    """When something was last delivered or refused, or, before that, when the first request came."""


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
        on_failure: OnFailure,
        outages: OutageLog | None = None,
    ) -> None:
        """Keep at most `max_memory` bytes of bodies in memory, except bodies that are nowhere else."""
        self._exporter = exporter
        self._on_result = on_result
        self._backoff = backoff
        self._now = now
        self._random = random
        self._on_failure = on_failure
        self._outages = outages
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
        self.threads = [GuardedThread("delivery", self._run, on_failure) for _ in range(threads)]

    @property
    def is_slow(self) -> bool:
        """More than a quarter of `max_memory` is in use."""
        return self._in_memory > self._max_memory // 4

    def start(self) -> None:
        """Start delivering."""
        for thread in self.threads:
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
            queue = self._queues.setdefault((pending.signal, pending.headers), _TenantQueue(moved=pending.since))
            queue.waiting.append(pending)
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
        for thread in self.threads:
            thread.join(max(0.0, end - self._now()))

    def stalled_seconds(self) -> Iterator[tuple[Signal, float]]:
        """Yield for each signal how long nothing was delivered or refused while requests wait; 0 if none waits."""
        stalled = dict.fromkeys(Signal, 0.0)
        with self._changed:
            now = self._now()
            for (signal, _), queue in self._queues.items():
                stalled[signal] = max(stalled[signal], now - queue.moved)
        yield from stalled.items()

    def _run(self) -> None:
        while (found := self._next()) is not None:
            queue, pending = found
            self._note_result(queue, pending, self._attempt(pending))

    def _attempt(self, pending: PendingRequest) -> DeliveryResult:
        """Make one attempt. What raises is reported and tried again: the request must stay in its queue."""
        try:
            body = pending.read_body()
            if body is None:
                return Refused("the body is no longer in the journal")
            result = self._exporter.deliver(Request(pending.signal, body, pending.headers))
        except BaseException as error:  # noqa: BLE001 - nothing may lose the request or end the thread
            self._on_failure("delivery", error)
            return Retry(None, describe(error)[:MAX_SHOWN])
        if self._outages is not None:
            self._outages.note(pending.signal, result, self.waiting, self.waiting_bytes)
        return result

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
                queue.moved = self._now()
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
