"""What is held, what leaves at once, and what happens when the receiver, the disk or the process goes away."""

from __future__ import annotations

import errno
import logging
import sqlite3
import threading
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

from goldspan.collector_processor import daemon_threads
from goldspan.collector_processor.encoded_spans.span_groups import join_request, split_request
from goldspan.collector_processor.engine.session_scorer import SessionScorer
from goldspan.collector_processor.engine.trace_machine import EngineSettings
from goldspan.collector_processor.gateway.interfaces import (
    Accepted,
    Busy,
    Delivered,
    DeliveryResult,
    ExportRequest,
    Headers,
    Refused,
    Rejected,
    Retry,
)
from goldspan.collector_processor.gateway.journal.body_log import BodyLog
from goldspan.collector_processor.gateway.journal.database import Database
from goldspan.collector_processor.gateway.pipeline import GatewayPipeline
from goldspan.collector_processor.gateway.settings.sections import Backoff, PipelineSettings
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.mappers.readers.otlp_protobuf import message_attributes
from goldspan.scoring.goldens import GoldenIndex, load_goldens
from rigs.otlp_containers import as_message
from rigs.pipeline_rig import QUICK, Downstream, run, spans_in
from rigs.trace_requests import plain_request, turn_request
from rigs.waiting import until

SCORE = "tool_parameter_match.score"
TURN_SCORE = "tool_parameter_match.turn.score"
FAST = Backoff(initial=0.01, longest=0.05)


def goldens(*sessions: str, city: str = "Paris") -> GoldenIndex:
    turn = {"calls": [{"name": "get_weather", "args": {"city": city}}]}
    document = {
        "format": 1,
        "golden_set": "g",
        "goldens": [{"session": name, "turns": [turn] * 3} for name in sessions],
    }
    return load_goldens(document)


def traces(document: dict[str, Any], headers: Headers = ()) -> ExportRequest:
    return ExportRequest(Signal.TRACES, as_message(document).SerializeToString(), headers)


def turn(session: str | None, turn: int = 0, city: str = "Paris", headers: Headers = ()) -> ExportRequest:
    return traces(turn_request(session, ("get_weather", {"city": city}), turn=turn), headers)


def joined(*requests: ExportRequest) -> ExportRequest:
    groups = [group for request in requests for group in split_request(request.body) or []]
    return ExportRequest(Signal.TRACES, join_request(groups))


class Gateway:
    """A pipeline that is closed when the test ends."""

    def __init__(self, index: GoldenIndex, downstream: Downstream | None = None, **settings: Any) -> None:
        self.downstream = downstream or Downstream()
        settings.setdefault("engine", QUICK)
        settings.setdefault("backoff", FAST)
        self.pipeline = GatewayPipeline(index, self.downstream, PipelineSettings(**settings), random=Random(1))

    def send(self, *requests: ExportRequest) -> None:
        for request in requests:
            assert self.pipeline.accept(request) == Accepted()

    def counts(self, name: str) -> float:
        return sum(value for found, _, value in self.pipeline.metrics() if found == f"goldspan_{name}")

    def crash(self) -> None:
        """Leave everything as a killed process would: nothing more is committed, sent or closed in order."""
        pipeline = self.pipeline
        pipeline.intake.is_closing = True
        pipeline.worker.outbox.commit = lambda *_: 0  # type: ignore[method-assign]
        pipeline.dispatcher.close(5.0)
        pipeline._queue.put(None)
        pipeline._thread.join(5.0)
        if pipeline._journal is not None:
            pipeline._journal.close()

    def __enter__(self) -> Gateway:
        return self

    def __exit__(self, *_: object) -> None:
        if not self.pipeline.intake.is_closing:
            self.pipeline.drain(10.0)


def scores(downstream: Downstream, key: str = SCORE) -> dict[str, float]:
    found: dict[str, float] = {}
    for span in downstream.spans():
        attributes = message_attributes(span.attributes)
        if key in attributes:
            found[span.span_id.hex()] = attributes[key]
    return found


