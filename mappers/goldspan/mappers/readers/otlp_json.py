"""OTLP/JSON as parsed by any JSON parser: requests of spans, of log records or of both, parts of them, bare records."""

# ruff: noqa: D102 - the members of a span view are described by SpanView

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from goldspan.mappers.json_shapes import is_list, is_object
from goldspan.mappers.readers.anyvalue import decode_attributes, decode_value
from goldspan.mappers.readers.otlp_json_fields import (
    event_views,
    hex_id,
    is_remote,
    link_refs,
    nanoseconds,
    scope_name,
    span_kind,
    status_code,
    status_message,
)
from goldspan.mappers.readers.problems import BAD_RECORD, BAD_SPAN, OnProblem, found
from goldspan.mappers.spans import EventView, LogView, RecordView, ResourceView, SpanView
from goldspan.scoring.errors import Problem
from goldspan.scoring.sessions import SpanRef


class _Signal(NamedTuple):
    """How the records of one signal are nested: the names of each list, the usual one first."""

    resources: tuple[str, ...]
    scopes: tuple[str, ...]
    records: tuple[str, ...]


_SPANS = _Signal(
    ("resourceSpans", "resource_spans", "batches"),
    ("scopeSpans", "scope_spans", "instrumentationLibrarySpans"),
    ("spans",),
)
_LOGS = _Signal(("resourceLogs", "resource_logs"), ("scopeLogs", "scope_logs"), ("logRecords", "log_records"))
_LOG_MARKS = frozenset({"observedTimeUnixNano", "observed_time_unix_nano", "timeUnixNano", "time_unix_nano"})
_SPAN_MARKS = frozenset({"spanId", "span_id", "traceId", "trace_id", "startTimeUnixNano", "attributes", "name"})
_RECENT_RESOURCES = 8


class JsonSpan:
    """One span of OTLP/JSON; nothing is decoded before it is asked for."""

    __slots__ = ("_attributes", "_raw", "_scope", "resource")

    def __init__(self, raw: dict[str, Any], scope: object, resource: ResourceView) -> None:
        self._raw = raw
        self._scope = scope
        self.resource = resource
        self._attributes: dict[str, Any] | None = None

    @property
    def trace_id(self) -> str:
        return hex_id(self._raw.get("traceId") or self._raw.get("trace_id"), 32)

    @property
    def span_id(self) -> str:
        return hex_id(self._raw.get("spanId") or self._raw.get("span_id"), 16)

    @property
    def parent_id(self) -> str:
        return hex_id(self._raw.get("parentSpanId") or self._raw.get("parent_span_id"), 16)

    @property
    def name(self) -> str:
        name = self._raw.get("name")
        return name if isinstance(name, str) else ""

    @property
    def start(self) -> int:
        return nanoseconds(self._raw.get("startTimeUnixNano") or self._raw.get("start_time_unix_nano"))

    @property
    def end(self) -> int:
        return nanoseconds(self._raw.get("endTimeUnixNano") or self._raw.get("end_time_unix_nano"))

    @property
    def kind(self) -> int:
        return span_kind(self._raw.get("kind"))

    @property
    def parent_is_remote(self) -> bool:
        return is_remote(self._raw.get("flags"))

    @property
    def status_code(self) -> int:
        return status_code(self._raw.get("status"))

    @property
    def status_message(self) -> str:
        return status_message(self._raw.get("status"))

    @property
    def attributes(self) -> Mapping[str, Any]:
        if self._attributes is None:
            self._attributes = decode_attributes(self._raw.get("attributes"))
        return self._attributes

    @property
    def events(self) -> Sequence[EventView]:
        return event_views(self._raw.get("events"))

    @property
    def links(self) -> Sequence[SpanRef]:
        return link_refs(self._raw.get("links"))

    @property
    def scope_name(self) -> str:
        return scope_name(self._scope)


