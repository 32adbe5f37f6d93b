"""The inside of the gateway: from acknowledged requests through the engine to what leaves.

    accept --> journal --> queue --> one thread: stage, commits --> dispatcher --> outlet
                                        ^                              |
                                        +----------- outcomes ---------+

Receivers' threads only write the body down and put it into the queue; one thread does all that has state.
"""

from __future__ import annotations

import functools
import logging
import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

from goldspan.collector_processor.gateway.deliver.dispatcher import Dispatcher, PendingRequest
from goldspan.collector_processor.gateway.encoded_spans import SpanGroup, split_request
from goldspan.collector_processor.gateway.interfaces import (
    Accepted,
    AcceptResult,
    Busy,
    DeliveryResult,
    Exporter,
    Rejected,
    Request,
    Sample,
    Signal,
)
from goldspan.collector_processor.gateway.journal.body_log import LogEntry, LogFullError
from goldspan.collector_processor.gateway.journal.journal import Journal, RecoveredState
from goldspan.collector_processor.gateway.settings.pipeline_settings import PipelineSettings
from goldspan.collector_processor.gateway.worker import Worker, registry_for
from goldspan.collector_processor.sinks.score_exporter import Feed
from goldspan.scoring.goldens import GoldenIndex

# What the inside of the gateway counts, as samples for `/metrics`.

_NONE: Mapping[str, str] = {}


def samples(pipeline: GatewayPipeline) -> Iterator[Sample]:
    """Yield one sample after another; each name begins with `goldspan_`."""
    stage, dispatcher = pipeline.stage, pipeline.dispatcher
    for name, label, counter in (
        ("received_requests", "signal", pipeline.received),
        ("received_bytes", "signal", pipeline.received_bytes),
        ("turned_away_requests", "reason", pipeline.turned_away),
        ("delivered_requests", "signal", stage.outbox.delivered),
        ("refused_requests", "signal", stage.outbox.refused),
        ("rejected_items", "signal", stage.outbox.rejected),
        ("delivery_retries", "signal", dispatcher.retries),
        ("released_early_spans", "reason", stage.released_early),
        ("calls_not_evaluated", "reason", stage.coverage.reasons),
        ("problems", "code", stage.problems),
        ("failures", "where", pipeline.failures),
    ):
        for value, count in list(counter.items()):
            yield f"goldspan_{name}_total", {label: str(value)}, count
    for (level, result), count in list(stage.coverage.results.items()):
        yield "goldspan_results_total", {"level": level, "label": result}, count
    tenants = stage.tenants
    stats = [tenant.engine.stats for tenant in tenants]
    seen, never_seen = stage.coverage.counts()
    letters = stage.outbox.dead_letters
    for name, amount in (
        ("delivery_attempts_total", dispatcher.attempts),
        ("waiting_requests", dispatcher.waiting),
        ("waiting_bytes", dispatcher.waiting_bytes),
        ("backlog_bytes", pipeline.backlog),
        ("journal_bytes", pipeline.journal_bytes),
        ("journal_max_bytes", 0 if pipeline.settings.journal is None else pipeline.settings.journal_max_bytes),
        ("open_bodies", len(stage.ledger)),
        ("held_spans", sum(tenant.held_spans for tenant in tenants)),
        ("held_bytes", sum(tenant.held_bytes for tenant in tenants)),
        ("shelf_bytes", stage.shelf_bytes),
        ("tenants", len(tenants)),
        ("evicted_tenants_total", stage.evicted_tenants),
        ("read_spans_total", sum(one.spans for one in stats)),
        ("repeated_spans_total", sum(one.repeated for one in stats)),
        ("late_records_total", sum(one.late for one in stats)),
        ("evicted_sessions_total", sum(one.evicted_sessions for one in stats)),
        ("sessions_without_golden_total", stage.sessions_without_golden),
        ("goldens_seen", seen),
        ("goldens_never_seen", never_seen),
        ("dead_letters_total", 0 if letters is None else letters.written),
        ("dead_letters_dropped_total", 0 if letters is None else letters.dropped),
    ):
        yield f"goldspan_{name}", _NONE, amount
    for sink, exporter in pipeline.feed.exporters.items():
        yield "goldspan_sink_waiting_scores", {"sink": sink}, exporter.waiting
        yield "goldspan_sink_scores_total", {"sink": sink, "outcome": "delivered"}, exporter.delivered
        yield "goldspan_sink_scores_total", {"sink": sink, "outcome": "dropped"}, exporter.dropped
    yield from dispatcher.delays.samples("goldspan_delivery_delay_seconds")


