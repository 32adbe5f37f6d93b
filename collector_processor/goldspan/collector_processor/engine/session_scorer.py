"""The session scorer: the runs of a session are scored, and evaluations that differ from those given before are given.

    parts of traces -> turns -> runs -> the golden of each run -> its score -> evaluations -> what differs

A result has the same id each time. One that was not given before has revision 1, one that differs from the one given
is a correction with the next revision, and one that is gone is withdrawn:

    two turns of "s" are complete     call 1 pass, revision 1; call 2 fail, revision 1
    a late span changes call 2        call 2 pass, revision 2
    "s" is quiet for `run_idle`       the session 1.0, revision 1: what never came is missing now
    quiet for `retention`             its turns and results are forgotten; what comes for its runs is late
    another `tombstone_ttl` later     forgotten altogether

A session is scored from its complete turns; what was made of those that did not change is kept in its state. Whoever
keeps a session gives its state, and what each of its traces holds of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import chain

from msgspec.structs import replace

from goldspan.collector_processor.emit.evaluation import Evaluation
from goldspan.collector_processor.engine.reading_and_holding import SessionsWithoutGolden
from goldspan.collector_processor.engine.result_revisions import RunEvaluations, revise
from goldspan.collector_processor.engine.trace_machine import EngineSettings, EngineStats, SessionPart
from goldspan.mappers.assembly.runs import AssemblySettings, SessionTurns, TurnFragments, outline_turn
from goldspan.mappers.assembly.turn_fragments import Fragment
from goldspan.scoring.errors import Problem
from goldspan.scoring.goldens.golden import Golden, GoldenIndex
from goldspan.scoring.results import SessionResult
from goldspan.scoring.run import KeptRun
from goldspan.scoring.session_score import expected_session, score_run
from goldspan.scoring.sessions import Session, SpanRef, Turn
from goldspan.scoring.turn_join import SplitRuns

PartOf = Callable[[str], SessionPart | None]
"""Returns what a trace holds of the session that is scored."""


_MOST_DROPPED_RUNS = 16  # dropped runs of one session id that are remembered: the latest


class _ScoredRun:
    """What was made of one run, for the next time that its session is scored."""

    __slots__ = ("complete", "evaluations", "scored", "scores")

    def __init__(self) -> None:
        self.scores = KeptRun()
        self.evaluations = RunEvaluations()
        self.scored: tuple[Session, GoldenIndex] | None = None
        """What was scored last, and against what."""
        self.complete: tuple[SessionResult, ...] = ()
        """Its result, if it was scored as complete."""

    def is_of(self, session: Session, goldens: GoldenIndex, *, complete: bool) -> bool:
        """Tell whether what was made is of this session; `complete`: only if it was scored as complete."""
        scored = self.scored
        same = scored is not None and scored[0] is session and scored[1] is goldens
        return same and (bool(self.complete) or not complete)


_ScoredRuns = dict[tuple[str, int], _ScoredRun]  # by name, and a number where several have one name


class _KeptSession:
    """What was made of one session, for the next time that it is scored. No more than its results."""

    __slots__ = ("build", "lacking", "owns_results", "runs", "split", "turns")

    def __init__(self, build: bool, turns: SessionTurns) -> None:  # noqa: FBT001
        self.build = build
        """Turns were made, and not outlined."""
        self.turns = turns
        self.lacking: set[str] = set()
        """Traces of which records were dropped."""
        self.split: dict[str, SplitRuns] = {}
        """What splits each run where its session id was used again."""
        self.runs: _ScoredRuns = {}
        self.owns_results = False
        """Every result of the session was made by these runs: none in an earlier process, none by two of one name."""


@dataclass(slots=True)
class SessionState:
    """A session: its traces and the results that were given for it."""

    id: str
    last: float
    traces: dict[str, None] = field(default_factory=dict[str, None])
    results: dict[str, Evaluation] = field(default_factory=dict[str, Evaluation])
    """The newest revision of every result, by id."""
    written: dict[str, tuple[Evaluation, bytes, bytes]] = field(
        default_factory=dict[str, tuple[Evaluation, bytes, bytes]]
    )
    """Results as a journal last wrote them, by id: what is shared with others, and the rest."""
    complete_runs: set[str] = field(default_factory=set[str])
    """Runs that were scored as complete; corrections score them as complete again."""
    kept: _KeptSession | None = None
    """What was made of its turns when it was last scored."""
    changed: dict[str, None] = field(default_factory=dict[str, None])
    """Traces whose fragments changed since then."""
    due: float | None = None
    is_scored: bool = False
    """Every run was scored as complete since the newest record came."""
    dropped: tuple[tuple[int, int], ...] = ()
    """When the runs that were dropped began and ended, in span time, in order: a turn of one of them is late."""

    def set_part(self, trace_id: str, *, has_turns: bool) -> None:
        """Note that what a trace holds of the session changed, and whether it holds anything now."""
        self.changed[trace_id] = None
        if has_turns:
            self.traces[trace_id] = None
        else:
            self.traces.pop(trace_id, None)

    def grow(self, now: float) -> None:
        """Note that new turns came: its runs are not complete any longer."""
        self.last = max(self.last, now)
        self.is_scored = False

    def drop_runs(self, fragments: Iterable[Fragment], gap: int) -> None:
        """Forget turns and results. What comes within a gap of these fragments, in nanoseconds, is late from now on."""
        runs: list[tuple[int, int]] = []
        for began, ended in sorted((*self.dropped, *(one.extent_within(gap) for one in fragments))):
            if runs and began - runs[-1][1] <= gap:
                runs[-1] = runs[-1][0], max(runs[-1][1], ended)
            else:
                runs.append((began, ended))
        self.dropped = tuple(runs[-_MOST_DROPPED_RUNS:])
        self.traces.clear()
        self.results.clear()
        self.kept = None
        self.changed.clear()
        self.complete_runs.clear()

    def results_now(self) -> Iterator[Evaluation]:
        """Yield every result as the session was last scored, with revision 1."""
        for run in self.kept.runs.values() if self.kept is not None else ():
            yield from run.evaluations.all()


class SessionStep(Enum):
    """What becomes of a session that is looked at."""

    WAIT = auto()
    SCORE = auto()
    """Its runs are complete."""
    DROP = auto()
    FORGET = auto()


def next_step(state: SessionState, now: float, settings: EngineSettings) -> tuple[SessionStep, float]:
    """Return what to do with a session now, and when to look at it again."""
    complete_at, dropped_at = state.last + settings.run_idle, state.last + settings.retention
    if now < complete_at:
        return SessionStep.WAIT, complete_at
    if not state.is_scored:
        return SessionStep.SCORE, dropped_at
    if not state.traces:
        return SessionStep.FORGET, now
    return (SessionStep.WAIT, dropped_at) if now < dropped_at else (SessionStep.DROP, now + settings.tombstone_ttl)


@dataclass(slots=True)
class OutputBuilder:
    """Collects the output of one call of the engine."""

    evaluations: list[Evaluation] = field(default_factory=list[Evaluation])
    final: list[Evaluation] = field(default_factory=list[Evaluation])
    """Results of complete runs that were not final before, all with revision 1: what counters count."""
    superseded: list[Evaluation] = field(default_factory=list[Evaluation])
    """Results that were final and do not hold any longer, since later spans changed a complete run."""
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


@dataclass(frozen=True, slots=True)
class _Scoring:
    """A session is scored once."""

    state: SessionState
    part_of: PartOf
    complete: bool
    flushed: bool
    incomplete: bool
    output: OutputBuilder
    added: list[Evaluation] = field(default_factory=list[Evaluation])
    removed: list[Evaluation] = field(default_factory=list[Evaluation])
    """What does not hold any longer of the evaluations that were given before, all with revision 1."""

    @property
    def source(self) -> str:
        """The attribute that names the session, or `trace_id`."""
        parts = map(self.part_of, self.state.traces)
        found = (part.fragments[0].session.source for part in parts if part is not None and part.fragments)
        return next(found, "trace_id")


class SessionScorer:
    """Scores the runs of sessions against their goldens, and keeps their evaluations in the sessions' state."""

    def __init__(self, goldens: GoldenIndex, settings: EngineSettings, stats: EngineStats) -> None:
        """Score by these goldens and settings; count in `stats`."""
        self.goldens = goldens
        self.settings = settings
        self.stats = stats
        self.without_golden = SessionsWithoutGolden()

    def count_unmatched(self, session_id: str, source: str) -> None:
        """Count a session without golden, once while it is remembered. `source`: the attribute that names it.

        Where there are no goldens at all, no session lacks one.
        """
        if self.goldens.goldens:
            self.stats.sessions_without_golden += self.without_golden.add(session_id, source)

    def score(
        self,
        state: SessionState,
        part_of: PartOf,
        output: OutputBuilder,
        *,
        complete: bool = False,
        flushed: bool = False,
        incomplete: bool = False,
    ) -> None:
        """Score the runs of a session, and output what differs from before.

        Args:
            state: The session.
            part_of: Returns what a trace of the session holds of it.
            output: Where evaluations, results and problems are added.
            complete: The session is quiet: its runs are scored as complete, with the turns that never came.
            flushed: Score a run as complete if every turn of its golden was seen.
            incomplete: Spans of the session were dropped: mark its results.

        """
        state.is_scored = state.is_scored or complete
        wanted = self.goldens.wants(state.id)
        scoring = _Scoring(state, part_of, complete, flushed, incomplete, output)
        if not wanted:
            self.count_unmatched(state.id, scoring.source)
            if not (complete and self.settings.report_unmatched):
                return
        kept = self._kept(scoring, build=wanted)
        runs = self._runs(kept)
        owned, kept.owns_results = kept.owns_results, len({run.run for run in runs}) == len(runs)
        replaces_all = not (owned and kept.owns_results)  # of two runs with one name, the later one's results are given
        before, kept.runs = {} if replaces_all else kept.runs, {}
        complete_before = frozenset(state.complete_runs)
        self._score_runs(runs, before, kept.runs, scoring)
        self._revise(scoring, complete_before, replaces_all=replaces_all)
        for name, run in ((name, run) for (name, _), run in kept.runs.items() if run.complete):
            if name not in complete_before:
                output.final += run.evaluations.all()

    def _revise(self, scoring: _Scoring, complete_before: Collection[str], *, replaces_all: bool) -> None:
        """Output the results that differ from before, and of runs that were complete what replaces what."""
        results, output = scoring.state.results, scoring.output
        newest = {evaluation.id: evaluation for evaluation in scoring.added}
        may_change = results if replaces_all else chain(newest, (one.id for one in scoring.removed))
        earlier = {key: one for key in may_change if (one := results.get(key)) is not None}
        for one in revise(results, newest, None if replaces_all else scoring.removed):
            output.evaluations.append(one)
            if one.run not in complete_before:
                continue
            if (was := earlier.get(one.id)) is not None and not was.withdrawn:
                output.superseded.append(was)
            if not one.withdrawn:
                output.final.append(newest[one.id])

    def _score_runs(self, runs: Sequence[Session], before: _ScoredRuns, now: _ScoredRuns, scoring: _Scoring) -> None:
        """Score those runs that are not as they were."""
        names = Counter(run.run for run in runs)
        for session in runs:
            names[session.run] -= 1
            key = session.run, names[session.run]
            run = before.get(key) or _ScoredRun()
            same = run.is_of(session, self.goldens, complete=scoring.complete or scoring.flushed)
            if same and not scoring.incomplete:
                scoring.output.sessions += run.complete
            elif not self._score_run(run, session, scoring):
                continue
            now[key] = before.pop(key, run)
        for gone in before.values():
            scoring.removed.extend(gone.evaluations.all())

    def _score_run(self, run: _ScoredRun, session: Session, scoring: _Scoring) -> bool:
        """Score one run; False: no golden wants it, and it is neither in the sample nor reported."""
        session = replace(session, incomplete=True) if scoring.incomplete else session
        state, settings, scorer = scoring.state, self.settings, self.settings.scorer
        golden = self.goldens.find(session)
        if golden is None:
            if scoring.complete:
                self.count_unmatched(state.id, scoring.source)
            if not (scorer.scores_every_session and self.goldens.samples_run(session)):
                if not (scoring.complete and settings.report_unmatched):
                    return False
                scorer = scorer.without_metrics
        is_complete = scoring.complete or session.run in state.complete_runs
        if scoring.flushed and not is_complete and isinstance(golden, Golden):
            is_complete = self._saw_every_turn(golden, session, run.scores)
        result = scorer.score(golden, session, final=is_complete, kept=run.scores)
        run.scored = session, self.goldens
        run.complete = (result,) if is_complete else ()
        if is_complete:
            state.complete_runs.add(session.run)
            scoring.output.sessions.append(result)
        if settings.emits:
            less, more = run.evaluations.update(
                result, complete=is_complete, include_values=settings.include_values, events=settings.events
            )
            scoring.removed.extend(less)
            scoring.added.extend(more)
        return True

    def _saw_every_turn(self, golden: Golden, run: Session, scores: KeptRun) -> bool:
        if expected_session(golden, None).is_one_turn:
            return golden.calls is None and bool(run.turns)
        scores.begin(golden, run)
        score = scores.own.score if self.settings.scorer.criterion is None else score_run
        turns = score(golden, run, final=False).turns
        last = len(golden.turns) - 1  # results are in the golden's order, without turns that were not seen
        return last < len(turns) and (last < 0 or turns[last].expected_index is not None)

    def _kept(self, scoring: _Scoring, *, build: bool) -> _KeptSession:
        """Return the fragments of a session, with those of traces that changed. Without `build` turns are outlined."""
        state = scoring.state
        kept = state.kept
        changed: Iterable[str] = state.changed
        if kept is None or kept.build is not build:
            settings = self.settings.assembly
            kept = state.kept = _KeptSession(build, SessionTurns(settings, None if build else _outlined))
            changed = state.traces
        for trace_id in changed:
            part = scoring.part_of(trace_id) if trace_id in state.traces else None
            own = () if part is None else part.fragments
            late = set(map(id, self.late_fragments(own, state)))
            kept.turns.put(trace_id, [one for one in own if id(one) not in late] if late else list(own))
            if part is not None and part.incomplete:
                kept.lacking.add(trace_id)
            else:
                kept.lacking.discard(trace_id)
        state.changed = {}
        return kept

    def _runs(self, kept: _KeptSession) -> list[Session]:
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
        if not state.dropped:
            return []
        gap = self.settings.assembly.session_gap_ns
        return [
            fragment
            for fragment in fragments
            if fragment.start
            and any(began - gap <= fragment.end and fragment.start <= ended + gap for began, ended in state.dropped)
        ]


def _outlined(fragments: TurnFragments, _: AssemblySettings) -> Turn:
    return outline_turn(fragments)
