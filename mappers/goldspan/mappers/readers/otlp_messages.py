"""OTLP protobuf messages already in memory: requests and data of traces and logs, parts of them, bare records.

Told by their fields, so that no protobuf module is imported here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from goldspan.mappers.spans import NO_ATTRIBUTES, DecodedSpan, EventView, LogView, RecordView, ResourceView, SpanView
from goldspan.scoring.sessions import SpanRef

IS_REMOTE = 0x200
_MAX_DEPTH = 100
_RECORD_FIELDS = ("resource_spans", "resource_logs", "scope_spans", "scope_logs", "spans", "log_records")
"""Fields that hold records, or groups of them. A message has one of these."""


def is_message(value: object) -> bool:
    """Return whether this is a protobuf message."""
    return hasattr(value, "DESCRIPTOR") and hasattr(value, "SerializeToString")


def message_views(message: Any, resource: ResourceView | None = None) -> Iterator[RecordView]:
    """Yield the spans or log records of a message; `TypeError` for one that holds none by its type."""
    fields = message.DESCRIPTOR.fields_by_name
    shared = resource or ResourceView(NO_ATTRIBUTES)
    field = next((name for name in _RECORD_FIELDS if name in fields), "")
    if field in ("resource_spans", "resource_logs"):
        for group in getattr(message, field):
            yield from message_views(group)
    elif field in ("scope_spans", "scope_logs"):
        shared = ResourceView(message_attributes(message.resource.attributes))
        for group in getattr(message, field):
            yield from message_views(group, shared)
    elif field == "spans":
        for span in message.spans:
            yield _span(span, message.scope, shared)
    elif field == "log_records":
        for record in message.log_records:
            yield _log(record, message.scope, shared)
    elif "span_id" in fields and "start_time_unix_nano" in fields:
        yield _span(message, None, shared)
    elif "span_id" in fields and "observed_time_unix_nano" in fields:
        yield _log(message, None, shared)
    else:
        message_type = message.DESCRIPTOR.full_name
        raise TypeError(f"found a protobuf message of type {message_type}; expected OTLP spans or log records")


def _span(span: Any, scope: Any, resource: ResourceView) -> SpanView:
    return DecodedSpan(
        hex_bytes(span.trace_id),
        hex_bytes(span.span_id),
        hex_bytes(span.parent_span_id),
        str(span.name),
        int(span.start_time_unix_nano),
        int(span.end_time_unix_nano),
        int(span.kind),
        bool(span.flags & IS_REMOTE),
        int(span.status.code),
        str(span.status.message),
        message_attributes(span.attributes),
        [EventView(event.name, message_attributes(event.attributes)) for event in span.events],
        [SpanRef(hex_bytes(link.trace_id), hex_bytes(link.span_id)) for link in span.links],
        str(scope.name) if scope is not None else "",
        resource,
    )


def _log(record: Any, scope: Any, resource: ResourceView) -> LogView:
    return LogView(
        hex_bytes(record.trace_id),
        hex_bytes(record.span_id),
        record.time_unix_nano or record.observed_time_unix_nano,
        str(getattr(record, "event_name", "")),  # a field since OTLP 1.5
        message_value(record.body),
        message_attributes(record.attributes),
        str(scope.name) if scope is not None else "",
        resource,
    )


def hex_bytes(identifier: bytes) -> str:
    """Return an id in hex; `""` for none and for an invalid one of zeros only."""
    return identifier.hex() if any(identifier) else ""


def message_attributes(pairs: Any) -> dict[str, Any]:
    """Decode `KeyValue` messages. The last value of a repeated key wins."""
    return {pair.key: message_value(pair.value, 0) for pair in pairs}


def message_value(value: Any, depth: int = 0) -> Any:
    """Decode a message of the type `AnyValue`; one without a value is null."""
    kind = value.WhichOneof("value")
    if kind is None or depth > _MAX_DEPTH:
        return None
    if kind == "array_value":
        return [message_value(inner, depth + 1) for inner in value.array_value.values]
    if kind == "kvlist_value":
        return {pair.key: message_value(pair.value, depth + 1) for pair in value.kvlist_value.values}
    return getattr(value, kind)
