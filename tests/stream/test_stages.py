"""What a stage holds back, takes back, keeps and forgets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from goldspan.collector_processor.emit.evaluation import Events
from goldspan.collector_processor.engine.trace_machine import EngineSettings
from goldspan.collector_processor.gateway.interfaces import ExportRequest
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.collector_processor.stream.session_stage import SessionStage
from goldspan.collector_processor.stream.stage_interface import (
    DeadLetter,
    Results,
    SessionMessage,
    StreamContext,
    ToSession,
    Traces,
    decode_fragment,
    decode_message,
    encode_fragment,
    session_message,
)
from goldspan.collector_processor.stream.trace_stage import TraceStage
from goldspan.scoring.goldens import GoldenIndex, load_goldens
from goldspan.scoring.metrics.session_metrics import WITHOUT_GOLDEN
from goldspan.scoring.run import scorer_of
from rigs.otlp_containers import as_message
from rigs.pipeline_rig import Said, spans_in
from rigs.stream_rig import DictState, Partition, Record, Stream
from rigs.trace_requests import SECOND, plain_request, turn_request

NAME = "tool_parameter_match"
TURN = {"calls": [{"name": "look", "args": {"at": "pier"}}]}
GOLDENS = load_goldens(
    {"format": 1, "golden_set": "g", "goldens": [{"session": name, "turns": [TURN] * 2} for name in ("a", "b")]}
)
SETTINGS = EngineSettings()
CONTEXT = StreamContext.of(GOLDENS)


def body(document: dict[str, Any]) -> bytes:
    return as_message(document).SerializeToString()


def turn(session: str | None, number: int, at: str = "pier") -> dict[str, Any]:
    return turn_request(session, ("look", {"at": at}), turn=number)


def root_last(document: dict[str, Any]) -> list[dict[str, Any]]:
    """One request for each span, the root last."""
    (resource,) = document["resourceSpans"]
    (scope,) = resource["scopeSpans"]
    ordered = sorted(scope["spans"], key=lambda span: not span.get("parentSpanId"))
    return [{"resourceSpans": [{**resource, "scopeSpans": [{**scope, "spans": [span]}]}]} for span in ordered]


def stream_of(
    *requests: tuple[int, float, dict[str, Any]], partitions: int = 1, context: StreamContext = CONTEXT
) -> Stream:
    """A stream without faults: each request with its partition and its time."""
    stream = Stream(context, 0, traces=partitions, sessions=1, faults=0.0)
    for partition, time, document in requests:
        stream.first[partition].records.append(Record("spans", time, body(document)))
    return stream


def labels(stream: Stream, level: str) -> list[str]:
    return [one["gen_ai.evaluation.score.label"] for one in stream.said().values() if one[f"{NAME}.level"] == level]


def read(stream: Stream, partition: Partition) -> None:
    while not partition.is_read:
        stream.read(partition)


def idle(stream: Stream, now: float) -> None:
    """Nothing comes any more: all partitions follow the clock."""
    for partition in stream.first:
        stream.take(partition.stage.advance(now), now)
    read(stream, stream.second[0])
    stream.take(stream.second[0].stage.advance(now), now)


def test_a_lagging_partition_delays_the_end_of_a_run() -> None:
    stream = stream_of(
        (0, 0, turn("a", 0)), (0, 500, turn("b", 0)), (1, 1, turn("a", 1)), (1, 501, turn("b", 1)), partitions=2
    )
    read(stream, stream.first[0])
    read(stream, stream.second[0])
    events = stream.events()
    assert {one["gen_ai.conversation.id"] for one in events} == {"a"}
    assert {one[f"{NAME}.level"] for one in events} == {"call", "turn"}
    read(stream, stream.first[1])
    idle(stream, 700)
    assert labels(stream, "session") == ["pass", "pass"]
    assert {one[f"{NAME}.revision"] for one in stream.events()} == {1}


def test_a_session_that_is_named_late_takes_the_turn_back() -> None:
    everything = load_goldens({"format": 1, "golden_set": "g", "goldens": [{"session_pattern": "*", "turns": [TURN]}]})
    child, root = root_last(turn("a", 0))
    stream = stream_of((0, 0, child), (0, 700, plain_request()), (0, 701, root), context=StreamContext.of(everything))
    read(stream, stream.first[0])
    idle(stream, 2000)
    sessions = {one["gen_ai.conversation.id"] for one in stream.events()}
    assert len(sessions) == 2
    assert {one["gen_ai.conversation.id"] for one in stream.said().values()} == {"a"}


def test_what_was_committed_goes_on_after_a_restart() -> None:
    first, second = root_last(turn("a", 0))
    stream = stream_of((0, 0, first), (0, 5, second), (0, 6, turn("a", 1)))
    stream.read(stream.first[0])
    for partition in (*stream.first, *stream.second):
        partition.commit()
        partition.restart()
    assert not stream.spans()
    stream.read(stream.first[0])
    for _ in range(3):
        idle(stream, 10)
        for partition in (*stream.first, *stream.second):
            partition.commit()
            partition.restart()
    read(stream, stream.first[0])
    idle(stream, 100)
    assert labels(stream, "session") == ["pass"]
    assert {one[f"{NAME}.revision"] for one in stream.events()} == {1}
    assert len(stream.spans()) == 4


def test_spans_that_nobody_read_yet_are_there_after_a_restart() -> None:
    tool, root = root_last(turn("a", 0))
    (span,) = tool["resourceSpans"][0]["scopeSpans"][0]["spans"]
    between = plain_request()
    (plain,) = between["resourceSpans"][0]["scopeSpans"][0]["spans"]
    plain |= {"traceId": span["traceId"], "parentSpanId": span["parentSpanId"]}
    span["parentSpanId"] = plain["spanId"]
    said: list[Said] = []
    for restarts in (False, True):
        stream = stream_of((0, 0, between), (0, 5, tool), (0, 6, root))
        stream.read(stream.first[0])
        assert len(stream.spans()) == 1
        if restarts:
            stream.first[0].commit()
            stream.first[0].restart()
        read(stream, stream.first[0])
        idle(stream, 700)
        assert len(stream.spans()) == 3
        said.append(stream.said())
    assert said[0] == said[1]


def test_spans_that_nobody_read_yet_are_kept_though_no_watermark_was_known() -> None:
    tool, root = root_last(turn("a", 0))
    (span,) = tool["resourceSpans"][0]["scopeSpans"][0]["spans"]
    between = plain_request()
    (plain,) = between["resourceSpans"][0]["scopeSpans"][0]["spans"]
    plain |= {"traceId": span["traceId"], "parentSpanId": span["parentSpanId"]}
    span["parentSpanId"] = plain["spanId"]
    state = DictState({})
    stage = TraceStage(CONTEXT, state, 0)
    stage.spans(body(between), 10_000.0)
    stage.save()
    stage.advance(10_001.0)
    stage.save()
    sent: list[list[SessionMessage]] = []
    for one in (stage, TraceStage(CONTEXT, DictState(state.rows), 0)):
        one.spans(body(tool), 10_005.0)
        one.spans(body(root), 10_006.0)
        sent.append([decode_message(output.body) for output in one.advance(10_020.0) if isinstance(output, ToSession)])
    assert len(sent[0]) == 1
    assert sent[0][0].changes == sent[1][0].changes
    assert (sent[0][0].epoch, sent[1][0].epoch) == (1, 2)


def test_held_spans_leave_with_scores_and_all_others_at_once() -> None:
    stream = stream_of((0, 0, turn("a", 0)), (0, 0, turn("unwanted", 0)), (0, 0, plain_request()))
    unread = [one.body for one in stream.first[0].records[1:]]
    read(stream, stream.first[0])
    assert stream.of(Traces) == unread
    idle(stream, 10)
    scored = spans_in(stream.of(Traces)[2:])
    assert len(scored) == 2
    assert all(any(one.key.startswith(NAME) for one in span.attributes) for span in scored)


def test_no_span_waits_longer_than_the_timeout() -> None:
    child, _ = root_last(turn("a", 0))
    stream = stream_of((0, 0, child))
    read(stream, stream.first[0])
    idle(stream, SETTINGS.hold_timeout - 1)
    assert not stream.spans()
    idle(stream, SETTINGS.hold_timeout)
    assert len(stream.spans()) == 1
    assert stream.first[0].stage.stats.held_past_timeout == 1


def test_everything_is_forgotten_in_the_end() -> None:
    stream = stream_of(
        (0, 0, turn("a", 0)), (0, 1, turn("unwanted", 0)), (0, 2, plain_request()), (0, 3, root_last(turn("b", 0))[0])
    )
    read(stream, stream.first[0])
    partitions = [*stream.first, *stream.second]
    for now in (5, 10, 100, 700, 4000, 8000, 200_000, 400_000):
        idle(stream, now)
        for partition in partitions:
            partition.commit()
            partition.restart()
        if now == 10:
            assert all(len(partition.committed) > 2 for partition in partitions)
    assert {key[:1] for key in stream.first[0].committed} <= {b"x", b"e"}
    assert stream.second[0].committed.keys() == {b"w", b"e"}
    assert stream.first[0].stage.deadline() is stream.second[0].stage.deadline() is None


def test_what_comes_for_a_dropped_trace_is_late_and_passed_on() -> None:
    stream = stream_of((0, 0, turn("a", 0)))
    read(stream, stream.first[0])
    for now in (10, 100, 4000):
        idle(stream, now)
        stream.first[0].commit()
        stream.first[0].restart()
    before = stream.said()
    stream.first[0].records.append(Record("spans", 4001, body(turn("a", 0, at="mole"))))
    stream.first[0].records.append(Record("spans", 4001, body(turn("a", 0))))
    stream.first[0].next = 1
    read(stream, stream.first[0])
    idle(stream, 4100)
    assert stream.first[0].stage.stats.late == 2
    assert stream.said() == before
    assert len(stream.spans()) == 6


def test_a_record_of_an_earlier_time_makes_no_trace_older() -> None:
    stage = TraceStage(CONTEXT, DictState({}), 0)
    last, first = root_last(turn("a", 0))
    stage.spans(body(last), 10_000.0)
    stage.spans(body(first), 0.0)
    assert any(isinstance(one, ToSession) for one in stage.advance(10_010.0))
    stage.spans(body(turn("a", 0)), 10_011.0)
    assert stage.stats.late == 0


@pytest.mark.parametrize("limits", [{"max_trace_spans": 1}, {"max_session_spans": 1}])
def test_a_limit_makes_results_incomplete(limits: dict[str, int]) -> None:
    stream = stream_of((0, 0, turn("a", 0)), (0, 1, turn("a", 1)), context=replace(CONTEXT, **limits))
    read(stream, stream.first[0])
    idle(stream, 700)
    assert any(one.get(f"{NAME}.incomplete") for one in stream.said().values())
    assert not {"fail"} & set(labels(stream, "session"))
    assert len(stream.spans()) == 4


def test_a_full_session_takes_newer_versions_of_its_fragments() -> None:
    older, newer = turn_request("a", ("look", {"at": "mole"})), turn_request("a", ("look", {"at": "mole"}))
    (tool,) = newer["resourceSpans"][0]["scopeSpans"][0]["spans"][1:]
    tool["attributes"][-1]["value"]["stringValue"] = '{"at": "pier"}'
    tool["endTimeUnixNano"] = str(int(tool["endTimeUnixNano"]) + 1)
    stream = stream_of((0, 0, older), (0, 5, newer), context=replace(CONTEXT, max_session_spans=1))
    stream.read(stream.first[0])
    idle(stream, 3)
    assert labels(stream, "call") == ["fail"]
    read(stream, stream.first[0])
    idle(stream, 8)
    assert labels(stream, "call") == ["pass"]
    assert not any(one.get(f"{NAME}.incomplete") for one in stream.said().values())


@pytest.mark.parametrize(("number", "late"), [(10, True), (1_000, False)])
@pytest.mark.parametrize("hours", [0, 1_000_000])
def test_turns_soon_after_a_dropped_run_are_late_whatever_its_clock_said(
    number: int, hours: int, *, late: bool
) -> None:
    first = turn("a", 0)
    root = first["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    root["endTimeUnixNano"] = str(int(root["endTimeUnixNano"]) + hours * 3600 * SECOND)
    stream = stream_of((0, 0, first), (0, 5000, turn("a", number)))
    stream.read(stream.first[0])
    for now in (10, 100, 4000):
        idle(stream, now)
        stream.second[0].commit()
        stream.second[0].restart()
    before = len(stream.events())
    read(stream, stream.first[0])
    idle(stream, 5010)
    assert (len(stream.events()) == before) is late
    assert stream.second[0].stage.stats.late == (2 if late else 0)


def test_a_session_is_incomplete_as_long_as_a_fragment_is() -> None:
    first = TraceStage(CONTEXT, DictState({}), 0)
    first.spans(body(turn("a", 0)), 0.0)
    [sent] = [one for one in first.advance(5.0) if isinstance(one, ToSession)]
    message = decode_message(sent.body)
    [(root, encoded)] = message.changes
    assert encoded is not None
    lacking = encode_fragment(decode_fragment(encoded)[0], incomplete=True)
    second = SessionStage(CONTEXT, DictState({}), 1)
    for fragment, incomplete in ((lacking, True), (encoded, False)):
        outputs = second.receive(sent.key, session_message(0, 5.0, message.trace, [(root, fragment)]))
        [results] = [one for one in outputs if isinstance(one, Results)]
        assert {one.incomplete for one in results.evaluations} == {incomplete}


@pytest.mark.parametrize("restarts", [True, False])
def test_more_text_than_a_trace_may_have_makes_results_incomplete(restarts: bool) -> None:
    scorer = scorer_of(metrics=WITHOUT_GOLDEN)
    for size, incomplete in ((1_000, None), (1_100_000, True)):
        document = turn_request("a", ("look", {"at": "pier"}), user="go to the pier " + "x" * size)
        context = StreamContext.of(GoldenIndex(sample=1.0), EngineSettings(scorer=scorer, events=Events.ALL))
        stream = stream_of((0, 0, document), context=context)
        read(stream, stream.first[0])
        if restarts:
            stream.first[0].commit()
            stream.first[0].restart()
        idle(stream, 100)
        found = {
            one.get("tool_parameter_grounding.incomplete")
            for one in stream.said().values()
            if "tool_parameter_grounding.level" in one
        }
        assert found == {incomplete}


def test_what_cannot_be_read_is_a_dead_letter_and_nothing_else_is_lost() -> None:
    first = TraceStage(CONTEXT, DictState({}), 0)
    for receive in (first.spans, first.logs, first.notes):
        (letter,) = receive(b"\xff\xfesession.id", 0.0)
        assert isinstance(letter, DeadLetter)
        assert letter.body == b"\xff\xfesession.id"
        assert letter.error
    second = SessionStage(CONTEXT, DictState({}), 1)
    foreign = TraceStage(CONTEXT, DictState({}), 7)
    first.spans(body(turn("a", 0)), 0.0)
    foreign.spans(body(turn("a", 1)), 0.0)
    messages = [one for stage in (first, foreign) for one in stage.advance(9.0) if isinstance(one, ToSession)]
    outputs = [second.receive(one.key, one.body) for one in messages]
    assert [any(isinstance(one, DeadLetter) for one in some) for some in outputs] == [False, True]
    assert isinstance(next(iter(second.receive(b"a", b"\x00"))), DeadLetter)


def test_a_body_with_a_bad_span_loses_that_span_only() -> None:
    document = turn("a", 0)
    good = as_message(document)
    good.resource_spans[0].scope_spans[0].spans.add(trace_id=b"short", span_id=b"\x01")
    stream = Stream(CONTEXT, 0, traces=1, sessions=1, faults=0.0)
    stream.run(
        stream.put(
            [ExportRequest(Signal.TRACES, good.SerializeToString()), ExportRequest(Signal.TRACES, body(turn("a", 1)))]
        )
    )
    assert labels(stream, "session") == ["pass"]
    assert len(stream.spans()) == 5
