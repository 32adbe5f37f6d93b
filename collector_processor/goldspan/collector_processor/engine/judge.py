"""Sessions judged: what is ready of a session is scored anew, and what differs from before is handed out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from msgspec import structs

from goldspan.collector_processor.emit.attributes import event_attributes
from goldspan.collector_processor.emit.evaluation import DetailDigest, Evaluation, Level
from goldspan.collector_processor.engine.settings import EngineSettings, EngineStats
from goldspan.collector_processor.engine.store import SessionState, Store, TraceState
from goldspan.mappers.assembly import (
    Fragment,
    TurnFragments,
    build_session,
    build_turn,
    outline_turn,
    runs_of,
    turns_of,
)
from goldspan.mappers.facts import ResourceFacts
from goldspan.scoring.api import score_session
from goldspan.scoring.errors import Problem
from goldspan.scoring.goldens.golden import Golden
from goldspan.scoring.goldens.golden_index import GoldenIndex, split_runs
from goldspan.scoring.metric_results import MetricResult, MetricTurn, Range
from goldspan.scoring.metrics.registry import BUILT_IN_METRICS
from goldspan.scoring.results import CallResult, SessionResult, TurnResult, explain
from goldspan.scoring.sessions import Session, SpanRef, Turn
from goldspan.scoring.verdict import Label, Reason, Verdict

# Results turned into evaluations: one for each call, turn and session, each with an id made from what it judges.

_SHARE = Range(0.0, 1.0)
INCOMPLETE = Verdict(None, Label.NOT_EVALUATED, Reason.INCOMPLETE)


@dataclass(frozen=True, slots=True)
class _Common:
    """What all evaluations of one run share."""

    result: SessionResult
    session: Session
    golden: Golden
    resource: ResourceFacts
    include_values: bool

    def evaluation(
        self,
        level: Level,
        detail: CallResult | TurnResult | SessionResult | MetricTurn | MetricResult,
        *,
        turn_key: str = "",
        call_key: str = "",
        target: SpanRef | None,
        timestamp: int,
        turn_index: int | None = None,
        agent: str | None = None,
        metric: MetricResult | None = None,
    ) -> Evaluation:
        verdict = detail.verdict
        if self.session.incomplete and verdict.label is not Label.PASS:
            verdict = INCOMPLETE
        name = self.result.metric if metric is None else metric.name
        criterion = self.result.criterion if metric is None else _rule(metric)
        return Evaluation(
            id=self._id(level, turn_key, call_key, name, criterion),
            revision=1,
            level=level,
            metric=name,
            verdict=verdict,
            target=target,
            timestamp=timestamp,
            session_id=self.session.id,
            run=self.session.run,
            golden=self.golden.key,
            golden_set=self.golden.golden_set,
            criterion=criterion,
            preset=self.result.preset if metric is None else None,
            detail=detail,
            explanation=self._explanation(detail, metric),
            range=_SHARE if metric is None else metric.range,
            turn_index=turn_index,
            agent=agent,
            resource=self.resource,
            incomplete=self.session.incomplete,
        )

    def _explanation(
        self, detail: CallResult | TurnResult | SessionResult | MetricTurn | MetricResult, metric: MetricResult | None
    ) -> str:
        """Explain without values unless they are wanted: what a preset or a user's metric wrote may hold any."""
        if isinstance(detail, MetricTurn | MetricResult):
            own = metric is not None and metric.name in BUILT_IN_METRICS
            return detail.verdict.explanation if own or self.include_values else ""
        if self.include_values and isinstance(detail, TurnResult | SessionResult) and detail.answer is not None:
            return detail.answer.words or explain(detail)
        return explain(detail, include_values=self.include_values)

    def _id(self, level: Level, turn_key: str, call_key: str, metric: str, criterion: str) -> str:
        identity = [
            self.golden.digest,
            criterion,
            self.session.id,
            self.session.run,
            level.value,
            turn_key,
            call_key,
            metric,
        ]
        return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]


def evaluations_of(result: SessionResult, *, whole: bool, include_values: bool = False) -> list[Evaluation]:
    """List the evaluations of one run, all as revision 1.

    `whole` says that the run is over as far as is known: its session is judged, and so are the turns that never
    came. Without a golden there is nothing to say.
    """
    if result.golden is None or result.session is None:
        return []
    session = result.session
    common = _Common(
        result,
        session,
        result.golden,
        ResourceFacts(
            service_name=_text(session.resource.get("service.name")),
            environment=_text(session.resource.get("deployment.environment.name")),
        ),
        include_values,
    )
    last = session.turns[-1] if session.turns else None
    root, end = (last.root, last.end) if last is not None else (None, 0)
    found: list[Evaluation] = []
    for turn in result.turns:
        if turn.turn is not None:
            found += _turn_evaluations(common, turn, turn.turn.root, turn.turn.end)
        elif whole:
            found += _turn_evaluations(common, turn, root, end)
    if whole:
        found.append(common.evaluation(Level.SESSION, result, target=root, timestamp=end))
    for metric in result.metrics:
        found += _metric_evaluations(common, metric, root, end, whole=whole)
    return found


