"""OTLP/JSON as parsed by any JSON parser: requests of spans, of log records or of both, parts of them, bare records."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from goldspan.mappers.readers.problems import BAD_RECORD, BAD_SPAN, OnProblem, describe
from goldspan.mappers.spans import DecodedSpan, EventView, LogView, RecordView, ResourceView, SpanView
from goldspan.scoring.errors import Problem
from goldspan.scoring.json_values import is_dict, is_list, is_mapping, is_sequence
from goldspan.scoring.sessions import SpanRef

# Attribute values of OTLP/JSON (`AnyValue`), decoded to plain Python without ever raising.
#
# The encoding is that of the OTLP specification, "JSON Protobuf Encoding": int64 as strings or numbers, bytes as
# base64, an empty value for null. Values that a sloppy writer left bare are taken as they are.

_MAX_DEPTH = 100
"""Protobuf's own limit of nesting."""


def decode_attributes(raw: object) -> dict[str, Any]:
    """Decode a list of key-value pairs. The last value of a repeated key wins, as in the SDK. Objects pass."""
    if is_dict(raw):
        return raw
    attributes: dict[str, Any] = {}
    if not is_list(raw):
        return attributes
    for pair in raw:
        if not is_dict(pair):
            continue
        if type(key := pair.get("key")) is str:
            attributes[key] = decode_value(pair.get("value"))
    return attributes


def decode_value(value: object, depth: int = 0) -> Any:
    """Decode one `AnyValue`; an empty one, or one of no known kind, is null."""
    if not is_dict(value):
        return value
    text = value.get("stringValue")
    if type(text) is str:
        return text  # most values are
    for kind, inner in value.items():
        decode = _KINDS.get(kind)
        if decode is not None:
            return decode(inner, depth) if depth < _MAX_DEPTH else None
    return None


