"""Tables of spans, a row each: what the Collector's ClickHouse exporter and otlp2parquet write, and tables like theirs.

    TraceId, SpanId, ParentSpanId    text, or bytes
    SpanName, SpanKind, ScopeName, StatusCode, StatusMessage, ServiceName
    Timestamp                        start; EndTimestamp, or Duration in nanoseconds
    SpanAttributes, ResourceAttributes    a map, pairs, a struct, or JSON as text
    Events, Links                    lists of structs; or lists side by side: Events.Name, Events.Attributes, ...

Names are compared without case, dots and underscores: `trace_id` is read as `TraceId`, `Events.Name` as `EventsName`.
A map of texts has lost the types of its values: they stay texts, but for `true` and `false`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from goldspan.mappers.readers.compression import OnBytes
from goldspan.mappers.readers.otlp_json import encode_attributes, hex_id, is_remote, span_kind, status_code
from goldspan.mappers.readers.problems import BAD_SPAN, OnProblem, describe
from goldspan.mappers.spans import DecodedSpan, EventView, ResourceView, SpanView
from goldspan.scoring.errors import Problem
from goldspan.scoring.json_values import is_list, is_mapping
from goldspan.scoring.sessions import SpanRef

_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "trace_id": ("traceid",),
    "span_id": ("spanid",),
    "parent_id": ("parentspanid", "parentid"),
    "name": ("spanname", "name"),
    "kind": ("spankind", "kind"),
    "start": ("timestamp", "starttimestamp", "starttimeunixnano", "starttime"),
    "end": ("endtimestamp", "endtimeunixnano", "endtime"),
    "duration": ("duration", "durationnano", "durationns"),
    "attributes": ("spanattributes", "attributes"),
    "resource": ("resourceattributes", "resource", "otelresourceattributes"),
    "service": ("servicename",),
    "scope": ("scopename", "otelscopename"),
    "status_code": ("statuscode", "otelstatuscode"),
    "status_message": ("statusmessage", "otelstatusmessage"),
    "flags": ("flags", "spanflags"),
    "events": ("events", "otelevents"),
    "event_names": ("eventsname",),
    "event_attributes": ("eventsattributes",),
    "links": ("links",),
    "link_traces": ("linkstraceid",),
    "link_spans": ("linksspanid",),
}
_NEEDED = ("trace_id", "span_id", "start", "attributes")
_NANOSECONDS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_MAX_RESOURCES = 256
_ROWS_AT_ONCE = 1024
_MAGIC = b"PAR1"
PARQUET_MISSING = "is Parquet, and pyarrow is not installed; pip install 'goldspan[parquet]'"
_BOOLEANS: Mapping[str, Any] = {"true": True, "false": False}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def is_span_table(columns: Collection[str]) -> bool:
    """Return whether a table with these columns holds spans."""
    found = _fields(columns)
    return all(field in found for field in _NEEDED)


class ParquetMissingError(Exception):
    """A file is Parquet, and the package that reads it is not installed."""


class BrokenParquetError(Exception):
    """A Parquet file cannot be read further."""


class SpanTableReader:
    """Reads rows of one table; keeps one resource object for equal resources."""

    def __init__(self, columns: Collection[str], on_problem: OnProblem) -> None:
        """Take the names of the table's columns. Columns that goldspan does not know are not read."""
        self._on_problem = on_problem
        self._fields = _fields(columns)
        self._resources: dict[object, ResourceView] = {}
        self.records = 0
        """How many rows were read as spans."""

    @property
    def columns(self) -> list[str]:
        """The columns that are read."""
        return list(self._fields.values())

    def batch(self, batch: Any, place: str = "table", first_row: int = 0) -> Iterator[SpanView]:
        """Yield the spans in a `pyarrow.RecordBatch` with the table's columns; `first_row` is its position in it."""
        fields = list(self._fields)
        columns = [_values(batch.column(name)) for name in self._fields.values()]
        for number, values in enumerate(zip(*columns, strict=True), start=first_row):
            yield from self._row(dict(zip(fields, values, strict=True)), place, number)

    def rows(self, rows: Iterable[Mapping[str, Any]], place: str = "table") -> Iterator[SpanView]:
        """Yield the spans in rows by column name."""
        for number, row in enumerate(rows):
            yield from self._row({field: row.get(name) for field, name in self._fields.items()}, place, number)

    def _row(self, row: dict[str, Any], place: str, number: int) -> Iterator[SpanView]:
        try:
            yield self._span(row)
        except (TypeError, ValueError, KeyError, OverflowError, RecursionError) as error:
            self._on_problem(Problem(BAD_SPAN, str(error), f"{place}: row {number:,}"))
        else:
            self.records += 1

    def _span(self, row: dict[str, Any]) -> SpanView:
        get = row.get
        start = nanoseconds_of(get("start"))
        end = nanoseconds_of(get("end")) if get("end") is not None else start + max(_duration(get("duration")), 0)
        return DecodedSpan(
            _id(get("trace_id"), 32),
            _id(get("span_id"), 16),
            _id(get("parent_id"), 16),
            _text(get("name")),
            start,
            end if start or get("end") is not None else 0,
            span_kind(get("kind")),
            is_remote(get("flags")),
            status_code({"code": get("status_code")}),
            _text(get("status_message")),
            attributes_of(get("attributes")),
            _events(row),
            _links(row),
            _text(get("scope")),
            self._resource(get("resource"), get("service")),
        )

    def _resource(self, written: Any, service: Any) -> ResourceView:
        key = (written if isinstance(written, str) else repr(written), service)
        view = self._resources.get(key)
        if view is None:
            attributes = dict(attributes_of(written))
            if isinstance(service, str) and service:
                attributes.setdefault("service.name", service)
            if len(self._resources) >= _MAX_RESOURCES:
                self._resources.clear()
            view = self._resources[key] = ResourceView(attributes)
        return view


