"""Bytes of trace files: plain, gzip or zstd. The first bytes tell which.

A broken stream ends at the break: the bytes before it are read, and the reason is reported.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable
from typing import IO, Any, cast

OnBytes = Callable[[int], object]
"""Called with the number of bytes just read from a file, before decompression; used for progress."""

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
ZSTD_MISSING = "is compressed by zstd, and zstandard is not installed; pip install 'goldspan[zstd]'"
_BUFFER = 1 << 18
_ZSTD_CHUNK = 1 << 10
"""Compressed bytes taken at once. They grow to 32 MiB at most, so that no file can ask for all the memory."""


class ZstdMissingError(Exception):
    """Something is compressed by zstd, and the package that reads it is not installed."""


class ByteSource(io.RawIOBase):
    """Bytes that can be read ahead, and that end where their source breaks."""

    def __init__(self, read: Callable[[int], bytes], on_break: Callable[[str], object]) -> None:
        super().__init__()
        self._read = read
        self._on_break = on_break
        self._waiting = b""
        self._ended = False

    def ahead(self, size: int) -> bytes:
        """Return the next bytes without taking them; fewer only at the end."""
        parts, missing = [self._waiting], size - len(self._waiting)
        while missing > 0 and (more := self._more(missing)):
            parts.append(more)
            missing -= len(more)
        self._waiting = b"".join(parts)
        return self._waiting[:size]

    def buffered(self) -> io.BufferedReader:
        """Return the rest of this source as a buffered stream."""
        return io.BufferedReader(self, _BUFFER)

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Fill the buffer as far as one reading goes."""
        data = self._waiting or self._more(len(buffer))
        size = min(len(buffer), len(data))
        buffer[:size], self._waiting = data[:size], data[size:]
        return size

    def _more(self, size: int) -> bytes:
        if self._ended:
            return b""
        try:
            data = self._read(size)
        except (OSError, EOFError, ValueError, zlib.error) as error:
            self._on_break(f"cannot be read further: {error}")
            data = b""
        self._ended = not data
        return data


def opened_bytes(file: IO[bytes], on_break: Callable[[str], object], on_bytes: OnBytes | None = None) -> ByteSource:
    """Return the decompressed bytes of a file. Raises `ZstdMissingError`; `on_break` gets the reason of a break."""
    read_some = getattr(file, "read1", file.read)

    def read(size: int) -> bytes:
        data: bytes = read_some(size)
        if on_bytes is not None:
            on_bytes(len(data))
        return data

    source = ByteSource(read, on_break)
    start = source.ahead(len(ZSTD_MAGIC))
    if start.startswith(GZIP_MAGIC):
        return ByteSource(gzip.GzipFile(fileobj=source.buffered()).read1, on_break)
    if start.startswith(ZSTD_MAGIC):
        return ByteSource(_Zstd(source.buffered()).read, on_break)
    return source


def decompressed(data: bytes, limit: int) -> bytes:
    """Return a message, decompressed where it is compressed.

    Raises `EOFError` if it does not decompress or grows beyond `limit` bytes, `ZstdMissingError` as above.
    """
    broken: list[str] = []
    source = opened_bytes(io.BytesIO(data), broken.append)
    whole = source.ahead(limit + 1)
    if broken:
        raise EOFError(broken[0])
    if len(whole) > limit:
        raise EOFError(f"grows to more than {limit:,} bytes")
    return whole


class _Zstd:
    """Frames of zstd, one after another."""

    def __init__(self, source: IO[bytes]) -> None:
        try:
            import zstandard  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise ZstdMissingError(ZSTD_MISSING) from error
        self._error = zstandard.ZstdError
        self._new = zstandard.ZstdDecompressor().decompressobj
        self._source = source
        self._frame: Any = None
        self._rest = b""

    def read(self, _: int) -> bytes:
        while True:
            chunk = self._rest or self._source.read(_ZSTD_CHUNK)
            if not chunk:
                if self._frame is not None:
                    raise EOFError("the last zstd frame is not whole")
                return b""
            frame = self._frame = self._frame or self._new()
            try:
                data = cast("bytes", frame.decompress(chunk))
            except self._error as error:
                raise EOFError(str(error)) from error
            self._rest = cast("bytes", frame.unused_data) if frame.eof else b""
            if frame.eof:
                self._frame = None
            if data:
                return data
