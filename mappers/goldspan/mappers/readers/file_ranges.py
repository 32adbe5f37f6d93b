"""Byte ranges of trace files, each of which can be read alone: together they have the records of the whole files.

A file with a JSON value a line is cut between lines, a file of protobuf messages between messages. Any other file is
one range: a compressed one, a JSON document of several lines, a single message, Parquet.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from goldspan.mappers.readers.compression import GZIP_MAGIC, ZSTD_MAGIC
from goldspan.mappers.readers.otlp_json_lazy import loads
from goldspan.mappers.readers.protobuf_framing import Frames, Framing, framing_of
from goldspan.mappers.readers.span_tables import is_parquet

RANGE_BYTES = 8 << 20
"""About how many bytes are in a range: what one process holds of a file at once."""
HEAD = 1 << 16
"""How many bytes are read to recognise a file's format."""


class FileRange(NamedTuple):
    """A part of a file; the first one tells the format."""

    path: Path
    start: int
    size: int
    framing: Framing | None = None
    """None for lines, and for a file that was not cut."""
    whole: bool = True
    """The file was not cut."""


def ranges_of(path: Path, size: int = RANGE_BYTES) -> list[FileRange]:
    """Cut a file into ranges of about this many bytes. Raises OSError."""
    whole = path.stat().st_size if path.is_file() else 0
    if whole <= size:
        return [FileRange(path, 0, whole)]
    with path.open("rb") as file:
        head = file.read(HEAD)
        if is_text(head):
            ends = _line_ends(file, whole, size)
            framing = None
        else:
            framing = framing_of(head, is_whole=len(head) == whole)
            ends = _message_ends(file, framing, size, whole)
    if len(ends) < 2 or head.startswith((GZIP_MAGIC, ZSTD_MAGIC)) or is_parquet(head):
        return [FileRange(path, 0, whole)]
    starts = [0, *ends[:-1]]
    return [FileRange(path, start, end - start, framing, whole=False) for start, end in zip(starts, ends, strict=True)]


_NO_TEXT = re.compile(rb"[^\t\r\n\f\x20-\xff]")


def is_text(head: bytes) -> bool:
    """Return whether this is text. Times and ids of any span hold bytes that text does not have."""
    return _NO_TEXT.search(head, 0, 512) is None


def _line_ends(file: IO[bytes], whole: int, size: int) -> list[int]:
    """Return where ranges end, if the file has a value a line: then its first line is one."""
    file.seek(0)
    first = b""
    while not first.strip():
        first = file.readline(max(size, HEAD))
        if not first.endswith(b"\n"):
            return []
    try:
        loads(first.strip())
    except (ValueError, RecursionError):
        return []
    ends: list[int] = []
    while (at := max(file.tell(), (ends[-1] if ends else 0) + size)) < whole:
        file.seek(at)
        while (rest := file.readline(1 << 20)) and not rest.endswith(b"\n"):
            pass
        ends.append(file.tell())
    return [*ends, whole] if not ends or ends[-1] < whole else ends


def _message_ends(file: IO[bytes], framing: Framing | None, size: int, whole: int) -> list[int]:
    """Return where ranges end, up to where the lengths of messages stop making sense."""
    if framing not in (Framing.PREFIXED, Framing.DELIMITED):
        return []
    ends: list[int] = []
    at = 0
    file.seek(0)
    for end in _hops(file, framing):
        if end > whole:
            break
        if end - at >= size:
            ends.append(end)
            at = end
    return [*ends, whole] if not ends or ends[-1] < whole else ends


def _hops(file: IO[bytes], framing: Framing) -> Iterator[int]:
    frames = Frames(file, framing)
    while (size := frames.next_size()) is not None:
        file.seek(size, os.SEEK_CUR)
        yield file.tell()


class RangeStream:
    """The bytes of a range as a stream."""

    def __init__(self, file: IO[bytes], start: int, size: int) -> None:
        """Take a file that can seek."""
        file.seek(start)
        self._file = file
        self._left = size

    def read(self, size: int) -> bytes:
        """Return at most this many of the next bytes."""
        data = self._file.read(min(size, self._left))
        self._left -= len(data)
        return data


def in_reading_order(logs: Sequence[FileRange], others: Sequence[FileRange]) -> list[FileRange]:
    """Put the ranges of two series side by side, so that a span and its log records come close together."""
    placed: list[tuple[float, int, FileRange]] = []
    for number, series in enumerate((logs, others)):
        total = sum(one.size for one in series) or 1
        done = 0
        for one in series:
            placed.append((done / total, number, one))
            done += one.size
    return [one for _, _, one in sorted(placed, key=lambda place: place[:2])]
