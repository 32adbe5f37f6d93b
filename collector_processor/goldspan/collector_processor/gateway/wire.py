"""Protobuf written by hand: the few encodings that the gateway needs to add to what it forwards.

https://protobuf.dev/programming-guides/encoding/ and opentelemetry-proto's common.proto
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence

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


def field(number: int, content: bytes) -> bytes:
    """Encode a field of bytes, text or a message."""
    return b"%b%b%b" % (varint(number << 3 | 2), varint(len(content)), content)


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
    return b"".join([field(number, field(1, _utf8(key)) + field(2, any_value(attributes[key]))) for key in attributes])


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
