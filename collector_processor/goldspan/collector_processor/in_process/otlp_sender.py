"""Events and spans that goldspan sends to an OTLP/HTTP receiver: each is encoded once, and requests are made of bytes.

https://opentelemetry.io/docs/specs/otlp/#otlphttp, https://opentelemetry.io/docs/specs/otel/protocol/exporter/
"""

from __future__ import annotations

import gzip
import logging
import os
import re
import ssl
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import uniform

from google.protobuf.message import DecodeError
from opentelemetry.metrics import MeterProvider
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.util.re import parse_env_headers
from urllib3.exceptions import HTTPError

from goldspan.collector_processor.emit import names
from goldspan.collector_processor.emit.emitters import SelfTelemetry, suppressed_instrumentation
from goldspan.collector_processor.emit.evaluation import Evaluation
from goldspan.collector_processor.emit.otlp_encoding import (
    Source,
    encoded_event,
    encoded_span,
    event_source,
    export_request,
    span_source,
)
from goldspan.collector_processor.export_outage import ExportOutage
from goldspan.collector_processor.http_client import (
    HttpClient,
    HttpResponse,
    describe,
    parse_retry_after,
    requests_end_by,
)
from goldspan.collector_processor.server_urls import check_url
from goldspan.collector_processor.timer import Timer, call_in_forked_children
from goldspan.scoring.errors import SettingsError

_logger = logging.getLogger("goldspan")

MAX_QUEUED_BYTES = 16 << 20
"""Bytes of encoded records of a signal that wait at most. Beyond it the oldest are dropped."""
MAX_BATCH, MAX_BATCH_BYTES = 512, 1 << 20
"""Records, and their bytes, in one request at most."""
_OVERHEAD = 100
"""Bytes of memory that a record takes beside its own."""
_DELAY = 1.0
"""Seconds that a record waits for others, as in BatchLogRecordProcessor."""
TIMEOUT = 10.0
"""Seconds for one request."""
_MAX_TIMEOUT = 1e6
_OF_A_SIGNAL = re.compile("/v1/(traces|logs|metrics)$")
_RETRYABLE = frozenset({429, 502, 503, 504})
MIN_BACKOFF, MAX_BACKOFF = 1.0, 30.0
"""Seconds before a request is sent again, unless the receiver asks for others. Doubled each time."""
_MIN_PAUSE = 0.01
"""Seconds between two attempts at the end."""
_MAX_RETRY_AFTER = 300.0
_MAX_SHOWN = 200
"""Characters of a reason that are logged."""
_MAX_REASONS = 20
"""Reasons that are logged at most."""
_COMPRESS: Mapping[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "deflate": zlib.compress}


@dataclass(frozen=True, slots=True)
class Signal:
    """What is sent: a kind of records, and what differs for it."""

    name: str
    """Of the records, in the log."""
    option: str
    """Of the door, which says where they are sent."""
    expected: str
    """What that option may be."""
    otlp: str
    """OTLP's name: the end of the URL's path and, in capitals, a part of the names of variables."""
    rejected: Callable[[bytes], int]
    """Reads from a response how many records the receiver did not take. Raises DecodeError."""

    def url(self, base: str) -> str:
        """Return the URL of a receiver for this signal; `base` may be that for any signal."""
        return f"{_OF_A_SIGNAL.sub('', base.rstrip('/'))}/v1/{self.otlp}"


