"""Delivering what leaves: attempts by several threads, and patience with a receiver that is away.

Requests of one signal and one tenant make a lane. A lane whose receiver does not answer rests, twice as long after each
failure, or as long as the receiver asked for; then one request tries the way for the others. Nothing is given up here:
what must not be tried again was refused, and says so.
https://opentelemetry.io/docs/specs/otlp/#failures
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from goldspan.collector_processor.gateway.delays import Delays
from goldspan.collector_processor.gateway.interfaces import (
    DeliveryResult,
    Exporter,
    Headers,
    Refused,
    Request,
    Retry,
    Signal,
)

_LONGEST_WISH = 3600.0
"""Seconds that a receiver may ask to be left alone."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long a lane rests after failures, in seconds."""

    initial: float = 1.0
    longest: float = 60.0

    def after(self, failures: int, random: Random) -> float:
        """Return a time around twice the last one: from half of it, so that gateways do not return all at once."""
        return min(self.longest, self.initial * 2.0 ** min(failures - 1, 30)) * random.uniform(0.5, 1.0)


@dataclass(eq=False, slots=True)
class PendingRequest:
    """A request that waits to be delivered. Its body may be left on disk until it is its turn."""

    signal: Signal
    headers: Headers
    size: int
    body: bytes | None
    load: Callable[[], bytes | None] | None = None
    """Reads the body back; none where it is nowhere else. A body that is gone gives none."""
    attempts: int = 0
    since: float = 0.0
    """When it was first to be delivered, by the dispatcher's clock."""
    contents: object = None
    """What it stands for, for whoever sent it."""


@dataclass(slots=True)
class _TenantQueue:
    waiting: deque[PendingRequest] = field(default_factory=deque[PendingRequest])
    busy: int = 0
    failures: int = 0
    resumes: float = 0.0


OnOutcome = Callable[[PendingRequest, DeliveryResult], object]
"""Is told what came of a parcel, by the thread that delivered it; of each parcel once."""


class Dispatcher:
    """Threads that deliver parcels through an outlet."""

    def __init__(
        self,
        outlet: Exporter,
        on_outcome: OnOutcome,
        *,
        threads: int,
        max_memory: int,
        backoff: Backoff,
        now: Callable[[], float],
        random: Random,
    ) -> None:
        """Keep bodies of so many bytes in memory, as far as they can be read back."""
        self._outlet = outlet
        self._on_outcome = on_outcome
        self._backoff = backoff
        self._now = now
        self._random = random
        self._max_memory = max_memory
        self._lanes: dict[tuple[Signal, Headers], _TenantQueue] = {}
        self._changed = threading.Condition()
        self._closed = False
        self.waiting = 0
        """Parcels that are not delivered yet."""
        self.waiting_bytes = 0
        self._in_memory = 0
        self.attempts = 0
        self.delays = Delays()
        """From when a parcel could leave to when it was delivered or refused."""
        self.retries: dict[Signal, int] = dict.fromkeys(Signal, 0)
        self._threads = [
            threading.Thread(target=self._run, name=f"goldspan-delivery-{number}", daemon=True)
            for number in range(threads)
        ]

    @property
    def is_slow(self) -> bool:
        """More than a quarter of what may be in memory waits there."""
        return self._in_memory > self._max_memory // 4

    def start(self) -> None:
        """Start delivering."""
        for thread in self._threads:
            thread.start()

    def put(self, parcel: PendingRequest) -> None:
        """Deliver a parcel some time from now."""
        with self._changed:
            parcel.since = self._now()
            if parcel.body is not None:
                if parcel.load is not None and self._in_memory + parcel.size > self._max_memory:
                    parcel.body = None
                else:
                    self._in_memory += parcel.size
            self.waiting += 1
            self.waiting_bytes += parcel.size
            self._lanes.setdefault((parcel.signal, parcel.headers), _TenantQueue()).waiting.append(parcel)
            self._changed.notify()

    def take_back(self, parcel: PendingRequest) -> bool:
        """Take a parcel back that is no longer needed; False if it is under way, or was."""
        with self._changed:
            lane = self._lanes.get((parcel.signal, parcel.headers))
            if lane is None or parcel not in lane.waiting:
                return False
            lane.waiting.remove(parcel)
            self._gone(parcel)
            return True

    def close(self, timeout: float) -> None:
        """Begin no attempt any more, and wait so long for those that are under way."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        end = self._now() + timeout
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, end - self._now()))

    def _run(self) -> None:
        while (found := self._next()) is not None:
            lane, parcel = found
            body = parcel.body if parcel.body is not None or parcel.load is None else parcel.load()
            if body is None:
                outcome: DeliveryResult = Refused("the body is no longer in the journal")
            else:
                outcome = self._outlet.deliver(Request(parcel.signal, body, parcel.headers))
            self._came_of(lane, parcel, outcome)

    def _next(self) -> tuple[_TenantQueue, PendingRequest] | None:
        with self._changed:
            while not self._closed:
                now = self._now()
                soonest: float | None = None
                for key, lane in self._lanes.items():
                    if not lane.waiting or (lane.failures and lane.busy):
                        continue
                    if lane.resumes <= now:
                        lane.busy += 1
                        self.attempts += 1
                        self._lanes[key] = self._lanes.pop(key)  # the others come first next time
                        return lane, lane.waiting.popleft()
                    soonest = min(lane.resumes, soonest or lane.resumes)
                self._changed.wait(None if soonest is None else max(0.0, soonest - now))
            return None

    def _came_of(self, lane: _TenantQueue, parcel: PendingRequest, outcome: DeliveryResult) -> None:
        with self._changed:
            lane.busy -= 1
            if isinstance(outcome, Retry):
                parcel.attempts += 1
                lane.failures += lane.resumes <= self._now() or not lane.failures  # once for all that were under way
                self.retries[parcel.signal] += 1
                wish = outcome.after_seconds
                rest = self._backoff.after(lane.failures, self._random) if wish is None else min(wish, _LONGEST_WISH)
                lane.resumes = max(lane.resumes, self._now() + rest)
                lane.waiting.appendleft(parcel)
                self._changed.notify_all()
            else:
                if lane.failures:  # what waits may go by all threads again; else each was woken for one when it came
                    self._changed.notify_all()
                lane.failures = 0
                lane.resumes = 0.0
                self.delays.add(self._now() - parcel.since)
                self._gone(parcel)
                if not lane.waiting and not lane.busy:
                    self._lanes.pop((parcel.signal, parcel.headers), None)
        if not isinstance(outcome, Retry):
            self._on_outcome(parcel, outcome)

    def _gone(self, parcel: PendingRequest) -> None:
        self.waiting -= 1
        self.waiting_bytes -= parcel.size
        if parcel.body is not None:
            self._in_memory -= parcel.size
