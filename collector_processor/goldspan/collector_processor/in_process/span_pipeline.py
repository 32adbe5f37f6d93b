"""From ended spans to the inner exporter, by way of the engine: the in-process door without its public face."""

from __future__ import annotations

import dataclasses
import os
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from goldspan.collector_processor.emit.attributes import span_attributes
from goldspan.collector_processor.emit.events import EventEmitter
from goldspan.collector_processor.emit.instrumentation import suppressed_instrumentation
from goldspan.collector_processor.emit.metrics import MetricEmitter, SelfTelemetry
from goldspan.collector_processor.engine.engine import EngineOutput
from goldspan.collector_processor.engine.settings import EngineStats
from goldspan.collector_processor.in_process.held_spans import HeldSpan, HeldSpans
from goldspan.collector_processor.in_process.log_inbox import LogInbox
from goldspan.collector_processor.in_process.trace_filter import TraceFilter
from goldspan.collector_processor.timer import Timer

PATIENCE = 30.0
"""Seconds to wait for another thread that is exporting. Beyond it the inner exporter is stuck."""
BATCH = 512
"""Spans per call of the inner exporter at most, as BatchSpanProcessor's default."""
_LOGS_WAIT = 1.0
"""Seconds that log records wait at most to be taken in, if nothing is exported or due before."""
_MANY_LOGS = 256
"""Waiting log records that are taken in at once."""
_GRACE = 1.0
"""Seconds beyond `hold_timeout` after which a span leaves even if the engine still claims it."""


@dataclass(frozen=True, slots=True)
class HoldSettings:
    """How much may wait for results, and for how long."""

    enabled: bool = True
    timeout: float = 20.0
    max_spans: int = 10_000
    max_bytes: int = 64 * 1024 * 1024


