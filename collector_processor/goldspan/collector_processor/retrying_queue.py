"""A queue whose items are sent in batches from a thread of its own, and sent again if they were not taken.

    put(a, b, c)      ready: a b c
    send([a, b, c])   returns SendResult(retry=[b])      later: b, in 1 s, then in 2 s, 4 s, ...
    put(d)            ready: d      later: b             d does not wait for b
    send([d])         raises OSError: the receiver is away, so nothing is sent for 1 s, then for 2 s, 4 s, ...
    close(5.0)        everything is sent again while there is time; what is left is counted as dropped

`put` only queues: it never blocks and never raises. Each item is taken, replaced by a newer one of its name, or counted
as dropped, whatever the receiver does.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Generic, TypeVar

from urllib3.exceptions import HTTPError

from goldspan.collector_processor.daemon_threads import Timer, call_in_forked_children
from goldspan.collector_processor.emit.emitters import suppressed_instrumentation
from goldspan.collector_processor.export_outage import ExportOutage, without_credentials
from goldspan.collector_processor.http_client import backoff, describe, requests_end_by

_logger = logging.getLogger("goldspan")
_T = TypeVar("_T")

MAX_SHOWN = 200
"""Characters of an answer that are logged."""
_uniform = Random().uniform  # of its own: nobody's seeded numbers change by what is sent
_MIN_PAUSE = 0.01  # seconds between two attempts at the end
_MAX_RETRY_AFTER = 300.0
_MAX_REASONS = 20  # reasons that are logged at most
_MAX_KIND = 60  # characters of a reason, after the receiver's name, by which two are the same one


@dataclass(frozen=True, slots=True)
class SendResult(Generic[_T]):
    """The items of a batch that a receiver did not take."""

    retry: Sequence[_T] = ()
    """It may take them later."""
    rejected: Sequence[_T] = ()
    """It would reject them again."""
    reason: str = ""
    """Of the first of them."""
    is_away: bool = False
    """It takes nothing now, so the rest of the queue waits too."""
    asked_seconds: float | None = None
    """How long it asked to be left alone; None: it asked for nothing."""


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """How much waits, how much is sent at once, and when. Times are in seconds, sizes in the unit of `size_of`."""

    max_size: int
    """Of everything that waits or is on its way. Beyond it the oldest items are dropped."""
    max_batch: int
    """Items in one batch."""
    first_pause: float
    longest_pause: float
    """Before an item, or everything, is sent again; doubled each time."""
    max_batch_size: float = math.inf
    delay: float = 0.0
    """How long an item waits for others. A full batch does not."""
    patience: float = math.inf
    """How long an item is sent again."""


@dataclass(slots=True)
class _Waiting(Generic[_T]):
    item: _T
    key: Hashable
    size: int
    since: float
    attempts: int = 0
    due: float = 0.0


class RetryingQueue(Generic[_T]):
    """Sends what is put into it by `send`, from a thread of its own. Safe for use from any thread, survives forks."""

    def __init__(
        self,
        send: Callable[[Sequence[_T]], SendResult[_T]],
        limits: QueueLimits,
        *,
        what: str,
        target: str,
        size_of: Callable[[_T], int] = lambda _: 1,
        name_of: Callable[[_T], str] | None = None,
        on_dropped: Callable[[int, str], object] = lambda _count, _reason: None,
        on_closed: Callable[[], object] = lambda: None,
    ) -> None:
        """Send by `send`, which makes one attempt and may raise.

        A network's error means that the receiver is away; any other that it rejects the batch. `what` and `target`
        name the items and the receiver in the log. A newer item with the same name takes the place of one that waits.
        `on_dropped` is told how many items were dropped, and why in one word.
        """
        self._send = send
        self._limits = limits
        self._what = what
        self._target = without_credentials(target)
        self._size_of = size_of
        self._name_of = name_of
        self._on_dropped = on_dropped
        self._on_closed = on_closed
        self._closed = False  # nothing more is queued
        self._ended = False  # nothing more is sent
        self.delivered = 0
        self.dropped = Counter[str]()
        """Number of items, by reason: refused, expired, queue_full, shutdown, and what `drop` is given."""
        self._reset()
        # A forked child starts empty: its parent sends the parent's items, and locks and threads do not survive.
        call_in_forked_children(self._reset)

    def _reset(self) -> None:
        """Start with an empty queue: at first, and in a forked child."""
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._ready = OrderedDict[Hashable, _Waiting[_T]]()  # sent at the next opportunity
        self._later = OrderedDict[Hashable, _Waiting[_T]]()  # sent again when they are due
        self._size = 0  # of both, and of the batch that is being sent
        self._failures = 0
        self._resumes = 0.0  # when the receiver may be asked again
        self._logged = set[str]()
        self._outage: ExportOutage = ExportOutage(self._target, self._what, "sent again")
        self._timer: Timer = Timer(self._on_timer, f"goldspan-{self._what}")

    @property
    def size(self) -> int:
        """Size of the items that are neither delivered nor dropped."""
        return self._size

    def put(self, items: Iterable[_T]) -> None:
        """Queue items. After `close` they are dropped."""
        now = time.monotonic()
        key = self._name_of or id
        added = [_Waiting(item, key(item), self._size_of(item), now) for item in items]
        dropped: list[_Waiting[_T]] = []
        with self._lock:
            if not (closed := self._closed):
                for one in added:
                    self._add(one)
                dropped = self._trim()
            is_full = len(self._ready) >= self._limits.max_batch
        if closed:
            self._drop_at_end(added)
        elif added:
            self._drop(dropped, "queue_full", f"more wait than the limit of {self._limits.max_size:,}")
            self._timer.set_at_latest(max(self._resumes, now if is_full else now + self._limits.delay))

    def flush(self, seconds: float) -> bool:
        """Send everything that waits once, now. Returns whether nothing waits or is on its way then."""
        end = time.monotonic() + seconds
        if self._size > 0 and self._sending.acquire(timeout=max(0.0, seconds)):
            try:
                self._send_due(math.inf, end)
            finally:
                self._sending.release()
        return self._size <= 0

    def close(self, seconds: float) -> bool:
        """Send what waits for so long at most, then drop the rest. False if some were dropped, or may be."""
        end = time.monotonic() + seconds
        self._closed = True
        self._timer.set(None)  # from here on only this thread begins to send
        while not self.flush(max(0.0, end - time.monotonic())):
            now = time.monotonic()
            resumes = max(self._resumes, now + (self._limits.first_pause if self._later else _MIN_PAUSE))
            if resumes >= end:
                break
            time.sleep(resumes - now)
        with self._lock:
            left = [*self._ready.values(), *self._later.values()]
            sent = self._size <= 0
            self._ready.clear()
            self._later.clear()
            self._size -= sum(one.size for one in left)
            self._ended = True
        self._drop_at_end(left)
        self._on_closed()
        return sent

    def drop(self, count: int, reason: str, said: str, *, first: str = "") -> None:
        """Count items that are not sent, and log each reason once."""
        with self._lock:
            self.dropped[reason] += count
            kind = said[: len(self._target) + _MAX_KIND]
            is_new = kind not in self._logged and len(self._logged) < _MAX_REASONS
            if is_new:
                self._logged.add(kind)
        self._on_dropped(count, reason)
        if is_new:
            which = f"{self._what} ({first} the first)" if first else self._what
            _logger.warning("%d %s are dropped: %s; later ones for this reason are counted only", count, which, said)

    def _drop(self, dropped: Sequence[_Waiting[_T]], reason: str, said: str) -> None:
        if dropped:
            self.drop(len(dropped), reason, said, first=self._name_of(dropped[0].item) if self._name_of else "")

    def _drop_at_end(self, dropped: Sequence[_Waiting[_T]]) -> None:
        self._drop(dropped, "shutdown", f"{self._target} did not take them until the process ends")

    def _add(self, one: _Waiting[_T]) -> None:
        """Queue an item, in the place of one with its name."""
        before = self._ready.get(one.key) or self._later.pop(one.key, None)
        self._size += one.size - (0 if before is None else before.size)
        self._ready[one.key] = one

    def _trim(self) -> list[_Waiting[_T]]:
        """Take the oldest items beyond the limit out. One whose request is on its way stays."""
        dropped: list[_Waiting[_T]] = []
        while self._size > self._limits.max_size and (oldest := self._later or self._ready):
            dropped.append(oldest.popitem(last=False)[1])
            self._size -= dropped[-1].size
        return dropped

    def _on_timer(self) -> None:
        with self._sending:
            self._send_due(time.monotonic(), math.inf)
        with self._lock:
            due = 0.0 if self._ready else min((one.due for one in self._later.values()), default=None)
        if due is not None and not self._closed:
            self._timer.set_at_latest(max(self._resumes, due, time.monotonic()))

    def _send_due(self, due: float, end: float) -> None:
        """Send what is due by then, each item once, in batches that begin before `end`, until the receiver is away."""
        with self._lock:
            for key in [key for key, one in self._later.items() if one.due <= due]:
                self._ready[key] = self._later.pop(key)
        with requests_end_by(end):
            while time.monotonic() < end and (batch := self._take()):
                items = [one.item for one in batch]
                result = SendResult(retry=items, is_away=True)
                try:
                    result = self._attempt(items)
                finally:  # of an interrupt too
                    self._settle(batch, result)
                if result.is_away:
                    self._outage.failed(len(batch), result.reason)
                    self._failures += 1
                    pause = backoff(self._failures, self._limits.first_pause, self._limits.longest_pause, _uniform)
                    asked = result.asked_seconds
                    self._resumes = time.monotonic() + (pause if asked is None else min(asked, _MAX_RETRY_AFTER))
                    return
                self._failures, self._resumes = 0, 0.0
                if len(result.retry) + len(result.rejected) < len(batch):
                    self._outage.succeeded()

    def _take(self) -> list[_Waiting[_T]]:
        batch: list[_Waiting[_T]] = []
        size = 0
        with self._lock:
            while self._ready and len(batch) < self._limits.max_batch and size < self._limits.max_batch_size:
                batch.append(self._ready.popitem(last=False)[1])
                size += batch[-1].size
        return batch

    def _attempt(self, items: Sequence[_T]) -> SendResult[_T]:
        """Send items once. Never raises."""
        try:
            with suppressed_instrumentation():
                return self._send(items)
        except (HTTPError, OSError) as error:
            return SendResult(retry=items, reason=describe(error)[:MAX_SHOWN], is_away=True)
        except Exception as error:  # noqa: BLE001 - no reason to try again, or to end the thread
            return SendResult(rejected=items, reason=describe(error))

    def _settle(self, batch: Sequence[_Waiting[_T]], result: SendResult[_T]) -> None:
        """Forget the items of a batch that were taken or rejected, and put the others back."""
        now = time.monotonic()
        key = self._name_of or id
        retry, rejected = set(map(key, result.retry)), set(map(key, result.rejected))
        refused: list[_Waiting[_T]] = []
        expired: list[_Waiting[_T]] = []
        with self._lock:
            ended = self._ended
            for one in reversed(batch):  # those put back at the front keep their order
                if one.key in rejected:
                    refused.insert(0, one)
                elif one.key not in retry:
                    self.delivered += 1
                elif ended or now - one.since >= self._limits.patience:
                    expired.insert(0, one)
                elif one.key not in self._ready and one.key not in self._later:  # else a newer one takes its place
                    self._put_back(one, now, is_away=result.is_away)
                    continue
                self._size -= one.size
            trimmed = self._trim()
        self._drop(refused, "refused", f"{self._target} did not take them: {result.reason}")
        if ended:
            self._drop_at_end(expired)
        else:
            self._drop(expired, "expired", f"{self._target} did not take them in time: {result.reason}")
        self._drop(trimmed, "queue_full", f"more wait than the limit of {self._limits.max_size:,}")

    def _put_back(self, one: _Waiting[_T], now: float, *, is_away: bool) -> None:
        """Queue an item again: as the oldest if nothing can be sent, else for later, so that no other waits for it."""
        if is_away:
            self._ready[one.key] = one
            self._ready.move_to_end(one.key, last=False)
        else:
            one.attempts += 1
            one.due = now + backoff(one.attempts, self._limits.first_pause, self._limits.longest_pause, _uniform)
            self._later[one.key] = one
