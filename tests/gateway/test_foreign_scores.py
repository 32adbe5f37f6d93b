"""A client cannot pass its own score for goldspan's: what is scored is replaced, the rest passes or is removed."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from goldspan.collector_processor.gateway.interfaces import Accepted, ExportRequest, Rejected
from goldspan.collector_processor.gateway.pipeline import GatewayPipeline
from goldspan.collector_processor.gateway.settings.sections import PipelineSettings
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.mappers.readers.otlp_protobuf import message_attributes
from goldspan.scoring.goldens import load_goldens
from rigs.pipeline_rig import QUICK, Downstream
from rigs.waiting import until

OWN = "tool_parameter_match"
GOLDENS = load_goldens(
    {
        "golden_set": "g",
        "goldens": [{"session": "wanted", "turns": [{"calls": [{"name": "get_weather", "args": {"city": "Oslo"}}]}]}],
    }
)
NAMES = (OWN, f"{OWN}.score", f"{OWN}.turn.score", f"{OWN}.unheard.of", f"{OWN}_score", "trajectory_recall.turn.score")
OTHERS = (f"{OWN}ing.score", "trajectory_recall.mine", "relevance.score", "session_id")


def forge(attributes: Any, *, names: tuple[str, ...] = NAMES + OTHERS) -> None:
    """Write each name twice, with values of two types."""
    for name in names:
        attributes.add(key=name).value.double_value = 1.0
        attributes.add(key=name).value.kvlist_value.values.add(key="score").value.string_value = "1"


def evaluation(holder: Any, name: str) -> None:
    holder.attributes.add(key="gen_ai.evaluation.name").value.string_value = name
    holder.attributes.add(key="gen_ai.evaluation.score.value").value.double_value = 1.0


def traces(session: str = "wanted") -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    forge(group.resource.attributes)
    scope = group.scope_spans.add()
    scope.scope.name = "agent"
    forge(scope.scope.attributes)
    for span_id, parent, operation in ((b"a" * 8, b"", "invoke_agent"), (b"b" * 8, b"a" * 8, "execute_tool")):
        span = scope.spans.add(trace_id=b"t" * 16, span_id=span_id, parent_span_id=parent, name=operation)
        span.start_time_unix_nano, span.end_time_unix_nano = 1_000_000_000, 2_000_000_000
        forge(span.attributes)
        pairs = {"gen_ai.operation.name": operation, "gen_ai.conversation.id": session}
        if operation == "execute_tool":
            pairs |= {"gen_ai.tool.name": "get_weather", "gen_ai.tool.call.arguments": '{"city": "Rome"}'}
        for key, value in pairs.items():
            span.attributes.add(key=key).value.string_value = value
        for name in (OWN, "relevance"):
            event = span.events.add(name="gen_ai.evaluation.result")
            evaluation(event, name)
            forge(event.attributes)
        forge(span.links.add(trace_id=b"l" * 16).attributes)
    return request


def logs() -> ExportLogsServiceRequest:
    request = ExportLogsServiceRequest()
    scope = request.resource_logs.add().scope_logs.add()
    forge(request.resource_logs[0].resource.attributes)
    for name in (OWN, "trajectory_recall", "relevance"):
        record = scope.log_records.add(event_name="gen_ai.evaluation.result", trace_id=b"t" * 16)
        evaluation(record, name)
        forge(record.attributes)
    return request


def points() -> ExportMetricsServiceRequest:
    request = ExportMetricsServiceRequest()
    metrics = request.resource_metrics.add().scope_metrics.add().metrics
    for name in (f"{OWN}.score", f"{OWN}_not_evaluated", "trajectory_recall.score", *OTHERS):
        metrics.add(name=name).gauge.data_points.add().as_double = 1.0
    return request


def keys(attributes: Any) -> set[str]:
    return {one.key for one in attributes}


def through(*requests: ExportRequest, **settings: Any) -> tuple[Downstream, GatewayPipeline]:
    downstream = Downstream()
    pipeline = GatewayPipeline(GOLDENS, downstream, PipelineSettings(engine=QUICK, **settings))
    for request in requests:
        assert pipeline.accept(request) == Accepted()
    assert pipeline.drain(20.0)
    assert not pipeline.failures
    return downstream, pipeline


def forwarded(downstream: Downstream, signal: Signal) -> list[Any]:
    """Resources, scopes and what is in them, without goldspan's own events and points."""
    kinds: dict[Signal, Any] = {
        Signal.TRACES: ExportTraceServiceRequest,
        Signal.LOGS: ExportLogsServiceRequest,
        Signal.METRICS: ExportMetricsServiceRequest,
    }
    found: list[Any] = []
    for body in downstream.of(signal):
        for group in kinds[signal].FromString(body).ListFields()[0][1]:
            inner = group.ListFields()[-1][1]
            found += [(group.resource, scope) for scope in inner if scope.scope.name != "goldspan"]
    return found


@pytest.mark.parametrize("trust_scores", [True, False])
def test_a_scored_span_has_goldspan_s_attributes_alone(trust_scores: bool) -> None:
    downstream, pipeline = through(
        ExportRequest(Signal.TRACES, traces().SerializeToString()), trust_scores=trust_scores
    )
    root, call = sorted(downstream.spans(), key=lambda span: span.span_id)
    for span, level in ((root, "turn."), (call, "")):
        own = [one for one in span.attributes if one.key.startswith(OWN) and one.key != f"{OWN}ing.score"]
        assert len(own) == len(keys(own))
        assert message_attributes(own)[f"{OWN}.{level}score"] == 0.0
        assert not keys(own) & {OWN, f"{OWN}_score", f"{OWN}.unheard.of"}
        assert keys(span.attributes) >= {*OTHERS, "gen_ai.operation.name"}
    assert f"{OWN}.turn.score" not in keys(call.attributes)
    assert {
        event[f"{OWN}.level"]: event["gen_ai.evaluation.score.value"]
        for event in downstream.events()
        if event.get(f"{OWN}.level")
    }["call"] == 0.0
    assert pipeline.worker.problems["overwritten_score"] == (2 if trust_scores else 0)


