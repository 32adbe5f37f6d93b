"""The messages of each signal, and how many items of a request its response says were rejected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from goldspan.collector_processor.otlp_signals import Signal

REQUEST_MESSAGES: Mapping[Signal, Any] = {
    Signal.TRACES: ExportTraceServiceRequest,
    Signal.LOGS: ExportLogsServiceRequest,
    Signal.METRICS: ExportMetricsServiceRequest,
}
RESPONSE_MESSAGES: Mapping[Signal, Any] = {
    Signal.TRACES: ExportTraceServiceResponse,
    Signal.LOGS: ExportLogsServiceResponse,
    Signal.METRICS: ExportMetricsServiceResponse,
}
REJECTED_FIELDS = {
    Signal.TRACES: "rejected_spans",
    Signal.LOGS: "rejected_log_records",
    Signal.METRICS: "rejected_data_points",
}
"""The field of a partial success that counts rejected items."""


def rejected_items(signal: Signal, content: bytes, content_type: str) -> tuple[int, str]:
    """Return how many items a receiver rejected of a request that it took, by its response, and what it said.

    An unreadable response counts as none. What is not JSON is read as protobuf.
    """
    message = RESPONSE_MESSAGES[signal]()
    try:
        if content_type.startswith("application/json"):
            json_format.Parse(content, message, ignore_unknown_fields=True)
        else:
            message.ParseFromString(content)
        partial = message.partial_success
        return max(0, getattr(partial, REJECTED_FIELDS[signal])), str(partial.error_message)
    except Exception:  # noqa: BLE001 - parsers raise many kinds, and nothing that a receiver says may stop delivery
        return 0, ""
