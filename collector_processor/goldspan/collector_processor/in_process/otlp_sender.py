"""Events and spans that goldspan sends to an OTLP/HTTP receiver: each is encoded once, and requests are made of bytes.

https://opentelemetry.io/docs/specs/otlp/#otlphttp, https://opentelemetry.io/docs/specs/otel/protocol/exporter/
"""

from __future__ import annotations

import gzip
import os
import ssl
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from opentelemetry.metrics import MeterProvider
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.util.re import parse_env_headers

from goldspan.collector_processor.emit import names
from goldspan.collector_processor.emit.emitters import SelfTelemetry
from goldspan.collector_processor.emit.evaluation import Evaluation
from goldspan.collector_processor.emit.otlp_encoding import (
    Source,
    encoded_event,
    encoded_span,
    event_source,
    export_request,
    span_source,
)
from goldspan.collector_processor.otlp_signals import Signal, rejected_items
from goldspan.collector_processor.retrying_queue import MAX_SHOWN, QueueLimits, RetryingQueue, SendResult
from goldspan.collector_processor.server_urls import check_url
from goldspan.scoring.errors import SettingsError

try:
    from goldspan.collector_processor.http_client import OTLP_RETRYABLE_STATUS, HttpClient, parse_retry_after
except ImportError as error:
    raise SettingsError(f"exporter, events: 'otlp' needs urllib3 ({error}): pip install 'goldspan[sinks]'") from None

MAX_QUEUED_BYTES = 16 << 20
"""Bytes of encoded records of a signal that wait at most. Beyond it the oldest are dropped."""
MAX_BATCH, MAX_BATCH_BYTES = 512, 1 << 20
"""Records, and their bytes, in one request at most."""
_OVERHEAD = 100  # bytes of memory that a record takes beside its own
_DELAY = 1.0  # seconds that a record waits for others, as in BatchLogRecordProcessor
TIMEOUT = 10.0
"""Seconds for one request."""
_MAX_TIMEOUT = 1e6
MIN_BACKOFF, MAX_BACKOFF = 1.0, 30.0
"""Seconds before a request is sent again, unless the receiver asks for others. Doubled each time."""
_COMPRESS: Mapping[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "deflate": zlib.compress}


@dataclass(frozen=True, slots=True)
class RecordKind:
    """What is sent, and what differs for it."""

    name: str
    """Of the records, in the log."""
    option: str
    """Of the door, which says where they are sent."""
    expected: str
    """What that option may be."""
    signal: Signal
    """Its name, in capitals, is a part of the names of variables."""


EVENTS = RecordKind(
    "events",
    "events",
    "'provider', 'otlp' or the URL of an OTLP/HTTP receiver such as http://localhost:4318",
    Signal.LOGS,
)
SPANS = RecordKind(
    "spans",
    "exporter",
    "an exporter, 'otlp' or the URL of an OTLP/HTTP receiver such as http://localhost:4318",
    Signal.TRACES,
)


