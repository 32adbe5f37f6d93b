"""The interfaces between the parts of the gateway, and the responses of OTLP.

    client -> receiver -> ExportRequest -> pipeline.accept -> AcceptResult -> client
                                       |
                                  journal, engine
                                       |
                                ExportRequest -> Exporter.deliver -> DeliveryResult -> delivered, retried or dead letter

The pipeline owns the queue and the retries: an exporter makes one attempt and classifies its result as the OTLP
specification does (https://opentelemetry.io/docs/specs/otlp/#failures). Nothing here raises: failures are results.
Responses are made for clients by the receivers, and read from back-ends by the exporters.
"""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from google.protobuf import json_format
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]

from goldspan.collector_processor.otlp_messages import REJECTED_FIELDS, RESPONSE_MESSAGES, rejected_items
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.scoring.json_values import is_dict

Headers = tuple[tuple[str, str], ...]
"""The forwarded headers of a request, sorted, names in lower case. They identify the tenant."""


def tenant_name(headers: Headers) -> str:
    """Return what people call the tenant of these headers: their values; empty without any."""
    return ",".join(value for _, value in headers)


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """One export request, received or to be sent."""

    signal: Signal
    body: bytes
    """A protobuf `Export{Trace,Logs,Metrics}ServiceRequest`, uncompressed. Receivers do not parse it."""
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class Accepted:
    """The request is stored, as durably as the journal is set to."""


@dataclass(frozen=True, slots=True)
class Busy:
    """The request is not stored and may be sent again: HTTP 503 with Retry-After, gRPC UNAVAILABLE with RetryInfo."""

    retry_after_seconds: float
    reason: str
    of_tenant: bool = False
    """This tenant alone has to wait: HTTP 429, gRPC RESOURCE_EXHAUSTED with RetryInfo."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The request is invalid and must not be sent again: HTTP 400, gRPC INVALID_ARGUMENT."""

    reason: str


AcceptResult = Accepted | Busy | Rejected


@dataclass(frozen=True, slots=True)
class Delivered:
    """The back-end accepted the request, perhaps without some items that must not be sent again."""

    rejected: int = 0
    """Items that it rejected."""
    message: str = ""
    """What it said about them. Without rejected items it is a warning."""


@dataclass(frozen=True, slots=True)
class Retry:
    """The attempt failed, and the same request may succeed later."""

    after_seconds: float | None
    """The delay that the back-end asked for; None: it asked for none, so exponential backoff applies."""
    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The back-end refused the request, and would refuse it again."""

    reason: str


DeliveryResult = Delivered | Retry | Refused


class Exporter(Protocol):
    """What the pipeline sends requests through."""

    def deliver(self, request: ExportRequest) -> DeliveryResult:
        """Make one attempt and wait for its result. Called from many threads at once; never raises."""
        ...

    def close(self) -> None:
        """Close connections. Later attempts return `Retry`."""
        ...


GRPC_METHODS = {
    "/opentelemetry.proto.collector.trace.v1.TraceService/Export": Signal.TRACES,
    "/opentelemetry.proto.collector.logs.v1.LogsService/Export": Signal.LOGS,
    "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export": Signal.METRICS,
}
"""The gRPC method of each signal."""
MAX_SHOWN = 200
"""Characters of a back-end's message that are logged and kept."""


class RequestStatus(Enum):
    """How a request ended: HTTP status, gRPC status, and the value of the counter's label `outcome`."""

    OK = (200, 0, "accepted")
    MALFORMED = (400, 3, "malformed")
    UNAUTHENTICATED = (401, 16, "unauthenticated")
    FORBIDDEN = (403, 7, "forbidden")
    NOT_FOUND = (404, 12, "not_found")
    NOT_ALLOWED = (405, 12, "not_allowed")
    TOO_LARGE = (413, 8, "too_large")
    UNSUPPORTED = (415, 12, "unsupported")
    TOO_MANY = (429, 8, "too_many")
    BUSY = (503, 14, "busy")
    TOO_SLOW = (408, 4, "too_slow")
    BROKEN = (500, 13, "broken")

    def __init__(self, http: int, grpc: int, label: str) -> None:
        self.http = http
        self.grpc = grpc
        self.label = label


