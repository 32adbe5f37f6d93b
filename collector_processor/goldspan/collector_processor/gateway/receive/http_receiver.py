"""The OTLP/HTTP receiver, an ASGI application; and what every receiver does with a request.

A receiver checks limits, decompresses, converts JSON, hands over, responds and counts. Over HTTP it takes
`/v1/traces`, `/v1/logs` and `/v1/metrics`, protobuf or JSON: https://opentelemetry.io/docs/specs/otlp/#otlphttp
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from goldspan.collector_processor.gateway.interfaces import (
    Accepted,
    AcceptResult,
    Busy,
    ExportRequest,
    Headers,
    OtlpResponse,
    Rejected,
    RequestStatus,
    encode_response,
    status_as_json,
    tenant_name,
)
from goldspan.collector_processor.gateway.receive import client_limits, otlp_json_requests
from goldspan.collector_processor.gateway.settings.sections import TenantLimits
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.collector_processor.serving import http_server
from goldspan.collector_processor.serving.admin import Sample
from goldspan.mappers.readers import compression
from goldspan.mappers.readers.otlp_protobuf import fields

_logger = logging.getLogger("goldspan.gateway")

_BYTES = 2  # the wire type of messages and text
_LEAST_RECORD = 2
_BYTES_A_RECORD = 32
"""What a record takes at least, on average, in a request of the largest size. The ids of a span take 28."""
_LONGEST_NAME = 100  # characters of the name that a client says of itself
_LARGEST_QUICK = 16 << 10  # bytes: ten or twenty spans take a tenth of a millisecond, nothing but empty records 25
_PLAIN_PROTOBUF = b"\n"
"""How each request that has anything begins: with its field 1. What is compressed begins otherwise."""
_MAX_SERIES = 2_000  # counters of requests; what further tenants send is counted without their names
RETRY_AFTER_SECONDS = 1.0
"""Retry-After of a request that exceeds a limit. Requests take milliseconds, so a second is enough."""


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A request that a receiver has read."""

    protocol: str
    """`grpc`, `http/protobuf` or `http/json`."""
    signal: Signal
    body: bytes
    encoding: str | None
    """The content encoding of the body. None: its first bytes tell."""
    headers: Headers
    """The headers to forward."""
    reservation: http_server.Reservation
    address: str = ""
    """Of the client."""


