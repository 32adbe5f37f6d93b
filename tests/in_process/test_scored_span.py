"""Copies of ended spans."""

from __future__ import annotations

import math

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from goldspan.collector_processor.in_process.span_pipeline import ScoredSpan


def rich_span() -> ReadableSpan:
    """A span that uses everything a span can have, beyond its limits."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(
        resource=Resource({"service.name": "shop"}, schema_url="https://example.test/resource"),
        span_limits=SpanLimits(max_attributes=3, max_events=1, max_links=1),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("agents", "1.2", schema_url="https://example.test/scope", attributes={"a": 1})
    remote = SpanContext(5, 6, is_remote=True, trace_flags=TraceFlags(1), trace_state=TraceState([("k", "v")]))
    with tracer.start_as_current_span("parent"):
        span = tracer.start_span("child", kind=SpanKind.CLIENT, links=[Link(remote, {"x": 1}), Link(remote)])
        for number in range(5):
            span.set_attribute(f"key-{number}", number)
            span.add_event(f"event-{number}", {"n": number})
        span.set_status(Status(StatusCode.ERROR, "broken"))
        span.end()
    return exporter.get_finished_spans()[0]


def test_a_copy_differs_in_what_was_added_and_in_nothing_else() -> None:
    original = rich_span()
    before = encode_spans([original])
    after = encode_spans([ScoredSpan(original, {**(original.attributes or {}), "tool_parameter_match.score": 0.5})])
    [span] = after.resource_spans[0].scope_spans[0].spans
    assert span.dropped_attributes_count == 2
    assert span.dropped_events_count == 4
    assert span.dropped_links_count == 1
    assert span.attributes.pop().key == "tool_parameter_match.score"
    assert after == before


def test_a_copy_can_be_printed_and_keeps_what_cannot_be_json() -> None:
    original = ReadableSpan("by hand", attributes={"nan": math.nan, "n": 1})
    copy = ScoredSpan(original, {**(original.attributes or {}), "added": True})
    assert copy.attributes is not None
    assert math.isnan(float(str(copy.attributes["nan"])))
    assert '"added": true' in copy.to_json()
    assert "added" not in (original.attributes or {})
