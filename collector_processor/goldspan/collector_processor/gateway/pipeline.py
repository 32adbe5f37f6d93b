"""The pipeline of the gateway: one OTLP request from its receiver through the engine to its delivery.

    receive/                 HTTP or gRPC: authenticate, decompress, JSON to protobuf
       |
    Pipeline.accept          split into spans (encoded_spans); full or stopping: answer "busy"
       |
    journal/body_log         the body is on disk  ->  the client gets its acknowledgement
       |  queue
    worker, one thread       find the tenant by headers (tenant)
       |
    tenant                   which spans does a dialect or a golden want? (span_groups)
       |         \
       |          unread:    forwarded as they came; kept a while in the span buffer
       |
    engine/                  complete traces -> sessions -> evaluations
       |
    worker                   scores appended to held spans, events and metrics (emit/otlp_encoding)
       |
    deliver/outbox           requests with results are committed to journal/journal first
       |
    deliver/dispatcher       threads, retries  ->  exporter  ->  the next receiver, or a dead letter
       |
    worker                   the body is done, and leaves the journal

The threads of receivers write the body and queue it, the threads of the dispatcher send; only the worker has state.
After a crash `recovery` gives the worker what the journal kept.
"""

from __future__ import annotations

import functools
import logging
import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from random import Random
from typing import Any

from goldspan.collector_processor.encoded_spans.span_groups import ForeignScores, split_request
from goldspan.collector_processor.gateway.arrivals import Arrivals
from goldspan.collector_processor.gateway.background_judge import BackgroundJudge
from goldspan.collector_processor.gateway.deliver.dispatcher import Dispatcher, OutageLog, PendingRequest
from goldspan.collector_processor.gateway.interfaces import (
    Accepted,
    AcceptResult,
    Busy,
    DeliveryResult,
    Exporter,
    ExportRequest,
    Headers,
    Rejected,
)
from goldspan.collector_processor.gateway.journal.body_log import LogEntry, LogFullError
from goldspan.collector_processor.gateway.journal.journal import Journal
from goldspan.collector_processor.gateway.profile_learner import ProfileLearner
from goldspan.collector_processor.gateway.recovery import Recovery
from goldspan.collector_processor.gateway.settings.sections import PipelineSettings
from goldspan.collector_processor.gateway.unread_services import Advise
from goldspan.collector_processor.gateway.worker import ReceivedBody, Worker
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.collector_processor.serving.admin import Sample
from goldspan.collector_processor.serving.process import GuardedThread, thread_metrics, why_not_running
from goldspan.collector_processor.sinks.score_exporter import ScoreSinks
from goldspan.scoring.goldens import GoldenIndex

_logger = logging.getLogger("goldspan.gateway")
_JUDGE_CLOSE_TIMEOUT = 10.0  # seconds that questions to a model may delay a shutdown
_SINKS_CLOSE_TIMEOUT = 5.0  # seconds that scores for other back-ends may delay a shutdown
_TICK = 0.25  # seconds between two ticks of the worker
_GLANCE = 0.05  # seconds between two looks at a large session that is judged in another thread
_COMMIT_PAUSE = 1
"""Deliveries are committed at once, but after a pause of so many times the last commit, which leaves time for work."""
_LONG_WAIT, _TIMES_LONGER = 1.0, 3
"""Requests are received as long as others were judged before, and so many times longer where the next one has waited
for so many seconds: what is not received is not released in time."""
_RETRY_SOON, _RETRY_LATER = 1.0, 5.0
"""Seconds after which a client may send again: when the queue is full, when the disk is full."""
_LAST_COMMITS = 3.0  # seconds at the end in which a journal without room may note what was delivered
_SESSIONS_AT_ONCE = 1000  # sessions that are restored before the worker works on what is due
_MAX_LOGGED_KINDS = 100
_NOT_ACCEPTED = ("backlog", "broken", "full", "journal_failed", "max_sessions", "shutting_down", "tenant_backlog")
"""Why requests are not accepted; a counter that is there from the start has a rate when it first grows."""
_MAX_FOLDED = 1000  # names that /coverage lists
_FAILURES = ("dead_letters", "engine", "gateway", "journal")


