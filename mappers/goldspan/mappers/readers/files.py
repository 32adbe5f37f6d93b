"""Trace files of any format. The content tells the format, never the file name.

    OTLP/JSON, Jaeger's, Tempo's and Zipkin's JSON: documents, or one a line
    OTLP protobuf: one message, or many with their lengths before them
    each of them plain, gzipped or compressed by zstd
    Parquet: tables of spans

What cannot be read is a problem with its file and place, and everything good beside it is read.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from goldspan.mappers.readers import compression, span_tables
from goldspan.mappers.readers.file_ranges import HEAD, FileRange, RangeStream, in_reading_order, is_text, ranges_of
from goldspan.mappers.readers.jaeger_and_zipkin import is_zipkin_span
from goldspan.mappers.readers.json_documents import JsonText, Loads, as_otlp, may_be_json
from goldspan.mappers.readers.otlp_json import JsonReader
from goldspan.mappers.readers.otlp_json_lazy import LazyReader, LazyRequest, loads
from goldspan.mappers.readers.platform_exports import is_strands_session, otlp_from_strands_session
from goldspan.mappers.readers.problems import (
    BAD_PROTOBUF,
    BAD_RECORD,
    BAD_SPAN,
    BAD_STREAM,
    NO_RECORD,
    OnProblem,
    describe,
)
from goldspan.mappers.readers.protobuf_framing import MAX_MESSAGE, Frames, Framing, framing_of
from goldspan.mappers.readers.sdk import SdkReader, is_log_record
from goldspan.mappers.spans import DecodedSpan, LogView, MarkedView, Markers, RecordView, SpanView
from goldspan.scoring.errors import Mistake, Problem, TraceFileError
from goldspan.scoring.json_values import is_list, is_mapping

if TYPE_CHECKING:
    from goldspan.mappers.readers.otlp_protobuf import ProtobufReader

_LISTS = re.compile(
    rb'"(resource_?spans|scope_?spans|spans|batches|resource_?logs|scope_?logs|log_?records)"\s*:', re.I
)


def starts_with_logs(head: bytes) -> bool:
    """Tell by the first bytes of OTLP/JSON whether it holds log records."""
    found = _LISTS.search(head)
    return found is not None and b"log" in found[1].lower()


STDIN = "-"
_EXPECTED = (
    "expected OTLP/JSON (a document, or one request a line), OTLP protobuf, "
    "or JSON of Jaeger, Tempo, Zipkin, Phoenix, Langfuse, LangSmith, Logfire, Application Insights or CloudWatch"
)
_EXPECTED_COLUMNS = "expected the columns TraceId, SpanId, Timestamp and SpanAttributes"
_MAX_BAD_FRAMES = 16  # after so many unreadable messages in a row, their boundaries are taken for lost


def read_files(
    paths: Iterable[str | os.PathLike[str]], on_problem: OnProblem, on_bytes: compression.OnBytes | None = None
) -> Iterator[RecordView]:
    """Yield the records of these files in order; `-` is standard input, a directory every trace file in it.

    Files of log records are read side by side with those of spans, as each file is sorted by time.

    Raises `TraceFileError`, naming every such file at once: before anything is read, for files that cannot be
    opened and directories without a trace file; after the last record, for files that yielded none. A file of a
    directory that holds no record is no error but a problem.
    """
    return cast("Iterator[RecordView]", read_marked(paths, None, on_problem, on_bytes))


def read_marked(
    paths: Iterable[str | os.PathLike[str]],
    markers: Markers | None,
    on_problem: OnProblem,
    on_bytes: compression.OnBytes | None = None,
) -> Iterator[MarkedView]:
    """Read files like `read_files`, but give spans without any of these markers together, wherever that is cheaper."""
    named = dict.fromkeys(Path(path) for path in paths)
    _check_readable(named)
    files = {inside: path.is_dir() for path in named for inside in (trace_files_in(path) if path.is_dir() else (path,))}
    empty: list[Mistake] = []

    def read(paths: Iterable[Path], on_bytes: compression.OnBytes | None) -> Iterator[MarkedView]:
        for path in paths:
            file = _File(path, on_problem, on_bytes, markers)
            yield from file.views()
            if nothing := file.nothing():
                if files[path]:
                    on_problem(Problem(NO_RECORD, nothing, str(path)))
                else:
                    empty.append(Mistake(str(path), "", nothing))

    logs, others = _logs_and_others([*files])
    if logs and others:
        yield from _side_by_side(logs, others, read, on_bytes)
    else:
        yield from read(files, on_bytes)
    if empty:
        raise TraceFileError(*empty)


def read_payload(data: bytes, name: str, markers: Markers | None, on_problem: OnProblem) -> Iterator[MarkedView]:
    """Read bytes like a file that holds them; problems call it by this name. Bytes without a record are a problem."""
    file = _File(Path(name), on_problem, None, markers, data=data)
    yield from file.views()
    if nothing := file.nothing():
        on_problem(Problem(NO_RECORD, nothing, name))


class RangeReading:
    """One range of a file, read once by `views`."""

    def __init__(self, part: FileRange, markers: Markers | None, on_problem: OnProblem) -> None:
        """Read a range that `reading_order` returned. In its problems, lines are counted from the range's start."""
        self._file = _File(part.path, on_problem, None, markers, part)

    def views(self) -> Iterator[MarkedView]:
        """Yield its records, as `read_marked` does."""
        return self._file.views()

    @property
    def lines(self) -> int:
        """How many lines of JSON were read."""
        return self._file.lines

    def nothing(self) -> str:
        """Return why there are no records; empty if there are."""
        return self._file.nothing()


