"""OTLP over HTTP in: `/v1/traces`, `/v1/logs` and `/v1/metrics`, as protobuf or JSON, as an ASGI application.

https://opentelemetry.io/docs/specs/otlp/#otlphttp
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from typing import Any

from goldspan.collector_processor.gateway import otlp_responses
from goldspan.collector_processor.gateway.compression import ENCODINGS
from goldspan.collector_processor.gateway.interfaces import Headers, Signal
from goldspan.collector_processor.gateway.otlp_responses import OtlpResponse, RequestStatus
from goldspan.collector_processor.gateway.receive.limits import LimitReached, Reservation
from goldspan.collector_processor.gateway.receive.request_handler import RequestHandler, busy

PATHS = {f"/v1/{signal}": signal for signal in Signal}
"""The path of each signal."""

_PROTOBUF, _JSON = "application/x-protobuf", "application/json"
_PROTOCOLS = {_PROTOBUF: "http/protobuf", "application/protobuf": "http/protobuf", _JSON: "http/json"}

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]


class HttpReceiver:
    """Serves OTLP/HTTP; to be called by an ASGI server."""

    def __init__(self, reception: RequestHandler) -> None:
        self._reception = reception

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""
        most = self._reception.limits.max_header_bytes
        headers = headers_of(scope)
        signal = PATHS.get(scope["path"])
        protocol = _protocol(headers)
        answer: OtlpResponse | None
        if sum(len(name) + len(value) + 4 for name, value in scope["headers"]) > most:
            answer = OtlpResponse(RequestStatus.HEADERS_TOO_LARGE, f"headers: expected at most {most:,} bytes")
        elif signal is None:
            answer = OtlpResponse(RequestStatus.NOT_FOUND, f"no such path; there are {', '.join(PATHS)}")
        elif scope["method"] != "POST":
            answer = OtlpResponse(RequestStatus.NOT_ALLOWED, "expected POST")
        elif protocol is None:
            answer = OtlpResponse(RequestStatus.UNSUPPORTED, f"content-type: expected {_PROTOBUF} or {_JSON}")
        else:
            answer = await self._export(signal, protocol, headers, receive)
        if answer is not None:
            await respond(send, answer, signal, as_json=protocol == "http/json")

    async def _export(
        self, signal: Signal, protocol: str, headers: Mapping[str, str], receive: Receive
    ) -> OtlpResponse | None:
        """Take in one request; none: the client is gone."""
        taken = await self._read(headers, receive)
        if isinstance(taken, OtlpResponse):
            self._reception.count(protocol, signal, taken)
            return taken
        if taken is None:
            self._reception.count(protocol, signal, OtlpResponse(RequestStatus.TOO_SLOW))
            return None
        body, forwarded, place = taken
        encoding = _encoding(headers)
        return await self._reception.receive(protocol, signal, body, encoding, forwarded, place)

    async def _read(
        self, headers: Mapping[str, str], receive: Receive
    ) -> tuple[bytes, Headers, Reservation] | OtlpResponse | None:
        """Look at what a request begins with, and only then at its body; none: the client is gone."""
        reception = self._reception
        limits = reception.limits
        if not reception.tokens.admit(headers.get("authorization")):
            return OtlpResponse(RequestStatus.UNAUTHENTICATED, "expected a valid bearer token in `Authorization`")
        if _encoding(headers) not in ENCODINGS:
            return OtlpResponse(RequestStatus.UNSUPPORTED, f"content-encoding: expected one of {', '.join(ENCODINGS)}")
        forwarded = reception.headers(headers.items())
        if isinstance(forwarded, OtlpResponse):
            return forwarded
        announced = headers.get("content-length", "0")
        if announced.isdecimal() and int(announced[:20]) > limits.max_request_bytes:
            return _too_large(limits.max_request_bytes)
        place = reception.enter()
        if isinstance(place, OtlpResponse):
            return place
        with ExitStack() as leaving:
            leaving.enter_context(place)
            parts: list[bytes] = []
            size, more = 0, True
            while more:
                event = await receive()
                if event["type"] != "http.request":
                    return None
                part = event.get("body", b"")
                more = event.get("more_body", False)
                size += len(part)
                if size > limits.max_request_bytes:
                    return _too_large(limits.max_request_bytes)
                try:
                    place.grow(len(part))
                except LimitReached as reason:
                    return busy(reason)
                parts.append(part)
            leaving.pop_all()
        return b"".join(parts), forwarded, place


async def respond(send: Send, answer: OtlpResponse, signal: Signal | None, *, as_json: bool) -> None:
    """Send an answer in the encoding of its request; after a refusal, whose body may not be read, close."""
    as_json = as_json or signal is None
    body = (
        otlp_responses.status_json(answer)
        if signal is None
        else otlp_responses.response_body(signal, answer, as_json=as_json)
    )
    headers = [("content-type", _JSON if as_json else _PROTOBUF), ("content-length", str(len(body)))]
    if answer.retry_after is not None:
        headers.append(("retry-after", answer.retry_after))
    if answer.outcome is RequestStatus.UNAUTHENTICATED:
        headers.append(("www-authenticate", "Bearer"))
    if answer.outcome is RequestStatus.NOT_ALLOWED:
        headers.append(("allow", "POST"))
    if answer.outcome not in {RequestStatus.OK, RequestStatus.MALFORMED}:
        headers.append(("connection", "close"))
    await send_response(send, answer.outcome.http, headers, body)


async def send_response(send: Send, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
    """Send a whole response."""
    encoded = [(name.encode(), value.encode()) for name, value in headers]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})


def headers_of(scope: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers of a request, names in lower case; of one given twice the values, joined by commas."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _protocol(headers: Mapping[str, str]) -> str | None:
    return _PROTOCOLS.get(headers.get("content-type", "").partition(";")[0].strip().lower())


def _encoding(headers: Mapping[str, str]) -> str:
    return headers.get("content-encoding", "").strip().lower() or "identity"


def _too_large(most: int) -> OtlpResponse:
    return OtlpResponse(RequestStatus.TOO_LARGE, f"body: expected at most {most:,} bytes")