def _metric_evaluations(
    common: _Common, metric: MetricResult, root: SpanRef | None, end: int, *, whole: bool
) -> Iterator[Evaluation]:
    """List what a metric beside the main one says of each turn and, once the run is over, of the session."""
    for one in metric.turns:
        if one.turn is not None or whole:
            place = root if one.turn is None else one.turn.root
            yield common.evaluation(
                Level.TURN,
                one,
                turn_key=_turn_key(one, place),
                target=place,
                timestamp=end if one.turn is None else one.turn.end,
                turn_index=_turn_index(one),
                agent=None if one.turn is None else one.turn.agent,
                metric=metric,
            )
    if whole:
        yield common.evaluation(Level.SESSION, metric, target=root, timestamp=end, metric=metric)


def _rule(metric: MetricResult) -> str:
    """Name the rule a metric judges by: scores of one rule may be compared."""
    return metric.name if metric.threshold is None else f"{metric.name}>={float(metric.threshold):g}"


def _turn_key(turn: TurnResult | MetricTurn, root: SpanRef | None) -> str:
    return f"expected:{turn.expected_index}" if turn.turn is None or root is None else f"{root.trace_id}/{root.span_id}"


def _turn_index(turn: TurnResult | MetricTurn) -> int | None:
    return turn.expected_index if turn.expected_index is not None else turn.turn_index


def _turn_evaluations(common: _Common, turn: TurnResult, root: SpanRef | None, end: int) -> Iterator[Evaluation]:
    key, index = _turn_key(turn, root), _turn_index(turn)
    agent = turn.turn.agent if turn.turn is not None else None
    for call in (*turn.calls, *turn.unexpected):
        actual = call.actual if call.aligned or call.unexpected else None
        target, timestamp = root, end
        if actual is not None:
            target = actual.span or (actual.evidence[0] if actual.evidence else root)
            timestamp = actual.end or end
        yield common.evaluation(
            Level.CALL,
            call,
            turn_key=key,
            call_key=f"expected:{call.expected_index}" if call.expected is not None else f"actual:{_name(call)}",
            target=target,
            timestamp=timestamp,
            turn_index=index,
            agent=(actual.agent if actual is not None else None) or agent,
        )
    yield common.evaluation(Level.TURN, turn, turn_key=key, target=root, timestamp=end, turn_index=index, agent=agent)


def _name(call: CallResult) -> str:
    """Name an unexpected call by its span, else by its place: a request has no span of its own."""
    span = call.actual.span if call.actual is not None else None
    return f"{span.trace_id}/{span.span_id}" if span is not None else f"#{call.actual_index}"


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def revise(known: dict[str, Evaluation], newest: Mapping[str, Evaluation]) -> list[Evaluation]:
    """Bring `known` up to `newest`, both by id, and return what changed: new results, corrections, withdrawals."""
    changed: list[Evaluation] = []
    for evaluation in newest.values():
        before = known.get(evaluation.id)
        if before is None:
            changed.append(evaluation)
        elif _differs(before, evaluation):
            changed.append(replace(evaluation, revision=before.revision + 1))
    changed += [_withdrawn(before) for before in known.values() if before.id not in newest and not before.withdrawn]
    known.update((evaluation.id, evaluation) for evaluation in changed)
    return changed


def digest_of(evaluation: Evaluation) -> str:
    """Return 16 hex digits that stand for all that is said of a result, whatever its revision."""
    said = event_attributes(replace(evaluation, revision=0))
    text = repr((sorted(said.items()), evaluation.target, evaluation.timestamp))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _differs(before: Evaluation, evaluation: Evaluation) -> bool:
    if isinstance(before.detail, DetailDigest):
        return before.withdrawn or before.detail.digest != digest_of(evaluation)
    return replace(before, revision=evaluation.revision) != evaluation


def _withdrawn(evaluation: Evaluation) -> Evaluation:
    """Take a result back that later records made another run or turn of."""
    return replace(
        evaluation,
        revision=evaluation.revision + 1,
        verdict=INCOMPLETE,
        withdrawn=True,
        explanation="withdrawn: later spans made another turn or run of this one",
    )


_REMEMBERED = 10_000
"""How many sessions without golden are told apart."""


@dataclass(slots=True)
class OutputBuilder:
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
        self,
        session_id: str,
        step: OutputBuilder,
        *,
        over: bool = False,
        flushed: bool = False,
        incomplete: bool = False,
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
            run = structs.replace(session, incomplete=True) if incomplete else session
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
        return [structs.replace(run, incomplete=True) if self._lacks_spans(run) else run for run in runs]

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
