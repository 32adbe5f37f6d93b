"""The public log record processor, for frameworks that write arguments and messages to log records.

It passes records on to `SpanPipeline.add_log_record`, which queues them until they are read.
"""

from __future__ import annotations

import logging
from typing import Protocol, cast, runtime_checkable

from opentelemetry.sdk._logs import LogRecordProcessor, ReadWriteLogRecord

from goldspan.scoring.errors import SettingsError

_logger = logging.getLogger("goldspan")


@runtime_checkable
class LogRecordReceiver(Protocol):
    """`ToolParameterMatchSpanProcessor` or `ToolParameterMatchExporter`."""

    def add_log_record(self, record: object) -> None:
        """Queue a log record of the SDK. Never raises and never blocks."""
        ...


class ToolParameterMatchLogRecordProcessor(LogRecordProcessor):
    """Passes log records to the processor or exporter that scores the spans they belong to.

    `logger_provider.add_log_record_processor(ToolParameterMatchLogRecordProcessor(span_processor))` goes beside the
    processor that exports the records. It changes no record and exports none. Writing a record only queues it, at most
    2048 of them; goldspan reads the queue when it exports or scores the next time, and ignores its own events.
    """

    def __init__(self, span_processor: LogRecordReceiver) -> None:
        """Pass records to the processor, or exporter, on the tracer provider. Raises `SettingsError` for another."""
        found = cast("object", span_processor)  # callers without a type checker may pass anything
        if isinstance(found, type) or not isinstance(found, LogRecordReceiver):
            raise SettingsError(
                f"span_processor: found a {type(found).__name__}, expected the ToolParameterMatchSpanProcessor or "
                "ToolParameterMatchExporter that scores the spans"
            )
        self._receiver = span_processor

    def on_emit(self, log_record: ReadWriteLogRecord) -> None:
        """Queue the record if it may hold content of a span."""
        try:
            self._receiver.add_log_record(log_record)
        except Exception:
            _logger.debug("could not read a log record", exc_info=True)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Do nothing: flushing the span processor reads the queue."""
        del timeout_millis
        return True

    def shutdown(self) -> None:
        """Do nothing: the span processor belongs to the tracer provider."""
