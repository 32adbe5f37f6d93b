"""Trace files: OTLP/JSON as one document or as one request a line, plain or gzipped, told apart by content.

Lines are read one at a time, so that memory is bounded by the longest line; a document that spans several lines is
read as a whole. What cannot be read is a problem with its file and line, and everything good beside it is read.
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, cast

from goldspan.mappers.json_shapes import is_object
from goldspan.mappers.readers.otlp_json import JsonReader
from goldspan.mappers.readers.problems import BAD_JSON, OnProblem
from goldspan.mappers.readers.salvage import salvage
from goldspan.mappers.spans import SpanView
from goldspan.scoring.errors import Mistake, Problem, TraceFileError

_GZIP_MAGIC = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
_EXPECTED = "expected OTLP/JSON: one trace request as a document, or one request a line"
_TORN_LINES = (ValueError, RecursionError)
_decode = json.JSONDecoder().raw_decode


OnBytes = Callable[[int], object]
"""Is told how many more bytes of a file were read, for progress; compressed ones where it is gzipped."""


def read_files(
    paths: Iterable[str | os.PathLike[str]], on_problem: OnProblem, on_bytes: OnBytes | None = None
) -> Iterator[SpanView]:
    """Yield the spans of these files in order.

    Raises `TraceFileError`, naming every such file at once: before anything is read, for files that cannot be
    opened; after the last span, for files that yielded no record. A file of log records is not an error.
    """
    named = [Path(path) for path in paths]
    if unreadable := [mistake for path in named if (mistake := _unreadable(path)) is not None]:
        raise TraceFileError(*unreadable)
    empty: list[Mistake] = []
    for path in named:
        reader = JsonReader(on_problem)
        file = _File(path, on_problem, on_bytes)
        for parsed, source in file.documents():
            yield from reader.spans(parsed, source)
        if not reader.records:
            empty.append(Mistake(str(path), "", file.nothing()))
    if empty:
        raise TraceFileError(*empty)


def read_documents(path: str | os.PathLike[str], on_problem: OnProblem) -> Iterator[object]:
    """Yield each parsed JSON document of a file as it came, and what can be saved of those that are not whole."""
    for parsed, _ in _File(Path(path), on_problem, None).documents():
        yield parsed


def _unreadable(path: Path) -> Mistake | None:
    if path.is_dir():
        return Mistake(str(path), "", "is a directory; name the trace files in it")
    try:
        with path.open("rb"):
            return None
    except OSError as error:
        return Mistake(str(path), "", f"cannot be opened: {error.strerror or error}; name a trace file")


_Document = tuple[object, str]
"""Something parsed, and the file and line it stands in."""


class _File:
    def __init__(self, path: Path, on_problem: OnProblem, on_bytes: OnBytes | None) -> None:
        self._path = path
        self._on_problem = on_problem
        self._on_bytes = on_bytes
        self._start = b""
        self._first_problem = ""

    def documents(self) -> Iterator[_Document]:
        with self._path.open("rb") as raw:
            magic = raw.read(2)
            raw.seek(0)
            stream: IO[bytes] = cast("IO[bytes]", gzip.GzipFile(fileobj=raw)) if magic == _GZIP_MAGIC else raw
            yield from self._lines(self._numbered(stream, raw))

    def _numbered(self, stream: IO[bytes], raw: IO[bytes]) -> Iterator[tuple[int, bytes]]:
        number = position = 0
        try:
            for line in stream:
                number += 1
                if self._on_bytes is not None:
                    before, position = position, raw.tell()
                    self._on_bytes(position - before)
                if text := line.strip():
                    self._start = self._start or text[:40]
                    yield number, text
        except (OSError, EOFError, zlib.error) as error:
            self._problem(number + 1, f"cannot be read further: {error}")

    def _lines(self, lines: Iterator[tuple[int, bytes]]) -> Iterator[_Document]:
        first = next(lines, None)
        if first is None:
            return
        try:
            parsed = json.loads(first[1])
        except _TORN_LINES:
            yield from self._after_bad_first_line(first, lines)
            return
        yield parsed, f"{self._path}:{first[0]}"
        yield from self._further_lines(lines)

    def _after_bad_first_line(
        self, first: tuple[int, bytes], lines: Iterator[tuple[int, bytes]]
    ) -> Iterator[_Document]:
        """Tell a torn line from the first line of a document over several lines, by the line after it."""
        second = next(lines, None)
        if second is not None:
            try:
                parsed = json.loads(second[1])
            except _TORN_LINES:
                parsed = None
            if is_object(parsed):
                yield from self._torn_line(*first)
                yield parsed, f"{self._path}:{second[0]}"
                yield from self._further_lines(lines)
                return
        if _is_binary(first[1][:40]):
            return
        if not _may_be_json(first[1]):
            # Neither a document nor a line of JSON: lines that follow may still be.
            yield from self._torn_line(*first)
            if second is not None:
                yield from self._torn_line(*second)
            yield from self._further_lines(lines)
            return
        whole: list[bytes] = [first[1]]
        last = first[0]
        for number, line in lines if second is None else itertools.chain([second], lines):
            whole.append(b"\n" * (number - last) + line)
            last = number
        yield from self._documents(b"".join(whole).decode("utf-8-sig", errors="replace"), first[0])

    def _documents(self, text: str, line: int) -> Iterator[_Document]:
        """Read one document, or several one after another."""
        position = 0
        while position < len(text):
            try:
                parsed, end = _decode(text, position)
            except _TORN_LINES as error:
                at = getattr(error, "pos", position)
                self._problem(line + text.count("\n", 0, at), f"is not whole JSON: {_reason(error)}")
                for request in salvage(text[position:]):
                    yield request, str(self._path)
                return
            yield parsed, str(self._path)
            position = end
            while position < len(text) and text[position] in " \t\r\n,":
                position += 1

    def _further_lines(self, lines: Iterator[tuple[int, bytes]]) -> Iterator[_Document]:
        for number, line in lines:
            try:
                parsed = json.loads(line)
            except _TORN_LINES:
                yield from self._torn_line(number, line)
            else:
                yield parsed, f"{self._path}:{number}"

    def _torn_line(self, number: int, line: bytes) -> Iterator[_Document]:
        text = line.decode("utf-8-sig", errors="replace")
        try:
            json.loads(text)
            reason = "holds bytes that are not UTF-8"
        except _TORN_LINES as error:
            reason = f"is not whole JSON: {_reason(error)}"
        self._problem(number, reason)
        for request in salvage(text):
            yield request, f"{self._path}:{number}"

    def _problem(self, line: int, message: str) -> None:
        self._first_problem = self._first_problem or message
        self._on_problem(Problem(BAD_JSON, message, f"{self._path}:{line}"))

    def nothing(self) -> str:
        """Say why the file yielded no record."""
        if not self._start:
            return f"is empty; {_EXPECTED}"
        if _is_binary(self._start):
            return f"found binary data; {_EXPECTED}"
        if _may_be_json(self._start):
            return f"{self._first_problem or 'holds JSON without spans'}; {_EXPECTED}"
        return f"found text that starts with {self._start.decode('utf-8', errors='replace')!r}; {_EXPECTED}"


def _may_be_json(start: bytes) -> bool:
    return start.removeprefix(_BOM)[:1] in (b"{", b"[", b'"')


def _is_binary(start: bytes) -> bool:
    return any(byte < 32 and byte not in b"\t\r\n" for byte in start)


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.colno}"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)
