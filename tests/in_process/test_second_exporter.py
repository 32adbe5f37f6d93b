"""An exporter beside goldspan's own, which sends every span a second time, is noticed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter

from goldspan.collector_processor import ToolParameterMatchSpanProcessor, session_scope
from rigs.in_process_rig import Inner, Logged
from rigs.scripted_agent import golden, golden_set


def processor_around(inner: SpanExporter | str) -> SpanProcessor:
    goldens = golden_set(golden("wanted", [("get_weather", {"city": "Paris"})]))
    return ToolParameterMatchSpanProcessor(inner, goldens=goldens)


class Wrapper(SpanProcessor):
    """As frameworks put around the processors they are given."""

    def __init__(self, inside: SpanProcessor) -> None:
        self.inside = inside
        self.outside = self

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self.inside.on_start(span, parent_context)


@pytest.mark.parametrize("inner", [OTLPSpanExporter, str])
@pytest.mark.parametrize("wrapped", [True, False])
@pytest.mark.parametrize(
    ("beside", "twice"), [("http://127.0.0.1:9/v1/traces", True), ("http://127.0.0.1:9/other", False), (None, False)]
)
@pytest.mark.parametrize("kind", [BatchSpanProcessor, SimpleSpanProcessor])
def test_a_second_exporter_to_the_same_place_is_warned_of_once(
    kind: Callable[[SpanExporter], SpanProcessor],
    inner: Callable[[str], SpanExporter | str],
    beside: str | None,
    twice: bool,
    wrapped: bool,
    warnings_logged: Logged,
) -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    mine = processor_around(inner("http://127.0.0.1:9/v1/traces"))
    other = kind(OTLPSpanExporter(beside) if beside else Inner())
    for processor in (mine, other):
        provider.add_span_processor(Wrapper(processor) if wrapped else processor)
    for _ in range(2):
        provider.get_tracer("agent").start_span("never ended")
    for processor in (mine, other):
        processor.shutdown()
    assert ["arrives twice" in said for said in warnings_logged()] == [True] * twice


def test_a_processor_that_cannot_be_looked_into_changes_nothing(warnings_logged: Logged) -> None:
    class Closed(SpanProcessor):
        __slots__ = ()

        @property
        def __dict__(self) -> dict[str, object]:
            raise TypeError("closed")

    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(Closed())
    provider.add_span_processor(mine := processor_around(Inner()))
    with session_scope("wanted"):
        span = provider.get_tracer("agent").start_span("turn")
    mine.shutdown()
    assert warnings_logged() == []
    assert dict(getattr(span, "attributes", {})) == {"goldspan.session.id": "wanted"}
