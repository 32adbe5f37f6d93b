"""The end of a web server's worker: servers end their workers by a signal or `os._exit`, and no exit handler runs.

`FlushAtShutdown` is for ASGI servers (uvicorn, hypercorn, gunicorn with uvicorn's worker), `flush_at_worker_exit` for
gunicorn. Both export what the process would otherwise lose.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import Any

from opentelemetry import _logs, metrics, trace

from goldspan.collector_processor.daemon_threads import BoundedCalls
from goldspan.collector_processor.in_process.span_processor import processors

_logger = logging.getLogger("goldspan")

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
