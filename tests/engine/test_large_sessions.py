"""A large session delays only itself: what happens while the side thread judges it, step by step.

The side thread waits before or after its work until the engine's thread has done what the test says.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from goldspan.collector_processor.engine.engine import Engine, EngineOutput
from goldspan.collector_processor.engine.session_scorer import SessionScorer, SessionState
from goldspan.collector_processor.engine.trace_machine import EngineSettings
from goldspan.mappers.assembly.trace_reading import TraceReading
from goldspan.mappers.assembly.turn_fragments import Fragment
from goldspan.mappers.span_facts import SpanFacts
from goldspan.scoring.goldens import load_goldens
from rigs.span_facts import agent, plain, tool

TURN = {"calls": [{"name": "f", "args": {"x": 1}}]}
GOLDENS = load_goldens(
    {"golden_set": "large", "goldens": [{"session": name, "turns": [TURN]} for name in ("large", "other", "small")]}
)
SETTINGS = EngineSettings(settle=1.0, run_idle=10.0, remote_callers=False)
CALLS = 6
SIZE = CALLS + 1


def turn(session: str, number: int = 0, calls: int = 1) -> list[SpanFacts]:
    """A trace of its own: an agent over calls that the golden expects."""
    trace = f"{session}/{number}".ljust(32, "0")
    tools = [tool(trace, f"tool{at}", "root", args={"x": 1}, start=number * 60 + 1) for at in range(calls)]
    return [agent(trace, "root", session=session, start=number * 60, end=number * 60 + 3), *tools]


class Door:
    """An engine whose side thread waits until the engine's thread has done something else."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, settings: EngineSettings = SETTINGS, when: str = "") -> None:
        self.engine = Engine(GOLDENS, settings)
        self.engine.side.large = SIZE
        self.engine.side.go_on = self._go_on
        self.now = 0.0
        self.while_read: Callable[[], object] = lambda: None
        self.while_scored: Callable[[], object] = lambda: None
        """What happens while the next large trace is read, and while the next large session is scored."""
        self.outputs: list[EngineOutput] = []
        self.held = set[Any]()
        self.done: list[tuple[str, str, str]] = []
        """What was read or scored, and by which thread, in the order of their ends."""
        self._inside = Counter[str]()
        self._waits_before = when != "after"
        self._go_on_with = threading.Event()
        self._contain(monkeypatch)

    def _contain(self, monkeypatch: pytest.MonkeyPatch) -> None:
        read, score = TraceReading.fragments, SessionScorer.score

        def reads(reading: TraceReading, *args: Any, **options: Any) -> list[Fragment]:
            return self._work("read", f"{id(reading)}", lambda: read(reading, *args, **options))

        def scores(scorer: SessionScorer, state: SessionState, *args: Any, **options: Any) -> None:
            self._work("score", state.id, lambda: score(scorer, state, *args, **options))

        monkeypatch.setattr(TraceReading, "fragments", reads)
        monkeypatch.setattr(SessionScorer, "score", scores)

    def _work(self, what: str, subject: str, work: Callable[[], Any]) -> Any:
        thread = threading.current_thread()
        is_aside = thread is not threading.main_thread()
        self._inside[subject] += 1
        assert self._inside[subject] == 1, f"{subject} is worked on by two threads at once"
        if is_aside and self._waits_before:
            assert self._go_on_with.wait(10.0)
        found = work()
        if is_aside:
            assert self._go_on_with.wait(10.0)
        self._inside[subject] -= 1
        self.done.append((what, subject, "aside" if is_aside else "here"))
        return found

    def _go_on(self, done: threading.Event) -> None:
        name = "while_scored" if self.engine.side.subjects & {"large", "other"} else "while_read"
        meanwhile: Callable[[], object] = getattr(self, name)
        setattr(self, name, lambda: None)
        meanwhile()
        self._go_on_with.set()
        assert done.wait(10.0)
        self._go_on_with.clear()

    def feed(self, spans: list[SpanFacts]) -> None:
        self.held |= {span.ref for span in spans if self.engine.feed(span, self.now)}

    def poll(self, seconds: float, *, large: bool = True) -> EngineOutput:
        """Let time pass; return what is given then."""
        self.now += seconds
        output = self.engine.poll(self.now, large=large)
        self.outputs.append(output)
        return output

    def judged(self, session: str) -> list[str]:
        """Who judged a session, each time."""
        return [thread for what, subject, thread in self.done if what == "score" and subject == session]

    @property
    def standing(self) -> dict[str, tuple[Any, ...]]:
        """The newest results of all outputs, by session, level and turn; they come as often as they differ."""
        found: dict[str, Any] = {}
        for one in (one for output in self.outputs for one in output.evaluations):
            assert one.revision == (found[one.id].revision + 1 if one.id in found else 1)
            found[one.id] = one
        return {key: replace_revision(one) for key, one in found.items() if not one.withdrawn}


