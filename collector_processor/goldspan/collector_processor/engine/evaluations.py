"""Judging: sessions are scored, their results become evaluations, and evaluations that differ from before are given.

A session is always scored anew from its complete turns. `revise` compares the evaluations with those given before: what
is new has revision 1, what differs is a correction with the next revision, and what is gone is withdrawn.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from json.encoder import encode_basestring_ascii as quoted
from typing import NamedTuple

from msgspec.structs import replace

from goldspan.collector_processor.emit.attributes import event_attributes
from goldspan.collector_processor.emit.evaluation import SHARE, DetailDigest, Evaluation, Level
from goldspan.collector_processor.engine.sessions_without_golden import SessionsWithoutGolden
from goldspan.collector_processor.engine.settings import EngineSettings, EngineStats
from goldspan.collector_processor.engine.store import MemoryStore, SessionState, TraceState
from goldspan.mappers.assembly import (
    Fragment,
    TurnFragments,
    build_session,
    build_turn,
    outline_turn,
    runs_of,
    turns_of,
)
from goldspan.mappers.span_facts import ResourceFacts
from goldspan.scoring.errors import Problem
from goldspan.scoring.goldens.golden import Golden
from goldspan.scoring.goldens.golden_index import GoldenIndex
from goldspan.scoring.metric_results import MetricCall, MetricResult, MetricTurn
from goldspan.scoring.metrics.registry import OWN_NAMES
from goldspan.scoring.metrics.session_metrics import ChosenMetric, score_metrics
from goldspan.scoring.results import CallResult, SessionResult, TurnResult, explain
from goldspan.scoring.session_score import score_run
from goldspan.scoring.sessions import Session, SpanRef, ToolCall, Turn
from goldspan.scoring.turn_join import split_runs
from goldspan.scoring.verdict import Label, Reason, Verdict

INCOMPLETE = Verdict(None, Label.NOT_EVALUATED, Reason.INCOMPLETE)
Detail = CallResult | TurnResult | SessionResult | MetricCall | MetricTurn | MetricResult


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


class Judge:
    """Scores the runs of sessions against their goldens, and keeps their evaluations in the sessions' state."""

    def __init__(self, goldens: GoldenIndex, settings: EngineSettings, stats: EngineStats, store: MemoryStore) -> None:
        """Work on the state of one engine."""
        self.goldens = goldens
        self.settings = settings
        self.stats = stats
        self._store = store
        self._final_scores_nothing_more = all(getattr(one.metric, "by_turn", False) for one in settings.scorer.metrics)
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
    ) -> Mapping[str, Evaluation]:
        """Score the runs of a session anew, output what differs from before, and return all results by id.

        Args:
            session_id: The session; without state nothing happens.
            output: Where evaluations, results and problems are added.
            complete: The session is quiet: its runs are judged as complete, with the turns that never came.
            flushed: Judge a run as complete if every turn of its golden was seen.
            incomplete: Spans of the session were dropped: mark its results.

        """
        state = self._store.session(session_id)
        if state is None:
            return {}
        state.judged = state.judged or complete
        wanted = self.goldens.wants(session_id)
        if not wanted:
            self.count_unmatched(session_id, self._source_of(state))
        if not wanted and not (complete and self.settings.report_unmatched):
            return {}
        results: dict[str, Evaluation] = {}
        scored, state.scored = state.scored, {}
        for session in self._runs(state, build=wanted):
            run = replace(session, incomplete=True) if incomplete else session
            golden = self.goldens.find(run)
            if golden is None and complete:
                self.count_unmatched(session_id, self._source_of(state))
            every = self.settings.scorer.scores_every_session and self.goldens.samples_run(run)
            if golden is None and not every and not (complete and self.settings.report_unmatched):
                continue
            is_complete = complete or run.run in state.complete_runs
            is_complete = is_complete or (flushed and golden is not None and _saw_every_turn(score_run(golden, run)))
            scorer = self.settings.scorer
            if golden is None and not every:  # it is reported, and not in the sample
                scorer = scorer.without_metrics
            result = scored.get(run.run)
            if golden is not None or not every or result is None or result.session != run:
                result = scorer.score(golden, run, final=is_complete)
            if self._final_scores_nothing_more and golden is None and not complete:
                state.scored[run.run] = result
            if is_complete:
                state.complete_runs.add(run.run)
                output.sessions.append(result)
            for evaluation in evaluations_of(result, complete=is_complete, include_values=self.settings.include_values):
                results[evaluation.id] = evaluation
        output.evaluations += revise(state.results, results)
        return results

    def _source_of(self, state: SessionState) -> str:
        """Return the attribute that names a session, or `trace_id`."""
        traces = map(self._store.trace, state.traces)
        fragments = (fragment for trace in traces if trace is not None for fragment in trace.ready)
        return next((one.session.source for one in fragments if one.session.id == state.id), "trace_id")

    def _runs(self, state: SessionState, *, build: bool) -> list[Session]:
        """Return the runs of a session from its complete turns. Without `build` the turns are only outlined."""
        fragments: list[Fragment] = []
        for trace_id in state.traces:
            trace = self._store.trace(trace_id)
            own = [one for one in trace.ready if one.session.id == state.id] if trace is not None else []
            fragments += [one for one in own if not self.is_late(one, state)]
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
            idle = self.settings.assembly.run_idle
            runs += split_runs(session, golden, idle) if isinstance(golden, Golden) else [session]
        return [replace(run, incomplete=True) if self._lacks_spans(run) else run for run in runs]

    def _lacks_spans(self, run: Session) -> bool:
        """Tell whether records of this run were dropped: calls or text of it, or a plain span between others."""
        for trace_id in {trace_id for turn in run.turns for trace_id in turn.trace_ids}:
            trace = self._store.trace(trace_id)
            if trace is not None and trace.lost_text:
                return True
            if trace is not None and trace.reopened:
                orphan = any(fragment.waits_for_caller or fragment.waits_for_remote for fragment in trace.ready)
                if trace.lost_calls or orphan:
                    return True
        return False

    def is_late(self, fragment: Fragment, state: SessionState) -> bool:
        """Tell whether a fragment belongs to a run that was dropped, so that it can correct nothing."""
        if not state.dropped_until or not fragment.start:
            return False
        return fragment.start <= state.dropped_until + self.settings.assembly.session_gap_ns


