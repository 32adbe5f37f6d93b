"""Which results are told by an event, and by attributes of their span."""

from __future__ import annotations

from goldspan.collector_processor.emit.evaluation import Evaluation, Events, span_attributes
from goldspan.collector_processor.emit.otlp_encoding import encoded_events
from goldspan.collector_processor.engine.result_revisions import evaluations_of, revise
from goldspan.scoring import Session, ToolCall, Turn, score_sessions
from goldspan.scoring.results import SessionResult
from goldspan.scoring.sessions import SpanRef

MATCH, REPETITION = "tool_parameter_match", "tool_call_repetition"


def judged(*seats: int) -> SessionResult:
    """A session of one turn that calls a tool with each of these; its golden wants seats 1, 2, ..."""
    calls = tuple(
        ToolCall("book", {"seat": seat}, batch=at, span=SpanRef("1" * 32, f"{at:016x}"))
        for at, seat in enumerate(seats, start=1)
    )
    wanted = [{"name": "book", "args": {"seat": at}} for at in range(1, len(seats) + 1)]
    goldens = {"golden_set": "g", "goldens": [{"session": "s", "calls": wanted}]}
    turn = Turn(calls=calls, root=SpanRef("1" * 32, "f" * 16))
    [result] = score_sessions(goldens, Session("s", (turn,)), metrics=[REPETITION]).sessions
    return result


def results(result: SessionResult, events: Events) -> list[Evaluation]:
    return evaluations_of(result, complete=True, events=events)


def told(result: SessionResult, events: Events) -> list[tuple[str, str]]:
    """Metric and level of what has an event."""
    return sorted((one.metric, str(one.level)) for one in results(result, events) if one.has_event)


def test_a_session_in_order_has_events_of_its_golden_alone() -> None:
    right = judged(1, 2)
    assert told(right, Events.FINDINGS) == [(MATCH, level) for level in ("call", "call", "session", "turn")]
    assert told(right, Events.FAILURES) == [(MATCH, "session"), (MATCH, "turn")]
    assert len(told(right, Events.ALL)) == 8


def test_findings_are_told_of_the_call_the_turn_and_the_session() -> None:
    found = set(told(judged(1, 1, 1), Events.FAILURES))
    assert found == {(metric, level) for metric in (MATCH, REPETITION) for level in ("call", "session", "turn")}


def test_without_an_event_only_calls_of_goldens_mark_their_span() -> None:
    marked = [one for one in results(judged(1, 2), Events.FAILURES) if span_attributes(one)]
    assert sorted((one.metric, str(one.level)) for one in marked) == [
        (MATCH, level) for level in ("call", "call", "turn")
    ]
    assert encoded_events([one for one in marked if not one.has_event], 0) == b""


def test_what_was_told_is_corrected() -> None:
    known: dict[str, Evaluation] = {}
    wrong, right = (
        {one.id: one for one in results(judged(*seats), Events.FINDINGS) if one.metric == REPETITION}
        for seats in ((1, 1, 1), (1, 2, 3))
    )
    first = [one for one in revise(known, wrong) if one.has_event]
    corrections = revise(known, right)
    assert {one.id for one in corrections} == {one.id for one in first}
    assert {(one.revision, one.has_event) for one in corrections} == {(2, True)}
    assert revise(known, right) == []