def replace_revision(evaluation: Any) -> tuple[Any, ...]:
    return evaluation.session_id, evaluation.level, evaluation.target, evaluation.verdict


def at_once(*turns: list[SpanFacts]) -> dict[Any, Any]:
    """What stands where all of it came before anything was judged, without a side thread."""
    engine = Engine(GOLDENS, SETTINGS)
    for span in (span for spans in turns for span in spans):
        engine.feed(span, 0.0)
    outputs = [engine.poll(1.0), engine.poll(100.0)]
    return {one.id: replace_revision(one) for output in outputs for one in output.evaluations if not one.withdrawn}


def released(output: EngineOutput, spans: list[SpanFacts]) -> bool:
    return output.released >= {span.ref for span in spans}


@pytest.fixture(params=["before", "after"])
def door(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Door:
    return Door(monkeypatch, when=request.param)


def test_spans_of_another_session_leave_with_their_results_while_a_large_one_is_judged(door: Door) -> None:
    large, small = turn("large", calls=CALLS), turn("small")

    def meanwhile() -> None:
        door.feed(small)
        output = door.poll(1.0)
        assert released(output, small)
        assert {one.session_id for one in output.evaluations} == {"small"}
        assert not door.judged("large")

    door.feed(large)
    door.while_scored = meanwhile
    assert released(door.poll(1.0), large)
    door.poll(100.0)
    assert door.standing == at_once(large, small)


def test_large_ones_are_judged_one_after_the_other_and_aside(door: Door) -> None:
    one, other = turn("large", calls=CALLS), turn("other", calls=CALLS)

    def meanwhile() -> None:
        door.feed(other)
        assert not door.poll(2.0).evaluations

    door.feed(one)
    door.while_scored = meanwhile
    door.poll(1.0)
    assert released(door.poll(1.0), other)
    assert door.judged("large") == door.judged("other") == ["aside"]
    assert {thread for what, _, thread in door.done if what == "read"} == {"aside"}


def test_large_ones_wait_for_a_caller_that_can_go_on_meanwhile(door: Door) -> None:
    """In the agent's process only a timer's thread can; an agent's own thread must not wait."""
    large, small = turn("large", calls=CALLS), turn("small")
    door.feed([*large, *small])
    output = door.poll(1.0, large=False)
    assert released(output, small)
    assert {thread for _, _, thread in door.done} == {"here"}
    assert released(door.poll(1.0), large)
    assert door.judged("large") == ["aside"]


@pytest.mark.parametrize("calls", [1, CALLS])
def test_what_comes_for_a_session_while_it_is_scored_waits_and_is_scored_next(door: Door, calls: int) -> None:
    first, second = turn("large", calls=CALLS), turn("large", 1, calls=calls)

    def meanwhile() -> None:
        door.feed(second)
        for _ in range(3):
            output = door.poll(1.5)
            assert not output.evaluations
            assert not output.released & {span.ref for span in second}

    door.feed(first)
    door.while_scored = meanwhile
    door.poll(1.0)
    outputs = [door.poll(1.0), door.poll(1.0)]
    assert any(released(output, second) and output.evaluations for output in outputs)
    door.poll(100.0)
    assert door.standing == at_once(first, second)
    assert not door.held - frozenset(ref for output in door.outputs for ref in output.released)


@pytest.mark.parametrize("seconds", [1.0, 11.0])
def test_a_large_session_of_small_traces_waits_for_another_with_its_spans(door: Door, seconds: float) -> None:
    large, others = turn("large", calls=CALLS), [turn("other", at, calls=3) for at in (0, 1)]
    spans = [span for one in others for span in one]

    def meanwhile() -> None:
        door.feed(spans)
        assert not door.poll(seconds).released & {span.ref for span in spans}

    door.feed(large)
    door.while_scored = meanwhile
    door.poll(1.0)
    assert door.judged("other") == []
    assert door.engine.deadline() == door.now
    output = door.poll(0.1)
    assert released(output, spans)
    assert door.judged("other") == ["aside"]
    assert {one.target for one in output.evaluations} >= {others[0][0].ref, others[1][0].ref}
    door.poll(20.0)
    assert door.standing == at_once(large, spans)


def test_a_flush_judges_what_waited_for_a_large_session(door: Door) -> None:
    spans = [*turn("other", calls=3), *turn("other", 1, calls=3)]

    def meanwhile() -> None:
        door.feed(spans)
        door.poll(1.0)

    door.feed(turn("large", calls=CALLS))
    door.while_scored = meanwhile
    door.poll(1.0)
    output = door.engine.flush(door.now)
    assert released(output, spans)
    assert {one.session_id for one in output.evaluations} == {"other"}


def test_a_span_that_comes_while_its_trace_is_read_is_read_next(door: Door) -> None:
    spans = turn("large", calls=CALLS)
    late = tool(spans[0].trace_id, "late", "root", args={"x": 2})
    door.feed(spans)
    door.while_read = lambda: door.feed([late])
    given = [door.poll(1.0), door.poll(1.0)]
    leaves = next(at for at, output in enumerate(given) if late.ref in output.released)
    assert late.ref in {one.target for output in given[: leaves + 1] for one in output.evaluations}
    door.poll(100.0)
    assert door.standing == at_once([*spans, late])


def test_a_large_trace_of_two_sessions_is_read_aside_alone(door: Door) -> None:
    """Whether its spans may be released at once, since no golden wants their session, is known once it is read."""
    spans = turn("large", calls=CALLS)
    trace = spans[0].trace_id
    unwanted = [agent(trace, "root-2", session="unwanted"), tool(trace, "tool", "root-2", args={"x": 1})]
    door.feed([*spans, *unwanted])
    door.poll(1.0)
    assert {thread for what, _, thread in door.done if what == "read"} == {"aside"}


def test_a_span_that_comes_while_the_session_of_its_trace_is_scored_is_scored_next(door: Door) -> None:
    spans = turn("large", calls=CALLS)
    late = tool(spans[0].trace_id, "late", "root", args={"x": 2})

    def scored() -> None:
        door.feed([late])
        assert late.ref not in door.poll(1.5).released

    door.feed(spans)
    door.while_scored = scored
    door.poll(1.0)
    assert late.ref in door.poll(1.0).released
    door.poll(100.0)
    assert door.standing == at_once([*spans, late])


def test_nothing_is_dropped_for_lack_of_room_while_a_large_session_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    door = Door(monkeypatch, replace(SETTINGS, max_spans=SIZE + 1))
    large = turn("large", calls=CALLS)

    def meanwhile() -> None:
        door.feed(turn("small"))
        assert door.engine.stats.evicted_sessions == 0

    door.feed(large)
    door.while_scored = meanwhile
    door.poll(1.0)
    door.feed([plain("9" * 32, "one")])
    assert door.engine.stats.evicted_sessions == 1
    assert door.judged("large") == ["aside", "here"]


@pytest.mark.parametrize("order", [("small", "large", "other"), ("large", "small", "other")])
def test_where_a_door_polls_in_portions_a_large_one_is_a_portion_of_its_own(door: Door, order: tuple[str, ...]) -> None:
    """What is due before it leaves before it is read, and its results before what is due after it."""
    turns = {name: turn(name, calls=CALLS if name == "large" else 1) for name in order}
    for name in order:
        door.feed(turns[name])
    door.now += 1.0
    output = door.engine.poll(door.now, 100)
    assert [name for name in order if released(output, turns[name])] == [order[0]]


def test_a_lost_span_of_a_session_is_noted_when_it_was_scored(door: Door) -> None:
    spans, late = turn("large", calls=CALLS), turn("large", 1, calls=CALLS)
    lost = SpanFacts("", "lost", "", 0, 0, session_keys=(("gen_ai.conversation.id", "large"),), lost=True)

    def meanwhile() -> None:
        door.feed([lost])
        assert not door.poll(1.5).evaluations

    door.feed(spans)
    door.poll(1.0)
    door.feed(late)
    door.while_scored = meanwhile
    door.poll(1.5)
    assert {one.incomplete for one in door.poll(1.0).evaluations} == {True}
