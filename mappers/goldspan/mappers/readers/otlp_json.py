"""OTLP/JSON as parsed by any JSON parser: requests of spans, of log records or of both, parts of them, bare records."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from types import NoneType
from typing import Any, NamedTuple

from goldspan.mappers.readers.problems import BAD_RECORD, BAD_SPAN, OnProblem, describe
from goldspan.mappers.spans import DecodedSpan, EventView, LogView, LostSpan, RecordView, ResourceView, SpanView
from goldspan.scoring.errors import Problem
from goldspan.scoring.json_values import is_dict, is_list, is_mapping, is_sequence, shown
from goldspan.scoring.sessions import SpanRef

# How each type of field may be written, at every door: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
#
#     "startTimeUnixNano": "17"  17  17.0  "1.7e1"      an integer
#     "kind": 3  "3"  "SPAN_KIND_CLIENT"  "client"      an enumeration
#     "kind": "FOO"  true  [3]                          unreadable: BadValueError
#
# A field that cannot be read is left out and counted, and its record is kept. A record whose ids cannot be read, or
# that is no object, is left out itself. Of such a span a `LostSpan` remains, where its trace or its session is known.

_MAX_DIGITS = 40
_DIGITS_OF_NOW = 19  # of nanoseconds from 2001 to 2286
_MAX_SHOWN = 60


class BadValueError(ValueError):
    """A value that its field cannot hold: `found ..., expected ...`."""

    def __init__(self, value: object, expected: str) -> None:
        super().__init__(f"found {shown(value, _MAX_SHOWN)}, expected {expected}")


def as_text(value: object) -> str:
    """Read a text. Raises BadValueError, as all of these functions."""
    if isinstance(value, str):
        return value
    raise BadValueError(value, "text")


def as_boolean(value: object) -> bool:
    """Read true or false."""
    if isinstance(value, bool):
        return value
    raise BadValueError(value, "true or false")


def as_number(value: object) -> float:
    """Read a double. "NaN", "Infinity" and "-Infinity" are protobuf's spellings."""
    try:
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            return float(value)
    except (ValueError, OverflowError):
        pass
    raise BadValueError(value, "a number")


def as_integer(value: object, least: int = -(1 << 63), most: int = (1 << 63) - 1) -> int:
    """Read an integer between two bounds: a number, or a text with one. Protobuf accepts `1.0` and `1e3` too."""
    number: object = value
    try:
        if type(value) is str and len(value) <= _MAX_DIGITS:
            number = int(value) if value.removeprefix("-").isdecimal() else float(value)
        if type(number) is float and number.is_integer():
            number = int(number)
    except ValueError:
        pass
    if type(number) is int and least <= number <= most:
        return number
    raise BadValueError(value, f"an integer from {least} to {most}")


def as_enum(value: object, numbers: Mapping[str, int]) -> int:
    """Read a number, or a name that `enum_names` knows."""
    if isinstance(value, str) and not value.isdecimal():
        if (found := numbers.get(value.upper())) is None:
            raise BadValueError(value, f"one of {', '.join(numbers)}")
        return found
    return as_integer(value, -(1 << 31), (1 << 31) - 1)


def enum_names(numbers: Mapping[str, int]) -> dict[str, int]:
    """Return the numbers of an enumeration by the names that are written: with what all begin with, and without."""
    first, *others = numbers
    prefix = next(
        first[:end] for end in range(len(first), -1, -1) if all(one.startswith(first[:end]) for one in others)
    )
    return {**numbers, **{name.removeprefix(prefix): number for name, number in numbers.items()}}


def as_bytes(value: object) -> bytes:
    """Read base64, of either alphabet."""
    if isinstance(value, str):
        try:
            return base64.b64decode(value.replace("-", "+").replace("_", "/"), validate=True)
        except (binascii.Error, ValueError):
            pass
    raise BadValueError(value, "base64")


def as_id(value: object, size: int) -> bytes:
    """Read the bytes of an id, which OTLP/JSON writes in hex, and `json_format` of protobuf in base64; or of none."""
    if isinstance(value, str):
        text = value.strip()
        try:
            if len(text) in (2 * size, 0):
                return bytes.fromhex(text)
            if len(text) == (size + 2) // 3 * 4 and len(found := base64.b64decode(text, validate=True)) == size:
                return found
        except (ValueError, binascii.Error):
            pass
    raise BadValueError(value, f"{2 * size} hex digits")


# Attribute values of OTLP/JSON (`AnyValue`), decoded to plain Python without ever raising.
#
# The encoding is that of the OTLP specification, "JSON Protobuf Encoding": int64 as strings or numbers, bytes as
# base64, an empty value for null. Values that a sloppy writer left bare are taken as they are.

_MAX_DEPTH = 100  # protobuf's own limit of nesting


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


