"""Converts OTLP/JSON requests to protobuf, so that the rest of the gateway knows one encoding.

The converters are made from the descriptors of OTLP's messages: field names in camelCase (or as in the `.proto` files),
ids in hex, other bytes in base64, 64-bit integers as text or numbers, enumerations as numbers or names, unknown fields
ignored (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding). protobuf's `json_format` takes five times as
long, knows no ids in hex, and refuses a request for one invalid value.

Python objects take twenty times the memory of their JSON. So of a large request only `_PART_BYTES` at a time are
decoded, and only one large request at a time: since Python runs one thread, two would not take less time. What remains
is some 70 bytes for each item of the lists around that part, which a bound on the values of a request bounds.

An invalid span, log record or metric does not affect the others: it is dropped, counted and named in the partial
success of the response.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import msgspec
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message_factory import GetMessageClass

from goldspan.collector_processor.emit.otlp_encoding import encoded_field, varint
from goldspan.collector_processor.otlp_signals import REQUEST_MESSAGES, Signal
from goldspan.scoring.json_values import is_dict, is_list, shown

JSON_BYTES_A_VALUE = 8
"""What a value takes at least, on average, in a request of the largest size: `{"intValue":"1"}` has two."""
MAX_DEPTH = 90
"""Nested messages. Protobuf parsers stop at 100, and a back-end may add levels of its own."""

_LISTS_OF_RECORDS = frozenset({
    "resource_spans", "scope_spans", "spans",
    "resource_logs", "scope_logs", "log_records",
    "resource_metrics", "scope_metrics", "metrics",
})  # fmt: skip
"""Lists whose invalid items are dropped one by one."""
_COUNTED_LISTS = frozenset({"spans", "logRecords", "log_records", "dataPoints", "data_points"})
"""Lists whose items a partial success counts."""
_JSON_LISTS = _LISTS_OF_RECORDS | {
    "resourceSpans",
    "scopeSpans",
    "resourceLogs",
    "scopeLogs",
    "resourceMetrics",
    "scopeMetrics",
}
_LEVELS_OF_RECORDS = 5
"""Resource, scope, metric, its data, data point."""
_DATA = frozenset({"gauge", "sum", "histogram", "exponentialHistogram", "exponential_histogram", "summary"})
"""Fields of a metric with its data points."""
_HEX_BYTES = {"trace_id": 16, "span_id": 8, "parent_span_id": 8}
_INTEGERS = {
    FieldDescriptor.TYPE_INT32: (32, True),
    FieldDescriptor.TYPE_SINT32: (32, True),
    FieldDescriptor.TYPE_SFIXED32: (32, True),
    FieldDescriptor.TYPE_ENUM: (32, True),
    FieldDescriptor.TYPE_INT64: (64, True),
    FieldDescriptor.TYPE_SINT64: (64, True),
    FieldDescriptor.TYPE_SFIXED64: (64, True),
    FieldDescriptor.TYPE_UINT32: (32, False),
    FieldDescriptor.TYPE_FIXED32: (32, False),
    FieldDescriptor.TYPE_UINT64: (64, False),
    FieldDescriptor.TYPE_FIXED64: (64, False),
}
"""Bits of the integer types, and whether they are signed."""
_SHOWN = 60
_PART_BYTES = 64 << 10
"""JSON text up to this size is decoded as a whole."""
_PART_ITEMS = 4096
"""Numbers or texts of one list that are converted at once."""
_STRING = rb'"(?:[^"\\]++|\\.)*+"?'
_STRINGS = re.compile(_STRING, re.DOTALL)
_UP_TO_NUMBER = re.compile(rb'([^"NI]*+(?:' + _STRING + rb'[^"NI]*+)*+)(NaN|Infinity|[NI]|\Z)', re.DOTALL)
"""Text up to a number that JSON does not have, outside of strings, or to its end. It matches everywhere, since a search
that fails begins again at the next byte."""
_large_request = threading.Lock()


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

    def add(self, records: int, error: _InvalidValue) -> None:
        self.rejected += max(1, records)
        if not self.message:
            for step in reversed(self.path):
                error.within(f".{step}")
            self.message = str(error)


class TooManyValues(Exception):  # noqa: N818 - it becomes a response
    """The request has more JSON values than it may."""


def json_to_protobuf(signal: Signal, text: bytes, max_values: int | None = None) -> ConvertedRequest:
    """Return the request as protobuf. Raises InvalidRequest if none of it can be used, and TooManyValues."""
    dropped = _DroppedRecords()
    request = _message(REQUEST_MESSAGES[signal].DESCRIPTOR)
    try:
        if len(text) <= _PART_BYTES:
            body = request.encode(_loads(text), dropped, 1)
        else:
            with _large_request:
                if max_values is not None and _has_more_values(text, max_values):
                    raise TooManyValues(f"expected at most {max_values:,} JSON values")
                body = request.encode_text(_strict_json(text), dropped, 1)
    except _InvalidValue as error:
        raise InvalidRequest(str(error)) from None
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"not JSON: {error}") from None
    return ConvertedRequest(body, dropped.rejected, dropped.message)


_NULL = msgspec.Raw(b"null")
_Text = bytes | msgspec.Raw
"""JSON of one value. Raw is a part of a larger text, without a copy."""


def _loads(text: _Text) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # Slower, but accepts NaN, lone surrogates and a byte order mark.
        return json.loads(bytes(text).decode("utf-8-sig", errors="replace"))


def _strict_json(text: bytes) -> bytes:
    """Return a text that `msgspec` can split, the same one if it can be. Raises ValueError, RecursionError."""
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except msgspec.DecodeError:
        text = _UP_TO_NUMBER.sub(_quoted, text.decode("utf-8-sig", errors="replace").encode())
        msgspec.json.decode(text, type=msgspec.Raw)
    return text


def _quoted(found: re.Match[bytes]) -> bytes:
    before, number = found.groups()
    if len(number) <= 1:
        return found[0]
    sign = b"-" if before.endswith(b"-") else b""
    return before.removesuffix(b"-") + b'"' + sign + number + b'"'


def _has_more_values(text: bytes, limit: int) -> bool:
    """Tell whether a text has more values than this; those that strings seem to hold do not count."""
    return _count_values(text) > limit and _count_values(_STRINGS.sub(b"", text)) > limit


def _count_values(text: bytes) -> int:
    return 1 + text.count(b",") + text.count(b"{") + text.count(b"[")


def _size(text: _Text) -> int:
    return memoryview(text).nbytes


def _split_list(text: _Text) -> list[msgspec.Raw]:
    try:
        return msgspec.json.decode(text, type=list[msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _InvalidValue(f"found {_start(text)}, expected a list") from None


def _start(text: _Text) -> str:
    start = bytes(memoryview(text)[:_SHOWN]).decode("utf-8", "replace")
    return start if _size(text) <= _SHOWN else f"{start}..."


_Convert = Callable[[Any, _DroppedRecords, int], Any]
"""Returns the value of a field as its message takes it. Arguments: value, dropped records, nesting depth."""
_Scalar = Callable[[object], object]
"""Returns the value of a field that holds no message."""
_Encode = Callable[[_Text, _DroppedRecords, int], bytes]
"""Returns a field as protobuf, from its text."""


class _Field(NamedTuple):
    """One field of a message: of a decoded value, and of a text that is too large to be decoded as a whole."""

    name: str
    scalar: _Scalar | None
    """Converts a value that is neither a message nor a list."""
    convert: _Convert
    encode: _Encode


@cache
def _message(descriptor: Descriptor) -> _Message:
    return _Message(descriptor)


class _Message:
    """Converts one kind of message to the arguments of its constructor. Its fields are looked up at its first use."""

    def __init__(self, descriptor: Descriptor) -> None:
        self._descriptor = descriptor
        self._new = GetMessageClass(descriptor)
        self._fields: dict[str, _Field] | None = None
        self._parts: type[msgspec.Struct] = msgspec.Struct
        """The fields, each as text."""

    def __call__(self, value: object, dropped: _DroppedRecords, depth: int) -> dict[str, Any]:
        if not is_dict(value):
            raise _InvalidValue(f"found {shown(value, _SHOWN)}, expected an object")
        if depth > MAX_DEPTH:
            raise _InvalidValue(f"nested more than {MAX_DEPTH} levels deep")
        fields = self._fields or self._look_up()
        arguments: dict[str, Any] = {}
        for key, item in value.items():
            found = fields.get(key)
            if found is None or item is None:
                continue
            name, scalar, convert, _ = found
            try:
                arguments[name] = convert(item, dropped, depth) if scalar is None else scalar(item)
            except _InvalidValue as error:
                raise error.within(f".{key}") from None
        return arguments

    def encode(self, value: object, dropped: _DroppedRecords, depth: int) -> bytes:
        """Return a decoded value as protobuf."""
        return self._new(**self(value, dropped, depth)).SerializeToString()

    def encode_text(self, text: _Text, dropped: _DroppedRecords, depth: int) -> bytes:
        """Return a text as protobuf, in parts if it is large."""
        if _size(text) <= _PART_BYTES:
            return self.encode(_part(text), dropped, depth)
        if depth > MAX_DEPTH:
            raise _InvalidValue(f"nested more than {MAX_DEPTH} levels deep")
        fields = self._fields or self._look_up()
        encoded: dict[str, bytes] = {}
        for key, item in self.split(text).items():
            found = fields[key]
            try:
                encoded[found.name] = found.encode(item, dropped, depth)
            except _InvalidValue as error:
                raise error.within(f".{key}") from None
        return b"".join(encoded.values())

    def split(self, text: _Text) -> dict[str, msgspec.Raw]:
        """Return the texts of the fields that a text has, except null. Nothing is made of unknown fields."""
        fields = self._fields or self._look_up()
        try:
            found = msgspec.json.decode(text, type=self._parts)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise _InvalidValue(f"found {_start(text)}, expected an object") from None
        parts = {name: getattr(found, name) for name in fields}
        return {name: part for name, part in parts.items() if part is not None and part != _NULL}

    def _look_up(self) -> dict[str, _Field]:
        fields = [(one, _field(one, self._new)) for one in self._descriptor.fields]
        self._fields = {name: found for one, found in fields for name in (one.name, one.json_name)}
        self._parts = msgspec.defstruct("Parts", [(name, msgspec.Raw, None) for name in self._fields], gc=False)
        return self._fields


def _part(text: _Text) -> object:
    try:
        return _loads(text)
    except (ValueError, RecursionError) as error:
        raise _InvalidValue(f"not JSON: {error}") from None


def _field(one: FieldDescriptor, new: Any) -> _Field:
    if one.message_type is None:
        return _scalars(one.name, _scalar(one), new) if one.is_repeated else _one_scalar(one.name, _scalar(one), new)
    message = _message(one.message_type)
    if one.is_repeated:
        return _messages(one, message, new)
    return _one_message(one.name, message, varint(one.number << 3 | 2))


def _one_scalar(name: str, scalar: _Scalar, new: Any) -> _Field:
    def convert(value: Any, _dropped: _DroppedRecords, _depth: int) -> object:
        return scalar(value)

    def encode(text: _Text, _dropped: _DroppedRecords, _depth: int) -> bytes:
        if _size(text) > _SHOWN and bytes(memoryview(text)[:1]) in (b"[", b"{"):
            raise _InvalidValue(f"found {_start(text)}, expected one value")
        return bytes(new(**{name: scalar(_part(text))}).SerializeToString())

    return _Field(name, scalar, convert, encode)


def _scalars(name: str, scalar: _Scalar, new: Any) -> _Field:
    def convert(value: Any, _dropped: _DroppedRecords, _depth: int) -> list[object]:
        return [scalar(item) for item in _list(value)]

    def encode(text: _Text, _dropped: _DroppedRecords, _depth: int) -> bytes:
        items = _list(_part(text))
        parts = (items[at : at + _PART_ITEMS] for at in range(0, len(items), _PART_ITEMS))
        return b"".join(new(**{name: list(map(scalar, part))}).SerializeToString() for part in parts)

    return _Field(name, None, convert, encode)


def _one_message(name: str, message: _Message, tag: bytes) -> _Field:
    def convert(value: Any, dropped: _DroppedRecords, depth: int) -> dict[str, Any]:
        return message(value, dropped, depth + 1)

    def encode(text: _Text, dropped: _DroppedRecords, depth: int) -> bytes:
        return encoded_field(tag, message.encode_text(text, dropped, depth + 1))

    return _Field(name, None, convert, encode)


def _messages(one: FieldDescriptor, message: _Message, new: Any) -> _Field:
    """Return a list of messages. Of a list of records, each invalid one is dropped."""
    name, json_name, tag = one.name, one.json_name, varint(one.number << 3 | 2)
    are_records = name in _LISTS_OF_RECORDS

    def convert_records(value: Any, dropped: _DroppedRecords, depth: int, first: int = 0) -> list[dict[str, Any]]:
        converted: list[dict[str, Any]] = []
        items = _list(value)
        dropped.path.append("")
        for index, item in enumerate(items, first):
            dropped.path[-1] = f"{json_name}[{index}]"
            try:
                converted.append(message(item, dropped, depth + 1))
            except _InvalidValue as error:
                dropped.add(_count_records(item), error)
        dropped.path.pop()
        return converted

    def convert_messages(value: Any, dropped: _DroppedRecords, depth: int, first: int = 0) -> list[dict[str, Any]]:
        converted: list[dict[str, Any]] = []
        for index, item in enumerate(_list(value), first):
            try:
                converted.append(message(item, dropped, depth + 1))
            except _InvalidValue as error:
                raise error.within(f"[{index}]") from None
        return converted

    convert = convert_records if are_records else convert_messages

    def encode_one(text: _Text, dropped: _DroppedRecords, depth: int, index: int) -> bytes:
        if are_records:
            dropped.path.append(f"{json_name}[{index}]")
        try:
            content = message.encode_text(text, dropped, depth + 1)
        except _InvalidValue as error:
            if not are_records:
                raise error.within(f"[{index}]") from None
            dropped.add(_count_in_text(text), error)
            return b""
        finally:
            if are_records:
                dropped.path.pop()
        return encoded_field(tag, content)

    def encode(text: _Text, dropped: _DroppedRecords, depth: int) -> bytes:
        encoded = bytearray()
        items = _split_list(text)
        for first, end in _parts(items):
            try:
                part = _loads(b"[%b]" % b",".join(items[first:end])) if end > first + 1 else None
            except (ValueError, RecursionError):
                part = None
            if part is None:
                for index in range(first, end):
                    encoded += encode_one(items[index], dropped, depth, index)
            else:
                encoded += new(**{name: convert(part, dropped, depth, first)}).SerializeToString()
        return bytes(encoded)

    return _Field(name, None, convert, encode)


def _parts(items: list[msgspec.Raw]) -> Iterator[tuple[int, int]]:
    """Split a list into runs of items that are small together, and single items. Yields first index and end."""
    first, size = 0, 0
    for index, item in enumerate(map(_size, items)):
        if index > first and size + item > _PART_BYTES:
            yield first, index
            first, size = index, 0
        size += item
    if items:
        yield first, len(items)


def _scalar(one: FieldDescriptor) -> _Scalar:
    if one.type in _INTEGERS:
        bits, signed = _INTEGERS[one.type]
        names: dict[Any, int] = (
            {} if one.enum_type is None else {each.name: each.number for each in one.enum_type.values}
        )
        return lambda value: _integer(names.get(value, value) if isinstance(value, str) else value, bits, signed=signed)
    if one.type == FieldDescriptor.TYPE_BYTES:
        size = _HEX_BYTES.get(one.name)
        return _base64 if size is None else lambda value: _hex(value, size)
    return {
        FieldDescriptor.TYPE_STRING: _text,
        FieldDescriptor.TYPE_BOOL: _bool,
        FieldDescriptor.TYPE_DOUBLE: _double,
    }[one.type]


def _list(value: object) -> Sequence[object]:
    if not is_list(value):
        raise _InvalidValue(f"found {shown(value, _SHOWN)}, expected a list")
    return value


def _text(value: object) -> str | bytes:
    if not isinstance(value, str):
        raise _InvalidValue(f"found {shown(value, _SHOWN)}, expected text")
    return value if value.isascii() else value.encode("utf-8", "replace")


def _bool(value: object) -> bool:
    if not isinstance(value, bool):
        raise _InvalidValue(f"found {shown(value, _SHOWN)}, expected true or false")
    return value


def _double(value: object) -> float:
    try:
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            return float(value)
    except (ValueError, OverflowError):
        pass
    raise _InvalidValue(f"found {shown(value, _SHOWN)}, expected a number")


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


def _hex(value: object, size: int) -> bytes:
    if isinstance(value, str):
        try:
            if len(value) in (2 * size, 0):
                return bytes.fromhex(value)
            if len(value) == (size + 2) // 3 * 4 and len(found := base64.b64decode(value, validate=True)) == size:
                # `json_format` of protobuf writes ids like any other bytes.
                return found
        except (ValueError, binascii.Error):
            pass
    raise _InvalidValue(f"found {shown(value, _SHOWN)}, expected {2 * size} hex digits")


def _base64(value: object) -> bytes:
    if isinstance(value, str):
        try:
            return base64.b64decode(value.replace("-", "+").replace("_", "/"), validate=True)
        except (ValueError, binascii.Error):
            pass
    raise _InvalidValue(f"found {shown(value, _SHOWN)}, expected base64")


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
        elif name in _DATA:
            total += _count_records(inner)
    return total


def _count_in_text(text: _Text, levels: int = _LEVELS_OF_RECORDS) -> int:
    """Do the same in a text, which may be large."""
    try:
        if _size(text) <= _PART_BYTES:
            return _count_records(_part(text))
        found = msgspec.json.decode(text, type=_Records)
        total = 0
        for name in found.__struct_fields__ if levels else ():
            inner = getattr(found, name)
            if inner is None or inner == _NULL:
                continue
            if name in _DATA:
                total += _count_in_text(inner, levels - 1)
            else:
                items = _split_list(inner)
                total += len(items) if name in _COUNTED_LISTS else sum(_count_in_text(one, levels - 1) for one in items)
    except (_InvalidValue, msgspec.DecodeError, UnicodeDecodeError):
        return 0
    return total


_Records = msgspec.defstruct(
    "_Records", [(name, msgspec.Raw, None) for name in sorted(_JSON_LISTS | _COUNTED_LISTS | _DATA)], gc=False
)
"""What holds records, each as text."""
