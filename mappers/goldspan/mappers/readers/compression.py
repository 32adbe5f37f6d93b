"""Bytes of trace files and requests, plain, gzip, deflate or zstd: read with bounded memory, and compressed.

A file ends where its stream breaks: the bytes before it are read, and the reason is reported. A request is read whole
or not at all. It has at most `max_bytes`, and at most `max_ratio` times its compressed size once it is larger than
1 MiB. So a decompression bomb costs no more work than a valid body of the same size. Neither do many small members or
empty blocks: members and CPU time are limited.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import IO, Any, cast

OnBytes = Callable[[int], object]
"""Called with the number of bytes just read from a file, before decompression; used for progress."""

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
ZSTD_MISSING = "is compressed by zstd, and zstandard is not installed; pip install 'goldspan[zstd]'"
ENCODINGS = ("gzip", "zstd", "deflate", "identity")
"""The supported content encodings of requests."""
_BUFFER = 1 << 18
_CONTENT = 1 << 20  # bytes of a file's content that are decompressed at once
_PARTS = {"gzip": 64 << 10, "deflate": 64 << 10, "zstd": 256}
"""Compressed bytes decoded at once. Those of zstd, whose decoder takes no limit, grow to 8 MiB at most.

A decoder copies what follows its end, so a whole body would be copied once a member.
"""
_WBITS = {"gzip": 31, "deflate": 15}  # the formats for zlib
GZIP_LEVEL = 1
"""Level of exported gzip. On OTLP data level 6 takes three times as long as 1 and saves a quarter of the bytes."""
_LARGEST_ZSTD_WINDOW = 8 << 20
"""The window that RFC 8878 (section 3.1.1.1.2) asks decoders to support. A larger one lets senders claim memory."""
_FILES_WINDOW = 128 << 20  # that of zstd's own tool: whoever names a file trusts it so far
_RATIO_APPLIES_ABOVE = 1 << 20
_MAX_MEMBERS = 1000
"""Members of gzip or frames of zstd in one body. Clients write one."""
_MAX_SECONDS = 1.0
"""CPU time for one body. The largest valid ones take a thirtieth; 19 MB of empty blocks take more."""


class ZstdMissingError(Exception):
    """Something is compressed by zstd, and the package that reads it is not installed."""


class DecompressedTooLarge(ValueError):  # noqa: N818 - it becomes a response
    """The decompressed body exceeds its limit."""


class CorruptBody(ValueError):  # noqa: N818 - likewise
    """The body does not match its encoding, or is cut off."""


@dataclass(frozen=True, slots=True)
class DecompressionLimits:
    """How large a body may get."""

    max_bytes: int
    max_ratio: float
    cpu_time: Callable[[], float] = field(default=lambda: 0.0)
    """The clock by which it may take `_MAX_SECONDS`."""

    def ceiling(self, compressed: int) -> int:
        """Return the largest size that so many compressed bytes may have when decompressed."""
        return min(self.max_bytes, max(_RATIO_APPLIES_ABOVE, int(compressed * self.max_ratio)))


@cache
def zlib_library() -> ModuleType:
    """Return ISA-L, which takes a fifth of the time, if it is installed; else zlib."""
    return import_module("isal.isal_zlib") if find_spec("isal") else zlib


class _Decompressed:
    """The content of members of gzip or deflate, or of frames of zstd, one after another."""

    def __init__(
        self, read: Callable[[int], bytes], encoding: str, window: int, check: Callable[[int], object]
    ) -> None:
        """`check` is called with the number of members before each part. Raises ZstdMissingError."""
        self._source = read
        self._part = _PARTS[encoding]
        self._check = check
        self._members = 0
        self._member: Any = None
        self._rest = b""
        library = zlib_library()
        self._new: Callable[[], Any] = partial(library.decompressobj, wbits=_WBITS.get(encoding, 0))
        self._errors: tuple[type[Exception], ...] = (zlib.error, library.error)
        self._is_zstd = encoding == "zstd"
        if self._is_zstd:
            try:
                zstandard = import_module("zstandard")  # an extra
            except ImportError as error:
                raise ZstdMissingError(ZSTD_MISSING) from error
            self._new = zstandard.ZstdDecompressor(max_window_size=window).decompressobj
            self._errors = (zstandard.ZstdError,)

    def read(self, size: int = _CONTENT) -> bytes:
        """Return more of the content; empty at its end. Raises EOFError where it breaks."""
        while True:
            chunk = self._rest or self._source(self._part)
            if self._member is None:
                if self._members and not self._is_zstd and chunk.strip(b"\0") == b"":
                    self._rest = b""  # some writers fill a file up
                    if chunk:
                        continue
                if not chunk:
                    return b""
                self._member = self._new()
                self._members += 1
            self._check(self._members)
            content = self._decoded(chunk, size)
            if content:
                return content
            if not chunk and self._member is not None:
                raise EOFError("ends in the middle")

    def _decoded(self, chunk: bytes, size: int) -> bytes:
        member = self._member
        try:
            content = cast("bytes", member.decompress(chunk) if self._is_zstd else member.decompress(chunk, size))
        except self._errors as error:
            raise EOFError(f"damaged: {error}") from error
        if member.eof:
            self._member, self._rest = None, member.unused_data
        else:
            self._rest = b"" if self._is_zstd else member.unconsumed_tail
        return content


def decompress(body: bytes, encoding: str, limits: DecompressionLimits) -> bytes:
    """Return the body without its content encoding, one of `ENCODINGS`. Raises DecompressedTooLarge, CorruptBody."""
    if encoding == "identity" or not body:
        if len(body) > limits.max_bytes:
            raise DecompressedTooLarge(f"{len(body):,} bytes, expected at most {limits.max_bytes:,}")
        return body
    ceiling = limits.ceiling(len(body))
    began = limits.cpu_time()

    def check(members: int) -> None:
        if members > _MAX_MEMBERS:
            raise CorruptBody(f"more than {_MAX_MEMBERS:,} members or frames")
        if limits.cpu_time() - began > _MAX_SECONDS:
            raise CorruptBody(f"takes more than {_MAX_SECONDS:g} s to decompress")

    parts = _Decompressed(io.BytesIO(body).read, encoding, _LARGEST_ZSTD_WINDOW, check)
    content = bytearray()
    try:
        while part := parts.read(ceiling + 1 - len(content)):
            content += part
            if len(content) > ceiling:
                raise DecompressedTooLarge(f"decompresses to more than {ceiling:,} bytes")
    except EOFError as error:
        raise CorruptBody(str(error)) from None
    return bytes(content)


def decompress_by_magic(body: bytes, limits: DecompressionLimits) -> bytes:
    """Return a gRPC message decompressed, by the encoding that its first bytes show.

    No protobuf message begins like gzip (0x1f is wire type 7, which there is not), and no OTLP request like zlib
    (0x78 is field 15, which they do not have). Raises as `decompress` does.
    """
    if body[:2] == GZIP_MAGIC:
        return decompress(body, "gzip", limits)
    if body[:1] == b"\x78" and int.from_bytes(body[:2], "big") % 31 == 0:
        return decompress(body, "deflate", limits)
    return decompress(body, "identity", limits)


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
        return _decompressed(source, "gzip", on_break)
    if start.startswith(ZSTD_MAGIC):
        return _decompressed(source, "zstd", on_break)
    return source


def _decompressed(source: ByteSource, encoding: str, on_break: Callable[[str], object]) -> ByteSource:
    parts = _Decompressed(source.buffered().read, encoding, _FILES_WINDOW, lambda _members: None)
    return ByteSource(lambda _size: parts.read(), on_break)


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


def gzip(body: bytes, level: int = GZIP_LEVEL) -> bytes:
    """Compress with gzip. ISA-L is used if installed: its level 1 is five times as fast as zlib's."""
    return cast("bytes", zlib_library().compress(body, level, _WBITS["gzip"]))


def zstd(body: bytes) -> bytes:
    """Compress with zstd at its default level."""
    return cast("bytes", import_module("zstandard").ZstdCompressor().compress(body))
