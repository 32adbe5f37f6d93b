"""Limits of the receivers, and the requests and bytes that are in flight against them."""

from __future__ import annotations

import threading
from typing import Annotated, Self

from pydantic import Field

from goldspan.collector_processor.serving.field_types import Count, Seconds, Section, Size


class RequestLimits(Section):
    """Limits of all receivers together, unless a line says otherwise."""

    max_request_bytes: Size = 20 << 20
    """Size of one request body: compressed, decompressed, and from JSON. It may hold one record (span, log record or
    metric) for each 32 bytes of this limit, and one JSON value for each 8."""
    max_decompression_ratio: Annotated[float, Field(ge=1)] = 200.0
    """How many times its compressed size a body may have, once it is larger than 1 MiB."""
    max_concurrent_requests: Count = 64
    """Requests that are not in the journal yet. One more is answered with 503 and Retry-After."""
    max_bytes_in_flight: Size = 256 << 20
    """Bodies of these requests: compressed, decompressed, and from JSON. Beyond it a request is answered likewise."""
    max_connections: Count = 1024
    """Connections of each receiver. Over HTTP a new connection replaces the one that is idle for longest."""
    max_header_bytes: Size = 16 << 10
    """Size of all headers of one request."""
    read_timeout: Seconds = 30.0
    """Time from the first byte of a request to its last."""
    idle_timeout: Seconds = 120.0
    """How long a connection without a request stays open."""
    handshake_timeout: Seconds = 10.0
    """Time for the TLS handshake and for the HTTP/2 preface."""


class LimitReached(Exception):  # noqa: N818 - it becomes a response
    """A limit on concurrent requests or their bytes is reached."""


class InFlightRequests:
    """How many requests and bytes are in flight. Used from any thread."""

    def __init__(self, limits: RequestLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self.requests = 0
        self.bytes = 0

    def reserve(self) -> Reservation:
        """Count one request more. Raises LimitReached."""
        with self._lock:
            if self.requests >= self._limits.max_concurrent_requests:
                raise LimitReached(f"{self.requests} requests at once")
            self.requests += 1
        return Reservation(self)

    def change(self, requests: int, size: int) -> None:
        """Add to the counts, or subtract. Raises LimitReached, and then counts nothing."""
        with self._lock:
            if size > 0 and self.bytes + size > self._limits.max_bytes_in_flight:
                raise LimitReached(f"{self.bytes:,} bytes of requests at once")
            self.requests += requests
            self.bytes += size


class Reservation:
    """What one request counts for until it is closed. Used by one thread at a time."""

    __slots__ = ("_bytes", "_closed", "_in_flight")

    def __init__(self, in_flight: InFlightRequests) -> None:
        self._in_flight = in_flight
        self._bytes = 0
        self._closed = False

    def grow(self, size: int) -> None:
        """Count so many bytes more. Raises LimitReached."""
        if self._closed:
            raise LimitReached("the request was given up")
        self._in_flight.change(0, size)
        self._bytes += size

    def close(self) -> None:
        """Count the request and its bytes no longer. Safe to call again."""
        if not self._closed:
            self._closed = True
            self._in_flight.change(-1, -self._bytes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