class RequestHandler:
    """Shared by all receivers. What may take long, such as decompression or a disk, runs in `workers`.

    A thread that is woken for a small request takes more CPU than the request.
    """

    def __init__(
        self,
        accept: Callable[[ExportRequest], AcceptResult],
        limits: http_server.RequestLimits,
        workers: Executor,
        *,
        tokens: http_server.BearerTokens | None = None,
        forwarded: Iterable[str] = (),
        tenant_limits: TenantLimits | None = None,
        accept_waits: bool = True,
    ) -> None:
        """Pass requests to `accept`, with the headers named in `forwarded`, in lower case.

        `accept` is called from many threads at once, and never raises. `accept_waits`: it may wait for a disk.
        """
        self.limits = limits
        self._tokens = tokens or http_server.BearerTokens()
        self._rates = client_limits.TenantRates(tenant_limits or TenantLimits())
        self._refused = client_limits.RefusedClients()
        self.in_flight = http_server.InFlightRequests(limits)
        self.closing = False
        """Whether new requests are refused because the gateway shuts down."""
        self._accept = accept
        self._largest_quick = 0 if accept_waits else _LARGEST_QUICK
        self._workers = workers
        self._forwarded = frozenset(forwarded)
        self._decompression = compression.DecompressionLimits(
            limits.max_request_bytes, limits.max_decompression_ratio, time.thread_time
        )
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, str, str, Headers]] = Counter()
        self._bytes: Counter[tuple[str, str]] = Counter()
        self._dropped: Counter[tuple[str, str]] = Counter()
        self._bad_fields: Counter[tuple[str, str]] = Counter()

    def admit(self, headers: Mapping[str, str]) -> Headers | OtlpResponse:
        """Return the headers to forward, or why a request with these is refused. Names are in lower case."""
        allowed = self._tokens.allowed(headers.get("authorization"))
        if allowed is None:
            return OtlpResponse(RequestStatus.UNAUTHENTICATED, "expected a valid bearer token in `authorization`")
        picked = self._picked(headers)
        for name, value in picked:
            if not (value.isascii() and value.isprintable()):
                message = f"header {name}: expected printable ASCII, since it is forwarded"
                return OtlpResponse(RequestStatus.MALFORMED, message)
        forwarded = client_limits.with_implied(picked, allowed) if allowed else picked
        if isinstance(forwarded, OtlpResponse):
            return forwarded
        return self._rates.take(forwarded, "requests", 1) or self._rates.take(forwarded, "bytes", 0) or forwarded

    def reserve(self, headers: Headers) -> http_server.Reservation | OtlpResponse:
        """Count a request before its body is read, or return why it is refused."""
        if self.closing:
            return OtlpResponse(RequestStatus.BUSY, "the gateway is shutting down", RETRY_AFTER_SECONDS)
        try:
            return self.in_flight.reserve(tenant_name(headers))
        except http_server.LimitReached as reason:
            return busy(reason)

    def _picked(self, headers: Mapping[str, str]) -> Headers:
        return tuple(sorted((name, value) for name, value in headers.items() if name in self._forwarded))

    async def process(self, request: ReceivedRequest) -> OtlpResponse:
        """Process one request and close its reservation."""
        is_plain = request.protocol != "http/json" and request.body.startswith(_PLAIN_PROTOBUF)
        if is_plain and len(request.body) <= self._largest_quick:
            with request.reservation:
                return self._respond(request)
        try:
            work = self._workers.submit(self._respond, request)
        except RuntimeError as error:  # no further thread can be started
            request.reservation.close()
            return busy(error)
        # A client that disconnects cancels the waiting, not the work: it stays counted until the work ends.
        work.add_done_callback(lambda _: request.reservation.close())
        return await asyncio.wrap_future(work)

    def _respond(self, request: ReceivedRequest) -> OtlpResponse:
        protocol, signal = request.protocol, request.signal
        try:
            response = self._process(request)
        except http_server.LimitReached as reason:
            response = busy(reason)
        except Exception:
            _logger.exception("a request failed", extra={"protocol": protocol, "signal": signal})
            response = OtlpResponse(RequestStatus.BROKEN, "internal error; the log has more")
        self._rates.take(request.headers, "bytes", len(request.body))
        self._count(protocol, signal, response, request.headers, request.address, size=len(request.body))
        return response

    def _process(self, request: ReceivedRequest) -> OtlpResponse:
        """Return the response. Raises LimitReached."""
        try:
            if request.encoding is None:
                body = compression.decompress_by_magic(request.body, self._decompression)
            else:
                body = compression.decompress(request.body, request.encoding, self._decompression)
            if body is not request.body:
                request.reservation.grow(len(body))
        except compression.DecompressedTooLarge as reason:
            return OtlpResponse(RequestStatus.TOO_LARGE, f"body: {reason}")
        except compression.CorruptBody as reason:
            return OtlpResponse(RequestStatus.MALFORMED, f"body: {reason}")
        rejected, bad_fields, message = 0, 0, ""
        if request.protocol == "http/json":
            try:
                max_values = self.limits.max_request_bytes // otlp_json_requests.JSON_BYTES_A_VALUE
                converted = otlp_json_requests.json_to_protobuf(request.signal, body, max_values)
                request.reservation.grow(len(converted.body))
            except otlp_json_requests.InvalidRequest as reason:
                return OtlpResponse(RequestStatus.MALFORMED, str(reason))
            except otlp_json_requests.TooManyValues as reason:
                return OtlpResponse(RequestStatus.TOO_LARGE, f"body: {reason}; send smaller requests")
            if len(converted.body) > self.limits.max_request_bytes:
                message = f"body: as protobuf {len(converted.body):,} bytes, at most {self.limits.max_request_bytes:,}"
                return OtlpResponse(RequestStatus.TOO_LARGE, message)
            body, message = converted.body, converted.message
            rejected, bad_fields = converted.rejected, converted.bad_fields
        max_records = self.limits.max_request_bytes // _BYTES_A_RECORD
        if _has_more_records(body, max_records):
            message = f"body: more than {max_records:,} records; send smaller requests"
            return OtlpResponse(RequestStatus.TOO_LARGE, message)
        match self._accept(ExportRequest(request.signal, body, request.headers)):
            case Accepted():
                return OtlpResponse(RequestStatus.OK, message, rejected=rejected, bad_fields=bad_fields)
            case Busy(seconds, why, of_tenant):
                return OtlpResponse(RequestStatus.TOO_MANY if of_tenant else RequestStatus.BUSY, why, seconds)
            case Rejected(why):
                return OtlpResponse(RequestStatus.MALFORMED, why)

    def refuse(
        self, protocol: str, signal: str, response: OtlpResponse, headers: Mapping[str, str], address: str
    ) -> None:
        """Count a request that was refused before its body was read; the client says these headers of itself."""
        said = self._picked(headers)
        of_token = client_limits.with_implied(said, self._tokens.allowed(headers.get("authorization")) or {})
        self._count(protocol, signal, response, said if isinstance(of_token, OtlpResponse) else of_token, address)

    def _count(
        self, protocol: str, signal: str, response: OtlpResponse, headers: Headers, address: str, *, size: int = 0
    ) -> None:
        self._refused.note(response, tenant_name(headers)[:_LONGEST_NAME], address)
        with self._lock:
            known = response.status in {RequestStatus.OK, RequestStatus.TOO_MANY, RequestStatus.BUSY}
            if not known or len(self._requests) >= _MAX_SERIES:  # anybody may say to be anybody
                headers = ()
            self._requests[protocol, signal, response.status.label, headers] += 1
            self._bytes[protocol, signal] += size
            if response.rejected:
                self._dropped[protocol, signal] += response.rejected
            if response.bad_fields:
                self._bad_fields[protocol, signal] += response.bad_fields

    def metrics(self) -> Iterator[Sample]:
        """Yield the counters."""
        with self._lock:
            requests = dict(self._requests)
            counted = [dict(one) for one in (self._bytes, self._dropped, self._bad_fields)]
        for (protocol, signal, outcome, headers), number in requests.items():
            labels = {**_labels(protocol, signal), "outcome": outcome, **client_limits.tenant_labels(headers)}
            yield "goldspan_receiver_requests_total", labels, number
        yield from self._refused.samples()
        names = ("bytes_total", "dropped_items_total", "bad_fields_total")
        for name, numbers in zip(names, counted, strict=True):
            for (protocol, signal), number in numbers.items():
                yield f"goldspan_receiver_{name}", _labels(protocol, signal), number
        yield "goldspan_receiver_requests_in_flight", {}, self.in_flight.requests
        yield "goldspan_receiver_bytes_in_flight", {}, self.in_flight.bytes


