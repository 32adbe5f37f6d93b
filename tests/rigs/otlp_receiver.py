"""A real OTLP/HTTP receiver on a free local port, for tests of what leaves the process."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from rigs.local_http import Quiet, serving

REQUESTS = {
    "/v1/traces": ExportTraceServiceRequest,
    "/v1/logs": ExportLogsServiceRequest,
    "/v1/metrics": ExportMetricsServiceRequest,
}


class OtlpReceiver:
    """What was received, decoded."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.requests: dict[str, list[Any]] = {path: [] for path in REQUESTS}

    def all_spans(self) -> list[Any]:
        """The spans in the order they came."""
        requests = self.requests["/v1/traces"]
        scopes = [scope for request in requests for source in request.resource_spans for scope in source.scope_spans]
        return [span for scope in scopes for span in scope.spans]

    def spans(self) -> dict[str, Any]:
        """The spans by name; a name that came twice fails."""
        found = {span.name: span for span in self.all_spans()}
        assert len(found) == len(self.all_spans()), "a span was exported twice"
        return found

    def events(self) -> list[Any]:
        """The log records that are events."""
        requests = self.requests["/v1/logs"]
        scopes = [scope for request in requests for resource in request.resource_logs for scope in resource.scope_logs]
        return [record for scope in scopes for record in scope.log_records if record.event_name]

    def points(self, metric_name: str) -> list[Any]:
        """The data points of a metric in the last request that has it."""
        for request in reversed(self.requests["/v1/metrics"]):
            scopes = [scope for resource in request.resource_metrics for scope in resource.scope_metrics]
            for metric in (metric for scope in scopes for metric in scope.metrics):
                if metric.name == metric_name:
                    return list(getattr(metric, metric.WhichOneof("data")).data_points)
        return []


def attributes(message: Any) -> dict[str, Any]:
    """The attributes of a span, log record or data point as plain values."""
    return {entry.key: _plain(entry.value) for entry in message.attributes}


def _plain(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_plain(item) for item in value.array_value.values]
    return getattr(value, kind) if kind else None


@contextmanager
def otlp_receiver() -> Iterator[OtlpReceiver]:
    """Receive while the block runs."""

    class Handler(Quiet):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            encoding = self.headers.get("Content-Encoding")
            if encoding == "gzip":
                body = gzip.decompress(body)
            elif encoding == "deflate":
                body = zlib.decompress(body)
            receiver.requests[self.path].append(REQUESTS[self.path].FromString(body))
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

    with serving(Handler) as endpoint:
        receiver = OtlpReceiver(endpoint)
        yield receiver