def _saw_every_turn(result: SessionResult) -> bool:
    golden = result.golden
    return golden is not None and golden.calls is None and all(turn.turn is not None for turn in result.turns)


# Evaluations: one for each call, turn and session.


class _Place(NamedTuple):
    """Which span, turn and call an evaluation is about."""

    target: SpanRef | None
    timestamp: int
    turn_key: str = ""
    call_key: str = ""
    turn_index: int | None = None
    agent: str | None = None


@dataclass(frozen=True, slots=True)
class _RunEvaluations:
    """Makes the evaluations of one run, with what they share."""

    result: SessionResult
    session: Session
    golden: Golden | None
    resource: ResourceFacts
    include_values: bool

    def evaluation(self, level: Level, detail: Detail, place: _Place, metric: MetricResult | None = None) -> Evaluation:
        verdict = detail.verdict
        if self.session.incomplete and verdict.label is not Label.PASS:
            verdict = INCOMPLETE
        name = self.result.metric if metric is None else metric.name
        criterion = self.result.criterion if metric is None else _rule(metric)
        golden = self.golden
        digest = "" if golden is None else golden.digest
        place_of = (level.value, place.turn_key, place.call_key, name)
        return Evaluation(
            id=result_id(digest, criterion, self.session.id, self.session.run, *place_of),
            revision=1,
            level=level,
            metric=name,
            verdict=verdict,
            target=place.target,
            timestamp=place.timestamp,
            session_id=self.session.id,
            run=self.session.run,
            golden="" if golden is None else golden.key,
            golden_set="" if golden is None else golden.golden_set,
            criterion=criterion,
            preset=self.result.preset if metric is None else None,
            detail=detail,
            explanation=self._explanation(detail, metric),
            range=SHARE if metric is None else metric.range,
            turn_index=place.turn_index,
            agent=place.agent,
            resource=self.resource,
            incomplete=self.session.incomplete,
        )

    def _explanation(self, detail: Detail, metric: MetricResult | None) -> str:
        """Explain without values unless they are wanted; the texts of presets and users' metrics may contain any."""
        if isinstance(detail, (MetricCall, MetricTurn, MetricResult)):
            own = metric is not None and metric.name in OWN_NAMES
            if self.include_values:
                return detail.verdict.detailed or detail.verdict.explanation
            return detail.verdict.explanation if own else ""
        if self.include_values and isinstance(detail, (TurnResult, SessionResult)) and detail.answer is not None:
            return detail.answer.words or explain(detail)
        return explain(detail, include_values=self.include_values)

    def of_calls(self, turn: TurnResult, place: _Place) -> Iterator[Evaluation]:
        for call in (*turn.calls, *turn.unexpected_calls):
            actual = call.actual if call.aligned or call.unexpected else None
            key = f"expected:{call.expected_index}" if call.expected is not None else f"actual:{_name(call)}"
            target, timestamp, agent = place.target, place.timestamp, place.agent
            if actual is not None:
                target = actual.span or (actual.evidence[0] if actual.evidence else target)
                timestamp, agent = actual.end or timestamp, actual.agent or agent
            of_call = _Place(target, timestamp, place.turn_key, key, place.turn_index, agent)
            yield self.evaluation(Level.CALL, call, of_call)

    def of_metric(self, metric: MetricResult, end: _Place, *, complete: bool) -> Iterator[Evaluation]:
        """Yield the evaluations of an additional metric: of each call that it judges, of turns, of the session."""
        for turn in metric.turns:
            if turn.turn is None and not complete:
                continue
            place = _place_of_turn(turn, end)
            for one in turn.calls:
                call = one.call
                target = call.span or (call.evidence[0] if call.evidence else place.target)
                key = f"actual:{_span_or_index(call, one.call_index)}"
                at = _Place(
                    target,
                    call.end or place.timestamp,
                    place.turn_key,
                    key,
                    place.turn_index,
                    call.agent or place.agent,
                )
                yield self.evaluation(Level.CALL, one, at, metric)
            yield self.evaluation(Level.TURN, turn, place, metric)
        if complete:
            yield self.evaluation(Level.SESSION, metric, end, metric)


