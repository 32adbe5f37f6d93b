"""Jaeger's and Zipkin's JSON, turned into OTLP/JSON.

Both write times in microseconds and ids without leading zeros. OpenTelemetry's exporters put fields of OTLP that the
format lacks (kind, status, scope) into tags. The rules are those of the Collector's translation, in reverse: such a
tag becomes the field again, and all others become attributes.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from goldspan.mappers.readers.otlp_json import SPAN_KINDS, STATUS_CODES, encode_value, integer
from goldspan.scoring.json_values import is_dict, is_list

_OTEL_FIELDS = frozenset(
    {
        "otel.status_code",
        "otel.status_description",
        "otel.scope.name",
        "otel.scope.version",
        "otel.library.name",
        "otel.library.version",
    }
)
"""Tags in which OpenTelemetry's exporters write fields that the format lacks."""


def _nanos(microseconds: object) -> int:
    """Return a time or a duration in nanoseconds; 0 if invalid."""
    number = integer(microseconds)
    return number * 1000 if isinstance(number, int) and not isinstance(number, bool) and number > 0 else 0


def _padded(identifier: object, length: int) -> str:
    """Return an id with its leading zeros; `""` if it is not a text."""
    if not isinstance(identifier, str) or not (text := identifier.strip()):
        return ""
    return text.zfill(length)


def _scope_of(tags: Mapping[str, Any]) -> dict[str, str]:
    """Return the instrumentation scope that an exporter of OpenTelemetry put into tags."""
    scope: dict[str, str] = {}
    for field in ("name", "version"):
        value = tags.get(f"otel.scope.{field}") or tags.get(f"otel.library.{field}")
        if value:
            scope[field] = str(value)
    return scope


def _status_of(tags: Mapping[str, Any], *, failed: bool, message: str = "") -> dict[str, Any]:
    """Return the status that an OpenTelemetry exporter put into tags. `failed` comes from other tags."""
    code = 2 if failed else STATUS_CODES.get(str(tags.get("otel.status_code")).upper(), 0)
    message = str(tags.get("otel.status_description") or message)
    return ({"code": code} if code else {}) | ({"message": message} if message else {})


# Jaeger's JSON, as its query service and its UI's download write it.
#
#     {"data": [{"traceID", "spans": [...], "processes": {...}}, ...]}, one of these traces, or a bare span

_RESPONSE = frozenset({"data", "total", "limit", "offset", "errors"})
_FORMAT = "internal.span.format"  # a tag in which Jaeger notes how a span came to it
_JAEGER_KINDS = {kind.lower(): number for kind, number in SPAN_KINDS.items()}


def is_jaeger_span(item: object) -> bool:
    """Return whether this is a span of Jaeger, by the spelling of its fields."""
    return is_dict(item) and ("spanID" in item or ("traceID" in item and "operationName" in item))


