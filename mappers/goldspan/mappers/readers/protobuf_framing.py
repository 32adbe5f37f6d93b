"""Protobuf messages in a file. The bytes after the first length tell which framing of OTLP it uses.

    prefixed     4 bytes of length, big end first, before each message: the Collector's file exporter with
                 `format: proto`, or with `compression`, which compresses messages one by one
    delimited    a varint of length before each message, as `writeDelimitedTo` of protobuf does it
    bare         one message, read piece by piece, or several one after another, which is the same in protobuf

Lengths come from whoever wrote the file: none of them is believed beyond what is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import IO

from goldspan.mappers.readers.compression import GZIP_MAGIC, ZSTD_MAGIC

MAX_MESSAGE = 160 << 20
"""The longest message that is read: a length beyond is taken for a sign that what was read is no length.

It is 0x0A000000 bytes: a length below never starts with the tag that a bare message starts with.
"""
_CHUNK = 1 << 20
_RESOURCE_SPANS = 0x0A  # tag of the field `resource_spans`, the only one a trace request has
_OTHER_PAYLOADS = (GZIP_MAGIC, ZSTD_MAGIC, b"{")  # other starts of a prefixed message: compressed, or JSON
_VARINT, _LENGTH = 0, 2
_FIXED_SIZES = {1: 8, 5: 4}  # wire types, and the sizes of values with a fixed size
_IN_RESOURCE_SPANS = (0x0A, 0x12, 0x1A)  # tags of its fields `resource`, `scope_spans`, `schema_url`


class Framing(Enum):
    """How messages follow one another in a file."""

    PREFIXED = "prefixed"
    DELIMITED = "delimited"
    BARE = "bare"


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the varint at a position and its end; -1 if it is incomplete."""
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    return -1, at


def framing_of(head: bytes, *, is_whole: bool) -> Framing | None:
    """Tell the framing by the first bytes of a file, `is_whole` if they are all of it; none where they are no OTLP.

    Where several would do, as in very short files, one whose first message is not cut off is preferred.
    """
    delimited, delimited_at = varint(head, 0)
    bare, bare_at = varint(head, 1)
    first = {
        Framing.PREFIXED: (4, int.from_bytes(head[:4], "big")),
        Framing.BARE: (0, bare_at + bare),
        Framing.DELIMITED: (delimited_at, delimited),
    }
    found = [framing for framing, (at, size) in first.items() if _is_request(head[at:], size)]
    if not found and first[Framing.PREFIXED][1] < MAX_MESSAGE and head[4:].startswith(_OTHER_PAYLOADS):
        return Framing.PREFIXED
    fitting = [framing for framing in found if not is_whole or sum(first[framing]) <= len(head)]
    return next(iter(fitting or found), None)


def _is_request(start: bytes, size: int) -> bool:
    """Tell whether a message of this size may start like this."""
    if not 0 < size < MAX_MESSAGE or start[:1] != bytes([_RESOURCE_SPANS]):
        return False
    inner_size, at = varint(start, 1)
    if inner_size < 0 or at + inner_size > size:
        return False
    if inner_size == 0 or at >= len(start):
        return True
    field_size, field_at = varint(start, at + 1)
    return start[at] in _IN_RESOURCE_SPANS and 0 <= field_size <= inner_size - (field_at - at)


class Frames:
    """The messages of one stream. After the last message, `broken` says why reading stopped early, if it did."""

    def __init__(self, stream: IO[bytes], framing: Framing, start: int = 0) -> None:
        self._stream = stream
        self.framing = framing
        self.position = start
        """Where the message that was yielded last starts."""
        self.broken = ""
        self._read = start

    def next_size(self) -> int | None:
        """Read the next length only; None at the end, or where there is none that a message has."""
        found = self._frame()
        return None if found is None or found[1] > MAX_MESSAGE else found[1]

    def __iter__(self) -> Iterator[tuple[bytes, bool]]:
        """Yield each message, and whether it is whole: the last may be cut off."""
        read_one: Callable[[], tuple[bytes, int] | None] = self._record if self.framing is Framing.BARE else self._frame
        while (found := read_one()) is not None:
            header, size = found
            if size > MAX_MESSAGE:
                self.broken = f"found a length of {size:,} bytes, more than any message has"
                return
            message = self._take(size)
            yield header + message, len(message) == size

    def _frame(self) -> tuple[bytes, int] | None:
        self.position = self._read
        if self.framing is Framing.DELIMITED:
            size = self._varint()
            return None if size is None else (b"", size[0])
        prefix = self._take(4)
        if len(prefix) < 4:
            self.broken = "ends inside the length of a message" if prefix else ""
            return None
        return b"", int.from_bytes(prefix, "big")

    def _record(self) -> tuple[bytes, int] | None:
        """Find the next resource spans of a bare message, and skip all other fields."""
        while True:
            self.position = self._read
            tag = self._varint()
            if tag is None:
                return None
            wire = tag[0] & 7
            size = _FIXED_SIZES.get(wire, 0)
            if wire in (_VARINT, _LENGTH):
                value = self._varint()
                if value is None:
                    return None
                if tag[0] == _RESOURCE_SPANS:
                    return tag[1] + value[1], value[0]
                size = value[0] if wire == _LENGTH else 0
            if size > MAX_MESSAGE or (not size and wire not in (_VARINT, _LENGTH)):
                self.broken = "found something that is no field of a trace request"
                return None
            self._take(size)

    def _varint(self) -> tuple[int, bytes] | None:
        """Read a varint, and return it with its bytes."""
        taken = b""
        while len(taken) < 10:
            byte = self._take(1)
            taken += byte
            if not byte:
                self.broken = "ends inside the length of a message" if taken else ""
                return None
            if byte[0] < 0x80:
                return varint(taken, 0)[0], taken
        self.broken = "found something that is no length of a message"
        return None

    def _take(self, size: int) -> bytes:
        """Read this many bytes, fewer only at the end. A wrong length takes no extra memory."""
        if size <= _CHUNK:
            data = self._stream.read(size)
        else:
            chunks: list[bytes] = []
            left = size
            while left and (chunk := self._stream.read(min(left, _CHUNK))):
                chunks.append(chunk)
                left -= len(chunk)
            data = b"".join(chunks)
        self._read += len(data)
        return data
