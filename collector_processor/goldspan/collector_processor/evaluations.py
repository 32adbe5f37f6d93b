"""Results turned into evaluations: one for each call, turn and session, each with an id made from what it judges."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from goldspan.collector_processor.evaluation import Evaluation, Level
from goldspan.mappers.facts import ResourceFacts
from goldspan.scoring.explanation import explain
from goldspan.scoring.goldens.models import Golden
from goldspan.scoring.results import CallResult, Label, Reason, SessionResult, TurnResult, Verdict
from goldspan.scoring.sessions import Session, SpanRef

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
        detail: CallResult | TurnResult | SessionResult,
        *,
        turn_key: str = "",
        call_key: str = "",
        target: SpanRef | None,
        timestamp: int,
        turn_index: int | None = None,
        agent: str | None = None,
    ) -> Evaluation:
        verdict = detail.verdict
        if self.session.incomplete and verdict.label is not Label.PASS:
            verdict = INCOMPLETE
        return Evaluation(
            id=self._id(level, turn_key, call_key),
            revision=1,
            level=level,
            metric=self.result.metric,
            verdict=verdict,
            target=target,
            timestamp=timestamp,
            session_id=self.session.id,
            run=self.session.run,
            golden=self.golden.key,
            golden_set=self.golden.golden_set,
            criterion=self.result.criterion,
            preset=None,
            detail=detail,
            explanation=explain(detail, include_values=self.include_values),
            turn_index=turn_index,
            agent=agent,
            resource=self.resource,
            incomplete=self.session.incomplete,
        )

    def _id(self, level: Level, turn_key: str, call_key: str) -> str:
        identity = [
            self.golden.digest,
            self.result.criterion,
            self.session.id,
            self.session.run,
            level.value,
            turn_key,
            call_key,
            self.result.metric,
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
    return found


def _turn_evaluations(common: _Common, turn: TurnResult, root: SpanRef | None, end: int) -> Iterator[Evaluation]:
    key = f"expected:{turn.expected_index}" if turn.turn is None or root is None else f"{root.trace_id}/{root.span_id}"
    index = turn.expected_index if turn.expected_index is not None else turn.turn_index
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
        elif replace(before, revision=evaluation.revision) != evaluation:
            changed.append(replace(evaluation, revision=before.revision + 1))
    changed += [_withdrawn(before) for before in known.values() if before.id not in newest and not before.withdrawn]
    known.update((evaluation.id, evaluation) for evaluation in changed)
    return changed


def _withdrawn(evaluation: Evaluation) -> Evaluation:
    """Take a result back that later records made another run or turn of."""
    return replace(
        evaluation,
        revision=evaluation.revision + 1,
        verdict=INCOMPLETE,
        withdrawn=True,
        explanation="withdrawn: later spans made another turn or run of this one",
    )