def reading_order(paths: Sequence[Path], size: int) -> list[FileRange]:
    """Cut files into ranges of about so many bytes, in the order in which `read_marked` reads them.

    Raises TraceFileError for files that cannot be opened.
    """
    _check_readable(paths)
    ranges = {path: ranges_of(path, size) for path in paths}
    logs, others = _logs_and_others(list(dict.fromkeys(paths)))
    parts = [[part for path in series for part in ranges[path]] for series in (logs, others)]
    return in_reading_order(*parts) if logs and others else [part for path in ranges for part in ranges[path]]


def _logs_and_others(paths: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Return the files of log records, and all others, if these are several files."""
    logs = {path for path in paths if len(paths) > 1 and _holds_logs(path)}
    return [path for path in paths if path in logs], [path for path in paths if path not in logs]


def _check_readable(paths: Iterable[Path]) -> None:
    if unreadable := [mistake for path in paths if (mistake := _unreadable(path)) is not None]:
        raise TraceFileError(*unreadable)


def _side_by_side(
    first: Sequence[Path],
    second: Sequence[Path],
    read: Callable[[Iterable[Path], compression.OnBytes], Iterator[MarkedView]],
    on_bytes: compression.OnBytes | None,
) -> Iterator[MarkedView]:
    """Read two series of files at one pace: the next record comes from the series of which less was read.

    A span and its log records then come close together. A reader with bounded memory needs that.
    """
    sizes = [sum(path.stat().st_size for path in paths if path.is_file()) for paths in (first, second)]
    done = [0, 0]

    def records_of(series: int, paths: Sequence[Path]) -> Iterator[MarkedView]:
        def advance(count: int) -> None:
            done[series] += count
            if on_bytes is not None:
                on_bytes(count)

        return read(paths, advance)

    records = [records_of(0, first), records_of(1, second)]
    while True:
        shares = [part / size if size else 1.0 for part, size in zip(done, sizes, strict=True)]
        behind = 0 if shares[0] <= shares[1] else 1
        record = next(records[behind], None)
        if record is None:
            yield from records[1 - behind]
            return
        yield record


def _holds_logs(path: Path) -> bool:
    """Return whether a file starts with log records; False for a pipe, which can be read only once."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            head = compression.opened_bytes(file, lambda _: None).ahead(HEAD)
    except (OSError, compression.ZstdMissingError):
        return False
    if _framing(head) is None:
        return starts_with_logs(head)
    return isinstance(next(_File(path, lambda _: None, None).views(), None), LogView)


def read_documents(path: str | os.PathLike[str], on_problem: OnProblem) -> Iterator[object]:
    """Yield a file's content as OTLP/JSON documents, and the records recovered from broken ones."""
    yield from _File(Path(path), on_problem, None).documents()


def trace_files_in(directory: Path) -> list[Path]:
    """Return the files under a directory that start like a trace file, sorted by name.

    Rotated files need no better order: sessions are put together from all of them.
    """
    inside = (path for path in directory.rglob("*") if not _is_hidden(path.relative_to(directory)) and path.is_file())
    return [path for path in sorted(inside) if _looks_like_traces(path)]


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _looks_like_traces(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = compression.opened_bytes(file, lambda _: None).ahead(HEAD)
        if span_tables.is_parquet(head):
            return span_tables.is_span_table(span_tables.parquet_columns(path))
    except OSError:
        return False
    except (compression.ZstdMissingError, span_tables.ParquetMissingError, span_tables.BrokenParquetError):
        return True
    return may_be_json(head) or _framing(head) is not None


def _unreadable(path: Path) -> Mistake | None:
    if str(path) == STDIN:
        return None
    if path.is_dir():
        return None if trace_files_in(path) else Mistake(str(path), "", f"holds no trace file; {_EXPECTED}")
    if path.exists() and not path.is_file():
        return None  # a pipe, which can be opened only once
    try:
        with path.open("rb"):
            return None
    except OSError as error:
        return Mistake(str(path), "", f"cannot be opened: {error.strerror or error}; name a trace file")


class _File:
    """One file, read once."""

    def __init__(
        self,
        path: Path,
        on_problem: OnProblem,
        on_bytes: compression.OnBytes | None,
        markers: Markers | None = None,
        part: FileRange | None = None,
        data: bytes | None = None,
    ) -> None:
        self._path = path
        self._data = data
        self._part = None if part is None or part.whole else part
        self.lines = 0
        self._markers = markers
        self._on_problem = on_problem
        self._on_bytes = on_bytes
        self._plain = JsonReader(on_problem)
        self._protobuf: ProtobufReader | None = None
        self._rows = 0
        self._head = b""
        self._first_problem = ""
        self._unusable = ""

    def views(self) -> Iterator[MarkedView]:
        lazy, markers = LazyReader(self._plain), self._markers
        for value, place in self._values(loads):
            if isinstance(value, LazyRequest):
                yield from lazy.spans(value, place) if markers is None else lazy.marked(value, markers, place)
            elif isinstance(value, DecodedSpan):
                yield value
            elif self._protobuf is not None and is_message(value):
                yield from self._protobuf.marked(value, place, self._markers)
            else:
                yield from self._plain.views(as_otlp(value), place)

    def documents(self) -> Iterator[object]:
        for value, _ in self._values(json.loads):
            if self._protobuf is not None and is_message(value):
                from goldspan.mappers.readers.otlp_protobuf import document_of  # noqa: PLC0415 - start-up time

                yield document_of(value)
                continue
            if isinstance(value, DecodedSpan):
                yield span_tables.otlp_of_span(value)
                continue
            converted = as_otlp(value)
            if converted is not value and is_list(converted):
                yield from converted
            else:
                yield converted

    def nothing(self) -> str:
        """Return why the file has no records or could not be read; `""` if it has records."""
        if self._unusable:
            return self._unusable
        if self._rows or self._plain.records or (self._protobuf is not None and self._protobuf.records):
            return ""
        if self._part is not None and self._part.start:
            return self._first_problem or "holds no span"
        if span_tables.is_parquet(self._head):
            return self._first_problem or f"holds no table of spans; {_EXPECTED_COLUMNS}"
        return f"{self._what_it_is()}; {_EXPECTED}"

    def _what_it_is(self) -> str:
        """Say what is wrong with a file that is no table, or else what is in it."""
        head = self._head
        if not head.strip():
            return self._first_problem or "is empty"
        if self._protobuf is not None:
            return self._first_problem or "holds protobuf without spans"
        if may_be_json(head):
            return self._first_problem or "holds JSON without spans"
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "found UTF-16 text: save the file as UTF-8"
        if not is_text(head):
            return "found binary data"
        start = head.split(maxsplit=1)[0].decode("utf-8", errors="replace")[:40]
        return f"found text that starts with {start!r}"

    def _values(self, loads: Loads) -> Iterator[tuple[object, str]]:
        """Yield parsed JSON values and protobuf messages, each with its place."""
        try:
            with self._open() as file:
                if self._part is not None and self._part.start:
                    yield from self._further_values(file, self._part, loads)
                    return
                limited = file if self._part is None else cast("IO[bytes]", RangeStream(file, 0, self._part.size))
                source = compression.opened_bytes(limited, self._broken, self._on_bytes)
                self._head = source.ahead(HEAD)
                framing = _framing(self._head)
                if span_tables.is_parquet(self._head):
                    yield from self._table()
                elif framing is not None:
                    yield from self._messages(Frames(source.buffered(), framing), loads)
                elif is_text(self._head) or may_be_json(self._head):
                    text = JsonText(str(self._path), self._report, loads)
                    yield from text.values(source.buffered())
                    self.lines = text.lines
        except OSError as error:
            self._unusable = f"cannot be opened: {error.strerror or error}; name a trace file"
        except (compression.ZstdMissingError, span_tables.ParquetMissingError) as error:
            self._unusable = str(error)

    def _further_values(self, file: IO[bytes], part: FileRange, loads: Loads) -> Iterator[tuple[object, str]]:
        stream = compression.ByteSource(RangeStream(file, part.start, part.size).read, self._broken).buffered()
        if part.framing is not None:
            yield from self._messages(Frames(stream, part.framing, part.start), loads)
            return
        text = JsonText(str(self._path), self._report, loads)
        yield from text.further_values(stream)
        self.lines = text.lines

    def _table(self) -> Iterator[tuple[object, str]]:
        try:
            for span in span_tables.read_parquet(self._path, self._report, self._on_bytes):
                self._rows += 1
                yield span, str(self._path)
        except span_tables.BrokenParquetError as error:
            self._broken(f"cannot be read further: {error}")

    def _open(self) -> contextlib.AbstractContextManager[IO[bytes]]:
        if self._data is not None:
            return io.BytesIO(self._data)
        if str(self._path) == STDIN:
            return contextlib.nullcontext(sys.stdin.buffer)
        return self._path.open("rb")

    def _messages(self, frames: Frames, loads: Loads) -> Iterator[tuple[object, str]]:
        reader = self._protobuf = _protobuf_reader(self._report)
        bad = 0
        for framed, whole in frames:
            place = f"{self._path}: byte {frames.position:,}"
            try:
                payload = (
                    compression.decompressed(framed, MAX_MESSAGE) if frames.framing is Framing.PREFIXED else framed
                )
            except EOFError as error:
                self._report(Problem(BAD_PROTOBUF, f"a message {error}", place))
                bad += 1
            else:
                if payload[:1] in (b"{", b"["):
                    yield from JsonText(place, self._report, loads).values(io.BytesIO(payload))
                    continue
                request = reader.parse(payload, place, whole=whole)
                bad = 0 if request.resource_spans or not payload else bad + 1
                yield request, place
            if bad == _MAX_BAD_FRAMES:
                frames.broken = f"found {bad} messages in a row that are no trace requests; the rest is not read"
                break
        if frames.broken:
            self._report(Problem(BAD_PROTOBUF, frames.broken, f"{self._path}: byte {frames.position:,}"))

    def _broken(self, message: str) -> None:
        self._report(Problem(BAD_STREAM, message, str(self._path)))

    def _report(self, problem: Problem) -> None:
        self._first_problem = self._first_problem or problem.message
        self._on_problem(problem)


def _protobuf_reader(on_problem: OnProblem) -> ProtobufReader:
    from goldspan.mappers.readers.otlp_protobuf import ProtobufReader  # noqa: PLC0415 - start-up time

    return ProtobufReader(on_problem)


def _framing(head: bytes) -> Framing | None:
    return None if is_text(head) else framing_of(head, is_whole=len(head) < HEAD)


# What is given in memory: any mixture of SDK records, OTLP messages, parsed JSON and paths of trace files.


def views(source: object, on_problem: OnProblem) -> Iterator[RecordView]:
    """Yield a view of every span and every log record in `source`, in its order.

    `source` is one of these or an iterable of them: a `ReadableSpan`, a log record of the SDK, an OTLP protobuf message
    (a request or data of traces or logs, a part of one, a span, a log record), an OTLP/JSON object of the same shapes,
    parsed JSON of Jaeger, Tempo or Zipkin, the path of a trace file, a `Session` of Strands Evals, a `SpanView`, a
    `LogView`. What cannot be read is a problem that names its place; a file raises as in `read_files`.
    """
    sdk = SdkReader()
    parsed = JsonReader(on_problem)
    protobuf: ProtobufReader | None = None
    for position, item in enumerate(_items(source)):
        place = f"input[{position}]"
        try:
            if isinstance(item, str | os.PathLike):
                yield from read_files([cast("str", item)], on_problem)
            elif is_mapping(item) or is_list(item):
                yield from parsed.views(as_otlp(dict(item) if is_mapping(item) else item), place)
            elif is_message(item):
                protobuf = protobuf or _protobuf_reader(on_problem)
                yield from protobuf.message_views(item, place)
            elif hasattr(item, "get_span_context"):
                yield sdk.view(item)
            elif isinstance(item, LogView | SpanView):
                yield item
            elif is_strands_session(item):
                yield from parsed.views(otlp_from_strands_session(item), place)
            elif is_log_record(item):
                yield sdk.log_view(item)
            else:
                message = f"found {describe(item)}; expected a span or log record, an OTLP message or object, or a path"
                on_problem(Problem(BAD_RECORD, message, place))
        except (AttributeError, TypeError, ValueError) as error:
            on_problem(Problem(BAD_SPAN, f"cannot be read as a span or log record: {error}", place))


def is_message(value: object) -> bool:
    """Return whether this is a protobuf message. It is told by its fields, so that no protobuf module is imported."""
    return hasattr(value, "DESCRIPTOR") and hasattr(value, "SerializeToString")


def _items(source: object) -> Iterable[object]:
    if _is_one(source) or not isinstance(source, Iterable):
        return (source,)
    return cast("Iterable[object]", source)


def _is_one(source: object) -> bool:
    if isinstance(source, str | bytes | os.PathLike | Mapping):
        return True
    if is_list(source) and source and is_zipkin_span(source[0]):
        return True  # both halves of a shared span must be read together
    if is_message(source) or hasattr(source, "get_span_context") or isinstance(source, LogView | SpanView):
        return True
    return is_strands_session(source) or is_log_record(source)
