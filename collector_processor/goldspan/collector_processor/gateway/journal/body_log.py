"""Received bodies on disk: each is appended before its request is acknowledged.

A body is one record of a segment file. A written record survives the end of the process; with `sync` it survives power
loss, too. Records never change. A segment is deleted when all its bodies are done and older than the retention. On the
next start the segments are read record by record, each with a check sum: torn and damaged records are skipped and
counted, and their file is renamed instead of deleted.
"""

from __future__ import annotations

import json
import os
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, cast

from goldspan.collector_processor.gateway.compression import crc32
from goldspan.collector_processor.gateway.interfaces import Headers, Request, Signal

_MAGIC = b"GSB1"
_HEADER = struct.Struct("<4sIQdBIQ")
"""Magic, check sum of all that follows it, number, time, signal, bytes of headers, bytes of body."""
_UNCHECKED = 8
"""Bytes of a header that its check sum does not cover."""
_SIGNALS = tuple(Signal)
_SEGMENT_BYTES = 32 << 20
_CHUNK = 1 << 20
_MAX_DAMAGED_FILES = 8
"""The newest damaged segments are kept."""


class LogFullError(Exception):
    """The log has no room for another body."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One body in the log."""

    number: int
    """Increases with each body, over restarts too."""
    signal: Signal
    headers: Headers
    received: float
    """Seconds of the wall clock."""
    size: int
    segment: Path
    offset: int
    """Of the first byte of the body in the segment."""


@dataclass(slots=True)
class _Segment:
    path: Path
    size: int = 0
    numbers: set[int] = field(default_factory=set[int])
    """Bodies in it."""
    waiting: set[int] = field(default_factory=set[int])
    """Those that are not done."""
    newest: float = 0.0
    damaged: bool = False


