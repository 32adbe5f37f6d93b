"""Events through a real LoggerProvider."""

from __future__ import annotations

import pytest
from opentelemetry import context as otel
from opentelemetry.sdk._logs import LoggerProvider, ReadWriteLogRecord
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider

from goldspan.collector_processor.emit import names
from goldspan.collector_processor.emit.emitters import EventEmitter, suppressed_instrumentation
from goldspan.scoring.sessions import SpanRef
from rigs import evaluation_examples as given

Emitted = tuple[EventEmitter, InMemoryLogRecordExporter]


@pytest.fixture
def emitted() -> Emitted:
    exporter = InMemoryLogRecordExporter()
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    return EventEmitter(provider), exporter


def test_an_event_is_a_log_record_in_the_context_of_the_judged_span(emitted: Emitted) -> None:
    emitter, exporter = emitted
    emitter.emit(given.evaluation(given.ALIGNED))
    [entry] = exporter.get_finished_logs()
    record = entry.log_record
    assert record.event_name == "gen_ai.evaluation.result"
    assert format(record.trace_id or 0, "032x") == given.TOOL_SPAN.trace_id
    assert format(record.span_id or 0, "016x") == given.TOOL_SPAN.span_id
    assert record.timestamp == given.END
    assert record.attributes is not None
    assert record.attributes["gen_ai.evaluation.score.label"] == "fail"
    assert entry.instrumentation_scope.schema_url == names.SCHEMA_URL


@pytest.mark.parametrize("target", [None, SpanRef("", ""), SpanRef("none", "at all")])
def test_a_result_without_a_span_points_at_none_not_even_the_one_that_runs(
    emitted: Emitted, target: SpanRef | None
) -> None:
    emitter, exporter = emitted
    with TracerProvider().get_tracer("agent").start_as_current_span("unrelated"):
        emitter.emit(given.evaluation(given.SESSION, target=target))
    [entry] = exporter.get_finished_logs()
    assert not entry.log_record.trace_id
    assert not entry.log_record.span_id


def test_an_event_passes_processors_that_drop_what_is_logged_while_instrumentation_is_suppressed() -> None:
    class Dropping(SimpleLogRecordProcessor):
        """As Logfire's."""

        def on_emit(self, log_record: ReadWriteLogRecord) -> None:
            if not otel.get_value(otel._SUPPRESS_INSTRUMENTATION_KEY):
                super().on_emit(log_record)

    exporter, provider = InMemoryLogRecordExporter(), LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(Dropping(exporter))
    with suppressed_instrumentation():
        EventEmitter(provider).emit(given.evaluation(given.ALIGNED))
        assert otel.get_value(otel._SUPPRESS_INSTRUMENTATION_KEY)
    assert len(exporter.get_finished_logs()) == 1