class JsonReader:
    """Reads parsed OTLP/JSON; keeps one resource object for equal resources, also over many requests."""

    def __init__(self, on_problem: OnProblem) -> None:
        self._on_problem = on_problem
        self._resources: list[tuple[object, ResourceView]] = []
        self.records = 0
        """How many spans and log records were read, and how many requests held logs or metrics instead of spans."""

    def views(self, parsed: object, source: str = "") -> Iterator[RecordView]:
        """Yield the records of a request, of a part of one, of a list of these, and bare records."""
        waiting: list[object] = [parsed]
        while waiting:
            item = waiting.pop()
            if is_list(item):
                waiting.extend(reversed(item))
            elif is_object(item):
                yield from self._object(item, source)
            else:
                message = f"found {found(item)} where an OTLP trace request or a span was expected"
                self._problem(BAD_RECORD, message, source)

    def _object(self, item: dict[str, Any], source: str) -> Iterator[RecordView]:
        signals = [signal for signal in (_SPANS, _LOGS) if _first(item, signal.resources) is not None]
        for signal in signals:
            self.records += signal is _LOGS
            for group in self._list(_first(item, signal.resources), signal.resources[0], source):
                yield from self._of_resource(group, signal, source)
        if not signals:
            yield from self._part(item, source)

    def _part(self, item: dict[str, Any], source: str) -> Iterator[RecordView]:
        for signal in (_SPANS, _LOGS):
            if _first(item, signal.scopes) is not None:
                yield from self._of_resource(item, signal, source)
                return
            if any(key in item for key in signal.records):
                yield from self._of_scope(item, signal, self.resource(None), source)
                return
        if "resourceMetrics" in item or "resource_metrics" in item:
            self.records += 1
        elif "startTimeUnixNano" not in item and not _LOG_MARKS.isdisjoint(item):
            yield self._log(item, None, self.resource(None))
        elif not _SPAN_MARKS.isdisjoint(item):
            yield self._span(item, None, self.resource(None), source)
        elif item:
            keys = ", ".join(repr(str(key)) for key in list(item)[:5])
            self._problem(BAD_RECORD, f"found an object with the keys {keys}; expected resourceSpans or a span", source)

    def _of_resource(self, group: object, signal: _Signal, source: str) -> Iterator[RecordView]:
        if not is_object(group):
            self._problem(BAD_SPAN, f"found {found(group)} in {signal.resources[0]}; expected an object", source)
            return
        resource = self.resource(group.get("resource"))
        for inner in self._list(_first(group, signal.scopes), signal.scopes[0], source):
            yield from self._of_scope(inner, signal, resource, source)

    def _of_scope(self, group: object, signal: _Signal, resource: ResourceView, source: str) -> Iterator[RecordView]:
        if not is_object(group):
            self._problem(BAD_SPAN, f"found {found(group)} in {signal.scopes[0]}; expected an object", source)
            return
        scope = group.get("scope") or group.get("instrumentationLibrary")
        for record in self._list(_first(group, signal.records), signal.records[0], source):
            if not is_object(record):
                self._problem(BAD_SPAN, f"found {found(record)} in {signal.records[0]}; expected an object", source)
            elif signal is _LOGS:
                yield self._log(record, scope, resource)
            else:
                yield self._span(record, scope, resource, source)

    def _log(self, raw: dict[str, Any], scope: object, resource: ResourceView) -> LogView:
        self.records += 1
        name = raw.get("eventName") or raw.get("event_name")
        return LogView(
            hex_id(raw.get("traceId") or raw.get("trace_id"), 32),
            hex_id(raw.get("spanId") or raw.get("span_id"), 16),
            nanoseconds(raw.get("timeUnixNano") or raw.get("time_unix_nano"))
            or nanoseconds(raw.get("observedTimeUnixNano") or raw.get("observed_time_unix_nano")),
            name if isinstance(name, str) else "",
            decode_value(raw.get("body")),
            decode_attributes(raw.get("attributes")),
            scope_name(scope),
            resource,
        )

    def _span(self, raw: dict[str, Any], scope: object, resource: ResourceView, source: str) -> SpanView:
        self.records += 1
        attributes = raw.get("attributes")
        if attributes is not None and not isinstance(attributes, list | dict):
            message = f"found {found(attributes)} as the attributes of span {raw.get('name')!r}; expected a list"
            self._problem(BAD_SPAN, message, source)
        return JsonSpan(raw, scope, resource)

    def _list(self, value: object, field: str, source: str) -> list[Any]:
        if value is None:
            return []
        if is_list(value):
            return value
        self._problem(BAD_SPAN, f"found {found(value)} as {field}; expected a list", source)
        return []

    def resource(self, raw: object) -> ResourceView:
        """Return the one view of resources that are equal to this one, as far as it was seen lately."""
        for seen, view in self._resources:
            if _equal(seen, raw):
                return view
        attributes = raw.get("attributes") if is_object(raw) else None
        view = ResourceView(decode_attributes(attributes))
        self._resources.insert(0, (raw, view))
        del self._resources[_RECENT_RESOURCES:]
        return view

    def _problem(self, code: str, message: str, source: str) -> None:
        self._on_problem(Problem(code, message, source))


def _equal(one: object, other: object) -> bool:
    try:
        return one == other
    except RecursionError:
        return False


def _first(item: Mapping[str, Any], keys: Sequence[str]) -> Any:
    for key in keys:
        if (value := item.get(key)) is not None:
            return value
    return None