def otlp_from_jaeger(item: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a trace request with the spans of Jaeger's JSON, in their order; none where `item` is something else.

    Anything else in the place of a trace or a span is passed on, and the OTLP reader reports it.
    """
    data = item.get("data")
    if is_list(data) and (any(map(_is_trace, data)) or _RESPONSE.issuperset(item)):
        groups = (_resource_spans(trace) if is_dict(trace) else (trace,) for trace in data)
        return {"resourceSpans": list(itertools.chain.from_iterable(groups))}
    if _is_trace(item):
        return {"resourceSpans": list(_resource_spans(item))}
    if is_jaeger_span(item):
        return {"resourceSpans": list(_resource_spans({"spans": [item]}))}
    return None


def _is_trace(item: object) -> bool:
    if not is_dict(item) or not is_list(spans := item.get("spans")):
        return False
    return is_dict(item.get("processes")) or any(map(is_jaeger_span, spans))


def _resource_spans(trace: Mapping[str, Any]) -> Iterator[object]:
    """Yield resource spans for each run of spans that have process and scope in common."""
    spans = trace.get("spans")
    if not is_list(spans):
        yield {"scopeSpans": [{"spans": spans}]}
        return
    processes = trace.get("processes")
    known = processes if is_dict(processes) else {}
    nothing: tuple[dict[str, str], object] = ({}, None)
    read = (_jaeger_span(span) if is_dict(span) else (*nothing, span) for span in spans)
    for (scope, process), run in itertools.groupby(read, key=lambda one: one[:2]):
        found = known.get(process) if isinstance(process, str) else process
        scope_spans = {"scope": scope, "spans": [span for *_, span in run]}
        yield {"resource": _process_resource(found), "scopeSpans": [scope_spans]}


def _process_resource(process: object) -> dict[str, Any]:
    if not is_dict(process):
        return {}
    attributes = [pair for pair, _ in _tags(process.get("tags"))]
    if isinstance(name := process.get("serviceName"), str) and name:
        attributes.insert(0, {"key": "service.name", "value": {"stringValue": name}})
    return {"attributes": attributes}


def _jaeger_span(span: dict[str, Any]) -> tuple[dict[str, str], object, dict[str, Any]]:
    """Return a span as (scope, process or its id, OTLP/JSON)."""
    trace_id = _padded(span.get("traceID"), 32)
    parent_id, links = _references(span, trace_id)
    special: dict[str, Any] = {}
    attributes = [pair for pair, value in _tags(span.get("tags")) if not _takes_otlp_field(pair["key"], value, special)]
    start = _nanos(span.get("startTime"))
    duration = _nanos(span.get("duration"))
    read = {
        "traceId": trace_id,
        "spanId": _padded(span.get("spanID"), 16),
        "parentSpanId": parent_id,
        "name": span.get("operationName"),
        "kind": _JAEGER_KINDS.get(str(special.get("span.kind")), 0),
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + duration if start else 0),
        "attributes": attributes,
        "events": list(_jaeger_events(span.get("logs"))),
        "links": links,
        "status": _status_of(special, failed="error" in special),
    }
    process = span.get("process")
    return _scope_of(special), process if is_dict(process) else span.get("processID"), read


def _takes_otlp_field(key: str, value: object, special: dict[str, Any]) -> bool:
    """Return whether a tag is a field of OTLP, and store it in `special` if so."""
    if key == "error":
        is_field = value is True or (isinstance(value, str) and value.lower() == "true")
    elif key == "span.kind":
        is_field = isinstance(value, str) and value in _JAEGER_KINDS
    else:
        is_field = key == _FORMAT or (key in _OTEL_FIELDS and isinstance(value, str))
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
        other = _padded(reference.get("traceID"), 32) or trace_id
        other_span = _padded(reference.get("spanID"), 16)
        if reference.get("refType") == "CHILD_OF" and other == trace_id and not parent_id:
            parent_id = other_span
        else:
            links.append({"traceId": other, "spanId": other_span})
    return parent_id or _padded(span.get("parentSpanID"), 16), links


def _jaeger_events(logs: object) -> Iterator[dict[str, Any]]:
    # Jaeger orders them by their fields.
    for log in sorted(logs, key=_time_of_log) if is_list(logs) else ():
        if is_dict(log):
            name = ""
            attributes: list[dict[str, Any]] = []
            for pair, value in _tags(log.get("fields")):
                if pair["key"] == "event" and isinstance(value, str) and not name:
                    name = value
                else:
                    attributes.append(pair)
            yield {"name": name, "timeUnixNano": str(_nanos(log.get("timestamp"))), "attributes": attributes}


def _time_of_log(log: object) -> int:
    return _nanos(log.get("timestamp")) if is_dict(log) else 0


def events_by_time(request: dict[str, Any]) -> dict[str, Any]:
    """Return a trace request of Jaeger's API v3 with the events of each span in the order of time.

    Jaeger orders them by their names.
    """

    def ordered(key: str, inner: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def copy(one: Any) -> Any:
            found = one.get(key) if is_dict(one) else None
            return {**one, key: list(map(inner, found))} if is_list(found) else one

        return copy

    def span(one: Any) -> Any:
        events = one.get("events") if is_dict(one) else None
        return {**one, "events": sorted(events, key=_time_of_event)} if is_list(events) else one

    by_time: dict[str, Any] = ordered("resourceSpans", ordered("scopeSpans", ordered("spans", span)))(request)
    return by_time


def _time_of_event(event: object) -> int:
    time = integer(event.get("timeUnixNano")) if is_dict(event) else 0
    return time if isinstance(time, int) else 0


def _tags(tags: object) -> Iterator[tuple[dict[str, Any], object]]:
    """Yield tags as attributes of OTLP/JSON, with their values as they are."""
    for tag in tags if is_list(tags) else ():
        if is_dict(tag) and isinstance(key := tag.get("key"), str):
            value = tag.get("value")
            yield {"key": key, "value": _tag_value(tag.get("type"), value)}, value


def _tag_value(kind: object, value: object) -> dict[str, Any]:
    if kind == "binary" and isinstance(value, str):
        return {"bytesValue": value}
    if kind == "bool" and isinstance(value, str):
        return {"boolValue": value.lower() == "true"}
    if kind == "int64" and isinstance(number := integer(value), int):
        return encode_value(number)
    if kind == "float64" and isinstance(value, str | int | float) and not isinstance(value, bool):
        return {"doubleValue": value}
    return encode_value(value) if isinstance(value, str | int | float) else {}


# Zipkin's JSON (v2).
#
#     [{"traceId", "id", "name", "timestamp", "duration", "localEndpoint", "tags", ...}, ...]
#
# A client and a server may *share* a span: two records of one id. They are two spans, so the server's half gets an id
# of its own, `<id>:server`, whose parent is the client's half, `<id>`. Children that the server's service wrote become
# children of its half.

_ZIPKIN_MARKS = frozenset({"timestamp", "localEndpoint", "tags", "kind", "duration", "annotations"})
_FIELD_TAGS = _OTEL_FIELDS | {"error"}
_Half = tuple[str, str]  # trace id and span id of a shared span


def is_zipkin_span(item: object) -> bool:
    """Return whether this is a span of Zipkin, by its fields."""
    return (
        is_dict(item)
        and "id" in item
        and "traceId" in item
        and "spanId" not in item
        and not _ZIPKIN_MARKS.isdisjoint(item)
    )


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
    return _padded(span.get("traceId"), 32).lower(), _padded(span.get("id"), 16).lower()


def _service(span: Mapping[str, Any]) -> str:
    endpoint = span.get("localEndpoint")
    name = endpoint.get("serviceName") if is_dict(endpoint) else None
    return name if isinstance(name, str) else ""


def _zipkin_span(span: dict[str, Any], shared: Mapping[_Half, str]) -> tuple[str, dict[str, str], dict[str, Any]]:
    """Return a span as (service, scope, OTLP/JSON)."""
    trace_id, span_id = _half(span)
    parent_id = _padded(span.get("parentId"), 16).lower()
    service = _service(span)
    if (trace_id, span_id) in shared and span.get("kind") != "CLIENT":
        parent_id, span_id = span_id, _server_half(span_id)
    elif parent_id and shared.get((trace_id, parent_id)) == service:
        parent_id = _server_half(parent_id)
    tags = span.get("tags")
    known = {key: value for key, value in tags.items() if isinstance(value, str)} if is_dict(tags) else {}
    start = _nanos(span.get("timestamp"))
    kind = span.get("kind") or known.get("span.kind")
    read = {
        "traceId": trace_id,
        "spanId": span_id,
        "parentSpanId": parent_id,
        "name": span.get("name"),
        "kind": SPAN_KINDS.get(kind.upper(), 0) if isinstance(kind, str) else 0,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + _nanos(span.get("duration")) if start else 0),
        "attributes": [_attribute(key, value) for key, value in known.items() if key not in _FIELD_TAGS],
        "events": list(_zipkin_events(span.get("annotations"))),
        "status": _status_of(known, failed="error" in known, message=_failure(known)),
    }
    return service, _scope_of(known), read


def _server_half(span_id: str) -> str:
    return f"{span_id}:server"


def _failure(tags: Mapping[str, str]) -> str:
    """Return the reason in the tag `error`. By Zipkin's convention its presence means failure."""
    text = tags.get("error", "")
    return "" if text.lower() == "true" else text


def _attribute(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": value}}


def _zipkin_events(annotations: object) -> Iterator[dict[str, Any]]:
    for annotation in annotations if is_list(annotations) else ():
        if is_dict(annotation) and isinstance(value := annotation.get("value"), str):
            name, attributes = _annotation(value)
            yield {"name": name, "timeUnixNano": str(_nanos(annotation.get("timestamp"))), "attributes": attributes}


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
        yield {"key": key, "value": encode_value(json.dumps(value) if isinstance(value, list | dict) else value)}


def _parsed(text: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return parsed if is_dict(parsed) else {}
