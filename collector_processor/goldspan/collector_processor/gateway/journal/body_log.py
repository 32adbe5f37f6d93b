"""Received bodies on disk: each is appended before its request is acknowledged.

A body is one record of a segment file. A written record survives the end of the process; with `sync` it survives power
loss, too. Records never change. A segment is deleted when all its bodies are done and older than the retention. On the
next start the segments are read record by record, each with a check sum: torn and damaged records are skipped and
counted, and their file is renamed instead of deleted. A segment that cannot be read now stays for the next start.

Only the owner of the journal's folder may read it. A part of the disk is reserved in it (`Reserve`) for what must be
written when the disk is full.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import IO, cast

from goldspan.collector_processor.gateway.interfaces import ExportRequest, Headers
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.mappers.readers.compression import zlib_library

crc32: Callable[[bytes, int], int] = zlib_library().crc32
"""The check sum of gzip, going on from that of what came before; ISA-L's takes a tenth of the time."""
_MAGIC = b"GSB1"
_HEADER = struct.Struct("<4sIQdBIQ")
"""Magic, check sum of all that follows it, number, time, signal, bytes of headers, bytes of body."""
_UNCHECKED = 8  # bytes of a header that its check sum does not cover
_SIGNALS = tuple(Signal)
_SEGMENT_BYTES = 32 << 20
_CHUNK = 1 << 20
_MAX_DAMAGED_FILES = 8  # the newest damaged segments are kept
_ATTEMPTS, _PAUSE = 5, 0.05
"""How often a segment is read at the start, and the seconds before the next attempt, doubled each time."""


class LogFullError(Exception):
    """There is no room for another body; the message says why."""


class BodyGoneError(Exception):
    """What was to be delivered is no longer on disk, or no longer as it was written; the message says which."""


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
    check: tuple[int, int]
    """The check sum of what precedes the body, and of both."""


Identity = tuple[int, int]
"""Device and number of a file."""


@dataclass(slots=True)
class _Segment:
    path: Path
    size: int = 0
    numbers: set[int] = field(default_factory=set[int])  # bodies in it
    waiting: set[int] = field(default_factory=set[int])  # those that are not done
    newest: float = 0.0
    damaged: bool = False
    unread: bool = False  # some of it could not be read, so it stays
    file: int | None = None  # its descriptor, through which it can be read when its name is gone
    meant: Identity | None = None  # which file its path means; known of one that is written to
    unsynced: bool = False
    """A sync of it failed. The system says so once, so nothing that waits for one may be acknowledged."""

    def close(self) -> None:
        if self.file is not None:
            file, self.file = self.file, None
            with contextlib.suppress(OSError):
                os.close(file)


