"""Spans that arrive after their session was dropped."""

from __future__ import annotations

from goldspan.collector_processor.engine.engine import Engine
from goldspan.collector_processor.engine.settings import EngineSettings
from goldspan.mappers.span_facts import PlainSpanFacts
from goldspan.scoring.goldens import load_goldens
from span_facts import agent, plain, tool

GOLDENS = load_goldens(
    {"golden_set": "late", "goldens": [{"session": "s", "turns": [{"calls": [{"name": "f"}]}]}]},
)


def test_a_plain_span_between_an_agent_and_its_tool_is_counted_as_late_once_its_session_was_dropped() -> None:
    engine, trace = Engine(GOLDENS, EngineSettings(settle=1, run_idle=60, retention=300)), "1" * 32
    for span in (tool(trace, "tool", parent="between"), agent(trace, "root", session="s")):
        engine.feed(span, 0.0)
    engine.poll(100.0)
    engine.poll(10_000.0)
    engine.feed(plain(trace, "between", "root"), 10_000.0)
    assert engine.stats.late == 1
    engine.feed(tool(trace, "tool", parent="between"), 10_000.0)
    assert (engine.stats.late, engine.stats.repeated) == (1, 1)


def test_plain_spans_that_come_after_their_session_was_dropped_are_repeated_or_late() -> None:
    engine, trace = Engine(GOLDENS, EngineSettings(settle=1, run_idle=60, retention=300)), "1" * 32
    known = [(f"{number:016x}", "root", 0, 1, False) for number in range(3)]
    engine.feed(agent(trace, "root", session="s"), 0.0)
    engine.feed_plain([PlainSpanFacts(trace, known, lambda span: span)], 0.0)
    engine.poll(100.0)
    engine.poll(10_000.0)
    late = [("f" * 16, "root", 0, 1, False)]
    engine.feed_plain([PlainSpanFacts(trace, [*known, *late], lambda span: span)], 10_000.0)
    assert (engine.stats.repeated, engine.stats.late) == (3, 1)