@pytest.mark.parametrize(
    "request_",
    [
        traces(plain_request()),
        turn("nobody"),
        joined(turn("nobody"), turn("somebody", 1), traces(plain_request())),
        ExportRequest(Signal.METRICS, b"\n\x05\x12\x03\n\x01x"),
        ExportRequest(Signal.LOGS, b"\n\x05\x12\x03\n\x01x"),
        ExportRequest(Signal.TRACES, b""),
    ],
    ids=["plain", "unwanted", "mixed", "metrics", "logs", "empty"],
)
@pytest.mark.parametrize("journal", [False, True])
def test_a_request_with_nothing_of_ours_leaves_as_it_came(
    request_: ExportRequest, journal: bool, tmp_path: Path
) -> None:
    settings = PipelineSettings(journal=tmp_path / "journal" if journal else None)
    downstream = run([request_], goldens("wanted"), settings)
    assert downstream.of(request_.signal) == [request_.body]


def test_the_rest_of_a_request_leaves_before_what_is_held() -> None:
    plain, wanted, other = traces(plain_request()), turn("wanted"), turn("nobody")
    slow = EngineSettings(settle=2.0)
    with Gateway(goldens("wanted"), engine=slow) as gateway:
        gateway.send(joined(plain, wanted, other))
        until(gateway.downstream.spans)
        [rest] = gateway.downstream.of(Signal.TRACES)
        assert sorted(span.SerializeToString() for span in spans_in([rest])) == sorted(
            span.SerializeToString() for span in spans_in([plain.body, other.body])
        )
        assert gateway.counts("held_spans") == 2
        until(lambda: len(gateway.downstream.spans()) == 5)
        [root, tool] = sorted(spans_in([wanted.body]), key=lambda span: span.name, reverse=True)
        assert scores(gateway.downstream) == {tool.span_id.hex(): 1.0} or scores(gateway.downstream) == {
            root.span_id.hex(): 1.0
        }
        assert list(scores(gateway.downstream, TURN_SCORE).values()) == [1.0]
        held = gateway.downstream.of(Signal.TRACES)[1:]
        for raw in [span for group in split_request(wanted.body) or [] for span in group.spans]:
            assert any(raw in body for body in held), "the exact bytes of a span stay, its attributes come behind"


def test_spans_of_a_session_that_is_not_known_yet_wait_for_it() -> None:
    """OpenTelemetry's tool spans carry no session: their root does, and it ends last."""
    document = turn_request("wanted", ("get_weather", {"city": "Paris"}))
    [root, tool] = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
    parts = []
    for span in (tool, root):
        part = turn_request("wanted", ("get_weather", {"city": "Paris"}))
        part["resourceSpans"][0]["scopeSpans"][0]["spans"] = [span]
        parts.append(traces(part))
    with Gateway(goldens("wanted")) as gateway:
        gateway.send(parts[0])
        time.sleep(0.5)
        assert gateway.downstream.spans() == []
        gateway.send(parts[1])
        until(lambda: len(scores(gateway.downstream)) == 1)


def test_nothing_waits_where_there_are_no_goldens() -> None:
    document = turn_request(None, ("get_weather", {"city": "Paris"}))
    with Gateway(goldens(), engine=EngineSettings(settle=60.0)) as gateway:
        gateway.send(traces(document))
        until(lambda: len(gateway.downstream.spans()) == 2)
        assert gateway.counts("read_spans_total") == 0


