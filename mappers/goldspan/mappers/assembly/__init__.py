"""Span and log facts in, sessions out: a pure function of a set of records.

facts -> one version of each span -> trace trees -> fragments -> turns -> runs
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Set

from msgspec.structs import replace

from goldspan.mappers.assembly.runs import DEFAULT_ASSEMBLY, AssemblySettings, SessionTurns
from goldspan.mappers.assembly.trace_reading import TraceReading, without_ids
from goldspan.mappers.assembly.turn_fragments import Fragment
from goldspan.mappers.span_facts import LogFacts, Record, SpanFacts
from goldspan.scoring.errors import Problem
from goldspan.scoring.sessions import Session


def assemble(
    records: Iterable[Record],
    settings: AssemblySettings = DEFAULT_ASSEMBLY,
    on_problem: Callable[[Problem], object] | None = None,
) -> list[Session]:
    """Rebuild every session, one value for each run, in the order of time. The order of `records` never matters."""
    traces, lost = _by_trace(records)
    by_session: dict[str, dict[str, list[Fragment]]] = {}
    for trace_id, reading in traces.items():
        for fragment in reading.fragments(settings.session_keys, on_problem or (lambda _: None)):
            by_session.setdefault(fragment.session.id, {}).setdefault(trace_id, []).append(fragment)
    runs: list[tuple[Fragment, Session]] = []
    for by_trace in by_session.values():
        turns = SessionTurns(settings)
        for trace_id, fragments in by_trace.items():
            turns.put(trace_id, fragments)
        runs += turns.runs()
    runs.sort(key=lambda run: run[0].order)
    return [_marked(session, lost) if lost else session for _, session in runs]


def _by_trace(records: Iterable[Record]) -> tuple[dict[str, TraceReading], set[str]]:
    """Return the records by trace, and the traces and sessions of spans that could not be read."""
    traces: dict[str, TraceReading] = defaultdict(TraceReading)
    logs = set[tuple[str, str]]()
    lost = set[str]()
    nameless = 0
    for record in records:
        if isinstance(record, SpanFacts) and record.lost:
            lost.update([record.trace_id] if record.trace_id else [value for _, value in record.session_keys[:1]])
            continue
        if isinstance(record, LogFacts):
            notes: tuple[LogFacts, ...] = (record,)
        else:
            named = record if record.trace_id and record.span_id else without_ids(record, nameless)
            nameless += named is not record
            traces[named.trace_id].add(named)
            notes = record.notes
        for note in notes:
            if (note.trace_id, note.identity) not in logs:
                logs.add((note.trace_id, note.identity))
                traces[note.trace_id].add(note)
    return traces, lost


def _marked(run: Session, lost: Set[str]) -> Session:
    """Return a run that is incomplete if a span of it, or of a trace of it, could not be read."""
    known = {run.id, *(trace_id for turn in run.turns for trace_id in turn.trace_ids)}
    return run if lost.isdisjoint(known) else replace(run, incomplete=True)
