"""OpenTelemetry's own exporters as clients of the gateway's receivers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from opentelemetry._logs import SeverityNumber
from opentelemetry.exporter.otlp.proto.grpc import _log_exporter as grpc_logs
from opentelemetry.exporter.otlp.proto.grpc import metric_exporter as grpc_metrics
from opentelemetry.exporter.otlp.proto.grpc import trace_exporter as grpc_traces
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http import _log_exporter as http_logs
from opentelemetry.exporter.otlp.proto.http import metric_exporter as http_metrics
from opentelemetry.exporter.otlp.proto.http import trace_exporter as http_traces
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from goldspan.collector_processor.otlp_signals import Signal
from rigs.gateway_rig import Gateway, gateway

TOKEN = "correct horse battery staple"


@pytest.fixture(scope="module")
def open_gateway() -> Iterator[Gateway]:
    with gateway(tokens=(TOKEN,), forwarded=("x-scope-orgid",)) as running:
        yield running


@pytest.fixture
def running(open_gateway: Gateway) -> Gateway:
    open_gateway.intake.requests.clear()
    return open_gateway


def grpc_options(running: Gateway, compression: str) -> dict[str, Any]:
    headers = (("authorization", f"Bearer {TOKEN}"), ("x-scope-orgid", "tenant-1"))
    compress = {"gzip": grpc.Compression.Gzip, "deflate": grpc.Compression.Deflate}.get(compression)
    return {"endpoint": f"127.0.0.1:{running.grpc_port}", "insecure": True, "headers": headers, "compression": compress}


def http_options(running: Gateway, compression: str, path: str) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {TOKEN}", "X-Scope-OrgID": "tenant-1"}
    endpoint = f"http://127.0.0.1:{running.http_port}{path}"
    compress = Compression(compression)
    return {"endpoint": endpoint, "headers": headers, "compression": compress}


CLIENTS = [(protocol, compression) for protocol in ("grpc", "http") for compression in ("none", "gzip", "deflate")]


@pytest.mark.parametrize(("protocol", "compression"), CLIENTS)
def test_spans_arrive(running: Gateway, protocol: str, compression: str) -> None:
    exporter = (
        grpc_traces.OTLPSpanExporter(**grpc_options(running, compression))
        if protocol == "grpc"
        else http_traces.OTLPSpanExporter(**http_options(running, compression, "/v1/traces"))
    )
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with provider.get_tracer("test").start_as_current_span("a", attributes={"text": "x" * 5000}):
        pass
    provider.shutdown()
    [message] = running.intake.messages(Signal.TRACES)
    [span] = message.resource_spans[0].scope_spans[0].spans
    assert (span.name, len(span.attributes[0].value.string_value)) == ("a", 5000)
    assert running.intake.requests[0].headers == (("x-scope-orgid", "tenant-1"),)


@pytest.mark.parametrize(("protocol", "compression"), CLIENTS)
def test_log_records_arrive(running: Gateway, protocol: str, compression: str) -> None:
    exporter = (
        grpc_logs.OTLPLogExporter(**grpc_options(running, compression))
        if protocol == "grpc"
        else http_logs.OTLPLogExporter(**http_options(running, compression, "/v1/logs"))
    )
    provider = LoggerProvider()
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    provider.get_logger("test").emit(body="b", severity_number=SeverityNumber.INFO)
    provider.shutdown()
    [message] = running.intake.messages(Signal.LOGS)
    [record] = message.resource_logs[0].scope_logs[0].log_records
    assert record.body.string_value == "b"


@pytest.mark.parametrize(("protocol", "compression"), CLIENTS)
def test_metrics_arrive(running: Gateway, protocol: str, compression: str) -> None:
    exporter = (
        grpc_metrics.OTLPMetricExporter(**grpc_options(running, compression))
        if protocol == "grpc"
        else http_metrics.OTLPMetricExporter(**http_options(running, compression, "/v1/metrics"))
    )
    provider = MeterProvider([PeriodicExportingMetricReader(exporter)])
    provider.get_meter("test").create_counter("c").add(3)
    provider.shutdown()
    [message] = running.intake.messages(Signal.METRICS)
    [metric] = message.resource_metrics[0].scope_metrics[0].metrics
    assert (metric.name, metric.sum.data_points[0].as_int) == ("c", 3)
