"""What is held, for how long, and what it carries when it leaves."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult

from goldspan.collector_processor import daemon_threads
from goldspan.collector_processor.engine.session_scorer import SessionScorer, SessionState
from goldspan.collector_processor.in_process import setup
from rigs.in_process_rig import Inner, MakeRig, Rig, scores
from rigs.scripted_agent import CONVERT, PARIS, ROME, golden, golden_set, run_turn
from rigs.waiting import until

TURN = {"chat test-model", "GET 0", "execute_tool get_weather 0", "invoke_agent weather"}


def test_tool_spans_and_turn_roots_wait_for_their_result_and_carry_it(make_rig: MakeRig) -> None:
    rig = make_rig(settle=1.0)
    rig.turn()
    assert set(rig.exported()) == {"chat test-model", "GET 0"}
    until(lambda: len(rig.inner.spans) == 4)
    spans = rig.exported()
    assert scores(spans["execute_tool get_weather 0"]) == {
        "tool_parameter_match.score": 0.5,
        "tool_parameter_match.label": "fail",
        "tool_parameter_match.golden": "wanted",
        "tool_parameter_match.golden_set": "weather@3",
        "tool_parameter_match.revision": 1,
        "tool_parameter_match.expected_call": "0.0",
        "tool_parameter_match.mismatched_arguments": ("city",),
        "tool_parameter_match.unexpected": False,
    }
    assert scores(spans["invoke_agent weather"]) == {
        "tool_parameter_match.turn.score": 0.5,
        "tool_parameter_match.turn.label": "fail",
        "tool_parameter_match.turn.golden": "wanted",
        "tool_parameter_match.turn.golden_set": "weather@3",
        "tool_parameter_match.turn.revision": 1,
        "tool_parameter_match.turn.expected_calls": 1,
        "tool_parameter_match.turn.evaluated_calls": 1,
        "tool_parameter_match.turn.aligned_calls": 1,
        "tool_parameter_match.turn.right_calls": 0,
        "tool_parameter_match.turn.missing_calls": 0,
        "tool_parameter_match.turn.unexpected_calls": 0,
        "tool_parameter_match.turn.wrong_tools": ("get_weather",),
    }


def test_a_session_that_no_golden_wants_passes_at_once_and_is_one_count(rig: Rig) -> None:
    rig.turn("unwanted")
    assert set(rig.exported()) == TURN
    assert all(not scores(span) for span in rig.inner.spans)
    rig.door.force_flush()
    assert rig.events() == []
    [point] = rig.points("tool_parameter_match.not_evaluated")
    assert (point.value, point.attributes["tool_parameter_match.reason"]) == (1, "no_golden")
    assert rig.points("tool_parameter_match.score") == []


def test_spans_of_no_agent_pass_at_once(rig: Rig) -> None:
    with rig.tracer.start_as_current_span("GET /health"), rig.tracer.start_as_current_span("SELECT"):
        pass
    assert set(rig.exported()) == {"GET /health", "SELECT"}


@pytest.mark.parametrize(("session", "held"), [("wanted", True), ("unwanted", False)])
def test_a_root_that_only_names_its_session_and_ends_first_is_held_for_the_turn(
    rig: Rig, session: str, held: bool
) -> None:
    root = rig.tracer.start_span("LangGraph", attributes={"session.id": session})
    below = trace.set_span_in_context(root)
    name, arguments = ROME
    call = {"gen_ai.tool.name": name, "gen_ai.tool.call.arguments": json.dumps(arguments)}
    tool = rig.tracer.start_span("tool", below, attributes={"gen_ai.operation.name": "execute_tool", **call})
    root.end()
    assert ("LangGraph" in rig.exported()) is not held
    tool.end()
    rig.door.force_flush()
    assert scores(rig.exported()["LangGraph"]).get("tool_parameter_match.turn.score") == (0.5 if held else None)
    assert sorted(span.name for span in rig.inner.spans) == ["LangGraph", "tool"]


def test_every_span_leaves_once_whatever_it_was(rig: Rig) -> None:
    for session in ("wanted", "unwanted", None, "wanted"):
        rig.turn(session, [PARIS, CONVERT])
    rig.door.force_flush()
    assert len(rig.inner.spans) == 4 * 6
    assert len({(span.context.trace_id, span.context.span_id) for span in rig.inner.spans}) == 4 * 6


def test_other_sessions_are_judged_and_exported_while_a_large_one_is_judged(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    judging, go_on = threading.Event(), threading.Event()
    score = SessionScorer.score

    def slow(scorer: SessionScorer, state: SessionState, *args: Any, **options: Any) -> None:
        if state.id == "large":
            judging.set()
            go_on.wait(30.0)
        score(scorer, state, *args, **options)

    monkeypatch.setattr(SessionScorer, "score", slow)
    monkeypatch.setattr(daemon_threads, "LARGE", 12)
    rig = make_rig(goldens=golden_set(golden("wanted", [PARIS]), golden("large", [PARIS])), hold_timeout=60.0)
    rig.turn("large", [PARIS] * 10)
    assert judging.wait(10.0)
    rig.turn("wanted", [PARIS])
    until(lambda: "invoke_agent weather" in rig.exported())
    assert rig.score("execute_tool get_weather 0") == 1.0
    assert len(rig.inner.spans) == 15  # and of the large one what is not held
    stopped = threading.Thread(target=rig.door.force_flush)
    stopped.start()
    time.sleep(0.2)
    assert stopped.is_alive(), "a flush has everything judged"
    go_on.set()
    stopped.join(10.0)
    assert len(rig.inner.spans) == 26
    assert sum("tool_parameter_match.turn.score" in scores(span) for span in rig.inner.spans) == 2


def test_held_off_every_span_passes_at_once_and_results_are_events_and_points(make_rig: MakeRig) -> None:
    rig = make_rig(hold="off")
    rig.turn()
    assert set(rig.exported()) == TURN
    until(lambda: len(rig.events()) == 2)
    assert all(not scores(span) for span in rig.inner.spans)
    assert {record.attributes["tool_parameter_match.level"] for record in rig.events()} == {"call", "turn"}
    assert rig.points("tool_parameter_match.score") == []  # the session may go on
    rig.door.shutdown()
    assert len(rig.points("tool_parameter_match.score")) == 3
    assert rig.points("goldspan.spans.held") == []


def test_flush_lets_go_with_results(make_rig: MakeRig) -> None:
    rig = make_rig(settle=3600)
    rig.turn()
    assert set(rig.exported()) == {"chat test-model", "GET 0"}
    assert rig.door.force_flush()
    assert rig.score("execute_tool get_weather 0") == 0.5
    assert rig.inner.calls[-1] == "force_flush"


def test_a_turn_that_runs_longer_than_the_hold_is_scored_by_events_and_points(make_rig: MakeRig) -> None:
    rig = make_rig(hold_timeout=0.1)
    with rig.tracer.start_as_current_span("invoke_agent slow", attributes={"gen_ai.operation.name": "invoke_agent"}):
        run_turn(rig.tracer, "wanted", [ROME], name="inner agent")
        until(lambda: "execute_tool get_weather 0" in rig.exported())
        assert scores(rig.exported()["execute_tool get_weather 0"]) == {}
        assert rig.events() == []
    until(lambda: len(rig.events()) == 2 and "invoke_agent slow" in rig.exported())  # events go first
    assert scores(rig.exported()["execute_tool get_weather 0"]) == {}
    assert scores(rig.exported()["invoke_agent slow"])["tool_parameter_match.turn.score"] == 0.5
    assert rig.counted("goldspan.spans.released_early")["hold_timeout"] >= 1


@pytest.mark.parametrize(
    ("bound", "reason"), [({"max_held_spans": 1}, "max_held_spans"), ({"max_held_bytes": 5_000}, "max_held_bytes")]
)
def test_beyond_a_bound_the_oldest_leave_unscored_and_results_follow(
    make_rig: MakeRig, bound: dict[str, int], reason: str
) -> None:
    rig = make_rig(settle=3600, goldens=golden_set(golden("wanted", [PARIS, PARIS, PARIS])), **bound)
    rig.turn(calls=[PARIS, ROME, PARIS])
    early = [name for name in rig.exported() if name.startswith("execute_tool")]
    assert early[:2] == ["execute_tool get_weather 0", "execute_tool get_weather 1"]
    assert all(not scores(span) for span in rig.inner.spans)
    assert rig.counted("goldspan.spans.released_early") == {reason: len(early)}
    rig.door.force_flush()
    assert len(rig.inner.spans) == 8
    levels = [record.attributes["tool_parameter_match.level"] for record in rig.events()]
    assert sorted(levels)[:3] == ["call"] * 3


def test_what_is_held_is_said(make_rig: MakeRig) -> None:
    rig = make_rig(settle=3600)
    rig.turn()
    assert rig.points("goldspan.spans.held")[0].value == 2
    assert rig.points("goldspan.spans.held_bytes")[0].value > 4_000
    rig.door.force_flush()
    assert rig.points("goldspan.spans.held")[0].value == 0
    assert rig.points("goldspan.spans.held_bytes")[0].value == 0


def test_of_two_doors_in_a_row_the_last_one_that_scores_writes_the_attributes(rig: Rig, inner: Inner) -> None:
    rig.turn()
    rig.door.force_flush()
    again, goldens = Inner(), golden_set(golden("wanted", [ROME]))
    second, third = Rig(again, settle=3600, goldens=goldens), Inner()
    assert second.door.export(inner.spans) is SpanExportResult.SUCCESS
    second.door.force_flush()
    assert rig.score("execute_tool get_weather 0") == 0.5
    assert second.score("execute_tool get_weather 0") == 1.0
    assert second.counted("goldspan.problems") == {"overwritten_score": 2}
    elsewhere = Rig(third, goldens=golden_set(golden("another", [ROME])))
    elsewhere.door.export(again.spans)
    assert [id(span) for span in third.spans] == [id(span) for span in again.spans]
    second.close()
    elsewhere.close()


def test_a_span_with_a_nan_and_one_without_ids_leave_as_they_came(rig: Rig) -> None:
    rig.tracer.start_span("nan", attributes={"gen_ai.operation.name": "execute_tool", "x": float("nan")}).end()
    by_hand = ReadableSpan("by hand", attributes={"tool.name": "t", "input.value": "{}"})
    assert rig.door.export([by_hand]) is SpanExportResult.SUCCESS
    rig.door.force_flush()
    assert set(rig.exported()) == {"nan", "by hand"}
    assert rig.exported()["by hand"] is by_hand


def test_a_thread_runs_only_while_there_is_something_to_wait_for(make_rig: MakeRig) -> None:
    def timers() -> int:
        return sum(thread.name == "goldspan-timer" for thread in threading.enumerate())

    until(lambda: timers() == 0)
    rig = make_rig(settle=3600)
    rig.door.export([])
    assert timers() == 0
    rig.turn()
    assert timers() == 1
    rig.door.shutdown()
    until(lambda: timers() == 0)


class Slow(Inner):
    """Takes its time with every batch."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        time.sleep(0.002)
        self.batches.append(list(spans))
        self.inside -= 1
        return SpanExportResult.SUCCESS


