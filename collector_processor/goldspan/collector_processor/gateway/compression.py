"""Compression and bounded decompression of request bodies: gzip, deflate and zstd.

A decompressed body has at most `max_bytes`, and at most `max_ratio` times its compressed size once it is larger than
1 MiB. So a decompression bomb costs no more work than a valid body of the same size.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, cast

GZIP_LEVEL = 1
"""Level of exported gzip. On OTLP data level 6 takes three times as long as 1 and saves a quarter of the bytes."""
ENCODINGS = ("gzip", "zstd", "deflate", "identity")
"""The supported content encodings."""

_RATIO_APPLIES_ABOVE = 1 << 20
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP, _ZLIB = 31, 15  # `wbits` of zlib
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


def gzip_engine() -> str:
    """Name the library that compresses gzip here: `isal` or `zlib`."""
    return "isal" if _zlib_library() is not zlib else "zlib"


def _zlib_library() -> ModuleType:
    return import_module("isal.isal_zlib") if find_spec("isal") else zlib


def _inflate(body: bytes, ceiling: int, wbits: int) -> bytes:
    """Decompress one of zlib's formats, with any number of members one after another."""
    engine = _zlib_library()
    content = bytearray()
    while body:
        member: Any = engine.decompressobj(wbits=wbits)
        while not member.eof:
            try:
                part = member.decompress(body, ceiling + 1 - len(content))
            except (zlib.error, cast("type[Exception]", engine.error)) as error:
                raise CorruptBody(f"damaged: {error}") from None
            content += part
            if len(content) > ceiling:
                raise _too_large(ceiling)
            body = member.unconsumed_tail
            if not member.eof and not body and not part:
                raise CorruptBody("ends in the middle")
        body = member.unused_data
    return bytes(content)


def _unzstd(body: bytes, ceiling: int) -> bytes:
    _check_zstd_is_whole(body)
    zstandard: Any = import_module("zstandard")
    reader: Callable[..., Any] = zstandard.ZstdDecompressor(max_window_size=_LARGEST_ZSTD_WINDOW).stream_reader
    content = bytearray()
    try:
        with reader(body, read_across_frames=True) as stream:
            while part := stream.read(min(ceiling + 1 - len(content), 1 << 20)):
                content += part
                if len(content) > ceiling:
                    raise _too_large(ceiling)
    except zstandard.ZstdError as error:
        raise CorruptBody(f"damaged: {error}") from None
    return bytes(content)


def _check_zstd_is_whole(body: bytes) -> None:
    """Walk over frames and blocks (RFC 8878, section 3.1.1): the decoder does not report a cut-off body."""
    at = 0
    while at < len(body):
        magic = int.from_bytes(body[at : at + 4], "little")
        if magic & 0xFFFFFFF0 == 0x184D2A50:  # a frame to be skipped
            at += 8 + int.from_bytes(body[at + 4 : at + 8], "little")
            continue
        if magic != 0xFD2FB528 or at + 5 > len(body):
            raise CorruptBody("not zstd")
        descriptor = body[at + 4]
        single_segment = descriptor >> 5 & 1
        size_of_content = (1 if single_segment else 0, 2, 4, 8)[descriptor >> 6]
        at += 5 + (1 - single_segment) + (0, 1, 2, 4)[descriptor & 3] + size_of_content
        last = False
        while not last:
            if at + 3 > len(body):
                raise CorruptBody("ends in the middle")
            header = int.from_bytes(body[at : at + 3], "little")
            last = bool(header & 1)
            repeated = header >> 1 & 3 == 1
            at += 3 + (1 if repeated else header >> 3)
        at += 4 if descriptor >> 2 & 1 else 0
    if at > len(body):
        raise CorruptBody("ends in the middle")


def _too_large(ceiling: int) -> DecompressedTooLarge:
    return DecompressedTooLarge(f"decompresses to more than {ceiling:,} bytes")


crc32: Callable[[bytes, int], int] = _zlib_library().crc32
"""The check sum of gzip, going on from that of what came before; ISA-L's takes a tenth of the time."""
