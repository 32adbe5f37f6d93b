"""A real framework, instrumented by its own OpenTelemetry support, scored on its way to a real OTLP/HTTP receiver."""

from __future__ import annotations

import live_agent
import pytest
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider

from goldspan.collector_processor import ToolParameterMatchSpanProcessor
from rigs.otlp_receiver import OtlpReceiver, attributes, otlp_receiver

OURS = "tool_parameter_match"


@pytest.fixture(name="received", scope="module")
def _received() -> OtlpReceiver:
    with otlp_receiver() as received:
        loggers, tracers = LoggerProvider(), TracerProvider()
        loggers.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter(f"{received.endpoint}/v1/logs")))
        meters = MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter(f"{received.endpoint}/v1/metrics"))])
        tracers.add_span_processor(
            ToolParameterMatchSpanProcessor(
                OTLPSpanExporter(f"{received.endpoint}/v1/traces"),
                goldens=live_agent.GOLDENS,
                logger_provider=loggers,
                meter_provider=meters,
            )
        )
        live_agent.converse(tracers)
        for provider in (tracers, loggers, meters):
            provider.shutdown()
        return received


def test_every_span_came_once(received: OtlpReceiver) -> None:
    spans = received.all_spans()
    assert len({span.span_id for span in spans}) == len(spans) == 2 + 4 + 3


def test_the_tool_spans_carry_their_scores(received: OtlpReceiver) -> None:
    tools = [attributes(span) for span in received.all_spans() if span.name.startswith("execute_tool")]
    found = {
        (one["gen_ai.tool.call.arguments"], one[f"{OURS}.score"], one[f"{OURS}.label"], one[f"{OURS}.expected_call"])
        for one in tools
    }
    assert found == {
        ('{"room":"kitchen"}', 1.0, "pass", "0.0"),
        ('{"room":"kitchen","celsius":21.6}', 1.0, "pass", "1.0"),
        ('{"room":"bath","celsius":18}', 0.5, "fail", "1.1"),
    }


def test_the_turn_roots_carry_theirs(received: OtlpReceiver) -> None:
    roots = [attributes(span) for span in received.all_spans() if not span.parent_span_id]
    assert sorted(root[f"{OURS}.turn.score"] for root in roots) == [0.75, 1.0]
    assert {root[f"{OURS}.turn.golden_set"] for root in roots} == {"thermostat-agent@2"}


def test_events_stand_in_the_context_of_the_spans_they_judge(received: OtlpReceiver) -> None:
    spans = {(span.trace_id, span.span_id): attributes(span) for span in received.all_spans()}
    calls = [event for event in received.events() if attributes(event)[f"{OURS}.level"] == "call"]
    assert len(calls) == 3
    for event in calls:
        judged = spans[event.trace_id, event.span_id]
        assert attributes(event)["gen_ai.evaluation.score.value"] == judged[f"{OURS}.score"]
        assert attributes(event)["gen_ai.tool.call.id"] == judged["gen_ai.tool.call.id"]
        assert event.event_name == "gen_ai.evaluation.result"


def test_the_histogram_parts_right_from_nearly_right_and_links_to_a_trace(received: OtlpReceiver) -> None:
    points = received.points(f"{OURS}.score")
    assert {tuple(point.explicit_bounds) for point in points} == {(0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1)}
    assert sum(point.count for point in points) == 3 + 2 + 1
    traces = {span.trace_id for span in received.all_spans()}
    exemplars = [exemplar for point in points for exemplar in point.exemplars]
    assert exemplars
    assert all(exemplar.trace_id in traces for exemplar in exemplars)
