"""The public processors: a BatchSpanProcessor that scores in its batch thread, and one of log records beside it.

Some frameworks write arguments and messages to log records. These are passed on to `SpanPipeline.add_log_record`, which
queues them until they are read.

Servers end their workers by a signal or `os._exit`, and no exit handler runs: `FlushAtShutdown` is for ASGI servers
(uvicorn, hypercorn, gunicorn with uvicorn's worker), `flush_at_worker_exit` for gunicorn. Both export what the process
would otherwise lose.
"""

from __future__ import annotations

import atexit
import inspect
import logging
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from opentelemetry import _logs, metrics, trace
from opentelemetry.context import Context
from opentelemetry.sdk._logs import LogRecordProcessor, ReadWriteLogRecord
from opentelemetry.sdk.trace import Span
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

from goldspan.collector_processor.daemon_threads import BoundedCalls
from goldspan.collector_processor.in_process.session_scope import session_scope, stamp_session
from goldspan.collector_processor.in_process.span_exporter import (
    SHUTDOWN_TIMEOUT,
    ExporterOptions,
    ToolParameterMatchExporter,
)
from goldspan.collector_processor.in_process.stop_signal import flush_when_stopped
from goldspan.scoring.errors import SettingsError

if TYPE_CHECKING:
    from goldspan.collector_processor.in_process.setup import Goldens

_logger = logging.getLogger("goldspan")


class ToolParameterMatchSpanProcessor(BatchSpanProcessor):
    """Scores the tool calls of a running agent, and exports its spans with the scores as attributes.

    `provider.add_span_processor(ToolParameterMatchSpanProcessor(OTLPSpanExporter(), goldens="goldens.yaml"))` takes the
    place of `BatchSpanProcessor(OTLPSpanExporter())`. Without goldens, metrics that need none score every session. The
    queue, its limits and its environment variables are the same, and ending a span costs the same. The parameters up to
    `export_timeout_millis` are those of `BatchSpanProcessor`, exporter and options those of
    `ToolParameterMatchExporter`. Only the constructor raises: `SettingsError` for an invalid option.
    """

    def __init__(
        self,
        span_exporter: SpanExporter | str,
        max_queue_size: int | None = None,
        schedule_delay_millis: float | None = None,
        max_export_batch_size: int | None = None,
        export_timeout_millis: float | None = None,
        *,
        goldens: Goldens | None = None,
        **options: Unpack[ExporterOptions],
    ) -> None:
        # A TypedDict may have more keys than it names; an unknown one is refused there.
        self._scoring_exporter = ToolParameterMatchExporter(
            span_exporter,
            goldens=goldens,
            **options,  # pyright: ignore[reportArgumentType]
        )
        self._at_exit: Callable[[], object] | None = None
        self._exits_at: float | None = None
        super().__init__(
            self._scoring_exporter,
            max_queue_size,
            schedule_delay_millis,
            max_export_batch_size,
            export_timeout_millis,
            **_supported(meter_provider=options.get("meter_provider")),
        )
        processors.add(self)

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Stamp the session of the enclosing `session_scope`."""
        try:
            if self._at_exit is None:
                self._register_exit()
                self._scoring_exporter.warn_of_second_exporter(span)
            if span.parent is None:
                self._scoring_exporter.root_started(span)
            if session_scope.ever_opened:
                stamp_session(span, parent_context)
        except Exception:
            _logger.debug("could not stamp the session", exc_info=True)

    def start(self) -> None:
        """Load the engine and the goldens now, as `ToolParameterMatchExporter.start`."""
        self._scoring_exporter.start()

    def add_log_record(self, record: object) -> None:
        """Queue a log record of the SDK, as `ToolParameterMatchExporter.add_log_record`."""
        self._scoring_exporter.add_log_record(record)

    def force_flush(self, timeout_millis: int | None = None) -> bool:
        """Export the queued spans, and the held spans without waiting for their results.

        False if the exporter is not done within `timeout_millis`, 30 s by default: it goes on in a thread.
        """
        exporter, flush_queue = self._scoring_exporter, super().force_flush
        begun, seconds = time.monotonic(), SHUTDOWN_TIMEOUT if timeout_millis is None else timeout_millis / 1000

        def flush() -> bool:
            return flush_queue() and exporter.flush_spans_since(begun, begun + seconds - time.monotonic())

        return exporter.run_within(seconds, flush)

    def end_of_input(self, seconds: float) -> bool:
        """Score and export everything as if no span would follow. False: not done in time.

        Events are sent at the same time as spans: receivers that are away are waited for once.
        """
        exporter, flush_queue, emitted = self._scoring_exporter, super().force_flush, threading.Event()

        def end() -> bool:
            try:
                exporter.collect()
                flushed = flush_queue()
                return exporter.end_of_input(seconds, emitted.set) and flushed
            finally:
                emitted.set()

        def send_events() -> None:
            if emitted.wait(seconds):
                exporter.flush_events(seconds)

        return exporter.run_within(seconds, end, send_events)

    def shutdown(self) -> None:
        """Export everything and close the inner exporter. May be called again."""
        if self._at_exit is not None:
            atexit.unregister(self._at_exit)
        self._scoring_exporter.collect()
        left = SHUTDOWN_TIMEOUT if self._exits_at is None else self._exits_at - time.monotonic()
        self._batch_processor.shutdown(timeout_millis=int(1000 * max(0.0, left)))

    def _register_exit(self) -> None:
        # Exit handlers run last in, first out. This one is registered with the first span, after those of the
        # providers. So it runs before theirs, and the last turn's events and points still get through.
        flush = weakref.WeakMethod(self._flush_at_exit)
        self._at_exit = lambda: (alive := flush()) and alive()
        atexit.register(self._at_exit)
        flush_when_stopped(flush_all_processors)

    def _flush_at_exit(self) -> None:
        """Export everything. All of the exit waits `SHUTDOWN_TIMEOUT` at most, this and the provider's shutdown."""
        self._exits_at = time.monotonic() + SHUTDOWN_TIMEOUT
        try:
            self.end_of_input(SHUTDOWN_TIMEOUT)
        except BaseException:
            _logger.debug("could not flush at exit", exc_info=True)


