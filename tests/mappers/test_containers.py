"""One span is one set of facts, whatever holds it."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from conformance.known_gaps import or_known_gap
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.files import read_files, views
from goldspan.mappers.span_facts import Role, SpanFacts
from goldspan.scoring.errors import Problem
from rigs.otlp_containers import as_message, as_sdk_spans, requests_of
from rigs.repository import RECORDING_NAMES, RECORDINGS


def facts_of(source: object, registry: DialectRegistry) -> list[SpanFacts]:
    problems: list[Problem] = []
    facts = [registry.read(view) for view in views(source, problems.append)]
    assert not problems
    assert not registry.failures
    return facts


@pytest.mark.every_recording
@pytest.mark.parametrize("name", or_known_gap(RECORDING_NAMES))
def test_json_messages_and_sdk_spans_of_a_recording_give_equal_facts(name: str) -> None:
    registry = DialectRegistry()
    requests = requests_of(name)
    from_json = facts_of(requests, registry)
    assert facts_of(RECORDINGS / f"{name}.otlp.json", registry) == from_json
    assert facts_of([as_message(request) for request in requests], registry) == from_json
    assert facts_of([span for request in requests for span in as_sdk_spans(request)], registry) == from_json
    assert any(fact.role is not None or fact.look is not None for fact in from_json), "read by a table or by shape"


def test_what_the_sdk_made_itself_reads_as_what_it_was_told() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("agent")
    with (
        tracer.start_as_current_span("invoke_agent weather") as agent,
        tracer.start_as_current_span("execute_tool get_weather") as tool,
    ):
        agent.set_attributes({"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "s-1"})
        tool.set_attribute("gen_ai.operation.name", "execute_tool")
        tool.set_attribute("gen_ai.tool.name", "get_weather")
        tool.set_attribute("gen_ai.tool.call.arguments", '{"city": "Paris", "days": [1, 2]}')
    inner, outer = facts_of(exporter.get_finished_spans(), DialectRegistry())
    assert inner.parent_id == outer.span_id == format(agent.get_span_context().span_id, "016x")
    assert inner.trace_id == outer.trace_id
    assert outer.role is Role.AGENT
    assert outer.session_keys == (("gen_ai.conversation.id", "s-1"),)
    assert inner.tool is not None
    assert inner.tool.arguments.value == {"city": "Paris", "days": [1, 2]}
    assert outer.start <= inner.start <= inner.end <= outer.end


def test_all_files_at_once_are_read_in_order() -> None:
    paths = [RECORDINGS / f"{name}.otlp.json" for name in RECORDING_NAMES]
    problems: list[Problem] = []
    together = [view.span_id for view in read_files(paths, problems.append)]
    one_by_one = [view.span_id for path in paths for view in read_files([path], problems.append)]
    assert together == one_by_one
    requests = [request for name in RECORDING_NAMES for request in requests_of(name)]
    groups = [group for request in requests for group in request["resourceSpans"]]
    assert len(together) == sum(len(scope["spans"]) for group in groups for scope in group["scopeSpans"])
    assert not problems
