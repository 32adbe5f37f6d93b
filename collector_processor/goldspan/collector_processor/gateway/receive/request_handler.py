"""What every receiver does with a request: check limits, decompress, convert JSON, hand over, respond, count."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass

from goldspan.collector_processor.gateway.interfaces import (
    Accepted,
    AcceptResult,
    Busy,
    ExportRequest,
    Headers,
    Rejected,
)
from goldspan.collector_processor.gateway.otlp_responses import OtlpResponse, RequestStatus
from goldspan.collector_processor.gateway.receive.otlp_json_requests import (
    JSON_BYTES_A_VALUE,
    InvalidRequest,
    TooManyValues,
    json_to_protobuf,
)
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.collector_processor.serving.http_server import BearerTokens
from goldspan.collector_processor.serving.limits import InFlightRequests, LimitReached, RequestLimits, Reservation
from goldspan.collector_processor.serving.prometheus import Sample
from goldspan.mappers.readers.decompression import (
    CorruptBody,
    DecompressedTooLarge,
    DecompressionLimits,
    decompress,
    decompress_by_magic,
)
from goldspan.mappers.readers.otlp_protobuf import fields

_logger = logging.getLogger("goldspan.gateway")

_BYTES = 2
"""The wire type of messages and text."""
_LEAST_RECORD = 2
_BYTES_A_RECORD = 32
"""What a record takes at least, on average, in a request of the largest size. The ids of a span take 28."""
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
    reservation: Reservation


class RequestHandler:
    """Shared by all receivers. It never blocks their event loop: decompression and the like run in `workers`."""

    def __init__(
        self,
        accept: Callable[[ExportRequest], AcceptResult],
        limits: RequestLimits,
        workers: Executor,
        *,
        tokens: BearerTokens | None = None,
        forwarded: Iterable[str] = (),
    ) -> None:
        """Pass requests to `accept`, with the headers named in `forwarded`, in lower case.

        `accept` is called from many threads at once, and never raises.
        """
        self.limits = limits
        self.tokens = tokens or BearerTokens()
        self.in_flight = InFlightRequests(limits)
        self.closing = False
        """Whether new requests are refused because the gateway shuts down."""
        self._accept = accept
        self._workers = workers
        self._forwarded = frozenset(forwarded)
        self._decompression = DecompressionLimits(
            limits.max_request_bytes, limits.max_decompression_ratio, time.thread_time
        )
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, str, str]] = Counter()
        self._bytes: Counter[tuple[str, str]] = Counter()
        self._dropped: Counter[tuple[str, str]] = Counter()
        self._bad_fields: Counter[tuple[str, str]] = Counter()

    def reserve(self) -> Reservation | OtlpResponse:
        """Count a request before its body is read, or return why it is refused."""
        if self.closing:
            return OtlpResponse(RequestStatus.BUSY, "the gateway is shutting down", RETRY_AFTER_SECONDS)
        try:
            return self.in_flight.reserve()
        except LimitReached as reason:
            return busy(reason)

    def forwarded_headers(self, headers: Iterable[tuple[str, str]]) -> Headers | OtlpResponse:
        """Return the headers to forward, or why one cannot be. Names are in lower case."""
        picked = sorted((name, value) for name, value in headers if name in self._forwarded)
        for name, value in picked:
            if not (value.isascii() and value.isprintable()):
                message = f"header {name}: expected printable ASCII, since it is forwarded"
                return OtlpResponse(RequestStatus.MALFORMED, message)
        return tuple(picked)

    async def process(self, request: ReceivedRequest) -> OtlpResponse:
        """Process one request and close its reservation."""
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
        except LimitReached as reason:
            response = busy(reason)
        except Exception:
            _logger.exception("a request failed", extra={"protocol": protocol, "signal": signal})
            response = OtlpResponse(RequestStatus.BROKEN, "internal error; the log has more")
        self.count(protocol, signal, response, size=len(request.body))
        return response

    def _process(self, request: ReceivedRequest) -> OtlpResponse:
        """Return the response. Raises LimitReached."""
        try:
            if request.encoding is None:
                body = decompress_by_magic(request.body, self._decompression)
            else:
                body = decompress(request.body, request.encoding, self._decompression)
            if body is not request.body:
                request.reservation.grow(len(body))
        except DecompressedTooLarge as reason:
            return OtlpResponse(RequestStatus.TOO_LARGE, f"body: {reason}")
        except CorruptBody as reason:
            return OtlpResponse(RequestStatus.MALFORMED, f"body: {reason}")
        rejected, bad_fields, message = 0, 0, ""
        if request.protocol == "http/json":
            try:
                max_values = self.limits.max_request_bytes // JSON_BYTES_A_VALUE
                converted = json_to_protobuf(request.signal, body, max_values)
                request.reservation.grow(len(converted.body))
            except InvalidRequest as reason:
                return OtlpResponse(RequestStatus.MALFORMED, str(reason))
            except TooManyValues as reason:
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
            case Busy(seconds, why):
                return OtlpResponse(RequestStatus.BUSY, why, seconds)
            case Rejected(why):
                return OtlpResponse(RequestStatus.MALFORMED, why)

    def count(self, protocol: str, signal: str, response: OtlpResponse, *, size: int = 0) -> None:
        """Count a request by its response."""
        with self._lock:
            self._requests[protocol, signal, response.status.label] += 1
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
        for (protocol, signal, outcome), number in requests.items():
            yield "goldspan_receiver_requests_total", _labels(protocol, signal) | {"outcome": outcome}, number
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


def busy(reason: object) -> OtlpResponse:
    """Return the response to a request that exceeds a limit: 503 or UNAVAILABLE, to be sent again in a second."""
    return OtlpResponse(RequestStatus.BUSY, f"{reason}; try again", RETRY_AFTER_SECONDS)


def _labels(protocol: str, signal: str) -> dict[str, str]:
    return {"protocol": protocol, "signal": signal}
