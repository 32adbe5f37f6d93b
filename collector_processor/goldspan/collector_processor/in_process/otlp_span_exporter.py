"""Goldspan's own exporter of spans. What encodes and sends them, `otlp_sender`, is imported with the first spans."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from goldspan.collector_processor.in_process.made_on_use import MadeOnUse
from goldspan.collector_processor.in_process.otlp_receiver import SPANS, OtlpReceiver

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider

    from goldspan.collector_processor.in_process.otlp_sender import OtlpSpans


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

        def make() -> OtlpSpans:
            # The HTTP client is imported here: a program that makes no span need not load it.
            from goldspan.collector_processor.in_process.otlp_sender import OtlpSpans  # noqa: PLC0415

            return OtlpSpans(receiver, meter_provider)

        self._sender = MadeOnUse(make, "spans are dropped")
        self._closed = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Encode and queue spans. The result is SUCCESS, unless what sends them cannot be loaded."""
        is_new = self._sender.made is None
        if (sender := self._sender.get()) is None:
            return SpanExportResult.FAILURE
        if is_new and self._closed:
            sender.close(0.0)
        sender.export(spans)
        return SpanExportResult.SUCCESS

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Send every queued span once. False if some still wait."""
        sender = self._sender.made
        return sender is None or sender.flush(timeout_millis / 1000)

    def shutdown(self, timeout_millis: float = 30_000) -> None:
        """Send what is queued for so long at most, then drop the rest."""
        self._closed = True
        if (sender := self._sender.made) is not None:
            sender.close(timeout_millis / 1000)