@dataclass(frozen=True, slots=True)
class OtlpReceiver:
    """Where records are sent, and how."""

    endpoint: str
    """The URL for records of this signal."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    timeout: float = TIMEOUT
    compression: str = ""
    """`gzip` or `deflate`; empty: none."""
    certificate: str = ""
    """A file of CAs; empty: those of the system."""
    client_certificate: str = ""
    client_key: str = ""

    @classmethod
    def of(cls, kind: RecordKind, chosen: str, environment: Mapping[str, str]) -> OtlpReceiver:
        """Read the variables of OTLP exporters. `chosen` is `otlp`, or the URL of a receiver in place of theirs.

        Raises SettingsError.
        """
        own = f"OTEL_EXPORTER_OTLP_{kind.signal.upper()}_"

        def variable(name: str) -> tuple[str, str]:
            """Return the variable that counts, and its value; an empty one does not count."""
            of_all = f"OTEL_EXPORTER_OTLP_{name}"
            place = f"{own}{name}" if environment.get(f"{own}{name}", "").strip() else of_all
            return place, environment.get(place, "").strip()

        def refused(place: str, value: object, expected: str) -> SettingsError:
            return SettingsError(f"{place}: found {value!r}, expected {expected}")

        place, base = kind.option, chosen
        if chosen == "otlp":
            place, protocol = variable("PROTOCOL")
            if protocol not in ("", "http/protobuf"):
                raise SettingsError(
                    f"{kind.option}: found the protocol {protocol!r} in {place}, expected http/protobuf; "
                    "or name an OTLP/HTTP receiver: 'http://localhost:4318'"
                )
            place, base = variable("ENDPOINT")
        try:
            check_url(base or "http://localhost:4318", kind.expected, "OTEL_EXPORTER_OTLP_HEADERS takes secrets")
        except ValueError as error:
            raise SettingsError(f"{place}: {error}") from None
        endpoint = base if place.startswith(own) else kind.signal.url(base or "http://localhost:4318")
        place, compression = variable("COMPRESSION")
        if compression.lower() not in ("", "none", *_COMPRESS):
            raise refused(place, compression, "none, gzip or deflate")
        place, seconds = variable("TIMEOUT")
        try:
            timeout = float(seconds or TIMEOUT)
        except ValueError:
            raise refused(place, seconds, "seconds") from None
        if not 0 < timeout < _MAX_TIMEOUT:
            raise refused(place, seconds, "seconds, more than 0")
        place, pairs = variable("HEADERS")
        return cls(
            endpoint,
            _headers_of(place, pairs),
            timeout,
            compression.lower().removeprefix("none"),
            variable("CERTIFICATE")[1],
            variable("CLIENT_CERTIFICATE")[1],
            variable("CLIENT_KEY")[1],
        )

    def tls(self) -> ssl.SSLContext | None:
        """Return how servers are verified; None for the defaults. Raises SettingsError if a file cannot be used."""
        if not (self.certificate or self.client_certificate):
            return None
        try:
            context = ssl.create_default_context(cafile=self.certificate or None)
            if self.client_certificate:
                context.load_cert_chain(self.client_certificate, self.client_key or None)
        except (OSError, ValueError) as error:
            files = ", ".join(filter(None, (self.certificate, self.client_certificate, self.client_key)))
            raise SettingsError(f"the certificates of OTEL_EXPORTER_OTLP_* ({files}) cannot be used: {error}") from None
        return context


def _headers_of(place: str, pairs: str) -> Mapping[str, str]:
    """Read the headers of a variable. Raises SettingsError."""
    headers = parse_env_headers(pairs, liberal=True)
    if bad := [name for name, value in headers.items() if not (name + value).isascii() or not value.isprintable()]:
        raise SettingsError(f"{place}: {bad[0]!r} has characters that no header can have, expected printable ASCII")
    return headers


_Record = tuple[Source, bytes]


class OtlpSender(RetryingQueue[_Record]):
    """Sends encoded records, each put with its source.

    What the receiver cannot take now is sent again, with growing pauses. What it refuses, and what the queue has no
    room for, is counted.
    """

    def __init__(self, kind: RecordKind, receiver: OtlpReceiver, on_dropped: Callable[[int, str], object]) -> None:
        """`on_dropped` is told how many records were dropped, and why. Raises SettingsError."""
        self._kind = kind
        self._receiver = receiver
        self._client = HttpClient(receiver.endpoint, ssl_context=receiver.tls())
        limits = QueueLimits(
            max_size=MAX_QUEUED_BYTES,
            max_batch=MAX_BATCH,
            max_batch_size=MAX_BATCH_BYTES,
            delay=_DELAY,
            first_pause=MIN_BACKOFF,
            longest_pause=MAX_BACKOFF,
        )
        super().__init__(
            self._request,
            limits,
            what=kind.name,
            target=receiver.endpoint,
            size_of=lambda record: len(record[1]) + _OVERHEAD,
            on_dropped=on_dropped,
            on_closed=self._client.close,
        )

    def _request(self, records: Sequence[_Record]) -> SendResult[_Record]:
        body = export_request(records)
        receiver = self._receiver
        headers = {"content-type": "application/x-protobuf", "user-agent": "goldspan", **receiver.headers}
        if receiver.compression:
            body = _COMPRESS[receiver.compression](body)
            headers["content-encoding"] = receiver.compression
        response = self._client.request("POST", "", body, headers, seconds=receiver.timeout)
        if response.status < 300:
            rejected, _ = rejected_items(self._kind.signal, response.body, response.headers.get("content-type", ""))
            return SendResult(rejected=records[:rejected], reason="a partial success")
        reason = f"HTTP {response.status} {response.body[:MAX_SHOWN].decode('utf-8', 'replace')}".rstrip()
        if response.status not in OTLP_RETRYABLE_STATUS:
            return SendResult(rejected=records, reason=reason)
        asked = parse_retry_after(response.headers.get("retry-after"), datetime.now(UTC))
        return SendResult(retry=records, reason=reason, is_away=True, asked_seconds=asked)


class OtlpEvents(OtlpSender):
    """Sends events."""

    def __init__(self, receiver: OtlpReceiver, on_dropped: Callable[[int, str], object]) -> None:
        super().__init__(EVENTS, receiver, on_dropped)

    def flush_provider(self, seconds: float) -> None:
        """Send the events that were written, once."""
        self.flush(seconds)

    def emit(self, evaluation: Evaluation) -> None:
        """Encode and queue the event of a result that has one."""
        if evaluation.has_event:
            self.put([(event_source(evaluation.resource), encoded_event(evaluation, time.time_ns()))])


class OtlpSpanExporter(SpanExporter):
    """Exports spans by OTLP/HTTP, at a fraction of what the SDK's exporter takes, which makes a message of each.

    `export` encodes and queues. A door flushes the queue with `force_flush`; a BatchSpanProcessor alone does not. No
    method raises. Spans that cannot be encoded or delivered are counted in `goldspan.spans.dropped`, and logged.
    """

    logs_outages = True
    """A wrapping exporter need not log them too."""

    def __init__(self, chosen: str = "otlp", *, meter_provider: MeterProvider | None = None) -> None:
        """Send to the receiver that the variables of OTLP exporters name, or to this URL. Raises SettingsError."""
        receiver = OtlpReceiver.of(SPANS, chosen, os.environ)
        self._endpoint = receiver.endpoint
        telemetry = SelfTelemetry(meter_provider)
        self._sender = OtlpSender(
            SPANS, receiver, lambda count, reason: telemetry.count(names.DROPPED_SPANS, count, reason)
        )

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Encode and queue spans. The result is always SUCCESS."""
        records: list[_Record] = []
        for span in spans:
            try:
                records.append((span_source(span), encoded_span(span)))
            except Exception as error:  # noqa: BLE001 - a span that cannot be encoded; its neighbours can
                self._sender.drop(1, "failure", f"they cannot be encoded: {type(error).__name__}: {error}")
        self._sender.put(records)
        return SpanExportResult.SUCCESS

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Send every queued span once. False if some still wait."""
        return self._sender.flush(timeout_millis / 1000)

    def shutdown(self, timeout_millis: float = 30_000) -> None:
        """Send what is queued for so long at most, then drop the rest."""
        self._sender.close(timeout_millis / 1000)
