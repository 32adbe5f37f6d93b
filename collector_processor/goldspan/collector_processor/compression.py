"""Compression: gzip and zlib, by ISA-L where it is installed, and zstd. `readers.decompression` undoes it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import cast

from goldspan.mappers.readers.decompression import zlib_library

GZIP_LEVEL = 1
"""Level of exported gzip. On OTLP data level 6 takes three times as long as 1 and saves a quarter of the bytes."""
_GZIP = 31  # `wbits` of zlib


def gzip(body: bytes, level: int = GZIP_LEVEL) -> bytes:
    """Compress with gzip. ISA-L is used if installed: its level 1 is five times as fast as zlib's."""
    return cast("bytes", zlib_library().compress(body, level, _GZIP))


def zlib_compress(data: bytes) -> bytes:
    """Compress to the zlib format, at level 1."""
    return cast("bytes", zlib_library().compress(data, 1))


def zstd(body: bytes) -> bytes:
    """Compress with zstd at its default level."""
    return cast("bytes", import_module("zstandard").ZstdCompressor().compress(body))


crc32: Callable[[bytes, int], int] = zlib_library().crc32
"""The check sum of gzip, going on from that of what came before; ISA-L's takes a tenth of the time."""
