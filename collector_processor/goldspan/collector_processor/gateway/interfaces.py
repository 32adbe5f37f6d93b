"""The interfaces between the parts of the gateway: receivers, pipeline, exporters.

    client -> receiver -> ExportRequest -> pipeline.accept -> AcceptResult -> client
                                       |
                                  journal, engine
                                       |
                                ExportRequest -> Exporter.deliver -> DeliveryResult -> delivered, retried or dead letter

The pipeline owns the queue and the retries: an exporter makes one attempt and classifies its result as the OTLP
specification does (https://opentelemetry.io/docs/specs/otlp/#failures). Nothing here raises: failures are results.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from goldspan.collector_processor.otlp_signals import Signal

Headers = tuple[tuple[str, str], ...]
"""The forwarded headers of a request, sorted, names in lower case. They identify the tenant."""


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """One export request, received or to be sent."""

    signal: Signal
    body: bytes
    """A protobuf `Export{Trace,Logs,Metrics}ServiceRequest`, uncompressed. Receivers do not parse it."""
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class Accepted:
    """The request is stored, as durably as the journal is set to."""


@dataclass(frozen=True, slots=True)
class Busy:
    """The request is not stored and may be sent again: HTTP 503 with Retry-After, gRPC UNAVAILABLE with RetryInfo."""

    retry_after_seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """The request is invalid and must not be sent again: HTTP 400, gRPC INVALID_ARGUMENT."""

    reason: str


AcceptResult = Accepted | Busy | Rejected


@dataclass(frozen=True, slots=True)
class Delivered:
    """The back-end accepted the request, perhaps without some items that must not be sent again."""

    rejected: int = 0
    """Items that it rejected."""
    message: str = ""
    """What it said about them. Without rejected items it is a warning."""


@dataclass(frozen=True, slots=True)
class Retry:
    """The attempt failed, and the same request may succeed later."""

    after_seconds: float | None
    """The delay that the back-end asked for; None: it asked for none, so exponential backoff applies."""
    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The back-end refused the request, and would refuse it again."""

    reason: str


DeliveryResult = Delivered | Retry | Refused


class Exporter(Protocol):
    """What the pipeline sends requests through."""

    def deliver(self, request: ExportRequest) -> DeliveryResult:
        """Make one attempt and wait for its result. Called from many threads at once; never raises."""
        ...

    def close(self) -> None:
        """Close connections. Later attempts return `Retry`."""
        ...