def _has_more_records(body: bytes, limit: int) -> bool:
    """Tell whether a request has more resources, scopes, spans, log records and metrics together than this.

    Each takes some hundred bytes of memory, however small it is.
    """
    if len(body) <= limit * _LEAST_RECORD:
        return False
    found = 0
    for _, wire, start, end, _ in fields(body):
        found += 1
        for _, inner_wire, inner_start, inner_end, _ in fields(body, start, end) if wire == _BYTES else ():
            found += 1
            for _ in fields(body, inner_start, inner_end) if inner_wire == _BYTES else ():
                found += 1
                if found > limit:
                    return True
            if found > limit:
                return True
        if found > limit:
            return True
    return False


def busy(reason: Exception) -> OtlpResponse:
    """Return the response to a request that exceeds a limit: 503, or 429 to a tenant; to be sent again in a second."""
    status = RequestStatus.TOO_MANY if getattr(reason, "of_tenant", False) else RequestStatus.BUSY
    return OtlpResponse(status, f"{reason}; try again", RETRY_AFTER_SECONDS)


def _labels(protocol: str, signal: str) -> dict[str, str]:
    return {"protocol": protocol, "signal": signal}


PATHS = {signal.path: signal for signal in Signal}
"""The path of each signal."""

_PROTOBUF, _JSON = "application/x-protobuf", "application/json"
_PROTOCOLS = {_PROTOBUF: "http/protobuf", "application/protobuf": "http/protobuf", _JSON: "http/json"}


