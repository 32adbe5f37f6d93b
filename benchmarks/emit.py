"""What a span costs to encode, and a result once it is known: its event, by the SDK and as bytes, and its points."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence

from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.metrics import Histogram
from opentelemetry.metrics import MeterProvider as AnyMeterProvider
from opentelemetry.sdk._logs import LoggerProvider, LogRecordProcessor, ReadableLogRecord, ReadWriteLogRecord
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from benchmarks.harness import THREAD_CPU, Comparison, Subject, compare, pin, print_tables
from benchmarks.in_process import RESOURCE, Agent, Recorded
from benchmarks.traffic import golden_set, otlp_json_lines, plan_sessions
from goldspan.collector_processor.emit.emitters import EventEmitter, MetricEmitter, evaluated_span
from goldspan.collector_processor.emit.evaluation import Evaluation
from goldspan.collector_processor.emit.otlp_encoding import (
    EncodedPoints,
    encoded_events,
    encoded_span,
    export_request,
    span_source,
)
from goldspan.collector_processor.in_process.span_pipeline import MAX_BATCH
from goldspan.collector_processor.replay.replay import replay
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.files import views
from goldspan.scoring import load_goldens
from goldspan.scoring.errors import Problem
from goldspan.scoring.metrics.session_metrics import WITHOUT_GOLDEN
from goldspan.scoring.run import scorer_of

SESSIONS = 24
BATCH = 64
"""Events that one step of an engine gives at once."""


class Keep(LogRecordProcessor):
    """Keeps the records for the encoder."""

    def __init__(self) -> None:
        self.records: list[ReadableLogRecord] = []

    def on_emit(self, log_record: ReadWriteLogRecord) -> None:
        self.records.append(
            ReadableLogRecord(log_record.log_record, RESOURCE, log_record.instrumentation_scope, log_record.limits)
        )

    def shutdown(self) -> None:
        self.records.clear()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return True


def evaluations() -> list[Evaluation]:
    """Every result of some sessions, by their goldens and by all metrics that need none."""
    sessions = plan_sessions([f"s-{index}" for index in range(SESSIONS)], content=True)
    found: list[Evaluation] = []
    documents = [json.loads(line) for line in otlp_json_lines(sessions)]
    problems: list[Problem] = []
    goldens = load_goldens(golden_set(sessions))
    scorer = scorer_of(metrics=WITHOUT_GOLDEN)
    registry = DialectRegistry(definitions=True)
    replay(
        views(documents, problems.append),
        goldens,
        registry,
        problems=problems,
        consumers=[found.append],
        scorer=scorer,
    )
    return found


def events(results: Sequence[Evaluation]) -> Comparison:
    """Emit and encode events."""

    def through_the_sdk(*, encode: bool) -> Callable[[], object]:
        provider, keep = LoggerProvider(RESOURCE, shutdown_on_exit=False), Keep()
        provider.add_log_record_processor(keep)
        emitter = EventEmitter(provider)

        def emit() -> None:
            for evaluation in results:
                emitter.emit(evaluation)
            if encode:
                encode_logs(keep.records).SerializeToString()
            keep.records.clear()

        return emit

    def as_bytes() -> None:
        for start in range(0, len(results), BATCH):
            encoded_events(results[start : start + BATCH], 1)

    name = "LogRecord of the SDK, and encode_logs"
    return compare(
        "an event, thread CPU",
        item="event",
        items=len(results),
        reference=Subject(name, through_the_sdk(encode=True)),
        control=Subject(name, through_the_sdk(encode=True)),
        candidates=[
            Subject("LogRecord of the SDK alone", through_the_sdk(encode=False)),
            Subject("as bytes", as_bytes),
        ],
        clock=THREAD_CPU,
    )


def spans() -> Comparison:
    """Encode the spans of an agent, unscored."""
    recorded = Recorded()
    agent = Agent(BatchSpanProcessor(recorded), agent=True, content=True)
    agent.play()
    agent.flush()
    ended = recorded.take()
    agent.provider.shutdown()

    def by_the_sdk() -> None:
        for start in range(0, len(ended), MAX_BATCH):
            encode_spans(ended[start : start + MAX_BATCH]).SerializeToString()

    def as_bytes() -> None:
        for start in range(0, len(ended), MAX_BATCH):
            export_request([(span_source(span), encoded_span(span)) for span in ended[start : start + MAX_BATCH]])

    name = "encode_spans of the SDK"
    return compare(
        "a span, thread CPU",
        item="span",
        items=len(ended),
        reference=Subject(name, by_the_sdk),
        control=Subject(name, by_the_sdk),
        candidates=[Subject("as bytes", as_bytes)],
        clock=THREAD_CPU,
    )


def points(results: Sequence[Evaluation]) -> Comparison:
    """Record metric points."""

    def meter_provider() -> MeterProvider:
        return MeterProvider([InMemoryMetricReader()], RESOURCE, shutdown_on_exit=False)

    def histogram() -> Callable[[], object]:
        scores: Histogram = meter_provider().get_meter("reference").create_histogram("score")
        attributes = {"golden_set": "travel", "service.name": "travel", "tool": "x", "level": "call", "label": "pass"}
        context = evaluated_span(results[0].target)

        def record() -> None:
            for _ in results:
                scores.record(1.0, attributes, context)

        return record

    def recording(provider: AnyMeterProvider) -> Callable[[], object]:
        emitter = MetricEmitter(provider)

        def record() -> None:
            for start in range(0, len(results), BATCH):
                emitter.record(results[start : start + BATCH])

        return record

    name = "Histogram.record of the SDK, attributes ready"
    return compare(
        "metric points of a result, thread CPU",
        item="result",
        items=len(results),
        reference=Subject(name, histogram()),
        control=Subject(name, histogram()),
        candidates=[
            Subject("every point of a result, by the SDK", recording(meter_provider())),
            Subject("the same, of the gateway", recording(EncodedPoints({}, time.time_ns))),
        ],
        clock=THREAD_CPU,
    )


def run() -> Iterator[Comparison]:
    """Measure spans, events and points."""
    pin()
    yield spans()
    results = evaluations()
    yield events(results)
    yield points(results)


if __name__ == "__main__":
    print_tables(run())