def evaluations_of(result: SessionResult, *, complete: bool, include_values: bool = False) -> list[Evaluation]:
    """Return the evaluations of one run, all with revision 1.

    A `complete` run has an evaluation of its session too, and of the turns that never came. Without a golden, there
    are only those of metrics that need none.
    """
    if result.session is None or (result.golden is None and not result.metrics):
        return []
    session = result.session
    resource = ResourceFacts(
        service_name=_text(session.resource.get("service.name")),
        environment=_text(session.resource.get("deployment.environment.name")),
        service_version=_text(session.resource.get("service.version")),
    )
    run = _RunEvaluations(result, session, result.golden, resource, include_values)
    last = session.turns[-1] if session.turns else None
    end = _Place(None, 0) if last is None else _Place(last.root, last.end)
    found: list[Evaluation] = []
    for turn in result.turns if result.golden is not None else ():
        if turn.turn is not None or complete:
            place = _place_of_turn(turn, end)
            found += run.of_calls(turn, place)
            found.append(run.evaluation(Level.TURN, turn, place))
    if complete and result.golden is not None:
        found.append(run.evaluation(Level.SESSION, result, end))
    for metric in result.metrics:
        found += run.of_metric(metric, end, complete=complete)
    return found


def score_later(
    result: SessionResult, chosen: Sequence[ChosenMetric], *, include_values: bool = False
) -> tuple[tuple[MetricResult, ...], list[Evaluation]]:
    """Score a complete run by the metrics of `Scorer.later`; return their results and evaluations, with revision 1."""
    # Without its golden, so that the golden's own metrics are not scored again.
    metrics = score_metrics(replace(result, golden=None, metrics=()), chosen)
    names = {metric.name for metric in metrics}
    found = evaluations_of(replace(result, metrics=metrics), complete=True, include_values=include_values)
    return metrics, [one for one in found if one.metric in names]


def result_id(*parts: str) -> str:
    """Return 32 hex digits: a hash of the JSON array of these texts."""
    identity = f"[{', '.join(map(quoted, parts))}]"  # as `json.dumps` writes it, at a third of the cost
    return hashlib.sha256(identity.encode()).hexdigest()[:32]


def _place_of_turn(result: TurnResult | MetricTurn, end_of_run: _Place) -> _Place:
    """Return the root of a turn; that of the run's last turn for a turn that never came."""
    index = result.expected_index if result.expected_index is not None else result.turn_index
    turn = result.turn
    if turn is None:
        return end_of_run._replace(turn_key=f"expected:{result.expected_index}", turn_index=index)
    root = turn.root
    key = f"expected:{result.expected_index}" if root is None else f"{root.trace_id}/{root.span_id}"
    return _Place(root, turn.end, key, turn_index=index, agent=turn.agent)


def _rule(metric: MetricResult) -> str:
    """Name the rule that a metric judges by; scores of the same rule are comparable."""
    return metric.name if metric.threshold is None else f"{metric.name}>={float(metric.threshold):g}"


def _name(call: CallResult) -> str:
    """Name an unexpected call by its span, else by its index: a call that was only requested has no span."""
    return f"#{call.actual_index}" if call.actual is None else _span_or_index(call.actual, call.actual_index)


def _span_or_index(call: ToolCall, index: int | None) -> str:
    return f"#{index}" if call.span is None else f"{call.span.trace_id}/{call.span.span_id}"


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def revise(known: dict[str, Evaluation], newest: Mapping[str, Evaluation]) -> list[Evaluation]:
    """Update `known` to `newest`, both by id, and return the changes: new evaluations, corrections, withdrawals."""
    changed: list[Evaluation] = []
    for evaluation in newest.values():
        before = known.get(evaluation.id)
        if before is None:
            changed.append(evaluation)
        elif _differs(before, evaluation):
            changed.append(replace(evaluation, revision=before.revision + 1))
    gone = [before for before in known.values() if before.id not in newest and not before.withdrawn]
    why = "withdrawn: later spans made another turn or run of this one"
    changed += (
        replace(one, revision=one.revision + 1, verdict=INCOMPLETE, withdrawn=True, explanation=why) for one in gone
    )
    known.update((evaluation.id, evaluation) for evaluation in changed)
    return changed


def digest_of(evaluation: Evaluation) -> str:
    """Return 16 hex digits: a hash of an evaluation as it is emitted, without its revision."""
    attributes = event_attributes(replace(evaluation, revision=0))
    text = repr((sorted(attributes.items()), evaluation.target, evaluation.timestamp))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _differs(before: Evaluation, evaluation: Evaluation) -> bool:
    if isinstance(before.detail, DetailDigest):
        return before.withdrawn or before.detail.digest != digest_of(evaluation)
    return replace(before, revision=evaluation.revision) != evaluation
