"""What all receivers do with a request once its bytes are there: open, convert, hand over, count, answer."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor

from goldspan.collector_processor.gateway import compression
from goldspan.collector_processor.gateway.compression import CorruptBody, DecompressedTooLarge, DecompressionLimits
from goldspan.collector_processor.gateway.interfaces import (
    Accepted,
    Busy,
    Headers,
    Pipeline,
    Rejected,
    Request,
    Sample,
    Signal,
)
from goldspan.collector_processor.gateway.otlp_responses import OtlpResponse, RequestStatus
from goldspan.collector_processor.gateway.receive.auth import BearerTokens
from goldspan.collector_processor.gateway.receive.limits import InFlightRequests, LimitReached, Limits, Reservation
from goldspan.collector_processor.gateway.receive.otlp_json import InvalidRequest, json_to_protobuf

_logger = logging.getLogger("goldspan.gateway")

RETRY_AFTER_SECONDS = 1.0
"""What a client is asked to wait when there is no room: requests take milliseconds."""


class RequestHandler:
    """Shared by all receivers, whose event loop it never blocks: what takes time is done by `workers`."""

    def __init__(
        self,
        intake: Pipeline,
        limits: Limits,
        workers: Executor,
        *,
        tokens: BearerTokens | None = None,
        forwarded: Iterable[str] = (),
    ) -> None:
        self.limits = limits
        self.tokens = tokens or BearerTokens()
        self.room = InFlightRequests(limits)
        self.closing = False
        self._intake = intake
        self._workers = workers
        self._forwarded = frozenset(forwarded)
        self._bounds = DecompressionLimits(limits.max_request_bytes, limits.max_decompression_ratio)
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, str, str]] = Counter()
        self._bytes: Counter[tuple[str, str]] = Counter()
        self._dropped: Counter[tuple[str, str]] = Counter()

    def enter(self) -> Reservation | OtlpResponse:
        """Take a place for a request whose body is to be read, or say why there is none."""
        if self.closing:
            return OtlpResponse(RequestStatus.BUSY, "the gateway is shutting down", RETRY_AFTER_SECONDS)
        try:
            return self.room.enter()
        except LimitReached as reason:
            return busy(reason)

    def headers(self, given: Iterable[tuple[str, str]]) -> Headers | OtlpResponse:
        """Pick the headers that are forwarded, or say why one cannot be. Names are in lower case."""
        picked = sorted((name, value) for name, value in given if name in self._forwarded)
        for name, value in picked:
            if not (value.isascii() and value.isprintable()):
                return OtlpResponse(
                    RequestStatus.MALFORMED, f"header {name}: expected printable ASCII, since it is forwarded"
                )
        return tuple(picked)

    async def receive(
        self, protocol: str, signal: Signal, raw: bytes, encoding: str | None, headers: Headers, place: Reservation
    ) -> OtlpResponse:
        """Take in one request and close its place; `encoding` is its content encoding, None: its first bytes tell."""
        work = self._workers.submit(self._answer, protocol, signal, raw, encoding, headers, place)
        # A client that goes away cancels the waiting, not the work: what was begun keeps its place until it ends.
        work.add_done_callback(lambda _: place.close())
        return await asyncio.wrap_future(work)

    def _answer(
        self, protocol: str, signal: Signal, raw: bytes, encoding: str | None, headers: Headers, place: Reservation
    ) -> OtlpResponse:
        try:
            answer = self._receive(protocol, signal, raw, encoding, headers, place)
        except Exception:
            _logger.exception("a request could not be taken in", extra={"protocol": protocol, "signal": signal})
            answer = OtlpResponse(RequestStatus.BROKEN, "internal error; the log has more")
        self.count(protocol, signal, answer, size=len(raw))
        return answer

    def _receive(
        self, protocol: str, signal: Signal, raw: bytes, encoding: str | None, headers: Headers, place: Reservation
    ) -> OtlpResponse:
        try:
            if encoding is None:
                body = compression.decompress_by_magic(raw, self._bounds)
            else:
                body = compression.decompress(raw, encoding, self._bounds)
            if body is not raw:
                place.grow(len(body))
        except DecompressedTooLarge as reason:
            return OtlpResponse(RequestStatus.TOO_LARGE, f"body: {reason}")
        except CorruptBody as reason:
            return OtlpResponse(RequestStatus.MALFORMED, f"body: {reason}")
        except LimitReached as reason:
            return busy(reason)
        rejected, message = 0, ""
        if protocol == "http/json":
            try:
                converted = json_to_protobuf(signal, body)
            except InvalidRequest as reason:
                return OtlpResponse(RequestStatus.MALFORMED, str(reason))
            body, rejected, message = converted.body, converted.rejected, converted.message
        match self._intake.accept(Request(signal, body, headers)):
            case Accepted():
                return OtlpResponse(RequestStatus.OK, message, rejected=rejected)
            case Busy(seconds, why):
                return OtlpResponse(RequestStatus.BUSY, why, seconds)
            case Rejected(why):
                return OtlpResponse(RequestStatus.MALFORMED, why)

    def count(self, protocol: str, signal: str, answer: OtlpResponse, *, size: int = 0) -> None:
        """Count a request that was answered."""
        with self._lock:
            self._requests[protocol, signal, answer.outcome.word] += 1
            self._bytes[protocol, signal] += size
            if answer.rejected:
                self._dropped[protocol, signal] += answer.rejected

    def metrics(self) -> Iterator[Sample]:
        """Yield what was counted."""
        with self._lock:
            requests, received, dropped = dict(self._requests), dict(self._bytes), dict(self._dropped)
        for (protocol, signal, outcome), number in requests.items():
            yield "goldspan_receiver_requests_total", _labels(protocol, signal) | {"outcome": outcome}, number
        for (protocol, signal), number in received.items():
            yield "goldspan_receiver_bytes_total", _labels(protocol, signal), number
        for (protocol, signal), number in dropped.items():
            yield "goldspan_receiver_dropped_items_total", _labels(protocol, signal), number
        yield "goldspan_receiver_requests_in_flight", {}, self.room.requests
        yield "goldspan_receiver_bytes_in_flight", {}, self.room.bytes


def busy(reason: object) -> OtlpResponse:
    """Ask to come again in a moment."""
    return OtlpResponse(RequestStatus.BUSY, f"{reason}; try again", RETRY_AFTER_SECONDS)


def _labels(protocol: str, signal: str) -> dict[str, str]:
    return {"protocol": protocol, "signal": signal}
