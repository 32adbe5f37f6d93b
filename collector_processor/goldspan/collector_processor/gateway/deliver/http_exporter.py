"""OTLP over HTTP out: one POST for each attempt, and what its answer means.

https://opentelemetry.io/docs/specs/otlp/#otlphttp-response, #retryable-response-codes, #otlphttp-throttling
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import urllib3
from google.protobuf.message import DecodeError
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]

from goldspan.collector_processor.gateway import compression
from goldspan.collector_processor.gateway.interfaces import Delivered, DeliveryResult, Refused, Request, Retry, Signal
from goldspan.collector_processor.gateway.otlp_responses import REJECTED_FIELDS, RESPONSES
from goldspan.collector_processor.gateway.tls import ClientTls
from goldspan.mappers.json_shapes import is_object

RETRYABLE = frozenset({429, 502, 503, 504})
"""The statuses after which the same request may go through later."""

_PROTOBUF, _JSON = "application/x-protobuf", "application/json"
_LONGEST_ANSWER = 64 << 10
_SHOWN = 200


class OtlpHttpExporter:
    """Delivers to one OTLP/HTTP endpoint; its connections are kept and shared by threads."""

    def __init__(
        self,
        urls: Mapping[Signal, str],
        *,
        headers: Mapping[str, str],
        encoding: str,
        timeout: float,
        tls: ClientTls,
        connections: int,
    ) -> None:
        """Deliver each signal to its URL, compressed by `encoding`: `gzip`, `zstd` or `identity`."""
        self._urls = urls
        self._headers = {"content-type": _PROTOBUF, "user-agent": "goldspan", **headers}
        self._encoding = encoding
        self._closed = False
        secure = any(url.startswith("https:") for url in urls.values())
        self._pool = urllib3.PoolManager(
            num_pools=len(urls),
            maxsize=connections,
            block=True,
            retries=False,
            timeout=urllib3.Timeout(total=timeout),
            ssl_context=tls.context() if secure else None,
        )

    def deliver(self, request: Request) -> DeliveryResult:
        """Make one attempt."""
        if self._closed:
            return Retry(None, "shutting down")
        headers = dict(request.headers) | self._headers
        body = request.body
        if self._encoding != "identity":
            body = compression.gzip(body) if self._encoding == "gzip" else compression.zstd(body)
            headers["content-encoding"] = self._encoding
        try:
            response = self._pool.request(
                "POST", self._urls[request.signal], body=body, headers=headers, redirect=False, preload_content=False
            )
            content = _read_response(response)
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            return Retry(None, f"{type(error).__name__}: {error}"[:_SHOWN])
        return _result_of_response(request.signal, response.status, dict(response.headers.items()), content)

    def close(self) -> None:
        """Close the connections."""
        self._closed = True
        self._pool.clear()


def retry_after(value: str | None, now: datetime) -> float | None:
    """Return the seconds that a Retry-After header asks for, a number or a date (RFC 9110, section 10.2.3)."""
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdecimal():
        return float(text)
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, (at - now).total_seconds())


def _result_of_response(signal: Signal, status: int, headers: Mapping[str, str], content: bytes) -> DeliveryResult:
    by_name = {name.lower(): value for name, value in headers.items()}
    is_json = by_name.get("content-type", "").startswith(_JSON)
    if 200 <= status < 300:
        return _partial_success(signal, content, is_json=is_json)
    reason = f"HTTP {status}{_said(content, is_json=is_json)}"
    if status in RETRYABLE:
        return Retry(retry_after(by_name.get("retry-after"), datetime.now(UTC)), reason)
    return Refused(reason)


def _partial_success(signal: Signal, content: bytes, *, is_json: bool) -> DeliveryResult:
    """Read what was not taken of a request that was; an answer that cannot be read says nothing."""
    in_protobuf, in_json = REJECTED_FIELDS[signal]
    if is_json:
        partial = _json_object(_json_object(_loads(content)).get("partialSuccess"))
        rejected = partial.get(in_json, 0)
        number = int(rejected) if isinstance(rejected, int | str) and str(rejected).isdecimal() else 0
        return Delivered(number, str(partial.get("errorMessage", ""))[:_SHOWN])
    try:
        partial = RESPONSES[signal].FromString(content).partial_success
    except DecodeError:
        return Delivered()
    return Delivered(max(0, getattr(partial, in_protobuf)), partial.error_message[:_SHOWN])


def _said(content: bytes, *, is_json: bool) -> str:
    """Return the message of a Status, or the beginning of whatever else stands there."""
    message = ""
    if is_json:
        message = str(_json_object(_loads(content)).get("message", ""))
    else:
        with suppress(DecodeError):
            message = str(Status.FromString(content).message)
        # Proxies answer in plain text, which may even read as a Status that says nothing.
        message = message or content.decode("utf-8", "replace")
    shown = " ".join(message.split())[:_SHOWN]
    return f": {shown}" if shown.isprintable() and shown else ""


def _loads(content: bytes) -> object:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _json_object(value: object) -> dict[str, Any]:
    return value if is_object(value) else {}


def _read_response(response: urllib3.BaseHTTPResponse) -> bytes:
    """Read a short answer whole, so that its connection is kept, and of a long one the beginning."""
    content = response.read(_LONGEST_ANSWER, decode_content=False)
    if response.read(1, decode_content=False):
        response.close()
    response.release_conn()
    return content