def test_a_span_that_waited_too_long_leaves_and_its_result_comes_as_an_event() -> None:
    document = turn_request("wanted", ("get_weather", {"city": "Lyon"}))
    [root, tool] = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
    document["resourceSpans"][0]["scopeSpans"][0]["spans"] = [tool]
    late = turn_request("wanted", ("get_weather", {"city": "Lyon"}))
    late["resourceSpans"][0]["scopeSpans"][0]["spans"] = [root]
    engine = EngineSettings(settle=0.1, hold_timeout=0.3, run_idle=0.3)
    with Gateway(goldens("wanted"), engine=engine) as gateway:
        gateway.send(traces(document))
        until(lambda: len(gateway.downstream.spans()) == 1)
        assert gateway.counts("released_early_spans_total") == 1
        assert scores(gateway.downstream) == {}
        gateway.send(traces(late))
        until(lambda: any(event.get("gen_ai.evaluation.score.value") == 0.0 for event in gateway.downstream.events()))


def test_a_span_that_waited_too_long_leaves_while_a_large_session_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    judging, go_on = threading.Event(), threading.Event()
    score = SessionScorer.score

    def slow(scorer: SessionScorer, state: Any, *args: Any, **options: Any) -> None:
        if state.id == "large":
            judging.set()
            go_on.wait(30.0)
        score(scorer, state, *args, **options)

    monkeypatch.setattr(SessionScorer, "score", slow)
    engine = EngineSettings(settle=0.4, hold_timeout=0.8, run_idle=60.0)
    with Gateway(goldens("wanted", "large"), engine=engine) as gateway:
        gateway.send(turn("large"))
        time.sleep(0.2)
        gateway.send(turn("wanted", 1))
        assert judging.wait(10.0)
        until(lambda: len(gateway.downstream.spans()) == 4)
        assert gateway.counts("released_early_spans_total") == 4
        go_on.set()
        until(lambda: len(gateway.downstream.said()) == 4)
    assert not any(scores(gateway.downstream))


@pytest.mark.parametrize("journal", [False, True])
def test_other_sessions_are_judged_while_a_large_one_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, journal: bool
) -> None:
    judging, go_on = threading.Event(), threading.Event()
    score = SessionScorer.score

    def slow(scorer: SessionScorer, state: Any, *args: Any, **options: Any) -> None:
        if state.id == "large":
            judging.set()
            go_on.wait(30.0)
        score(scorer, state, *args, **options)

    monkeypatch.setattr(SessionScorer, "score", slow)
    monkeypatch.setattr(daemon_threads, "LARGE", 5)
    engine = EngineSettings(settle=0.1, hold_timeout=60.0, run_idle=0.5)
    folder = tmp_path if journal else None
    with Gateway(goldens("wanted", "large"), engine=engine, journal=folder) as gateway:
        gateway.send(traces(turn_request("large", *[("get_weather", {"city": "Paris"})] * 6)))
        assert judging.wait(10.0)
        gateway.send(turn("wanted"), turn("wanted", 1), turn("nobody"))
        until(lambda: len(gateway.downstream.spans()) == 6)
        assert set(scores(gateway.downstream).values()) == {1.0}
        gateway.send(traces(turn_request("large", ("get_weather", {"city": "Rome"}), turn=1)))
        until(lambda: gateway.counts("backlog_bytes") == 0)
        gateway.pipeline.reload_goldens(goldens("wanted", "large"))
        go_on.set()
        until(lambda: len(gateway.downstream.spans()) == 15)
        assert len(scores(gateway.downstream)) == 4
        with Gateway(goldens("wanted", "large"), engine=engine) as at_once:
            at_once.send(turn("wanted"), turn("wanted", 1))
            at_once.send(traces(turn_request("large", *[("get_weather", {"city": "Paris"})] * 6)))
            at_once.send(traces(turn_request("large", ("get_weather", {"city": "Rome"}), turn=1)))
        until(lambda: gateway.downstream.said() == at_once.downstream.said())


