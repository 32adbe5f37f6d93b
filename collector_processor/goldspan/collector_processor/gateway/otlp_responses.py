"""What a client is told, in the terms of OTLP over HTTP and over gRPC.

https://opentelemetry.io/docs/specs/otlp/#otlphttp-response and #otlpgrpc-response
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from goldspan.collector_processor.gateway.interfaces import Signal

RESPONSES: Mapping[Signal, Any] = {
    Signal.TRACES: ExportTraceServiceResponse,
    Signal.LOGS: ExportLogsServiceResponse,
    Signal.METRICS: ExportMetricsServiceResponse,
}
REJECTED_FIELDS = {
    Signal.TRACES: ("rejected_spans", "rejectedSpans"),
    Signal.LOGS: ("rejected_log_records", "rejectedLogRecords"),
    Signal.METRICS: ("rejected_data_points", "rejectedDataPoints"),
}
"""What a partial success calls the number of items not taken, in protobuf and in JSON."""


class RequestStatus(Enum):
    """How a request ended: the HTTP status, the gRPC status and the word of the counter."""

    OK = (200, 0, "accepted")
    MALFORMED = (400, 3, "malformed")
    UNAUTHENTICATED = (401, 16, "unauthenticated")
    NOT_FOUND = (404, 12, "not_found")
    NOT_ALLOWED = (405, 12, "not_allowed")
    TOO_LARGE = (413, 8, "too_large")
    UNSUPPORTED = (415, 12, "unsupported")
    HEADERS_TOO_LARGE = (431, 8, "headers_too_large")
    BUSY = (503, 14, "busy")
    TOO_SLOW = (408, 4, "too_slow")
    BROKEN = (500, 13, "broken")

    def __init__(self, http: int, grpc: int, word: str) -> None:
        self.http = http
        self.grpc = grpc
        self.word = word


@dataclass(frozen=True, slots=True)
class OtlpResponse:
    """What a client is told, before it is put into the terms of its protocol."""

    outcome: RequestStatus
    message: str = ""
    retry_after_seconds: float | None = None
    rejected: int = 0
    """Items left out of a request that was taken."""

    @property
    def retry_after(self) -> str | None:
        """The value of a Retry-After header: whole seconds."""
        return None if self.retry_after_seconds is None else str(max(1, math.ceil(self.retry_after_seconds)))


def response_body(signal: Signal, answer: OtlpResponse, *, as_json: bool) -> bytes:
    """Write the body of an HTTP response: the response of the signal's service, or a Status."""
    if answer.outcome is not RequestStatus.OK:
        return status_json(answer) if as_json else status_details(answer)
    if not answer.rejected:
        return b"{}" if as_json else b""
    in_protobuf, in_json = REJECTED_FIELDS[signal]
    if as_json:
        partial = {in_json: str(answer.rejected), "errorMessage": answer.message}
        return json.dumps({"partialSuccess": partial}).encode()
    message = RESPONSES[signal]()
    setattr(message.partial_success, in_protobuf, answer.rejected)
    message.partial_success.error_message = answer.message
    return bytes(message.SerializeToString())


def status_json(answer: OtlpResponse) -> bytes:
    """Write a Status as JSON."""
    return json.dumps({"code": answer.outcome.grpc, "message": answer.message}).encode()


def status_details(answer: OtlpResponse) -> bytes:
    """Write the Status of a gRPC error, for the trailer `grpc-status-details-bin`."""
    return bytes(_status(answer).SerializeToString())


def _status(answer: OtlpResponse) -> Status:
    status = Status(code=answer.outcome.grpc, message=answer.message)
    if answer.retry_after_seconds is not None:
        nanos = round(answer.retry_after_seconds * 1e9)
        delay = Duration(seconds=nanos // 10**9, nanos=nanos % 10**9)
        detail = AnyMessage()
        detail.Pack(RetryInfo(retry_delay=delay))
        status.details.append(detail)
    return status