def encode_attributes(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Encode attributes as a list of key-value pairs."""
    return [{"key": key, "value": encode_value(value)} for key, value in attributes.items()]


def encode_value(value: object) -> dict[str, Any]:
    """Encode one value as `AnyValue`; what OTLP has no kind for becomes text."""
    if value is None:
        return {}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if is_mapping(value):
        return {"kvlistValue": {"values": encode_attributes(value)}}
    if is_sequence(value):
        return {"arrayValue": {"values": list(map(encode_value, value))}}
    return {"stringValue": value if isinstance(value, str) else str(value)}


def integer(inner: object) -> Any:
    """Decode an int64, which JSON writers put as a string or as a number; anything else passes as it is.

    Protobuf's JSON mapping accepts `1.0` and `1e3` for integers, in quotes and without.
    """
    if type(inner) is not str and type(inner) is not float:
        return inner
    try:
        return int(inner)
    except (ValueError, OverflowError):
        pass
    try:
        number = float(inner)
        return int(number) if number.is_integer() else inner
    except (ValueError, OverflowError):
        return inner


def _double(inner: Any, _: int) -> Any:
    # "NaN", "Infinity" and "-Infinity" are the protobuf spellings; float() knows all three.
    if isinstance(inner, str | int) and not isinstance(inner, bool):
        try:
            return float(inner)
        except (ValueError, OverflowError):
            return inner
    return inner


def _bytes(inner: Any, _: int) -> Any:
    if isinstance(inner, str):
        try:
            return base64.b64decode(inner.replace("-", "+").replace("_", "/"), validate=True)
        except (binascii.Error, ValueError):
            return inner
    return inner


def _array(inner: Any, depth: int) -> Any:
    values = inner.get("values") if is_dict(inner) else inner
    return [decode_value(value, depth + 1) for value in values] if is_list(values) else []


def _kvlist(inner: Any, depth: int) -> Any:
    pairs = inner.get("values") if is_dict(inner) else inner
    decoded: dict[str, Any] = {}
    for pair in pairs if is_list(pairs) else ():
        if is_dict(pair) and isinstance(key := pair.get("key"), str):
            decoded[key] = decode_value(pair.get("value"), depth + 1)
    return decoded


_JSON_KINDS: dict[str, Callable[[Any, int], Any]] = {
    "stringValue": lambda inner, _: inner,
    "intValue": lambda inner, _: integer(inner),
    "doubleValue": _double,
    "boolValue": lambda inner, _: inner,
    "arrayValue": _array,
    "kvlistValue": _kvlist,
    "bytesValue": _bytes,
}
# json_format writes the proto spelling if it preserves field names.
_KINDS = _JSON_KINDS | {kind.replace("V", "_v"): decode for kind, decode in _JSON_KINDS.items()}


# Fields of OTLP/JSON records other than their values: ids, times, kinds, status, events. Never raises.

SPAN_KINDS = {"INTERNAL": 1, "SERVER": 2, "CLIENT": 3, "PRODUCER": 4, "CONSUMER": 5}
STATUS_CODES = {"OK": 1, "ERROR": 2}
_IS_REMOTE = 0x200
"""`SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK` of trace.proto."""


def hex_id(value: object, length: int) -> str:
    """Return an id in lower case; `""` if it is missing, all zeros or not a text.

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
    """Return nanoseconds since the epoch from a number or a text; 0 if invalid."""
    number = integer(value)
    return number if isinstance(number, int) and number > 0 else 0


def span_kind(value: object) -> int:
    """Return a `SpanKind` from a number or a name; 0 if invalid."""
    return _enum(value, "SPAN_KIND_", SPAN_KINDS)


def is_remote(flags: object) -> bool:
    """Return whether a span's flags say that its parent is in another process."""
    number = integer(flags)
    return isinstance(number, int) and bool(number & _IS_REMOTE)


def status_code(status: object) -> int:
    """Return the `StatusCode` of a status from a number or a name; 0 if invalid."""
    return _enum(status.get("code"), "STATUS_CODE_", STATUS_CODES) if is_dict(status) else 0


def text_of(holder: object, field: str) -> str:
    """Return the text in a field of an object, such as the name of a scope; `""` for anything else."""
    text = holder.get(field) if is_dict(holder) else None
    return text if isinstance(text, str) else ""


def event_views(events: object) -> list[EventView]:
    """Return the events of a span. Invalid ones are left out."""
    return [
        EventView(text_of(event, "name"), decode_attributes(event.get("attributes")))
        for event in (events if is_list(events) else ())
        if is_dict(event)
    ]


def link_refs(links: object) -> list[SpanRef]:
    """Return the spans that a span links to. Invalid links are left out."""
    refs = [SpanRef(*_ids(link)) for link in (links if is_list(links) else ()) if is_dict(link)]
    return [ref for ref in refs if ref.trace_id and ref.span_id]


def _ids(raw: dict[str, Any]) -> tuple[str, str]:
    trace_id = hex_id(raw.get("traceId") or raw.get("trace_id"), 32)
    return trace_id, hex_id(raw.get("spanId") or raw.get("span_id"), 16)


def _enum(value: object, prefix: str, names: Mapping[str, int]) -> int:
    if type(value) is int:
        return value
    if isinstance(value, str):
        if value.isdecimal() and len(value) < 4:
            return int(value)
        return names.get(value.upper().removeprefix(prefix), 0)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


class _Signal(NamedTuple):
    """The field names of each level of one signal, the usual name first."""

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
            elif is_dict(item):
                yield from self._object(item, source)
            else:
                message = f"found {describe(item)} where an OTLP trace request or a span was expected"
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
            yield self.span(item, None, self.resource(None), source)
        elif item:
            keys = ", ".join(repr(str(key)) for key in list(item)[:5])
            self._problem(BAD_RECORD, f"found an object with the keys {keys}; expected resourceSpans or a span", source)

    def _of_resource(self, group: object, signal: _Signal, source: str) -> Iterator[RecordView]:
        if not is_dict(group):
            self._problem(BAD_SPAN, f"found {describe(group)} in {signal.resources[0]}; expected an object", source)
            return
        resource = self.resource(group.get("resource"))
        for inner in self._list(_first(group, signal.scopes), signal.scopes[0], source):
            yield from self._of_scope(inner, signal, resource, source)

    def _of_scope(self, group: object, signal: _Signal, resource: ResourceView, source: str) -> Iterator[RecordView]:
        if not is_dict(group):
            self._problem(BAD_SPAN, f"found {describe(group)} in {signal.scopes[0]}; expected an object", source)
            return
        scope = group.get("scope") or group.get("instrumentationLibrary")
        for record in self._list(_first(group, signal.records), signal.records[0], source):
            if not is_dict(record):
                self._problem(BAD_SPAN, f"found {describe(record)} in {signal.records[0]}; expected an object", source)
            elif signal is _LOGS:
                yield self._log(record, scope, resource)
            else:
                yield self.span(record, scope, resource, source)

    def _log(self, raw: dict[str, Any], scope: object, resource: ResourceView) -> LogView:
        self.records += 1
        return LogView(
            *_ids(raw),
            nanoseconds(raw.get("timeUnixNano") or raw.get("time_unix_nano"))
            or nanoseconds(raw.get("observedTimeUnixNano") or raw.get("observed_time_unix_nano")),
            text_of(raw, "eventName" if raw.get("eventName") else "event_name"),
            decode_value(raw.get("body")),
            decode_attributes(raw.get("attributes")),
            text_of(scope, "name"),
            resource,
        )

    def span(self, raw: dict[str, Any], scope: object, resource: ResourceView, source: str) -> SpanView:
        """Read one span of this scope and resource."""
        self.records += 1
        attributes = raw.get("attributes")
        if attributes is not None and not isinstance(attributes, list | dict):
            message = f"found {describe(attributes)} as the attributes of span {raw.get('name')!r}; expected a list"
            self._problem(BAD_SPAN, message, source)
        trace_id, span_id = _ids(raw)
        return DecodedSpan(
            trace_id,
            span_id,
            hex_id(raw.get("parentSpanId") or raw.get("parent_span_id"), 16),
            text_of(raw, "name"),
            nanoseconds(raw.get("startTimeUnixNano") or raw.get("start_time_unix_nano")),
            nanoseconds(raw.get("endTimeUnixNano") or raw.get("end_time_unix_nano")),
            span_kind(raw.get("kind")),
            is_remote(raw.get("flags")),
            status_code(raw.get("status")),
            text_of(raw.get("status"), "message"),
            decode_attributes(raw.get("attributes")),
            event_views(raw.get("events")),
            link_refs(raw.get("links")),
            text_of(scope, "name"),
            resource,
        )

    def _list(self, value: object, field: str, source: str) -> list[Any]:
        if value is None:
            return []
        if is_list(value):
            return value
        self._problem(BAD_SPAN, f"found {describe(value)} as {field}; expected a list", source)
        return []

    def resource(self, raw: object) -> ResourceView:
        """Return the one view of resources that are equal to this one, as far as it was seen lately."""
        for seen, view in self._resources:
            if _equal(seen, raw):
                return view
        attributes = raw.get("attributes") if is_dict(raw) else None
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
