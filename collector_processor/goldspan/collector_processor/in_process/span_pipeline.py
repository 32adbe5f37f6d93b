"""The way of a span through the agent's process.

    thread           step       where                 what happens
    agent            on_start   span_processor        the root is noted, the session of `session_scope` is stamped
    agent            on_end     span_processor        the SDK's BatchSpanProcessor queues the span
    agent            on_emit    span_processor        a log record is queued (`add_log_record`, below)
    batch            export     span_exporter         `SpanPipeline.export` gets a batch of spans
                     filter     trace_filter          spans of traces with a golden are read (mappers), others are not
                     feed       engine/               what was read is joined to calls, turns and sessions
                     hold       span_pipeline         tool spans and roots wait for their result
                     pass on    span_pipeline         all other spans go to the inner exporter at once
    batch or timer   poll       engine/               turns and sessions that are complete are scored
                     emit       emit/                 attributes of held spans, events, metric points
                     release    span_pipeline         copies with attributes go to the inner exporter

A span waits for `settle` seconds after its turn's last news and for `hold_timeout` seconds at most. A flush, a
shutdown and the end of the process release it at once. Exceptions are contained in `_locked` and around each call of
other code, and a forked child starts over in `_reset`.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.util.types import AttributeValue

from goldspan.collector_processor.daemon_threads import LARGE, Timer, call_in_forked_children
from goldspan.collector_processor.emit import emitters, names
from goldspan.collector_processor.emit.evaluation import span_attributes
from goldspan.collector_processor.engine.engine import EngineOutput
from goldspan.collector_processor.engine.reading_and_holding import HeldSpan, HeldSpans, JoinReport
from goldspan.collector_processor.engine.trace_machine import EngineStats
from goldspan.collector_processor.export_outage import ExportOutage
from goldspan.collector_processor.in_process.trace_filter import TraceFilter, estimated_size
from goldspan.mappers.readers.sdk import attributes_of
from goldspan.mappers.spans import LogView
from goldspan.scoring.verdict import Reason

if TYPE_CHECKING:
    from goldspan.collector_processor.in_process.otlp_sender import OtlpEvents

_logger = logging.getLogger("goldspan")

LOCK_TIMEOUT = 30.0
"""Seconds to wait for another thread that exports. After that the inner exporter counts as stuck."""
MAX_BATCH = 512
"""Spans in one call of the inner exporter at most, as in BatchSpanProcessor."""
MAX_QUEUED_LOGS = 2048
"""Log records in the queue at most, as in BatchLogRecordProcessor."""
_LOG_DELAY = 1.0  # seconds until queued log records are read, if nothing is exported before
_MANY_LOGS = 256  # so many queued log records are read at once
_PAUSE = 1.0  # seconds after a failure until the next step
_GLANCE, _YIELD = 0.05, 0.001  # seconds for which the lock is left to others while a large session is judged
_NOT_CAPTURED = (
    "calls are not scored since the arguments of tools are not recorded: switch the capture of content on, with most "
    "instrumentations by OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY. docs/switches.md has the others."
)


@dataclass(frozen=True, slots=True)
class HoldSettings:
    """How many spans may wait for their result, and for how long."""

    enabled: bool = True
    timeout: float = 20.0
    """Seconds."""
    max_spans: int = 10_000
    max_bytes: int = 64 * 1024 * 1024


class SpanPipeline:
    """Reads spans, holds those that may get a score, and exports all of them by the inner exporter.

    One re-entrant lock is around every step, because two threads must not call the inner exporter at once. A thread
    waits `LOCK_TIMEOUT` seconds for it at most. The engine is never in the middle of a step while other code runs, so
    a call that comes back on the same thread is safe. Every exception is contained and counted, and the spans that it
    touched are exported as they are.
    """

    def __init__(
        self,
        inner: SpanExporter,
        *,
        target: str,
        new_filter: Callable[[], TraceFilter] | None,
        hold: HoldSettings,
        events: emitters.EventEmitter | OtlpEvents,
        metrics: emitters.MetricEmitter,
        telemetry: emitters.SelfTelemetry,
    ) -> None:
        """Export every span by `inner`, which sends to `target`.

        `new_filter` makes the trace filter with its engine; None: every span is exported as it is. `events` are flushed
        and closed without the lock. `telemetry` counts what happens to spans, and failures.
        """
        self._inner = inner
        self._outage = ExportOutage(target)
        self._new_filter = new_filter
        self._hold_settings = hold
        self.events = events
        self._metrics = metrics
        self.telemetry = telemetry
        self._closed = False
        self._spans = 0
        self._owner = 0  # the thread that has the lock
        self._exits_from = inf
        self._said_not_captured = False
        self._collected: list[ReadableSpan]
        self.collects = False
        """The end has begun: everything waits for the last flush. A receiver that is away is then waited for once."""
        self._is_timer = False
        """The timer's thread has the lock: it may leave it to others while a large session is judged."""
        self._timer = Timer(self._on_timer, "goldspan-timer")
        self._reported_held = (0, 0)
        self._counted = EngineStats()
        self._reset()
        # A forked child starts empty: its parent exports the parent's spans, and locks and threads do not survive.
        call_in_forked_children(self._reset)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export the spans that need not wait. Returns the inner exporter's result for these."""
        if self._closed:
            self.telemetry.count(names.DROPPED_SPANS, len(spans), "shutdown")
            return SpanExportResult.FAILURE
        with self._locked(LOCK_TIMEOUT) as locked:
            if locked:
                return self._export(spans)
        self.telemetry.count(names.DROPPED_SPANS, len(spans), "failure" if locked else "export_timeout")
        if not locked:
            self._outage.failed(len(spans), f"an export has not ended for {LOCK_TIMEOUT:g} s")
        return SpanExportResult.FAILURE

    def root_started(self, span: ReadableSpan) -> None:
        """Note the root of a trace, which may name its session. Called by the agent's threads; may raise."""
        if (trace_filter := self._filter) is not None:
            trace_filter.root_started(span)

    def add_log_record(self, record: Any) -> None:
        """Queue a log record of the SDK. Called by the agent's threads: never blocks and never raises."""
        trace_filter = self._filter
        if trace_filter is None or self._closed:
            return
        try:
            if (view := trace_filter.log_view(record)) is None:
                return
            if len(self._logs) >= MAX_QUEUED_LOGS:
                self.telemetry.count(names.PROBLEMS, 1, "dropped_log_record")
                return
            self._logs.append(view)
            if len(self._logs) in (1, _MANY_LOGS):
                self._timer.set_at_latest(time.monotonic() + (_LOG_DELAY if len(self._logs) == 1 else 0.0))
        except Exception as error:  # noqa: BLE001 - a broken record must not reach the agent
            self.telemetry.failure("read", error)

    def flush(
        self,
        timeout: float,
        *,
        end_of_input: bool = False,
        exits_from: float = inf,
        on_emitted: Callable[[], object] = lambda: None,
    ) -> bool:
        """Score what there is and release every held span. False if another thread exported for `timeout` seconds.

        `on_emitted` is called when the events are written, before what was collected is exported.
        A SystemExit of the inner exporter is raised for spans that came since `exits_from`. A BatchSpanProcessor
        would have exported earlier ones in its thread, where nobody sees it.
        """
        with self._locked(timeout, when_idle=True) as locked:
            if locked:
                now, self._exits_from = time.monotonic(), exits_from
                try:
                    self._read_logs(now)
                    self._run_engine(lambda trace_filter: trace_filter.flush(now, end_of_input=end_of_input))
                    self._release(self._held.release_all())
                finally:
                    on_emitted()
                    self._export_collected()
                self._end_step()
                self._report_joins(last=end_of_input)
        self.collects = False
        return locked

    def close(self) -> None:
        """Refuse later spans, and count those that are still held as dropped. Waits for nothing."""
        self._closed = True
        self._timer.set(None)
        if left := len(self._held) + len(self._collected):
            self.telemetry.count(names.DROPPED_SPANS, left, "shutdown")
            _logger.warning(
                "%d held spans are dropped: an export to %s did not end before the shutdown had to",
                left,
                self._outage.target,
            )

    @property
    def is_entered(self) -> bool:
        """Whether the calling thread is inside: the inner exporter called back."""
        return self._owner == threading.get_ident()

    def _export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        now = time.monotonic()
        held = self._hold(spans, now)
        passing = [span for span in spans if id(span) not in held] if held else spans
        if self.collects:
            self._collected += passing
            return SpanExportResult.SUCCESS
        result = self._export_to_inner(passing) if passing or not spans else SpanExportResult.SUCCESS
        self._step(now)
        return result

    def _on_timer(self) -> None:
        locked = False
        try:
            with self._locked(LOCK_TIMEOUT) as locked:
                if locked:
                    self._is_timer = True
                    try:
                        self._step(time.monotonic())
                    finally:
                        self._is_timer = False
        except BaseException as error:  # noqa: BLE001 - SystemExit of the inner exporter would end the timer alone
            self.telemetry.failure("export", error)
            self._timer.set(time.monotonic() + _PAUSE)
        if not locked:
            self._timer.set(time.monotonic() + LOCK_TIMEOUT)

    def _go_on(self, done: threading.Event) -> None:
        """Leave the lock to others, and do what is due, until a large session is judged."""
        exits_from = self._exits_from
        while True:
            self._owner = 0
            self._lock.release()
            done.wait(_GLANCE)
            time.sleep(_YIELD)  # whoever waits for the lock gets it
            self._lock.acquire()
            self._owner, self._exits_from = threading.get_ident(), exits_from
            if done.is_set():
                return
            self._step(time.monotonic())

    @contextmanager
    def _locked(self, timeout: float, *, when_idle: bool = False) -> Generator[bool]:
        """Take the lock if it can be had in time, `when_idle` while no large session is judged; contain exceptions."""
        end = time.monotonic() + timeout
        while locked := self._lock.acquire(timeout=max(0.0, end - time.monotonic())):
            if not when_idle or self._filter is None or not self._filter.engine.side.is_busy:
                break
            self._lock.release()
            time.sleep(_GLANCE)
        if not locked:
            yield False
            return
        outer, self._owner, self._exits_from = self._owner, threading.get_ident(), inf
        try:
            with emitters.suppressed_instrumentation():
                yield True
        except Exception as error:  # noqa: BLE001 - an error in goldspan must not reach the agent
            self.telemetry.failure("goldspan", error)
            self._timer.set(time.monotonic() + _PAUSE)
        finally:
            self._owner = outer
            self._lock.release()

    def _step(self, now: float) -> None:
        if self._collected and not self.collects:  # the last flush could not have the lock
            self._export_collected()
        self._read_logs(now)
        self._run_engine(lambda trace_filter: trace_filter.poll(now, large=self._is_timer))
        excess, limit = self._held.release_excess(self._hold_settings.max_spans, self._hold_settings.max_bytes)
        self._release(excess, early=limit)
        self._release(self._held.release_older(now - self._hold_settings.timeout), early="hold_timeout")
        self._end_step()

    def _hold(self, spans: Sequence[ReadableSpan], now: float) -> set[int]:
        """Read spans and hold those that may get a score. Returns the `id` of each held span object."""
        if self._filter is None:
            return set()
        held: set[int] = set()
        self._spans += len(spans)
        for ref, span in self._filter.add(spans, now):
            try:
                if self._hold_settings.enabled and self._held.add(ref, span, estimated_size(span), now):
                    held.add(id(span))
            except Exception as error:  # noqa: BLE001 - a span that cannot be held is still exported
                self.telemetry.failure("engine", error)
        return held

    def _read_logs(self, now: float) -> None:
        """Read the queued log records, before the turns that they belong to are scored."""
        while self._logs:
            view = self._logs.popleft()
            if self._filter is not None:
                self._filter.add_log(view, now)

    def _run_engine(self, step: Callable[[TraceFilter], EngineOutput]) -> None:
        """Take one step of the engine and emit its output. A failure releases every span and makes a new engine."""
        trace_filter = self._filter
        if trace_filter is None:
            return
        try:
            output = step(trace_filter)
            if trace_filter is not self._filter:
                return  # it failed at another session meanwhile
            self._count(output, trace_filter.engine.stats)
        except Exception as error:  # noqa: BLE001 - the engine's state cannot be trusted any longer; the spans can
            self.telemetry.failure("engine", error)
            self._release(self._held.release_all(), early="failure")
            self._start_filter()
            return
        for number, evaluation in enumerate(output.evaluations, 1):
            if self._is_timer and number % LARGE == 0:
                trace_filter.engine.side.pause((evaluation.session_id,))
            if evaluation.verdict.reason is Reason.ARGUMENTS_NOT_CAPTURED and not self._said_not_captured:
                self._said_not_captured = True
                _logger.warning("%s", _NOT_CAPTURED)
            self._joins.golden_seen(evaluation.golden_set, evaluation.golden)
            try:
                if (held := self._held.get(evaluation.target)) is not None:
                    held.annotate(evaluation.metric, span_attributes(evaluation))
                self.events.emit(evaluation)
            except Exception as error:  # noqa: BLE001 - log record processors are the user's
                self.telemetry.failure("events", error)
        try:
            self._metrics.record(output.final, output.superseded)
        except Exception as error:  # noqa: BLE001 - so are meter providers
            self.telemetry.failure("metrics", error)
        self._release(self._held.release(output.released))

    def _report_joins(self, *, last: bool) -> None:
        """Log which sessions no golden wants, if that is new; a warning as long as no golden was seen."""
        if self._filter is None:
            return
        engine = self._filter.engine
        goldens, count = engine.goldens.goldens, engine.stats.sessions_without_golden
        report = self._joins
        if said := report.sentence(goldens, engine.without_golden, count, last=last):
            _logger.log(logging.WARNING if report.is_warning else logging.INFO, "%s", said)
        elif last and goldens and self._spans and not count and report.is_warning:
            _logger.warning(
                "0 of %d goldens seen; spans seen: %d, none of an agent, a model or a tool that goldspan knows. Switch "
                "on the instrumentation of the agent's framework.",
                len(goldens),
                self._spans,
            )
            self._spans = 0

    def _count(self, output: EngineOutput, stats: EngineStats) -> None:
        """Count what the engine could not use since the last step; its own counts never go back."""
        for problem in output.problems:
            self.telemetry.count(names.PROBLEMS, 1, problem.code)
        before = self._counted
        self._counted = dataclasses.replace(stats)
        self.telemetry.count(names.PROBLEMS, stats.repeated - before.repeated, "repeated_span")
        self.telemetry.count(names.PROBLEMS, stats.late - before.late, "late_span")
        self.telemetry.count(names.PROBLEMS, stats.evicted_sessions - before.evicted_sessions, "evicted_session")
        if unmatched := stats.sessions_without_golden - before.sessions_without_golden:
            self._metrics.record_no_golden(unmatched)

    def _release(self, spans: Sequence[HeldSpan[ReadableSpan]], *, early: str = "") -> None:
        """Export spans that were held, with their attributes. `early`: why they did not wait for their result."""
        if early:
            self.telemetry.count(names.RELEASED_EARLY, len(spans), early)
        if self.collects:
            self._collected += map(self._to_export, spans)
            return
        for start in range(0, len(spans), MAX_BATCH):
            batch = spans[start : start + MAX_BATCH]
            try:
                self._export_to_inner([self._to_export(held) for held in batch])
            except BaseException as error:  # SystemExit costs one batch, as in BatchSpanProcessor
                self.telemetry.count(names.DROPPED_SPANS, len(batch), "export_failed")
                if batch[-1].since >= self._exits_from:
                    self._held.hold_again(spans[start + MAX_BATCH :])
                    raise
                self.telemetry.failure("export", error)

    def _export_collected(self) -> None:
        self.collects = False
        spans = self._collected
        self._collected = []
        for start in range(0, len(spans), MAX_BATCH):
            batch = spans[start : start + MAX_BATCH]
            try:
                self._export_to_inner(batch)
            except BaseException as error:  # noqa: BLE001 - SystemExit costs one batch, as in BatchSpanProcessor
                self.telemetry.count(names.DROPPED_SPANS, len(batch), "export_failed")
                self.telemetry.failure("export", error)

    def _to_export(self, held: HeldSpan[ReadableSpan]) -> ReadableSpan:
        try:
            span, overwritten = scored_span(held)
            self.telemetry.count(names.PROBLEMS, overwritten, "overwritten_score")
        except Exception as error:  # noqa: BLE001 - a span without its score is better than none
            self.telemetry.failure("export", error)
            return held.span
        return span

    def _export_to_inner(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        why: object = "the exporter's own log says why"
        try:
            result = self._inner.export(spans)
        except Exception as error:  # noqa: BLE001 - the inner exporter is the user's
            self.telemetry.count(names.FAILURES, 1, "export")
            result, why = SpanExportResult.FAILURE, error
        if result is SpanExportResult.FAILURE:
            self.telemetry.count(names.DROPPED_SPANS, len(spans), "export_failed")
            if not getattr(self._inner, "logs_outages", False):
                self._outage.failed(len(spans), why)
        else:
            self._outage.succeeded()
        return result

    def _end_step(self) -> None:
        """Report how much is held now, and set the timer for the next step."""
        spans, size = self._reported_held
        self._reported_held = (len(self._held), self._held.size)
        self.telemetry.held(len(self._held) - spans, self._held.size - size)
        if self._filter is None or self._closed:
            return
        try:
            deadline = self._filter.deadline()
        except Exception as error:  # noqa: BLE001 - the oldest held span has a deadline of its own
            self.telemetry.failure("engine", error)
            deadline = None
        oldest = self._held.oldest()
        times = [deadline, None if oldest is None else oldest + self._hold_settings.timeout]
        self._timer.set(min((when for when in times if when is not None), default=None))
        if self._logs:
            # Queued during this step: the timer that was set for them may just have been overwritten.
            self._timer.set_at_latest(time.monotonic() + _LOG_DELAY)

    def _reset(self) -> None:
        """Start with nothing held and nothing read: at first, and in a forked child."""
        self._lock = threading.RLock()
        self._owner = 0
        self._held = HeldSpans[ReadableSpan]()
        self._collected = []
        self.collects = False
        self._logs = deque[LogView]()
        self._joins = JoinReport()
        self._outage = ExportOutage(self._outage.target)
        self._spans = 0
        self._timer = Timer(self._on_timer, "goldspan-timer")
        self._start_filter()

    def _start_filter(self) -> None:
        self._filter = None if self._new_filter is None else self._new_filter()
        if self._filter is not None:
            self._filter.engine.side.go_on = self._go_on
        self._counted = EngineStats()


# What is exported of a held span. An ended span cannot be changed, so scores leave in a copy.


class ScoredSpan(ReadableSpan):
    """A copy of an ended span with other attributes.

    The copy keeps the counts of dropped attributes, events and links, which the constructor would set to 0.
    """

    def __init__(self, original: ReadableSpan, attributes: Mapping[str, AttributeValue]) -> None:
        super().__init__(
            name=original.name,
            context=original.context,
            parent=original.parent,
            resource=original.resource,
            attributes=attributes,
            events=original.events,
            links=original.links,
            kind=original.kind,
            status=original.status,
            start_time=original.start_time,
            end_time=original.end_time,
            instrumentation_scope=original.instrumentation_scope,
        )
        self._dropped = (original.dropped_attributes, original.dropped_events, original.dropped_links)

    @property
    def dropped_attributes(self) -> int:
        """Number of attributes that the SDK's limits dropped."""
        return self._dropped[0]

    @property
    def dropped_events(self) -> int:
        """Number of events that the SDK's limits dropped."""
        return self._dropped[1]

    @property
    def dropped_links(self) -> int:
        """Number of links that the SDK's limits dropped."""
        return self._dropped[2]


def scored_span(held: HeldSpan[ReadableSpan]) -> tuple[ReadableSpan, bool]:
    """Return a copy with the attributes in place of any of these names; the span itself if there are none.

    Also tells whether the agent wrote attributes itself that only goldspan should write.
    """
    if not held.attributes:
        return held.span, False
    metrics, own = frozenset(held.metrics), attributes_of(held.span)
    attributes = {key: value for key, value in own.items() if not _is_own(key, metrics)}
    overwritten = len(attributes) < len(own)
    attributes.update(held.attributes)
    return ScoredSpan(held.span, attributes), overwritten


_is_own = lru_cache(maxsize=4096)(names.is_own)  # the instrumentations of an agent write few different names
