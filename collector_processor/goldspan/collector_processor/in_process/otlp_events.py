"""Events sent to an OTLP/HTTP receiver without a logger provider: each is encoded once, and requests are made of bytes.

https://opentelemetry.io/docs/specs/otlp/#otlphttp, https://opentelemetry.io/docs/specs/otel/protocol/exporter/
"""

from __future__ import annotations

import gzip
import logging
import os
import ssl
import threading
import time
import weakref
import zlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import uniform

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.util.re import parse_env_headers
from urllib3.exceptions import HTTPError

from goldspan.collector_processor.emit.emitters import suppressed_instrumentation
from goldspan.collector_processor.emit.evaluation import Evaluation
from goldspan.collector_processor.emit.otlp_encoding import encoded_event, events_request
from goldspan.collector_processor.export_outage import ExportOutage
from goldspan.collector_processor.http_client import (
    HttpClient,
    HttpResponse,
    describe,
    parse_retry_after,
    requests_end_by,
)
from goldspan.collector_processor.timer import Timer
from goldspan.mappers.span_facts import ResourceFacts
from goldspan.scoring.errors import SettingsError

_logger = logging.getLogger("goldspan")

MAX_QUEUED_BYTES = 16 << 20
"""Encoded events that wait at most. Beyond it the oldest are dropped."""
MAX_BATCH, MAX_BATCH_BYTES = 512, 1 << 20
"""Events, and their bytes, in one request at most."""
_OVERHEAD = 100
"""Bytes of memory that an event takes beside its own."""
_DELAY = 1.0
"""Seconds that an event waits for others, as in BatchLogRecordProcessor."""
TIMEOUT = 10.0
"""Seconds for one request."""
_RETRYABLE = frozenset({429, 502, 503, 504})
MIN_BACKOFF, MAX_BACKOFF = 1.0, 30.0
"""Seconds before a request is sent again, unless the receiver asks for others. Doubled each time."""
_MAX_RETRY_AFTER = 300.0
_MAX_SHOWN = 200
"""Characters of a reason that are logged."""
_MAX_REASONS = 20
"""Reasons that are logged at most."""
_COMPRESS: Mapping[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "deflate": zlib.compress}


