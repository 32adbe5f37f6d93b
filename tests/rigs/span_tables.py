"""Recorded spans as rows of tables, as the Collector's ClickHouse exporter and otlp2parquet write them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from goldspan.mappers.readers.files import read_files
from goldspan.mappers.spans import LogView, SpanView

KINDS = ("Unspecified", "Internal", "Server", "Client", "Producer", "Consumer")
STATUS = ("Unset", "Ok", "Error")


def spans_of(path: Path) -> list[SpanView]:
    return [view for view in read_files([path], lambda _: None) if not isinstance(view, LogView)]


def as_text(value: Any) -> str:
    """A value as the exporter writes it into a map of texts."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def texts(attributes: Any) -> list[tuple[str, str]]:
    return [(key, as_text(value)) for key, value in attributes.items()]


def clickhouse_row(view: SpanView) -> dict[str, Any]:
    """A row of `otel_traces`: maps of texts, and lists side by side for events and links."""
    return {
        **_common(view),
        "ResourceAttributes": texts(view.resource.attributes),
        "SpanAttributes": texts(view.attributes),
        "Events.Name": [one.name for one in view.events],
        "Events.Attributes": [texts(one.attributes) for one in view.events],
        "Links.TraceId": [ref.trace_id for ref in view.links],
        "Links.SpanId": [ref.span_id for ref in view.links],
    }


def json_row(view: SpanView) -> dict[str, Any]:
    """A row with attributes as JSON."""
    return {
        **_common(view),
        "ResourceAttributes": json.dumps(dict(view.resource.attributes)),
        "SpanAttributes": json.dumps(dict(view.attributes)),
        "EventsName": [one.name for one in view.events],
        "EventsAttributes": [json.dumps(dict(one.attributes)) for one in view.events],
        "LinksTraceId": [ref.trace_id for ref in view.links],
        "LinksSpanId": [ref.span_id for ref in view.links],
    }


def _common(view: SpanView) -> dict[str, Any]:
    return {
        "Timestamp": view.start,
        "TraceId": view.trace_id,
        "SpanId": view.span_id,
        "ParentSpanId": view.parent_id,
        "SpanName": view.name,
        "SpanKind": KINDS[view.kind],
        "ServiceName": view.resource.attributes.get("service.name", ""),
        "ScopeName": view.scope_name,
        "Duration": max(view.end - view.start, 0),
        "StatusCode": STATUS[view.status_code],
        "StatusMessage": view.status_message,
    }


def write_table(path: Path, rows: Iterable[dict[str, Any]], **options: Any) -> Path:
    import pyarrow as pa  # noqa: PLC0415 - an extra
    from pyarrow import parquet  # noqa: PLC0415 - an extra

    rows = list(rows)
    texts_ = pa.map_(pa.string(), pa.string())
    types = {
        "Timestamp": pa.timestamp("ns", tz="UTC"),
        "Duration": pa.uint64(),
        "ResourceAttributes": texts_,
        "SpanAttributes": texts_,
        "Events.Attributes": pa.list_(texts_),
    }
    types |= {name: pa.list_(pa.string()) for name in ("Events.Name", "Links.TraceId", "Links.SpanId")}
    lists = ("EventsName", "EventsAttributes", "LinksTraceId", "LinksSpanId")
    if rows and "EventsName" in rows[0]:
        types |= {name: pa.list_(pa.string()) for name in lists}
        types |= {"ResourceAttributes": pa.string(), "SpanAttributes": pa.string()}
    names = list(rows[0]) if rows else list(types)
    schema = pa.schema([(name, types.get(name, pa.string())) for name in names])
    parquet.write_table(pa.Table.from_pylist(rows, schema=schema), path, **options)
    return path