class SpanPipeline:
    """Reads spans, feeds the engine, holds what may get attributes, and gives everything to the inner exporter.

    One re-entrant lock is around all of it, because the inner exporter must not be called by two threads at once; who
    waits for it waits `PATIENCE` at most. The engine is never in the middle of a step while code of others runs, so a
    call that comes back on the same thread is safe. Every exception is contained and counted; what a failure touched
    is passed on as it came.
    """

    def __init__(
        self,
        inner: SpanExporter,
        *,
        may_tell: Callable[[str, Mapping[str, Any]], bool],
        new_intake: Callable[[], TraceFilter] | None,
        holding: HoldSettings,
        events: EventEmitter,
        metrics: MetricEmitter,
        telemetry: SelfTelemetry,
    ) -> None:
        """Wrap `inner`. Without `new_intake` everything is passed on as it comes.

        `may_tell` says of a log record's event name and attributes whether it is worth reading.
        """
        self._inner = inner
        self._may_tell = may_tell
        self._new_intake = new_intake
        self._holding = holding
        self._events = events
        self._metrics = metrics
        self._telemetry = telemetry
        self._closed = False
        self._said_held = (0, 0)
        self._counted = EngineStats()
        self._start_over()
        if hasattr(os, "register_at_fork"):
            # A child leaves the parent's spans to the parent, and its locks and threads with them.
            again = weakref.WeakMethod(self._start_over)
            os.register_at_fork(after_in_child=lambda: (start_over := again()) and start_over())

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Pass on at once what need not be held. Returns what the inner exporter said of it."""
        if self._closed:
            self._telemetry.dropped(len(spans), "shutdown")
            return SpanExportResult.FAILURE
        with self._alone(PATIENCE) as alone:
            if alone:
                return self._export(spans)
        self._telemetry.dropped(len(spans), "failure" if alone else "export_timeout")
        return SpanExportResult.FAILURE

    def look_at_root(self, span: ReadableSpan) -> None:
        """Take note of the root of a trace that starts. Called by the agent's threads; may raise."""
        if (intake := self._intake) is not None:
            intake.look_at_root(span)

    def take_log_record(self, record: object) -> None:
        """Take in a log record of the SDK. Called by the agent's threads: it never waits and never raises."""
        if self._intake is None or self._closed:
            return
        try:
            if not self._logs.put(record):
                self._telemetry.problems(1, "dropped_log_record")
            elif len(self._logs) in (1, _MANY_LOGS):
                self._alarm.set_at_latest(time.monotonic() + (_LOGS_WAIT if len(self._logs) == 1 else 0.0))
        except Exception as error:  # noqa: BLE001 - whatever a record is, the agent goes on
            self._telemetry.failure("read", error)

    def flush(self, timeout: float, *, end_of_input: bool = False) -> bool:
        """Hand out everything and hold nothing any more; False if another thread was exporting all that time."""
        with self._alone(timeout) as alone:
            if alone:
                now = time.monotonic()
                self._take_logs(now)
                self._hand_out(lambda intake: intake.flush(now, end_of_input=end_of_input))
                self._leave(self._held.take_all())
                self._end_step()
        return alone

    def close(self, timeout: float) -> None:
        """Flush for the last time; what comes later is refused."""
        flushed = self.flush(timeout, end_of_input=True)
        self._closed = True
        self._alarm.set(None)
        if not flushed:
            self._telemetry.dropped(len(self._held), "shutdown")

    def failed(self, where: str, error: Exception) -> None:
        """Count an exception that was contained outside, and log the first of its kind."""
        self._telemetry.failure(where, error)

    def _export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        now = time.monotonic()
        held = self._hold(spans, now)
        passing = [span for span in spans if id(span) not in held] if held else spans
        result = self._give(passing) if passing or not spans else SpanExportResult.SUCCESS
        self._step(now)
        return result

    def _ring(self) -> None:
        """Do what is due; called by the alarm."""
        with self._alone(PATIENCE) as alone:
            if alone:
                self._step(time.monotonic())
        if not alone:
            self._alarm.set(time.monotonic() + PATIENCE)

    @contextmanager
    def _alone(self, timeout: float) -> Generator[bool]:
        """Take the lock, if it can be had in time, and contain what is raised inside."""
        if not self._lock.acquire(timeout=max(0.0, timeout)):
            yield False
            return
        try:
            with suppressed_instrumentation():
                yield True
        except Exception as error:  # noqa: BLE001 - a mistake of ours must not reach the agent
            self._telemetry.failure("goldspan", error)
            self._alarm.set(time.monotonic() + _GRACE)
        finally:
            self._lock.release()

    def _step(self, now: float) -> None:
        self._take_logs(now)
        self._hand_out(lambda intake: intake.poll(now))
        excess, bound = self._held.take_excess()
        self._leave(excess, bound)
        self._leave(self._held.take_older(now - self._holding.timeout - _GRACE), "hold_timeout")
        self._end_step()

    def _hold(self, spans: Sequence[ReadableSpan], now: float) -> set[int]:
        """Take in spans; return the identities of those that are kept back."""
        if self._intake is None:
            return set()
        held: set[int] = set()
        for ref, span in self._intake.take(spans, now):
            try:
                if self._holding.enabled and self._held.add(ref, span, now):
                    held.add(id(span))
            except Exception as error:  # noqa: BLE001 - a span that cannot be held is still the user's
                self._telemetry.failure("engine", error)
        return held

    def _take_logs(self, now: float) -> None:
        """Take in what log records say; it is there before the turns are judged that they speak of."""
        for view in self._logs.take():
            if self._intake is not None:
                self._intake.take_log(view, now)

    def _hand_out(self, step: Callable[[TraceFilter], EngineOutput]) -> None:
        """Take one step of the engine and emit what it gives; a failure lets go of everything instead."""
        if self._intake is None:
            return
        try:
            handout = step(self._intake)
            self._count(handout, self._intake.engine.stats)
        except Exception as error:  # noqa: BLE001 - the engine's state is not to be trusted any more; the spans are
            self._telemetry.failure("engine", error)
            self._leave(self._held.take_all(), "failure")
            self._renew_intake()
            return
        for evaluation in handout.evaluations:
            try:
                self._held.annotate(evaluation.target, span_attributes(evaluation))
                self._events.emit(evaluation)
            except Exception as error:  # noqa: BLE001 - processors of log records are the user's
                self._telemetry.failure("events", error)
            try:
                self._metrics.record(evaluation)
            except Exception as error:  # noqa: BLE001 - so are meter providers
                self._telemetry.failure("metrics", error)
        released = self._held.take(handout.released)
        before = time.monotonic() - self._holding.timeout
        self._telemetry.released_early(
            sum(one.since <= before and not one.attributes for one in released), "hold_timeout"
        )
        self._leave(released)

    def _count(self, handout: EngineOutput, stats: EngineStats) -> None:
        for problem in handout.problems:
            self._telemetry.problems(1, problem.code)
        before = self._counted
        self._counted = dataclasses.replace(stats)
        self._telemetry.problems(stats.repeated - before.repeated, "repeated_span")
        self._telemetry.problems(stats.late - before.late, "late_span")
        self._telemetry.problems(stats.evicted_sessions - before.evicted_sessions, "evicted_session")
        if unmatched := stats.sessions_without_golden - before.sessions_without_golden:
            self._metrics.record_no_golden(unmatched)

    def _leave(self, leaving: Iterable[HeldSpan], early: str = "") -> None:
        """Give spans that were held to the inner exporter, with what they carry."""
        held = list(leaving)
        if early:
            self._telemetry.released_early(len(held), early)
        for start in range(0, len(held), BATCH):
            self._give([self._scored(one) for one in held[start : start + BATCH]])

    def _scored(self, held: HeldSpan) -> ReadableSpan:
        try:
            return held.leave()
        except Exception as error:  # noqa: BLE001 - better without its score than not at all
            self._telemetry.failure("export", error)
            return held.span

    def _give(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export, whatever the inner exporter does."""
        try:
            result = self._inner.export(spans)
        except Exception as error:  # noqa: BLE001 - the inner exporter is the user's
            self._telemetry.failure("export", error)
            result = SpanExportResult.FAILURE
        if result is SpanExportResult.FAILURE:
            self._telemetry.dropped(len(spans), "export_failed")
        return result

    def _end_step(self) -> None:
        """Say how much is held now, and see to it that the next step comes in time."""
        spans, size = self._said_held
        self._said_held = (len(self._held), self._held.size)
        self._telemetry.held(len(self._held) - spans, self._held.size - size)
        if self._intake is None or self._closed:
            return
        try:
            deadline = self._intake.deadline()
        except Exception as error:  # noqa: BLE001 - the oldest held span has a time of its own
            self._telemetry.failure("engine", error)
            deadline = None
        oldest = self._held.oldest()
        times = [deadline, None if oldest is None else oldest + self._holding.timeout + _GRACE]
        self._alarm.set(min((when for when in times if when is not None), default=None))
        if self._logs:
            # Written since this step took in the others, and their own alarm may just have been put off.
            self._alarm.set_at_latest(time.monotonic() + _LOGS_WAIT)

    def _start_over(self) -> None:
        self._lock = threading.RLock()
        self._held = HeldSpans(self._holding.max_spans, self._holding.max_bytes)
        self._logs = LogInbox(self._may_tell)
        self._alarm = Timer(self._ring, "goldspan-timer")
        self._renew_intake()

    def _renew_intake(self) -> None:
        self._intake = None if self._new_intake is None else self._new_intake()
        self._counted = EngineStats()
