"""However the records of a conversation arrive, the sessions are the same.

Every recording is read span by span as the spans ended, as one batch, shuffled, and with everything delivered twice:
by `read_sessions`, and by the engine behind all doors, asked for results after each record.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import pytest
from msgspec import structs

from conformance.known_gaps import or_known_gap
from conformance.recordings import TRUTH, files_of
from conformance.single_records import Document, documents_of
from goldspan.collector_processor.emit.evaluation import Evaluation, Level
from goldspan.collector_processor.engine.engine import Engine, EngineOutput
from goldspan.collector_processor.engine.result_revisions import evaluations_of
from goldspan.collector_processor.engine.trace_machine import EngineSettings
from goldspan.mappers import read_sessions
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.files import views
from goldspan.mappers.span_facts import LogFacts, Record
from goldspan.mappers.spans import LogView
from goldspan.scoring import load_goldens
from goldspan.scoring.api import score_session
from goldspan.scoring.goldens.golden import GoldenIndex
from goldspan.scoring.results import SessionResult
from goldspan.scoring.sessions import Session
from goldspan.scoring.verdict import Label, Reason
from rigs.repository import RECORDING_NAMES


def as_they_ended(count: int) -> list[int]:
    return list(range(count))


def backwards(count: int) -> list[int]:
    return list(reversed(range(count)))


def shuffled(seed: int) -> Callable[[int], list[int]]:
    def order(count: int) -> list[int]:
        return random.Random(seed).sample(range(count), count)

    return order


def twice(count: int) -> list[int]:
    """Everything is delivered again, some of it at once and some of it after everything else."""
    again = shuffled(0)(count)
    half = set(again[: count // 2])
    at_once = [number for number in range(count) for _ in range(2 if number in half else 1)]
    return [*at_once, *again[count // 2 :]]


ORDERS: dict[str, Callable[[int], list[int]]] = {
    "as they ended": as_they_ended,
    "backwards": backwards,
    "shuffled": shuffled(1),
    "twice": twice,
}
SHORT, LONG = 0.01, 70.0
"""Seconds between records: live traffic; and every turn is handed out with what there is of it, again and again."""
PACES = (("as they ended", LONG), ("backwards", SHORT), ("shuffled", LONG), ("twice", SHORT), ("twice", LONG))


@dataclass(frozen=True)
class Recording:
    """A recording, what one batch makes of it, and a golden made from just that."""

    documents: list[Document]
    records: list[Record]
    sessions: list[Session]
    goldens: GoldenIndex

    def evaluations(self) -> dict[str, Evaluation]:
        """What one batch is evaluated as."""
        results = [score_session(self.goldens.find(session), session) for session in self.sessions]
        return {one.id: one for result in results for one in evaluations_of(result, complete=True)}


@lru_cache(maxsize=1)  # the tests go through the recordings one after another
def recording(name: str) -> Recording:
    documents = documents_of(name)
    registry = DialectRegistry()
    read = [
        registry.read_log(view) if isinstance(view, LogView) else registry.read(view)
        for view in views(documents, lambda problem: None)
    ]
    assert len(read) == len(documents)
    sessions = read_sessions(files_of(name))
    return Recording(documents, [record for record in read if record is not None], sessions, golden_of(sessions))


def golden_of(sessions: list[Session]) -> GoldenIndex:
    """What these sessions did, as what they should do."""

    def turns(session: Session) -> list[dict[str, object]]:
        calls = [[call for call in turn.calls if not call.rejected] for turn in session.turns]
        return [{"calls": [{"name": call.name, "args": dict(call.arguments or {})} for call in turn]} for turn in calls]

    goldens = [{"session": session.id, "turns": turns(session)} for session in sessions]
    return load_goldens({"format": 1, "golden_set": "recorded", "goldens": goldens})


@pytest.mark.every_recording
@pytest.mark.costly
@pytest.mark.parametrize("name", RECORDING_NAMES)
def test_sessions_are_the_same_in_every_order(name: str, subtests: pytest.Subtests) -> None:
    whole = recording(name)
    for order, numbers in ORDERS.items():
        with subtests.test(order):
            delivered = [whole.documents[number] for number in numbers(len(whole.documents))]
            assert read_sessions(delivered) == whole.sessions


PATIENT = EngineSettings(retention=1e9, trace_retention=1e9)
"""No state is dropped: what comes after that is outside the law."""


class Listener:
    """Keeps the newest revision of everything that an engine says."""

    def __init__(self) -> None:
        self.newest: dict[str, Evaluation] = {}
        self.revised = 0

    def hear(self, output: EngineOutput) -> None:
        assert not output.problems
        for evaluation in output.evaluations:
            self.revised += evaluation.revision > 1
            self.newest[evaluation.id] = evaluation

    def standing(self) -> dict[str, Evaluation]:
        return {key: structs.replace(one, revision=1) for key, one in self.newest.items() if not one.withdrawn}


def through_the_engine(whole: Recording, order: str, seconds: float) -> Listener:
    """Deliver record by record, so many seconds apart, and ask for results after each."""
    engine, listener, now = Engine(whole.goldens, PATIENT), Listener(), 0.0
    for number in ORDERS[order](len(whole.records)):
        record = whole.records[number]
        if isinstance(record, LogFacts):
            engine.feed_log(record, now)
        else:
            engine.feed(record, now)
        listener.hear(engine.poll(now))
        now += seconds
        listener.hear(engine.poll(now))
    listener.hear(engine.flush(now, end_of_input=True))
    assert engine.stats.late == 0
    return listener


def sessions_in(evaluations: dict[str, Evaluation]) -> list[Session]:
    details = [one.detail for one in evaluations.values() if one.level is Level.SESSION]
    sessions = [one.session for one in details if isinstance(one, SessionResult) and one.session is not None]
    return sorted(sessions, key=lambda session: (session.turns[0].start, session.id))


@pytest.mark.every_recording
@pytest.mark.costly
@pytest.mark.parametrize("name", RECORDING_NAMES)
def test_the_engine_arrives_at_the_same_evaluations(name: str, subtests: pytest.Subtests) -> None:
    whole = recording(name)
    evaluations = whole.evaluations()
    sessions = sorted(whole.sessions, key=lambda session: (session.turns[0].start, session.id))
    for order, seconds in PACES:
        with subtests.test(order, seconds=seconds):
            standing = through_the_engine(whole, order, seconds).standing()
            assert standing == evaluations
            assert sessions_in(standing) == sessions


HIDDEN = [name for name in RECORDING_NAMES if TRUTH["files"][name]["turns"] == "hidden"]
"""Recordings of agents whose calls nothing shows."""


@pytest.mark.every_recording
@pytest.mark.parametrize("name", or_known_gap(HIDDEN))
def test_what_cannot_be_seen_is_not_judged(name: str) -> None:
    """A model that asked for tools unseen is no agent that called none."""
    hidden = [one for one in recording(name).sessions if not all(turn.calls_visible for turn in one.turns)]
    results = [score_session([{"name": "get_weather", "args": {}}], session) for session in hidden]
    assert hidden
    assert {(one.verdict.label, one.verdict.reason) for one in results} == {
        (Label.NOT_EVALUATED, Reason.CALLS_NOT_VISIBLE)
    }


@pytest.mark.every_recording
@pytest.mark.parametrize("name", or_known_gap(name for name in RECORDING_NAMES if name not in HIDDEN))
def test_a_recording_passes_the_golden_made_of_it(name: str) -> None:
    """Otherwise the evaluations compared above would say nothing."""
    whole = recording(name)
    verdicts = [one.verdict for one in whole.evaluations().values()]
    judged = [verdict for verdict in verdicts if verdict.reason is not Reason.NOTHING_EXPECTED]
    assert judged
    assert {verdict.label for verdict in judged} == {Label.PASS}


def test_hasty_results_were_corrected_on_the_way() -> None:
    """The long steps do make the engine say things too early."""
    assert through_the_engine(recording("openai-agents-logfire"), "as they ended", LONG).revised