class BodyLog:
    """The segments in one folder. Thread-safe."""

    def __init__(
        self, folder: Path, *, max_bytes: int, sync: bool = False, segment_bytes: int = _SEGMENT_BYTES
    ) -> None:
        """Open the folder, which only this process uses. Raises `OSError` if it cannot be used."""
        self._folder = folder
        self._max_bytes = max_bytes
        self._sync = sync
        self._segment_bytes = segment_bytes
        self._lock = threading.Lock()
        self._sync_lock = threading.Lock()
        self._segments: list[_Segment] = []
        self._current: _Segment | None = None  # the one that is written to
        self._written = 0  # bodies written since the start
        self._synced = 0
        self._next = 1
        self.damaged = 0
        """Damaged stretches found on reading; each may have held several bodies."""
        self.unread: list[str] = []
        """The segments that could not be read, with the reason."""

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
            yield from self._read_patiently(segment)
            # Numbers rise from segment to segment, so the name of a new one is that of none.
            most = segment.size // _HEADER.size if segment.unread else 1
            self._next = max(self._next, number_of(path) + most)

    def append(self, request: ExportRequest, received: float) -> LogEntry:
        """Write a body and, with `sync`, wait for the disk. Raises `LogFullError` or `OSError`."""
        headers = _as_json(request.headers)
        size = _HEADER.size + len(headers) + len(request.body)
        with self._lock:
            if self.size + size > self._max_bytes:
                raise LogFullError("the log of received bodies is full")
            number = self._next
            head = _HEADER.pack(
                _MAGIC, 0, number, received, _SIGNALS.index(request.signal), len(headers), len(request.body)
            )
            before = crc32(headers, crc32(head[_UNCHECKED:], 0))
            check = crc32(request.body, before)
            segment = self._write([head[:4] + struct.pack("<I", check) + head[_UNCHECKED:], headers, request.body])
            offset = segment.size + _HEADER.size + len(headers)
            segment.size += size
            segment.numbers.add(number)
            segment.waiting.add(number)
            segment.newest = max(segment.newest, received)
            self._next += 1
            self._written += 1
            mine = self._written
        if self._sync:
            try:
                self._sync_up_to(mine, segment)
            except OSError:
                with self._lock:
                    segment.waiting.discard(number)  # it is not acknowledged, so the client sends it again
                raise
        return LogEntry(
            number,
            request.signal,
            request.headers,
            received,
            len(request.body),
            segment.path,
            offset,
            (before, check),
        )

    def body(self, entry: LogEntry) -> bytes:
        """Read a body. Raises `BodyGoneError` if its file is gone, or `OSError`: then try again."""
        with self._lock:
            # By its descriptor: the name may be gone, or mean another file.
            kept = next((one.file for one in self._segments if one.path == entry.segment), None)
            if kept is None:
                raise BodyGoneError(f"{entry.segment} is gone")
            file = os.dup(kept)
        try:
            body = os.pread(file, entry.size, entry.offset)
            left = os.fstat(file).st_size - entry.offset
        finally:
            os.close(file)
        if left < entry.size:
            raise BodyGoneError(f"{entry.segment} is shorter than it was")
        before, check = entry.check
        if crc32(body, before) != check:
            raise OSError(errno.EIO, "found other bytes than were written", str(entry.segment))
        return body

    def done(self, numbers: set[int], before: float, *, tight: bool = False) -> list[int]:
        """Note which bodies are done; delete segments in which all are and all were received `before` a time.

        Where room is `tight`, done bodies are not kept until that time. Returns the numbers of the deleted bodies.
        """
        with self._lock:
            for segment in self._segments:
                segment.waiting -= numbers
            tight = tight or self.size > self._max_bytes // 2
            old = [one for one in self._segments if not (one.waiting or one.unread) and (tight or one.newest < before)]
            return self._delete(old, tight=tight)

    def close(self) -> None:
        """Close the files."""
        with self._lock:
            self._current = None
            for segment in self._segments:
                segment.close()

    def restore(self) -> None:
        """Write the segments again whose names are gone or mean other files. Raises `OSError`."""
        with self._lock:
            for segment in self._segments:
                if segment.file is not None and not is_at(segment.path, identity(segment.file)):
                    file = _copied(segment.file, segment.path)
                    segment.close()
                    segment.file, segment.meant = file, identity(file)

    def _end_segment(self) -> None:
        """Write to the current segment no more. What waits for a sync of it is written, or is not acknowledged."""
        segment, self._current = self._current, None
        if segment is not None and segment.file is not None and self._sync:
            try:
                os.fdatasync(segment.file)
            except OSError:
                segment.unsynced = True

    def _open(self, size: int) -> _Segment:
        """Return the segment to write to: a new one if the last is full or of an earlier process."""
        if (segment := self._current) is not None and segment.size + size <= self._segment_bytes:
            if segment.meant is None or not is_at(segment.path, segment.meant):
                raise OSError(errno.ESTALE, "was deleted or replaced", str(segment.path))
            return segment
        self._end_segment()
        segment = _Segment(self._folder / f"bodies-{self._next:016d}.log")
        segment.file = os.open(segment.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC, 0o600)
        try:
            segment.meant = identity(segment.file)
            if self._sync:
                sync_folder(self._folder)
        except OSError:
            segment.close()
            raise
        # The same name may have been given up empty.
        for before in [one for one in self._segments if one.path == segment.path]:
            before.close()
            self._segments.remove(before)
        self._segments.append(segment)
        self._current = segment
        return segment

    def _write(self, parts: list[bytes]) -> _Segment:
        """Append to the newest segment, or to a new one if the system lets that one grow no more."""
        total = sum(map(len, parts))
        segment = self._open(total)
        file, whole = cast("int", segment.file), segment.size
        try:
            written = os.writev(file, parts)
            if written < total:
                rest = b"".join(parts)
                while written < total:
                    written += os.write(file, rest[written:])
        except OSError as error:
            try:
                os.ftruncate(file, whole)  # a torn record would cost the reader a search for the next one
            except OSError:
                self._end_segment()  # the next record begins a new segment
            if error.errno != errno.EFBIG or not whole:
                raise
            self._end_segment()
            return self._write(parts)
        return segment

    def _sync_up_to(self, number: int, segment: _Segment) -> None:
        """Wait for the disk; threads that wait at the same time share one wait."""
        with self._sync_lock:
            with self._lock:
                ended, written = segment is not self._current, self._written
                file = None if ended or self._synced >= number else os.dup(cast("int", segment.file))
            try:
                if file is not None:
                    os.fdatasync(file)
                    self._synced = written
            except OSError:
                with self._lock:
                    segment.unsynced = True
                    if segment is self._current:
                        self._end_segment()
                raise
            finally:
                if file is not None:
                    os.close(file)
            if segment.unsynced:
                raise OSError(errno.EIO, "could not be synced", str(segment.path))

    def _read_patiently(self, segment: _Segment) -> list[LogEntry]:
        """Return the bodies in a segment; after several errors those before the place that cannot be read."""
        damaged, entries, reason = self.damaged, list[LogEntry](), ""
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(_PAUSE * 2**attempt)
            entries.clear()
            self.damaged, segment.damaged, segment.unread = damaged, False, False
            try:
                for entry in self._read(segment):
                    entries.append(entry)
            except OSError as error:
                segment.unread, reason = True, error.strerror or str(error)
            else:
                return entries
        self.unread.append(f"{segment.path}: {reason}")
        return entries

    def _read(self, segment: _Segment) -> Iterator[LogEntry]:
        with segment.path.open("rb") as file:
            segment.close()
            segment.file = os.dup(file.fileno())
            segment.size = os.fstat(file.fileno()).st_size
            at = 0
            while at + _HEADER.size <= segment.size:
                entry, end = _entry_at(file, segment, at)
                if entry is None:  # a read may fail where the next one does not
                    entry, end = _entry_at(file, segment, at)
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
            if segment is self._current:
                if segment.size < self._segment_bytes and not tight:
                    continue  # still written to
                self._current = None
            try:
                if segment.damaged:
                    segment.path.replace(segment.path.with_suffix(".damaged"))
                    for old in sorted(self._folder.glob("bodies-*.damaged"))[:-_MAX_DAMAGED_FILES]:
                        old.unlink(missing_ok=True)
                else:
                    segment.path.unlink(missing_ok=True)
            except FileNotFoundError:
                pass
            except OSError:
                continue  # the next call tries again
            segment.close()
            self._segments.remove(segment)
            deleted += segment.numbers
        return deleted


