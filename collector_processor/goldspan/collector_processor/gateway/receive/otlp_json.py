"""OTLP/JSON requests as protobuf ones, so that all that is behind the receivers knows one encoding.

The encoder is made from the descriptors of OTLP's messages: field names in camelCase (or as in the `.proto` files),
ids in hex, other bytes in base64, 64-bit integers as text or numbers, enumerations as numbers or names, unknown fields
passed by (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding). It writes the wire format straight away.

A span, log record or metric that cannot be written leaves its neighbours alone: it is dropped, counted and named, as
OTLP's partial success wants it.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import msgspec
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from goldspan.collector_processor.gateway.interfaces import Signal
from goldspan.mappers.json_shapes import is_list, is_object
from goldspan.scoring.json_values import shown

DEEPEST = 90
"""Messages in each other; protobuf's parsers stop at 100, and what is behind may add some of its own."""

_REQUESTS: Mapping[Signal, Any] = {
    Signal.TRACES: ExportTraceServiceRequest,
    Signal.LOGS: ExportLogsServiceRequest,
    Signal.METRICS: ExportMetricsServiceRequest,
}
_LISTS_OF_RECORDS = frozenset({
    "resource_spans", "scope_spans", "spans",
    "resource_logs", "scope_logs", "log_records",
    "resource_metrics", "scope_metrics", "metrics",
})  # fmt: skip
"""Lists whose items are dropped one by one."""
_COUNTED_LISTS = frozenset({"spans", "logRecords", "log_records", "dataPoints", "data_points"})
"""Lists of what a partial success counts."""
_HEX_BYTES = {"trace_id": 16, "span_id": 8, "parent_span_id": 8}
_SHOWN = 60
_LEN = 2


class InvalidRequest(ValueError):  # noqa: N818 - it becomes an answer
    """The text as a whole is no OTLP/JSON request."""


@dataclass(frozen=True, slots=True)
class ConvertedRequest:
    """A request as protobuf, and what had to be left out of it."""

    body: bytes
    rejected: int = 0
    """Spans, log records or data points left out."""
    message: str = ""
    """The first thing wrong with one of them, with its place."""