def steady_clock() -> Callable[[], float]:
    """Return a clock that reads the wall clock once and then never jumps."""
    offset = time.time() - time.monotonic()
    return lambda: time.monotonic() + offset


class Intake:
    """What the threads of receivers do: check a request, write it to the journal and pass it on to the worker."""

    def __init__(
        self,
        goldens: GoldenIndex,
        settings: PipelineSettings,
        journal: Journal | None,
        *,
        put: Callable[[ReceivedBody], object],
        waiting_bytes: Callable[[], int],
        open_sessions: Callable[[Headers], int],
        now: Callable[[], float],
        on_failure: Callable[[str, Exception], object],
    ) -> None:
        """Accept requests and `put` them.

        `waiting_bytes` tells how much waits in memory to be delivered, `open_sessions` how many sessions a tenant has.
        """
        self._settings = settings
        self._journal = journal
        self._put = put
        self._waiting_bytes = waiting_bytes
        self._open_sessions = open_sessions
        self._now = now
        self._on_failure = on_failure
        self._lock = threading.Lock()
        self._numbers = 0
        self.is_closing = False
        """Nothing more is accepted."""
        self.backlog = 0
        """Bytes that wait for the worker."""
        self._backlogs = Counter[Headers]()  # the same by tenant
        self.received = Counter[Signal]()
        self.received_bytes = Counter[Signal]()
        self.not_accepted = Counter[str](dict.fromkeys(_NOT_ACCEPTED, 0))
        """Requests, by reason."""
        self.removed_scores = Counter[Signal]()
        """Attributes, events and metrics that clients wrote under goldspan's names."""
        self.use_goldens(goldens)

    def use_goldens(self, goldens: GoldenIndex) -> None:
        """Remove the scores of clients under the names of these goldens' metrics, unless clients are trusted."""
        trusted = self._settings.trust_scores
        self._foreign_scores = None if trusted else ForeignScores.of(goldens, self._settings.engine.scorer)

    def accept(self, request: ExportRequest) -> AcceptResult:
        """Write a request to the journal and queue it for the worker; returns once it is durable."""
        if self.is_closing:
            return self._busy("shutting_down", _RETRY_SOON, "the gateway is shutting down")
        if self._foreign_scores is not None:
            cleaned = self._foreign_scores.remove(request.signal, request.body)
            if cleaned is None:
                return self._broken(request)
            body, removed = cleaned
            if removed:
                self.removed_scores[request.signal] += removed
                request = replace(request, body=body)
        groups = split_request(request.body)
        if groups is None:
            return self._broken(request)
        size, headers, settings = len(request.body), request.headers, self._settings
        if settings.max_sessions is not None and self._open_sessions(headers) >= settings.max_sessions:
            return self._busy("max_sessions", _RETRY_LATER, "this tenant has too many open sessions", of_tenant=True)
        with self._lock:
            if self.backlog and self.backlog + size > settings.max_backlog:
                return self._busy("backlog", _RETRY_SOON, "requests come in faster than they can be worked on")
            own = self._backlogs[headers] if headers else 0
            if own and own + size > settings.max_backlog - self.backlog:  # half of what the others leave
                message = "this tenant sends faster than its requests can be worked on"
                return self._busy("tenant_backlog", _RETRY_SOON, message, of_tenant=True)
            self._wait(headers, size)
        result, entry = self._write(request)
        if entry is None and not isinstance(result, Accepted):
            self.worked_on(request)
            return result
        with self._lock:
            self._numbers += 1
            number = entry.number if entry is not None else self._numbers
            self.received[request.signal] += 1
            self.received_bytes[request.signal] += size
        self._put(ReceivedBody(number, request, groups, entry, time=self._now()))
        return result

    def worked_on(self, request: ExportRequest) -> None:
        """Note that a request does not wait for the worker any longer."""
        with self._lock:
            self._wait(request.headers, -len(request.body))

    def _wait(self, headers: Headers, size: int) -> None:
        self.backlog += size
        self._backlogs[headers] += size
        if not self._backlogs[headers]:
            del self._backlogs[headers]

    def _write(self, request: ExportRequest) -> tuple[AcceptResult, LogEntry | None]:
        if self._journal is None:
            waiting = self._waiting_bytes()
            if waiting and waiting + len(request.body) > self._settings.max_memory:
                return self._busy("full", _RETRY_LATER, "too much waits in memory to be delivered"), None
            return Accepted(), None
        try:
            return Accepted(), self._journal.append(request, self._now())
        except LogFullError as error:
            return self._busy("full", _RETRY_LATER, str(error)), None
        except Exception as error:  # noqa: BLE001 - whatever it is, the request is not on the disk
            self._on_failure("journal", error)
            return self._busy("journal_failed", _RETRY_LATER, f"the journal cannot be written: {error}"), None

    def _broken(self, request: ExportRequest) -> Rejected:
        self.not_accepted["broken"] += 1
        return Rejected(f"found no {request.signal.value} request in the {len(request.body):,} bytes of the body")

    def _busy(self, reason: str, seconds: float, message: str, *, of_tenant: bool = False) -> Busy:
        self.not_accepted[reason] += 1
        return Busy(seconds, message, of_tenant)


