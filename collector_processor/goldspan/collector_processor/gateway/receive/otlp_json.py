"""Converts OTLP/JSON requests to protobuf, so that the rest of the gateway knows one encoding.

The converters are made from the descriptors of OTLP's messages: field names in camelCase (or as in the `.proto` files),
ids in hex, other bytes in base64, 64-bit integers as text or numbers, enumerations as numbers or names, unknown fields
ignored (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding). protobuf's `json_format` takes five times as
long, knows no ids in hex, and refuses a request for one invalid value.

An invalid span, log record or metric does not affect the others: it is dropped, counted and named in the partial
success of the response.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import msgspec
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from goldspan.collector_processor.gateway.interfaces import Signal
from goldspan.scoring.json_values import is_dict, is_list, shown

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
        request = _REQUESTS[signal]
        message = request(**_message(request.DESCRIPTOR)(document, dropped, 1))
    except _InvalidValue as error:
        raise InvalidRequest(str(error)) from None
    return ConvertedRequest(message.SerializeToString(), dropped.rejected, dropped.message)


def _loads(text: bytes) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # Slower, but accepts NaN, lone surrogates and a byte order mark.
        return json.loads(text.decode("utf-8-sig", errors="replace"))


_Convert = Callable[[Any, _DroppedRecords, int], Any]
"""Returns the value of a field as its message takes it. Arguments: value, dropped records, nesting depth."""


@cache
def _message(descriptor: Descriptor) -> _Message:
    return _Message(descriptor)


class _Message:
    """Converts one kind of message to the arguments of its constructor. Its fields are looked up at its first use."""

    def __init__(self, descriptor: Descriptor) -> None:
        self._descriptor = descriptor
        self._fields: dict[str, tuple[str, _Convert]] | None = None

    def __call__(self, value: object, dropped: _DroppedRecords, depth: int) -> dict[str, Any]:
        if not is_dict(value):
            raise _InvalidValue(f"found {shown(value, _SHOWN)}, expected an object")
        if depth > MAX_DEPTH:
            raise _InvalidValue(f"nested more than {MAX_DEPTH} levels deep")
        if self._fields is None:
            fields = [(one, (one.name, _field(one))) for one in self._descriptor.fields]
            self._fields = {name: found for one, found in fields for name in (one.name, one.json_name)}
        arguments: dict[str, Any] = {}
        for key, item in value.items():
            found = self._fields.get(key)
            if found is None or item is None:
                continue
            name, json_to_protobuf = found
            try:
                arguments[name] = json_to_protobuf(item, dropped, depth)
            except _InvalidValue as error:
                raise error.within(f".{key}") from None
        return arguments


def _field(one: FieldDescriptor) -> _Convert:
    if one.message_type is None:
        scalar = _scalar(one)
        if one.is_repeated:
            return lambda value, _dropped, _depth: [scalar(item) for item in _list(value)]
        return lambda value, _dropped, _depth: scalar(value)
    message = _message(one.message_type)
    if one.is_repeated:
        return _records(one, message) if one.name in _LISTS_OF_RECORDS else _messages(message)
    return lambda value, dropped, depth: message(value, dropped, depth + 1)


def _messages(message: _Message) -> _Convert:
    def json_to_protobuf(value: Any, dropped: _DroppedRecords, depth: int) -> list[dict[str, Any]]:
        converted: list[dict[str, Any]] = []
        for index, item in enumerate(_list(value)):
            try:
                converted.append(message(item, dropped, depth + 1))
            except _InvalidValue as error:
                raise error.within(f"[{index}]") from None
        return converted

    return json_to_protobuf


def _records(one: FieldDescriptor, message: _Message) -> _Convert:
    def json_to_protobuf(value: Any, dropped: _DroppedRecords, depth: int) -> list[dict[str, Any]]:
        converted: list[dict[str, Any]] = []
        items = _list(value)
        dropped.path.append("")
        for index, item in enumerate(items):
            dropped.path[-1] = f"{one.json_name}[{index}]"
            try:
                converted.append(message(item, dropped, depth + 1))
            except _InvalidValue as error:
                dropped.add(item, error)
        dropped.path.pop()
        return converted

    return json_to_protobuf


def _scalar(one: FieldDescriptor) -> Callable[[object], object]:
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
        elif name in {"gauge", "sum", "histogram", "exponentialHistogram", "exponential_histogram", "summary"}:
            total += _count_records(inner)
    return total