def test_many_threads_lose_nothing_and_never_meet_in_the_inner_exporter(make_rig: MakeRig) -> None:
    slow = Slow()
    goldens = golden_set(*(golden(f"s{number}", [PARIS]) for number in range(8)))
    rig = make_rig(inner=slow, settle=0.01, goldens=goldens)

    def agent(number: int) -> None:
        for _ in range(3):
            rig.turn(f"s{number}")
            rig.door.force_flush()

    threads = [threading.Thread(target=agent, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rig.door.shutdown()
    assert slow.most_inside == 1
    assert len(slow.spans) == 8 * 3 * 4
    ids = [(span.context.trace_id, span.context.span_id) for span in slow.spans]
    assert len(set(ids)) == len(ids)


def test_the_held_spans_of_an_evicted_session_leave_at_once(make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "MAX_KNOWN_SPANS", 3)
    rig = make_rig(settle=3600, hold_timeout=3600)
    rig.turn()
    spans = rig.exported()
    assert set(spans) == TURN
    assert scores(spans["invoke_agent weather"])["tool_parameter_match.turn.reason"] == "incomplete"
    assert rig.counted("goldspan.problems") == {"evicted_session": 1}


def test_spans_of_a_dropped_session_are_counted_as_late_or_repeated_each_once(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "MAX_KNOWN_SPANS", 3)
    rig = make_rig(settle=3600)
    rig.turn()
    rig.door.force_flush()
    assert rig.counted("goldspan.problems") == {"evicted_session": 1}
    [root] = [span for span in rig.inner.spans if span.name == "invoke_agent weather"]
    below = trace.set_span_in_context(trace.NonRecordingSpan(root.get_span_context()))
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "get_weather"}
    for late in (1, 2, 3):
        rig.tracer.start_span("execute_tool get_weather", below, attributes=tool).end()
        assert rig.counted("goldspan.problems") == {"evicted_session": 1, "late_span": late}
    rig.door.export([root])
    rig.turn("unwanted")
    assert rig.counted("goldspan.problems") == {"evicted_session": 1, "late_span": 3, "repeated_span": 1}
