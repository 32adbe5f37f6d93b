"""An exporter that appends spans to a file of OTLP/JSON lines, which `goldspan score` and `goldspan goldens` read.

Each batch is one line, written at once and under a lock, so any number of processes may share a file. Nothing is kept
between two batches: no buffer, no open file. So there is nothing to flush, a forked child may go on writing, and
a file that was removed or moved away in the meantime is created anew.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import stat
import time
from collections.abc import Sequence
from pathlib import Path

from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from goldspan.collector_processor.export_outage import ExportOutage

try:
    import fcntl
except ImportError:  # Windows: appending alone keeps lines apart there
    fcntl = None  # type: ignore[assignment]

_logger = logging.getLogger("goldspan")

PATH_VARIABLE = "GOLDSPAN_TRACE_FILE"
DEFAULT_PATH = "traces.jsonl"
DEFAULT_MAX_BYTES = 1 << 30
_LOCK_TIMEOUT = 5.0  # seconds to wait for other processes that write to the file


class FileSpanExporter(SpanExporter):
    """Appends spans to a file, one OTLP/JSON request a line.

    `BatchSpanProcessor(FileSpanExporter("traces.jsonl"))` records what an agent does, and without code
    `OTEL_TRACES_EXPORTER=goldspan_file`. No method raises. Spans that cannot be written are dropped, which is logged
    once until they can be written again.
    """

    logs_outages = True
    """A wrapping exporter need not log them too."""

    def __init__(self, path: str | os.PathLike[str] | None = None, *, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        """Write to `path`; its folders are created.

        Args:
            path: The file. None: what GOLDSPAN_TRACE_FILE names, else `traces.jsonl` in the working directory.
            max_bytes: Size of the file beyond which spans are dropped.

        """
        self._path = Path(path or os.environ.get(PATH_VARIABLE, "").strip() or DEFAULT_PATH).expanduser().absolute()
        self._max_bytes = max_bytes
        self._outage = ExportOutage(str(self._path))
        self._told_of_broken = False
        self._shut_down = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Append the spans as one line."""
        if self._shut_down:
            return SpanExportResult.FAILURE
        try:
            if lines := self._lines_of(spans):
                self._append(lines)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with file or spans, the agent goes on
            self._outage.failed(len(spans), error)
            return SpanExportResult.FAILURE
        self._outage.succeeded()
        return SpanExportResult.SUCCESS

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Do nothing: what was exported is in the file."""
        del timeout_millis
        return True

    def shutdown(self) -> None:
        """Export nothing more."""
        self._shut_down = True

    def _lines_of(self, spans: Sequence[ReadableSpan]) -> bytes:
        """Encode spans as one line; if one of them cannot be encoded, the others as a line each."""
        if not spans:
            return b""
        try:
            return _line_of(spans)
        except Exception:  # noqa: BLE001 - one span is broken: its neighbours need not be lost
            return b"".join(map(self._line_of_one, spans))

    def _line_of_one(self, span: ReadableSpan) -> bytes:
        try:
            return _line_of([span])
        except Exception:
            if not self._told_of_broken:
                self._told_of_broken = True
                _logger.warning("a span cannot be written as OTLP/JSON; others are not told of", exc_info=True)
            return b""

    def _append(self, lines: bytes) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        file = os.open(self._path, flags, 0o666)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise OSError("is no regular file")
            _lock(file)
            size = os.fstat(file).st_size
            if size and _last_byte(file, size) != b"\n":
                lines = b"\n" + lines  # a process was killed while it wrote: its line ends here
            if size + len(lines) > self._max_bytes:
                raise OSError(f"the file would be larger than max_bytes, {self._max_bytes:,}")
            _write(file, lines, size)
        finally:
            os.close(file)  # and with it the lock


def _lock(file: int) -> None:
    if fcntl is None:
        return
    end = time.monotonic() + _LOCK_TIMEOUT
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise TimeoutError(f"another process has locked it for {_LOCK_TIMEOUT:g} s") from None
            time.sleep(0.005)
        except OSError:
            return  # a file system without locks: appending alone keeps lines apart
        else:
            return


def _last_byte(file: int, size: int) -> bytes:
    os.lseek(file, size - 1, os.SEEK_SET)
    return os.read(file, 1)


def _write(file: int, lines: bytes, size: int) -> None:
    """Write all or nothing: on a full disk a part of a line would be left."""
    try:
        written = 0
        while written < len(lines):
            written += os.write(file, lines[written:])
    except OSError:
        if fcntl is not None:
            os.ftruncate(file, size)
        raise


def _line_of(spans: Sequence[ReadableSpan]) -> bytes:
    request = MessageToDict(encode_spans(spans), use_integers_for_enums=True)
    for group in request.get("resourceSpans", ()):
        for scope in group.get("scopeSpans", ()):
            for span in scope.get("spans", ()):
                for holder in (span, *span.get("links", ())):
                    # Ids as OTLP/JSON has them; the JSON of protobuf has them in base64.
                    for key in ("traceId", "spanId", "parentSpanId"):
                        if key in holder:
                            holder[key] = base64.b64decode(holder[key]).hex()
    return json.dumps(request, separators=(",", ":")).encode() + b"\n"
