"""A session id that is used again is judged at once, as a new run."""

from __future__ import annotations

from goldspan.collector_processor.engine.engine import Engine
from goldspan.collector_processor.engine.trace_machine import EngineSettings
from goldspan.scoring.goldens import load_goldens
from goldspan.scoring.verdict import Label
from rigs.span_facts import agent, tool

GOLDENS = load_goldens(
    {
        "golden_set": "again",
        "goldens": [
            {
                "session": "s",
                "turns": [{"calls": [{"name": "f", "args": {"x": 1}}]}, {"calls": [{"name": "f", "args": {"x": 2}}]}],
            }
        ],
    }
)


def test_the_first_turn_after_a_pause_is_scored_against_the_first_golden_turn() -> None:
    engine, now = Engine(GOLDENS, EngineSettings(settle=1, run_idle=60)), 0.0
    said: list[tuple[str, int | None, Label | None, bool]] = []
    for number, (begin, x) in enumerate([(1000, 1), (1010, 2), (1200, 1), (1210, 1)], start=1):
        trace = f"{number:032x}"
        engine.feed(agent(trace, "root", session="s", start=begin, end=begin + 5), now)
        engine.feed(tool(trace, "tool", "root", args={"x": x}, start=begin + 1, end=begin + 2), now)
        now += 2
        said += [
            (one.run, one.turn_index, one.verdict.label, one.withdrawn)
            for one in engine.poll(now).evaluations
            if one.level == "turn"
        ]
    first, again = said[0][0], said[-1][0]
    assert first != again
    assert said == [
        (first, 0, "pass", False),
        (first, 1, "pass", False),
        (again, 0, "pass", False),
        (again, 1, "fail", False),
    ]
