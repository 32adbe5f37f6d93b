"""What metrics without golden found, ranked by rarity and severity: what is worth a person's minute comes first.

    refund.order_id (no origin)       3 of 200 sessions    rare: perhaps a mistake of these sessions
    refund.request_id (no origin)   200 of 200 sessions    systematic: it says more of the agent than of a session

A finding is an argument and what is wrong with it. It is systematic if more than 30 % of the sessions in which the
agent called the tool have it. From 100 sessions of an agent on, these sessions are also each other's profile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from goldspan.scoring.grounding.leaves import argument_name
from goldspan.scoring.json_values import plain
from goldspan.scoring.metrics import argument_profile
from goldspan.scoring.metrics.call_scores import RunningScore
from goldspan.scoring.metrics.session_metrics import PROFILE_METRIC, ChosenMetric, KeptMetric, score_metrics
from goldspan.scoring.pages import counted, printable
from goldspan.scoring.result_words import GROUNDING, judged_calls, kind_words
from goldspan.scoring.results import SessionResult
from goldspan.scoring.sessions import Session, Turn
from goldspan.scoring.verdict import Finding, Label, MetricCall, MetricResult, MetricScore

SCHEMA, REPETITION = "tool_parameter_schema", "tool_call_repetition"
_SEVERITY = {SCHEMA: 1.0, GROUNDING: 0.9, PROFILE_METRIC: 0.8, REPETITION: 0.2}
_OTHERS = 0.7
_SEVERITY_OF_DEVIATION = {
    **dict.fromkeys(map(str, argument_profile.RULES), 0.9),
    **dict.fromkeys(("usual_origin", "passed", "shape", "sign"), 0.6),
    "equals": 0.5,
}
SYSTEMATIC_WORDS = "most sessions have it, so it tells of the agent and not of a mistake"
_WEAK = frozenset((REPETITION,))  # metrics whose findings right sessions have as often: a rare one fails nothing


class Place(NamedTuple):
    """Where something was found."""

    session: int
    """Position of the session's result."""
    name: str
    """The session's id."""
    turn: int
    """Position of the turn, from 0."""
    call: MetricCall
    finding: Finding

    @property
    def words(self) -> str:
        """Name the place: `sess-7, turn 2, call 1`."""
        return f"{printable(self.name)}, turn {self.turn + 1}, call {self.call.call_index + 1}"


class RankedFinding(Struct, frozen=True):
    """What was found of one argument, in so many sessions of those in which it could be."""

    metric: str
    agent: str
    argument: str
    """`refund.order_id`; the tool alone for a call as a whole."""
    kind: str
    words: str
    """The kind in words: `no origin`."""
    sessions: int
    of: int
    severity: float
    places: tuple[Place, ...]

    @property
    def systematic(self) -> bool:
        """Whether so many sessions have it that it is no mistake of theirs."""
        return argument_profile.is_systematic(self.sessions, self.of)

    @property
    def rank(self) -> float:
        """Severity times rarity: the share of the sessions that do not have it."""
        return self.severity * (1 - self.sessions / (self.of + 1))

    @property
    def share(self) -> str:
        """In how many sessions it is: `3 of 200 sessions`."""
        return f"{self.sessions:,} of {counted(self.of, 'session')}"

    @property
    def name(self) -> str:
        """Name it without values: `refund.order_id (no origin)`."""
        return printable(f"{self.argument} ({self.words})")

    @property
    def settled_by(self) -> str:
        """The sentence that says what settles a systematic finding."""
        if self.metric == GROUNDING:
            return f"made by the agent? then `generated: [{self.argument}]` in its profile"
        if self.metric == SCHEMA:
            return "is the definition of the tool right?"
        if self.metric == PROFILE_METRIC:
            return "has the agent changed? then learn its profile again"
        return "the agent works so"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values in a fixed order."""
        return {
            "metric": self.metric,
            "agent": plain(self.agent),
            "argument": plain(self.argument),
            "kind": self.kind,
            "sessions": self.sessions,
            "of": self.of,
            "rank": round(self.rank, 4),
            "places": [
                {
                    "session": plain(one.name),
                    "turn": one.turn,
                    "call": one.call.call_index,
                    "call_id": plain(one.call.call.call_id),
                    "path": plain(one.finding.path),
                    "message": plain(one.finding.words(include_values=True)),
                }
                for one in self.places
            ],
        }


class RankedFindings(Struct, frozen=True):
    """All findings of a run: those of few sessions, the worst and rarest first, and those that most sessions have."""

    rare: tuple[RankedFinding, ...] = ()
    systematic: tuple[RankedFinding, ...] = ()

    @property
    def sessions(self) -> frozenset[int]:
        """The positions of the sessions that have a rare finding; those of repetitions do not count."""
        return frozenset(place.session for one in self.rare if one.metric not in _WEAK for place in one.places)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values in a fixed order."""
        return {"rare": [one.to_json() for one in self.rare], "systematic": [one.to_json() for one in self.systematic]}


_Key = tuple[str, str, str, str]  # metric, agent, argument and kind