@dataclass(frozen=True, slots=True)
class OtlpReceiver:
    """Where events are sent, and how."""

    endpoint: str
    """The URL for log records."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    timeout: float = TIMEOUT
    compression: str = ""
    """`gzip` or `deflate`; empty: none."""
    certificate: str = ""
    """A file of CAs; empty: those of the system."""
    client_certificate: str = ""
    client_key: str = ""

    @classmethod
    def of(cls, events: str, environment: Mapping[str, str]) -> OtlpReceiver:
        """Read the variables of OTLP exporters. `events` is `otlp`, or the URL of a receiver in place of theirs.

        Raises SettingsError.
        """

        def variable(name: str) -> str:
            names = (f"OTEL_EXPORTER_OTLP_LOGS_{name}", f"OTEL_EXPORTER_OTLP_{name}")
            return next(filter(None, (environment.get(one, "").strip() for one in names)), "")

        if events == "otlp":
            if (protocol := variable("PROTOCOL")) not in ("", "http/protobuf"):
                raise SettingsError(
                    f"events: found the protocol {protocol!r} in OTEL_EXPORTER_OTLP_PROTOCOL, expected http/protobuf; "
                    "or name an OTLP/HTTP receiver: events='http://localhost:4318'"
                )
            base = environment.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").strip() or "http://localhost:4318"
            endpoint = environment.get("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "").strip() or _logs_url(base)
        else:
            endpoint = _logs_url(events)
        if not endpoint.lower().startswith(("http://", "https://")):
            raise SettingsError(
                f"events: found {endpoint!r}, expected 'provider', 'otlp' or the URL of an OTLP/HTTP receiver"
            )
        compression = variable("COMPRESSION").lower()
        if compression not in ("", "none", *_COMPRESS):
            raise SettingsError(
                f"OTEL_EXPORTER_OTLP_COMPRESSION: found {compression!r}, expected none, gzip or deflate"
            )
        try:
            timeout = float(variable("TIMEOUT") or TIMEOUT)
        except ValueError:
            raise SettingsError(
                f"OTEL_EXPORTER_OTLP_TIMEOUT: found {variable('TIMEOUT')!r}, expected seconds"
            ) from None
        return cls(
            endpoint,
            parse_env_headers(variable("HEADERS"), liberal=True),
            timeout,
            "" if compression == "none" else compression,
            variable("CERTIFICATE"),
            variable("CLIENT_CERTIFICATE"),
            variable("CLIENT_KEY"),
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
            raise SettingsError(f"events: the certificates of OTEL_EXPORTER_OTLP_* cannot be used: {error}") from None
        return context


_Event = tuple[ResourceFacts, bytes]


class OtlpEvents:
    """Sends events in batches, from a thread of its own. `emit` only queues: it never blocks.

    What the receiver cannot take now is sent again, with growing pauses. What it refuses, and what the queue has no
    room for, is counted.
    """

    def __init__(self, receiver: OtlpReceiver, on_dropped: Callable[[int, str], object]) -> None:
        """`on_dropped` is told how many events were dropped, and why. Raises SettingsError."""
        self._receiver = receiver
        self._on_dropped = on_dropped
        self._tls = receiver.tls()
        self._closed = False
        self._reset()
        if hasattr(os, "register_at_fork"):
            # A forked child starts empty: its parent sends the parent's events, and locks and threads do not survive.
            reset = weakref.WeakMethod(self._reset)
            os.register_at_fork(after_in_child=lambda: (alive := reset()) and alive())

    def emit(self, evaluation: Evaluation) -> None:
        """Encode and queue one event."""
        event = (evaluation.resource, encoded_event(evaluation, time.time_ns()))
        if self._closed:
            self._on_dropped(1, "shutdown")
            return
        with self._lock:
            self._queue.append(event)
            self._bytes += len(event[1]) + _OVERHEAD
            dropped = self._trim()
            waiting = len(self._queue)
        if dropped:
            self._on_dropped(dropped, "queue_full")
        if waiting == MAX_BATCH:
            self._timer.set_at_latest(self._resumes)
        elif waiting == 1:
            self._timer.set_at_latest(max(self._resumes, time.monotonic() + _DELAY))

    def flush(self, seconds: float) -> bool:
        """Send every queued event once, now. Returns whether the queue is empty then."""
        end = time.monotonic() + seconds
        if not self._queue and not self._bytes:
            return True
        if self._sending.acquire(timeout=max(0.0, seconds)):
            try:
                self._send_all(end)
            finally:
                self._sending.release()
        return not self._queue

    def close(self, seconds: float) -> bool:
        """Send what is queued for so long at most, then drop the rest. False if some were dropped."""
        end = time.monotonic() + seconds
        self._closed = True
        while not self.flush(max(0.0, end - time.monotonic())):
            pause = min(self._resumes, end) - time.monotonic()
            if time.monotonic() + pause >= end:
                break
            time.sleep(max(0.01, pause))
        self._timer.set(None)
        with self._lock:
            left = len(self._queue)
            self._queue.clear()
            self._bytes = 0
        self._drop(left, "shutdown", "the process ends")
        self._client.close()
        return not left

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

    def _take(self) -> list[_Event]:
        batch: list[_Event] = []
        size = 0
        with self._lock:
            while self._queue and len(batch) < MAX_BATCH and size < MAX_BATCH_BYTES:
                batch.append(self._queue.popleft())
                size += len(batch[-1][1])
        return batch

    def _end_batch(self, batch: Sequence[_Event], *, done: bool) -> None:
        """Forget a batch, or put it back as the oldest."""
        dropped = 0
        with self._lock:
            if done:
                self._bytes -= sum(len(event) + _OVERHEAD for _, event in batch)
            else:
                self._queue.extendleft(reversed(batch))
                dropped = self._trim()
        if dropped:
            self._on_dropped(dropped, "queue_full")

    def _trim(self) -> int:
        """Drop the oldest events beyond the limit, and return how many. One whose request is on its way stays."""
        dropped = 0
        while self._bytes > MAX_QUEUED_BYTES and self._queue:
            self._bytes -= len(self._queue.popleft()[1]) + _OVERHEAD
            dropped += 1
        return dropped

    def _send(self, batch: Sequence[_Event]) -> bool:
        """Send events. False: they have to be sent again. Never raises."""
        asked: float | None = None
        try:
            with suppressed_instrumentation():
                response = self._request(batch)
        except (HTTPError, OSError) as error:
            reason = describe(error)[:_MAX_SHOWN]
        except Exception as error:  # noqa: BLE001 - no reason to try again, or to end the thread
            self._drop(len(batch), "refused", describe(error))
            return True
        else:
            if response.status < 300:
                self._failures, self._resumes = 0, 0.0
                self._outage.succeeded()
                self._drop(_rejected(response), "refused", "a partial success")
                return True
            reason = f"HTTP {response.status} {response.body[:_MAX_SHOWN].decode('utf-8', 'replace')}".rstrip()
            if response.status not in _RETRYABLE:
                self._drop(len(batch), "refused", reason)
                return True
            asked = parse_retry_after(response.headers.get("retry-after"), datetime.now(UTC))
        self._outage.failed(len(batch), reason)
        pause = min(MIN_BACKOFF * 2.0 ** min(self._failures, 30), MAX_BACKOFF) * uniform(0.5, 1.0)
        self._failures += 1
        self._resumes = time.monotonic() + (pause if asked is None else min(asked, _MAX_RETRY_AFTER))
        return False

    def _request(self, batch: Sequence[_Event]) -> HttpResponse:
        by_source: dict[ResourceFacts, list[bytes]] = {}
        for source, event in batch:
            by_source.setdefault(source, []).append(event)
        body = events_request(by_source)
        receiver = self._receiver
        headers = {"content-type": "application/x-protobuf", "user-agent": "goldspan", **receiver.headers}
        if receiver.compression:
            body = _COMPRESS[receiver.compression](body)
            headers["content-encoding"] = receiver.compression
        return self._client.request("POST", "", body, headers, seconds=receiver.timeout)

    def _drop(self, count: int, reason: str, said: str) -> None:
        if not count:
            return
        self._on_dropped(count, reason)
        if said not in self._logged and len(self._logged) < _MAX_REASONS:
            self._logged.add(said)
            _logger.warning(
                "%d events are dropped: %s did not take them: %s; later ones for this reason are counted only",
                count,
                self._receiver.endpoint,
                said,
            )

    def _reset(self) -> None:
        """Start with an empty queue: at first, and in a forked child."""
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._queue = deque[_Event]()
        self._bytes = 0
        """Of the queue, and of the batch that is being sent."""
        self._failures = 0
        self._resumes = 0.0
        """When the receiver may be asked again."""
        self._logged = set[str]()
        self._outage: ExportOutage = ExportOutage(self._receiver.endpoint, "events", "sent again")
        self._client: HttpClient = HttpClient(self._receiver.endpoint, ssl_context=self._tls)
        self._timer: Timer = Timer(self._on_timer, "goldspan-events")


def _rejected(response: HttpResponse) -> int:
    """Return how many events the receiver did not take of those it accepted."""
    if not response.body or response.headers.get("content-type", "") != "application/x-protobuf":
        return 0
    try:
        return max(0, ExportLogsServiceResponse.FromString(response.body).partial_success.rejected_log_records)
    except DecodeError:
        return 0


def _logs_url(base: str) -> str:
    return base if base.rstrip("/").endswith("/v1/logs") else f"{base.rstrip('/')}/v1/logs"
