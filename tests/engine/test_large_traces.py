"""Traces of a shape that could cost n * n: they are read in linear time, and large ones are corrected seldom."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from goldspan.collector_processor.engine.engine import Engine
from goldspan.collector_processor.engine.trace_machine import EngineSettings
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.files import views
from goldspan.mappers.span_facts import SpanEvidence, SpanFacts, value_digest
from goldspan.mappers.spans import LogView
from goldspan.scoring.goldens import load_goldens
from rigs.otlp_containers import Span
from rigs.span_facts import agent, plain, tool

GOLDENS = load_goldens({"golden_set": "large", "goldens": [{"session": "s", "turns": [{"calls": [{"name": "f"}]}]}]})
TRACE = "1" * 32
REGISTRY = DialectRegistry()


def agents_within_agents(n: int) -> list[SpanFacts]:
    return [agent(TRACE, f"{at}", f"{at - 1}" if at else "", session=f"s-{at}" if at else "s") for at in range(n)]


def agents_beside_others(n: int) -> list[SpanFacts]:
    agents = [agent(TRACE, f"{at}", "top", session=None if at % 2 else f"s-{at}") for at in range(n)]
    return [plain(TRACE, "top"), *agents, agent(TRACE, "own", "top", session="s")]


def agents_below_a_chain(n: int) -> list[SpanFacts]:
    chain = [plain(TRACE, f"{at}", f"{at - 1}" if at else "") for at in range(n)]
    return [*chain, *(agent(TRACE, f"agent{at}", f"{at}") for at in range(n)), tool(TRACE, "t", "0", session="s")]


def tools_below_a_chain(n: int) -> list[SpanFacts]:
    chain = [plain(TRACE, f"{at}", f"{at - 1}" if at else "root") for at in range(n)]
    return [agent(TRACE, "root", session="s"), *chain, *(tool(TRACE, f"tool{at}", f"{at}") for at in range(n))]


def calls_of_one_tool(n: int) -> list[SpanFacts]:
    own = [{"x": at} for at in range(n)]
    calls = [
        tool(TRACE, f"tool{at}", "root", args=one, start=2 * at, end=2 * at + 1, evidence=says(one))
        for at, one in enumerate(own)
    ]
    return [agent(TRACE, "root", session="s", end=2 * n), *calls]


def calls_of_no_dialect(n: int) -> list[SpanFacts]:
    """Spans that are read by their shape: requests, their executions, and helpers that are named as the tool is."""

    def span(at: int, name: str, **said: object) -> dict[str, Any]:
        attributes = [
            {"key": f"step.{key}", "value": {"stringValue": json.dumps(value)}} for key, value in said.items()
        ]
        times = {"startTimeUnixNano": f"{1_000 + at}", "endTimeUnixNano": f"{1_001 + at}"}
        return {"traceId": TRACE, "spanId": f"{at + 2:016x}", "parentSpanId": f"{1:016x}", "name": name, **times} | {
            "attributes": attributes
        }

    spans: list[dict[str, Any]] = []
    for at in range(0, n, 3):
        own = {"x": at, "y": "z"}
        request = {"id": f"c{at}", "function": {"name": "f", "arguments": json.dumps(own)}}
        reply = {"message": {"role": "assistant", "tool_calls": [request]}}
        spans += [span(at, "llm", out=reply), span(at + 1, "f", tool="f", **{"in": own})]
        spans.append(span(at + 2, "f helper", tool="f", **{"in": {**own, "more": 1}}))
    document = {"resourceSpans": [{"scopeSpans": [{"scope": {"name": "acme"}, "spans": spans}]}]}
    read = [REGISTRY.read(view) for view in views(document, print) if not isinstance(view, LogView)]
    return [agent(TRACE, f"{1:016x}", session="s", end=2 * n), *read]


def requests_of_one_answer(n: int) -> list[SpanFacts]:
    """A model that asked for all at once, and the next one, which is given the results; no tool has a span."""
    asked = [{"type": "tool_call", "id": f"c{at}", "name": "f", "arguments": {"x": at}} for at in range(n)]
    results = [{"type": "tool_call_response", "id": f"c{at}", "response": "no"} for at in range(n)]
    messages = {"input": [{"role": "tool", "parts": results}], "output": [{"role": "assistant", "parts": asked}]}
    models = [
        Span(
            {"gen_ai.operation.name": "chat", f"gen_ai.{way}.messages": json.dumps(said)},
            name="chat",
            trace_id=TRACE,
            span_id=f"{at}",
            parent_id="root",
            start=at,
            end=at + 1,
        )
        for at, (way, said) in enumerate(sorted(messages.items(), reverse=True), 1)
    ]
    return [agent(TRACE, "root", session="s", end=9), *map(REGISTRY.read, models)]


def says(arguments: dict[str, int]) -> SpanEvidence:
    """What the span of a tool with these arguments says by its content."""
    return SpanEvidence(arguments=(value_digest(arguments),))


@pytest.mark.parametrize(
    "shape",
    [
        agents_within_agents,
        agents_beside_others,
        agents_below_a_chain,
        tools_below_a_chain,
        calls_of_one_tool,
        calls_of_no_dialect,
        requests_of_one_answer,
    ],
)
def test_a_trace_that_is_sixteen_times_as_large_costs_about_sixteen_times_as_much(
    shape: Callable[[int], list[SpanFacts]],
) -> None:
    def seconds(n: int) -> float:
        engine, spans = Engine(GOLDENS, EngineSettings(remote_callers=False)), shape(n)
        began = time.process_time()
        for span in spans:
            engine.feed(span, 0.0)
        assert engine.poll(10.0).evaluations
        return time.process_time() - began

    small = min(seconds(500) for _ in range(3))
    assert seconds(8_000) < 80 * small  # 250 times, where each span looks at all others


def test_a_late_span_of_a_large_trace_is_scored_after_a_pause() -> None:
    engine = Engine(GOLDENS, EngineSettings(settle=1.0))
    engine.feed(agent(TRACE, "root", session="s"), 0.0)
    for number in range(20_000):
        engine.feed(plain(TRACE, f"{number}", "root"), 0.0)
    assert engine.poll(1.0).evaluations
    engine.feed(tool(TRACE, "late", "root"), 5.0)
    assert not engine.poll(6.5).evaluations
    assert engine.poll(8.0).evaluations
