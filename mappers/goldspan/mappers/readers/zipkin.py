"""Zipkin's JSON (v2), turned into OTLP/JSON.

    [{"traceId", "id", "name", "timestamp", "duration", "localEndpoint", "tags", ...}, ...]

A client and a server may *share* a span: two records of one id. They are two spans, so the server's half gets an id
of its own, `<id>:server`, whose parent is the client's half, `<id>`. Children that the server's service wrote become
children of its half.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from goldspan.mappers.readers.otlp_json import OTEL_FIELDS, any_value, nanos, padded, scope_of, status_of
from goldspan.scoring.type_guards import is_dict, is_list

_ZIPKIN_MARKS = frozenset({"timestamp", "localEndpoint", "tags", "kind", "duration", "annotations"})
_FIELD_TAGS = OTEL_FIELDS | {"error"}
_Half = tuple[str, str]
"""Trace id and span id of a shared span."""


def is_zipkin_span(item: object) -> bool:
    """Tell a span of Zipkin by its fields."""
    return is_dict(item) and "id" in item and "traceId" in item and "spanId" not in item and not _ZIPKIN_MARKS.isdisjoint(item)


def otlp_from_zipkin(spans: Sequence[object]) -> dict[str, Any]:
    """Return a trace request with these spans, in their order. What is no object is handed on as it is."""
    shared = _shared(spans)
    nothing: tuple[str, dict[str, str]] = ("", {})
    read = (_zipkin_span(span, shared) if is_dict(span) else (*nothing, span) for span in spans)
    groups: list[dict[str, Any]] = []
    for (service, scope), run in itertools.groupby(read, key=lambda one: one[:2]):
        resource = {"attributes": [_attribute("service.name", service)]} if service else {}
        groups.append({"resource": resource, "scopeSpans": [{"scope": scope, "spans": [span for *_, span in run]}]})
    return {"resourceSpans": groups}


def _shared(spans: Sequence[object]) -> dict[_Half, str]:
    """Return the service of the server's half of every shared span.

    It says so itself, or there is a client's half of the same id: not every instrumentation sets `shared`.
    """
    clients = {_half(span) for span in spans if is_dict(span) and span.get("kind") == "CLIENT"}
    return {
        _half(span): _service(span)
        for span in spans
        if is_dict(span) and (span.get("shared") is True or (span.get("kind") == "SERVER" and _half(span) in clients))
    }


def _half(span: Mapping[str, Any]) -> _Half:
    return padded(span.get("traceId"), 32).lower(), padded(span.get("id"), 16).lower()


def _service(span: Mapping[str, Any]) -> str:
    endpoint = span.get("localEndpoint")
    name = endpoint.get("serviceName") if is_dict(endpoint) else None
    return name if isinstance(name, str) else ""


def _zipkin_span(span: dict[str, Any], shared: Mapping[_Half, str]) -> tuple[str, dict[str, str], dict[str, Any]]:
    """Return a span as (service, scope, OTLP/JSON)."""
    trace_id, span_id = _half(span)
    parent_id = padded(span.get("parentId"), 16).lower()
    service = _service(span)
    if (trace_id, span_id) in shared and span.get("kind") != "CLIENT":
        parent_id, span_id = span_id, _server_half(span_id)
    elif parent_id and shared.get((trace_id, parent_id)) == service:
        parent_id = _server_half(parent_id)
    tags = span.get("tags")
    known = {key: value for key, value in tags.items() if isinstance(value, str)} if is_dict(tags) else {}
    start = nanos(span.get("timestamp"))
    kind = span.get("kind") or known.get("span.kind")
    read = {
        "traceId": trace_id,
        "spanId": span_id,
        "parentSpanId": parent_id,
        "name": span.get("name"),
        "kind": SPAN_KINDS.get(kind.upper(), 0) if isinstance(kind, str) else 0,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + nanos(span.get("duration")) if start else 0),
        "attributes": [_attribute(key, value) for key, value in known.items() if key not in _FIELD_TAGS],
        "events": list(_zipkin_events(span.get("annotations"))),
        "status": status_of(known, failed="error" in known, message=_failure(known)),
    }
    return service, scope_of(known), read


def _server_half(span_id: str) -> str:
    return f"{span_id}:server"


def _failure(tags: Mapping[str, str]) -> str:
    """Return what the tag `error` says: by Zipkin's convention its presence means failure, its text the reason."""
    text = tags.get("error", "")
    return "" if text.lower() == "true" else text


def _attribute(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": value}}


def _zipkin_events(annotations: object) -> Iterator[dict[str, Any]]:
    for annotation in annotations if is_list(annotations) else ():
        if is_dict(annotation) and isinstance(value := annotation.get("value"), str):
            name, attributes = _annotation(value)
            yield {"name": name, "timeUnixNano": str(nanos(annotation.get("timestamp"))), "attributes": attributes}


def _annotation(value: str) -> tuple[str, list[dict[str, Any]]]:
    """Read an annotation: a text, `"name": {attributes}` (specification) or `name|{attributes}|0` (Collector)."""
    if value.startswith('"') and value.endswith("}"):
        parsed = _parsed("{" + value + "}")
        name, attributes = next(iter(parsed.items()), ("", None))
        if is_dict(attributes):
            return name, list(_attributes(attributes))
    if value.count("|") >= 2:
        name, rest = value.split("|", 1)
        attributes = _parsed(rest.rpartition("|")[0])
        if attributes:
            return name, list(_attributes(attributes))
    return value, []


def _attributes(attributes: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for key, value in attributes.items():
        yield {"key": key, "value": any_value(json.dumps(value) if isinstance(value, list | dict) else value)}


def _parsed(text: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return parsed if is_dict(parsed) else {}
