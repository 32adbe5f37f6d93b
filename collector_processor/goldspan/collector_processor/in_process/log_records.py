"""The in-process door for frameworks that write content to log records: it hands those to the door of the spans."""

from __future__ import annotations

import logging

from opentelemetry.sdk._logs import LogRecordProcessor, ReadWriteLogRecord

from goldspan.collector_processor.in_process.span_exporter import ToolParameterMatchExporter
from goldspan.collector_processor.in_process.span_processor import ToolParameterMatchSpanProcessor
from goldspan.scoring.errors import SettingsError

_logger = logging.getLogger("goldspan")


class ToolParameterMatchLogRecordProcessor(LogRecordProcessor):
    """Gives the arguments and messages in log records to the door that scores the spans they belong to (R11).

    `logger_provider.add_log_record_processor(ToolParameterMatchLogRecordProcessor(span_processor))`, beside the
    processor that exports the records; it changes none and exports none. The code that writes a record only queues it,
    at most 2048 of them; the door takes them in when it next exports or judges. goldspan's own events are left out.
    """

    def __init__(self, door: ToolParameterMatchSpanProcessor | ToolParameterMatchExporter) -> None:
        """Feed `door`, which must be the one on the tracer provider. Raises `SettingsError` for anything else."""
        doors = (ToolParameterMatchSpanProcessor, ToolParameterMatchExporter)
        if not isinstance(door, doors):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may err
            raise SettingsError(
                f"door: found a {type(door).__name__}, expected the ToolParameterMatchSpanProcessor or "
                "ToolParameterMatchExporter that scores the spans"
            )
        self._door = door

    def on_emit(self, log_record: ReadWriteLogRecord) -> None:
        """Queue a record, if it may tell something of a span."""
        try:
            self._door.take_log_record(log_record)
        except Exception:
            _logger.debug("a log record could not be taken in", exc_info=True)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Do nothing: what is queued is taken in when the door of the spans is flushed."""
        del timeout_millis
        return True

    def shutdown(self) -> None:
        """Do nothing: the door belongs to the tracer provider."""
