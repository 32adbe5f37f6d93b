"""Two stages, by trace and by session, give what one engine gives that reads everything."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest

from conformance.single_records import documents_of
from goldspan.collector_processor.engine.result_table import ResultRow, result_rows
from goldspan.collector_processor.engine.trace_machine import EngineSettings, SessionPart
from goldspan.collector_processor.replay.replay import replay
from goldspan.collector_processor.spark.partitions import (
    BoundedSession,
    BoundedTrace,
    TraceChunk,
    TraceChunks,
)
from goldspan.mappers import read_sessions
from goldspan.mappers.assembly.runs import AssemblySettings
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.files import views
from goldspan.mappers.span_facts import SpanFacts
from goldspan.mappers.spans import RecordView
from goldspan.scoring.goldens import GoldenIndex, load_goldens
from goldspan.scoring.metrics.session_metrics import WITHOUT_GOLDEN
from goldspan.scoring.results import SessionResult
from goldspan.scoring.run import Scorer, scorer_of
from goldspan.scoring.verdict import Label
from rigs.recorded_goldens import goldens_of
from rigs.repository import RECORDING_NAMES
from rigs.span_facts import agent, plain, tool

EVERY_METRIC = scorer_of(metrics=WITHOUT_GOLDEN)


def rows_of(results: Iterable[SessionResult]) -> list[ResultRow]:
    return sorted((row for result in results for row in result_rows(result)), key=repr)


def replayed(records: Sequence[RecordView], goldens: GoldenIndex, scorer: Scorer) -> list[ResultRow]:
    registry = DialectRegistry(join_attributes=goldens.join_attributes, definitions=True)
    return rows_of(replay(records, goldens, registry, problems=[], scorer=scorer).result.sessions)


def in_two_stages(
    readers: Sequence[Sequence[RecordView]], goldens: GoldenIndex, scorer: Scorer, *, seed: int = 0, **bounds: int
) -> list[SessionResult]:
    """Read in several processes, and shuffle what goes from stage to stage."""
    settings = EngineSettings(holds=False, report_unmatched=True, scorer=scorer)
    pick = random.Random(seed)

    def sent(values: Iterable[Any]) -> list[Any]:
        encoded = [pickle.dumps(value) for value in values]
        return [pickle.loads(one) for one in pick.sample(encoded, len(encoded))]

    def read() -> Iterator[TraceChunk]:
        for number, records in enumerate(readers):
            registry = DialectRegistry(join_attributes=goldens.join_attributes, definitions=True)
            chunks = TraceChunks(registry, content=scorer.reads_content(goldens.goldens), first=number << 32)
            yield from chunks.read(records)
            yield from chunks.rest()

    traces: dict[str, BoundedTrace] = {}
    for chunk in sorted(sent(read()), key=lambda chunk: 0 if chunk.trace_id else chunk.order):
        traces.setdefault(chunk.trace_id, BoundedTrace(chunk.trace_id, **bounds)).add(chunk)
    sessions: dict[str, BoundedSession] = {}
    for part in sent(part for trace in traces.values() for part in trace.parts(settings.assembly)):
        sessions.setdefault(part.session_id, BoundedSession(part.session_id, **bounds)).add(part)
    return [result for session in sessions.values() for result in session.results(goldens, settings)]


@pytest.mark.every_recording
@pytest.mark.parametrize("name", RECORDING_NAMES)
def test_results_are_those_of_one_engine(name: str) -> None:
    records = list(views(documents_of(name), lambda problem: None))
    goldens = goldens_of(name).with_sample(1.0)
    expected = replayed(records, goldens, EVERY_METRIC)
    assert expected or not read_sessions(documents_of(name))  # of some recordings no dialect reads anything yet
    pick = random.Random(name)
    again = [*records, *pick.sample(records, len(records) // 2)]
    pick.shuffle(again)
    if any(not (view.trace_id and view.span_id) for view in records):
        again = records  # spans without ids are what they are in the order they came (R4)
    third = len(again) // 3
    readers = [again[:third], again[third : 2 * third], again[2 * third :]]
    assert rows_of(in_two_stages(readers, goldens, EVERY_METRIC, seed=third)) == expected


CASES = load_goldens(
    {
        "golden_set": "cases",
        "goldens": [
            {
                "attribute": {"test.case.name": city},
                "turns": [{"calls": [{"name": "f", "args": {"city": city}}]}],
            }
            for city in ("Lyon", "Paris")
        ],
    }
)
TRACE = "1" * 32


def labels_of(*chunks: Sequence[SpanFacts]) -> dict[str, Label | None]:
    """Each session's label, of chunks of one trace."""
    settings = EngineSettings(holds=False, report_unmatched=True)
    trace = BoundedTrace(TRACE)
    for order, spans in enumerate(chunks):
        trace.add(TraceChunk(TRACE, order, tuple(spans)))
    found: dict[str, Label | None] = {}
    for part in trace.parts(settings.assembly):
        session = BoundedSession(part.session_id)
        session.add(part)
        for result in session.results(CASES, settings):
            found[part.session_id] = result.verdict.label
    return found


