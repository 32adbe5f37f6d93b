"""OTLP over gRPC out: one call for each attempt, and what its status means.

https://opentelemetry.io/docs/specs/otlp/#otlpgrpc-response, #otlpgrpc-throttling
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]

from goldspan.collector_processor.gateway.interfaces import Delivered, DeliveryResult, Refused, Request, Retry, Signal
from goldspan.collector_processor.gateway.otlp_responses import REJECTED_FIELDS, RESPONSES
from goldspan.collector_processor.gateway.receive.grpc_receiver import METHODS
from goldspan.collector_processor.gateway.tls import ClientTls

RETRYABLE = frozenset({
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DATA_LOSS,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.UNAVAILABLE,
})  # fmt: skip
"""The codes after which the same request may go through later; RESOURCE_EXHAUSTED is one if it says when."""

_DETAILS = "grpc-status-details-bin"
_SHOWN = 200


class OtlpGrpcExporter:
    """Delivers to one OTLP/gRPC endpoint over one channel."""

    def __init__(
        self,
        target: str,
        *,
        secure: bool,
        headers: Mapping[str, str],
        encoding: str,
        timeout: float,
        tls: ClientTls,
    ) -> None:
        """Deliver to `host:port`, compressed by `encoding`: `gzip` or `identity`."""
        options = [("grpc.max_send_message_length", -1)]
        if secure:
            pem = tls.pem()
            credentials = grpc.ssl_channel_credentials(pem.ca, pem.key, pem.certificate)
            self._channel = grpc.secure_channel(target, credentials, options)
        else:
            self._channel = grpc.insecure_channel(target, options)
        self._calls: dict[Signal, Any] = {
            signal: self._channel.unary_unary(method, None, None) for method, signal in METHODS.items()
        }
        self._headers = tuple(headers.items())
        self._own = frozenset(headers)
        self._compression = grpc.Compression.Gzip if encoding == "gzip" else grpc.Compression.NoCompression
        self._timeout = timeout
        self._closed = False

    def deliver(self, request: Request) -> DeliveryResult:
        """Make one attempt."""
        if self._closed:
            return Retry(None, "shutting down")
        forwarded = tuple(header for header in request.headers if header[0] not in self._own)
        try:
            answer = self._calls[request.signal](
                request.body,
                timeout=self._timeout,
                metadata=forwarded + self._headers,
                compression=self._compression,
            )
        except grpc.RpcError as error:
            return _result_of_error(error)
        except ValueError as error:  # the channel was closed meanwhile
            return Retry(None, str(error)[:_SHOWN])
        return _partial_success(request.signal, answer)

    def close(self) -> None:
        """Close the channel."""
        self._closed = True
        self._channel.close()


def _result_of_error(error: Any) -> DeliveryResult:
    code: grpc.StatusCode = error.code()
    details = " ".join((error.details() or "").split())[:_SHOWN]
    reason = f"gRPC {code.name}: {details}" if details else f"gRPC {code.name}"
    after = _retry_info(error)
    if code in RETRYABLE or (code is grpc.StatusCode.RESOURCE_EXHAUSTED and after is not None):
        return Retry(after, reason)
    return Refused(reason)


def _retry_info(error: Any) -> float | None:
    """Return the seconds that RetryInfo in the details of a status asks for."""
    encoded = next((value for key, value in error.trailing_metadata() or () if key == _DETAILS), None)
    if encoded is None:
        return None
    info = RetryInfo()
    try:
        found = any(detail.Unpack(info) for detail in Status.FromString(encoded).details)
    except DecodeError:
        return None
    return max(0.0, info.retry_delay.seconds + info.retry_delay.nanos / 1e9) if found else None


def _partial_success(signal: Signal, answer: bytes) -> DeliveryResult:
    try:
        partial = RESPONSES[signal].FromString(answer).partial_success
    except DecodeError:
        return Delivered()
    return Delivered(max(0, getattr(partial, REJECTED_FIELDS[signal][0])), partial.error_message[:_SHOWN])
