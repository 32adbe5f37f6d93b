"""A session is scored again where it has changed, and not for its end alone."""

from __future__ import annotations

from collections.abc import Callable

from goldspan.collector_processor.engine.engine import Engine
from goldspan.collector_processor.engine.trace_machine import EngineSettings
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.run import scorer_of
from goldspan.scoring.sessions import Session
from goldspan.scoring.verdict import Range
from rigs.span_facts import agent, tool


class Counts:
    """A metric that counts calls, and how often it was asked."""

    name, description, range = "counts", "Calls.", Range(0, 100)
    needs = frozenset[str]()

    def __init__(self, *, by_turn: bool) -> None:
        self.by_turn = by_turn
        self.asked = 0

    def __call__(self, session: Session, _: object = None, /) -> float:
        self.asked += 1
        return sum(len(turn.calls) for turn in session.turns)


def engine_of(metric: Counts) -> tuple[Engine, Callable[[str], None]]:
    scorer = scorer_of(metrics=[metric])
    engine = Engine(GoldenIndex(sample=1), EngineSettings(settle=1, run_idle=10, scorer=scorer))

    def turn(trace: str) -> None:
        at = int(trace[0]) * 100
        engine.feed(tool(trace, "t", "a", args={}, start=at, end=at + 1), float(at))
        engine.feed(agent(trace, "a", session="s", start=at, end=at + 2), float(at))

    return engine, turn


def scores(engine: Engine, now: float) -> list[float | None]:
    return [one.verdict.score for one in engine.poll(now).evaluations]


def test_the_end_of_a_session_takes_the_results_of_its_last_turn() -> None:
    metric = Counts(by_turn=True)
    engine, turn = engine_of(metric)
    turn("1" * 32)
    assert (scores(engine, 102.0), metric.asked) == ([], 1)
    assert (scores(engine, 120.0), metric.asked) == ([1], 1)


def test_a_turn_more_and_a_late_span_are_scored() -> None:
    metric = Counts(by_turn=True)
    engine, turn = engine_of(metric)
    turn("1" * 32)
    engine.poll(102.0)
    engine.feed(tool("1" * 32, "late", "a", args={}, start=101, end=102), 103.0)
    assert (scores(engine, 104.0), metric.asked) == ([], 2)
    assert (scores(engine, 120.0), metric.asked) == ([2], 2)
    turn("2" * 32)
    assert (scores(engine, 202.0), metric.asked) == ([3], 3)


def test_a_metric_of_whole_sessions_waits_for_the_end() -> None:
    metric = Counts(by_turn=False)
    engine, turn = engine_of(metric)
    turn("1" * 32)
    assert (scores(engine, 102.0), metric.asked) == ([], 0)
    assert (scores(engine, 120.0), metric.asked) == ([1], 1)