_logger = logging.getLogger("goldspan.gateway")
_LONGEST_FAREWELL = 5.0
"""Seconds that scores for other back-ends may delay a shutdown."""
_TICK = 0.25
"""Seconds between looks at what is due."""
_SOON, _LATER = 1.0, 5.0
"""Seconds after which a client should try again: when the queue is long, when the disk is full."""


def steady_clock() -> Callable[[], float]:
    """Return a clock that reads the wall clock once and then never jumps."""
    offset = time.time() - time.monotonic()
    return lambda: time.monotonic() + offset


class GatewayPipeline:
    """An `Intake` that scores what passes and sends it through an outlet."""

    def __init__(
        self,
        goldens: GoldenIndex,
        outlet: Exporter,
        settings: PipelineSettings | None = None,
        *,
        feed: Feed | None = None,
        now: Callable[[], float] | None = None,
        random: Random | None = None,
    ) -> None:
        """Open the journal and start the threads; results go to `feed` as well.

        Raises `OSError` where the journal's folder cannot be used.
        """
        self.feed = feed or Feed({})
        self.settings = settings or PipelineSettings()
        self._now = now or steady_clock()
        random = random or Random()
        self._journal: Journal | None = None
        recovered: RecoveredState | None = None
        if self.settings.journal is not None:
            self._journal = Journal(
                self.settings.journal,
                max_bytes=self.settings.journal_max_bytes,
                full_sync=self.settings.journal_sync == "full",
            )
            recovered = self._journal.recover(self._now() - self.settings.engine.trace_retention)
            for problem in recovered.problems:
                _logger.warning("%s", problem)
        self.received = Counter[Signal]()
        self.received_bytes = Counter[Signal]()
        self.turned_away = Counter[str]()
        self.failures = Counter[str]()
        self._numbers = 0
        self._lock = threading.Lock()
        self._backlog = 0
        self._closing = False
        self._stopped = threading.Event()
        self._queue = queue.SimpleQueue[Callable[[float], object] | None]()
        self._outcomes = deque[tuple[PendingRequest, DeliveryResult]]()
        """Looked at beside other work and at each tick: nothing waits for them, so that nobody is woken for them."""
        self._logged: set[tuple[str, str]] = set()
        self.dispatcher = Dispatcher(
            outlet,
            self._came_of,
            threads=self.settings.deliveries,
            max_memory=self.settings.max_memory,
            backoff=self.settings.backoff,
            now=time.monotonic,
            random=random,
        )
        self.stage = Worker(
            goldens,
            self.settings,
            registry_for(goldens, self.settings),
            journal=self._journal,
            post=self.dispatcher,
            instance=f"{random.getrandbits(128):032x}",
            on_failure=self._failed,
            on_results=self.feed.take,
        )
        if recovered is not None:
            self.stage.problems["journal_damaged"] += len(recovered.problems)
            self._queue.put(lambda now: self._recover(recovered, now))
        self._thread = threading.Thread(target=self._run, name="goldspan-engine", daemon=True)
        self.dispatcher.start()
        self._thread.start()

    def accept(self, request: Request) -> AcceptResult:
        """Keep a request; returns once that is durable."""
        if self._closing:
            return self._away("shutting_down", _SOON, "the gateway is shutting down")
        groups = split_request(request.body)
        if groups is None:
            self.turned_away["broken"] += 1
            return Rejected(f"found no {request.signal.value} request in the {len(request.body):,} bytes of the body")
        size = len(request.body)
        with self._lock:
            if self._backlog and self._backlog + size > self.settings.max_backlog:
                return self._away("backlog", _SOON, "more came in than could be worked on")
            self._backlog += size
        receipt, entry = self._keep(request)
        if entry is None and not isinstance(receipt, Accepted):
            with self._lock:
                self._backlog -= size
            return receipt
        with self._lock:
            self._numbers += 1
            number = entry.number if entry is not None else self._numbers
            self.received[request.signal] += 1
            self.received_bytes[request.signal] += size
        self._queue.put(lambda now: self._take(number, request, groups, entry, now))
        return receipt

    def drain(self, timeout_seconds: float) -> bool:
        """Take in nothing more, hand out and deliver what there is, and stop.

        With a journal, runs that are open are not judged as if they were over: the next process goes on with them.
        """
        end = time.monotonic() + timeout_seconds
        self._closing = True
        flushed = threading.Event()

        def flush(now: float) -> None:
            self.stage.flush(now, end_of_input=self._journal is None)
            flushed.set()

        self._queue.put(flush)
        flushed.wait(max(0.0, end - time.monotonic()))
        while self.dispatcher.waiting and time.monotonic() < end:
            time.sleep(0.02)
        self.feed.close(min(_LONGEST_FAREWELL, max(0.0, end - time.monotonic())))
        everything = flushed.is_set() and not self.dispatcher.waiting
        self.dispatcher.close(max(0.0, end - time.monotonic()))
        self._queue.put(None)
        self._thread.join(max(1.0, end - time.monotonic()))
        if self._journal is not None and not self._thread.is_alive():
            self._journal.close()
        return everything

    def reload_goldens(self, goldens: GoldenIndex) -> None:
        """Judge by these goldens from now on; what is open is judged anew once something new comes for it."""
        self._queue.put(lambda _: self.stage.use_goldens(goldens))

    def coverage(self) -> Mapping[str, Any]:
        """Return which goldens were seen and which never, as JSON values."""
        return self.stage.document()

    def metrics(self) -> Iterable[Sample]:
        """Return what was counted since the start."""
        return samples(self)

    @property
    def backlog(self) -> int:
        """Bytes that were accepted and not looked at yet."""
        return self._backlog

    @property
    def journal_bytes(self) -> int:
        """Bytes on disk."""
        return 0 if self._journal is None else self._journal.size

    def _keep(self, request: Request) -> tuple[AcceptResult, LogEntry | None]:
        if self._journal is None:
            waiting = self.dispatcher.waiting_bytes
            if waiting and waiting + len(request.body) > self.settings.max_memory:
                return self._away("full", _LATER, "too much waits to be delivered"), None
            return Accepted(), None
        try:
            return Accepted(), self._journal.append(request, self._now())
        except LogFullError:
            return self._away("full", _LATER, "too much waits on disk to be delivered"), None
        except OSError as error:
            self._failed("journal", error)
            return self._away("journal_failed", _LATER, f"the journal cannot be written: {error}"), None

    def _away(self, why: str, seconds: float, reason: str) -> Busy:
        self.turned_away[why] += 1
        return Busy(seconds, reason)

    def _take(
        self, number: int, request: Request, groups: Sequence[SpanGroup], entry: LogEntry | None, now: float
    ) -> None:
        try:
            self.stage.take(number, request, groups, entry, now)
        except Exception as error:  # noqa: BLE001 - what cannot be scored is forwarded all the same
            self._failed("engine", error)
            self.stage.pass_on(number, request, entry, now)
        finally:
            with self._lock:
                self._backlog -= len(request.body)

    def _recover(self, found: RecoveredState, now: float) -> None:
        journal = self._journal
        assert journal is not None
        for _ in self.stage.restore(found, now):
            self.stage.tick(self._now())
        for entry in found.bodies:
            try:
                body = journal.body(entry)
            except OSError as error:
                self._failed("journal", error)
                continue
            request = Request(entry.signal, body, entry.headers)
            try:
                groups = split_request(body) or []
                self.stage.take(entry.number, request, groups, entry, now, found.parts.get(entry.number))
            except Exception as error:  # noqa: BLE001 - as in `_take`
                self._failed("engine", error)
                self.stage.pass_on(entry.number, request, entry, now)

    def _came_of(self, parcel: PendingRequest, delivery: DeliveryResult) -> None:
        self._outcomes.append((parcel, delivery))

    def _run(self) -> None:
        due = 0.0
        while True:
            try:
                work = self._queue.get(timeout=_TICK)
            except queue.Empty:
                work = _nothing
            now = self._now()
            if work is None:
                break
            self._do(work, now)
            self._note_outcomes(now)
            if now >= due:
                self._do(self.stage.tick, now)
                due = now + _TICK
        self._note_outcomes(self._now())
        self._do(self.stage.commit, self._now())
        self._stopped.set()

    def _note_outcomes(self, now: float) -> None:
        while self._outcomes:
            parcel, delivery = self._outcomes.popleft()
            self._do(functools.partial(self.stage.outbox.outcome, parcel, delivery), now)

    def _do(self, work: Callable[[float], object], now: float) -> None:
        try:
            work(now)
        except Exception as error:  # noqa: BLE001 - one bad step must not stop the gateway
            self._failed("gateway", error)

    def _failed(self, where: str, error: Exception) -> None:
        """Count what was contained, and log the first of its kind."""
        self.failures[where] += 1
        cause = (where, type(error).__qualname__)
        if cause not in self._logged and len(self._logged) < 100:
            self._logged.add(cause)
            _logger.warning("%s failed; later failures of this kind are counted only", where, exc_info=error)


def _nothing(_: float) -> None:
    pass
