"""Compressed bodies: what comes out is what went in, whole or not at all, and never more than is allowed."""

from __future__ import annotations

import gzip
import random
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from goldspan.mappers.readers import compression
from goldspan.mappers.readers.compression import (
    CorruptBody,
    DecompressedTooLarge,
    DecompressionLimits,
    decompress,
    decompress_by_magic,
)

BOUNDS = DecompressionLimits(8 << 20, 200, time.thread_time)
MAKE: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": zstandard.ZstdCompressor(write_checksum=True).compress,
}
_texts = st.binary(max_size=2000) | st.builds(
    lambda part, times: part * times, st.binary(max_size=50), st.integers(0, 9000)
)


@pytest.fixture(params=["isal", "zlib"], autouse=True)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With ISA-L and without."""
    if request.param == "zlib":
        monkeypatch.setattr(compression, "zlib_library", lambda: zlib)
    return request.param


@pytest.mark.parametrize("encoding", MAKE)
@given(text=_texts)
def test_what_went_in_comes_out(encoding: str, text: bytes) -> None:
    made = MAKE[encoding](text)
    assert decompress(made, encoding, BOUNDS) == text
    if encoding != "zstd":
        assert decompress_by_magic(made, BOUNDS) == text


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
@given(texts=st.lists(_texts, min_size=1, max_size=4))
def test_members_one_after_another_are_one_text(encoding: str, texts: list[bytes]) -> None:
    assert decompress(b"".join(map(MAKE[encoding], texts)), encoding, BOUNDS) == b"".join(texts)


@pytest.mark.parametrize("encoding", MAKE)
@given(text=_texts, data=st.data())
def test_a_body_cut_off_is_never_taken_for_whole(encoding: str, text: bytes, data: Any) -> None:
    made = MAKE[encoding](text)
    cut = made[: data.draw(st.integers(1, len(made) - 1))]
    with pytest.raises(CorruptBody):
        decompress(cut, encoding, BOUNDS)


@pytest.mark.parametrize("encoding", MAKE)
@given(junk=st.binary(min_size=1, max_size=300))
def test_junk_is_refused_or_read_and_never_breaks_it(encoding: str, junk: bytes) -> None:
    for body in (junk, MAKE[encoding](b"honest")[:8] + junk):
        with suppress(CorruptBody, DecompressedTooLarge):
            decompress(body, encoding, BOUNDS)


@pytest.mark.parametrize("encoding", MAKE)
def test_the_ceiling_is_exact(encoding: str) -> None:
    for length, bounds in ((1000, DecompressionLimits(1000, 1e9)), (2 << 20, DecompressionLimits(2 << 20, 1e9))):
        assert len(decompress(MAKE[encoding](bytes(length)), encoding, bounds)) == length
        with pytest.raises(DecompressedTooLarge):
            decompress(MAKE[encoding](bytes(length + 1)), encoding, bounds)


@pytest.mark.parametrize("encoding", MAKE)
def test_the_ratio_counts_beyond_a_mebibyte(encoding: str) -> None:
    bounds = DecompressionLimits(1 << 30, 10)
    assert len(decompress(MAKE[encoding](bytes(1 << 20)), encoding, bounds)) == 1 << 20
    with pytest.raises(DecompressedTooLarge):
        decompress(MAKE[encoding](bytes((1 << 20) + 1)), encoding, bounds)


@pytest.mark.parametrize("encoding", MAKE)
def test_a_bomb_costs_no_more_than_its_ceiling(encoding: str) -> None:
    bomb = MAKE[encoding](bytes(256 << 20))
    began = time.process_time()
    with pytest.raises(DecompressedTooLarge):
        decompress(bomb, encoding, BOUNDS)
    assert time.process_time() - began < 0.5


_SKIPPED_FRAME = b"\x50\x2a\x4d\x18" + bytes(4)
_EMPTY_BLOCKS = b"\x28\xb5\x2f\xfd\x00\x58" + bytes(3 * 6_000_000) + b"\x01\x00\x00"


@pytest.mark.parametrize("content", [b"", b"x"])
@pytest.mark.parametrize("encoding", MAKE)
def test_many_small_members_are_refused_for_what_a_few_cost(encoding: str, content: bytes) -> None:
    member = MAKE[encoding](content)
    assert decompress(member * 1000, encoding, BOUNDS) == content * 1000
    refused_in: list[float] = []
    for members in (2_000, 500_000):
        body = member * members
        began = time.thread_time()
        with pytest.raises(CorruptBody, match=r"more than 1,000 members"):
            decompress(body, encoding, BOUNDS)
        refused_in.append(time.thread_time() - began)
    assert refused_in[1] < 10 * refused_in[0] + 0.05


def test_frames_to_be_skipped_count() -> None:
    assert decompress(_SKIPPED_FRAME * 999 + MAKE["zstd"](b"x"), "zstd", BOUNDS) == b"x"
    with pytest.raises(CorruptBody, match="frames"):
        decompress(_SKIPPED_FRAME * 1001, "zstd", BOUNDS)


def test_empty_blocks_cost_little_each() -> None:
    began = time.thread_time()
    assert decompress(_EMPTY_BLOCKS, "zstd", BOUNDS) == b""
    assert time.thread_time() - began < 1


def test_a_body_that_takes_too_long_is_refused() -> None:
    times = iter(range(100))
    bounds = DecompressionLimits(8 << 20, 200, lambda: float(next(times)))
    with pytest.raises(CorruptBody, match="takes more than 1 s"):
        decompress(MAKE["gzip"](random.Random(1).randbytes(1 << 20)), "gzip", bounds)


def test_a_window_beyond_what_decoders_must_have_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=27, enable_ldm=True)
    made = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    body = made.compress(b"x" * 100) + made.flush()
    with pytest.raises(CorruptBody):
        decompress(body, "zstd", BOUNDS)


def test_plain_bodies_have_the_ceiling_too() -> None:
    assert decompress(b"abc", "identity", DecompressionLimits(3, 1)) == b"abc"
    assert decompress_by_magic(b"\x0a\x01a", DecompressionLimits(3, 1)) == b"\x0a\x01a"
    with pytest.raises(DecompressedTooLarge):
        decompress(b"abcd", "identity", DecompressionLimits(3, 1))


@given(text=_texts)
def test_what_leaves_can_be_read_by_everybody(text: bytes) -> None:
    assert gzip.decompress(compression.gzip(text)) == text
    assert zstandard.ZstdDecompressor().decompress(compression.zstd(text)) == text
