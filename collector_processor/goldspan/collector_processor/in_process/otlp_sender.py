"""Events and spans that goldspan sends to an OTLP/HTTP receiver: each is encoded once, and requests are made of bytes.

https://opentelemetry.io/docs/specs/otlp/#otlphttp, https://opentelemetry.io/docs/specs/otel/protocol/exporter/
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from opentelemetry.metrics import MeterProvider
from opentelemetry.sdk.trace import ReadableSpan

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
from goldspan.collector_processor.http_client import OTLP_RETRYABLE_STATUS, HttpClient, parse_retry_after
from goldspan.collector_processor.in_process.otlp_receiver import COMPRESS, EVENTS, SPANS, OtlpReceiver, RecordKind
from goldspan.collector_processor.otlp_messages import rejected_items
from goldspan.collector_processor.retrying_queue import MAX_SHOWN, QueueLimits, RetryingQueue, SendResult

MAX_QUEUED_BYTES = 16 << 20
"""Bytes of encoded records of a signal that wait at most. Beyond it the oldest are dropped."""
MAX_BATCH, MAX_BATCH_BYTES = 512, 1 << 20
"""Records, and their bytes, in one request at most."""
_OVERHEAD = 100  # bytes of memory that a record takes beside its own
_DELAY = 1.0  # seconds that a record waits for others, as in BatchLogRecordProcessor
MIN_BACKOFF, MAX_BACKOFF = 1.0, 30.0
"""Seconds before a request is sent again, unless the receiver asks for others. Doubled each time."""


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

    def close(self, seconds: float) -> bool:
        """Send what waits, for so long at most and no longer than one request may take, as the SDK's exporters do."""
        return super().close(min(seconds, self._receiver.timeout))

    def _request(self, records: Sequence[_Record]) -> SendResult[_Record]:
        body = export_request(records)
        receiver = self._receiver
        headers = {"content-type": "application/x-protobuf", "user-agent": "goldspan", **receiver.headers}
        if receiver.compression:
            body = COMPRESS[receiver.compression](body)
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


class OtlpSpans(OtlpSender):
    """Encodes and sends spans."""

    def __init__(self, receiver: OtlpReceiver, meter_provider: MeterProvider | None) -> None:
        telemetry = SelfTelemetry(meter_provider)
        super().__init__(SPANS, receiver, lambda count, reason: telemetry.count(names.DROPPED_SPANS, count, reason))

    def export(self, spans: Sequence[ReadableSpan]) -> None:
        """Encode and queue spans."""
        records: list[_Record] = []
        for span in spans:
            try:
                records.append((span_source(span), encoded_span(span)))
            except Exception as error:  # noqa: BLE001 - a span that cannot be encoded; its neighbours can
                self.drop(1, "failure", f"they cannot be encoded: {type(error).__name__}: {error}")
        self.put(records)