class HttpReceiver:
    """Receives OTLP/HTTP. An ASGI server calls it."""

    def __init__(self, handler: RequestHandler) -> None:
        self._handler = handler

    async def __call__(self, scope: Mapping[str, Any], receive: http_server.Receive, send: http_server.Send) -> None:
        """Respond to one request."""
        headers = http_server.headers_of(scope)
        signal = PATHS.get(http_server.path_of(scope))
        protocol = _PROTOCOLS.get(headers.get("content-type", "").partition(";")[0].strip().lower())
        response: OtlpResponse | None
        client = scope.get("client")
        address = str(client[0]) if client else ""
        if signal is None:
            response = OtlpResponse(RequestStatus.NOT_FOUND, f"no such path; there are {', '.join(PATHS)}")
        elif scope["method"] != "POST":
            response = OtlpResponse(RequestStatus.NOT_ALLOWED, "expected POST")
        elif protocol is None:
            response = OtlpResponse(RequestStatus.UNSUPPORTED, f"content-type: expected {_PROTOBUF} or {_JSON}")
        else:
            response = await self._export(signal, protocol, headers, receive, address)
        if response is not None and (signal is None or protocol is None or scope["method"] != "POST"):
            self._handler.refuse(protocol or "http", signal or "", response, headers, address)
        if response is not None:
            await respond(send, response, signal, as_json=protocol == "http/json")

    async def _export(
        self, signal: Signal, protocol: str, headers: Mapping[str, str], receive: http_server.Receive, address: str
    ) -> OtlpResponse | None:
        """Receive one request. None means that the client disconnected."""
        request = await self._read(signal, protocol, headers, receive, address)
        if isinstance(request, ReceivedRequest):
            return await self._handler.process(request)
        gone = OtlpResponse(RequestStatus.TOO_SLOW, "the client disconnected before the end of its request")
        self._handler.refuse(protocol, signal, request or gone, headers, address)
        return request

    async def _read(
        self, signal: Signal, protocol: str, headers: Mapping[str, str], receive: http_server.Receive, address: str
    ) -> ReceivedRequest | OtlpResponse | None:
        """Check the headers, then read the body. None means that the client disconnected."""
        handler = self._handler
        max_bytes = handler.limits.max_request_bytes
        forwarded = handler.admit(headers)
        if isinstance(forwarded, OtlpResponse):
            return forwarded
        encoding = headers.get("content-encoding", "").strip().lower() or "identity"
        if encoding not in compression.ENCODINGS:
            return OtlpResponse(
                RequestStatus.UNSUPPORTED, f"content-encoding: expected one of {', '.join(compression.ENCODINGS)}"
            )
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length[:20]) > max_bytes:
            return _too_large(max_bytes)
        reservation = handler.reserve(forwarded)
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
                except http_server.LimitReached as reason:
                    return busy(reason)
                parts.append(part)
            on_refusal.pop_all()
        return ReceivedRequest(protocol, signal, b"".join(parts), encoding, forwarded, reservation, address)


async def respond(send: http_server.Send, response: OtlpResponse, signal: Signal | None, *, as_json: bool) -> None:
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
    await http_server.send_response(send, response.status.http, headers, body)


def _too_large(max_bytes: int) -> OtlpResponse:
    return OtlpResponse(RequestStatus.TOO_LARGE, f"body: expected at most {max_bytes:,} bytes")