@dataclass(frozen=True, slots=True)
class OtlpResponse:
    """What a client is told, whatever its protocol."""

    status: RequestStatus
    message: str = ""
    retry_after_seconds: float | None = None
    rejected: int = 0
    """Spans, log records or metrics that were left out of an accepted request."""
    bad_fields: int = 0
    """Fields that were left out of the others."""

    @property
    def retry_after(self) -> str | None:
        """The value of a Retry-After header, in whole seconds."""
        return None if self.retry_after_seconds is None else str(max(1, math.ceil(self.retry_after_seconds)))


def encode_response(signal: Signal, response: OtlpResponse, *, as_json: bool) -> bytes:
    """Return the body of an HTTP response: the response message of the signal, or a Status after an error."""
    if response.status is not RequestStatus.OK:
        return status_as_json(response) if as_json else status_as_protobuf(response)
    if not (response.rejected or response.bad_fields):
        return b"{}" if as_json else b""
    # Without rejected records the message is a warning.
    partial = {REJECTED_FIELDS[signal]: response.rejected, "error_message": response.message}
    message = RESPONSE_MESSAGES[signal](partial_success=partial)
    return json_format.MessageToJson(message, indent=None).encode() if as_json else bytes(message.SerializeToString())


def status_as_json(response: OtlpResponse) -> bytes:
    """Encode the `google.rpc.Status` of an error as JSON."""
    return json.dumps({"code": response.status.grpc, "message": response.message}).encode()


def status_as_protobuf(response: OtlpResponse) -> bytes:
    """Encode the `google.rpc.Status` of an error as protobuf; over gRPC the trailer `grpc-status-details-bin`."""
    status = Status(code=response.status.grpc, message=response.message)
    if response.retry_after_seconds is not None:
        nanos = round(response.retry_after_seconds * 1e9)
        delay = Duration(seconds=nanos // 10**9, nanos=nanos % 10**9)
        detail = AnyMessage()
        detail.Pack(RetryInfo(retry_delay=delay))
        status.details.append(detail)
    return bytes(status.SerializeToString())


def read_partial_success(request: ExportRequest, content: bytes, content_type: str = "") -> Delivered:
    """Return how many items a back-end rejected, by its response. An unreadable response counts as none.

    A back-end cannot reject more items than the request has bytes: beyond it the number is cut.
    """
    rejected, message = rejected_items(request.signal, content, content_type)
    return Delivered(min(rejected, len(request.body)), _one_line(message))


def read_error_message(content: bytes, *, is_json: bool) -> str:
    """Return the message of a Status, or the beginning of the text in its place; empty if it is not printable."""
    message = ""
    if is_json:
        with suppress(ValueError, RecursionError):
            status = json.loads(content)
            found = status.get("message") if is_dict(status) else None
            message = found if isinstance(found, str) else ""
    else:
        with suppress(DecodeError, ValueError):
            message = str(Status.FromString(content).message)
        # Proxies answer in plain text, which may parse as a Status without a message.
        message = message or content.decode("utf-8", "replace")
    return _one_line(message)


def parse_retry_info(status: object) -> float | None:
    """Return the seconds in the RetryInfo of an encoded `google.rpc.Status`; None if it has none."""
    if not isinstance(status, bytes):
        return None
    info = RetryInfo()
    try:
        found = any(detail.Unpack(info) for detail in Status.FromString(status).details)
    except (DecodeError, ValueError):
        return None
    return max(0.0, info.retry_delay.seconds + info.retry_delay.nanos / 1e9) if found else None


def _one_line(message: str) -> str:
    shown = " ".join(message[: 10 * MAX_SHOWN].split())[:MAX_SHOWN]
    return shown if shown.isprintable() else ""
