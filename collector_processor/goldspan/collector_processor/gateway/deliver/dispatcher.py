"""Delivery by several threads, with retries.

Requests of one signal and one tenant share a queue, and small ones that wait there leave together: the bytes of two
OTLP requests, one after the other, are one request. After a failure the queue pauses, twice as long after each further
one or as long as the receiver asked for; then one request is tried before the others. A request is retried until it is
delivered or refused: https://opentelemetry.io/docs/specs/otlp/#failures. What is refused together is sent again apart.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from goldspan.collector_processor.export_outage import Outage
from goldspan.collector_processor.gateway import interfaces
from goldspan.collector_processor.gateway.journal.body_log import BodyGoneError
from goldspan.collector_processor.gateway.settings.sections import Backoff
from goldspan.collector_processor.http_client import describe
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.collector_processor.serving.admin import DurationHistogram
from goldspan.collector_processor.serving.process import GuardedThread, OnFailure

_logger = logging.getLogger("goldspan.gateway")
_PAUSE = 60.0  # seconds between two warnings of one kind about one destination


@dataclass(eq=False, slots=True)
class PendingRequest:
    """A request that waits to be delivered. Its body may be on disk only until the attempt."""

    signal: Signal
    headers: interfaces.Headers
    size: int
    body: bytes | None
    load: Callable[[], bytes] | None = None
    """Reads the body from disk; raises `BodyGoneError`, or `OSError`: then it is tried again. None: it is in memory."""
    attempts: int = 0
    since: float = 0.0
    """When it was put into the queue, by the dispatcher's clock."""
    sources: object = None
    """What the sender notes once it was delivered."""
    alone: bool = False
    """It leaves by itself: together with others it was refused, or could not be read."""

    def read_body(self) -> bytes:
        """Return the body, from disk if it is not in memory. Raises `BodyGoneError`, or `OSError`: then try again."""
        if self.body is not None:
            return self.body
        if self.load is None:
            raise BodyGoneError("the request was in memory only")
        return self.load()


@dataclass(slots=True)
class _TenantQueue:
    waiting: deque[PendingRequest] = field(default_factory=deque[PendingRequest])
    busy: int = 0
    failures: int = 0
    resumes: float = 0.0
    moved: float = 0.0  # when something was last delivered or refused, or, before that, when the first request came


@dataclass(slots=True)
class _Destination:
    outage: Outage = field(default_factory=lambda: Outage(_PAUSE))
    next_refusal: float = 0.0  # when the next warning about refused data may be written


class OutageLog:
    """Logs when a destination stops and starts taking requests. Safe for use from any thread."""

    def __init__(self, addresses: Mapping[Signal, str], now: Callable[[], float]) -> None:
        """Take where each signal is sent; signals with one address are one destination."""
        self._addresses = addresses
        self._now = now
        self._destinations: dict[str, _Destination] = {}
        self._lock = threading.Lock()

    def note(self, signal: Signal, result: interfaces.DeliveryResult, waiting: int, waiting_bytes: int) -> None:
        """Note the result of an attempt, and how many requests and bytes wait after it."""
        address = self._addresses.get(signal, "")
        now = self._now()
        with self._lock:
            destination = self._destinations.setdefault(address, _Destination())
            if isinstance(result, interfaces.Retry):
                if destination.outage.begins(now):
                    _logger.warning(
                        "the next receiver does not take requests: they wait and are sent again",
                        extra={"address": address, "error": result.reason},
                    )
                return
            if (seconds := destination.outage.ends(now)) is not None:
                _logger.info(
                    "the next receiver takes requests again",
                    extra={
                        "address": address,
                        "seconds": round(seconds, 1),
                        "waiting_requests": waiting,
                        "waiting_bytes": waiting_bytes,
                    },
                )
            if isinstance(result, interfaces.Refused):
                refused = result.reason
            else:
                refused = f"{result.rejected} rejected: {result.message}" if result.rejected else ""
            if refused and now >= destination.next_refusal:
                destination.next_refusal = now + _PAUSE
                _logger.warning(
                    "the next receiver refuses data for good; see the counters and dead letters for all of it",
                    extra={"address": address, "signal": signal.value, "error": refused},
                )


OnResult = Callable[[Sequence[PendingRequest], interfaces.DeliveryResult], object]
"""Called once for each request with its result and those that left with it, by the thread that delivered them."""


