"""Sessions judged: what is ready of a session is scored anew, and what differs from before is handed out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from goldspan.collector_processor.engine_settings import EngineSettings, EngineStats
from goldspan.collector_processor.evaluation import Evaluation
from goldspan.collector_processor.evaluations import evaluations_of, revise
from goldspan.collector_processor.store import SessionState, Store, TraceState
from goldspan.mappers.assembly import (
    Fragment,
    TurnFragments,
    build_session,
    build_turn,
    outline_turn,
    runs_of,
    turns_of,
)
from goldspan.scoring.errors import Problem
from goldspan.scoring.goldens.matching import GoldenIndex, split_runs
from goldspan.scoring.goldens.models import Golden
from goldspan.scoring.results import SessionResult
from goldspan.scoring.score import score_session
from goldspan.scoring.sessions import Session, SpanRef, Turn

_REMEMBERED = 10_000
"""How many sessions without golden are told apart."""


@dataclass(slots=True)
class Step:
    """What one call gathers for its handout."""

    evaluations: list[Evaluation] = field(default_factory=list[Evaluation])
    sessions: list[SessionResult] = field(default_factory=list[SessionResult])
    problems: list[Problem] = field(default_factory=list[Problem])
    released: set[SpanRef] = field(default_factory=set[SpanRef])
    touched: dict[str, None] = field(default_factory=dict[str, None])

    def release(self, fragments: Iterable[Fragment]) -> None:
        """Let the spans of these fragments go."""
        for fragment in fragments:
            self.released.add(fragment.root)
            self.released.update(span.ref for span in fragment.spans)

    def release_all(self, trace: TraceState) -> None:
        """Let every span of a trace go."""
        self.released.update(trace.held)
        trace.held.clear()


class Judge:
    """Scores the runs of sessions against their goldens and remembers what was said of them."""

    def __init__(self, goldens: GoldenIndex, settings: EngineSettings, stats: EngineStats, store: Store) -> None:
        """Work on the engine's own state."""
        self.goldens = goldens
        self.settings = settings
        self.stats = stats
        self._store = store
        self._unmatched: dict[str, None] = {}

    def count_unmatched(self, session_id: str) -> None:
        """Count a session without golden, once while it is among the last many."""
        if session_id in self._unmatched:
            return
        self._unmatched[session_id] = None
        self.stats.sessions_without_golden += 1
        if len(self._unmatched) > _REMEMBERED:
            del self._unmatched[next(iter(self._unmatched))]

    def judge(
        self, session_id: str, step: Step, *, over: bool = False, flushed: bool = False, incomplete: bool = False
    ) -> None:
        """Score a session's runs anew and hand out what differs from what was said before."""
        state = self._store.session(session_id)
        if state is None:
            return
        state.judged = state.judged or over
        wanted = self.goldens.wants(session_id)
        if not wanted:
            self.count_unmatched(session_id)
        if not wanted and not (over and self.settings.report_unmatched):
            return
        results: dict[str, Evaluation] = {}
        for session in self._runs(state, build=wanted):
            run = replace(session, incomplete=True) if incomplete else session
            golden = self.goldens.find(run)
            if golden is None and not (over and self.settings.report_unmatched):
                if over:
                    self.count_unmatched(session_id)
                continue
            whole = over or run.run in state.over
            whole = whole or (flushed and _saw_every_turn(score_session(golden, run)))
            result = self.settings.scorer.score(golden, run, final=whole)
            if whole:
                state.over.add(run.run)
                step.sessions.append(result)
            for evaluation in evaluations_of(result, whole=whole, include_values=self.settings.include_values):
                results[evaluation.id] = evaluation
        step.evaluations += revise(state.results, results)

    def _runs(self, state: SessionState, *, build: bool) -> list[Session]:
        """List the runs of a session from what is ready, and build their turns, each once, or only outline them."""
        fragments: list[Fragment] = []
        for trace_id in state.traces:
            trace = self._store.trace(trace_id)
            mine = [one for one in trace.ready if one.session.id == state.id] if trace is not None else []
            fragments += [one for one in mine if not self.is_late(one, state)]
        turns = turns_of(fragments)
        known, state.turns = state.turns, {}

        def turn_of(parts: TurnFragments) -> Turn:
            turn = known.get(parts) or build_turn(parts, self.settings.assembly)
            state.turns[parts] = turn
            return turn

        sessions = [
            build_session(run, turn_of if build else outline_turn) for run in runs_of(turns, self.settings.assembly)
        ]
        runs: list[Session] = []
        for session in sessions:
            golden = self.goldens.find(session)
            runs += split_runs(session, golden) if isinstance(golden, Golden) else [session]
        return [replace(run, incomplete=True) if self._lacks_spans(run) else run for run in runs]

    def _lacks_spans(self, run: Session) -> bool:
        """Tell whether spans of this run were forgotten: calls of it, or a plain span that stood between others."""
        for trace_id in {trace_id for turn in run.turns for trace_id in turn.trace_ids}:
            trace = self._store.trace(trace_id)
            if trace is not None and trace.reopened:
                orphan = any(fragment.waits_for_caller or fragment.waits_for_remote for fragment in trace.ready)
                if trace.lost_calls or orphan:
                    return True
        return False

    def is_late(self, fragment: Fragment, state: SessionState) -> bool:
        """Tell whether a fragment belongs to a run whose state was dropped: nothing is left to correct."""
        if not state.dropped_until or not fragment.start:
            return False
        return fragment.start <= state.dropped_until + self.settings.assembly.session_gap_ns


def _saw_every_turn(result: SessionResult) -> bool:
    golden = result.golden
    return golden is not None and golden.calls is None and all(turn.turn is not None for turn in result.turns)