EVENTS = Signal(
    "events",
    "events",
    "'provider', 'otlp' or the URL of an OTLP/HTTP receiver such as http://localhost:4318",
    "logs",
    lambda body: ExportLogsServiceResponse.FromString(body).partial_success.rejected_log_records,
)
SPANS = Signal(
    "spans",
    "exporter",
    "an exporter, 'otlp' or the URL of an OTLP/HTTP receiver such as http://localhost:4318",
    "traces",
    lambda body: ExportTraceServiceResponse.FromString(body).partial_success.rejected_spans,
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
    def of(cls, signal: Signal, chosen: str, environment: Mapping[str, str]) -> OtlpReceiver:
        """Read the variables of OTLP exporters. `chosen` is `otlp`, or the URL of a receiver in place of theirs.

        Raises SettingsError.
        """
        own = f"OTEL_EXPORTER_OTLP_{signal.otlp.upper()}_"

        def variable(name: str) -> tuple[str, str]:
            """Return the variable that counts, and its value; an empty one does not count."""
            of_all = f"OTEL_EXPORTER_OTLP_{name}"
            place = f"{own}{name}" if environment.get(f"{own}{name}", "").strip() else of_all
            return place, environment.get(place, "").strip()

        def refused(place: str, value: object, expected: str) -> SettingsError:
            return SettingsError(f"{place}: found {value!r}, expected {expected}")

        place, base = signal.option, chosen
        if chosen == "otlp":
            place, protocol = variable("PROTOCOL")
            if protocol not in ("", "http/protobuf"):
                raise SettingsError(
                    f"{signal.option}: found the protocol {protocol!r} in {place}, expected http/protobuf; "
                    "or name an OTLP/HTTP receiver: 'http://localhost:4318'"
                )
            place, base = variable("ENDPOINT")
        try:
            check_url(base or "http://localhost:4318", signal.expected, "OTEL_EXPORTER_OTLP_HEADERS takes secrets")
        except ValueError as error:
            raise SettingsError(f"{place}: {error}") from None
        endpoint = base if place.startswith(own) else signal.url(base or "http://localhost:4318")
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
        headers = parse_env_headers(pairs, liberal=True)
        if bad := [name for name, value in headers.items() if not (name + value).isascii() or not value.isprintable()]:
            raise SettingsError(f"{place}: {bad[0]!r} has characters that no header can have, expected printable ASCII")
        return cls(
            endpoint,
            headers,
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


_Record = tuple[Source, bytes]


class OtlpSender:
    """Sends encoded records in batches, from a thread of its own. `add` only queues: it never blocks.

    What the receiver cannot take now is sent again, with growing pauses. What it refuses, and what the queue has no
    room for, is counted.
    """

    def __init__(self, signal: Signal, receiver: OtlpReceiver, on_dropped: Callable[[int, str], object]) -> None:
        """`on_dropped` is told how many records were dropped, and why. Raises SettingsError."""
        self._signal = signal
        self._receiver = receiver
        self._on_dropped = on_dropped
        self._client = HttpClient(receiver.endpoint, ssl_context=receiver.tls())
        self._bytes = 0
        """Of the queue, and of the batch that is being sent."""
        self._closed = False
        """Nothing more is queued."""
        self._ended = False
        """Nothing more is sent."""
        self._reset()
        # A forked child starts empty: its parent sends the parent's records, and locks and threads do not survive.
        call_in_forked_children(self._reset)

    def add(self, records: Sequence[_Record]) -> None:
        """Queue records, each with its source."""
        dropped = 0
        with self._lock:
            before = len(self._queue)
            if not (closed := self._closed):
                self._queue.extend(records)
                self._bytes += _size(records)
                dropped = self._trim()
            waiting = len(self._queue)
        if closed:
            self._on_dropped(len(records), "shutdown")
            return
        if dropped:
            self._on_dropped(dropped, "queue_full")
        if before < MAX_BATCH <= waiting:
            self._timer.set_at_latest(self._resumes)
        elif before == 0:
            self._timer.set_at_latest(max(self._resumes, time.monotonic() + _DELAY))

    def flush(self, seconds: float) -> bool:
        """Send every queued record once, now. Returns whether none is queued or on its way then."""
        end = time.monotonic() + seconds
        if self._bytes > 0 and self._sending.acquire(timeout=max(0.0, seconds)):
            try:
                self._send_all(end)
            finally:
                self._sending.release()
        return self._bytes <= 0

    def close(self, seconds: float) -> bool:
        """Send what is queued for so long at most, then drop the rest. False if some were dropped, or may be."""
        end = time.monotonic() + seconds
        self._closed = True
        while not self.flush(max(0.0, end - time.monotonic())):
            now = time.monotonic()
            resumes = max(self._resumes, now + _MIN_PAUSE)
            if resumes >= end:
                break
            time.sleep(resumes - now)
        self._timer.set(None)
        with self._lock:
            left, sent = len(self._queue), self._bytes <= 0
            self._queue.clear()
            self._bytes = 0
            self._ended = True
        self._drop_at_end(left)
        self._client.close()
        return sent

    def drop(self, count: int, reason: str, said: str) -> None:
        """Count records that are not sent, and log each reason once."""
        if not count:
            return
        self._on_dropped(count, reason)
        if said not in self._logged and len(self._logged) < _MAX_REASONS:
            self._logged.add(said)
            what = self._signal.name
            _logger.warning("%d %s are dropped: %s; later ones for this reason are counted only", count, what, said)

    def _drop_at_end(self, count: int) -> None:
        self.drop(count, "shutdown", f"{self._receiver.endpoint} did not take them until the process ends")

    def _on_timer(self) -> None:
        with self._sending:
            self._send_all(time.monotonic() + self._receiver.timeout)
        if self._queue and not self._closed:
            self._timer.set_at_latest(max(self._resumes, time.monotonic()))

    def _send_all(self, end: float) -> None:
        """Send batches that begin before `end`, until one has to be sent again."""
        with requests_end_by(end):
            while time.monotonic() < end and (batch := self._take()):
                done = False
                try:
                    done = self._send(batch)
                finally:  # of an interrupt too
                    self._end_batch(batch, done=done)
                if not done:
                    return

    def _take(self) -> list[_Record]:
        batch: list[_Record] = []
        size = 0
        with self._lock:
            while self._queue and len(batch) < MAX_BATCH and size < MAX_BATCH_BYTES:
                batch.append(self._queue.popleft())
                size += len(batch[-1][1])
        return batch

    def _end_batch(self, batch: Sequence[_Record], *, done: bool) -> None:
        """Forget a batch, or put it back as the oldest."""
        dropped = 0
        with self._lock:
            ended = self._ended
            if done:
                self._bytes -= _size(batch)
            elif not ended:
                self._queue.extendleft(reversed(batch))
                dropped = self._trim()
        if ended and not done:
            self._drop_at_end(len(batch))
        if dropped:
            self._on_dropped(dropped, "queue_full")

    def _trim(self) -> int:
        """Drop the oldest records beyond the limit, and return how many. One whose request is on its way stays."""
        dropped = 0
        while self._bytes > MAX_QUEUED_BYTES and self._queue:
            self._bytes -= _size([self._queue.popleft()])
            dropped += 1
        return dropped

    def _send(self, batch: Sequence[_Record]) -> bool:
        """Send records. False: they have to be sent again. Never raises."""
        asked: float | None = None
        try:
            with suppressed_instrumentation():
                response = self._request(batch)
        except (HTTPError, OSError) as error:
            reason = describe(error)[:_MAX_SHOWN]
        except Exception as error:  # noqa: BLE001 - no reason to try again, or to end the thread
            self._refused(len(batch), describe(error))
            return True
        else:
            if response.status < 300:
                self._failures, self._resumes = 0, 0.0
                self._outage.succeeded()
                self._refused(self._rejected(response), "a partial success")
                return True
            reason = f"HTTP {response.status} {response.body[:_MAX_SHOWN].decode('utf-8', 'replace')}".rstrip()
            if response.status not in _RETRYABLE:
                self._refused(len(batch), reason)
                return True
            asked = parse_retry_after(response.headers.get("retry-after"), datetime.now(UTC))
        self._outage.failed(len(batch), reason)
        pause = min(MIN_BACKOFF * 2.0 ** min(self._failures, 30), MAX_BACKOFF) * uniform(0.5, 1.0)
        self._failures += 1
        self._resumes = time.monotonic() + (pause if asked is None else min(asked, _MAX_RETRY_AFTER))
        return False

    def _request(self, batch: Sequence[_Record]) -> HttpResponse:
        body = export_request(batch)
        receiver = self._receiver
        headers = {"content-type": "application/x-protobuf", "user-agent": "goldspan", **receiver.headers}
        if receiver.compression:
            body = _COMPRESS[receiver.compression](body)
            headers["content-encoding"] = receiver.compression
        return self._client.request("POST", "", body, headers, seconds=receiver.timeout)

    def _refused(self, count: int, said: str) -> None:
        self.drop(count, "refused", f"{self._receiver.endpoint} did not take them: {said}")

    def _rejected(self, response: HttpResponse) -> int:
        """Return how many records the receiver did not take of those it accepted."""
        if not response.body or response.headers.get("content-type", "") != "application/x-protobuf":
            return 0
        try:
            return max(0, self._signal.rejected(response.body))
        except DecodeError:
            return 0

    def _reset(self) -> None:
        """Start with an empty queue: at first, and in a forked child."""
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._queue = deque[_Record]()
        self._bytes = 0
        self._failures = 0
        self._resumes = 0.0
        """When the receiver may be asked again."""
        self._logged = set[str]()
        self._outage: ExportOutage = ExportOutage(self._receiver.endpoint, self._signal.name, "sent again")
        self._timer: Timer = Timer(self._on_timer, f"goldspan-{self._signal.name}")


def _size(records: Sequence[_Record]) -> int:
    return sum(len(encoded) for _, encoded in records) + _OVERHEAD * len(records)


class OtlpEvents(OtlpSender):
    """Sends events."""

    def __init__(self, receiver: OtlpReceiver, on_dropped: Callable[[int, str], object]) -> None:
        super().__init__(EVENTS, receiver, on_dropped)

    def emit(self, evaluation: Evaluation) -> None:
        """Encode and queue one event."""
        self.add([(event_source(evaluation.resource), encoded_event(evaluation, time.time_ns()))])


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
        self._sender.add(records)
        return SpanExportResult.SUCCESS

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Send every queued span once. False if some still wait."""
        return self._sender.flush(timeout_millis / 1000)

    def shutdown(self, timeout_millis: float = 30_000) -> None:
        """Send what is queued for so long at most, then drop the rest."""
        self._sender.close(timeout_millis / 1000)
