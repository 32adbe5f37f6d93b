"""Takes in what a program exports by OTLP, on this machine, where nothing else can reach its provider."""

from __future__ import annotations

import gzip
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from openai_server import body_of
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from recorder import Recorder, as_json


def receive(recorder: Recorder) -> str:
    """Start a receiver and return its base URL. It ends with the process."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = body_of(self)
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            if self.path.endswith("/v1/traces"):
                recorder.spans.requests += map(as_json, single_spans(ExportTraceServiceRequest.FromString(body)))
            elif self.path.endswith("/v1/logs"):
                recorder.logs.requests.append(as_json(ExportLogsServiceRequest.FromString(body)))
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002 - the base class names it so

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def receive_grpc(recorder: Recorder) -> str:
    """The same by gRPC, where metrics come and go; returns its address. Only scripts that pin grpcio have it."""
    import grpc  # noqa: PLC0415 - see above

    def export(body: bytes, _: grpc.ServicerContext) -> bytes:
        recorder.spans.requests += map(as_json, single_spans(ExportTraceServiceRequest.FromString(body)))
        return b""

    server = grpc.server(ThreadPoolExecutor(1))
    for signal, answer in (("trace", export), ("metrics", lambda body, _: b"")):
        service = f"opentelemetry.proto.collector.{signal}.v1.{signal.title()}Service"
        handler = grpc.unary_unary_rpc_method_handler(answer)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {"Export": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    SERVERS.append(server)
    return f"127.0.0.1:{port}"


SERVERS: list[object] = []
"""A gRPC server ends when nothing refers to it."""


def single_spans(request: ExportTraceServiceRequest) -> list[ExportTraceServiceRequest]:
    """Cut a request into one for each span."""
    cut: list[ExportTraceServiceRequest] = []
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                one = ExportTraceServiceRequest()
                with_resource = one.resource_spans.add(resource=resource.resource)
                with_resource.scope_spans.add(scope=scope.scope).spans.add().CopyFrom(span)
                cut.append(one)
    return cut
