"""Protobuf written by hand: the few encodings that the gateway needs to add to what it forwards.

https://protobuf.dev/programming-guides/encoding/ and opentelemetry-proto's common.proto
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

Value = str | bool | int | float | bytes | Sequence[str]
"""What an attribute may hold here."""


def varint(number: int) -> bytes:
    """Encode a number that is not negative."""
    if number < 0x80:
        return _SMALL[number]
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


_SMALL = [bytes([number]) for number in range(0x80)]
_FEW = 16
_STARTS = [[bytes([number << 3 | 2, size]) for size in range(0x80)] for number in range(_FEW)]
"""Tag and length of short fields, by number and length."""
_SHORT = 64
"""Letters of a text that may well be written again."""


def field(number: int, content: bytes) -> bytes:
    """Encode a field of bytes, text or a message."""
    size = len(content)
    if size < 0x80 and number < _FEW:
        return _STARTS[number][size] + content
    return b"%b%b%b" % (varint(number << 3 | 2), varint(size), content)


def fixed64(number: int, value: int) -> bytes:
    """Encode a field of the type `fixed64`."""
    return varint(number << 3 | 1) + struct.pack("<Q", value & 0xFFFFFFFFFFFFFFFF)


def fixed32(number: int, value: int) -> bytes:
    """Encode a field of the type `fixed32`."""
    return varint(number << 3 | 5) + struct.pack("<I", value)


def number_field(number: int, value: int) -> bytes:
    """Encode a field of the types `int32`, `int64`, `enum` or `bool`."""
    return varint(number << 3) + varint(value & 0xFFFFFFFFFFFFFFFF)


def key_values(number: int, attributes: Mapping[str, Value]) -> bytes:
    """Encode attributes as a repeated field of `KeyValue`."""
    return b"".join([_key_value(number, key, attributes[key]) for key in attributes])


def _key_value(number: int, key: str, value: Value) -> bytes:
    if isinstance(value, int) or (isinstance(value, str) and len(value) <= _SHORT):
        return _known_key_value(number, key, value)
    return field(number, _key(key) + field(2, any_value(value)))


@lru_cache(4096, typed=True)
def _known_key_value(number: int, key: str, value: str | int) -> bytes:
    """Encode an attribute; of most that are written the same was said before."""
    return field(number, _key(key) + field(2, any_value(value)))


@lru_cache(1024)
def _key(key: str) -> bytes:
    return field(1, _utf8(key))


def any_value(value: Value) -> bytes:
    """Encode the content of an `AnyValue`."""
    if isinstance(value, str):
        return field(1, _utf8(value))
    if isinstance(value, bool):
        return number_field(2, value)
    if isinstance(value, int):
        return number_field(3, value)
    if isinstance(value, float):
        return b"\x21" + struct.pack("<d", value)
    if isinstance(value, bytes):
        return field(7, value)
    return field(5, _values(value))


def _values(values: Iterable[Value]) -> bytes:
    return b"".join([field(1, any_value(value)) for value in values])


def _utf8(text: str) -> bytes:
    """Encode text; a lone surrogate, which UTF-8 has no place for, is escaped."""
    return text.encode("utf-8", "backslashreplace")