def test_scores_that_goldspan_did_not_write_pass_where_clients_are_trusted() -> None:
    sent = [traces("of nobody"), logs(), points()]
    requests = [ExportRequest(signal, one.SerializeToString()) for signal, one in zip(Signal, sent, strict=True)]
    downstream, pipeline = through(*requests)
    for request in requests:
        assert request.body in downstream.of(request.signal)
    assert not pipeline.intake.removed_scores


@pytest.mark.parametrize("session", ["wanted", "of nobody"])
def test_scores_of_clients_that_are_not_trusted_are_removed_wherever_they_stand(session: str) -> None:
    downstream, pipeline = through(
        ExportRequest(Signal.TRACES, traces(session).SerializeToString()), trust_scores=False
    )
    for resource, scope in forwarded(downstream, Signal.TRACES):
        for span in scope.spans:
            [event], [link] = span.events, span.links
            assert message_attributes(event.attributes)["gen_ai.evaluation.name"] == "relevance"
            for holder in (resource, scope.scope, link):
                assert keys(holder.attributes) == set(OTHERS)
            assert keys(event.attributes) == {*OTHERS, "gen_ai.evaluation.name", "gen_ai.evaluation.score.value"}
            if session != "wanted":
                assert not any(key in NAMES for key in keys(span.attributes))
            assert (span.trace_id, link.trace_id, span.end_time_unix_nano) == (b"t" * 16, b"l" * 16, 2_000_000_000)
    each = 2 * len(NAMES)
    assert pipeline.intake.removed_scores == {Signal.TRACES: 2 * each + 2 * (3 * each + 1)}
    assert ("goldspan_removed_scores_total", {"signal": "traces"}, 8 * each + 2) in list(pipeline.metrics())


def test_their_events_and_metric_points_are_removed_as_well() -> None:
    downstream, pipeline = through(
        ExportRequest(Signal.LOGS, logs().SerializeToString()),
        ExportRequest(Signal.METRICS, points().SerializeToString()),
        trust_scores=False,
    )
    [(resource, scope)] = forwarded(downstream, Signal.LOGS)
    [record] = scope.log_records
    assert message_attributes(record.attributes)["gen_ai.evaluation.name"] == "relevance"
    assert keys(record.attributes) == {*OTHERS, "gen_ai.evaluation.name", "gen_ai.evaluation.score.value"}
    assert keys(resource.attributes) == set(OTHERS)
    [(_, scope)] = forwarded(downstream, Signal.METRICS)
    assert [metric.name for metric in scope.metrics] == list(OTHERS)
    assert pipeline.intake.removed_scores[Signal.METRICS] == 3


def test_a_broken_part_hides_nothing() -> None:
    """Bytes that some back-end may still read: a key that is no UTF-8 beside it, a cut span, a cut resource."""
    request = traces("of nobody")
    span = request.resource_spans[0].scope_spans[0].spans[0]
    no_text = span.SerializeToString() + bytes([0x4A, 5, 0x0A, 3, 0xFF, 0xFE, 0xFD])
    cut = span.SerializeToString()[:-3]
    body = b""
    for raw in (no_text, cut):
        scope = bytes([0x12]) + varint(len(raw)) + raw
        group = bytes([0x12]) + varint(len(scope)) + scope
        body += bytes([0x0A]) + varint(len(group)) + group
    downstream, _ = through(ExportRequest(Signal.TRACES, body), trust_scores=False)
    [kept] = downstream.of(Signal.TRACES)
    assert b"\xff\xfe\xfd" in kept
    assert f"{OWN}.score".encode() not in kept
    cut_resource = request.resource_spans[0].resource.SerializeToString()[:-1]
    group = bytes([0x0A]) + varint(len(cut_resource)) + cut_resource
    pipeline = GatewayPipeline(GOLDENS, Downstream(), PipelineSettings(trust_scores=False))
    assert isinstance(
        pipeline.accept(ExportRequest(Signal.TRACES, bytes([0x0A]) + varint(len(group)) + group)), Rejected
    )
    pipeline.drain(5.0)


def varint(number: int) -> bytes:
    encoded = b""
    while number > 0x7F:
        encoded += bytes([number & 0x7F | 0x80])
        number >>= 7
    return encoded + bytes([number])


def test_of_two_gateways_the_last_one_that_scores_writes_the_attributes() -> None:
    first, _ = through(ExportRequest(Signal.TRACES, traces().SerializeToString()), trust_scores=False)
    bodies = [ExportRequest(Signal.TRACES, body) for body in first.of(Signal.TRACES)]
    second, _ = through(*bodies)

    def scored(downstream: Downstream) -> dict[bytes, Any]:
        return {
            span.span_id: {key: value for key, value in message_attributes(span.attributes).items() if OWN in key}
            for span in downstream.spans()
        }

    assert scored(second) == scored(first)
    others = load_goldens({"golden_set": "others", "goldens": [{"session": "another", "turns": []}]})
    downstream = Downstream()
    third = GatewayPipeline(others, downstream, PipelineSettings(engine=QUICK))
    for body in bodies:
        third.accept(body)
    until(lambda: len(downstream.spans()) == 2)
    assert third.drain(10.0)
    assert scored(downstream) == scored(first)
