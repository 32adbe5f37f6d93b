"""Compression and bounded decompression of request bodies: gzip, deflate and zstd.

A decompressed body has at most `max_bytes`, and at most `max_ratio` times its compressed size once it is larger than
1 MiB. So a decompression bomb costs no more work than a valid body of the same size. Neither do many small members or
empty blocks: members and CPU time are limited.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Protocol, cast

GZIP_LEVEL = 1
"""Level of exported gzip. On OTLP data level 6 takes three times as long as 1 and saves a quarter of the bytes."""
ENCODINGS = ("gzip", "zstd", "deflate", "identity")
"""The supported content encodings."""

_RATIO_APPLIES_ABOVE = 1 << 20
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP, _ZLIB = 31, 15  # `wbits` of zlib
_MAX_MEMBERS = 1000
"""Members of gzip or frames of zstd in one body. Clients write one."""
_MAX_SECONDS = 1.0
"""CPU time for one body. The largest valid ones take a thirtieth; 19 MB of empty blocks take more."""
_PART_BYTES = 64 << 10
_ZSTD_PART_BYTES = 256
"""Compressed bytes decoded at once. They grow to 8 MiB at most: zstd's decoder takes no limit."""
_LARGEST_ZSTD_WINDOW = 8 << 20
"""The window that RFC 8878 (section 3.1.1.1.2) asks decoders to support. A larger one lets senders claim memory."""


class DecompressedTooLarge(ValueError):  # noqa: N818 - it becomes a response
    """The decompressed body exceeds its limit."""


class CorruptBody(ValueError):  # noqa: N818 - likewise
    """The body does not match its encoding, or is cut off."""


@dataclass(frozen=True, slots=True)
class DecompressionLimits:
    """How large a body may get."""

    max_bytes: int
    max_ratio: float

    def ceiling(self, compressed: int) -> int:
        """Return the largest size that so many compressed bytes may have when decompressed."""
        return min(self.max_bytes, max(_RATIO_APPLIES_ABOVE, int(compressed * self.max_ratio)))


def decompress(body: bytes, encoding: str, limits: DecompressionLimits) -> bytes:
    """Return the body without its content encoding, one of `ENCODINGS`. Raises DecompressedTooLarge, CorruptBody."""
    if encoding == "identity" or not body:
        if len(body) > limits.max_bytes:
            raise DecompressedTooLarge(f"{len(body):,} bytes, expected at most {limits.max_bytes:,}")
        return body
    ceiling = limits.ceiling(len(body))
    if encoding == "zstd":
        return _unzstd(body, ceiling)
    return _inflate(body, ceiling, _GZIP if encoding == "gzip" else _ZLIB)


def decompress_by_magic(body: bytes, limits: DecompressionLimits) -> bytes:
    """Return a gRPC message decompressed, by the encoding that its first bytes show.

    No protobuf message begins like gzip (0x1f is wire type 7, which there is not), and no OTLP request like zlib
    (0x78 is field 15, which they do not have). Raises as `decompress` does.
    """
    if body[:2] == _GZIP_MAGIC:
        return decompress(body, "gzip", limits)
    if body[:1] == b"\x78" and int.from_bytes(body[:2], "big") % 31 == 0:
        return decompress(body, "deflate", limits)
    return decompress(body, "identity", limits)


def gzip(body: bytes, level: int = GZIP_LEVEL) -> bytes:
    """Compress with gzip. ISA-L is used if installed: its level 1 is five times as fast as zlib's."""
    return cast("bytes", _zlib_library().compress(body, level, _GZIP))


def zlib_compress(data: bytes) -> bytes:
    """Compress to the zlib format, at level 1."""
    return cast("bytes", _zlib_library().compress(data, 1))


def zstd(body: bytes) -> bytes:
    """Compress with zstd at its default level."""
    return cast("bytes", import_module("zstandard").ZstdCompressor().compress(body))


def _zlib_library() -> ModuleType:
    return import_module("isal.isal_zlib") if find_spec("isal") else zlib


class _Decoder(Protocol):
    """Decodes one member of gzip or deflate, or one frame of zstd."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


class _Inflate:
    """A member of gzip or deflate, without more content than allowed."""

    def __init__(self, wbits: int, ceiling: int) -> None:
        self._member: Any = _zlib_library().decompressobj(wbits=wbits)
        self._left = ceiling

    @property
    def eof(self) -> bool:
        return cast("bool", self._member.eof)

    @property
    def unused_data(self) -> bytes:
        return cast("bytes", self._member.unused_data)

    def decompress(self, data: bytes, /) -> bytes:
        content = cast("bytes", self._member.decompress(data, self._left + 1))
        self._left -= len(content)
        return content


def _decompress_parts(
    body: bytes, part_bytes: int, ceiling: int, new_decoder: Callable[[int], _Decoder], error: type[Exception]
) -> bytes:
    """Decompress members or frames one after another.

    The body is fed in parts: a decoder copies what follows its end, so a whole body would be copied once a member.
    """
    began = time.thread_time()
    content = bytearray()
    decoder: _Decoder | None = None
    members = 0
    for start in range(0, len(body), part_bytes):
        rest = body[start : start + part_bytes]
        while rest:
            if decoder is None:
                members += 1
                if members > _MAX_MEMBERS:
                    raise CorruptBody(f"more than {_MAX_MEMBERS:,} members or frames")
                decoder = new_decoder(ceiling - len(content))
            try:
                content += decoder.decompress(rest)
            except error as reason:
                raise CorruptBody(f"damaged: {reason}") from None
            if len(content) > ceiling:
                raise _too_large(ceiling)
            rest = decoder.unused_data if decoder.eof else b""
            if decoder.eof:
                decoder = None
        if time.thread_time() - began > _MAX_SECONDS:
            raise CorruptBody(f"takes more than {_MAX_SECONDS:g} s to decompress")
    if decoder is not None:
        raise CorruptBody("ends in the middle")
    return bytes(content)


def _inflate(body: bytes, ceiling: int, wbits: int) -> bytes:
    errors = cast("type[Exception]", (zlib.error, _zlib_library().error))
    return _decompress_parts(body, _PART_BYTES, ceiling, lambda left: _Inflate(wbits, left), errors)


def _unzstd(body: bytes, ceiling: int) -> bytes:
    zstandard: Any = import_module("zstandard")
    decompressor = zstandard.ZstdDecompressor(max_window_size=_LARGEST_ZSTD_WINDOW)
    return _decompress_parts(
        body, _ZSTD_PART_BYTES, ceiling, lambda _: decompressor.decompressobj(), zstandard.ZstdError
    )


def _too_large(ceiling: int) -> DecompressedTooLarge:
    return DecompressedTooLarge(f"decompresses to more than {ceiling:,} bytes")


crc32: Callable[[bytes, int], int] = _zlib_library().crc32
"""The check sum of gzip, going on from that of what came before; ISA-L's takes a tenth of the time."""
