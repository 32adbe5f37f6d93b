"""Results as evaluations: one for each call, turn and session, and what changed since others were given.

What was made of turns that did not change is kept, and is what would be made again. `revise` compares the evaluations
with those given before: what is new has revision 1, what differs is a correction with the next revision, and what is
gone is withdrawn.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from json.encoder import encode_basestring_ascii as quoted
from operator import attrgetter
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from goldspan.collector_processor.emit.evaluation import (
    SHARE,
    DetailDigest,
    Evaluation,
    Events,
    Level,
    attributes_of_detail,
)
from goldspan.mappers.span_facts import ResourceFacts
from goldspan.scoring.goldens.golden import Golden
from goldspan.scoring.metrics.session_metrics import OWN_NAMES, ChosenMetric, score_metrics
from goldspan.scoring.results import CallResult, SessionResult, TurnResult, explain
from goldspan.scoring.sessions import IncrementalList, Session, SpanRef, ToolCall
from goldspan.scoring.verdict import Label, MetricCall, MetricResult, MetricTurn, Reason, Verdict

INCOMPLETE = Verdict(None, Label.NOT_EVALUATED, Reason.INCOMPLETE)
Detail = CallResult | TurnResult | SessionResult | MetricCall | MetricTurn | MetricResult


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
    events: Events
    rules: Mapping[str, str]  # by what each metric judges

    def evaluation(self, level: Level, detail: Detail, place: _Place, metric: MetricResult | None = None) -> Evaluation:
        verdict = detail.verdict
        if self.session.incomplete and verdict.label is not Label.PASS:
            verdict = INCOMPLETE
        name = self.result.metric if metric is None else metric.name
        criterion = self.result.criterion if metric is None else self.rules[metric.name]
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
            golden_digest=digest,
            criterion=criterion,
            preset=self.result.preset if metric is None else None,
            detail=detail,
            explanation=self._explanation(detail, metric),
            range=SHARE if metric is None else metric.range,
            turn_index=place.turn_index,
            agent=place.agent,
            resource=self.resource,
            incomplete=self.session.incomplete,
            has_event=self.events.tell(detail, metric),
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
            yield self.evaluation(Level.CALL, call, _place_of_call(actual, key, place))

    def of_metric_calls(self, metric: MetricResult, turn: MetricTurn, place: _Place) -> Iterator[Evaluation]:
        for one in turn.calls:
            key = f"actual:{_span_or_index(one.call, one.call_index)}"
            yield self.evaluation(Level.CALL, one, _place_of_call(one.call, key, place), metric)

    def of_turn(
        self, turn: TurnResult | MetricTurn, metric: MetricResult | None, end: _Place, *, complete: bool
    ) -> Iterator[Evaluation]:
        """Yield the evaluations of a turn and its calls; none of a turn that may still come."""
        if turn.turn is None and not complete:
            return
        place = _place_of_turn(turn, end)
        if isinstance(turn, TurnResult):
            yield from self.of_calls(turn, place)
        elif metric is not None:
            yield from self.of_metric_calls(metric, turn, place)
        yield self.evaluation(Level.TURN, turn, place, metric)


_Group = tuple[Evaluation, ...]


class _MetricEvaluations:
    """The evaluations that one metric gave a run: those of each turn with its calls, and that of the session."""

    def __init__(self, rule: tuple[object, ...]) -> None:
        self.rule = rule
        self._turns: IncrementalList[_Group] = IncrementalList()
        self._unseen: int | None = None  # the first turn that never came: it stands where the run ends
        self._session: _Group = ()

    def all(self) -> list[Evaluation]:
        return [*chain.from_iterable(self._turns.made), *self._session]

    def update(
        self, run: _RunEvaluations, metric: MetricResult | None, end: _Place, *, complete: bool, moved: bool
    ) -> tuple[list[Evaluation], list[Evaluation]]:
        """Update them to a new result, and return those that are gone and those that are new.

        `moved`: the run ends elsewhere, or is complete now, so that what is said of turns that never came differs.
        """
        detail = run.result if metric is None else metric
        turns: Sequence[TurnResult | MetricTurn] = detail.turns

        def of_turn(at: int) -> _Group:
            return tuple(run.of_turn(turns[at], metric, end, complete=complete))

        first, gone = self._turns.update(turns, of_turn, at_most=self._unseen if moved else None)
        if self._unseen is None or self._unseen >= first:
            self._unseen = next((at for at in range(first, len(turns)) if turns[at].turn is None), None)
        removed = [*chain.from_iterable(gone), *self._session]
        self._session = (run.evaluation(Level.SESSION, detail, end, metric),) if complete else ()
        return removed, [*chain.from_iterable(self._turns.made[first:]), *self._session]


class RunEvaluations:
    """The evaluations of one run, all with revision 1, as they change while the run grows."""

    def __init__(self) -> None:
        self._shared: tuple[object, ...] = ()
        self._end = _Place(None, 0)
        self._complete = False
        self._levels: dict[str, _MetricEvaluations] = {}  # by metric, the golden's score first

    def all(self) -> list[Evaluation]:
        """Return the evaluations that stand."""
        return [evaluation for level in self._levels.values() for evaluation in level.all()]

    def update(
        self, result: SessionResult, *, complete: bool, include_values: bool = False, events: Events = Events.FINDINGS
    ) -> tuple[list[Evaluation], list[Evaluation]]:
        """Update them to a new result. Return those that do not stand any longer, and those that are new.

        What is returned as new may be equal to one that does not stand: it was made anew. A `complete` run has an
        evaluation of its session too, and of the turns that never came. Without a golden, there are only those of
        metrics that need none.
        """
        session, golden = result.session, result.golden
        if session is None:
            return self._removed(), []
        resource = ResourceFacts(
            service_name=_text(session.resource.get("service.name")),
            environment=_text(session.resource.get("deployment.environment.name")),
            service_version=_text(session.resource.get("service.version")),
        )
        shared = (
            *(id(golden), result.criterion, result.preset, result.metric, session.id, session.run, session.incomplete),
            *(resource, include_values, events),
        )
        removed = [] if shared == self._shared else self._removed()
        self._shared = shared
        rules = {metric.name: _rule(metric) for metric in result.metrics}
        run = _RunEvaluations(result, session, golden, resource, include_values, events, rules)
        last = session.turns[-1] if session.turns else None
        end = _Place(None, 0) if last is None else _Place(last.root, last.end)
        # What is said of turns that were not seen: only a complete run lacks them, at the root of its last turn.
        moved, self._end, self._complete = (end, complete) != (self._end, self._complete), end, complete
        before, self._levels = self._levels, {}
        added: list[Evaluation] = []
        for metric in (None, *result.metrics) if golden is not None else result.metrics:
            name = "" if metric is None else metric.name
            rule = () if metric is None else (rules[name], metric.range)
            level = before.pop(name, None)
            if level is None or level.rule != rule:
                removed += () if level is None else level.all()
                level = _MetricEvaluations(rule)
            self._levels[name] = level
            less, more = level.update(run, metric, end, complete=complete, moved=moved)
            removed += less
            added += more
        for level in before.values():
            removed += level.all()
        return removed, added

    def _removed(self) -> list[Evaluation]:
        removed = self.all()
        self._levels = {}
        return removed


def evaluations_of(
    result: SessionResult, *, complete: bool, include_values: bool = False, events: Events = Events.FINDINGS
) -> list[Evaluation]:
    """Return the evaluations of one run, as `RunEvaluations` does."""
    return RunEvaluations().update(result, complete=complete, include_values=include_values, events=events)[1]


def score_later(
    result: SessionResult,
    chosen: Sequence[ChosenMetric],
    *,
    include_values: bool = False,
    events: Events = Events.FINDINGS,
) -> tuple[tuple[MetricResult, ...], list[Evaluation]]:
    """Score a complete run by the metrics of `Scorer.later`; return their results and evaluations, with revision 1."""
    # Without its golden, so that the golden's own metrics are not scored again.
    metrics = score_metrics(replace(result, golden=None, metrics=()), chosen)
    names = {metric.name for metric in metrics}
    found = evaluations_of(
        replace(result, metrics=metrics), complete=True, include_values=include_values, events=events
    )
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


def _place_of_call(call: ToolCall | None, key: str, turn: _Place) -> _Place:
    """Return the span of a call; the root of its turn for a call that was not made."""
    target, timestamp, agent = turn.target, turn.timestamp, turn.agent
    if call is not None:
        target = call.span or (call.evidence[0] if call.evidence else target)
        timestamp, agent = call.end or timestamp, call.agent or agent
    return _Place(target, timestamp, turn.turn_key, key, turn.turn_index, agent)


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


def revise(
    known: dict[str, Evaluation], newest: Mapping[str, Evaluation], removed: Iterable[Evaluation] | None = None
) -> list[Evaluation]:
    """Update `known` to `newest`, both by id, and return the changes: new evaluations, corrections, withdrawals.

    `removed` are those that may be gone; None: all that are known.
    """
    changed: list[Evaluation] = []
    for evaluation in newest.values():
        before = known.get(evaluation.id)
        if before is None:
            changed.append(evaluation)
        elif _differs(before, evaluation):
            has_event = evaluation.has_event or before.has_event  # what was said is corrected
            changed.append(replace(evaluation, revision=before.revision + 1, has_event=has_event))
    may_be = known if removed is None else dict.fromkeys(one.id for one in removed)
    gone = [known[key] for key in may_be if key not in newest and not known[key].withdrawn]
    why = "withdrawn: later spans made another turn or run of this one"
    changed += (
        replace(one, revision=one.revision + 1, verdict=INCOMPLETE, withdrawn=True, explanation=why) for one in gone
    )
    known.update((evaluation.id, evaluation) for evaluation in changed)
    return changed


_EMITTED = attrgetter(
    *("id", "level", "metric", "target", "timestamp", "session_id", "run", "golden", "golden_set", "criterion"),
    *("preset", "explanation", "turn_index", "agent", "resource", "incomplete", "withdrawn"),
)
_encode = msgspec.msgpack.Encoder().encode


def digest_of(evaluation: Evaluation) -> str:
    """Return 16 hex digits: a hash of an evaluation as it is emitted, without its revision."""
    verdict = evaluation.verdict
    emitted = (
        *_EMITTED(evaluation),
        *(verdict.score, verdict.label, verdict.reason, attributes_of_detail(evaluation)),
    )
    try:
        content = _encode(emitted)
    except (OverflowError, UnicodeEncodeError):  # a number of more than 64 bits, half a character
        content = repr(emitted).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def _differs(before: Evaluation, evaluation: Evaluation) -> bool:
    if isinstance(before.detail, DetailDigest):
        return before.withdrawn or before.detail.digest != digest_of(evaluation)
    return replace(before, revision=evaluation.revision, has_event=evaluation.has_event) != evaluation
