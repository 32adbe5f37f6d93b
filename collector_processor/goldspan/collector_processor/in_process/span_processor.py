"""The in-process door as a span processor: a BatchSpanProcessor that scores in its batch thread."""

from __future__ import annotations

import atexit
import inspect
import logging
import weakref
from collections.abc import Callable
from typing import Any, Unpack

from opentelemetry.context import Context
from opentelemetry.sdk.trace import Span
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

from goldspan.collector_processor.in_process.session_scope import session_scope, stamp_session
from goldspan.collector_processor.in_process.span_exporter import ExporterOptions, Goldens, ToolParameterMatchExporter

_logger = logging.getLogger("goldspan")


class ToolParameterMatchSpanProcessor(BatchSpanProcessor):
    """Scores the tool calls of an agent as it runs, and exports its spans with the scores on them.

    `provider.add_span_processor(ToolParameterMatchSpanProcessor(OTLPSpanExporter(), goldens="goldens.yaml"))` takes the
    place of `BatchSpanProcessor(OTLPSpanExporter())`: the queue, its bounds and its environment variables are the same,
    and so is what the code that ends a span pays for it. The parameters up to `export_timeout_millis` are those of
    `BatchSpanProcessor`, the options those of `ToolParameterMatchExporter`. Raises `SettingsError` for an option that
    cannot be, and nothing later.
    """

    def __init__(
        self,
        span_exporter: SpanExporter,
        max_queue_size: int | None = None,
        schedule_delay_millis: float | None = None,
        max_export_batch_size: int | None = None,
        export_timeout_millis: float | None = None,
        *,
        goldens: Goldens,
        **options: Unpack[ExporterOptions],
    ) -> None:
        self._door = ToolParameterMatchExporter(span_exporter, goldens=goldens, **options)
        self._at_exit: Callable[[], None] | None = None
        super().__init__(
            self._door,
            max_queue_size,
            schedule_delay_millis,
            max_export_batch_size,
            export_timeout_millis,
            **_where_known(meter_provider=options.get("meter_provider")),
        )

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Stamp the session of the enclosing `session_scope`."""
        try:
            if self._at_exit is None:
                self._register_exit()
                self._door.look_beside(span)
            if span.parent is None:
                self._door.look_at_root(span)
            if session_scope.ever_opened:
                stamp_session(span, parent_context)
        except Exception:
            _logger.debug("a session could not be stamped", exc_info=True)

    def take_log_record(self, record: object) -> None:
        """Take in a log record of the SDK, as `ToolParameterMatchExporter.take_log_record`."""
        self._door.take_log_record(record)

    def force_flush(self, timeout_millis: int | None = None) -> bool:
        """Export what is queued, and what is held without waiting for its result."""
        queued = super().force_flush(timeout_millis)
        return queued and self._door.force_flush(30_000 if timeout_millis is None else timeout_millis)

    def shutdown(self) -> None:
        """Export everything and close the inner exporter. May be called again."""
        if self._at_exit is not None:
            atexit.unregister(self._at_exit)
        super().shutdown()  # type: ignore[no-untyped-call]

    def _register_exit(self) -> None:
        # Handlers run last in, first out. One registered with the first span runs before those that the providers
        # registered when they were made: the last turn's events and points still find them open.
        mine = weakref.ref(self)

        def finish() -> None:
            if (processor := mine()) is not None:
                processor._finish()  # noqa: SLF001 - its own

        self._at_exit = finish
        atexit.register(finish)

    def _finish(self) -> None:
        super().force_flush()
        self._door.finish()


def _where_known(**arguments: Any) -> dict[str, Any]:
    """Keep the arguments that this version of the SDK's processor has and that are set."""
    known = inspect.signature(BatchSpanProcessor.__init__).parameters
    return {name: value for name, value in arguments.items() if name in known and value is not None}