def rank_findings(results: Sequence[SessionResult]) -> RankedFindings:
    """Rank what was found in sessions without golden; what several metrics say of one argument is said once."""
    places: dict[_Key, list[Place]] = {}
    asked: Counter[tuple[str, str, str]] = Counter()
    for index, result in enumerate(results):
        name = "" if result.session is None else result.session.id
        in_session: set[tuple[str, str, str]] = set()
        for metric, turn, call in _judged_without_golden(result):
            agent, tool = _agent_of(metric, turn, call), call.call.name
            in_session.add((metric.name, agent, tool))
            for one in call.failures:
                key = metric.name, agent, argument_name(tool, one.path), one.kind
                places.setdefault(key, []).append(Place(index, name, turn, call, one))
        asked.update(in_session)
    ranked = sorted(_ranked(places, asked), key=lambda one: (-one.rank, one.argument, one.metric, one.kind))
    said: set[tuple[int, int, int, str]] = set()
    rare: list[RankedFinding] = []
    for found in (found for found in ranked if not found.systematic):
        new = [place for place in found.places if _argument_at(place) not in said]
        said.update(map(_argument_at, new))
        if new:
            rare.append(found if len(new) == len(found.places) else replace(found, places=tuple(new)))
    return RankedFindings(tuple(rare), tuple(one for one in ranked if one.systematic))


def _judged_without_golden(result: SessionResult) -> Iterator[tuple[MetricResult, int, MetricCall]]:
    for metric in () if result.has_golden else result.metrics:
        yield from ((metric, turn, call) for turn, call in judged_calls(metric))


def _ranked(
    places: Mapping[_Key, Sequence[Place]], asked: Mapping[tuple[str, str, str], int]
) -> Iterator[RankedFinding]:
    for (metric, agent, argument, kind), found in places.items():
        first = found[0]
        severity = _SEVERITY_OF_DEVIATION.get(kind) if metric == PROFILE_METRIC else None
        yield RankedFinding(
            metric=metric,
            agent=agent,
            argument=argument,
            kind=kind,
            words=kind_words(first.finding),
            sessions=len({place.session for place in found}),
            of=asked[metric, agent, first.call.call.name],
            severity=_SEVERITY.get(metric, _OTHERS) if severity is None else severity,
            places=tuple(found),
        )


def _argument_at(place: Place) -> tuple[int, int, int, str]:
    return place.session, place.turn, place.call.call_index, "/".join(place.finding.path.split("/")[:2])


def _agent_of(metric: MetricResult, turn: int, call: MetricCall) -> str:
    if call.call.agent:
        return call.call.agent
    made = metric.turns[turn].turn if turn < len(metric.turns) else None
    return (made.agent if made is not None else "") or ""


def with_own_profile(results: Sequence[SessionResult]) -> tuple[SessionResult, ...]:
    """Judge sessions also by the profile of them all, where an agent has enough; relations to results are not in it."""
    grounded = {
        index: metric
        for index, result in enumerate(results)
        for metric in result.metrics
        if metric.name == GROUNDING and result.session is not None and not result.has_golden
    }
    if any(one.name == PROFILE_METRIC for result in results for one in result.metrics):
        return tuple(results)
    learning = argument_profile.Learning()
    for metric in grounded.values():
        learning.add_observed(
            list(argument_profile.observations(call.call, _agent_of(metric, turn, call), call.findings))
            for turn, call in judged_calls(metric)
        )
    profile = learning.profile
    if not any(map(profile.knows, profile.sessions)):
        return tuple(results)
    chosen = [ChosenMetric(argument_profile.ToolParameterProfile(profile=profile))]
    return tuple(
        _judged(result, grounded[index], chosen) if index in grounded else result
        for index, result in enumerate(results)
    )


def _judged(result: SessionResult, metric: MetricResult, chosen: Sequence[ChosenMetric]) -> SessionResult:
    """Add what the profile says of the calls that the metric of grounding judged."""
    turns = [
        replace(turn.turn or Turn(), calls=tuple(call.call for call in turn.calls)) for turn in metric.turns
    ]  # fmt: skip
    calls = KeptMetric()
    calls.running = _Known(metric)
    assert result.session is not None
    own = replace(result, session=replace(result.session, turns=tuple(turns)))
    return replace(result, metrics=(*result.metrics, *score_metrics(own, chosen, kept={GROUNDING: calls})))


class _Known(RunningScore):
    """Origins that were found before."""

    def __init__(self, metric: MetricResult) -> None:
        super().__init__("value")
        self._metric = metric

    def __call__(self, _session: Session) -> MetricScore:
        """Return the findings of the calls."""
        return MetricScore(
            None,
            turns=[
                MetricScore(None, calls=[MetricScore(None, findings=call.findings) for call in turn.calls])
                for turn in self._metric.turns
            ],
        )

    def _begin(self, session: Session, same: int) -> int:
        raise NotImplementedError

    def _judged(self, index: int, turn: Turn) -> Sequence[Any]:
        raise NotImplementedError


def failing_rare(results: Sequence[SessionResult], found: RankedFindings) -> tuple[SessionResult, ...]:
    """Let a session fail by each metric without threshold that has a rare finding in it, and by no other finding."""
    rare = {
        (place.session, one.metric, place.turn, place.call.call_index, place.finding)
        for one in found.rare
        if one.metric not in _WEAK
        for place in one.places
    }

    def told(index: int, metric: MetricResult) -> MetricResult:
        def of_call(turn: int, call: MetricCall) -> MetricCall:
            key = index, metric.name, turn, call.call_index
            return replace(call, findings=tuple(replace(one, failed=(*key, one) in rare) for one in call.findings))

        turns = tuple(
            replace(turn, calls=tuple(of_call(turn.turn_index or 0, call) for call in turn.calls))
            for turn in metric.turns
        )
        failed = any(call.failures for turn in turns for call in turn.calls)
        return replace(metric, turns=turns, verdict=replace(metric.verdict, label=Label.FAIL if failed else None))

    return tuple(
        result
        if result.has_golden
        else replace(result, metrics=tuple(told(index, one) if _informs(one) else one for one in result.metrics))
        for index, result in enumerate(results)
    )


def _informs(metric: MetricResult) -> bool:
    return metric.threshold is None and not metric.needs_golden
