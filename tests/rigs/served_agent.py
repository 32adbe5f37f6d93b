"""An agent behind a web server: each request is a turn with one tool. `AGENT_DOOR` and `AGENT_ENDPOINT` set it up.

The doors: `plain` is a BatchSpanProcessor, `goldspan` takes its place, `hooked` adds the line for the server.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from itertools import count
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from goldspan.collector_processor import FlushAtShutdown, ToolParameterMatchSpanProcessor
from rigs.scripted_agent import PARIS, run_turn

DOOR = os.environ["AGENT_DOOR"]
GOLDENS = {
    "golden_set": "served",
    "goldens": [{"session_pattern": "s-*", "turns": [{"calls": [{"name": PARIS[0], "args": PARIS[1]}]}]}],
}
_numbers = count()


def set_up() -> None:
    exporter = OTLPSpanExporter(os.environ["AGENT_ENDPOINT"] + "/v1/traces")
    provider = TracerProvider()
    provider.add_span_processor(
        BatchSpanProcessor(exporter) if DOOR == "plain" else ToolParameterMatchSpanProcessor(exporter, goldens=GOLDENS)
    )
    trace.set_tracer_provider(provider)


def serve_turn() -> None:
    run_turn(trace.get_tracer("agent"), f"s-{os.getpid()}-{next(_numbers)}", [PARIS])


async def asgi(
    scope: MutableMapping[str, Any], receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[Any]]
) -> None:
    if scope["type"] != "http":
        raise ValueError("this application knows no lifespan")
    serve_turn()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"done"})


def wsgi(_: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    serve_turn()
    start_response("200 OK", [("Content-Length", "4")])
    return [b"done"]


set_up()
app: Any = FlushAtShutdown(asgi) if DOOR == "hooked" else asgi
