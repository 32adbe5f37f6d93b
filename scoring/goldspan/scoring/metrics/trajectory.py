"""`tool_parameter_match`, and trajectory metrics from the same calls that it scores; `docs/metrics.md` defines each.

An expected and an actual call *match* if they have the same name and the pair scores exactly 1 under the criterion of
the expected call. Optional calls, and calls that stand for one, count on neither side. A session has the mean of its
evaluated turns; a turn whose score depends on arguments that are not known is not evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from goldspan.scoring.align.alignment import Pair, align
from goldspan.scoring.call_match import CallContext, call_rules
from goldspan.scoring.comparison import ONE, ZERO
from goldspan.scoring.goldens.golden import Golden
from goldspan.scoring.results import SessionResult, TurnResult
from goldspan.scoring.session_score import expected_session, score_run
from goldspan.scoring.sessions import CallHistory, IncrementalList, Session, ToolCall, batches_of
from goldspan.scoring.verdict import CALLS_UNKNOWN, MAIN_METRIC, MetricScore, Range, Reason, why_calls_unknown

if TYPE_CHECKING:
    from goldspan.scoring.criterion import Criterion

_PAIR = Pair(ONE)
_RANGE = Range(0.0, 1.0)
_UNSAID = CALLS_UNKNOWN | {Reason.NOTHING_EXPECTED, Reason.TURN_NOT_EXPECTED}
"""Reasons that make the calls of a turn unreliable."""


class ToolParameterMatch:
    """How well the arguments of tool calls match those that were expected; scored by the golden's criterion."""

    name = MAIN_METRIC
    description = "The share of expected arguments that were passed as expected, over calls, turns and the session."
    range = _RANGE

    def __call__(self, session: Session, golden: Golden) -> SessionResult:
        """Judge a session."""
        return score_run(golden, session)


class Counts(NamedTuple):
    """How many calls there are, and how many pairs of them match."""

    expected: int
    actual: int
    matched: int


class TurnCalls:
    """The expected calls of a turn and those that were made; each pair is scored once, for all metrics."""

    def __init__(
        self, turn: TurnResult, session: Session, golden: Golden, override: Criterion | None, history: CallHistory
    ) -> None:
        expected = [call.expected for call in turn.calls if call.expected is not None and not call.expected.optional]
        self.reason = _why_unsaid(turn, session) or (None if expected else Reason.NOTHING_EXPECTED)
        """Why the turn is not evaluated, if it is not."""
        reasons = (call.verdict.reason for call in turn.calls if call.verdict.reason)
        self.unknown = next(reasons, Reason.ARGUMENTS_NOT_CAPTURED)
        """Why a score is not known, where it depends on what is not known."""
        judging = override or _criterion_of(turn, golden)
        self._rules = [call_rules(call, override or call.criterion or judging) for call in expected]
        self._context = CallContext(history, turn.turn)
        self._calls, batches = _calls_of(turn, session, judging)
        self._batches = batches if judging.parallel_calls == "any_order" else None
        self._same: dict[tuple[int, int], bool | None] = {}  # whether pairs match; None: perhaps
        self._counts: dict[tuple[bool, bool], Counts] = {}

    def counts(self, *, ordered: bool, known: bool) -> Counts:
        """Count the calls and the most pairs that match, in order or in any: surely so, or perhaps if not `known`."""
        if (ordered, known) not in self._counts:
            alignment = align(
                [rules.expected.name for rules in self._rules],
                [call.name for call in self._calls],
                lambda row, column: _PAIR if self._is_match(row, column, known=known) else None,
                ordered=ordered,
                batches=self._batches,
                groups=[rules.expected.group for rules in self._rules],
            )
            matched = sum(partner is not None for partner in alignment.partners)
            self._counts[ordered, known] = Counts(len(self._rules), len(self._calls), matched)
        return self._counts[ordered, known]

    def _is_match(self, row: int, column: int, *, known: bool) -> bool:
        if (row, column) not in self._same:
            rules = self._rules[row]
            bounds = rules.bounds(rules.compare(self._calls[column], column, self._context))
            self._same[row, column] = True if bounds.lowest == 1 else None if bounds.highest == 1 else False
        same = self._same[row, column]
        return same is True if known else same is not False


def update_calls_by_turn(
    calls: IncrementalList[TurnCalls], result: SessionResult, override: Criterion | None = None
) -> None:
    """Update the calls of each turn that `tool_parameter_match` has scored; `override` replaces all criteria."""
    session, golden = result.session, result.golden
    if session is None or golden is None:
        calls.update((), lambda _: TurnCalls.__new__(TurnCalls))
        return
    alone = not result.as_one and not expected_session(golden, override).uses_history
    history = _history_of(result, session, golden)
    calls.update(
        result.turns,
        lambda at: TurnCalls(result.turns[at], session, golden, override, history),
        at_most=None if alone else 0,
    )


