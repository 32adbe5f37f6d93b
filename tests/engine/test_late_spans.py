"""Spans that arrive after their session was dropped."""

from __future__ import annotations

import pytest

from goldspan.collector_processor.emit.evaluation import Level
from goldspan.collector_processor.engine.engine import Engine
from goldspan.collector_processor.engine.session_scorer import SessionState, SessionStep, next_step
from goldspan.collector_processor.engine.trace_machine import EngineSettings
from goldspan.mappers.assembly.trace_reading import TraceReading
from goldspan.mappers.span_facts import PlainSpanFacts
from goldspan.scoring.goldens import load_goldens
from goldspan.scoring.verdict import Label
from rigs.span_facts import SECOND, agent, plain, tool

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


@pytest.mark.parametrize(("pause", "late"), [(3_000.0, True), (3_000_000.0, False)])
@pytest.mark.parametrize("end", [12.0, 4e9])
def test_turns_soon_after_a_dropped_run_are_late_until_it_is_forgotten_whatever_its_clock_said(
    end: float, pause: float, *, late: bool
) -> None:
    settings = EngineSettings(settle=1, run_idle=60, retention=300, tombstone_ttl=10_000)
    engine = Engine(GOLDENS, settings)

    def labels_of(number: int, now: float) -> list[Label | None]:
        trace, start = f"{number:032x}", 10 + pause * (number - 1)
        last = end if number == 1 else start + 2
        engine.feed(tool(trace, "tool", parent="root", start=start, end=start + 1), now)
        engine.feed(agent(trace, "root", session="s", start=start, end=last), now)
        return [one.verdict.label for one in engine.poll(now + 2).evaluations if one.level is Level.CALL]

    assert labels_of(1, 0.0) == [Label.PASS]
    engine.poll(100.0)
    engine.poll(500.0)
    assert labels_of(2, 1000.0) == ([] if late else [Label.PASS])
    assert engine.stats.late == (2 if late else 0)
    engine.poll(2000.0)
    engine.poll(20_000.0)
    assert labels_of(3, 20_000.0) == [Label.PASS]


def test_dropped_turns_that_follow_each_other_within_a_gap_are_one_run() -> None:
    reading = TraceReading()
    for at, (start, end) in enumerate([(1, 5), (8, 12), (100, 110), (102, 103)]):
        reading.add(agent("1" * 32, f"{at:016x}", start=start, end=end))
    state = SessionState("s", 0.0)
    state.drop_runs(reading.fragments((), lambda _: None), 10 * SECOND)
    assert state.dropped == ((SECOND, 12 * SECOND), (100 * SECOND, 110 * SECOND))
    later = TraceReading()
    later.add(agent("2" * 32, "f" * 16, start=115, end=116))
    state.drop_runs(later.fragments((), lambda _: None), 10 * SECOND)
    assert state.dropped == ((SECOND, 12 * SECOND), (100 * SECOND, 116 * SECOND))


@pytest.mark.parametrize(
    ("now", "scored", "traces", "step"),
    [
        (59, False, 1, (SessionStep.WAIT, 60)),
        (60, False, 1, (SessionStep.SCORE, 300)),
        (299, True, 1, (SessionStep.WAIT, 300)),
        (300, True, 1, (SessionStep.DROP, 1_300)),
        (61, True, 0, (SessionStep.FORGET, 61)),
    ],
)
def test_a_quiet_session_is_scored_then_dropped_then_forgotten(
    now: float, scored: bool, traces: int, step: tuple[SessionStep, float]
) -> None:
    settings = EngineSettings(run_idle=60, retention=300, tombstone_ttl=1_000)
    state = SessionState("s", 0.0, dict.fromkeys(map(str, range(traces))), is_scored=scored)
    assert next_step(state, now, settings) == step
