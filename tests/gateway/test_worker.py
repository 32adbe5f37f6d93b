"""The gateway without its threads: time, crashes and forgetting between any two requests change no final result."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from goldspan.collector_processor.emit.evaluation import Events
from goldspan.collector_processor.encoded_spans.span_groups import join_request, split_request
from goldspan.collector_processor.engine.trace_machine import EngineSettings
from goldspan.collector_processor.gateway import compressed_store
from goldspan.collector_processor.gateway.deliver.dispatcher import PendingRequest
from goldspan.collector_processor.gateway.interfaces import Delivered, ExportRequest
from goldspan.collector_processor.gateway.journal.journal import Journal
from goldspan.collector_processor.gateway.recovery import Recovery
from goldspan.collector_processor.gateway.settings.sections import PipelineSettings
from goldspan.collector_processor.gateway.tenant import Tenant
from goldspan.collector_processor.gateway.worker import ReceivedBody, Worker
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.scoring.goldens import GoldenIndex, load_goldens
from goldspan.scoring.metrics.session_metrics import WITHOUT_GOLDEN
from goldspan.scoring.run import Scorer, scorer_of
from rigs.otlp_containers import as_message
from rigs.pipeline_rig import (
    Said,
    bodies_of,
    counted_in,
    cut_up,
    events_in,
    everything,
    files_of,
    newest,
    said_by_replay,
    spans_in,
)
from rigs.repository import RECORDING_NAMES
from rigs.trace_requests import plain_request, turn_request

SETTINGS = PipelineSettings(
    engine=EngineSettings(run_idle=10_000.0, retention=20_000.0, caller_timeout=5_000.0, events=Events.ALL)
)


class Queue:
    """Delivers a request when it is told to."""

    is_slow = False

    def __init__(self) -> None:
        self.waiting: list[PendingRequest] = []

    def put(self, *requests: PendingRequest) -> None:
        self.waiting += requests

    def withdraw(self, pending: PendingRequest) -> bool:
        if pending in self.waiting:
            self.waiting.remove(pending)
            return True
        return False


class Driver:
    """One gateway after another on the same folder, and all that they delivered."""

    restored_at_once = 1000
    """Sessions and traces that are restored between two ticks."""

    def __init__(self, goldens: GoldenIndex, folder: Path | None, settings: PipelineSettings = SETTINGS) -> None:
        self.goldens = goldens
        self._folder = folder
        self._settings = settings
        self.now = 1_000.0
        self.delivered: list[ExportRequest] = []
        self._numbers = 0
        self.start()

    def start(self) -> None:
        self.queue = Queue()
        self.journal = None if self._folder is None else Journal(self._folder, max_bytes=1 << 26)
        self.worker = Worker(
            self.goldens,
            self._settings,
            journal=self.journal,
            queue=self.queue,
            instance="test",
            on_failure=self._fail,
        )
        if self.journal is not None:
            found = self.journal.recover(self.now - self._settings.engine.trace_retention)
            assert found.problems == []
            self.noted = 0

            def note() -> None:
                self.noted += 1

            recovery = Recovery(self.worker, self.journal, found, on_failure=self._fail, after_each=note)
            for count, _ in enumerate(recovery.restore_state(self.now), 1):
                if count % self.restored_at_once == 0:
                    self.now += 2.0
                    self.worker.tick(self.now)
            assert recovery.receive_bodies(self.now)

    def crash(self) -> None:
        assert self.worker.problems["unreadable_record"] == 0
        if self.journal is not None:
            self.journal.close()
        self.start()

    def send(self, request: ExportRequest) -> None:
        self._numbers += 1
        entry = None if self.journal is None else self.journal.append(request, self.now)
        number = self._numbers if entry is None else entry.number
        self.worker.receive(ReceivedBody(number, request, split_request(request.body) or [], entry), self.now)

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.worker.tick(self.now)

    def deliver(self, many: int | None = None) -> None:
        for pending in self.queue.waiting[:many]:
            self.queue.waiting.remove(pending)
            body = pending.read_body()
            self.delivered.append(ExportRequest(pending.signal, body, pending.headers))
            self.worker.outbox.note_delivery([pending], Delivered(), self.now)

    def end(self) -> None:
        assert self.worker.problems["unreadable_record"] == 0
        self.wait(2.0)
        self.worker.flush(self.now, end_of_input=True)
        self.deliver()
        self.worker.commit(self.now)
        assert self.worker.outbox.open_bodies == 0

    def said(self) -> Said:
        return newest(events_in(one.body for one in self.delivered if one.signal is Signal.LOGS))

    def span_ids(self) -> list[bytes]:
        return [span.span_id for span in spans_in(one.body for one in self.delivered if one.signal is Signal.TRACES)]

    @staticmethod
    def _fail(where: str, error: Exception) -> None:
        raise error


def tenant_of(driver: Driver) -> Tenant:
    [state] = driver.worker.tenants
    return state


def sent_ids(requests: list[ExportRequest]) -> set[bytes]:
    return {span.span_id for span in spans_in(one.body for one in requests if one.signal is Signal.TRACES)}


@contextmanager
def compressing_at_once() -> Generator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compressed_store, "_QUIET", 0.0)
        yield


WITHOUT_GOLDENS = (GoldenIndex(sample=1.0), scorer_of(metrics=WITHOUT_GOLDEN))
JUDGED = {"by goldens": (everything(), SETTINGS.engine.scorer), "without goldens": WITHOUT_GOLDENS}
"""Goldens and scorers."""


def judging_by(scorer: Scorer) -> PipelineSettings:
    return replace(SETTINGS, engine=replace(SETTINGS.engine, scorer=scorer))


@pytest.mark.parametrize("judged", JUDGED)
@pytest.mark.every_recording
@pytest.mark.parametrize("recording", RECORDING_NAMES[::6])
def test_what_is_compressed_comes_back_as_it_was(recording: str, judged: str) -> None:
    goldens, scorer = JUDGED[judged]
    requests = cut_up(bodies_of(recording), 3)
    with compressing_at_once():
        driver = Driver(goldens, None, judging_by(scorer))
        for request in requests:
            driver.send(request)
            driver.wait(1.5)
            driver.deliver()
        driver.end()
    assert driver.said() == said_by_replay(files_of(recording), goldens, scorer)
    assert set(driver.span_ids()) == sent_ids(requests)


@pytest.mark.parametrize("judged", JUDGED)
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.every_recording
@pytest.mark.parametrize("recording", RECORDING_NAMES[1::9])
def test_a_crash_between_any_two_steps_loses_nothing(recording: str, seed: int, judged: str, tmp_path: Path) -> None:
    goldens, scorer = JUDGED[judged]
    rng = random.Random(f"{recording}/{seed}")
    requests = cut_up(bodies_of(recording), seed)
    with compressing_at_once():
        driver = Driver(goldens, tmp_path, judging_by(scorer))
        crashes = sorted(rng.sample(range(4 * len(requests)), min(4, len(requests))))
        steps = 0
        for request in requests:
            wait = rng.choice([0.1, 0.5, 1.5])
            some = rng.choice([None, 1, 0])
            for step in (
                lambda: driver.send(request),  # noqa: B023 - called before the next turn of the loop
                lambda: driver.wait(wait),  # noqa: B023
                lambda: driver.deliver(some),  # noqa: B023
                lambda: driver.worker.commit(driver.now),
            ):
                step()
                if steps in crashes:
                    driver.crash()
                steps += 1
        driver.end()
    assert sent_ids(requests) <= set(driver.span_ids())
    assert driver.said() == said_by_replay(files_of(recording), goldens, scorer)


def test_after_a_crash_only_what_was_not_delivered_leaves_again(tmp_path: Path) -> None:
    """What was not held left; what was held waits on, and carries its score after the crash."""
    index = load_goldens({"format": 1, "golden_set": "g", "goldens": [{"session": "s", "turns": [{"calls": []}]}]})
    wanted = as_message(turn_request("s", ("f", {"x": 1}))).SerializeToString()
    other = as_message(turn_request("other", ("f", {"x": 1}))).SerializeToString()
    groups = [group for body in (wanted, other) for group in split_request(body) or []]
    driver = Driver(index, tmp_path)
    driver.send(ExportRequest(Signal.TRACES, join_request(groups)))
    driver.deliver()
    driver.worker.commit(driver.now)
    assert set(driver.span_ids()) == {span.span_id for span in spans_in([other])}
    driver.crash()
    driver.end()
    assert sorted(driver.span_ids()) == sorted(span.span_id for span in spans_in([wanted, other]))
    keys = {
        pair.key
        for body in driver.delivered
        for span in spans_in([body.body] if body.signal is Signal.TRACES else [])
        for pair in span.attributes
    }
    assert "tool_parameter_match.turn.label" in keys


def test_a_result_is_not_given_again_after_a_restart(tmp_path: Path) -> None:
    driver = Driver(everything(), tmp_path)
    for request in bodies_of("strands-default"):
        driver.send(request)
    driver.wait(2.0)
    driver.deliver()
    driver.worker.commit(driver.now)
    before = len(driver.said())
    assert before
    driver.crash()
    driver.wait(2.0)
    driver.deliver()
    assert [one for one in driver.delivered if one.signal is Signal.LOGS][1:] == []
    driver.end()
    assert driver.said() == said_by_replay(files_of("strands-default"), everything())


def city_goldens(*cities: str) -> GoldenIndex:
    turns = [{"calls": [{"name": "get_weather", "args": {"city": city}}]} for city in cities]
    return load_goldens({"golden_set": "weather", "goldens": [{"session": "trip", "turns": turns}]})


def counts(driver: Driver) -> Counter[tuple[str, ...]]:
    """What each metric of this process has counted, less what was superseded."""
    return counted_in([one.body for one in driver.delivered if one.signal is Signal.METRICS])


def test_counts_are_those_of_a_replay_after_a_restart_with_other_goldens(tmp_path: Path) -> None:
    settings = PipelineSettings(engine=EngineSettings(run_idle=1.0, retention=10_000.0))
    turns = [turn_request("trip", ("get_weather", {"city": city}), turn=n) for n, city in enumerate(("Paris", "Rome"))]
    requests = [ExportRequest(Signal.TRACES, as_message(one).SerializeToString()) for one in turns]

    def run(driver: Driver, *some: ExportRequest) -> Driver:
        for request in some:
            driver.send(request)
        for _ in range(4):
            driver.wait(5.0)
            driver.deliver()
        driver.worker.commit(driver.now)
        return driver

    new = city_goldens("Oslo", "Rome", "Lima")
    driver = run(Driver(city_goldens("Paris", "Oslo"), tmp_path, settings), *requests)
    counted = counts(driver)
    driver.goldens = new
    driver.crash()
    driver.delivered.clear()
    late = turn_request("trip", ("get_weather", {"city": "Lima"}), turn=2)
    more = ExportRequest(Signal.TRACES, as_message(late).SerializeToString())
    counted.update(counts(run(driver, more)))
    replayed = counts(run(Driver(new, None, settings), *requests, more))
    assert any("gen_ai.tool.name=get_weather" in key for key in counted)
    assert {key: count for key, count in counted.items() if count} == replayed


def test_a_repeat_of_a_dropped_run_is_told_as_such_after_a_restart(tmp_path: Path) -> None:
    settings = PipelineSettings(engine=EngineSettings(run_idle=1.0, retention=10.0))
    driver = Driver(everything(), tmp_path, settings)
    requests = bodies_of("strands-default")
    for request in requests:
        driver.send(request)
    for _ in range(8):
        driver.wait(5.0)
        driver.deliver()
    said = driver.said()
    driver.crash()
    assert driver.journal is not None
    for request in requests:
        driver.send(request)
    for _ in range(8):
        driver.wait(5.0)
        driver.deliver()
    assert driver.said() == said
    assert tenant_of(driver).engine.stats.repeated > 0


def test_more_sessions_than_may_be_kept_are_judged_and_dropped_the_quietest_first() -> None:
    settings = PipelineSettings(engine=EngineSettings(run_idle=10_000.0, max_spans=90))
    driver = Driver(everything(), None, settings)
    for number in range(100):
        body = as_message(turn_request(f"s-{number}", ("f", {"x": number}), ("g", {}))).SerializeToString()
        driver.send(ExportRequest(Signal.TRACES, body))
        driver.wait(3.0)
        driver.deliver()
    tenant = tenant_of(driver)
    assert tenant.engine.stats.evicted_sessions == 70
    assert len(list(tenant.store.traces())) == 30
    incomplete = {
        event["gen_ai.conversation.id"]
        for event in driver.said().values()
        if event.get("tool_parameter_match.incomplete")
    }
    assert incomplete == {f"s-{number}" for number in range(70)}
    assert len(driver.span_ids()) == 300


def test_tenants_share_what_may_be_kept() -> None:
    settings = PipelineSettings(engine=EngineSettings(run_idle=10_000.0, max_spans=90))
    driver = Driver(everything(), None, settings)
    for number in range(40):
        for tenant in ("a", "b", "c"):
            body = as_message(turn_request(f"s-{number}", ("f", {"x": number}), ("g", {}))).SerializeToString()
            driver.send(ExportRequest(Signal.TRACES, body, (("x-tenant", tenant),)))
        driver.wait(3.0)
        driver.deliver()
    kept = [len(list(state.store.traces())) for state in driver.worker.tenants]
    assert kept == [10, 10, 10]
    assert len(driver.span_ids()) == 360


def test_deliveries_can_be_noted_after_each_body_of_an_earlier_process(tmp_path: Path) -> None:
    driver = Driver(everything(), tmp_path)
    for number in range(5):
        driver.send(ExportRequest(Signal.TRACES, as_message(plain_request(f"p-{number}")).SerializeToString()))
        if number == 2:
            driver.deliver()
            driver.worker.commit(driver.now)
    driver.crash()
    assert driver.noted == 5


def test_many_sessions_come_back_in_parts_and_go_on(tmp_path: Path) -> None:
    with compressing_at_once():
        driver = Driver(everything(), tmp_path)
        driver.restored_at_once = 10
        turns = [
            [as_message(turn_request(f"s-{number}", ("f", {"x": 1}), turn=turn)) for number in range(45)]
            for turn in range(2)
        ]
        for message in turns[0]:
            driver.send(ExportRequest(Signal.TRACES, message.SerializeToString()))
        driver.wait(2.0)
        driver.deliver()
        driver.worker.commit(driver.now)
        driver.wait(100.0)  # bodies are no longer kept
        events = len(driver.said())
        driver.crash()
        assert len(tenant_of(driver).store.compressed) >= 30
        driver.wait(2.0)
        driver.deliver()
        assert len(driver.said()) == events
        assert all(event["tool_parameter_match.level"] != "session" for event in driver.said().values())
        for message in turns[1]:
            driver.send(ExportRequest(Signal.TRACES, message.SerializeToString()))
        driver.end()
    archive = tmp_path / "all.pb"
    archive.write_bytes(b"".join(message.SerializeToString() for some in turns for message in some))
    assert driver.said() == said_by_replay([archive], everything())
    revisions = [
        event["tool_parameter_match.revision"]
        for event in events_in(one.body for one in driver.delivered if one.signal is Signal.LOGS)
    ]
    assert set(revisions) == {1}


def test_what_was_forgotten_is_gone_from_disk(tmp_path: Path) -> None:
    settings = PipelineSettings(engine=EngineSettings(run_idle=1.0, retention=10.0, tombstone_ttl=50.0))
    driver = Driver(everything(), tmp_path, settings)
    for request in bodies_of("strands-default"):
        driver.send(request)
    for _ in range(30):
        driver.wait(10.0)
        driver.deliver()
    driver.crash()
    assert driver.journal is not None
    driver.journal.close()
    found = Journal(tmp_path, max_bytes=1 << 26).recover(driver.now)
    assert not any((found.bodies, found.outgoing, found.records, found.parts))
    assert not any((found.sessions, found.tombstones))


def test_an_engine_that_failed_leaves_nothing_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(everything(), tmp_path)
    failures: list[str] = []
    monkeypatch.setattr(driver.worker, "_on_failure", lambda where, _: failures.append(where))
    for request in bodies_of("strands-default"):
        driver.send(request)
    driver.wait(2.0)
    driver.deliver()
    driver.worker.commit(driver.now)
    [tenant] = driver.worker.tenants
    monkeypatch.setattr(tenant.engine, "poll", lambda _: 1 / 0)
    monkeypatch.setattr(tenant.engine, "deadline", lambda: 0.0)
    driver.wait(2.0)
    driver.deliver()
    driver.worker.commit(driver.now)
    assert failures[0] == "engine"
    assert driver.journal is not None
    driver.journal.close()
    found = Journal(tmp_path, max_bytes=1 << 26).recover(driver.now)
    assert not any((found.records, found.sessions, found.tombstones))


@pytest.mark.parametrize("had_goldens", [True, False])
def test_what_no_golden_could_want_is_not_kept_and_said_to_be_missing_once_one_does(had_goldens: bool) -> None:
    others = load_goldens({"format": 1, "golden_set": "others", "goldens": [{"session": "other", "calls": []}]})
    driver = Driver(others if had_goldens else load_goldens({"format": 1, "golden_set": "none", "goldens": []}), None)
    first, second = (as_message(turn_request("s-1", ("f", {"x": 1}), ("g", {"x": 2}))) for _ in range(2))
    del first.resource_spans[0].scope_spans[0].spans[2:]
    del second.resource_spans[0].scope_spans[0].spans[:2]
    driver.send(ExportRequest(Signal.TRACES, first.SerializeToString()))
    driver.wait(0.1)
    assert bool(driver.worker.unread_span_bytes) is had_goldens
    driver.worker.use_goldens(everything())
    driver.send(ExportRequest(Signal.TRACES, second.SerializeToString()))
    driver.end()
    said = driver.said().values()
    assert said
    assert any(one.get("tool_parameter_match.incomplete") for one in said) is not had_goldens


@pytest.mark.parametrize("quiet", [False, True])
def test_what_a_call_returned_is_read_where_a_golden_expects_it(quiet: bool, tmp_path: Path) -> None:
    order = {"$from_result": {"call": "create_order", "path": "/id"}}
    calls = [{"name": "create_order", "args": {"item": "tea"}}, {"name": "ship", "args": {"order": order}}]
    document = {"format": 1, "golden_set": "orders", "goldens": [{"session": "s-1", "turns": [{"calls": calls}]}]}
    goldens = load_goldens(document)
    message = as_message(turn_request("s-1", ("create_order", {"item": "tea"}), ("ship", {"order": "o-7"})))
    [root, create, ship] = message.resource_spans[0].scope_spans[0].spans
    create.attributes.add(key="gen_ai.tool.call.result").value.string_value = '{"id": "o-7"}'
    driver = Driver(load_goldens({**document, "goldens": []}), tmp_path)
    driver.worker.use_goldens(goldens)
    driver.goldens = goldens
    for span in (create, ship, root):
        part = as_message(turn_request("s-1"))
        del part.resource_spans[0].scope_spans[0].spans[:]
        part.resource_spans[0].scope_spans[0].spans.append(span)
        driver.send(ExportRequest(Signal.TRACES, part.SerializeToString()))
        driver.worker.tick(driver.now)
        driver.deliver()
        driver.worker.commit(driver.now)
        driver.wait(100.0 if quiet else 0.1)
        driver.crash()
    driver.end()
    archive = tmp_path / "all.pb"
    archive.write_bytes(message.SerializeToString())
    assert driver.said() == said_by_replay([archive], goldens)
    assert {event["gen_ai.evaluation.score.label"] for event in driver.said().values()} == {"pass"}


def test_a_session_that_is_judged_in_another_thread_is_written_later(tmp_path: Path) -> None:
    """Its results changed while they were written: the engine failed, and its state was lost."""
    driver = Driver(everything(), tmp_path)
    driver.send(ExportRequest(Signal.TRACES, as_message(turn_request("s", ("get_weather", {}))).SerializeToString()))
    driver.worker.poll(driver.now + 2.0)
    [tenant] = driver.worker.tenants
    changes, side = driver.worker.outbox.changes, tenant.engine.side
    tenant.journaled.clear()
    changes.sessions.clear()

    def meanwhile(_: threading.Event) -> None:
        tenant.store.session("s")
        tenant.journal_sessions()
        assert not changes.sessions

    side.go_on = meanwhile
    side.run(side.large, ("s",), lambda: None)
    tenant.journal_sessions()
    assert [*changes.sessions] == [(tenant.name, "s")]
