"""What the constructor of the exporter makes: goldens, metrics and the pipeline with its engine."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from opentelemetry._logs import LoggerProvider
from opentelemetry.metrics import MeterProvider
from opentelemetry.sdk.trace.export import SpanExporter

from goldspan.collector_processor.daemon_threads import MetricWorkers
from goldspan.collector_processor.emit import names
from goldspan.collector_processor.emit.emitters import EventEmitter, MetricEmitter, SelfTelemetry
from goldspan.collector_processor.emit.evaluation import Events
from goldspan.collector_processor.engine.trace_machine import EngineSettings
from goldspan.collector_processor.in_process.span_pipeline import HoldSettings, SpanPipeline
from goldspan.collector_processor.in_process.trace_filter import TraceFilter
from goldspan.mappers.assembly.runs import AssemblySettings
from goldspan.mappers.dialect_registry import JOIN_ATTRIBUTES, DialectRegistry
from goldspan.scoring.errors import GoldspanError, SettingsError
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.metrics.session_metrics import MetricSource
from goldspan.scoring.run import scorer_of
from goldspan.scoring.tool_definitions import Definitions

if TYPE_CHECKING:
    from goldspan.collector_processor.in_process.otlp_receiver import OtlpReceiver
    from goldspan.collector_processor.in_process.otlp_sender import OtlpEvents
    from goldspan.scoring.criterion import Criterion
    from goldspan.scoring.goldens.loading import Source

    Goldens = Source | Iterable[Source] | GoldenIndex
    """One or several arguments of `load_goldens`, or its result."""

_logger = logging.getLogger("goldspan")

MAX_KNOWN_SPANS = 100_000
"""Spans whose facts are in memory at once, some tens of megabytes. Beyond it the oldest session is dropped."""
MAX_KNOWN_CONTENT = 64 * 1024 * 1024
"""Characters of messages, definitions of tools, results and answers, likewise."""


def make_pipeline(
    inner: SpanExporter,
    *,
    target: str,
    scores: bool,
    goldens: Goldens | None,
    criterion: Criterion | None,
    preset: str | Mapping[str, object] | None,
    metrics: Iterable[MetricSource] | None,
    metric_timeout: float,
    sample: float,
    tools: Definitions | None,
    profile: str | Path | None,
    hold: bool,
    hold_timeout: float,
    settle: float,
    run_idle: float,
    session_gap: float,
    max_held_spans: int,
    max_held_bytes: int,
    include_values: bool,
    agent_names: Collection[str],
    events: OtlpReceiver | None,
    emit: str,
    logger_provider: LoggerProvider | None,
    meter_provider: MeterProvider | None,
) -> SpanPipeline:
    """Make the pipeline of `ToolParameterMatchExporter`, whose options these are.

    Without `scores` it exports spans as they are. Raises `SettingsError` for a preset, metric, definition of a tool or
    receiver of events that cannot be used. Goldens that cannot be used are logged, and nothing is scored.
    """
    run, has_goldens = MetricWorkers(metric_timeout), goldens is not None
    try:
        scorer = scorer_of(
            preset=preset, metrics=metrics, run=run, has_goldens=has_goldens, tools=tools, profile=profile
        )
    except GoldspanError as error:
        raise SettingsError(str(error)) from None
    if goldens is None and not scorer.scores_every_session:
        _logger.warning("no goldens, and each metric chosen needs one, so nothing is scored")
    telemetry = SelfTelemetry(meter_provider)
    settings = EngineSettings(
        settle=settle,
        hold_timeout=hold_timeout,
        run_idle=run_idle,
        max_spans=MAX_KNOWN_SPANS,
        max_content=MAX_KNOWN_CONTENT,
        remote_callers=False,
        include_values=include_values,
        events=Events(emit),
        scorer=scorer,
        assembly=AssemblySettings(session_gap=session_gap, run_idle=run_idle),
    )
    index = _usable(goldens, criterion, telemetry) if scores else None
    index = None if index is None else scorer.sampled(index, sample)
    registry = DialectRegistry(
        join_attributes=(*JOIN_ATTRIBUTES, *(index.join_attributes if index else ())),
        definitions=index is not None and scorer.reads_definitions(index.goldens),
        on_problem=lambda problem: telemetry.count(names.PROBLEMS, 1, problem.code),
    )
    return SpanPipeline(
        inner,
        target=target,
        new_filter=None
        if index is None
        else lambda: TraceFilter(
            index, settings, registry, content=scorer.reads_content(index.goldens), on_failure=telemetry.failure
        ),
        hold=HoldSettings(hold, hold_timeout, max_held_spans, max_held_bytes),
        events=EventEmitter(logger_provider) if events is None else _otlp_events(events, telemetry),
        metrics=MetricEmitter(meter_provider, agent_names=agent_names),
        telemetry=telemetry,
    )


def _otlp_events(receiver: OtlpReceiver, telemetry: SelfTelemetry) -> OtlpEvents:
    # Imported when asked for: a door with a logger provider sends no events itself.
    from goldspan.collector_processor.in_process.otlp_sender import OtlpEvents  # noqa: PLC0415

    return OtlpEvents(receiver, lambda count, reason: telemetry.count(names.DROPPED_EVENTS, count, reason))


def _usable(goldens: Goldens | None, criterion: Criterion | None, telemetry: SelfTelemetry) -> GoldenIndex | None:
    """Load the goldens. None if that fails: the agent starts without scores."""
    try:
        if goldens is None or isinstance(goldens, GoldenIndex):
            return GoldenIndex() if goldens is None else goldens
        from goldspan.scoring.goldens.loading import index_of  # noqa: PLC0415 - what reads files, where there are any

        return index_of(goldens, criterion)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with a file, the agent must start
        telemetry.unusable_goldens(error)
        return None