@dataclass(frozen=True, slots=True)
class TrajectoryMetric:
    """One of the metrics above."""

    name: str
    description: str
    ordered: bool
    score: Callable[[Counts], Fraction]
    range: Range = _RANGE

    def __call__(self, session: Session, golden: Golden) -> MetricScore:
        """Judge a session by the golden's own criteria."""
        result = score_run(golden, session)
        calls: IncrementalList[TurnCalls] = IncrementalList()
        update_calls_by_turn(calls, result)
        return MetricScore(mean([self.of_turn(turn) for turn in calls.made]), reason=result.verdict.reason)

    def of_turn(self, turn: TurnCalls) -> MetricScore:
        """Judge a turn."""
        if turn.reason is not None:
            return MetricScore(None, reason=turn.reason)
        least = turn.counts(ordered=self.ordered, known=True)
        score = self.score(least)
        words = f"{least.matched} of {least.expected} expected calls match, {least.actual} were made"
        if score != self.score(turn.counts(ordered=self.ordered, known=False)):
            return MetricScore(None, words, turn.unknown)
        return MetricScore(score, words)


def _criterion_of(turn: TurnResult, golden: Golden) -> Criterion:
    """Return the criterion that judges a turn: its own, or that of the golden."""
    index = turn.expected_index
    own = golden.turns[index].criterion if index is not None and index < len(golden.turns) else None
    return golden.criterion if own is None or turn.turn_index is None else own


def mean(turns: Sequence[MetricScore]) -> Fraction | None:
    """Return the mean over evaluated turns, none where there is none."""
    scores = [Fraction(turn.score) for turn in turns if turn.score is not None]
    return sum(scores, ZERO) / len(scores) if scores else None


def _history_of(result: SessionResult, session: Session, golden: Golden) -> CallHistory:
    """Return what earlier calls returned, for expected values that come from there."""
    expected = [turn.calls for turn in golden.turns] if golden.calls is None else [golden.calls]
    tools = [[call.name for call in calls] for calls in expected]
    history = CallHistory(session.turns, tools, complete=not session.incomplete)
    for turn in result.turns:
        if turn.expected_index is not None and turn.turn_index is not None:
            history.record(turn.expected_index, turn.aligned_calls())
    return history


def _why_unsaid(turn: TurnResult, session: Session) -> Reason | None:
    """Say why the calls that are known of a turn are perhaps not all of them, if so."""
    if turn.verdict.reason in _UNSAID:
        return turn.verdict.reason
    unknown = None if turn.turn is None else why_calls_unknown(turn.turn)
    return unknown or (Reason.INCOMPLETE if session.incomplete else None)


def _calls_of(turn: TurnResult, session: Session, judging: Criterion) -> tuple[list[ToolCall], list[int]]:
    """List the calls that count, and the batch of each; all of the session's where its turns were scored as one."""
    if turn.turn is None:
        return [], []
    absorbed = {one.actual_index for one in turn.calls if one.aligned and one.expected and one.expected.optional}
    parts = session.turns if turn.turn_index is None else (turn.turn,)
    made = [call for part in parts for call in part.calls]
    calls: list[ToolCall] = []
    batches: list[int] = []
    for place, (call, batch) in enumerate(zip(made, batches_of(parts), strict=True)):
        refused = call.rejected and judging.rejected_requests == "report"
        failed = call.error is not None and judging.failed_calls == "ignore"
        if place not in absorbed and not refused and not failed:
            calls.append(call)
            batches.append(batch)
    return calls, batches


def _all_and_no_other(counts: Counts) -> Fraction:
    return Fraction(counts.matched == counts.expected == counts.actual)


def _all(counts: Counts) -> Fraction:
    return Fraction(counts.matched == counts.expected)


def _precision(counts: Counts) -> Fraction:
    """Without a call nothing was right."""
    return Fraction(counts.matched, counts.actual) if counts.actual else ZERO


def _recall(counts: Counts) -> Fraction:
    return Fraction(counts.matched, counts.expected)


def _f1(counts: Counts) -> Fraction:
    return Fraction(2 * counts.matched, counts.actual + counts.expected)


TRAJECTORY_METRICS = (
    TrajectoryMetric(
        "trajectory_exact_match",
        "Whether the calls are the expected ones in the expected order, and no others; over turns, the share that are.",
        ordered=True,
        score=_all_and_no_other,
    ),
    TrajectoryMetric(
        "trajectory_in_order_match",
        "Whether the expected calls were made in the expected order, whatever else was; over turns, the share.",
        ordered=True,
        score=_all,
    ),
    TrajectoryMetric(
        "trajectory_any_order_match",
        "Whether the expected calls were made, in any order, whatever else was; over turns, the share.",
        ordered=False,
        score=_all,
    ),
    TrajectoryMetric("trajectory_precision", "The share of calls that were expected.", ordered=False, score=_precision),
    TrajectoryMetric("trajectory_recall", "The share of expected calls that were made.", ordered=False, score=_recall),
    TrajectoryMetric(
        "trajectory_f1", "The harmonic mean of trajectory precision and recall.", ordered=False, score=_f1
    ),
)