def case(city: str) -> list[SpanFacts]:
    """A request that names the case; below it, after a span that names nothing, the session that handles it."""
    return [
        plain(TRACE, f"{city}-request", "batch", join_attributes={"test.case.name": city}),
        plain(TRACE, f"{city}-between", f"{city}-request"),
        agent(TRACE, f"{city}-agent", f"{city}-between", session=city),
        tool(TRACE, f"{city}-tool", f"{city}-agent", args={"city": city}),
    ]


def test_a_part_has_what_is_above_its_session() -> None:
    spans = [plain(TRACE, "batch"), *case("Lyon"), *case("Paris")]
    assert labels_of(spans) == {"Lyon": Label.PASS, "Paris": Label.PASS}


@pytest.mark.parametrize("newer_first", [False, True])
def test_of_a_span_the_newer_version_counts_whichever_comes_first(*, newer_first: bool) -> None:
    spans = case("Paris")
    older = tool(TRACE, "Paris-tool", "Paris-agent", args={"city": "Lyon"}, end=1.5)
    chunks = [spans, [older]] if newer_first else [[older], spans]
    assert labels_of(*chunks) == {"Paris": Label.PASS}


def test_an_empty_part_takes_a_trace_out_of_its_session() -> None:
    settings = EngineSettings(holds=False, report_unmatched=True)
    trace = BoundedTrace(TRACE)
    trace.add(TraceChunk(TRACE, 0, tuple(case("Paris"))))
    [part] = trace.parts(settings.assembly)
    session = BoundedSession(part.session_id, most=len(part))
    empty = SessionPart(part.session_id, TRACE, ())
    session.add(empty)
    for _ in range(2):
        session.add(part)
        assert [result.verdict.label for result in session.results(CASES, settings)] == [Label.PASS]
        session.add(empty)
        assert session.results(CASES, settings) == []


def part_of(trace: str, city: str) -> SessionPart:
    """What a trace holds of the session `Paris`, whose call names this city."""
    records = BoundedTrace(trace)
    spans = [one.changed(trace_id=trace, span_id=f"{trace}{one.span_id}", parent_id="") for one in case("Paris")[2:]]
    called = tool(trace, "call", spans[0].span_id, args={"city": city})
    asked = {"test.case.name": "Paris"}
    records.add(TraceChunk(trace, 0, (spans[0].changed(join_attributes=asked), called)))
    [part] = records.parts(AssemblySettings())
    return part


def test_a_full_session_takes_newer_versions_of_its_parts_and_no_others() -> None:
    settings = EngineSettings(holds=False, report_unmatched=True)
    older, newer = part_of(TRACE, "Lyon"), part_of(TRACE, "Paris")
    session = BoundedSession("Paris", most=len(older))
    for part, label in ((older, Label.FAIL), (newer, Label.PASS), (older, Label.FAIL), (newer, Label.PASS)):
        session.add(part)
        [result] = session.results(CASES, settings)
        assert (result.verdict.label, result.session is not None and result.session.incomplete) == (label, False)
    session.add(part_of("2" * 32, "Paris"))
    [result] = session.results(CASES, settings)
    assert result.session is not None
    assert (len(result.session.turns), result.session.incomplete) == (1, True)
