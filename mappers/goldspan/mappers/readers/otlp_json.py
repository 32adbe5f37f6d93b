"""OTLP/JSON: trace requests, resource spans, scope spans and bare spans, as parsed by any JSON parser."""

# ruff: noqa: D102 - the members of a span view are described by SpanView

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from goldspan.mappers.json_shapes import is_list, is_object
from goldspan.mappers.readers.anyvalue import decode_attributes, integer
from goldspan.mappers.readers.problems import BAD_RECORD, BAD_SPAN, LOGS_IGNORED, OnProblem, found
from goldspan.mappers.spans import EventView, ResourceView, SpanView
from goldspan.scoring.errors import Problem

_KINDS = {"INTERNAL": 1, "SERVER": 2, "CLIENT": 3, "PRODUCER": 4, "CONSUMER": 5}
_STATUS = {"OK": 1, "ERROR": 2}
_IS_REMOTE = 0x200
"""`SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK` of trace.proto."""
_RESOURCE_SPANS = ("resourceSpans", "resource_spans", "batches")
_SCOPE_SPANS = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans")
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
    def scope_name(self) -> str:
        name = self._scope.get("name") if is_object(self._scope) else None
        return name if isinstance(name, str) else ""


class JsonReader:
    """Reads parsed OTLP/JSON; keeps one resource object for equal resources, also over many requests."""

    def __init__(self, on_problem: OnProblem) -> None:
        self._on_problem = on_problem
        self._resources: list[tuple[object, ResourceView]] = []
        self.records = 0
        """How many spans were read, and how many requests held logs or metrics instead."""

    def spans(self, parsed: object, source: str = "") -> Iterator[SpanView]:
        """Yield the spans of a trace request, of resource spans, of a bare span, or of a list of these."""
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

    def _object(self, item: dict[str, Any], source: str) -> Iterator[SpanView]:
        if (groups := _first(item, _RESOURCE_SPANS)) is not None:
            for group in self._list(groups, "resourceSpans", source):
                yield from self._resource_spans(group, source)
        elif _first(item, _SCOPE_SPANS) is not None:
            yield from self._resource_spans(item, source)
        elif "spans" in item:
            yield from self._scope_spans(item, self.resource(None), source)
        elif "resourceLogs" in item or "resource_logs" in item:
            self.records += 1
            self._problem(LOGS_IGNORED, "holds log records, and no spans are read from them", source)
        elif "resourceMetrics" in item or "resource_metrics" in item:
            self.records += 1
        elif not _SPAN_MARKS.isdisjoint(item):
            yield self._span(item, None, self.resource(None), source)
        elif item:
            keys = ", ".join(repr(str(key)) for key in list(item)[:5])
            self._problem(BAD_RECORD, f"found an object with the keys {keys}; expected resourceSpans or a span", source)

    def _resource_spans(self, group: object, source: str) -> Iterator[SpanView]:
        if not is_object(group):
            self._problem(BAD_SPAN, f"found {found(group)} in resourceSpans; expected an object", source)
            return
        resource = self.resource(group.get("resource"))
        for scope_spans in self._list(_first(group, _SCOPE_SPANS), "scopeSpans", source):
            yield from self._scope_spans(scope_spans, resource, source)

    def _scope_spans(self, group: object, resource: ResourceView, source: str) -> Iterator[SpanView]:
        if not is_object(group):
            self._problem(BAD_SPAN, f"found {found(group)} in scopeSpans; expected an object", source)
            return
        scope = group.get("scope") or group.get("instrumentationLibrary")
        for span in self._list(group.get("spans"), "spans", source):
            if is_object(span):
                yield self._span(span, scope, resource, source)
            else:
                self._problem(BAD_SPAN, f"found {found(span)} in spans; expected an object", source)

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


def hex_id(value: object, length: int) -> str:
    """Return an id in lower case; `""` for none, for an invalid one of zeros only, and for what is no text.

    Ids are hex in OTLP/JSON. `json_format` of protobuf, and Tempo with it, writes base64 all the same, recognised
    here by its length.
    """
    if not isinstance(value, str):
        return ""
    text = value.strip().lower()
    if len(text) == length:
        return text if text[0] != "0" or text.strip("0") else ""
    base64_length = (length // 2 + 2) // 3 * 4
    if len(text) == base64_length and text.endswith("="):
        try:
            text = base64.b64decode(value.strip(), validate=True).hex()
        except (binascii.Error, ValueError):
            return text
    return "" if text.strip("0") == "" else text


def nanoseconds(value: object) -> int:
    """Return a time in nanoseconds since the epoch, a number or a text of one; 0 for what is none."""
    number = integer(value)
    return number if isinstance(number, int) and number > 0 else 0


def span_kind(value: object) -> int:
    """Return a `SpanKind`, written as a number or by its name; 0 for what is none."""
    return _enum(value, "SPAN_KIND_", _KINDS)


def is_remote(flags: object) -> bool:
    """Tell whether a span's flags say that its parent is in another process."""
    number = integer(flags)
    return isinstance(number, int) and bool(number & _IS_REMOTE)


def status_code(status: object) -> int:
    """Return the `StatusCode` of a status, written as a number or by its name; 0 for what is none."""
    return _enum(status.get("code"), "STATUS_CODE_", _STATUS) if is_object(status) else 0


def status_message(status: object) -> str:
    """Return the message of a status; `""` for what is no text."""
    message = status.get("message") if is_object(status) else None
    return message if isinstance(message, str) else ""


def event_views(events: object) -> list[EventView]:
    """Return the events of a span; what is none is left out."""
    return [
        EventView(str(event.get("name") or ""), decode_attributes(event.get("attributes")))
        for event in (events if is_list(events) else ())
        if is_object(event)
    ]


def _enum(value: object, prefix: str, names: Mapping[str, int]) -> int:
    if type(value) is int:
        return value
    if isinstance(value, str):
        if value.isdecimal() and len(value) < 4:
            return int(value)
        return names.get(value.upper().removeprefix(prefix), 0)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _first(item: Mapping[str, Any], keys: Sequence[str]) -> Any:
    for key in keys:
        if (value := item.get(key)) is not None:
            return value
    return None