@lru_cache(maxsize=256)
def _as_json(headers: Headers) -> bytes:
    return json.dumps(headers).encode()


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk. Raises `OSError`."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def identity(file: int | Path) -> Identity:
    """Return which file this is. Raises `OSError`."""
    found = os.stat(file)  # noqa: PTH116 - of descriptors too
    return found.st_dev, found.st_ino


def is_at(path: Path, wanted: Identity) -> bool:
    """Tell whether a path means this file. Raises `OSError` if that cannot be told."""
    try:
        return identity(path) == wanted
    except FileNotFoundError:
        return False


def _copied(file: int, path: Path) -> int:
    """Write what is in a file to a path that means none, and return its descriptor. Raises `OSError`."""
    if path.exists():
        raise OSError(errno.EEXIST, "is another file now", str(path))
    part = path.with_suffix(".part")
    copy = os.open(part, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC, 0o600)
    try:
        at = 0
        while content := os.pread(file, _CHUNK, at):
            at += len(content)
            while content:
                content = content[os.write(copy, content) :]
        os.fsync(copy)
        part.replace(path)
        sync_folder(path.parent)
    except OSError:
        os.close(copy)
        part.unlink(missing_ok=True)
        raise
    return copy


def number_of(path: Path) -> int:
    """Return the number at the end of a file's name, which in a segment is that of its first body; 0 without one."""
    digits = path.name.removesuffix(".log").rpartition("-")[2]
    return int(digits) if digits.isdecimal() else 0


