"""The in-process door as a span exporter, around the exporter of the user's choice."""

from __future__ import annotations

import logging
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import Literal, TypedDict, cast

from opentelemetry._logs import LoggerProvider
from opentelemetry.metrics import MeterProvider
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from goldspan.collector_processor.emit.events import EventEmitter
from goldspan.collector_processor.emit.metrics import MetricEmitter, SelfTelemetry
from goldspan.collector_processor.engine.settings import EngineSettings
from goldspan.collector_processor.in_process.span_pipeline import HoldSettings, SpanPipeline
from goldspan.collector_processor.in_process.trace_filter import TraceFilter
from goldspan.collector_processor.metric_workers import MetricWorkers
from goldspan.mappers.assembly.runs import AssemblySettings
from goldspan.mappers.dialect_registry import JOIN_ATTRIBUTES, DialectRegistry
from goldspan.scoring.criterion import Criterion
from goldspan.scoring.errors import GoldspanError, SettingsError
from goldspan.scoring.goldens import GoldenIndex, GoldenSet, load_goldens
from goldspan.scoring.goldens.loading import Source
from goldspan.scoring.metrics.session_metrics import MetricSource
from goldspan.scoring.run import Scorer, scorer_of

# Finds exporters that send the same spans to the same place a second time.
#
# Neither processors nor exporters say publicly what they hold. What is read here of their insides only ever decides
# whether a warning is written.


def target(exporter: SpanExporter) -> str | None:
    """Return where an exporter sends to. The OTLP ones all keep it under one name; of others it is not known."""
    endpoint = getattr(exporter, "_endpoint", None)
    return endpoint if isinstance(endpoint, str) else None


def same_target(one: SpanExporter, other: SpanExporter) -> bool:
    """Tell whether what both are given arrives twice."""
    to = target(other)
    return one is other or (to is not None and type(one) is type(other) and target(one) == to)


def sends_too(span: Span, inner: SpanExporter) -> SpanExporter | None:
    """Return an exporter on the span's tracer provider, beside goldspan's, that sends where `inner` sends."""
    found = _exporters([getattr(span, "_span_processor", None)])
    return next((exporter for exporter in found if same_target(exporter, inner)), None)


def _exporters(parts: list[object]) -> Iterator[SpanExporter]:
    """Walk through processors inside processors: Logfire has six around each."""
    seen: dict[int, object] = {}  # holds what it numbers, lest a number be given again
    while parts:
        part = parts.pop()
        if id(part) in seen:
            continue
        seen[id(part)] = part
        if isinstance(part, SpanExporter):
            yield part  # not what it wraps: there goldspan's own would find itself
        elif isinstance(part, (tuple, list)):
            parts += part
        elif isinstance(part, SpanProcessor):
            parts += vars(part).values()
            parts.append(getattr(getattr(part, "_batch_processor", None), "_exporter", None))


_logger = logging.getLogger("goldspan")

Goldens = Source | Iterable[Source] | GoldenIndex
"""What `load_goldens` takes, one or several, or what it returned."""


MAX_KNOWN_SPANS = 100_000
"""Spans whose skeletons are remembered at once, some tens of megabytes; beyond it the oldest session is dropped."""


class ExporterOptions(TypedDict, total=False):
    """The options of the in-process door beside its goldens; `ToolParameterMatchExporter` says what they mean."""

    criterion: Criterion | None
    preset: str | Mapping[str, object] | None
    metrics: Iterable[MetricSource]
    metric_timeout: float
    hold: Literal["on", "off"] | bool
    hold_timeout: float
    settle: float
    run_idle: float
    session_gap: float
    max_held_spans: int
    max_held_bytes: int
    include_values: bool
    agent_names: Collection[str]
    logger_provider: LoggerProvider | None
    meter_provider: MeterProvider | None


