"""Converts OTLP/JSON requests to protobuf, so that the rest of the gateway knows one encoding.

The converters are made from the descriptors of OTLP's messages: field names in camelCase (or as in the `.proto` files),
unknown fields ignored, and each type read as `otlp_json` of the mappers reads it in files. protobuf's `json_format`
takes five times as long, knows no ids in hex, and refuses a request for one invalid value.

    {"spans": [{"name": "a", "kind": "FOO"}, {"name": "b", "traceId": "xyz"}, 5]}
    the span "a" without its kind: one bad field      "b" has no usable id, 5 is no span: two records rejected

Python objects take twenty times the memory of their JSON. So of a large request only `_PART_BYTES` at a time are
decoded, and only one large request at a time: since Python runs one thread, two would not take less time. What remains
is some 70 bytes for each item of the lists around that part, which a bound on the values of a request bounds.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, NamedTuple

import msgspec
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message_factory import GetMessageClass
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from goldspan.collector_processor.emit.otlp_encoding import encoded_field, varint
from goldspan.collector_processor.otlp_messages import REQUEST_MESSAGES
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.mappers.readers import otlp_json
from goldspan.mappers.readers.otlp_protobuf import message_class
from goldspan.scoring.json_values import is_dict, is_list

JSON_BYTES_A_VALUE = 8
"""What a value takes at least, on average, in a request of the largest size: `{"intValue":"1"}` has two."""
MAX_DEPTH = 90
"""Nested messages. Protobuf parsers stop at 100, and a back-end may add levels of its own."""

_LISTS_OF_RECORDS = frozenset({
    "resource_spans", "scope_spans", "spans",
    "resource_logs", "scope_logs", "log_records",
    "resource_metrics", "scope_metrics", "metrics",
})  # fmt: skip
"""Lists whose items are rejected one by one, and counted. Nothing stands for one that is no list."""
_RECORDS_OF_TRACES = frozenset({"spans", "log_records"})
_HEX_BYTES = {"trace_id": 16, "span_id": 8, "parent_span_id": 8}
_NEEDED = frozenset({*_HEX_BYTES, "key"}) | _LISTS_OF_RECORDS
"""Fields without which what holds them is left out too, up to the nearest item of a list."""
_INTEGERS = {
    FieldDescriptor.TYPE_INT32: (32, True),
    FieldDescriptor.TYPE_SINT32: (32, True),
    FieldDescriptor.TYPE_SFIXED32: (32, True),
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
_PART_BYTES = 64 << 10  # JSON text up to this size is decoded as a whole
_PART_ITEMS = 4096  # numbers or texts of one list that are converted at once
_STRING = rb'"(?:[^"\\]++|\\.)*+"?'
_STRINGS = re.compile(_STRING, re.DOTALL)
_UP_TO_NUMBER = re.compile(rb'([^"NI]*+(?:' + _STRING + rb'[^"NI]*+)*+)(NaN|Infinity|[NI]|\Z)', re.DOTALL)
"""Text up to a number that JSON does not have, outside of strings, or to its end. It matches everywhere, since a search
that fails begins again at the next byte."""
_large_request = threading.Lock()


class InvalidRequest(ValueError):  # noqa: N818 - it becomes a response
    """The body is not an OTLP/JSON request."""


class TooManyValues(Exception):  # noqa: N818 - it becomes a response
    """The request has more JSON values than it may."""


class _InvalidValue(ValueError):  # noqa: N818 - it becomes a part of a response
    """What cannot be read. Its path is added step by step, from the inside out."""

    def __init__(self, message: str, *, is_fatal: bool = False) -> None:
        super().__init__(message)
        self._message = message
        self._steps: list[str] = []
        self.is_fatal = is_fatal
        """Whether the whole record is left out."""

    def within(self, step: str) -> _InvalidValue:
        self._steps.append(step)
        return self

    def __str__(self) -> str:
        path = "".join(reversed(self._steps)).lstrip(".")
        return f"{path}: {self._message}" if path else self._message


@dataclass(slots=True)
class ConvertedRequest:
    """A request as protobuf, and what was left out of it."""

    body: bytes = b""
    rejected: int = 0
    """Records: spans, log records or metrics, or what should hold them."""
    bad_fields: int = 0
    """Fields of other records."""
    message: str = ""
    """The first of both, with its path in the request."""
    lost: dict[bytes, None] = field(default_factory=dict[bytes, None])
    """What is known of rejected spans and log records, encoded as spans: `lost_spans` of the body."""
    path: list[str] = field(default_factory=list[str])
    """The lists of records around the current value, each with the index of its item."""

    def add(self, error: _InvalidValue) -> None:
        """Note what could not be read, if it is the first."""
        if not self.message:
            for step in reversed(self.path):
                error.within(f".{step}")
            self.message = str(error)


def json_to_protobuf(signal: Signal, text: bytes, max_values: int | None = None) -> ConvertedRequest:
    """Return the request as protobuf. Raises InvalidRequest if none of it can be used, and TooManyValues."""
    converted = ConvertedRequest()
    request = _message(REQUEST_MESSAGES[signal].DESCRIPTOR)
    try:
        if len(text) <= _PART_BYTES:
            converted.body = request.encode(_loads(text), converted, 1)
        else:
            with _large_request:
                if max_values is not None and _has_more_values(text, max_values):
                    raise TooManyValues(f"expected at most {max_values:,} JSON values")
                converted.body = request.encode_text(_strict_json(text), converted, 1)
    except _InvalidValue as error:
        raise InvalidRequest(str(error)) from None
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"not JSON: {error}") from None
    if converted.lost:
        converted.body += message_class("UnreadSpans")(lost_spans=list(converted.lost)).SerializeToString()
    return converted


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


def _start(text: _Text) -> str:
    start = bytes(memoryview(text)[:_SHOWN]).decode("utf-8", "replace")
    return start if _size(text) <= _SHOWN else f"{start}..."


def _split(text: _Text, kind: Any, expected: str) -> Any:
    """Return the parts of a large text, each as text."""
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _InvalidValue(f"found {_start(text)}, expected {expected}") from None


def _part(text: _Text) -> object:
    try:
        return _loads(text)
    except (ValueError, RecursionError) as error:
        raise _InvalidValue(f"not JSON: {error}") from None


class _Field(NamedTuple):
    """One field of a message: of a decoded value, and of a text that is too large to be decoded as a whole."""

    name: str
    scalar: Callable[[Any], object] | None  # converts a value that is neither a message nor a list
    convert: Callable[[Any, ConvertedRequest, int], Any]
    """Returns the value as the message takes it. Arguments: value, what is left out, nesting depth."""
    encode: Callable[[_Text, ConvertedRequest, int], bytes]  # returns the field as protobuf, from its text


@cache
def _message(descriptor: Descriptor) -> _Message:
    return _Message(descriptor)


class _Message:
    """Converts one kind of message to the arguments of its constructor. Its fields are looked up at its first use."""

    def __init__(self, descriptor: Descriptor) -> None:
        self._descriptor = descriptor
        self._new = GetMessageClass(descriptor)
        self.is_value, self.is_pair = descriptor.name == "AnyValue", descriptor.name == "KeyValue"
        self._fields: dict[str, _Field] | None = None
        self._parts: type[msgspec.Struct] = msgspec.Struct  # the fields, each as text

    def __call__(self, value: object, left_out: ConvertedRequest, depth: int) -> dict[str, Any]:
        if not is_dict(value):
            raise _InvalidValue(str(otlp_json.BadValueError(value, "an object")))
        self._check(depth)
        fields = self._fields or self._look_up()
        arguments: dict[str, Any] = {}
        for key, item in value.items():
            found = fields.get(key)
            if found is None or item is None:
                continue
            name, scalar, convert, _ = found
            try:
                arguments[name] = convert(item, left_out, depth) if scalar is None else scalar(item)
            except (otlp_json.BadValueError, _InvalidValue) as error:
                self._leave_out(name, key, error, left_out)
        return arguments

    def encode(self, value: object, left_out: ConvertedRequest, depth: int) -> bytes:
        return self._new(**self(value, left_out, depth)).SerializeToString()

    def encode_text(self, text: _Text, left_out: ConvertedRequest, depth: int) -> bytes:
        """Return a text as protobuf, in parts if it is large."""
        if _size(text) <= _PART_BYTES:
            return self.encode(_part(text), left_out, depth)
        self._check(depth)
        fields = self._fields or self._look_up()
        encoded: dict[str, bytes] = {}
        found = _split(text, self._parts, "an object")
        for key, one in fields.items():
            part = getattr(found, key)
            if part is None or part == _NULL:
                continue
            try:
                encoded[one.name] = one.encode(part, left_out, depth)
            except (otlp_json.BadValueError, _InvalidValue) as error:
                self._leave_out(one.name, key, error, left_out)
        return b"".join(encoded.values())

    def _check(self, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise _InvalidValue(f"nested more than {MAX_DEPTH} levels deep", is_fatal=True)

    def _leave_out(self, name: str, key: str, error: ValueError, left_out: ConvertedRequest) -> None:
        """Count a field that cannot be read, or raise if its message cannot do without it."""
        invalid = (error if isinstance(error, _InvalidValue) else _InvalidValue(str(error))).within(f".{key}")
        if invalid.is_fatal or name in _NEEDED or self.is_value:
            raise invalid from None
        left_out.bad_fields += 1
        left_out.add(invalid)

    def _look_up(self) -> dict[str, _Field]:
        fields = [(one, _field(one, self._new)) for one in self._descriptor.fields]
        self._fields = {name: found for one, found in fields for name in (one.name, one.json_name)}
        self._parts = msgspec.defstruct("Parts", [(name, msgspec.Raw, None) for name in self._fields], gc=False)
        return self._fields


def _as_in_files(value: _Message) -> Callable[[Any, ConvertedRequest, int], dict[str, Any]]:
    """Return what converts a value of an attribute, also one that was left bare, or put under a wrong kind."""

    def read(found: Any, left_out: ConvertedRequest, depth: int) -> dict[str, Any]:
        try:
            return value(found, left_out, depth)
        except _InvalidValue as error:
            if error.is_fatal:
                raise
            return value(otlp_json.encode_value(otlp_json.decode_value(found)), left_out, depth)

    return read


def _field(one: FieldDescriptor, new: Any) -> _Field:
    if one.message_type is None:
        return _scalars(one.name, _scalar(one), new) if one.is_repeated else _one_scalar(one.name, _scalar(one), new)
    message = _message(one.message_type)
    if one.is_repeated:
        items = _MessageList(one, message, new)
        return _Field(one.name, None, items.convert, items.encode)
    return _one_message(one.name, message, varint(one.number << 3 | 2))


def _one_message(name: str, message: _Message, tag: bytes) -> _Field:
    read = _as_in_files(message) if message.is_value else message

    def convert(value: Any, left_out: ConvertedRequest, depth: int) -> dict[str, Any]:
        return read(value, left_out, depth + 1)

    def encode(text: _Text, left_out: ConvertedRequest, depth: int) -> bytes:
        return encoded_field(tag, message.encode_text(text, left_out, depth + 1))

    return _Field(name, None, convert, encode)


def _one_scalar(name: str, scalar: Callable[[Any], object], new: Any) -> _Field:
    def convert(value: Any, _left_out: ConvertedRequest, _depth: int) -> object:
        return scalar(value)

    def encode(text: _Text, _left_out: ConvertedRequest, _depth: int) -> bytes:
        if _size(text) > _SHOWN and bytes(memoryview(text)[:1]) in (b"[", b"{"):
            raise _InvalidValue(f"found {_start(text)}, expected one value")
        return bytes(new(**{name: scalar(_part(text))}).SerializeToString())

    return _Field(name, scalar, convert, encode)


def _scalars(name: str, scalar: Callable[[Any], object], new: Any) -> _Field:
    def convert(value: Any, _left_out: ConvertedRequest, _depth: int) -> list[object]:
        return list(map(scalar, _list(value)))

    def encode(text: _Text, _left_out: ConvertedRequest, _depth: int) -> bytes:
        items = _list(_part(text))
        parts = (items[at : at + _PART_ITEMS] for at in range(0, len(items), _PART_ITEMS))
        return b"".join(new(**{name: list(map(scalar, part))}).SerializeToString() for part in parts)

    return _Field(name, None, convert, encode)


class _MessageList:
    """Converts a list of messages. An item that cannot be read is left out: a record counts as rejected."""

    def __init__(self, one: FieldDescriptor, message: _Message, new: Any) -> None:
        self._name, self._json_name = one.name, one.json_name
        self._tag = varint(one.number << 3 | 2)
        self._message, self._new = message, new
        self._read = _as_in_files(message) if message.is_value else message
        self._are_records = one.name in _LISTS_OF_RECORDS
        self._are_pairs = message.is_pair

    def convert(self, value: Any, left_out: ConvertedRequest, depth: int, first: int = 0) -> list[dict[str, Any]]:
        """Return the items as their message takes them; `first` is the index of the first."""
        if self._are_pairs and is_dict(value):
            value = otlp_json.encode_attributes(otlp_json.decode_attributes(value))
        converted: list[dict[str, Any]] = []
        read = self._read
        for index, item in enumerate(_list(value), first):
            if self._are_records:
                left_out.path.append(f"{self._json_name}[{index}]")
            try:
                converted.append(read(item, left_out, depth + 1))
            except _InvalidValue as error:
                self._leave_out(index, error, left_out, item)
            if self._are_records:
                left_out.path.pop()
        return converted

    def encode(self, text: _Text, left_out: ConvertedRequest, depth: int) -> bytes:
        """Return the list as protobuf, from its text: many small items at a time, large ones alone."""
        encoded = bytearray()
        items: list[msgspec.Raw] = _split(text, list[msgspec.Raw], "a list")
        for first, end in _parts(items):
            try:
                part = _loads(b"[%b]" % b",".join(items[first:end])) if end > first + 1 else None
            except (ValueError, RecursionError):
                part = None
            if part is None:
                for index in range(first, end):
                    encoded += self._encode_one(index, items[index], left_out, depth)
            else:
                converted = self.convert(part, left_out, depth, first)
                encoded += self._new(**{self._name: converted}).SerializeToString()
        return bytes(encoded)

    def _encode_one(self, index: int, text: _Text, left_out: ConvertedRequest, depth: int) -> bytes:
        if self._are_records:
            left_out.path.append(f"{self._json_name}[{index}]")
        try:
            return encoded_field(self._tag, self._message.encode_text(text, left_out, depth + 1))
        except _InvalidValue as error:
            self._leave_out(index, error, left_out, text)
            return b""
        finally:
            if self._are_records:
                left_out.path.pop()

    def _leave_out(self, index: int, error: _InvalidValue, left_out: ConvertedRequest, item: object) -> None:
        if self._are_records:
            left_out.rejected += 1
            if self._name in _RECORDS_OF_TRACES and (lost := _known_of(item)):
                left_out.lost[lost] = None
        elif error.is_fatal:
            raise error.within(f"[{index}]") from None
        else:
            left_out.bad_fields += 1
            error.within(f".{self._json_name}[{index}]")
        left_out.add(error)


def _known_of(record: object) -> bytes:
    """Return the trace id of what cannot be read, as of a span, or else its attributes; of a large one the former."""
    if isinstance(record, bytes | msgspec.Raw):
        try:
            record = _loads(record) if _size(record) <= _PART_BYTES else _ids_of(record)
        except (ValueError, RecursionError):
            return b""
    if not is_dict(record):
        return b""
    for names in (("traceId", "trace_id"), ("attributes",)):
        try:
            known = _message(Span.DESCRIPTOR).encode({name: record.get(name) for name in names}, ConvertedRequest(), 1)
        except _InvalidValue:
            continue
        if known:
            return known
    return b""


_Ids = msgspec.defstruct("_Ids", [("traceId", Any, None), ("trace_id", Any, None)])


def _ids_of(span: _Text) -> dict[str, Any]:
    return msgspec.structs.asdict(msgspec.json.decode(span, type=_Ids))


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


def _scalar(one: FieldDescriptor) -> Callable[[Any], object]:
    if one.type in _INTEGERS:
        bits, signed = _INTEGERS[one.type]
        least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        return partial(otlp_json.as_integer, least=least, most=most)
    if one.enum_type is not None:
        return partial(
            otlp_json.as_enum, numbers=otlp_json.enum_names({each.name: each.number for each in one.enum_type.values})
        )
    if one.type == FieldDescriptor.TYPE_BYTES:
        size = _HEX_BYTES.get(one.name)
        return otlp_json.as_bytes if size is None else partial(otlp_json.as_id, size=size)
    return {
        FieldDescriptor.TYPE_STRING: _text,
        FieldDescriptor.TYPE_BOOL: otlp_json.as_boolean,
        FieldDescriptor.TYPE_DOUBLE: otlp_json.as_number,
    }[one.type]


def _text(value: object) -> str | bytes:
    if type(value) is str and value.isascii():
        return value
    return otlp_json.as_text(value).encode("utf-8", "replace")


def _list(value: object) -> Sequence[Any]:
    if not is_list(value):
        raise otlp_json.BadValueError(value, "a list")
    return value
