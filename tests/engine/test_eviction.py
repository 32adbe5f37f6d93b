"""What happens at the limits of spans and of content in memory."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from goldspan.collector_processor.emit.evaluation import Level
from goldspan.collector_processor.engine.engine import Engine
from goldspan.collector_processor.engine.trace_machine import EngineSettings, TraceRecords
from goldspan.mappers.span_facts import ContextFacts, LogFacts, PlainSpanFacts, SpanFacts
from goldspan.scoring.goldens import GoldenIndex, load_goldens
from goldspan.scoring.metrics.session_metrics import WITHOUT_GOLDEN
from goldspan.scoring.run import scorer_of
from goldspan.scoring.sessions import SpanRef
from goldspan.scoring.verdict import Label
from rigs.span_facts import agent, captured, model, plain, tool

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


LIMITED = EngineSettings(settle=1, run_idle=10, max_content=10_000, scorer=scorer_of(metrics=WITHOUT_GOLDEN))


def talkative(number: int, size: int = 4_000) -> list[SpanFacts]:
    """A session whose call is wrong by its schema, with so many characters of messages."""
    trace = f"{number:032x}"
    messages = captured([{"role": "user", "content": "x" * size}])
    definitions = captured('[{"name": "f", "parameters": {"required": ["x"]}}]')
    context = ContextFacts(messages=messages, tool_definitions=definitions)
    return [
        model(trace, "m", "a", context=context),
        tool(trace, "t", "a", args={}),
        agent(trace, "a", session=f"s-{number}"),
    ]


def test_content_is_bounded_whatever_comes() -> None:
    engine = Engine(GoldenIndex(sample=1), LIMITED)
    for number in range(1, 50):
        for span in talkative(number):
            engine.feed(span, float(number))
    assert engine.stats.evicted_sessions >= 46
    output = engine.flush(100.0, end_of_input=True)
    assert {one.session_id for one in output.evaluations if not one.incomplete} <= {"s-48", "s-49"}


def test_a_session_that_was_judged_keeps_its_results_when_it_is_dropped() -> None:
    engine = Engine(GoldenIndex(sample=1), LIMITED)
    for span in talkative(1):
        engine.feed(span, 0.0)
    judged = [*engine.poll(2.0).evaluations, *engine.poll(30.0).evaluations]
    assert {one.verdict.label for one in judged if one.metric == "tool_parameter_schema"} == {Label.FAIL}
    for number in (2, 3, 4):
        for span in talkative(number):
            engine.feed(span, 40.0)
    late = engine.poll(60.0).evaluations
    assert "s-1" not in {one.session_id for one in late}
    assert engine.stats.evicted_sessions == 1


def test_one_session_beyond_the_limit_is_incomplete_and_another_version_of_a_span_counts_once() -> None:
    engine = Engine(GoldenIndex(sample=1), LIMITED)
    for version in range(10):
        for span in talkative(1, 9_000):
            engine.feed(span.changed(version=(span.end, version, "")), 0.0)
    assert engine.stats.evicted_sessions == 0
    for span in talkative(2, 11_000):
        engine.feed(span, 0.0)
    output = engine.flush(0.0, end_of_input=True)
    assert all(one.incomplete for one in output.evaluations)


def test_what_came_for_another_trace_of_an_evicted_session_is_judged() -> None:
    engine = Engine(WANTED, EngineSettings(settle=1, run_idle=10, max_spans=4))
    first, quiet = "1" * 32, "2" * 32
    for span in (tool(first, "t1", parent="a1"), agent(first, "a1", session="old"), agent(quiet, "a2", session="old")):
        engine.feed(span, 0.0)
    judged = [*engine.poll(2.0).evaluations, *engine.poll(60.0).evaluations]
    assert {one.level for one in judged} >= {Level.SESSION}
    engine.feed(tool(first, "t2", parent="a1", name="g"), 70.0)
    engine.feed(agent("3" * 32, "a3", session="new"), 70.0)
    output = engine.poll(70.0)
    turn = next(one for one in output.evaluations if one.level == Level.TURN)
    assert (turn.session_id, turn.target, turn.incomplete) == ("old", SpanRef(first, "a1"), True)
    assert "g" in turn.explanation


def test_a_full_trace_takes_newer_versions_of_its_records_and_nothing_else() -> None:
    trace, log = TraceRecords("t"), LogFacts("t", "a", "log", 1, "test")
    for record in (tool("t", "a", end=1), log):
        assert trace.add(record)
    plain_span = PlainSpanFacts("t", [("p", "", 0, 1, False)], lambda outline: outline)  # type: ignore[arg-type,return-value]
    others = [tool("t", "b"), replace(log, identity="other"), plain_span]
    assert [trace.has_room(one, 2) for one in (tool("t", "a", end=2), log, *others)] == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert all(trace.has_room(one, 3) for one in others)


@pytest.mark.parametrize("lost", [None, False, True])
@pytest.mark.parametrize("lost_text", [False, True])
def test_a_trace_lacks_what_its_turns_may_need(lost: bool | None, lost_text: bool) -> None:
    """A plain span that was dropped matters only to a turn that waits for its caller."""
    trace = TraceRecords("t", lost=lost, lost_text=lost_text)
    assert trace.lacks_records_of([]) is (bool(lost) or lost_text)
    reading = TraceRecords("t", lost=lost)
    reading.add(tool("t", "a", "gone"))
    fragments = reading.reading.fragments((), lambda _: None)
    assert reading.lacks_records_of(fragments) is (lost is not None)


def test_a_trace_of_plain_spans_lost_no_calls() -> None:
    trace = TraceRecords("t")
    assert not trace.has_calls
    trace.add(plain("t", "p"))
    assert not trace.has_calls
    trace.add(tool("t", "a"))
    assert trace.has_calls
