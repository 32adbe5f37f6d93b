"""Receivers of the gateway on free loopback ports, with an intake that keeps everything in memory."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvloop
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from goldspan.collector_processor.gateway.interfaces import Accepted, AcceptResult, ExportRequest, Rejected
from goldspan.collector_processor.gateway.receive.grpc_receiver import GrpcReceiver
from goldspan.collector_processor.gateway.receive.http_receiver import HttpReceiver, RequestHandler
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.collector_processor.serving.field_types import ListenAddress, ServerTls
from goldspan.collector_processor.serving.http_server import BearerTokens, HttpServer, RequestLimits

MESSAGES: dict[Signal, Any] = {
    Signal.TRACES: ExportTraceServiceRequest,
    Signal.LOGS: ExportLogsServiceRequest,
    Signal.METRICS: ExportMetricsServiceRequest,
}
LOOPBACK = ListenAddress("127.0.0.1", 0)


class Kept:
    """An intake that keeps what it is given, and gives the receipt it is told to."""

    def __init__(self) -> None:
        self.requests: list[ExportRequest] = []
        self.receipt: AcceptResult = Accepted()
        self.open = threading.Event()
        """While it is clear, nothing is accepted."""
        self.open.set()

    def accept(self, request: ExportRequest) -> AcceptResult:
        self.open.wait(30)
        try:
            MESSAGES[request.signal].FromString(request.body)
        except DecodeError:
            return Rejected("not a protobuf request")
        if isinstance(self.receipt, Accepted):
            self.requests.append(request)
        return self.receipt

    def drain(self, timeout_seconds: float) -> bool:
        return True

    def what_was_refused(self) -> str:
        return ""

    def what_waits(self) -> str:
        return "nothing waits"

    def reload_goldens(self, goldens: object) -> None:
        pass

    def not_ready_reason(self) -> str | None:
        return None

    def coverage(self) -> dict[str, Any]:
        return {"goldens": []}

    def metrics(self) -> list[Any]:
        return []

    def messages(self, signal: Signal) -> list[Any]:
        """What was kept of one signal, parsed."""
        return [MESSAGES[signal].FromString(one.body) for one in self.requests if one.signal is signal]


@dataclass
class Gateway:
    """Receivers that listen."""

    intake: Kept
    reception: RequestHandler
    http: HttpServer
    grpc: GrpcReceiver
    loop: asyncio.AbstractEventLoop = field(repr=False)

    @property
    def http_port(self) -> int:
        return self.http.port

    @property
    def grpc_port(self) -> int:
        return self.grpc.port

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)


@contextmanager
def event_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop that runs in a thread of its own; the one that `goldspan serve` uses."""
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


@contextmanager
def gateway(
    *,
    limits: RequestLimits | None = None,
    tokens: tuple[str, ...] = (),
    forwarded: tuple[str, ...] = (),
    tls: ServerTls | None = None,
) -> Iterator[Gateway]:
    """Receive over HTTP and gRPC while the block runs."""
    intake = Kept()
    limits = limits or RequestLimits()
    with ThreadPoolExecutor(4) as workers, event_loop() as loop:
        reception = RequestHandler(intake.accept, limits, workers, tokens=BearerTokens(tokens), forwarded=forwarded)
        http = HttpServer(HttpReceiver(reception), LOOPBACK, limits, tls)
        grpc = GrpcReceiver(reception, LOOPBACK, tls)
        running = Gateway(intake, reception, http, grpc, loop)
        running.run(http.start())
        running.run(grpc.start())
        try:
            yield running
        finally:
            intake.open.set()
            running.run(http.stop(2))
            running.run(grpc.stop(0.2))


def raw(port: int, content: bytes, *, timeout: float = 10) -> bytes:
    """Send bytes and return all that comes back until the other side closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout) as connection:
        connection.sendall(content)
        return read_all(connection)


def read_all(connection: socket.socket) -> bytes:
    received = bytearray()
    try:
        while part := connection.recv(65_536):
            received += part
    except ConnectionResetError:
        pass
    return bytes(received)


def post(
    body: bytes, path: str = "/v1/traces", *, length: int | None = None, close: bool = True, **headers: str
) -> bytes:
    """A request as it stands on the wire; `content_type` stands for `content-type`."""
    given = {"content_type": "application/x-protobuf", "content_length": str(len(body) if length is None else length)}
    given |= {"connection": "close"} if close else {}
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in (given | headers).items()]
    return f"POST {path} HTTP/1.1\r\nhost: localhost\r\n".encode() + "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def status(response: bytes) -> int:
    """The status of a response; 0 where there is none."""
    return int(response.split(b" ", 2)[1]) if response.startswith(b"HTTP/") else 0


def body_of(response: bytes) -> bytes:
    return response.partition(b"\r\n\r\n")[2]


def one_span(name: str = "span") -> ExportTraceServiceRequest:
    """A request with one span."""
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add()
    span.name = name
    span.trace_id, span.span_id = bytes(range(16)), bytes(range(8))
    return request
