"""Traces of a shape that could cost n * n: they are read in linear time, and large ones are corrected seldom."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from goldspan.collector_processor.engine.engine import Engine
from goldspan.collector_processor.engine.trace_machine import EngineSettings
from goldspan.mappers.span_facts import SpanEvidence, SpanFacts, value_digest
from goldspan.scoring.goldens import load_goldens
from rigs.span_facts import agent, plain, tool

GOLDENS = load_goldens({"golden_set": "large", "goldens": [{"session": "s", "turns": [{"calls": [{"name": "f"}]}]}]})
TRACE = "1" * 32


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


def says(arguments: dict[str, int]) -> SpanEvidence:
    """What the span of a tool with these arguments says by its content."""
    return SpanEvidence(arguments=(value_digest(arguments),))


@pytest.mark.parametrize(
    "shape", [agents_within_agents, agents_beside_others, agents_below_a_chain, tools_below_a_chain, calls_of_one_tool]
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