class BodyLog:
    """The segments in one folder. Thread-safe."""

    def __init__(
        self, folder: Path, *, max_bytes: int, sync: bool = False, segment_bytes: int = _SEGMENT_BYTES
    ) -> None:
        """Open the folder, which only this process uses. Raises `OSError` if it cannot be used."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._max_bytes = max_bytes
        self._sync = sync
        self._segment_bytes = segment_bytes
        self._lock = threading.Lock()
        self._sync_lock = threading.Lock()
        self._segments: list[_Segment] = []
        self._file: int | None = None
        self._written = 0
        """Bodies written since the start."""
        self._synced = 0
        self._next = 1
        self.damaged = 0
        """Damaged stretches found on reading; each may have held several bodies."""

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(segment.size for segment in self._segments)

    def read_all(self, highest: int = 0) -> Iterator[LogEntry]:
        """Yield the bodies of earlier processes, oldest first. Call it once, before `append`.

        New bodies get numbers above these and above `highest`.
        """
        self._next = highest + 1
        for path in sorted(self._folder.glob("bodies-*.log")):
            segment = _Segment(path)
            self._segments.append(segment)
            yield from self._read(segment)

    def append(self, request: Request, received: float) -> LogEntry:
        """Write a body and, with `sync`, wait for the disk. Raises `LogFullError` or `OSError`."""
        headers = json.dumps(request.headers).encode()
        size = _HEADER.size + len(headers) + len(request.body)
        with self._lock:
            if self.size + size > self._max_bytes:
                raise LogFullError
            segment = self._open(size)
            number = self._next
            head = _HEADER.pack(
                _MAGIC, 0, number, received, _SIGNALS.index(request.signal), len(headers), len(request.body)
            )
            check = crc32(request.body, crc32(headers, crc32(head[_UNCHECKED:], 0)))
            self._write(segment, [head[:4] + struct.pack("<I", check) + head[_UNCHECKED:], headers, request.body])
            offset = segment.size + _HEADER.size + len(headers)
            segment.size += size
            segment.numbers.add(number)
            segment.waiting.add(number)
            segment.newest = max(segment.newest, received)
            self._next += 1
            self._written += 1
            mine = self._written
        if self._sync:
            self._sync_up_to(mine)
        return LogEntry(number, request.signal, request.headers, received, len(request.body), segment.path, offset)

    def body(self, entry: LogEntry) -> bytes:
        """Read a body. Raises `OSError` if it is gone."""
        with entry.segment.open("rb") as file:
            file.seek(entry.offset)
            body = file.read(entry.size)
        if len(body) != entry.size:
            raise OSError(f"{entry.segment.name} is shorter than it was")
        return body

    def done(self, numbers: set[int], before: float) -> list[int]:
        """Note which bodies are done; delete segments in which all are and all were received `before` a time.

        Returns the numbers of the deleted bodies.
        """
        with self._lock:
            for segment in self._segments:
                segment.waiting -= numbers
            tight = self.size > self._max_bytes // 2  # then done bodies are not kept for the retention
            old = [one for one in self._segments if not one.waiting and (tight or one.newest < before)]
            return self._delete(old, tight=tight)

    def close(self) -> None:
        """Close the file that is being written."""
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def _open(self, size: int) -> _Segment:
        """Return the segment to write to: a new one if the last is full or of an earlier process."""
        if self._file is not None and self._segments[-1].size + size <= self._segment_bytes:
            return self._segments[-1]
        path = self._folder / f"bodies-{self._next:016d}.log"
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_TRUNC, 0o600)
        if self._file is not None:
            if self._sync:
                os.fdatasync(self._file)
            os.close(self._file)
        if self._sync:
            folder = os.open(self._folder, os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)
        self._file = file
        self._segments.append(_Segment(path))
        return self._segments[-1]

    def _write(self, segment: _Segment, parts: list[bytes]) -> None:
        file = cast("int", self._file)
        total = sum(map(len, parts))
        try:
            written = os.writev(file, parts)
            if written < total:
                rest = b"".join(parts)
                while written < total:
                    written += os.write(file, rest[written:])
        except OSError:
            os.ftruncate(file, segment.size)  # a torn record would cost the reader a search for the next one
            raise

    def _sync_up_to(self, number: int) -> None:
        """Wait for the disk; threads that wait at the same time share one wait."""
        with self._sync_lock:
            if self._synced >= number:
                return
            with self._lock:
                written, file = self._written, os.dup(cast("int", self._file))
            try:
                os.fdatasync(file)
            finally:
                os.close(file)
            self._synced = written

    def _read(self, segment: _Segment) -> Iterator[LogEntry]:
        with segment.path.open("rb") as file:
            segment.size = os.fstat(file.fileno()).st_size
            at = 0
            while at + _HEADER.size <= segment.size:
                file.seek(at)
                entry, end = _entry_at(file.read(_HEADER.size), file, segment, at)
                if entry is None:
                    segment.damaged = True
                    self.damaged += 1
                    at = _next_magic(file, at + 1)
                    continue
                self._next = max(self._next, entry.number + 1)
                segment.numbers.add(entry.number)
                segment.waiting.add(entry.number)
                segment.newest = max(segment.newest, entry.received)
                at = end
                yield entry
            if at < segment.size:
                segment.damaged = True
                self.damaged += 1

    def _delete(self, segments: list[_Segment], *, tight: bool) -> list[int]:
        deleted: list[int] = []
        for segment in segments:
            if self._segments and segment is self._segments[-1] and self._file is not None:
                if segment.size < self._segment_bytes and not tight:
                    continue  # still written to
                os.close(self._file)
                self._file = None
            if segment.damaged:
                segment.path.replace(segment.path.with_suffix(".damaged"))
                for old in sorted(self._folder.glob("bodies-*.damaged"))[:-_MAX_DAMAGED_FILES]:
                    old.unlink(missing_ok=True)
            else:
                segment.path.unlink(missing_ok=True)
            self._segments.remove(segment)
            deleted += segment.numbers
        return deleted


def _entry_at(head: bytes, file: IO[bytes], segment: _Segment, at: int) -> tuple[LogEntry | None, int]:
    """Return the record at an offset and where it ends; None if it is torn or damaged."""
    found: tuple[bytes, int, int, float, int, int, int] = _HEADER.unpack(head)
    magic, check, number, received, signal, headers_size, body_size = found
    start = at + _HEADER.size + headers_size
    end = start + body_size
    if magic != _MAGIC or signal >= len(_SIGNALS) or end > segment.size:
        return None, at
    content = file.read(headers_size + body_size)
    if crc32(content, crc32(head[_UNCHECKED:], 0)) != check:
        return None, at
    pairs: list[list[str]] = json.loads(content[:headers_size])
    headers = tuple((name, value) for name, value in pairs)
    return LogEntry(number, _SIGNALS[signal], headers, received, body_size, segment.path, start), end


def _next_magic(file: IO[bytes], start: int) -> int:
    """Return where the next record may start; the end of the file if there is none."""
    at = start
    while True:
        file.seek(at)
        chunk = file.read(_CHUNK)
        found = chunk.find(_MAGIC)
        if found >= 0:
            return at + found
        if len(chunk) < _CHUNK:
            return at + len(chunk)
        at += len(chunk) - len(_MAGIC) + 1
