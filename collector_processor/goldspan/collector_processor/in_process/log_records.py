"""How log records are read: queued in the agent's threads, read by the pipeline, matched with spans by trace id.

Some frameworks write arguments and messages to log records instead of spans.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

from opentelemetry.sdk._logs import LogRecordProcessor, ReadWriteLogRecord

from goldspan.mappers.readers.sdk import SdkReader, log_event
from goldspan.mappers.spans import LogView
from goldspan.scoring.errors import SettingsError

_logger = logging.getLogger("goldspan")

MAX_QUEUED = 2048
"""Records that wait at most, as in BatchLogRecordProcessor."""


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
        found: object = span_processor
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


class LogRecordQueue:
    """A bounded queue of the log records that may hold content of a span, as they were when they were added.

    Safe to use from several threads.
    """

    def __init__(self, may_tell: Callable[[str, Mapping[str, Any]], bool]) -> None:
        """Keep the records for whose event name and attributes `may_tell` is true."""
        self._may_tell = may_tell
        self._reader = SdkReader()
        self._queue = deque[LogView]()

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, record: Any) -> bool:
        """Queue a record of the SDK if it matters. False if the queue is full. Raises what a broken record raises."""
        if not getattr(record, "log_record", record).trace_id or not self._may_tell(*log_event(record)):
            return True
        if len(self._queue) >= MAX_QUEUED:
            return False
        self._queue.append(self._reader.log_view(record))
        return True

    def drain(self) -> Iterator[LogView]:
        """Remove and yield all queued records, oldest first."""
        while self._queue:
            yield self._queue.popleft()