class Dispatcher:
    """Threads that deliver requests through an exporter."""

    def __init__(
        self,
        exporter: interfaces.Exporter,
        on_result: OnResult,
        *,
        threads: int,
        max_memory: int,
        backoff: Backoff,
        now: Callable[[], float],
        random: Random,
        on_failure: OnFailure,
        outages: OutageLog | None = None,
        batch_bytes: int = 0,
    ) -> None:
        """Keep at most `max_memory` bytes of bodies in memory, except bodies that are nowhere else.

        Requests leave together as long as they have at most `batch_bytes`; 0: each by itself.
        `on_failure` is told what raises. A body that cannot be read from disk is tried again later, after others.
        """
        self._exporter = exporter
        self._on_result = on_result
        self._unreadable: list[tuple[float, PendingRequest]] = []
        """Requests whose bodies could not be read, and when to try again."""
        self._backoff = backoff
        self._now = now
        self._random = random
        self._on_failure = on_failure
        self._outages = outages
        self._max_memory = max_memory
        self._batch_bytes = batch_bytes
        self._queues: dict[tuple[Signal, interfaces.Headers], _TenantQueue] = {}
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

    def put(self, *requests: PendingRequest) -> None:
        """Deliver requests later."""
        with self._changed:
            now = self._now()
            for pending in requests:
                pending.since = now
                if pending.body is not None:
                    if pending.load is not None and self._in_memory + pending.size > self._max_memory:
                        pending.body = None
                    else:
                        self._in_memory += pending.size
                self.waiting += 1
                self.waiting_bytes += pending.size
                queue = self._queues.setdefault((pending.signal, pending.headers), _TenantQueue(moved=now))
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
            queue, together = found
            result = self._attempt(together)
            if result is None:
                with self._changed:
                    queue.busy -= 1
                    for pending in together:
                        pending.alone = len(together) > 1
                        pending.attempts += 1
                        pause = self._backoff.pause(pending.attempts, None, self._random)
                        self._unreadable.append((self._now() + pause, pending))
                    self._changed.notify()
            else:
                self._note_result(queue, together, result)

    def _attempt(self, together: Sequence[PendingRequest]) -> interfaces.DeliveryResult | None:
        """Make one attempt; None if a body cannot be read now. What raises is reported and tried again."""
        signal, headers = together[0].signal, together[0].headers
        try:
            body = b"".join([pending.read_body() for pending in together])
        except BodyGoneError as error:
            self._on_failure("journal", error)
            return interfaces.Refused(f"the body can no longer be read: {error}")
        except BaseException as error:  # noqa: BLE001 - nothing may lose the request or end the thread
            self._on_failure("journal", error)
            return None
        try:
            result = self._exporter.deliver(interfaces.ExportRequest(signal, body, headers))
        except BaseException as error:  # noqa: BLE001 - as above
            self._on_failure("delivery", error)
            return interfaces.Retry(None, describe(error)[: interfaces.MAX_SHOWN])
        if self._outages is not None and not (isinstance(result, interfaces.Refused) and len(together) > 1):
            self._outages.note(signal, result, self.waiting, self.waiting_bytes)
        return result

    def _next(self) -> tuple[_TenantQueue, list[PendingRequest]] | None:
        with self._changed:
            while not self._closed:
                now = self._now()
                soonest = self._put_back(now)
                for key, queue in self._queues.items():
                    if not queue.waiting or (queue.failures and queue.busy):
                        continue
                    if queue.resumes <= now:
                        queue.busy += 1
                        self.attempts += 1
                        self._queues[key] = self._queues.pop(key)  # the other queues come first next time
                        together = self._taken(queue)
                        if any(one.waiting for one in self._queues.values()):
                            self._changed.notify()
                        return queue, together
                    soonest = min(queue.resumes, soonest or queue.resumes)
                self._changed.wait(None if soonest is None else max(0.0, soonest - now))
            return None

    def _taken(self, queue: _TenantQueue) -> list[PendingRequest]:
        """Take the request that waited longest, and of those behind it what leaves with it."""
        waiting = queue.waiting
        together = [waiting.popleft()]
        size = together[0].size
        while waiting and not (queue.failures or together[0].alone or waiting[0].alone):
            size += waiting[0].size
            if size > self._batch_bytes:
                break
            together.append(waiting.popleft())
        return together

    def _put_back(self, now: float) -> float | None:
        """Put requests back into their queues if it is time to read them again; return when the next one is due."""
        due = [pending for when, pending in self._unreadable if when <= now]
        if due:
            self._unreadable = [(when, pending) for when, pending in self._unreadable if when > now]
            for pending in due:
                queue = _TenantQueue(moved=pending.since)
                self._queues.setdefault((pending.signal, pending.headers), queue).waiting.append(pending)
            self._changed.notify_all()
        return min((when for when, _ in self._unreadable), default=None)

    def _note_result(
        self, queue: _TenantQueue, together: Sequence[PendingRequest], result: interfaces.DeliveryResult
    ) -> None:
        signal, headers = together[0].signal, together[0].headers
        is_apart = isinstance(result, interfaces.Refused) and len(together) > 1
        with self._changed:
            queue.busy -= 1
            if is_apart or isinstance(result, interfaces.Retry):
                queue.waiting.extendleft(reversed(together))
                for pending in together:
                    pending.alone = pending.alone or is_apart
                    pending.attempts += 1
            if isinstance(result, interfaces.Retry):
                # Attempts that fail together count once.
                queue.failures += queue.resumes <= self._now() or not queue.failures
                self.retries[signal] += 1
                pause = self._backoff.pause(queue.failures, result.after_seconds, self._random)
                queue.resumes = max(queue.resumes, self._now() + pause)
                self._changed.notify_all()
            elif not is_apart:
                if queue.failures:  # all threads may take waiting requests again
                    self._changed.notify_all()
                queue.failures = 0
                queue.resumes = 0.0
                queue.moved = self._now()
                for pending in together:
                    self.delays.add(queue.moved - pending.since)
                    self._remove(pending)
                if not queue.waiting and not queue.busy:
                    self._queues.pop((signal, headers), None)
        if not (is_apart or isinstance(result, interfaces.Retry)):
            self._on_result(together, result)

    def _remove(self, pending: PendingRequest) -> None:
        self.waiting -= 1
        self.waiting_bytes -= pending.size
        if pending.body is not None:
            self._in_memory -= pending.size
