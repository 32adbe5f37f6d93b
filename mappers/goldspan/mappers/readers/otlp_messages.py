"""OTLP protobuf messages already in memory: requests and data of traces and logs, parts of them, bare records.

Told by their fields, so that no protobuf module is imported here.
"""

# ruff: noqa: D102 - the members of a span view are described by SpanView

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from goldspan.mappers.spans import EventView, LogView, RecordView, ResourceView, SpanView
from goldspan.scoring.sessions import SpanRef

IS_REMOTE = 0x200
_MAX_DEPTH = 100


class MessageSpan:
    """One `opentelemetry.proto.trace.v1.Span`."""

    __slots__ = ("_attributes", "_scope", "_span", "resource")

    def __init__(self, span: Any, scope: Any, resource: ResourceView) -> None:
        self._span = span
        self._scope = scope
        self.resource = resource
        self._attributes: dict[str, Any] | None = None

    @property
    def trace_id(self) -> str:
        return hex_bytes(self._span.trace_id)

    @property
    def span_id(self) -> str:
        return hex_bytes(self._span.span_id)

    @property
    def parent_id(self) -> str:
        return hex_bytes(self._span.parent_span_id)

    @property
    def name(self) -> str:
        return str(self._span.name)

    @property
    def start(self) -> int:
        return int(self._span.start_time_unix_nano)

    @property
    def end(self) -> int:
        return int(self._span.end_time_unix_nano)

    @property
    def kind(self) -> int:
        return int(self._span.kind)

    @property
    def parent_is_remote(self) -> bool:
        return bool(self._span.flags & IS_REMOTE)

    @property
    def status_code(self) -> int:
        return int(self._span.status.code)

    @property
    def status_message(self) -> str:
        return str(self._span.status.message)

    @property
    def attributes(self) -> Mapping[str, Any]:
        if self._attributes is None:
            self._attributes = message_attributes(self._span.attributes)
        return self._attributes

    @property
    def events(self) -> Sequence[EventView]:
        return [EventView(event.name, message_attributes(event.attributes)) for event in self._span.events]

    @property
    def links(self) -> Sequence[SpanRef]:
        return [SpanRef(hex_bytes(link.trace_id), hex_bytes(link.span_id)) for link in self._span.links]

    @property
    def scope_name(self) -> str:
        return str(self._scope.name) if self._scope is not None else ""


def is_message(value: object) -> bool:
    """Tell protobuf messages from everything else that spans may be given as."""
    return hasattr(value, "DESCRIPTOR") and hasattr(value, "SerializeToString")


def message_views(message: Any) -> Iterator[RecordView]:
    """Yield the spans or log records of a message; `TypeError` for one that holds none by its type."""
    fields = set(message.DESCRIPTOR.fields_by_name)
    if "resource_spans" in fields:
        for group in message.resource_spans:
            yield from _resource_spans(group)
    elif "resource_logs" in fields:
        for group in message.resource_logs:
            yield from _resource_logs(group)
    elif "scope_spans" in fields:
        yield from _resource_spans(message)
    elif "scope_logs" in fields:
        yield from _resource_logs(message)
    elif "spans" in fields:
        yield from _scope_spans(message, ResourceView({}))
    elif "log_records" in fields:
        yield from _scope_logs(message, ResourceView({}))
    elif "span_id" in fields and "start_time_unix_nano" in fields:
        yield MessageSpan(message, None, ResourceView({}))
    elif "span_id" in fields and "observed_time_unix_nano" in fields:
        yield _log(message, None, ResourceView({}))
    else:
        found = message.DESCRIPTOR.full_name
        raise TypeError(f"found a protobuf message of type {found}; expected OTLP spans or log records")


def _resource_spans(group: Any) -> Iterator[SpanView]:
    resource = ResourceView(message_attributes(group.resource.attributes))
    for scope_spans in group.scope_spans:
        yield from _scope_spans(scope_spans, resource)


def _scope_spans(group: Any, resource: ResourceView) -> Iterator[SpanView]:
    for span in group.spans:
        yield MessageSpan(span, group.scope, resource)


def _resource_logs(group: Any) -> Iterator[LogView]:
    resource = ResourceView(message_attributes(group.resource.attributes))
    for scope_logs in group.scope_logs:
        yield from _scope_logs(scope_logs, resource)


def _scope_logs(group: Any, resource: ResourceView) -> Iterator[LogView]:
    for record in group.log_records:
        yield _log(record, group.scope, resource)


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
    """Decode messages of the type `KeyValue`; of a key given twice the last wins."""
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
