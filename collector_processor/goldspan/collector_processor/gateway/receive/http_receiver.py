"""The OTLP/HTTP receiver: `/v1/traces`, `/v1/logs` and `/v1/metrics`, protobuf or JSON, as an ASGI application.

https://opentelemetry.io/docs/specs/otlp/#otlphttp
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from goldspan.collector_processor.gateway.otlp_responses import (
    OtlpResponse,
    RequestStatus,
    encode_response,
    status_as_json,
)
from goldspan.collector_processor.gateway.receive.request_handler import ReceivedRequest, RequestHandler, busy
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.collector_processor.serving.http_server import Receive, Send, headers_of, path_of, send_response
from goldspan.collector_processor.serving.limits import LimitReached
from goldspan.mappers.readers.decompression import ENCODINGS

PATHS = {signal.path: signal for signal in Signal}
"""The path of each signal."""

_PROTOBUF, _JSON = "application/x-protobuf", "application/json"
_PROTOCOLS = {_PROTOBUF: "http/protobuf", "application/protobuf": "http/protobuf", _JSON: "http/json"}


class HttpReceiver:
    """Receives OTLP/HTTP. An ASGI server calls it."""

    def __init__(self, handler: RequestHandler) -> None:
        self._handler = handler

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Respond to one request."""
        headers = headers_of(scope)
        signal = PATHS.get(path_of(scope))
        protocol = _PROTOCOLS.get(headers.get("content-type", "").partition(";")[0].strip().lower())
        response: OtlpResponse | None
        if signal is None:
            response = OtlpResponse(RequestStatus.NOT_FOUND, f"no such path; there are {', '.join(PATHS)}")
        elif scope["method"] != "POST":
            response = OtlpResponse(RequestStatus.NOT_ALLOWED, "expected POST")
        elif protocol is None:
            response = OtlpResponse(RequestStatus.UNSUPPORTED, f"content-type: expected {_PROTOBUF} or {_JSON}")
        else:
            response = await self._export(signal, protocol, headers, receive)
        if response is not None:
            await respond(send, response, signal, as_json=protocol == "http/json")

    async def _export(
        self, signal: Signal, protocol: str, headers: Mapping[str, str], receive: Receive
    ) -> OtlpResponse | None:
        """Receive one request. None means that the client disconnected."""
        request = await self._read(signal, protocol, headers, receive)
        if isinstance(request, ReceivedRequest):
            return await self._handler.process(request)
        self._handler.count(protocol, signal, request or OtlpResponse(RequestStatus.TOO_SLOW))
        return request

    async def _read(
        self, signal: Signal, protocol: str, headers: Mapping[str, str], receive: Receive
    ) -> ReceivedRequest | OtlpResponse | None:
        """Check the headers, then read the body. None means that the client disconnected."""
        handler = self._handler
        max_bytes = handler.limits.max_request_bytes
        if not handler.tokens.admit(headers.get("authorization")):
            return OtlpResponse(RequestStatus.UNAUTHENTICATED, "expected a valid bearer token in `Authorization`")
        encoding = headers.get("content-encoding", "").strip().lower() or "identity"
        if encoding not in ENCODINGS:
            return OtlpResponse(RequestStatus.UNSUPPORTED, f"content-encoding: expected one of {', '.join(ENCODINGS)}")
        forwarded = handler.forwarded_headers(headers.items())
        if isinstance(forwarded, OtlpResponse):
            return forwarded
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length[:20]) > max_bytes:
            return _too_large(max_bytes)
        reservation = handler.reserve()
        if isinstance(reservation, OtlpResponse):
            return reservation
        with ExitStack() as on_refusal:
            on_refusal.enter_context(reservation)
            parts: list[bytes] = []
            size, more = 0, True
            while more:
                event = await receive()
                if event["type"] != "http.request":
                    return None
                part = event.get("body", b"")
                more = event.get("more_body", False)
                size += len(part)
                if size > max_bytes:
                    return _too_large(max_bytes)
                try:
                    reservation.grow(len(part))
                except LimitReached as reason:
                    return busy(reason)
                parts.append(part)
            on_refusal.pop_all()
        return ReceivedRequest(protocol, signal, b"".join(parts), encoding, forwarded, reservation)


async def respond(send: Send, response: OtlpResponse, signal: Signal | None, *, as_json: bool) -> None:
    """Send a response in the encoding of its request. Refusals close the connection: the body may be unread."""
    as_json = as_json or signal is None
    body = status_as_json(response) if signal is None else encode_response(signal, response, as_json=as_json)
    headers = [("content-type", _JSON if as_json else _PROTOBUF), ("content-length", str(len(body)))]
    if response.retry_after is not None:
        headers.append(("retry-after", response.retry_after))
    if response.status is RequestStatus.UNAUTHENTICATED:
        headers.append(("www-authenticate", "Bearer"))
    if response.status is RequestStatus.NOT_ALLOWED:
        headers.append(("allow", "POST"))
    if response.status not in {RequestStatus.OK, RequestStatus.MALFORMED}:
        headers.append(("connection", "close"))
    await send_response(send, response.status.http, headers, body)


def _too_large(max_bytes: int) -> OtlpResponse:
    return OtlpResponse(RequestStatus.TOO_LARGE, f"body: expected at most {max_bytes:,} bytes")
