"""Receivers downstream of the gateway that answer as they are told, over HTTP and gRPC."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from typing import Any

import grpc
import zstandard

from goldspan.collector_processor.gateway.interfaces import GRPC_METHODS
from goldspan.collector_processor.otlp_signals import Signal
from rigs.local_http import Quiet, serving

UNFOLD: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "gzip": gzip.decompress,
    "deflate": zlib.decompress,
    "zstd": lambda body: zstandard.ZstdDecompressor().decompressobj().decompress(body),
}


@dataclass
class Received:
    """One request as it came."""

    signal: Signal
    body: bytes
    """Without compression."""
    headers: dict[str, str]
    accepted: bool = True
    """Whether the answer said so."""


@dataclass
class HttpAnswer:
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass
class Downstream:
    """What was received, and what is answered."""

    endpoint: str
    received: list[Received] = field(default_factory=list)
    http_answer: HttpAnswer = field(default_factory=HttpAnswer)
    grpc_answer: Callable[[grpc.ServicerContext], bytes] = lambda context: b""
    connections: int = 0


@contextmanager
def http_downstream(port: int = 0) -> Iterator[Downstream]:
    """Receive over HTTP while the block runs, on any free port if none is named."""

    class Handler(Quiet):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            downstream.connections += 1

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            signal = Signal(self.path.removeprefix("/v1/"))
            answer = downstream.http_answer
            body = UNFOLD[headers.get("content-encoding", "")](body)
            downstream.received.append(Received(signal, body, headers, accepted=200 <= answer.status < 300))
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            """Say nothing of clients that go away."""

    with serving(Handler, Server, port) as endpoint:
        downstream = Downstream(endpoint)
        yield downstream


@contextmanager
def grpc_downstream() -> Iterator[Downstream]:
    """Receive over gRPC while the block runs."""

    class Service(grpc.GenericRpcHandler):
        def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
            signal = GRPC_METHODS[handler_call_details.method]

            def export(body: bytes, context: grpc.ServicerContext) -> bytes:
                headers = {name: value for name, value in context.invocation_metadata() if isinstance(value, str)}
                received = Received(signal, body, headers, accepted=False)
                downstream.received.append(received)
                answer = downstream.grpc_answer(context)
                received.accepted = True
                return answer

            return grpc.unary_unary_rpc_method_handler(export)

    with ThreadPoolExecutor(4) as workers:
        server = grpc.server(workers, options=[("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", -1)])
        server.add_generic_rpc_handlers((Service(),))
        downstream = Downstream(f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
        server.start()
        try:
            yield downstream
        finally:
            server.stop(0).wait()
