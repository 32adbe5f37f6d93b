"""Records what a framework emits: each recording in a process of its own, without network, into OTLP/JSON lines.

A script decorates one function per recording with `@recording("name")` and ends with `main(__file__)`.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry import _logs, trace
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import LogRecordExporter, LogRecordExportResult, SimpleLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from otlp_lines import hex_ids, lines

FIXTURES = Path(os.environ.get("RECORDINGS", Path(__file__).resolve().parent.parent / "fixtures" / "recordings"))


def as_json(message: Any) -> dict[str, Any]:
    document: dict[str, Any] = hex_ids(MessageToDict(message, use_integers_for_enums=True))
    return document


class Spans(SpanExporter):
    """Keeps what an OTLP exporter would send, one request per span."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.requests += [as_json(encode_spans([span])) for span in spans]
        return SpanExportResult.SUCCESS


class Logs(LogRecordExporter):
    """The same for log records."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []

    def export(self, batch: Any) -> LogRecordExportResult:
        self.requests += [as_json(encode_logs([record])) for record in batch]
        return LogRecordExportResult.SUCCESS

    def force_flush(self, timeout_millis: int = 0) -> bool:
        return True

    def shutdown(self) -> None: ...


@dataclass
class Recorder:
    """What a recording writes to."""

    name: str
    spans: Spans = field(default_factory=Spans)
    logs: Logs = field(default_factory=Logs)

    @property
    def resource(self) -> Resource:
        return Resource.create({"service.name": self.name})

    def trace(self, *processors: SpanProcessor, **options: Any) -> TracerProvider:
        """Make the global tracer provider; processors that rewrite spans go before the exporter."""
        provider = TracerProvider(resource=self.resource, **options)
        for processor in (*processors, self.processor()):
            provider.add_span_processor(processor)
        trace.set_tracer_provider(provider)
        return provider

    def log(self) -> LoggerProvider:
        """Make the global logger provider."""
        provider = LoggerProvider(resource=self.resource)
        provider.add_log_record_processor(SimpleLogRecordProcessor(self.logs))
        _logs.set_logger_provider(provider)
        return provider

    def processor(self) -> SpanProcessor:
        """Return a processor for a provider that the framework makes itself."""
        return SimpleSpanProcessor(self.spans)

    def listen(self) -> None:
        """Add that processor to every provider from now on, for frameworks that keep theirs to themselves."""
        make = TracerProvider.__init__

        def made(provider: TracerProvider, *args: Any, **options: Any) -> None:
            make(provider, *args, **options)
            provider.add_span_processor(self.processor())

        TracerProvider.__init__ = made  # type: ignore[method-assign]


@dataclass(frozen=True)
class _Recording:
    function: Callable[[Recorder], None]
    environment: Mapping[str, str]


_RECORDINGS: dict[str, _Recording] = {}


def recording(
    name: str, environment: Mapping[str, str] | None = None
) -> Callable[[Callable[[Recorder], None]], Callable[[Recorder], None]]:
    """Make a function a recording; `environment` is set before anything is imported."""

    def register(function: Callable[[Recorder], None]) -> Callable[[Recorder], None]:
        _RECORDINGS[name] = _Recording(function, environment or {})
        return function

    return register


def main(script: str) -> None:
    """Record everything the script defines, or what the command line names."""
    if len(sys.argv) == 3 and sys.argv[1] == "--here":
        _record(sys.argv[2])
        return
    failed = []
    for name in sys.argv[1:] or list(_RECORDINGS):
        with tempfile.TemporaryDirectory() as home:
            # Nothing of the user's settings, keys or files may reach the framework, and nothing of it may stay.
            environment = {
                "PATH": os.environ["PATH"],
                "RECORDINGS": str(FIXTURES),
                "HOME": home,
                "LANG": "C.UTF-8",
                "PYTHONHASHSEED": "0",
            }
            environment |= _RECORDINGS[name].environment
            command = [sys.executable, script, "--here", name]
            if subprocess.run(command, env=environment, cwd=home, check=False).returncode:
                failed.append(name)
    if failed:
        sys.exit(f"not recorded: {', '.join(failed)}")


def _record(name: str) -> None:
    _stay_inside()
    recorder = Recorder(name)
    _RECORDINGS[name].function(recorder)
    for provider in (trace.get_tracer_provider(), _logs.get_logger_provider()):
        getattr(provider, "shutdown", lambda: None)()
    spans, logs = lines(name, recorder.spans.requests, recorder.logs.requests)
    if not spans:
        raise SystemExit(f"{name}: the framework emitted no span")
    for kind, text in (("otlp", spans), ("logs", logs)):
        path = FIXTURES / f"{name}.{kind}.json"
        path.write_text(text, "utf-8") if text else path.unlink(missing_ok=True)
    print(f"{name}: {len(recorder.spans.requests)} spans, {len(recorder.logs.requests)} log records", flush=True)
    # Some frameworks leave threads behind that would wait for a network.
    os._exit(0)


def _stay_inside() -> None:
    """Refuse every connection that leaves this machine."""
    connect = socket.socket.connect

    def inside(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in ("127.0.0.1", "::1", "localhost"):
            raise ConnectionRefusedError(f"recordings use no network: {address[0]}")
        connect(self, address)

    socket.socket.connect = inside  # type: ignore[method-assign]