def _or_as_it_is(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return what reads a value; one that it cannot read passes as it is."""

    def decode(inner: Any) -> Any:
        try:
            return read(inner)
        except BadValueError:
            return inner

    return decode


integer = _or_as_it_is(as_integer)
"""Decodes an int64, which JSON writers put as a string or as a number; anything else passes as it is."""
_double, _bytes = _or_as_it_is(as_number), _or_as_it_is(as_bytes)


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
    "doubleValue": lambda inner, _: _double(inner),
    "boolValue": lambda inner, _: inner,
    "arrayValue": _array,
    "kvlistValue": _kvlist,
    "bytesValue": lambda inner, _: _bytes(inner),
}
# json_format writes the proto spelling if it preserves field names.
_KINDS = _JSON_KINDS | {kind.replace("V", "_v"): decode for kind, decode in _JSON_KINDS.items()}


# Fields of OTLP/JSON records other than their values: ids, times, kinds, status, events. Never raises.

SPAN_KINDS = {"INTERNAL": 1, "SERVER": 2, "CLIENT": 3, "PRODUCER": 4, "CONSUMER": 5}
STATUS_CODES = {"OK": 1, "ERROR": 2}
_KIND_NAMES = enum_names({f"SPAN_KIND_{name}": number for name, number in {"UNSPECIFIED": 0, **SPAN_KINDS}.items()})
_STATUS_NAMES = enum_names({f"STATUS_CODE_{name}": number for name, number in {"UNSET": 0, **STATUS_CODES}.items()})
_IS_REMOTE = 0x200  # `SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK` of trace.proto
_MAX_ENUM, _MAX_FLAGS, _MAX_TIME = (1 << 31) - 1, (1 << 32) - 1, (1 << 64) - 1


as_kind, as_code = partial(as_enum, numbers=_KIND_NAMES), partial(as_enum, numbers=_STATUS_NAMES)
"""Read a `SpanKind`, and a `StatusCode`."""
as_flags, as_time = partial(as_integer, least=0, most=_MAX_FLAGS), partial(as_integer, least=0, most=_MAX_TIME)
"""Read the flags of a span, and nanoseconds since the epoch."""


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
    if type(value) is str and len(value) == _DIGITS_OF_NOW and value.isdecimal():
        return int(value)  # as most are
    return _or_zero(as_time, value)


def span_kind(value: object) -> int:
    """Return a `SpanKind` from a number or a name; 0 if invalid."""
    if type(value) is int and 0 <= value <= _MAX_ENUM:
        return value  # as most are
    return _or_zero(as_kind, value)


def is_remote(flags: object) -> bool:
    """Return whether a span's flags say that its parent is in another process."""
    if type(flags) is int and 0 <= flags <= _MAX_FLAGS:
        return bool(flags & _IS_REMOTE)  # as most are
    return bool(_or_zero(as_flags, flags) & _IS_REMOTE)


def status_code(status: object) -> int:
    """Return the `StatusCode` of a status from a number or a name; 0 if invalid."""
    code = status.get("code") if is_dict(status) else None
    if type(code) is int and 0 <= code <= _MAX_ENUM:
        return code  # as most are
    return _or_zero(as_code, code)


def _or_zero(read: Callable[[object], int], value: object) -> int:
    try:
        return 0 if value is None else read(value)
    except BadValueError:
        return 0


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


def _lost(trace_id: str, raw: dict[str, Any]) -> SpanView | None:
    """Return what is known of a record without readable ids: its trace, else attributes that may name its session."""
    attributes = {} if trace_id else decode_attributes(raw.get("attributes"))
    return LostSpan(trace_id, "", attributes=attributes) if trace_id or attributes else None


def _ids(raw: dict[str, Any]) -> tuple[str, str]:
    return hex_id(_either(raw, "traceId", "trace_id"), 32), hex_id(_either(raw, "spanId", "span_id"), 16)


def _either(raw: Mapping[str, Any], name: str, other: str) -> Any:
    """Return a field by either of its spellings."""
    return raw.get(name) or raw.get(other)


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
_Fields = Sequence[tuple[str, str, Callable[[Any], object]]]
"""Two spellings of a field, and what reads it or raises BadValueError."""


def _as_list(value: object) -> object:
    if is_list(value):
        return value
    raise BadValueError(value, "a list")


def _as_status(value: object) -> object:
    if not is_dict(value):
        raise BadValueError(value, "an object")
    if (code := value.get("code")) is not None:
        as_code(code)
    return value


_IDS = (("traceId", "trace_id"), ("spanId", "span_id"), ("parentSpanId", "parent_span_id"))
_SPAN_FIELDS: _Fields = (
    ("name", "name", as_text),
    ("kind", "kind", as_kind),
    ("startTimeUnixNano", "start_time_unix_nano", as_time),
    ("endTimeUnixNano", "end_time_unix_nano", as_time),
    ("flags", "flags", as_flags),
    ("status", "status", _as_status),
    ("events", "events", _as_list),
    ("links", "links", _as_list),
)
_LOG_FIELDS: _Fields = (
    ("timeUnixNano", "time_unix_nano", as_time),
    ("observedTimeUnixNano", "observed_time_unix_nano", as_time),
    ("eventName", "event_name", as_text),
)
_RECENT_RESOURCES = 8
_CODES = (0, 1, 2)
_OPTIONAL_TYPES = frozenset(
    product((NoneType, str), (NoneType, int), (NoneType, dict), (NoneType, list), (NoneType, list))
)
"""Types of a parent id, flags, status, events and links as exporters write them."""


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
            yield from self._of_scope({_LOGS.records[0]: [item]}, _LOGS, self.resource(None), source)
        elif not _SPAN_MARKS.isdisjoint(item):
            yield from self._of_scope({_SPANS.records[0]: [item]}, _SPANS, self.resource(None), source)
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
                continue
            read = self._log if signal is _LOGS else self.span
            if (view := read(record, scope, resource, source)) is not None:
                yield view

    def _log(self, raw: dict[str, Any], scope: object, resource: ResourceView, source: str) -> RecordView | None:
        self.records += 1
        trace_id, span_id = _ids(raw)
        if not self._is_usable(raw, _LOG_FIELDS, "log record", source):
            return _lost(trace_id, raw)
        return LogView(
            trace_id,
            span_id,
            nanoseconds(_either(raw, "timeUnixNano", "time_unix_nano"))
            or nanoseconds(_either(raw, "observedTimeUnixNano", "observed_time_unix_nano")),
            text_of(raw, "eventName" if raw.get("eventName") else "event_name"),
            decode_value(raw.get("body")),
            decode_attributes(raw.get("attributes")),
            text_of(scope, "name"),
            resource,
        )

    def span(self, raw: dict[str, Any], scope: object, resource: ResourceView, source: str) -> SpanView | None:
        """Return one span of this scope and resource; if its ids cannot be read, what is known of it."""
        self.records += 1
        trace_id, span_id = _ids(raw)
        parent_id = _either(raw, "parentSpanId", "parent_span_id")
        name, kind = text_of(raw, "name"), span_kind(raw.get("kind"))
        start = nanoseconds(_either(raw, "startTimeUnixNano", "start_time_unix_nano"))
        end = nanoseconds(_either(raw, "endTimeUnixNano", "end_time_unix_nano"))
        flags, status, events, links = raw.get("flags"), raw.get("status"), raw.get("events"), raw.get("links")
        # What was read is right where it is not empty, so that most spans need not be looked at field by field.
        is_usual = trace_id and span_id and name and kind and start and end
        if not (is_usual and _are_usual(parent_id, flags, status, events, links)) and not self._is_usable(
            raw, _SPAN_FIELDS, "span", source
        ):
            return _lost(trace_id, raw)
        return DecodedSpan(
            trace_id,
            span_id,
            hex_id(parent_id, 16) if parent_id else "",
            name,
            start,
            end,
            kind,
            is_remote(flags) if flags else False,
            status_code(status) if status else 0,
            text_of(status, "message") if status else "",
            self._attributes(raw, source),
            event_views(events) if events else [],
            link_refs(links) if links else [],
            text_of(scope, "name"),
            resource,
        )

    def _attributes(self, raw: Mapping[str, Any], source: str) -> dict[str, Any]:
        attributes = raw.get("attributes")
        if not (attributes is None or is_list(attributes) or is_dict(attributes)):
            message = f"found {describe(attributes)} as the attributes of span {raw.get('name')!r}; expected a list"
            self._problem(BAD_SPAN, message, source)
        return decode_attributes(attributes)

    def _is_usable(self, raw: Mapping[str, Any], fields: _Fields, what: str, source: str) -> bool:
        """Report the fields of a record that cannot be read; False if its ids cannot be, which may be any text here."""
        for name, other, read in fields:
            value = raw.get(name)
            if value is None and (value := raw.get(other)) is None:
                continue
            try:
                read(value)
            except BadValueError as error:
                self._problem(BAD_SPAN, f"{name} of {what} {raw.get('name')!r}: {error}; it is left out", source)
        for name, other in _IDS:
            value = _either(raw, name, other)
            if value and not isinstance(value, str):
                message = f"{name} of {what} {raw.get('name')!r}: found {describe(value)}, expected hex digits"
                self._problem(BAD_SPAN, message, source)
                return False
        return True

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


def _are_usual(parent_id: Any, flags: Any, status: Any, events: Any, links: Any) -> bool:
    """Tell whether these fields of a span, which may be left out, are as exporters write them."""
    return (
        (type(parent_id), type(flags), type(status), type(events), type(links)) in _OPTIONAL_TYPES
        and (not flags or 0 < flags <= _MAX_FLAGS)
        and (not status or status.get("code", 0) in _CODES)
    )


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
