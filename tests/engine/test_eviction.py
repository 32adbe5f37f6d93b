"""What happens at the limit of spans in memory."""

from __future__ import annotations

from goldspan.collector_processor.engine.engine import Engine
from goldspan.collector_processor.engine.settings import EngineSettings
from goldspan.scoring.goldens import load_goldens
from span_facts import agent, tool

WANTED = load_goldens(
    {
        "format": 1,
        "golden_set": "eviction",
        "goldens": [{"session": name, "turns": [{"calls": [{"name": "f"}]}]} for name in ("old", "new")],
    }
)


def test_the_held_spans_of_an_evicted_session_are_released_with_the_next_output() -> None:
    engine = Engine(WANTED, EngineSettings(settle=60, hold_timeout=60, max_spans=3))
    first, second = "1" * 32, "2" * 32
    old = [tool(first, "t1", parent="a1"), agent(first, "a1", session="old")]
    new = [tool(second, "t2", parent="a2"), agent(second, "a2", session="new")]
    held = [span.ref for at, span in enumerate(old) if engine.feed(span, float(at))]
    assert engine.poll(2.0).released == frozenset()
    assert engine.deadline() != 2.0
    for span in new:
        engine.feed(span, 3.0)
    assert engine.stats.evicted_sessions == 1
    assert engine.deadline() == 3.0
    output = engine.poll(3.0)
    assert held
    assert output.released == frozenset(held)
    assert {evaluation.session_id for evaluation in output.evaluations} == {"old"}
    assert all(evaluation.incomplete for evaluation in output.evaluations)