def is_parquet(head: bytes) -> bool:
    """Tell by its first bytes whether a file is Parquet."""
    return head.startswith(_MAGIC)


def parquet_columns(path: Path) -> list[str]:
    """Return the names of a Parquet file's columns. Raises ParquetMissingError, BrokenParquetError, OSError."""
    with _opened(path) as file:
        return list(file.schema_arrow.names)


def read_parquet(path: Path, on_problem: OnProblem, on_bytes: OnBytes | None = None) -> Iterator[SpanView]:
    """Yield the spans in a Parquet file, some rows at a time; none if it is another table.

    Raises ParquetMissingError, BrokenParquetError, OSError.
    """
    size = path.stat().st_size
    with _opened(path) as file:
        names = file.schema_arrow.names
        if not is_span_table(names):
            return
        reader = SpanTableReader(names, on_problem)
        rows, reported = 0, 0
        for batch in file.iter_batches(_ROWS_AT_ONCE, columns=reader.columns):
            yield from reader.batch(batch, str(path), rows)
            rows += batch.num_rows
            if on_bytes is not None:
                now = size * rows // file.metadata.num_rows
                on_bytes(now - reported)
                reported = now


@contextlib.contextmanager
def _opened(path: Path) -> Generator[Any]:
    if find_spec("pyarrow") is None:
        raise ParquetMissingError(PARQUET_MISSING)
    arrow_error = import_module("pyarrow").ArrowException
    try:
        with import_module("pyarrow.parquet").ParquetFile(path) as file:
            yield file
    except arrow_error as error:
        raise BrokenParquetError(str(error)) from None


def otlp_of_span(span: DecodedSpan) -> dict[str, Any]:
    """Return a span as an OTLP/JSON request."""
    names = {"traceId": span.trace_id, "spanId": span.span_id, "parentSpanId": span.parent_id, "name": span.name}
    written: dict[str, Any] = {
        **names,
        "kind": span.kind,
        "startTimeUnixNano": str(span.start),
        "endTimeUnixNano": str(span.end),
        "attributes": encode_attributes(span.attributes),
        "status": {"code": span.status_code, "message": span.status_message},
        "events": [{"name": one.name, "attributes": encode_attributes(one.attributes)} for one in span.events],
        "links": [{"traceId": ref.trace_id, "spanId": ref.span_id} for ref in span.links],
    }
    scope_spans = {"scope": {"name": span.scope_name}, "spans": [written]}
    resource = {"attributes": encode_attributes(span.resource.attributes)}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [scope_spans]}]}


