"""What sends a request once: OTLP/HTTP export, one POST for each attempt, and the choice of exporter by signal.

https://opentelemetry.io/docs/specs/otlp/#otlphttp-response, #retryable-response-codes, #otlphttp-throttling
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from urllib3.exceptions import HTTPError

from goldspan.collector_processor import http_client
from goldspan.collector_processor.gateway import interfaces
from goldspan.collector_processor.gateway.settings.sections import Destination
from goldspan.collector_processor.otlp_signals import Signal, base_of
from goldspan.mappers.readers import compression

_PROTOBUF, _JSON = "application/x-protobuf", "application/json"


class OtlpHttpExporter:
    """Sends to one OTLP/HTTP endpoint. Threads share its pool of kept-alive connections."""

    def __init__(self, destination: Destination) -> None:
        """Take a destination whose protocol is HTTP. Raises SettingsError if its certificates cannot be used."""
        base = base_of(destination.endpoint)
        headers = {name.lower(): value for name, value in destination.headers.items()}
        self._headers = {"content-type": _PROTOBUF, "user-agent": "goldspan", **headers}
        self._compression = destination.compression
        self._timeout = destination.timeout
        self._closed = False
        context = destination.tls.context() if base.startswith("https:") else None
        self._client = http_client.HttpClient(base, connections=destination.connections, ssl_context=context)

    def deliver(self, request: interfaces.ExportRequest) -> interfaces.DeliveryResult:
        """Make one attempt."""
        if self._closed:
            return interfaces.Retry(None, "shutting down")
        headers = dict(request.headers) | self._headers
        body = request.body
        if self._compression != "none":
            body = compression.gzip(body) if self._compression == "gzip" else compression.zstd(body)
            headers["content-encoding"] = self._compression
        try:
            response = self._client.request("POST", request.signal.path, body, headers, seconds=self._timeout)
        except (HTTPError, OSError, ValueError) as error:
            return interfaces.Retry(None, http_client.describe(error)[: interfaces.MAX_SHOWN])
        return _result(request, response)

    def close(self) -> None:
        """Close the connections."""
        self._closed = True
        self._client.close()


def _result(request: interfaces.ExportRequest, response: http_client.HttpResponse) -> interfaces.DeliveryResult:
    content_type = response.headers.get("content-type", "")
    if 200 <= response.status < 300:
        if response.unread:  # the status says that the request was accepted
            return interfaces.Delivered(
                message=f"the response could not be read: {response.unread}"[: interfaces.MAX_SHOWN]
            )
        return interfaces.read_partial_success(request, response.body, content_type)
    message = interfaces.read_error_message(response.body, is_json=content_type.startswith(_JSON))
    reason = f"HTTP {response.status}: {message}" if message else f"HTTP {response.status}"
    if (
        response.status in http_client.OTLP_RETRYABLE_STATUS or response.status < 200
    ):  # below 200 the real response is still to come
        return interfaces.Retry(
            http_client.parse_retry_after(response.headers.get("retry-after"), datetime.now(UTC)), reason
        )
    return interfaces.Refused(reason)


def open_exporter(destination: Destination) -> interfaces.Exporter:
    """Make an exporter; it sends nothing yet. Raises SettingsError if its certificates cannot be used."""
    if destination.protocol == "grpc":
        # Imported when needed: gRPC takes 15 MiB of memory.
        from goldspan.collector_processor.gateway.deliver.grpc_exporter import OtlpGrpcExporter  # noqa: PLC0415

        return OtlpGrpcExporter(destination)
    return OtlpHttpExporter(destination)


class ExporterBySignal:
    """Sends each signal through its own exporter. A signal with none is dropped."""

    def __init__(self, exporters: Mapping[Signal, interfaces.Exporter | None]) -> None:
        self._exporters = exporters

    def deliver(self, request: interfaces.ExportRequest) -> interfaces.DeliveryResult:
        """Make one attempt."""
        exporter = self._exporters[request.signal]
        return interfaces.Delivered() if exporter is None else exporter.deliver(request)

    def replace(self, exporters: Mapping[Signal, interfaces.Exporter | None]) -> None:
        """Use these from now on, and close the others."""
        before, self._exporters = self._exporters, exporters
        _close(before)

    def close(self) -> None:
        """Close each exporter once."""
        _close(self._exporters)


def _close(exporters: Mapping[Signal, interfaces.Exporter | None]) -> None:
    for exporter in set(exporters.values()):
        if exporter is not None:
            exporter.close()
