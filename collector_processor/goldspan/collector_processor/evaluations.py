"""Results turned into evaluations: one for each call, turn and session, each with an id made from what it judges."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from goldspan.collector_processor.emit.attributes import event_attributes
from goldspan.collector_processor.evaluation import Evaluation, Level, Remembered
from goldspan.mappers.facts import ResourceFacts
from goldspan.scoring.explanation import explain
from goldspan.scoring.goldens.models import Golden
from goldspan.scoring.metrics.registry import OWN
from goldspan.scoring.metrics.results import MetricResult, MetricTurn, Range
from goldspan.scoring.results import CallResult, Label, Reason, SessionResult, TurnResult, Verdict
from goldspan.scoring.sessions import Session, SpanRef

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
            own = metric is not None and metric.name in OWN
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
    if isinstance(before.detail, Remembered):
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