def size_of(path: Path) -> int:
    """Return the bytes of a file; 0 if there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _entry_at(file: IO[bytes], segment: _Segment, at: int) -> tuple[LogEntry | None, int]:
    """Return the record at an offset and where it ends; None if it is torn or damaged."""
    file.seek(at)
    head = file.read(_HEADER.size)
    found: tuple[bytes, int, int, float, int, int, int] = _HEADER.unpack(head)
    magic, check, number, received, signal, headers_size, body_size = found
    start = at + _HEADER.size + headers_size
    end = start + body_size
    if magic != _MAGIC or signal >= len(_SIGNALS) or end > segment.size:
        return None, at
    content = file.read(headers_size + body_size)
    before = crc32(content[:headers_size], crc32(head[_UNCHECKED:], 0))
    if crc32(content[headers_size:], before) != check:
        return None, at
    pairs: list[list[str]] = json.loads(content[:headers_size])
    headers = tuple((name, value) for name, value in pairs)
    entry = LogEntry(number, _SIGNALS[signal], headers, received, body_size, segment.path, start, (before, check))
    return entry, end


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


_logger = logging.getLogger("goldspan.gateway")


def make_private(folder: Path, patterns: Iterable[str]) -> None:
    """Create a folder if needed; only the owner may read it and the files of these patterns. Raises `OSError`."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    files = [(path, 0o600) for pattern in patterns for path in folder.glob(pattern) if path.is_file()]
    for path, mode in [(folder, 0o700), *files]:
        try:
            if path.stat().st_mode & 0o777 != mode:
                path.chmod(mode)
        except OSError as error:
            _logger.warning("%s: others may be able to read it, and that could not be changed: %s", path, error)


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read: all of it or none. Raises `OSError`."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(content)
    except OSError:
        path.unlink(missing_ok=True)
        raise


class Reserve:
    """A file that takes up room. It is given up when the disk is full, and taken again when there is room."""

    def __init__(self, path: Path, size: int) -> None:
        """Keep so many bytes in this file, once `take` was called."""
        self._path = path
        self.size_wanted = size

    @property
    def size(self) -> int:
        """Bytes that are reserved now."""
        return size_of(self._path)

    def take(self) -> bool:
        """Reserve the room; return whether it is reserved and as much is free besides."""
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            return False
        before = self.size
        try:
            _allocate(file, 2 * self.size_wanted)
        except OSError:
            return False
        else:
            before = self.size_wanted
            return True
        finally:
            with contextlib.suppress(OSError):
                os.ftruncate(file, before)
            os.close(file)
            if not before:
                self.give_up()

    def give_up(self) -> None:
        """Free the room."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:  # pragma: no cover - a folder that became read-only
            _logger.warning("%s: the room that it reserves could not be freed: %s", self._path, error)


def _allocate(file: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
        return
    for at in range(0, size, 1 << 20):  # pragma: no cover - macOS and Windows
        os.pwrite(file, b"\1" * min(1 << 20, size - at), at)
