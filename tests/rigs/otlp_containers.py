"""The same recorded spans in each container that goldspan reads, and spans made by hand."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from goldspan.mappers.assembly.shaped_calls import with_shapes
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.otlp_json import decode_attributes
from goldspan.mappers.span_facts import SpanFacts
from goldspan.mappers.spans import EventView, ResourceView
from goldspan.scoring.sessions import SpanRef
from rigs.repository import RECORDINGS


@dataclass
class Span:
    """A span view made by hand."""

    attributes: Any = field(default_factory=dict)
    name: str = "span"
    trace_id: str = "0af7651916cd43dd8448eb211c80319c"
    span_id: str = "b7ad6b7169203331"
    parent_id: str = ""
    start: int = 1_000
    end: int = 2_000
    kind: int = 1
    parent_is_remote: bool = False
    status_code: int = 0
    status_message: str = ""
    events: Any = ()
    links: Any = ()
    scope_name: str = ""
    resource: ResourceView = field(default_factory=lambda: ResourceView({}))


def read_alone(span: Span) -> SpanFacts:
    """Return the facts of the only span of a trace, by its shape where no table reads it."""
    [facts] = by_shape_too([_REGISTRY.read(span)]).values()
    return facts


def by_shape_too(facts: Iterable[SpanFacts]) -> dict[SpanRef, SpanFacts]:
    """Return the facts of spans, by shape where no table reads them: each trace is taken for one tree."""
    traces: dict[str, dict[str, SpanFacts]] = {}
    for fact in facts:
        traces.setdefault(fact.trace_id, {})[fact.span_id] = fact
    return {fact.ref: fact for spans in traces.values() for fact in with_shapes(spans).values()}


_REGISTRY = DialectRegistry()


def event(name: str, **attributes: Any) -> EventView:
    return EventView(name, attributes)


def documents_in(path: Path) -> list[dict[str, Any]]:
    """Parse a recorded file: one document, or one request a line."""
    text = path.read_text("utf-8")
    try:
        return [json.loads(text)]
    except ValueError:
        return [json.loads(line) for line in text.splitlines() if line.strip()]


def requests_of(recording: str) -> list[dict[str, Any]]:
    """The requests of a recording that hold its spans."""
    return documents_in(RECORDINGS / f"{recording}.otlp.json")


def as_message(request: dict[str, Any]) -> ExportTraceServiceRequest:
    """Turn OTLP/JSON into the protobuf message: its ids are hex there, base64 for `json_format`."""
    request = copy.deepcopy(request)
    for resource_spans in request["resourceSpans"]:
        for scope_spans in resource_spans["scopeSpans"]:
            for span in scope_spans["spans"]:
                for holder in (span, *span.get("links", [])):
                    for key in ("traceId", "spanId", "parentSpanId"):
                        if holder.get(key):
                            holder[key] = base64.b64encode(bytes.fromhex(holder[key])).decode()
    return json_format.ParseDict(request, ExportTraceServiceRequest())


def as_sdk_spans(request: dict[str, Any]) -> list[ReadableSpan]:
    """Turn OTLP/JSON into the spans of the SDK that would be exported so."""
    spans: list[ReadableSpan] = []
    for resource_spans in request["resourceSpans"]:
        resource = Resource(decode_attributes(resource_spans.get("resource", {}).get("attributes")))
        for scope_spans in resource_spans["scopeSpans"]:
            scope = InstrumentationScope(scope_spans.get("scope", {}).get("name") or "")
            spans += [_sdk_span(span, resource, scope) for span in scope_spans["spans"]]
    return spans


def _sdk_span(span: dict[str, Any], resource: Resource, scope: InstrumentationScope) -> ReadableSpan:
    status = span.get("status", {})
    remote = bool(span.get("flags", 0) & 0x200)
    trace_id = int(span["traceId"], 16)
    parent = span.get("parentSpanId")
    return ReadableSpan(
        name=span["name"],
        context=SpanContext(trace_id, int(span["spanId"], 16), is_remote=False, trace_flags=TraceFlags(1)),
        parent=SpanContext(trace_id, int(parent, 16), is_remote=remote) if parent else None,
        resource=resource,
        attributes=decode_attributes(span.get("attributes")),
        events=[
            Event(event["name"], decode_attributes(event.get("attributes")), int(event["timeUnixNano"]))
            for event in span.get("events", [])
        ],
        links=[
            Link(SpanContext(int(link["traceId"], 16), int(link["spanId"], 16), is_remote=False))
            for link in span.get("links", [])
        ],
        kind=SpanKind(span["kind"] - 1),
        status=Status(StatusCode(status.get("code", 0)), status.get("message") if status.get("code") == 2 else None),
        start_time=int(span["startTimeUnixNano"]),
        end_time=int(span["endTimeUnixNano"]),
        instrumentation_scope=scope,
    )
