"""What the two halves of the gateway know of each other: receivers and outlets outside, journal and engine inside.

    client -> receiver -> Request -> Intake.accept -> Receipt -> client
                                       |
                                  journal, engine
                                       |
                                     Request -> Outlet.deliver -> Delivery -> kept, tried again or put aside

The inside owns the queue and with it the retries: an outlet makes one attempt and says what came of it, by the
classes of the OTLP specification (https://opentelemetry.io/docs/specs/otlp/#failures). Nothing here raises: what goes
wrong is an answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from goldspan.scoring.goldens import GoldenIndex

Headers = tuple[tuple[str, str], ...]
"""Allowed request headers, names in lower case, in order: with the signal, the key of what may be put together."""

Sample = tuple[str, Mapping[str, str], float]
"""One number of `/metrics`: name, labels, value.

A name that ends in `_total` is a counter; names that differ only in `_bucket`, `_sum` and `_count` are one histogram,
as in Prometheus' text format; any other is a gauge.
"""


class Signal(StrEnum):
    """The kinds of telemetry that OTLP carries; each has a service and a path of its own."""

    TRACES = "traces"
    LOGS = "logs"
    METRICS = "metrics"


@dataclass(frozen=True, slots=True)
class Request:
    """One export request, on its way in or out."""

    signal: Signal
    body: bytes
    """A protobuf `Export{Trace,Logs,Metrics}ServiceRequest`, uncompressed. Received bodies were not parsed."""
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class Accepted:
    """The request is kept, as durably as the journal is set to; the client may forget it."""


@dataclass(frozen=True, slots=True)
class Busy:
    """The request was not kept and may be sent again: HTTP 503 with Retry-After, gRPC UNAVAILABLE with RetryInfo."""

    retry_after_seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """The request can never be taken, so that sending it again is of no use: HTTP 400, gRPC INVALID_ARGUMENT."""

    reason: str


AcceptResult = Accepted | Busy | Rejected


class Pipeline(Protocol):
    """Where receivers hand over what they received."""

    def accept(self, request: Request) -> AcceptResult:
        """Keep a request; returns once that is durable. Called from many threads at once; never raises."""
        ...

    def drain(self, timeout_seconds: float) -> bool:
        """Take in nothing more, judge and deliver what there is, and stop; whether all of it went out in time."""
        ...

    def reload_goldens(self, goldens: GoldenIndex) -> None:
        """Judge by these goldens from now on; what is open is judged anew or by the old ones, never by both."""
        ...

    def coverage(self) -> Mapping[str, Any]:
        """Return which goldens were seen and which never, as JSON values, for `/coverage`."""
        ...

    def metrics(self) -> Iterable[Sample]:
        """Return what was counted since the start, for `/metrics`; names begin with `goldspan_`."""
        ...


@dataclass(frozen=True, slots=True)
class Delivered:
    """The receiver has it, perhaps but for some items that it named as rejected and never wants to see again."""

    rejected: int = 0
    message: str = ""
    """What the receiver said about rejected items; alone, it is a warning."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Not delivered, and the same request may go through later."""

    after_seconds: float | None
    """How long the receiver asked to be left alone; none: it said nothing, so that the usual backoff applies."""
    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """Not delivered, and the same request would be refused again."""

    reason: str


DeliveryResult = Delivered | Retry | Refused


class Exporter(Protocol):
    """Where the inside sends what leaves."""

    def deliver(self, request: Request) -> DeliveryResult:
        """Make one attempt and wait for its end. Called from many threads at once; never raises."""
        ...

    def close(self) -> None:
        """Let go of connections; deliveries after it are `Retry`."""
        ...