class GatewayPipeline:
    """Scores what it accepts and sends it through an exporter."""

    _next_commit = _next_tick = _next_poll = _went_on_at = 0.0
    _is_restoring = False

    def __init__(
        self,
        goldens: GoldenIndex,
        exporter: Exporter,
        settings: PipelineSettings | None = None,
        *,
        feed: ScoreSinks | None = None,
        advise: Advise | None = None,
        now: Callable[[], float] | None = None,
        random: Random | None = None,
    ) -> None:
        """Open the journal, recover from it and start the threads; results go to `feed` as well.

        Raises `OSError` if the journal's folder cannot be used.
        """
        self.feed = feed or ScoreSinks({})
        self.settings = settings or PipelineSettings()
        goldens = self.settings.engine.scorer.sampled(goldens, self.settings.sample)
        self._now = now or steady_clock()
        random = random or Random()
        self.failures = Counter[str]()
        self._queue = queue.SimpleQueue[Callable[[float], object] | None]()
        """Work for the worker's thread; None ends it."""
        self._arrived = Arrivals()
        """Requests that wait for others, for the worker to receive them together, and what it does between them."""
        self._receive_at: float | None = None  # when it does; None while none has arrived
        self._postponed = deque[Callable[[float], object] | None]()
        """Work that concerns all sessions, while a large one is judged."""
        self._delivery_results = deque[tuple[Sequence[PendingRequest], DeliveryResult]]()
        """Written by the threads of the dispatcher, noted by the worker."""
        self._noted = False  # whether there are noted deliveries that were not committed
        self._flushed = threading.Event()  # everything was judged before the end
        self._logged: set[tuple[str, str]] = set()
        self._recovery: Recovery | None = None
        """Of what an earlier process left, as long as something is not received again yet."""
        self.dispatcher = Dispatcher(
            exporter,
            self._on_delivery,
            threads=self.settings.deliveries,
            max_memory=self.settings.max_memory,
            backoff=self.settings.backoff,
            now=time.monotonic,
            random=random,
            on_failure=self._failed,
            outages=OutageLog(self.settings.addresses, time.monotonic),
            batch_bytes=self.settings.batch_bytes,
        )
        self._journal: Journal | None = None
        if (folder := self.settings.journal) is not None:
            full_sync = self.settings.journal_sync == "full"
            self._journal = Journal(folder, max_bytes=self.settings.journal_max_bytes, full_sync=full_sync)
        self.intake = Intake(
            goldens,
            self.settings,
            self._journal,
            put=self._arrive,
            waiting_bytes=lambda: self.dispatcher.waiting_bytes,
            open_sessions=self._open_sessions,
            now=self._now,
            on_failure=self._failed,
        )
        self.judge: BackgroundJudge | None = None
        if later := self.settings.engine.scorer.later:
            engine = self.settings.engine
            self.judge = BackgroundJudge(
                later[0], include_values=engine.include_values, events=engine.events, on_failure=self._failed
            )
        self.learner: ProfileLearner | None = None
        if (folder := self.settings.profiles) is not None:
            self.learner = ProfileLearner(folder, self.settings.learn_profiles, self._now, self._failed)
        self.worker = Worker(
            goldens,
            self.settings,
            journal=self._journal,
            queue=self.dispatcher,
            instance=f"{random.getrandbits(128):032x}",
            on_failure=self._failed,
            on_results=self.feed.put,
            judge=self.judge,
            advise=advise,
            learner=self.learner,
            go_on=self._go_on,
        )
        if self._journal is not None:
            self._recover(self._journal)
        self._closing = threading.Event()
        self._thread = GuardedThread("engine", self._run, self._failed)
        self.threads = [self._thread, GuardedThread("release", self._release, self._failed), *self.dispatcher.threads]
        self.dispatcher.start()
        for thread in self.threads[:2]:
            thread.start()
        if self.judge is not None:
            for thread in self.judge.threads:
                thread.start()
        if self.learner is not None:
            self.learner.thread.start()

    def accept(self, request: ExportRequest) -> AcceptResult:
        """Store a request; return when that is durable. Called from many threads at once; never raises."""
        return self.intake.accept(request)

    def _open_sessions(self, headers: Headers) -> int:
        return self.worker.tenants.open_sessions(headers)

    # The worker's thread.

    def _run(self) -> None:
        while self._work_on():
            pass
        self._receive_arrived()
        self._note_deliveries()
        self._do(self.worker.commit, self._now())

    def _work_on(self, *, aside: bool = False) -> bool:
        """Do what comes next, and what is due; False at the end. `aside`: while a large session is judged."""
        try:
            work = self._next_work(aside=aside)
        except queue.Empty:
            work = _nothing
            self._next_poll = self._next_poll if self._is_time_to_receive() else 0.0
        if work is None:
            return False
        self._do(work, self._now())
        if self._is_time_to_receive():
            self._receive_arrived(self._next_poll if self.worker.is_busy else self._next_tick, aside=aside)
        self._note_deliveries()
        now = self._now()
        if self._flushed.is_set():
            self.worker.is_busy = False  # nothing more is judged: it could not be delivered any more
            if now >= self._next_tick:
                self._do(self.worker.commit, now)
                self._next_tick = now + _TICK
            return True
        if now >= self._next_tick:
            if not aside:
                self._do(self._receive_bodies, now)
            self._do(self.worker.tick, now)
        elif self.worker.is_busy and now >= self._next_poll:
            self._do(self.worker.poll, now)
        else:
            return True
        end = self._now()
        since = self._arrived.waits_since()
        times = _TIMES_LONGER if since is not None and since + _LONG_WAIT < end else 1
        self._next_poll = end + times * (end - max(now, self._went_on_at))  # as long as requests that wait have
        self._next_tick = max(self._next_poll, self._next_tick if now < self._next_tick else now + _TICK)
        return True

    def _next_work(self, *, aside: bool) -> Callable[[float], object] | None:
        """Return what comes next; what concerns all sessions waits while one is judged. Raises queue.Empty."""
        if self._postponed and not aside:
            return self._postponed.popleft()
        work = self._queue.get(timeout=min(self._pause(), _GLANCE) if aside else self._pause())
        if aside and work is not _nothing:
            self._postponed.append(work)
            return _nothing
        return work

    def _go_on(self, done: threading.Event) -> None:
        """Work on while a large session is judged in another thread, until that is done; or for a moment, if it is."""
        if self._is_restoring:
            done.wait()
        end = self._now() + _GLANCE
        self._work_on(aside=True)
        while not done.is_set() or (self._now() < end and self._is_time_to_receive()):
            self._work_on(aside=True)
        self._went_on_at = self._now()

    def _release(self) -> None:
        """Send spans that were held for too long, while the worker judges a large session."""
        while not self._closing.wait(_TICK):
            self.worker.release_overdue(self._now(), beside_worker=True)

    def _pause(self) -> float:
        """Return how many seconds to wait for work."""
        if self.worker.is_busy or self._is_time_to_receive():
            return 0.0
        now = self._now()
        # Where the last request that waited was received, the time until which it might wait says nothing.
        pause = self._receive_at - now if self._arrived and self._receive_at is not None else _TICK
        return max(0.0, min(pause, self._next_commit - now) if self._noted else pause)

    def _arrive(self, work: ReceivedBody | Callable[[float], object], *, at_once: bool = False) -> None:
        """Let the worker receive a request, in order. It is woken for the first, and when there is a batch."""
        is_first = self._arrived.put(work)
        if at_once:
            self._receive_at = 0.0
        if is_first or at_once or self._is_batch():
            self._queue.put(_nothing)

    def _is_batch(self) -> bool:
        return self.intake.backlog >= self.settings.batch_bytes

    def _is_time_to_receive(self) -> bool:
        """Tell whether requests have waited for others for long enough."""
        if not self._arrived:
            return False
        if self._receive_at is None:
            self._receive_at = self._now() + self.settings.batch_delay
        return self._is_batch() or self._now() >= self._receive_at

    def _receive_arrived(self, until: float = inf, *, aside: bool = False) -> None:
        """Receive the requests that arrived, at least one and further ones until a time."""
        while self._arrived:
            work = self._arrived.take()
            if isinstance(work, ReceivedBody):
                self._do(functools.partial(self._receive, work), self._now())
            elif aside:
                self._postponed.append(work)
            else:
                self._do(work, self._now())
            self._note_deliveries()
            if self._now() >= until:
                break
        else:
            self._receive_at = None
            self.worker.outbox.send_ready()

    def _receive(self, received: ReceivedBody, now: float) -> None:
        try:
            self.worker.receive(received, now)
        finally:
            self.intake.worked_on(received.request)

    def _on_delivery(self, together: Sequence[PendingRequest], result: DeliveryResult) -> None:
        """Wake the worker: what was delivered and is not committed would be sent again after a crash."""
        self._delivery_results.append((together, result))
        self._queue.put(_nothing)

    def _note_deliveries(self) -> None:
        now = self._now()
        self._noted |= bool(self._delivery_results) and self._journal is not None
        while self._delivery_results:
            together, result = self._delivery_results.popleft()
            self._do(functools.partial(self.worker.outbox.note_delivery, together, result), now)
        if self._noted and now >= self._next_commit:
            self._do(self.worker.commit, now)
            end = self._now()
            self._next_commit = end + _COMMIT_PAUSE * (end - now)
            self._noted = False

    def _do(self, work: Callable[[float], object], now: float) -> None:
        try:
            work(now)
        except BaseException as error:  # noqa: BLE001 - one bad step must not stop the gateway
            self._failed("gateway", error)

    def _failed(self, where: str, error: BaseException) -> None:
        """Count a contained failure, and log the first of its kind."""
        self.failures[where] += 1
        kind = (where, type(error).__qualname__)
        if kind not in self._logged and len(self._logged) < _MAX_LOGGED_KINDS:
            self._logged.add(kind)
            _logger.warning("%s failed; later failures of this kind are only counted", where, exc_info=error)

    # Start and stop.

    def _recover(self, journal: Journal) -> None:
        """Read what an earlier process left, and let the worker continue with it before anything else."""
        self._is_restoring = True
        found = journal.recover(self._now() - self.settings.engine.trace_retention)
        for problem in found.problems:
            _logger.warning("%s", problem)
        self.worker.problems["journal_damaged"] += len(found.problems)
        recovery = Recovery(self.worker, journal, found, on_failure=self._failed, after_each=self._note_deliveries)
        self._queue.put(functools.partial(self._restore, recovery))

    def _restore(self, recovery: Recovery, now: float) -> None:
        try:
            for count, _ in enumerate(recovery.restore_state(now), 1):
                self._note_deliveries()
                if count % _SESSIONS_AT_ONCE == 0:
                    self.worker.tick(self._now())
        finally:
            self._is_restoring = False
            self._recovery = recovery
            self._receive_bodies(now)

    def _receive_bodies(self, now: float) -> None:
        """Let the worker receive the bodies that the journal kept; those that cannot be read now a little later."""
        if self._recovery is not None and self._recovery.receive_bodies(now):
            self._recovery = None

    def drain(self, timeout_seconds: float) -> bool:
        """Accept nothing more, judge and deliver what there is, and stop; return whether all was delivered in time.

        With a journal, open runs are not judged as complete: the next process continues with them.
        """
        end = time.monotonic() + timeout_seconds
        self.intake.is_closing = True
        flushed = self._flushed

        def flush(now: float) -> None:
            self.worker.flush(now, end_of_input=self._journal is None)
            flushed.set()

        self._arrive(flush, at_once=True)
        flushed.wait(max(0.0, end - time.monotonic()))
        if self.judge is not None:
            self._end_judge(self.judge, end)
        if self.learner is not None:
            self.learner.close(max(1.0, end - time.monotonic()))
        while self.dispatcher.waiting and time.monotonic() < end:
            time.sleep(0.02)
        noted_by = min(end, time.monotonic() + _LAST_COMMITS)
        while self.worker.outbox.undelivered and time.monotonic() < noted_by:
            time.sleep(0.02)
        self.feed.close(min(_SINKS_CLOSE_TIMEOUT, max(0.0, end - time.monotonic())))
        self.dispatcher.close(max(0.0, end - time.monotonic()))
        self._queue.put(None)
        self._thread.join(max(1.0, end - time.monotonic()))
        self._closing.set()
        everything = flushed.is_set() and self._thread.has_ended and not self._undelivered
        if self._journal is not None and self._thread.has_ended:
            self._journal.close()
        return everything

    def _end_judge(self, judge: BackgroundJudge, end: float) -> None:
        """Let the judge ask about what waits, for a while, and send its results."""
        before, sent = judge.dropped, threading.Event()
        judge.close(min(_JUDGE_CLOSE_TIMEOUT, max(0.0, end - time.monotonic())))
        if dropped := judge.dropped - before:
            _logger.warning("the judge did not get to %d sessions before the shutdown", dropped)

        def send(now: float) -> None:
            self.worker.emit_judged(now)
            self.worker.commit(now)
            sent.set()

        self._queue.put(send)
        sent.wait(max(0.0, end - time.monotonic()))

    @property
    def _undelivered(self) -> int:
        recovery = self._recovery
        unread = 0 if recovery is None else len(recovery.found.bodies)
        unread += 0 if self._journal is None else self._journal.unread_files
        return max(self.dispatcher.waiting, self.worker.outbox.undelivered + unread)

    def what_was_refused(self) -> str:
        """Return how many requests were not delivered and will not be, for the log; empty without any."""
        refused = self.worker.outbox.refused.total()
        return f", except {refused:,} requests that were refused or cannot be read back" if refused else ""

    def what_waits(self) -> str:
        """Return how many requests are not delivered, and where they are, for the log."""
        requests = f"{self._undelivered:,} requests"
        if self._journal is None:
            return f"undelivered data is lost: {requests}"
        reason = self._journal.not_ready_reason
        return f"{requests} wait in {self._journal.folder} for the next start" + (f"; {reason}" if reason else "")

    def reload_goldens(self, goldens: GoldenIndex) -> None:
        """Judge by these goldens from now on; an open session is judged again when something new comes for it."""
        goldens = self.settings.engine.scorer.sampled(goldens, self.settings.sample)
        self.intake.use_goldens(goldens)
        self._arrive(lambda _: self.worker.use_goldens(goldens), at_once=True)

    def not_ready_reason(self) -> str | None:
        """Return why requests cannot be accepted, worked on or delivered now; None if they can."""
        full = None if self._journal is None else self._journal.not_ready_reason
        return full or why_not_running(self.threads)

    # Counts.

    def coverage(self) -> Mapping[str, Any]:
        """Return which goldens were seen and which never, as JSON values."""
        worker = self.worker
        counts = worker.coverage.document(worker.sessions_without_golden, worker.newest_without_golden().newest())
        tenants = [
            {
                "tenant": tenant.label,
                "read_spans": tenant.engine.stats.spans,
                "open_sessions": tenant.store.open_sessions,
                "sessions_without_golden": tenant.sessions_without_golden,
            }
            for tenant in worker.tenants
        ]
        folded = [{"tenant": one.label, **name} for one in worker.tenants for name in one.metrics.folded()][
            :_MAX_FOLDED
        ]
        return {**counts, "tenants": tenants, "unread": worker.unread(), "names_counted_as_other": folded}

    def metrics(self) -> Iterator[Sample]:
        """Yield what was counted since the start, as samples whose names begin with `goldspan_`."""
        intake, worker, dispatcher = self.intake, self.worker, self.dispatcher
        for name, label, counter in (
            ("received_requests", "signal", intake.received),
            ("received_bytes", "signal", intake.received_bytes),
            ("not_accepted_requests", "reason", intake.not_accepted),
            ("removed_scores", "signal", intake.removed_scores),
            ("delivered_requests", "signal", worker.outbox.delivered),
            ("refused_requests", "signal", worker.outbox.refused),
            ("rejected_items", "signal", worker.outbox.rejected),
            ("delivery_retries", "signal", dispatcher.retries),
            ("released_early_spans", "reason", worker.released_early),
            ("calls_not_evaluated", "reason", worker.coverage.reasons),
            ("problems", "code", worker.problems),
            ("failures", "where", {**dict.fromkeys(_FAILURES, 0), **self.failures}),
        ):
            for value, count in list(counter.items()):
                yield f"goldspan_{name}_total", {label: str(value)}, count
        yield from worker.coverage.samples()
        for name, amount in self._totals():
            yield f"goldspan_{name}", {}, amount
        for tenant in worker.tenants:
            stats, labels = tenant.engine.stats, {"tenant": tenant.label} if tenant.label else {}
            yield "goldspan_read_spans_total", labels, stats.spans
            yield "goldspan_repeated_spans_total", labels, stats.repeated
            yield "goldspan_late_records_total", labels, stats.late
            yield "goldspan_evicted_sessions_total", labels, stats.evicted_sessions
            yield "goldspan_open_sessions", labels, tenant.store.open_sessions
        for sink, exporter in self.feed.exporters.items():
            yield "goldspan_sink_waiting_scores", {"sink": sink}, exporter.waiting
            yield "goldspan_sink_scores_total", {"sink": sink, "outcome": "delivered"}, exporter.delivered
            yield "goldspan_sink_scores_total", {"sink": sink, "outcome": "dropped"}, exporter.dropped
        for signal, seconds in dispatcher.stalled_seconds():
            yield "goldspan_delivery_stalled_seconds", {"signal": signal.value}, seconds
        judge = self.judge
        yield from thread_metrics([*self.threads, *([] if judge is None else judge.threads)])
        if judge is not None:
            yield from judge.samples()
        if self.learner is not None:
            yield from self.learner.samples()
        yield from dispatcher.delays.samples("goldspan_delivery_delay_seconds")

    def _totals(self) -> Iterator[tuple[str, float]]:
        worker, dispatcher = self.worker, self.dispatcher
        tenants = list(worker.tenants)
        seen, never_seen = worker.coverage.counts()
        letters = worker.outbox.dead_letters
        yield "delivery_attempts_total", dispatcher.attempts
        yield "waiting_requests", dispatcher.waiting
        yield "waiting_bytes", dispatcher.waiting_bytes
        yield "backlog_bytes", self.intake.backlog
        yield "journal_bytes", 0 if self._journal is None else self._journal.size
        yield "journal_max_bytes", 0 if self._journal is None else self._journal.bound
        yield "open_bodies", worker.outbox.open_bodies
        yield "held_spans", sum(len(tenant.held) for tenant in tenants)
        yield "held_bytes", sum(tenant.held.size for tenant in tenants)
        yield "unread_span_bytes", worker.unread_span_bytes
        yield "text_bytes", sum(tenant.texts.size for tenant in tenants)
        yield "tenants", len(tenants)
        yield "unread_services", worker.unread_services.count
        yield "evicted_tenants_total", worker.tenants.evicted
        yield "sessions_without_golden_total", worker.sessions_without_golden
        yield "goldens_seen", seen
        yield "goldens_never_seen", never_seen
        yield "dead_letters_total", 0 if letters is None else letters.written
        yield "dead_letters_dropped_total", 0 if letters is None else letters.dropped


def _nothing(_: float) -> None:
    pass
