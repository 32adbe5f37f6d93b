"""What receivers let in at once, so that no mix of clients takes more memory than was said."""

from __future__ import annotations

import threading
from typing import Annotated, Self

from pydantic import Field

from goldspan.collector_processor.gateway.settings.field_types import Count, Seconds, Section, Size


class Limits(Section):
    """The bounds of all receivers together, except where a line says otherwise."""

    max_request_bytes: Size = 20 << 20
    """One request, compressed or not."""
    max_decompression_ratio: Annotated[float, Field(ge=1)] = 200.0
    """How many times larger than it came a body may get, once it is more than a mebibyte."""
    max_concurrent_requests: Count = 64
    """Requests on their way to the journal; one more is told to come again."""
    max_bytes_in_flight: Size = 256 << 20
    """Bodies of these requests, compressed and not; likewise."""
    max_connections: Count = 1024
    """Of each receiver. Over HTTP the connection that is idle for longest makes room for a new one."""
    max_header_bytes: Size = 16 << 10
    """All headers of one request."""
    read_timeout: Seconds = 30.0
    """From the first byte of a request to its last."""
    idle_timeout: Seconds = 120.0
    """How long a connection without a request stays open."""
    handshake_timeout: Seconds = 10.0
    """For TLS, and for what HTTP/2 says first."""


class LimitReached(Exception):  # noqa: N818 - it becomes an answer
    """There is no room now."""


class InFlightRequests:
    """The room there is for requests and their bytes. Used from any thread."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self.requests = 0
        self.bytes = 0

    def enter(self) -> Reservation:
        """Take a place for one request. Raises TooMany."""
        with self._lock:
            if self.requests >= self._limits.max_concurrent_requests:
                raise LimitReached(f"{self.requests} requests at once")
            self.requests += 1
        return Reservation(self)

    def change(self, requests: int, size: int) -> None:
        """Add to what is taken, or give back. Raises TooMany, and then nothing was taken."""
        with self._lock:
            if size > 0 and self.bytes + size > self._limits.max_bytes_in_flight:
                raise LimitReached(f"{self.bytes:,} bytes of requests at once")
            self.requests += requests
            self.bytes += size


class Reservation:
    """What one request takes, until it is closed. Used by one thread at a time."""

    __slots__ = ("_bytes", "_closed", "_room")

    def __init__(self, room: InFlightRequests) -> None:
        self._room = room
        self._bytes = 0
        self._closed = False

    def grow(self, size: int) -> None:
        """Take so many bytes more. Raises TooMany."""
        self._room.change(0, size)
        self._bytes += size

    def close(self) -> None:
        """Give it back; more than once is as good as once."""
        if not self._closed:
            self._closed = True
            self._room.change(-1, -self._bytes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
