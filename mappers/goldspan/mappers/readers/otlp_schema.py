"""A lazy copy of OTLP's protobuf schema: the same wire format, in which what is seldom read is declared as bytes.

Attributes, events, links and the status of a span stay as they came, so that parsing a request costs little more than
finding its spans. The classes are built at run time from the fields listed here; opentelemetry's are not needed.
https://github.com/open-telemetry/opentelemetry-proto (common.proto, resource.proto, trace.proto, logs.proto)
"""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from goldspan.mappers.json_shapes import is_list

_PACKAGE = "goldspan.lazy"
_Type = descriptor_pb2.FieldDescriptorProto
_BYTES, _STRING, _BOOL = _Type.TYPE_BYTES, _Type.TYPE_STRING, _Type.TYPE_BOOL
_INT32, _INT64, _DOUBLE = _Type.TYPE_INT32, _Type.TYPE_INT64, _Type.TYPE_DOUBLE
_FIXED32, _FIXED64 = _Type.TYPE_FIXED32, _Type.TYPE_FIXED64

_MESSAGES: dict[str, dict[str, tuple[int, Any]]] = {
    # Field numbers and types as in the files named above; a list is a repeated field, a text the name of a message.
    "TracesData": {"resource_spans": (1, ["ResourceSpans"])},
    "ResourceSpans": {"resource": (1, _BYTES), "scope_spans": (2, ["ScopeSpans"])},
    "ScopeSpans": {"scope": (1, _BYTES), "spans": (2, ["Span"])},
    # The same with nothing but whole spans known: the rest stays beside them as it came, to be forwarded.
    "UnreadSpans": {"resource_spans": (1, ["UnreadResourceSpans"])},
    "UnreadResourceSpans": {"scope_spans": (2, ["UnreadScopeSpans"])},
    "UnreadScopeSpans": {"spans": (2, [_BYTES])},
    "Span": {
        "trace_id": (1, _BYTES),
        "span_id": (2, _BYTES),
        "parent_span_id": (4, _BYTES),
        "name": (5, _BYTES),
        "kind": (6, _INT32),
        "start_time_unix_nano": (7, _FIXED64),
        "end_time_unix_nano": (8, _FIXED64),
        "attributes": (9, [_BYTES]),
        "events": (11, [_BYTES]),
        "links": (13, [_BYTES]),
        "status": (15, _BYTES),
        "flags": (16, _FIXED32),
    },
    # A log record stands where a span does.
    "LogRecord": {
        "time_unix_nano": (1, _FIXED64),
        "body": (5, _BYTES),
        "attributes": (6, ["KeyValue"]),
        "trace_id": (9, _BYTES),
        "span_id": (10, _BYTES),
        "observed_time_unix_nano": (11, _FIXED64),
        "event_name": (12, _BYTES),
    },
    "Event": {"name": (2, _STRING), "attributes": (3, ["KeyValue"])},
    "Link": {"trace_id": (1, _BYTES), "span_id": (2, _BYTES)},
    "Status": {"message": (2, _STRING), "code": (3, _INT32)},
    "Scope": {"name": (1, _STRING)},
    "Resource": {"attributes": (1, ["KeyValue"])},
    "KeyValue": {"key": (1, _STRING), "value": (2, "AnyValue")},
    "AnyValue": {
        "string_value": (1, _STRING),
        "bool_value": (2, _BOOL),
        "int_value": (3, _INT64),
        "double_value": (4, _DOUBLE),
        "array_value": (5, "ArrayValue"),
        "kvlist_value": (6, "KeyValueList"),
        "bytes_value": (7, _BYTES),
    },
    "ArrayValue": {"values": (1, ["AnyValue"])},
    "KeyValueList": {"values": (1, ["KeyValue"])},
}
_ONE_OF = "AnyValue"
"""The message whose fields exclude each other: its `value` is one of them."""


@cache
def message_class(name: str) -> Any:
    """Return the class of a message of the lazy schema."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{_PACKAGE}.{name}"))


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    file = descriptor_pb2.FileDescriptorProto(name="goldspan/lazy.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        if name == _ONE_OF:
            message.oneof_decl.add(name="value")
        for field_name, (number, kind) in fields.items():
            field = message.field.add(name=field_name, number=number)
            field.label = _Type.LABEL_REPEATED if is_list(kind) else _Type.LABEL_OPTIONAL
            of: Any = kind[0] if is_list(kind) else kind
            if isinstance(of, str):
                field.type, field.type_name = _Type.TYPE_MESSAGE, f".{_PACKAGE}.{of}"
            else:
                field.type = of
            if name == _ONE_OF:
                field.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return pool