def attributes_of(written: Any) -> dict[str, Any]:
    """Return attributes by key from a map, a list of pairs, a struct, or JSON as text.

    Raises ValueError for anything else. ClickHouse's type JSON makes nested objects of the dots in keys; such a key is
    then there both ways.
    """
    if written is None or written == "":
        return {}
    value = written
    if isinstance(value, str | bytes):
        with contextlib.suppress(ValueError):
            value = json.loads(value)
    if is_mapping(value):
        whole = value is not written  # a struct has a field for every attribute that any row has
        return _flat({str(key): inner for key, inner in value.items() if whole or inner is not None})
    if is_list(value) and value is written:
        pairs = ((pair["key"], pair.get("value")) if is_mapping(pair) else pair for pair in value)
        return {str(key): _BOOLEANS.get(inner, inner) if isinstance(inner, str) else inner for key, inner in pairs}
    raise ValueError(f"found {describe(written)} as attributes; expected a map, or an object as JSON")


def _flat(attributes: dict[str, Any]) -> dict[str, Any]:
    if not any(is_mapping(value) for value in attributes.values()) or any("." in key for key in attributes):
        return attributes
    found = dict(attributes)
    waiting = [(key, value) for key, value in attributes.items() if is_mapping(value)]
    while waiting:
        prefix, inner = waiting.pop()
        for key, value in inner.items():
            name = f"{prefix}.{key}"
            found.setdefault(name, value)
            if is_mapping(value):
                waiting.append((name, value))
    return found


def _fields(columns: Collection[str]) -> dict[str, str]:
    known = {name.replace("_", "").replace(".", "").lower(): name for name in columns}
    found = {field: next((known[name] for name in names if name in known), None) for field, names in _COLUMNS.items()}
    return {field: name for field, name in found.items() if name is not None}


def _values(column: Any) -> Sequence[Any]:
    """Return the values of an Arrow column; times as nanoseconds, which `datetime` would round."""
    kind = str(column.type)
    unit = kind.partition("[")[2].rstrip("]").partition(",")[0]
    if kind.startswith(("timestamp[", "duration[")):
        factor = _NANOSECONDS[unit]
        return [None if value is None else value * factor for value in column.cast("int64").to_pylist()]
    return cast("list[Any]", column.to_pylist())


def _id(value: Any, length: int) -> str:
    return hex_id(value.hex() if isinstance(value, bytes) else value, length)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def nanoseconds_of(value: Any) -> int:
    """Return a time in nanoseconds since the epoch; a time without a zone is in UTC."""
    nanoseconds = 0
    if isinstance(value, str):
        whole, _, fraction = value.strip().partition(".")
        digits = fraction[: len(fraction) - len(fraction.lstrip("0123456789"))]
        nanoseconds = int(digits[:9].ljust(9, "0")) if digits else 0
        value = datetime.fromisoformat(whole + fraction[len(digits) :])
    if isinstance(value, datetime):
        moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        nanoseconds += (moment - _EPOCH) // timedelta(microseconds=1) * 1000
        return max(nanoseconds, 0)
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"found {describe(value)} as a time; expected a timestamp, or nanoseconds since the epoch")
    return max(value, 0)


def _duration(value: Any) -> int:
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1) * 1000
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0


def _events(row: Mapping[str, Any]) -> list[EventView]:
    events = row.get("events")
    if is_list(events):
        found = [event for event in events if is_mapping(event)]
        pairs = [(_of(event, "name") or _of(event, "eventname"), _of(event, "attributes")) for event in found]
    else:
        names, attributes = row.get("event_names") or (), row.get("event_attributes") or ()
        pairs = list(zip(names, attributes, strict=False)) if len(attributes) else [(name, None) for name in names]
    return [EventView(_text(name), attributes_of(attributes)) for name, attributes in pairs]


def _links(row: Mapping[str, Any]) -> list[SpanRef]:
    links = row.get("links")
    if is_list(links):
        pairs = [(_of(link, "traceid"), _of(link, "spanid")) for link in links if is_mapping(link)]
    else:
        pairs = list(zip(row.get("link_traces") or (), row.get("link_spans") or (), strict=False))
    refs = [SpanRef(_id(trace_id, 32), _id(span_id, 16)) for trace_id, span_id in pairs]
    return [ref for ref in refs if ref.trace_id and ref.span_id]


def _of(struct: Mapping[str, Any], field: str) -> Any:
    return next((value for key, value in struct.items() if key.replace("_", "").lower() == field), None)
