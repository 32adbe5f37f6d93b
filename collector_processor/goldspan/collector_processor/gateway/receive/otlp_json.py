"""Converts OTLP/JSON requests to protobuf, so that the rest of the gateway knows one encoding.

The encoder is made from the descriptors of OTLP's messages: field names in camelCase (or as in the `.proto` files),
ids in hex, other bytes in base64, 64-bit integers as text or numbers, enumerations as numbers or names, unknown fields
ignored (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding). It writes the wire format directly.

An invalid span, log record or metric does not affect the others: it is dropped, counted and named in the partial
success of the response.
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
from goldspan.scoring.json_values import shown
from goldspan.scoring.type_guards import is_dict, is_list

MAX_DEPTH = 90
"""Nested messages. Protobuf parsers stop at 100, and a back-end may add levels of its own."""

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
"""Lists whose invalid items are dropped one by one."""
_COUNTED_LISTS = frozenset({"spans", "logRecords", "log_records", "dataPoints", "data_points"})
"""Lists whose items a partial success counts."""
_HEX_BYTES = {"trace_id": 16, "span_id": 8, "parent_span_id": 8}
_SHOWN = 60
_LEN = 2


class InvalidRequest(ValueError):  # noqa: N818 - it becomes a response
    """The body is not an OTLP/JSON request."""


@dataclass(frozen=True, slots=True)
class ConvertedRequest:
    """A request as protobuf, and what was dropped from it."""

    body: bytes
    rejected: int = 0
    """Dropped spans, log records or data points."""
    message: str = ""
    """The first error, with its path in the request."""


class _InvalidValue(ValueError):  # noqa: N818 - it drops the nearest record
    """A value that its field cannot hold. Its path is added step by step, from the inside out."""

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
    """What was dropped from one request."""

    rejected: int = 0
    message: str = ""
    path: list[str] = field(default_factory=list[str])
    """The lists around the current value, each with the index of its item."""

    def add(self, item: object, error: _InvalidValue) -> None:
        self.rejected += max(1, _count_records(item))
        if not self.message:
            for step in reversed(self.path):
                error.within(f".{step}")
            self.message = str(error)


def json_to_protobuf(signal: Signal, text: bytes) -> ConvertedRequest:
    """Return the request as protobuf. Raises InvalidRequest if none of it can be used."""
    try:
        document = _loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"not JSON: {error}") from None
    dropped = _DroppedRecords()
    try:
        body = _message(_REQUESTS[signal].DESCRIPTOR)(document, dropped, 1)
    except _InvalidValue as error:
        raise InvalidRequest(str(error)) from None
    return ConvertedRequest(body, dropped.rejected, dropped.message)


def _loads(text: bytes) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # Slower, but accepts NaN, lone surrogates and a byte order mark.
        return json.loads(text.decode("utf-8-sig", errors="replace"))


_Encode = Callable[[Any, _DroppedRecords, int], bytes]
"""Writes a field with its tag. Arguments: value, dropped records, nesting depth."""


@cache
def _message(descriptor: Descriptor) -> _Message:
    return _Message(descriptor)


class _Message:
    """Writes one kind of message. The encoders of its fields are made at its first use."""

    def __init__(self, descriptor: Descriptor) -> None:
        self._descriptor = descriptor
        self._fields: dict[str, _Encode] | None = None

    def __call__(self, value: object, dropped: _DroppedRecords, depth: int) -> bytes:
        if not is_dict(value):
            raise _InvalidValue(f"found {shown(value, _SHOWN)}, expected an object")
        if depth > MAX_DEPTH:
            raise _InvalidValue(f"nested more than {MAX_DEPTH} levels deep")
        if self._fields is None:
            self._fields = {name: _field(one) for one in self._descriptor.fields for name in (one.name, one.json_name)}
        parts: list[bytes] = []
        for name, item in value.items():
            encode = self._fields.get(name)
            if encode is None or item is None:
                continue
            try:
                parts.append(encode(item, dropped, depth))
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
    # proto3: a zero is not written unless the field has presence.
    zero = None if one.has_presence else scalar.zero

    def encode(value: Any, _dropped: _DroppedRecords, _depth: int) -> bytes:
        written = scalar.write(value)
        return b"" if written == zero else tag + written

    return encode


def _one_message(one: FieldDescriptor) -> _Encode:
    tag, inner = _varint(one.number << 3 | _LEN), _message(one.message_type)

    def encode(value: Any, dropped: _DroppedRecords, depth: int) -> bytes:
        written = inner(value, dropped, depth + 1)
        return tag + _varint(len(written)) + written

    return encode


def _messages(one: FieldDescriptor) -> _Encode:
    tag, inner = _varint(one.number << 3 | _LEN), _message(one.message_type)

    def encode(value: Any, dropped: _DroppedRecords, depth: int) -> bytes:
        parts: list[bytes] = []
        for index, item in enumerate(_list(value)):
            try:
                written = inner(item, dropped, depth + 1)
            except _InvalidValue as error:
                raise error.within(f"[{index}]") from None
            parts += (tag, _varint(len(written)), written)
        return b"".join(parts)

    def encode_each(value: Any, dropped: _DroppedRecords, depth: int) -> bytes:
        parts: list[bytes] = []
        items = _list(value)
        dropped.path.append("")
        for index, item in enumerate(items):
            dropped.path[-1] = f"{one.json_name}[{index}]"
            try:
                written = inner(item, dropped, depth + 1)
            except _InvalidValue as error:
                dropped.add(item, error)
                continue
            parts += (tag, _varint(len(written)), written)
        dropped.path.pop()
        return b"".join(parts)

    return encode_each if one.name in _LISTS_OF_RECORDS else encode


def _packed(one: FieldDescriptor, scalar: _Scalar) -> _Encode:
    packed = _varint(one.number << 3 | _LEN)
    single = _varint(one.number << 3 | scalar.wire_type)

    def encode(value: Any, _dropped: _DroppedRecords, _depth: int) -> bytes:
        written = [scalar.write(item) for item in _list(value)]
        if scalar.wire_type == _LEN:
            return b"".join(single + item for item in written)
        content = b"".join(written)
        return packed + _varint(len(content)) + content if content else b""

    return encode


@dataclass(frozen=True, slots=True)
class _Scalar:
    """How the values of one field are written, without its tag."""

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
    """Return the number, which may be written as text, if it fits so many bits."""
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
    """Count the spans, log records or data points in a dropped part of a request."""
    if not is_dict(item):
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
