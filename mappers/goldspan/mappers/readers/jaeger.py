"""Jaeger's JSON, as its query service and its UI's download write it, turned into OTLP/JSON.

    {"data": [{"traceID", "spans": [...], "processes": {...}}, ...]}, one of these traces, or a bare span

The rules are those of the OpenTelemetry Collector's translation, turned around: tags that stand for a field of OTLP
(kind, status, scope) become that field, all others attributes. Times are microseconds, ids lose their leading zeros.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from goldspan.mappers.readers.otlp_json import OTEL_FIELDS, any_value, integer, nanos, padded, scope_of, status_of
from goldspan.scoring.json_values import is_dict, is_list

_RESPONSE = frozenset({"data", "total", "limit", "offset", "errors"})
_FORMAT = "internal.span.format"
"""A tag in which Jaeger notes how a span came to it."""
_KINDS = {"internal": 1, "server": 2, "client": 3, "producer": 4, "consumer": 5}


def is_jaeger_span(item: object) -> bool:
    """Tell a span of Jaeger from one of OTLP by how its fields are spelled."""
    return is_dict(item) and ("spanID" in item or ("traceID" in item and "operationName" in item))


def otlp_from_jaeger(item: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a trace request with the spans of Jaeger's JSON, in their order; none where `item` is something else.

    What stands where a trace or a span should is handed on as it is, for the reader of OTLP to complain about.
    """
    data = item.get("data")
    if is_list(data) and (any(map(_is_trace, data)) or _RESPONSE.issuperset(item)):
        groups = (_groups(trace) if is_dict(trace) else (trace,) for trace in data)
        return {"resourceSpans": list(itertools.chain.from_iterable(groups))}
    if _is_trace(item):
        return {"resourceSpans": list(_groups(item))}
    if is_jaeger_span(item):
        return {"resourceSpans": list(_groups({"spans": [item]}))}
    return None


def _is_trace(item: object) -> bool:
    if not is_dict(item) or not is_list(spans := item.get("spans")):
        return False
    return is_dict(item.get("processes")) or any(map(is_jaeger_span, spans))


def _groups(trace: Mapping[str, Any]) -> Iterator[object]:
    """Yield resource spans for each run of spans that have process and scope in common."""
    spans = trace.get("spans")
    if not is_list(spans):
        yield {"scopeSpans": [{"spans": spans}]}
        return
    processes = trace.get("processes")
    known = processes if is_dict(processes) else {}
    nothing: tuple[dict[str, str], object] = ({}, None)
    read = (_span(span) if is_dict(span) else (*nothing, span) for span in spans)
    for (scope, process), run in itertools.groupby(read, key=lambda one: one[:2]):
        found = known.get(process) if isinstance(process, str) else process
        scope_spans = {"scope": scope, "spans": [span for *_, span in run]}
        yield {"resource": _resource(found), "scopeSpans": [scope_spans]}


def _resource(process: object) -> dict[str, Any]:
    if not is_dict(process):
        return {}
    attributes = [pair for pair, _ in _tags(process.get("tags"))]
    if isinstance(name := process.get("serviceName"), str) and name:
        attributes.insert(0, {"key": "service.name", "value": {"stringValue": name}})
    return {"attributes": attributes}


def _span(span: dict[str, Any]) -> tuple[dict[str, str], object, dict[str, Any]]:
    """Return a span as (scope, process or its id, OTLP/JSON)."""
    trace_id = padded(span.get("traceID"), 32)
    parent_id, links = _references(span, trace_id)
    special: dict[str, Any] = {}
    attributes = [pair for pair, value in _tags(span.get("tags")) if not _is_special(pair["key"], value, special)]
    start = nanos(span.get("startTime"))
    duration = nanos(span.get("duration"))
    read = {
        "traceId": trace_id,
        "spanId": padded(span.get("spanID"), 16),
        "parentSpanId": parent_id,
        "name": span.get("operationName"),
        "kind": _KINDS.get(str(special.get("span.kind")), 0),
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + duration if start else 0),
        "attributes": attributes,
        "events": list(_events(span.get("logs"))),
        "links": links,
        "status": status_of(special, failed="error" in special),
    }
    process = span.get("process")
    return scope_of(special), process if is_dict(process) else span.get("processID"), read


def _is_special(key: str, value: object, special: dict[str, Any]) -> bool:
    """Tell tags that are fields of OTLP, and keep them."""
    if key == "error":
        is_field = value is True or (isinstance(value, str) and value.lower() == "true")
    elif key == "span.kind":
        is_field = isinstance(value, str) and value in _KINDS
    else:
        is_field = key == _FORMAT or (key in OTEL_FIELDS and isinstance(value, str))
    if is_field:
        special[key] = value
    return is_field


def _references(span: Mapping[str, Any], trace_id: object) -> tuple[str, list[dict[str, Any]]]:
    """Return the parent and the links: only a `CHILD_OF` of the same trace is a parent."""
    parent_id = ""
    links: list[dict[str, Any]] = []
    references = span.get("references")
    for reference in references if is_list(references) else ():
        if not is_dict(reference):
            continue
        other = padded(reference.get("traceID"), 32) or trace_id
        other_span = padded(reference.get("spanID"), 16)
        if reference.get("refType") == "CHILD_OF" and other == trace_id and not parent_id:
            parent_id = other_span
        else:
            links.append({"traceId": other, "spanId": other_span})
    return parent_id or padded(span.get("parentSpanID"), 16), links


def _events(logs: object) -> Iterator[dict[str, Any]]:
    for log in logs if is_list(logs) else ():
        if is_dict(log):
            name = ""
            attributes: list[dict[str, Any]] = []
            for pair, value in _tags(log.get("fields")):
                if pair["key"] == "event" and isinstance(value, str) and not name:
                    name = value
                else:
                    attributes.append(pair)
            yield {"name": name, "timeUnixNano": str(nanos(log.get("timestamp"))), "attributes": attributes}


def _tags(tags: object) -> Iterator[tuple[dict[str, Any], object]]:
    """Yield tags as attributes of OTLP/JSON, with their values as they are."""
    for tag in tags if is_list(tags) else ():
        if is_dict(tag) and isinstance(key := tag.get("key"), str):
            value = tag.get("value")
            yield {"key": key, "value": _any_value(tag.get("type"), value)}, value


def _any_value(kind: object, value: object) -> dict[str, Any]:
    if kind == "binary" and isinstance(value, str):
        return {"bytesValue": value}
    if kind == "bool" and isinstance(value, str):
        return {"boolValue": value.lower() == "true"}
    if kind == "int64" and isinstance(number := integer(value), int):
        return any_value(number)
    if kind == "float64" and isinstance(value, str | int | float) and not isinstance(value, bool):
        return {"doubleValue": value}
    return any_value(value)
