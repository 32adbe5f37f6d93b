"""OTLP/gRPC export: one call for each attempt.

https://opentelemetry.io/docs/specs/otlp/#otlpgrpc-response, #otlpgrpc-throttling
"""

from __future__ import annotations

from typing import Any

import grpc

from goldspan.collector_processor.gateway import interfaces
from goldspan.collector_processor.gateway.settings.sections import Destination
from goldspan.collector_processor.http_client import MAX_BODY
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.scoring.errors import SettingsError

RETRYABLE = frozenset({
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DATA_LOSS,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.UNAVAILABLE,
})  # fmt: skip
"""Status codes after which the same request is sent again. RESOURCE_EXHAUSTED is one only with a RetryInfo."""


_MAX_RECONNECT_MILLISECONDS = 10_000
"""Longest pause of the channel between two connections. The dispatcher has longer ones of its own."""


class OtlpGrpcExporter:
    """Sends to one OTLP/gRPC endpoint over one channel."""

    def __init__(self, destination: Destination) -> None:
        """Take a destination whose protocol is gRPC. Raises SettingsError if its settings cannot be used."""
        if destination.compression == "zstd":
            raise SettingsError("compression: found zstd, expected gzip or none: gRPC has no zstd")
        scheme, _, target = destination.endpoint.rstrip("/").rpartition("://")
        options = [
            ("grpc.max_send_message_length", -1),
            ("grpc.max_receive_message_length", MAX_BODY),  # before and after decompression
            ("grpc.max_reconnect_backoff_ms", _MAX_RECONNECT_MILLISECONDS),
        ]
        if scheme == "https":
            pem = destination.tls.pem()
            credentials = grpc.ssl_channel_credentials(pem.ca, pem.key, pem.certificate)
            self._channel = grpc.secure_channel(target, credentials, options)
        else:
            self._channel = grpc.insecure_channel(target, options)
        self._calls: dict[Signal, Any] = {
            signal: self._channel.unary_unary(method, None, None) for method, signal in interfaces.GRPC_METHODS.items()
        }
        self._headers = {name.lower(): value for name, value in destination.headers.items()}
        use_gzip = destination.compression == "gzip"
        self._compression = grpc.Compression.Gzip if use_gzip else grpc.Compression.NoCompression
        self._timeout = destination.timeout
        self._closed = False

    def deliver(self, request: interfaces.ExportRequest) -> interfaces.DeliveryResult:
        """Make one attempt."""
        if self._closed:
            return interfaces.Retry(None, "shutting down")
        forwarded = tuple(header for header in request.headers if header[0] not in self._headers)
        try:
            content = self._calls[request.signal](
                request.body,
                timeout=self._timeout,
                metadata=(*forwarded, *self._headers.items()),
                compression=self._compression,
            )
        except grpc.RpcError as error:
            return _result_of_error(error)
        except ValueError as error:  # another thread closed the channel
            return interfaces.Retry(None, str(error)[: interfaces.MAX_SHOWN])
        return interfaces.read_partial_success(request, content)

    def close(self) -> None:
        """Close the channel."""
        self._closed = True
        self._channel.close()


def _result_of_error(error: Any) -> interfaces.DeliveryResult:
    code: grpc.StatusCode = error.code()
    message = " ".join((error.details() or "").split())[: interfaces.MAX_SHOWN]
    reason = f"gRPC {code.name}: {message}" if message else f"gRPC {code.name}"
    details = [value for key, value in error.trailing_metadata() or () if key == "grpc-status-details-bin"]
    seconds = interfaces.parse_retry_info(details[0]) if details else None
    if code in RETRYABLE or (code is grpc.StatusCode.RESOURCE_EXHAUSTED and seconds is not None):
        return interfaces.Retry(seconds, reason)
    return interfaces.Refused(reason)