class _InvalidValue(ValueError):  # noqa: N818 - it ends the nearest record
    """A value its field cannot hold; the way to it grows from the inside."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self._message = message
        self._steps: list[str] = []

    def within(self, step: str) -> _InvalidValue:
        self._steps.append(step)
        return self

    def __str__(self) -> str:
        path = "".join(reversed(self._steps)).lstrip(".")
        return f"{path}: {self._message}" if path else self._message


@dataclass(slots=True)
class _DroppedRecords:
    """What was left out of one request."""

    rejected: int = 0
    message: str = ""
    way: list[str] = field(default_factory=list[str])
    """The lists we are in, each with the index of its item."""

    def add(self, item: object, error: _InvalidValue) -> None:
        self.rejected += max(1, _count_records(item))
        if not self.message:
            for step in reversed(self.way):
                error.within(f".{step}")
            self.message = str(error)


def json_to_protobuf(signal: Signal, text: bytes) -> ConvertedRequest:
    """Return the request as protobuf. Raises NotARequest where nothing of it can be used."""
    try:
        document = _loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"not JSON: {error}") from None
    losses = _DroppedRecords()
    try:
        body = _message(_REQUESTS[signal].DESCRIPTOR)(document, losses, 1)
    except _InvalidValue as error:
        raise InvalidRequest(str(error)) from None
    return ConvertedRequest(body, losses.rejected, losses.message)


def _loads(text: bytes) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # Slower, and more lenient: NaN, lone surrogates, a byte order mark.
        return json.loads(text.decode("utf-8-sig", errors="replace"))


_Encode = Callable[[Any, _DroppedRecords, int], bytes]
"""Writes a field, tag and all, of a message so deep in others."""


@cache
def _message(descriptor: Descriptor) -> _Message:
    return _Message(descriptor)


class _Message:
    """Writes one kind of message; the encoders of its fields are made when it is first met."""

    def __init__(self, descriptor: Descriptor) -> None:
        self._descriptor = descriptor
        self._fields: dict[str, _Encode] | None = None

    def __call__(self, value: object, losses: _DroppedRecords, depth: int) -> bytes:
        if not is_object(value):
            raise _InvalidValue(f"found {shown(value, _SHOWN)}, expected an object")
        if depth > DEEPEST:
            raise _InvalidValue(f"nested more than {DEEPEST} levels deep")
        if self._fields is None:
            self._fields = {name: _field(one) for one in self._descriptor.fields for name in (one.name, one.json_name)}
        parts: list[bytes] = []
        for name, item in value.items():
            encode = self._fields.get(name)
            if encode is None or item is None:
                continue
            try:
                parts.append(encode(item, losses, depth))
            except _InvalidValue as error:
                raise error.within(f".{name}") from None
        return b"".join(parts)


def _field(one: FieldDescriptor) -> _Encode:
    if one.message_type is not None:
        return _messages(one) if one.is_repeated else _one_message(one)
    scalar = _scalar(one)
    if one.is_repeated:
        return _packed(one, scalar)
    tag = _varint(one.number << 3 | scalar.wire_type)
    # A zero is not written where it is what a missing field says.
    zero = None if one.has_presence else scalar.zero

    def encode(value: Any, _losses: _DroppedRecords, _depth: int) -> bytes:
        written = scalar.write(value)
        return b"" if written == zero else tag + written

    return encode


def _one_message(one: FieldDescriptor) -> _Encode:
    tag, inner = _varint(one.number << 3 | _LEN), _message(one.message_type)

    def encode(value: Any, losses: _DroppedRecords, depth: int) -> bytes:
        written = inner(value, losses, depth + 1)
        return tag + _varint(len(written)) + written

    return encode


def _messages(one: FieldDescriptor) -> _Encode:
    tag, inner = _varint(one.number << 3 | _LEN), _message(one.message_type)

    def encode(value: Any, losses: _DroppedRecords, depth: int) -> bytes:
        parts: list[bytes] = []
        for index, item in enumerate(_list(value)):
            try:
                written = inner(item, losses, depth + 1)
            except _InvalidValue as error:
                raise error.within(f"[{index}]") from None
            parts += (tag, _varint(len(written)), written)
        return b"".join(parts)

    def encode_each(value: Any, losses: _DroppedRecords, depth: int) -> bytes:
        parts: list[bytes] = []
        items = _list(value)
        losses.way.append("")
        for index, item in enumerate(items):
            losses.way[-1] = f"{one.json_name}[{index}]"
            try:
                written = inner(item, losses, depth + 1)
            except _InvalidValue as error:
                losses.add(item, error)
                continue
            parts += (tag, _varint(len(written)), written)
        losses.way.pop()
        return b"".join(parts)

    return encode_each if one.name in _LISTS_OF_RECORDS else encode


def _packed(one: FieldDescriptor, scalar: _Scalar) -> _Encode:
    packed = _varint(one.number << 3 | _LEN)
    single = _varint(one.number << 3 | scalar.wire_type)

    def encode(value: Any, _losses: _DroppedRecords, _depth: int) -> bytes:
        written = [scalar.write(item) for item in _list(value)]
        if scalar.wire_type == _LEN:
            return b"".join(single + item for item in written)
        content = b"".join(written)
        return packed + _varint(len(content)) + content if content else b""

    return encode


@dataclass(frozen=True, slots=True)
class _Scalar:
    """How the values of one field are written, without the tag."""

    wire_type: int
    write: Callable[[Any], bytes]
    zero: bytes = field(default=b"\0")


def _scalar(one: FieldDescriptor) -> _Scalar:
    kind = FieldDescriptor
    match one.type:
        case kind.TYPE_STRING:
            return _Scalar(_LEN, _text)
        case kind.TYPE_BYTES:
            size = _HEX_BYTES.get(one.name)
            return _Scalar(_LEN, _base64 if size is None else _hex_of(size))
        case kind.TYPE_BOOL:
            return _Scalar(0, _bool)
        case kind.TYPE_DOUBLE:
            return _Scalar(1, _double, bytes(8))
        case kind.TYPE_FIXED64 | kind.TYPE_SFIXED64:
            signed = one.type == kind.TYPE_SFIXED64
            return _Scalar(1, lambda value: _fixed(value, 8, signed=signed), bytes(8))
        case kind.TYPE_FIXED32 | kind.TYPE_SFIXED32:
            signed = one.type == kind.TYPE_SFIXED32
            return _Scalar(5, lambda value: _fixed(value, 4, signed=signed), bytes(4))
        case kind.TYPE_SINT32 | kind.TYPE_SINT64:
            bits = 32 if one.type == kind.TYPE_SINT32 else 64
            return _Scalar(0, lambda value: _varint(_zigzag(_integer(value, bits, signed=True), bits)))
        case kind.TYPE_ENUM:
            numbers = _numbers(one.enum_type)
            return _Scalar(0, lambda value: _varint(_integer(_number(numbers, value), 32, signed=True)))
        case kind.TYPE_UINT32 | kind.TYPE_UINT64:
            bits = 32 if one.type == kind.TYPE_UINT32 else 64
            return _Scalar(0, lambda value: _varint(_integer(value, bits, signed=False)))
        case _:
            bits = 32 if one.type == kind.TYPE_INT32 else 64
            return _Scalar(0, lambda value: _varint(_integer(value, bits, signed=True)))


def _numbers(enum: EnumDescriptor | None) -> Mapping[str, int]:
    return {} if enum is None else {one.name: one.number for one in enum.values}


def _number(numbers: Mapping[str, int], value: object) -> object:
    return numbers.get(value, value) if isinstance(value, str) else value


def _list(value: object) -> Sequence[object]:
    if not is_list(value):
        raise _InvalidValue(f"found {shown(value, _SHOWN)}, expected a list")
    return value


def _text(value: object) -> bytes:
    if not isinstance(value, str):
        raise _InvalidValue(f"found {shown(value, _SHOWN)}, expected text")
    written = value.encode("utf-8", "replace")
    return _varint(len(written)) + written


def _bool(value: object) -> bytes:
    if not isinstance(value, bool):
        raise _InvalidValue(f"found {shown(value, _SHOWN)}, expected true or false")
    return b"\1" if value else b"\0"


def _double(value: object) -> bytes:
    try:
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            return struct.pack("<d", float(value))
    except (ValueError, OverflowError):
        pass
    raise _InvalidValue(f"found {shown(value, _SHOWN)}, expected a number")


def _fixed(value: object, size: int, *, signed: bool) -> bytes:
    return _integer(value, 8 * size, signed=signed).to_bytes(size, "little", signed=signed)


def _integer(value: object, bits: int, *, signed: bool) -> int:
    """Return a number, or a text of one, that fits so many bits."""
    number = value
    if isinstance(value, str) and len(value) <= 21 and value.strip().lstrip("-").isascii():
        try:
            number = int(value)
        except ValueError:
            number = value
    elif isinstance(value, float) and value.is_integer():
        number = int(value)
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
        raise _InvalidValue(f"found {shown(value, _SHOWN)}, expected an integer from {least} to {most}")
    return number


def _hex_of(size: int) -> Callable[[object], bytes]:
    lengths = {2 * size, 0}
    in_base64 = (size + 2) // 3 * 4

    def write(value: object) -> bytes:
        if isinstance(value, str):
            try:
                if len(value) in lengths:
                    return _sized(bytes.fromhex(value))
                if len(value) == in_base64 and len(found := base64.b64decode(value, validate=True)) == size:
                    # `json_format` of protobuf writes ids like any other bytes.
                    return _sized(found)
            except (ValueError, binascii.Error):
                pass
        raise _InvalidValue(f"found {shown(value, _SHOWN)}, expected {2 * size} hex digits")

    return write


def _base64(value: object) -> bytes:
    if isinstance(value, str):
        try:
            return _sized(base64.b64decode(value.replace("-", "+").replace("_", "/"), validate=True))
        except (ValueError, binascii.Error):
            pass
    raise _InvalidValue(f"found {shown(value, _SHOWN)}, expected base64")


def _sized(content: bytes) -> bytes:
    return _varint(len(content)) + content


def _varint(number: int) -> bytes:
    if 0 <= number < 0x80:
        return _SMALL[number]
    number &= 0xFFFFFFFFFFFFFFFF  # a negative number takes ten bytes
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


_SMALL = [bytes([number]) for number in range(0x80)]


def _zigzag(number: int, bits: int) -> int:
    return (number << 1 ^ number >> bits - 1) & ((1 << bits) - 1)


def _count_records(item: object) -> int:
    """Count the spans, log records or data points in a part of a request that is left out."""
    if not is_object(item):
        return 0
    total = 0
    for name, inner in item.items():
        if name in _COUNTED_LISTS and is_list(inner):
            total += len(inner)
        elif is_list(inner):
            total += sum(_count_records(one) for one in inner)
        elif name in {"gauge", "sum", "histogram", "exponentialHistogram", "exponential_histogram", "summary"}:
            total += _count_records(inner)
    return total
