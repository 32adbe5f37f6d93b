"""Judging: the runs of a session are scored, and the evaluations that differ from those given before are given.

A session is scored from its complete turns; what was made of those that did not change is kept in its state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from msgspec.structs import replace

from goldspan.collector_processor.emit.evaluation import Evaluation
from goldspan.collector_processor.engine.evaluations import JudgedRun, KeptSession, revise
from goldspan.collector_processor.engine.sessions_without_golden import SessionsWithoutGolden
from goldspan.collector_processor.engine.settings import EngineSettings, EngineStats
from goldspan.collector_processor.engine.store import MemoryStore, SessionState, TraceState
from goldspan.mappers.assembly import (
    AssemblySettings,
    Fragment,
    SessionTurns,
    TurnFragments,
    outline_turn,
)
from goldspan.scoring.errors import Problem
from goldspan.scoring.goldens.golden import Golden
from goldspan.scoring.goldens.golden_index import GoldenIndex
from goldspan.scoring.results import SessionResult
from goldspan.scoring.run import KeptRun
from goldspan.scoring.session_score import expected_session, score_run
from goldspan.scoring.sessions import Session, SpanRef, Turn
from goldspan.scoring.turn_join import SplitRuns


@dataclass(slots=True)
class OutputBuilder:
    """Collects the output of one call of the engine."""

    evaluations: list[Evaluation] = field(default_factory=list[Evaluation])
    sessions: list[SessionResult] = field(default_factory=list[SessionResult])
    problems: list[Problem] = field(default_factory=list[Problem])
    released: set[SpanRef] = field(default_factory=set[SpanRef])
    touched: dict[str, None] = field(default_factory=dict[str, None])
    """Sessions whose turns changed."""

    def release(self, fragments: Iterable[Fragment]) -> None:
        """Release the spans of these fragments."""
        for fragment in fragments:
            self.released.add(fragment.root)
            self.released.update(span.ref for span in fragment.spans)

    def release_all(self, trace: TraceState) -> None:
        """Release every held span of a trace."""
        self.released.update(trace.held)
        trace.held.clear()


class SessionScorer:
    """Scores the runs of sessions against their goldens, and keeps their evaluations in the sessions' state."""

    def __init__(self, goldens: GoldenIndex, settings: EngineSettings, stats: EngineStats, store: MemoryStore) -> None:
        """Work on the state of one engine."""
        self.goldens = goldens
        self.settings = settings
        self.stats = stats
        self._store = store
        self.without_golden = SessionsWithoutGolden()

    def count_unmatched(self, session_id: str, source: str) -> None:
        """Count a session without golden, once while it is remembered. `source`: the attribute that names it.

        Where there are no goldens at all, no session lacks one.
        """
        if self.goldens.goldens:
            self.stats.sessions_without_golden += self.without_golden.add(session_id, source)

    def judge(
        self,
        session_id: str,
        output: OutputBuilder,
        *,
        complete: bool = False,
        flushed: bool = False,
        incomplete: bool = False,
    ) -> None:
        """Score the runs of a session anew, and output what differs from before.

        Args:
            session_id: The session; without state nothing happens.
            output: Where evaluations, results and problems are added.
            complete: The session is quiet: its runs are judged as complete, with the turns that never came.
            flushed: Judge a run as complete if every turn of its golden was seen.
            incomplete: Spans of the session were dropped: mark its results.

        """
        state = self._store.session(session_id)
        if state is None:
            return
        state.judged = state.judged or complete
        wanted = self.goldens.wants(session_id)
        if not wanted:
            self.count_unmatched(session_id, self._source_of(state))
        if not wanted and not (complete and self.settings.report_unmatched):
            return
        kept = self._kept(state, build=wanted)
        runs = self._runs(kept)
        names = Counter(run.run for run in runs)
        anew = kept.anew or len(names) < len(runs)  # of two runs with one name, the later one's results stand
        kept.anew = len(names) < len(runs)
        known, kept.runs = {} if anew else kept.runs, {}
        added: list[Evaluation] = []
        removed: list[Evaluation] = []
        for session in runs:
            key = session.run, names[session.run] - 1
            names[session.run] -= 1
            one = known.get(key) or JudgedRun()
            if not incomplete and one.stands(session, self.goldens, ask=complete or flushed):
                kept.runs[key] = known.pop(key)
                output.sessions += one.complete
                continue
            run = replace(session, incomplete=True) if incomplete else session
            golden = self.goldens.find(run)
            if golden is None and complete:
                self.count_unmatched(session_id, self._source_of(state))
            every = self.settings.scorer.scores_every_session and self.goldens.samples_run(run)
            if golden is None and not every and not (complete and self.settings.report_unmatched):
                continue
            kept.runs[key] = known.pop(key, one)
            is_complete = complete or run.run in state.complete_runs
            is_complete = is_complete or (
                flushed and isinstance(golden, Golden) and self._saw_every_turn(golden, run, one.scores)
            )
            scorer = self.settings.scorer
            if golden is None and not every:  # it is reported, and not in the sample
                scorer = scorer.without_metrics
            result = scorer.score(golden, run, final=is_complete, kept=one.scores)
            one.judged = run, self.goldens
            one.complete = (result,) if is_complete else ()
            if is_complete:
                state.complete_runs.add(run.run)
                output.sessions.append(result)
            if self.settings.emits:
                less, more = one.evaluations.update(
                    result, complete=is_complete, include_values=self.settings.include_values
                )
                removed += less
                added += more
        for gone in known.values():
            removed += gone.evaluations.all()
        newest = {evaluation.id: evaluation for evaluation in added}
        output.evaluations += revise(state.results, newest, None if anew else removed)

    def results(self, session_id: str) -> Iterator[Evaluation]:
        """Yield every result that stands of a session that was just judged, with revision 1."""
        state = self._store.session(session_id)
        kept = None if state is None else state.kept
        for one in kept.runs.values() if kept is not None else ():
            yield from one.evaluations.all()

    def _saw_every_turn(self, golden: Golden, run: Session, scores: KeptRun) -> bool:
        if expected_session(golden, None).is_one_turn:
            return golden.calls is None and bool(run.turns)
        scores.begin(golden, run)
        score = scores.own.score if self.settings.scorer.criterion is None else score_run
        turns = score(golden, run, final=False).turns
        last = len(golden.turns) - 1  # results are in the golden's order, without turns that were not seen
        return last < len(turns) and (last < 0 or turns[last].expected_index is not None)

    def _source_of(self, state: SessionState) -> str:
        """Return the attribute that names a session, or `trace_id`."""
        traces = map(self._store.trace, state.traces)
        own = (trace.by_session.get(state.id) for trace in traces if trace is not None)
        return next((fragments[0].session.source for fragments in own if fragments), "trace_id")

    def _kept(self, state: SessionState, *, build: bool) -> KeptSession:
        """Return the fragments of a session, with those of traces that changed. Without `build` turns are outlined."""
        kept = state.kept
        changed: Iterable[str] = state.changed
        if kept is None or kept.build is not build:
            settings = self.settings.assembly
            kept = state.kept = KeptSession(build, SessionTurns(settings, None if build else _outlined))
            changed = state.traces
        for trace_id in changed:
            trace = self._store.trace(trace_id) if trace_id in state.traces else None
            own = trace.by_session.get(state.id, []) if trace is not None else []
            late = set(map(id, self.late_fragments(own, state)))
            kept.turns.put(trace_id, [one for one in own if id(one) not in late] if late else list(own))
            if trace is not None and _lacks_spans(trace):
                kept.lacking.add(trace_id)
            else:
                kept.lacking.discard(trace_id)
        state.changed = {}
        return kept

    def _runs(self, kept: KeptSession) -> list[Session]:
        """Return the runs of a session from its complete turns."""
        runs: list[Session] = []
        before, kept.split = kept.split, {}
        for _, session in kept.turns.runs():
            golden = self.goldens.find(session)
            if not isinstance(golden, Golden):
                runs.append(session)
                continue
            split = before.get(session.run)
            if split is None or split.golden is not golden:
                split = SplitRuns(golden, self.settings.assembly.run_idle)
            kept.split[session.run] = split
            runs += split.update(session)
        lacking = kept.lacking
        if not lacking:
            return runs
        return [
            replace(run, incomplete=True)
            if any(trace_id in lacking for turn in run.turns for trace_id in turn.trace_ids)
            else run
            for run in runs
        ]

    def late_fragments(self, fragments: Iterable[Fragment], state: SessionState) -> list[Fragment]:
        """Return the fragments that belong to a run that was dropped, so that they can correct nothing."""
        if not state.dropped_until:
            return []
        until = state.dropped_until + self.settings.assembly.session_gap_ns
        return [fragment for fragment in fragments if fragment.start and fragment.start <= until]


def _outlined(fragments: TurnFragments, _: AssemblySettings) -> Turn:
    return outline_turn(fragments)


def _lacks_spans(trace: TraceState) -> bool:
    """Tell whether records of a trace were dropped: calls or text of it, or a plain span between others."""
    if trace.lost_text:
        return True
    orphan = any(fragment.waits_for_caller or fragment.waits_for_remote for fragment in trace.ready)
    return trace.reopened and (trace.lost_calls or orphan)