def test_requests_have_half_of_the_time_while_sessions_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each was followed by a portion of judging, however long that takes."""
    score = SessionScorer.score

    def slow(*args: Any, **options: Any) -> None:
        time.sleep(0.01)
        score(*args, **options)

    names = [f"s-{number}" for number in range(300)]
    with Gateway(goldens(*names), engine=EngineSettings(settle=0.1, hold_timeout=60.0, run_idle=60.0)) as gateway:
        monkeypatch.setattr(SessionScorer, "score", slow)
        gateway.send(*(turn(name, number) for number, name in enumerate(names)))
        time.sleep(0.5)
        gateway.send(*(turn("nobody", number) for number in range(50)))
        until(lambda: gateway.counts("backlog_bytes") == 0)
        assert gateway.counts("held_spans") > 300, "most were judged before the last request was received"
        monkeypatch.undo()


def test_what_is_held_is_bounded_in_bytes() -> None:
    with Gateway(goldens("wanted"), engine=EngineSettings(settle=60.0), max_held_bytes=2000) as gateway:
        for number in range(6):
            gateway.send(turn("wanted", number))
        until(lambda: len(gateway.downstream.spans()) >= 8)
        assert gateway.counts("held_bytes") <= 2000
        until(lambda: gateway.counts("released_early_spans_total") == len(gateway.downstream.spans()))


def test_a_session_without_golden_is_counted_and_never_delayed() -> None:
    with Gateway(goldens("wanted"), engine=EngineSettings(settle=60.0)) as gateway:
        gateway.send(turn("nobody"), turn("nobody", 1), turn("somebody"))
        until(lambda: len(gateway.downstream.spans()) == 6, 10.0)
        until(lambda: gateway.counts("sessions_without_golden_total") == 2)
        assert gateway.counts("read_spans_total") == 0


def test_tenants_never_mix() -> None:
    """Two tenants use one session id; each has its own run, and its own results with its own headers."""
    one, two = (("x-tenant", "one"),), (("x-tenant", "two"),)
    downstream = run([turn("wanted", 0, "Paris", one), turn("wanted", 0, "Lyon", two)], goldens("wanted"))
    for headers, score in ((one, 1.0), (two, 0.0)):
        assert len(downstream.spans(headers)) == 2
        calls = [
            event
            for event in downstream.events(headers)
            if event["tool_parameter_match.level"] == "call" and event.get("tool_parameter_match.turn_index") == 0
        ]
        assert [event["gen_ai.evaluation.score.value"] for event in calls] == [score]
        assert downstream.points(headers)["tool_parameter_match.score"] > 0
    assert not downstream.spans(())
    assert {request.headers for request in downstream.requests} == {one, two}


def test_tenants_are_bounded_and_the_quietest_is_judged_and_dropped() -> None:
    with Gateway(goldens("wanted"), max_tenants=2, engine=EngineSettings(settle=60.0)) as gateway:
        for name in ("a", "b", "c"):
            gateway.send(turn("wanted", headers=(("x-tenant", name),)))
        until(lambda: gateway.downstream.events((("x-tenant", "a"),)))
        assert gateway.counts("tenants") == 2
        assert gateway.counts("evicted_tenants_total") == 1
        assert not gateway.downstream.events((("x-tenant", "b"),))


class Away:
    """An answer that says no for as long as it is told to."""

    def __init__(self, outcome: DeliveryResult) -> None:
        self.outcome = outcome
        self.away = True
        self.attempts = 0

    def __call__(self, request: ExportRequest) -> DeliveryResult:
        self.attempts += 1
        return self.outcome if self.away else Delivered()


def test_a_receiver_that_is_away_gets_everything_when_it_comes_back() -> None:
    answer = Away(Retry(None, "away"))
    with Gateway(goldens("wanted"), Downstream(answer)) as gateway:
        gateway.send(*(turn("wanted", number) for number in range(3)), traces(plain_request()))
        until(lambda: answer.attempts > 10)
        answer.away = False
        until(lambda: len(gateway.downstream.spans()) == 7)
        until(lambda: len(scores(gateway.downstream)) == 3)
        assert gateway.counts("delivery_retries_total") > 5


def test_a_receiver_is_left_alone_for_as_long_as_it_asks() -> None:
    answer = Away(Retry(0.6, "busy"))
    with Gateway(goldens(), Downstream(answer), deliveries=1) as gateway:
        gateway.send(traces(plain_request("a")), traces(plain_request("b")))
        time.sleep(0.4)
        assert answer.attempts == 1
        answer.away = False
        until(lambda: len(gateway.downstream.spans()) == 2)
        assert answer.attempts == 3


def test_one_tenants_receiver_that_is_away_does_not_stop_the_others() -> None:
    def answer(request: ExportRequest) -> DeliveryResult:
        return Retry(None, "away") if request.headers else Delivered()

    with Gateway(goldens(), Downstream(answer), deliveries=1) as gateway:
        for number in range(5):
            gateway.send(ExportRequest(Signal.TRACES, turn("x", number).body, (("x-tenant", "a"),)), turn("y", number))
        until(lambda: len(gateway.downstream.spans()) == 10, 5.0)


@pytest.mark.parametrize(
    ("outcome", "counter"),
    [(Refused("not ours"), "refused_requests_total"), (Delivered(3, "too old"), "rejected_items_total")],
)
def test_what_is_refused_for_good_is_counted_and_kept_and_not_sent_again(
    outcome: DeliveryResult, counter: str, tmp_path: Path
) -> None:
    answer = Away(outcome)
    request = ExportRequest(Signal.TRACES, traces(plain_request()).body, (("authorization", "secret"),))
    letters, journal = tmp_path / "letters", tmp_path / "journal"
    with Gateway(goldens(), Downstream(answer), dead_letters=letters, journal=journal) as gateway:
        gateway.send(request)
        until(lambda: gateway.counts(counter) == (3 if isinstance(outcome, Delivered) else 1))
        until(lambda: gateway.counts("open_bodies") == 0)
        time.sleep(0.1)
        assert answer.attempts == 1
    [body] = letters.glob("*.pb")
    assert body.read_bytes() == request.body
    [why] = letters.glob("*.json")
    assert ("not ours" in why.read_text()) or ("too old" in why.read_text())
    assert "secret" not in why.read_text()


def test_dead_letters_are_bounded(tmp_path: Path) -> None:
    with Gateway(
        goldens(), Downstream(Away(Refused("no"))), dead_letters=tmp_path, dead_letter_files=3, deliveries=1
    ) as gateway:
        gateway.send(*(traces(plain_request(str(number))) for number in range(8)))
        until(lambda: gateway.counts("dead_letters_dropped_total") == 5)
        assert len(list(tmp_path.glob("*.pb"))) == len(list(tmp_path.glob("*.json"))) == 3


@pytest.mark.parametrize("journal", [False, True])
def test_beyond_the_limit_clients_are_asked_to_wait(journal: bool, tmp_path: Path) -> None:
    answer = Away(Retry(None, "away"))
    settings = {"journal": tmp_path / "j", "journal_max_bytes": 300_000} if journal else {"max_memory": 20_000}
    with Gateway(goldens(), Downstream(answer), **settings) as gateway:
        sent = 0
        while isinstance(receipt := gateway.pipeline.accept(turn("x", sent)), Accepted):
            sent += 1
            time.sleep(0.005)
            assert sent < 1000
        assert isinstance(receipt, Busy)
        assert receipt.retry_after_seconds > 0
        assert gateway.counts("not_accepted_requests_total") == 1
        answer.away = False
        until(lambda: len(gateway.downstream.spans()) == 2 * sent)
        until(lambda: isinstance(gateway.pipeline.accept(turn("x", sent)), Accepted))


def test_bodies_beyond_the_memory_are_read_back_from_disk(tmp_path: Path) -> None:
    answer = Away(Retry(None, "away"))
    with Gateway(goldens("wanted"), Downstream(answer), journal=tmp_path, max_memory=3000) as gateway:
        gateway.send(*(turn("x", number) for number in range(30)), *(turn("wanted", number) for number in range(3)))
        until(lambda: answer.attempts > 3)
        until(lambda: gateway.counts("held_spans") == 0)
        assert gateway.pipeline.dispatcher._in_memory <= 3000
        answer.away = False
        until(lambda: len(gateway.downstream.spans()) == 66)
        until(lambda: len(scores(gateway.downstream)) == 3)
        until(lambda: gateway.counts("open_bodies") == 0)


def test_a_broken_request_is_rejected() -> None:
    with Gateway(goldens()) as gateway:
        assert isinstance(gateway.pipeline.accept(ExportRequest(Signal.TRACES, b"\x0a\xff")), Rejected)
        assert gateway.counts("not_accepted_requests_total") == 1


def test_a_request_is_not_acknowledged_when_it_could_not_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Gateway(goldens("wanted"), journal=tmp_path) as gateway:
        gateway.send(turn("wanted"))

        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, "no space left on device")

        monkeypatch.setattr(BodyLog, "_write", full)
        receipt = gateway.pipeline.accept(turn("wanted", 1))
        assert isinstance(receipt, Busy)
        assert "no space left" in receipt.reason
        assert "no space left" in str(gateway.pipeline.not_ready_reason())
        monkeypatch.undo()
        until(lambda: gateway.pipeline.not_ready_reason() is None)
        gateway.send(turn("wanted", 1))
        until(lambda: len(scores(gateway.downstream)) == 2)


def test_a_database_without_room_delays_no_result_and_is_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Gateway(goldens("wanted"), journal=tmp_path) as gateway:
        failing = threading.Event()
        real = Database._transaction

        def transaction(self: Database, statements: Any) -> None:
            if not failing.is_set():
                raise sqlite3.OperationalError("database or disk is full")
            real(self, statements)

        monkeypatch.setattr(Database, "_transaction", transaction)
        gateway.send(turn("wanted"))
        until(lambda: len(scores(gateway.downstream)) == 1 and gateway.downstream.events())
        assert "full" in str(gateway.pipeline.not_ready_reason())
        until(lambda: gateway.counts("problems_total") > 2)
        failing.set()
        until(lambda: gateway.pipeline.not_ready_reason() is None)
        until(lambda: gateway.counts("open_bodies") == 0)
    with Gateway(goldens("wanted"), journal=tmp_path) as gateway:
        gateway.send(turn("nobody"))
        until(lambda: len(gateway.downstream.spans()) == 2)
        assert not gateway.downstream.events()


def test_an_engine_that_fails_lets_go_of_its_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    with Gateway(goldens("wanted")) as gateway:
        gateway.send(turn("wanted"))
        until(lambda: len(scores(gateway.downstream)) == 1)

        def broken(*_: object, **__: object) -> None:
            raise RuntimeError("a mistake of ours")

        monkeypatch.setattr(SessionScorer, "score", broken)
        gateway.send(turn("wanted", 1), turn("nobody"))
        until(lambda: len(gateway.downstream.spans()) == 6)
        assert gateway.counts("failures_total") >= 1
        monkeypatch.undo()
        gateway.send(turn("wanted", 2))
        until(lambda: len(scores(gateway.downstream)) == 2)


def test_goldens_are_replaced_while_traffic_flows() -> None:
    with Gateway(goldens("nobody")) as gateway:
        gateway.send(turn("wanted"))
        until(lambda: len(gateway.downstream.spans()) == 2)
        gateway.pipeline.reload_goldens(goldens("wanted"))
        gateway.send(turn("wanted", 1))
        until(lambda: len(scores(gateway.downstream)) == 1)
        document = gateway.pipeline.coverage()
        assert document["seen"][0]["golden"] == "wanted"


def test_coverage_names_goldens_seen_and_never_seen() -> None:
    with Gateway(goldens("wanted", "never")) as gateway:
        gateway.send(turn("wanted"), turn("nobody"))
        # The two sessions are of two traces, and counted one after the other.
        until(lambda: gateway.counts("sessions_without_golden_total") == 1)
        until(lambda: gateway.pipeline.coverage()["goldens"] == {"total": 2, "seen": 1, "never_seen": 1})
        document = gateway.pipeline.coverage()
        assert [one["golden"] for one in document["never_seen"]] == ["never"]
        assert document["sessions_without_golden"] == 1


def test_coverage_lists_the_last_sessions_without_golden_and_where_their_ids_come_from() -> None:
    with Gateway(goldens("wanted")) as gateway:
        gateway.send(*(turn(f"nobody-{number}") for number in range(25)))
        until(lambda: gateway.counts("sessions_without_golden_total") == 25)
        listed = gateway.pipeline.coverage()["newest_sessions_without_golden"]
        assert gateway.counts("read_spans_total") == 0
    assert listed == [{"session": f"nobody-{number}", "source": "gen_ai.conversation.id"} for number in range(5, 25)]


def test_the_log_says_which_sessions_came_when_no_golden_was_seen(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "goldspan.gateway")
    with Gateway(goldens("wanted", "never")) as gateway:
        gateway.send(turn("trip-2"), turn("trip-2", 1))
        until(lambda: gateway.counts("sessions_without_golden_total") == 1)
    [said] = [one for one in caplog.records if "goldens seen" in one.getMessage()]
    assert said.levelname == "WARNING"
    expected = "0 of 2 goldens seen; sessions seen: trip-2 (from gen_ai.conversation.id)."
    assert said.getMessage().startswith(expected)


def test_beside_sessions_with_a_golden_it_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "goldspan.gateway")
    with Gateway(goldens("wanted")) as gateway:
        gateway.send(turn("wanted"), turn("nobody"))
        until(lambda: gateway.pipeline.coverage()["goldens"]["seen"] == 1)
    [said] = [one for one in caplog.records if "goldens seen" in one.getMessage()]
    assert (said.levelname, said.getMessage()[:34]) == ("INFO", "1 of 1 goldens seen; sessions seen")


def test_sessions_that_are_told_are_not_told_again(caplog: pytest.LogCaptureFixture) -> None:
    clock = [1000.0]
    pipeline = GatewayPipeline(goldens("wanted"), Downstream(), PipelineSettings(), now=lambda: clock[0])

    def said() -> int:
        return sum("goldens seen" in one.getMessage() for one in caplog.records)

    for session, lines in (("a", 1), ("a", 1), ("b", 2)):
        assert pipeline.accept(turn(session)) == Accepted()
        until(lambda: any(one["session"] == session for one in newest(pipeline)))  # noqa: B023 - called at once
        for _ in range(3):
            clock[0] += 11.0
            time.sleep(0.6)  # two ticks
        assert said() == lines
    assert pipeline.drain(10.0)
    assert said() == 2


def newest(pipeline: GatewayPipeline) -> list[dict[str, str]]:
    found: list[dict[str, str]] = pipeline.coverage()["newest_sessions_without_golden"]
    return found


def test_nothing_is_taken_in_after_a_drain() -> None:
    gateway = Gateway(goldens("wanted"), engine=EngineSettings(settle=60.0))
    gateway.send(turn("wanted"))
    assert gateway.pipeline.drain(10.0)
    assert len(scores(gateway.downstream)) == 1
    assert isinstance(gateway.pipeline.accept(turn("wanted", 1)), Busy)


def test_a_drain_that_cannot_deliver_says_so(tmp_path: Path) -> None:
    gateway = Gateway(goldens("wanted"), Downstream(Away(Retry(None, "away"))), journal=tmp_path)
    gateway.send(turn("wanted"))
    assert not gateway.pipeline.drain(1.0)
    with Gateway(goldens("wanted"), journal=tmp_path) as after:
        until(lambda: len(scores(after.downstream)) == 1)
        assert len(after.downstream.spans()) == 2