class ToolParameterMatchExporter(SpanExporter):
    """Scores the tool calls in the spans it is given and exports them, by `inner`, with the scores on them.

    For places that take an exporter only; where a span processor can be set, `ToolParameterMatchSpanProcessor` does
    more. Nothing here raises but the constructor, and that for options that cannot be (`SettingsError`), never for
    goldens: without usable goldens there is one warning, and every span is passed on as it came.
    """

    def __init__(
        self,
        inner: SpanExporter,
        *,
        goldens: Goldens,
        criterion: Criterion | None = None,
        preset: str | Mapping[str, object] | None = None,
        metrics: Iterable[MetricSource] = (),
        metric_timeout: float = 5.0,
        hold: Literal["on", "off"] | bool = "on",
        hold_timeout: float = 20.0,
        settle: float = 1.0,
        run_idle: float = 60.0,
        session_gap: float = 3600.0,
        max_held_spans: int = 10_000,
        max_held_bytes: int = 64 * 1024 * 1024,
        include_values: bool = False,
        agent_names: Collection[str] = (),
        logger_provider: LoggerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        """Wrap `inner`.

        Args:
            inner: The exporter that gets every span, once.
            goldens: A golden file or directory, several of them, or what `load_goldens` returned.
            criterion: What a golden file inherits where it says nothing itself.
            preset: Another system's scorer, in the place of `tool_parameter_match`; a mapping has `name` and options.
            metrics: What is judged beside it: names, import paths (`pkg.module:function`) or functions.
            metric_timeout: Seconds a metric of your own may take for one session.
            hold: `off`: hold nothing, so that results are events and metrics only. YAML's booleans are understood.
            hold_timeout: Seconds a span waits for its turn's result at most.
            settle: Seconds without news of a turn whose root has ended, after which it is scored.
            run_idle: Seconds without news of a session after which it is judged as a whole.
            session_gap: Seconds between two turns of one session id that make the second the start of another run.
            max_held_spans: Spans that wait at once; beyond it the oldest leave without their result.
            max_held_bytes: Likewise, the memory they take, estimated.
            include_values: Explanations hold the arguments' values, not only their names.
            agent_names: Agents that may be named in metrics.
            logger_provider: Where events go; None: to the global one.
            meter_provider: Where metric points go; None: to the global one.

        """
        _check_above_zero(
            hold_timeout=hold_timeout,
            settle=settle,
            run_idle=run_idle,
            session_gap=session_gap,
            metric_timeout=metric_timeout,
            max_held_spans=max_held_spans,
            max_held_bytes=max_held_bytes,
        )
        telemetry = SelfTelemetry(meter_provider)
        scorer = _scorer(preset, metrics, metric_timeout)
        settings = EngineSettings(
            settle=settle,
            hold_timeout=hold_timeout,
            run_idle=run_idle,
            max_spans=MAX_KNOWN_SPANS,
            remote_callers=False,
            include_values=include_values,
            scorer=scorer,
            assembly=AssemblySettings(session_gap=session_gap),
        )
        self._inner = inner
        self._shut_down = False
        index = None if self._is_second_door() else _usable(goldens, criterion, telemetry)
        registry = _registry(telemetry, index)
        self._pipeline = SpanPipeline(
            inner,
            may_tell=registry.may_tell,
            new_intake=None if index is None else lambda: _intake(index, settings, registry, telemetry),
            holding=HoldSettings(_is_on(hold), hold_timeout, max_held_spans, max_held_bytes),
            events=EventEmitter(logger_provider),
            metrics=MetricEmitter(meter_provider, agent_names=agent_names),
            telemetry=telemetry,
        )
        _doors.add(self)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Pass on at once what need not wait; the result is the inner exporter's answer to that."""
        return self._pipeline.export(spans)

    def take_log_record(self, record: object) -> None:
        """Take in a log record of the SDK, which may hold what spans do not; only queues it, and never raises."""
        self._pipeline.take_log_record(record)

    def look_at_root(self, span: Span) -> None:
        """Take note of the root of a trace that starts: it may name its session long before anything of it ends."""
        self._pipeline.look_at_root(span)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Score what there is, let every held span go and flush the inner exporter."""
        until = time.monotonic() + timeout_millis / 1000
        flushed = self._pipeline.flush(timeout_millis / 1000)
        try:
            answer = self._inner.force_flush(max(0, int((until - time.monotonic()) * 1000)))
        except Exception as error:  # noqa: BLE001 - the inner exporter is the user's
            self._pipeline.failed("export", error)
            return False
        return flushed and answer is not False  # many exporters answer nothing

    def look_beside(self, span: Span) -> None:
        """Warn where the span's tracer provider sends every span a second time, past goldspan. Never raises."""
        try:
            beside = sends_too(span, self._inner)
        except Exception:
            _logger.debug("the tracer provider could not be looked at", exc_info=True)
            return
        if beside is not None:
            _logger.warning(
                "%s is on the tracer provider beside goldspan and sends to %s as well: every span arrives twice, once "
                "without scores. Take it away; one that a framework adds goes with a variable such as "
                "OTEL_TRACES_EXPORTER=none.",
                type(beside).__qualname__,
                target(beside) or "the same exporter",
            )

    def finish(self) -> None:
        """Score and export everything as if nothing more would come; more may come."""
        self._pipeline.flush(30.0, end_of_input=True)

    def shutdown(self, timeout_millis: float = 30_000) -> None:
        """Score and export everything, and shut the inner exporter down. May be called again."""
        if self._shut_down:
            return
        self._shut_down = True
        until = time.monotonic() + timeout_millis / 1000
        self._pipeline.close(timeout_millis / 1000)
        try:
            shutdown: Callable[..., None] = self._inner.shutdown
            if "timeout_millis" in signature(shutdown).parameters:
                shutdown(timeout_millis=max(0.0, (until - time.monotonic()) * 1000))
            else:
                shutdown()
        except Exception as error:  # noqa: BLE001 - the inner exporter is the user's
            self._pipeline.failed("export", error)

    def _is_second_door(self) -> bool:
        """Warn of two doors on one path; True if this one must not score."""
        if isinstance(self._inner, ToolParameterMatchExporter):
            _logger.warning(
                "a ToolParameterMatchExporter was wrapped in another one: the outer one only passes spans on. "
                "Give ToolParameterMatchSpanProcessor the plain exporter."
            )
            return True
        for door in list(_doors):
            if not door._shut_down and same_target(door._inner, self._inner):  # noqa: SLF001 - its own kind
                _logger.warning(
                    "two goldspan exporters send to %s: on one tracer provider, every span would be exported and "
                    "every result counted twice. Keep one of them.",
                    target(self._inner) or type(self._inner).__qualname__,
                )
                break
        return False


_doors: weakref.WeakSet[ToolParameterMatchExporter] = weakref.WeakSet()


def _check_above_zero(**options: object) -> None:
    for name, value in options.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
            raise SettingsError(f"{name}: found {value!r}, expected a number above 0")


def _is_on(hold: object) -> bool:
    if hold not in ("on", "off", True, False):
        raise SettingsError(f"hold: found {hold!r}, expected 'on' or 'off'")
    return hold in ("on", True)


def _scorer(preset: str | Mapping[str, object] | None, metrics: Iterable[MetricSource], timeout: float) -> Scorer:
    try:
        return scorer_of(preset=preset, metrics=metrics, run=MetricWorkers(timeout))
    except GoldspanError as error:
        raise SettingsError(str(error)) from None


def _registry(telemetry: SelfTelemetry, goldens: GoldenIndex | None) -> DialectRegistry:
    return DialectRegistry(
        join_attributes=(*JOIN_ATTRIBUTES, *(goldens.join_attributes if goldens else ())),
        on_problem=lambda problem: telemetry.problems(1, problem.code),
    )


def _intake(
    goldens: GoldenIndex, settings: EngineSettings, registry: DialectRegistry, telemetry: SelfTelemetry
) -> TraceFilter:
    content = settings.scorer.reads_content(goldens.goldens)
    return TraceFilter(goldens, settings, registry, content=content, on_failure=telemetry.failure)


def _usable(goldens: Goldens, criterion: Criterion | None, telemetry: SelfTelemetry) -> GoldenIndex | None:
    """Return these goldens, or none where they cannot be used: an agent runs without."""
    try:
        return _index(goldens, criterion)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with a file, the agent must start
        telemetry.unusable_goldens(error)
        return None


def _index(goldens: Goldens, criterion: Criterion | None) -> GoldenIndex:
    if isinstance(goldens, GoldenIndex):
        return goldens
    one = isinstance(goldens, (str, Path, Mapping, GoldenSet))
    sources = cast("Iterable[Source]", (goldens,) if one else goldens)
    return load_goldens(*sources, criterion=criterion)
