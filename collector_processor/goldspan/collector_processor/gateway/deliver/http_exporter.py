"""OTLP/HTTP export: one POST for each attempt.

https://opentelemetry.io/docs/specs/otlp/#otlphttp-response, #retryable-response-codes, #otlphttp-throttling
"""

from __future__ import annotations

from datetime import UTC, datetime

import urllib3

from goldspan.collector_processor.gateway import compression
from goldspan.collector_processor.gateway.deliver.retry import parse_retry_after
from goldspan.collector_processor.gateway.interfaces import DeliveryResult, Refused, Request, Retry, Signal
from goldspan.collector_processor.gateway.otlp_responses import MAX_SHOWN, read_error_message, read_partial_success
from goldspan.collector_processor.gateway.settings.sections import Destination

RETRYABLE = frozenset({429, 502, 503, 504})
"""HTTP statuses after which the same request is sent again."""

_PROTOBUF, _JSON = "application/x-protobuf", "application/json"
_MAX_RESPONSE_BYTES = 64 << 10


class OtlpHttpExporter:
    """Sends to one OTLP/HTTP endpoint. Threads share its pool of kept-alive connections."""

    def __init__(self, destination: Destination) -> None:
        """Take a destination whose protocol is HTTP. Raises SettingsError if its certificates cannot be used."""
        base = destination.endpoint.rstrip("/")
        for signal in Signal:
            base = base.removesuffix(f"/v1/{signal}")
        self._base = base
        headers = {name.lower(): value for name, value in destination.headers.items()}
        self._headers = {"content-type": _PROTOBUF, "user-agent": "goldspan", **headers}
        self._compression = destination.compression
        self._closed = False
        self._pool = urllib3.PoolManager(
            maxsize=destination.connections,
            block=True,
            retries=False,
            timeout=urllib3.Timeout(total=destination.timeout),
            ssl_context=destination.tls.context() if base.startswith("https:") else None,
        )

    def deliver(self, request: Request) -> DeliveryResult:
        """Make one attempt."""
        if self._closed:
            return Retry(None, "shutting down")
        headers = dict(request.headers) | self._headers
        body = request.body
        if self._compression != "none":
            body = compression.gzip(body) if self._compression == "gzip" else compression.zstd(body)
            headers["content-encoding"] = self._compression
        url = f"{self._base}/v1/{request.signal}"
        try:
            response = self._pool.request(
                "POST", url, body=body, headers=headers, redirect=False, preload_content=False
            )
            content = _read_response(response)
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            return Retry(None, f"{type(error).__name__}: {error}"[:MAX_SHOWN])
        return _result(request.signal, response, content)

    def close(self) -> None:
        """Close the connections."""
        self._closed = True
        self._pool.clear()


def _read_response(response: urllib3.BaseHTTPResponse) -> bytes:
    """Return the beginning of the response body; the connection is kept only if that is all of it."""
    content = response.read(_MAX_RESPONSE_BYTES, decode_content=False)
    if response.read(1, decode_content=False):
        response.close()
    response.release_conn()
    return content


def _result(signal: Signal, response: urllib3.BaseHTTPResponse, content: bytes) -> DeliveryResult:
    is_json = response.headers.get("content-type", "").startswith(_JSON)
    if 200 <= response.status < 300:
        return read_partial_success(signal, content, is_json=is_json)
    message = read_error_message(content, is_json=is_json)
    reason = f"HTTP {response.status}: {message}" if message else f"HTTP {response.status}"
    if response.status in RETRYABLE:
        return Retry(parse_retry_after(response.headers.get("retry-after"), datetime.now(UTC)), reason)
    return Refused(reason)