processors: weakref.WeakSet[ToolParameterMatchSpanProcessor] = weakref.WeakSet()
"""Those of this process."""


def flush_all_processors() -> None:
    """Export what is queued and held in this process. Never raises."""
    for processor in list(processors):
        try:
            processor.force_flush()
        except BaseException:
            _logger.debug("could not flush before the stop", exc_info=True)


def _supported(**arguments: Any) -> dict[str, Any]:
    """Keep the arguments that are set and that this SDK version's BatchSpanProcessor accepts."""
    known = inspect.signature(BatchSpanProcessor.__init__).parameters
    return {name: value for name, value in arguments.items() if name in known and value is not None}


class ToolParameterMatchLogRecordProcessor(LogRecordProcessor):
    """Passes log records to the processor or exporter that scores the spans they belong to.

    `logger_provider.add_log_record_processor(ToolParameterMatchLogRecordProcessor(span_processor))` goes beside the
    processor that exports the records. It changes no record and exports none. Writing a record only queues it, at most
    2048 of them; goldspan reads the queue when it exports or scores the next time, and ignores its own events.
    """

    def __init__(self, span_processor: ToolParameterMatchSpanProcessor | ToolParameterMatchExporter) -> None:
        """Pass records to the processor, or exporter, on the tracer provider. Raises `SettingsError` for another."""
        if isinstance(span_processor, type) or not hasattr(span_processor, "add_log_record"):
            raise SettingsError(
                f"span_processor: found a {type(span_processor).__name__}, expected the "
                "ToolParameterMatchSpanProcessor or ToolParameterMatchExporter that scores the spans"
            )
        span_processor.start()  # a record has to be read as it is written: others may change it later
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


FLUSH_TIMEOUT = 10.0
"""Seconds that the end of a worker waits for receivers. gunicorn, Docker and Kubernetes kill after 10 to 30 s."""

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[object]]


def flush_all(seconds: float = FLUSH_TIMEOUT) -> None:
    """Score and export everything of this process: spans, then events and metric points. Never raises."""
    end = time.monotonic() + seconds
    providers = (trace.get_tracer_provider(), _logs.get_logger_provider(), metrics.get_meter_provider())
    spans, *results = (getattr(one, "force_flush", None) for one in providers)
    ends = [partial(one.end_of_input, seconds) for one in list(processors)]
    for call in (*ends, spans, *results):
        calls = BoundedCalls("goldspan-shutdown")
        try:
            if call is not None:
                calls.run(call, end - time.monotonic())
        except BaseException:
            _logger.debug("could not flush at the end of a worker", exc_info=True)
        calls.close()


class FlushAtShutdown:
    """An ASGI application around another one: exports everything when the server shuts down.

    `app.add_middleware(FlushAtShutdown)` with Starlette and FastAPI, `app = FlushAtShutdown(app)` with any other.
    Applications that know no lifespan are served one.
    """

    def __init__(self, app: Application) -> None:
        """Pass everything on to `app`."""
        self._app = app

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one connection, or the lifespan of the application."""
        if scope["type"] != "lifespan":
            await self._app(scope, receive, send)
            return
        flush_when_stopped(flush_all_processors, flush_all)
        took_part = False

        async def received() -> Message:
            nonlocal took_part
            took_part = True
            return await receive()

        async def sent(message: Message) -> None:
            if message["type"].startswith("lifespan.shutdown."):
                flush_all()
            await send(message)

        try:
            await self._app(scope, received, sent)
        except Exception:
            if took_part:
                raise
        if not took_part:
            for event in ("startup", "shutdown"):
                await receive()
                await sent({"type": f"lifespan.{event}.complete"})


def flush_at_worker_exit(server: object, worker: object) -> None:
    """Export everything; the hook `worker_exit` of gunicorn, which calls it in the worker."""
    del server, worker
    flush_all()
