"""Score one turn against its expected calls: align the calls, compare each pair, and aggregate the scores."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from fractions import Fraction
from itertools import chain, islice
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from goldspan.scoring.align.alignment import Alignment, Pair, PairScorer, align
from goldspan.scoring.call_match import (
    FAILED,
    PASSED,
    UNBOUNDED,
    ZERO_EXACTLY,
    CallContext,
    CallRules,
    ScoreBounds,
    call_rules,
    mean,
    plain_values,
)
from goldspan.scoring.comparison import ONE, ZERO, canonical
from goldspan.scoring.goldens.golden import ANY_TOOL, ExpectedCall
from goldspan.scoring.matchers.matcher import asked_by
from goldspan.scoring.results import CallResult, TurnResult
from goldspan.scoring.sessions import CallHistory, Capture, ToolCall, Turn
from goldspan.scoring.tool_effects import ToolEffect
from goldspan.scoring.verdict import (
    REASON_OF_CAPTURE,
    Label,
    Reason,
    Verdict,
    arguments_of,
    is_hidden,
    why_calls_unknown,
    why_hidden,
    why_not_known,
)

if TYPE_CHECKING:
    from goldspan.scoring.criterion import Criterion

NOT_EXPECTED = Verdict(None, Label.NOT_EVALUATED, Reason.NOTHING_EXPECTED)
"""The verdict on unexpected calls, and on turns without expected calls."""

_CAPTURED, _PASS, _FAIL = Capture.CAPTURED, Label.PASS, Label.FAIL
_WORST_TO_BEST = (Label.FAIL, Label.NOT_EVALUATED, Label.PASS)
OTHER_WRITES = ExpectedCall(ANY_TOOL, forbidden=True)
"""Stands for every writing call that is not expected, where a criterion forbids these."""
_NEAR_MISS_CANDIDATES = 200  # maximum number of unaligned calls of one tool to search for near misses


class ExpectedTurn(Struct, frozen=True, gc=False):
    """The expected calls of a turn, each with the rules for its arguments, and the criterion of the turn."""

    criterion: Criterion
    index: int | None
    """Position among the golden's turns."""
    calls: tuple[CallRules, ...]
    forbidden: tuple[CallRules, ...]
    wanted: tuple[CallRules, ...]
    """The calls that are not forbidden; then their tools, groups and whether they are optional."""
    names: tuple[str, ...]
    groups: tuple[int, ...] | None
    """None: no call is in a group."""
    optional: tuple[bool, ...] | None
    """None: no call is optional."""
    uses_history: bool
    """An expected value may depend on the result of an earlier call."""


def expected_turn(
    calls: Sequence[ExpectedCall], criterion: Criterion, override: Criterion | None, index: int | None = None
) -> ExpectedTurn:
    """Return the expected calls with their criteria; `override` replaces the calls' own."""
    criteria = (override or call.criterion or criterion for call in calls)
    return turn_of(
        [call_rules(*one, place) for place, one in enumerate(zip(calls, criteria, strict=True))], criterion, index
    )


def turn_of(calls: Sequence[CallRules], criterion: Criterion, index: int | None) -> ExpectedTurn:
    """Return a turn with these expected calls; `index` is its position among the golden's turns."""
    wanted = tuple([rules for rules in calls if not rules.expected.forbidden])
    forbidden = tuple([rules for rules in calls if rules.expected.forbidden])
    if criterion.other_writes == "forbid":
        forbidden += (call_rules(OTHER_WRITES, criterion),)
    groups = tuple([rules.expected.group for rules in wanted])
    optional = tuple([rules.expected.optional for rules in wanted])
    return ExpectedTurn(
        criterion,
        index,
        tuple(calls),
        forbidden,
        wanted,
        tuple([rules.expected.name for rules in wanted]),
        groups if any(groups) else None,
        optional if any(optional) else None,
        uses_history=any(asked_by(*rules.expected.values.values()) for rules in calls),
    )


class TurnScore(Struct, frozen=True, gc=False):
    """A turn's result, and the bounds of its score while something is unknown."""

    result: TurnResult
    bounds: ScoreBounds = UNBOUNDED
    forbidden: Verdict | None = None
    """The verdict on forbidden calls; None if no call is forbidden."""
    counts: bool = True
    """The turn has expected calls, so that it counts towards the mean of its session."""


def score_calls(
    expected: ExpectedTurn,
    turn: Turn | None,
    turn_index: int | None = None,
    unseen: Reason | None = None,
    batches: Sequence[int] | None = None,
    history: CallHistory | None = None,
) -> TurnScore:
    """Score a turn; if it is None, every expected call is missing.

    `unseen` is the reason why calls may be missing from the recording: expected calls without a partner are then not
    evaluated. `batches` replaces the batch numbers of the calls. `history` has the results of earlier calls.
    """
    criterion, of_turn = expected.criterion, _CallsOfTurn(expected, turn, unseen, batches, history)
    calls, context, unseen = of_turn.calls, of_turn.context, of_turn.unseen
    results, partners, approximate = of_turn.results()
    unexpected, rejected = split_unpaired(calls, partners, NOT_EXPECTED)
    counted = results if expected.optional is None else [result for result in results if not result.optional]
    verdict, bounds, forbidden = NOT_EXPECTED, UNBOUNDED, None
    if counted:
        penalized = len(unexpected) if criterion.extra_calls == "penalize" else 0
        verdict, bounds = _verdict(counted, expected, penalized, unseen)
        verdict, bounds = of_turn.in_any_alignment(verdict, bounds)
    if expected.forbidden:
        results, unexpected, forbidden = _check_forbidden(expected.forbidden, results, unexpected, unseen, context)
    if unexpected and expected.calls and criterion.repeated_writes == "fail":
        unexpected, repeated = _check_repeats(criterion, turn, unexpected, history)
        forbidden = _VIOLATED if repeated else forbidden
    verdict = with_forbidden(verdict, forbidden)
    result = TurnResult(
        verdict,
        tuple(results),
        tuple(unexpected),
        rejected,
        turn,
        turn_index,
        expected.index,
        len(counted),
        sum([one.verdict.exact is not None for one in counted]),
        sum([one.aligned for one in counted]),
        approximate,
        extra_calls_count=criterion.extra_calls == "penalize",
    )
    return TurnScore(result, bounds, forbidden, bool(counted))


def split_unpaired(
    calls: Sequence[ToolCall], partners: Collection[int | None], verdict: Verdict
) -> tuple[list[CallResult], tuple[ToolCall, ...]]:
    """Return the results of the calls that no expected call is paired with, and the requests that were rejected."""
    taken = set(partners)
    unexpected: list[CallResult] = []
    rejected: list[ToolCall] = []
    for index, call in enumerate(calls):
        if call.rejected:
            rejected.append(call)
        elif index not in taken:
            unexpected.append(CallResult(verdict, None, None, call, index))
    return unexpected, tuple(rejected)


def best_alternative(
    alternatives: Sequence[ExpectedTurn],
    turn: Turn | None,
    turn_index: int | None = None,
    unseen: Reason | None = None,
    batches: Sequence[int] | None = None,
    history: CallHistory | None = None,
) -> TurnScore:
    """Score a turn as `score_calls` does by each of the alternatives of its golden (S7), and return the best score.

    The label decides first, then the verdict on forbidden calls, then the score. Of equal ones the first is returned.
    """
    if len(alternatives) == 1:
        return score_calls(alternatives[0], turn, turn_index, unseen, batches, history)
    scores = [score_calls(expected, turn, turn_index, unseen, batches, history) for expected in alternatives]
    best = max(range(len(scores)), key=lambda index: (*_rank(scores[index]), -index))
    forbidden = scores[best].forbidden
    label = forbidden and forbidden.label
    comparable = [score.bounds for score in scores if (score.forbidden and score.forbidden.label) == label]
    return TurnScore(
        replace(scores[best].result, alternative=best),
        ScoreBounds(max(bounds.lowest for bounds in comparable), max(bounds.highest for bounds in comparable)),
        forbidden,
        scores[best].counts,
    )


def _rank(score: TurnScore) -> tuple[float | Fraction, ...]:
    result, forbidden = score.result, score.forbidden
    return (
        -1 if result.verdict.reason is Reason.NOTHING_EXPECTED else _WORST_TO_BEST.index(result.verdict.label),
        len(_WORST_TO_BEST) if forbidden is None else _WORST_TO_BEST.index(forbidden.label),
        Fraction(-1) if result.verdict.exact is None else result.verdict.exact,
        score.bounds.lowest,
        result.calls_evaluated - result.calls_expected,
        result.calls_aligned,
        -len(result.unexpected_calls),
    )


# Align the calls, and compare them.


class _CallsOfTurn:
    """The calls of a turn beside those that are expected: which is which, and what became of each."""

    __slots__ = ("_batches", "_by_values", "_expected", "_of_tool", "_wanted", "calls", "context", "unseen")

    def __init__(
        self,
        expected: ExpectedTurn,
        turn: Turn | None,
        unseen: Reason | None,
        batches: Sequence[int] | None,
        history: CallHistory | None,
    ) -> None:
        self._expected, self._wanted, self._batches = expected, expected.wanted, batches
        self.calls: Sequence[ToolCall] = ()
        self.context, self.unseen = CallContext(history, turn), unseen
        if turn is not None:
            unknown = why_calls_unknown(turn)
            self.unseen = unseen or unknown
            if unknown is not Reason.READING_DOUBTFUL:
                self.calls = turn.calls
        self._of_tool: dict[str, list[int]] | None = None
        self._by_values: dict[tuple[str, tuple[str, ...]], tuple[dict[object, list[int]], list[int]]] = {}
        """By tool and names of arguments: the calls with each values, and those that cannot be looked up."""

    def results(self) -> tuple[list[CallResult], Sequence[int | None], bool]:
        """Return the results of the expected calls, their partners, and whether the alignment is approximate.

        Calls are aligned by their known arguments. Calls that match perfectly in order need no search.
        """
        wanted, calls, context, perfect = self._wanted, self.calls, self.context, 0
        compared: list[CallResult] = []
        for rules, call in zip(wanted, calls):  # noqa: B905 - a keyword costs as much as a comparison
            if rules.expected.name != call.name or (rules.narrow and rules.is_of_other_kind(call)):
                break
            result = rules.compare(call, perfect, context)
            compared.append(result)
            if not rules.is_perfect(result, call):
                break
            perfect += 1
        if perfect == len(wanted):
            return compared, range(perfect), False
        alignment = self._align(lambda row, column: wanted[row].pair(calls[column], context), perfect, self)
        partners = alignment.partners
        near_misses = self._near_misses(partners) if None in partners else {}
        renamed = self._renamed(partners, near_misses) if None in partners else {}
        results: list[CallResult] = []
        for row, partner in enumerate(partners):
            rules = wanted[row]
            if partner is not None:
                known = partner == row < len(compared)
                results.append(compared[row] if known else rules.compare(calls[partner], partner, context))
            elif not rules.expected.optional:
                result = self._missing(rules, near_misses.get(row))
                if row in renamed:
                    index = renamed[row]
                    result = replace(result, same_arguments_index=index, same_arguments_tool=calls[index].name)
                results.append(result)
        return results, partners, alignment.approximate

    def _align(self, pair_scorer: PairScorer, perfect: int = 0, limits: _CallsOfTurn | None = None) -> Alignment:
        turn, batches = self._expected, self._batches
        if turn.criterion.parallel_calls == "in_order":
            batches = None
        elif batches is None:
            batches = [call.batch for call in self.calls]
        return align(
            turn.names,
            [call.name for call in self.calls],
            pair_scorer,
            ordered=turn.criterion.ordered,
            batches=batches,
            groups=turn.groups,
            optional=turn.optional,
            perfect=perfect,
            limits=limits,
        )

    def second(self, row: int) -> Pair | None:
        """Return the best pair with a call that has a wrong argument; None if that may be any."""
        return self._wanted[row].with_a_mistake

    def rivals(self, row: int) -> Iterable[int]:
        """Return the calls that may have no wrong argument, without comparing each."""
        rules = self._wanted[row]
        names, values = rules.plain or ((), ())
        key = rules.expected.name, names
        if key not in self._by_values:
            self._look_up(*key)
        same, unknown = self._by_values[key]
        return unknown + same[values] if values in same else unknown

    def _look_up(self, tool: str, names: tuple[str, ...]) -> None:
        if self._of_tool is None:
            self._of_tool = {}
            for index, call in enumerate(self.calls):
                self._of_tool.setdefault(call.name, []).append(index)
        same, unknown = self._by_values[tool, names] = {}, []
        for index in self._of_tool.get(tool, ()):
            values = plain_values(names, self.calls[index], self.context)
            (unknown if values is None else same.setdefault(values, [])).append(index)

    def in_any_alignment(self, verdict: Verdict, bounds: ScoreBounds) -> tuple[Verdict, ScoreBounds]:
        """Return a verdict and its bounds, where a call with unknown arguments may be a better partner than they show.

        The turn fails only if it fails in that case too.
        """
        reason = None if bounds.highest is ONE else self._first_unknown()
        if reason is None:
            return verdict, bounds
        bounds = ScoreBounds(bounds.lowest, max(bounds.highest, self._highest_score()))
        if verdict.label is _FAIL and bounds.highest >= self._expected.criterion.exact_threshold:
            verdict = Verdict(verdict.exact, Label.NOT_EVALUATED, reason)
        return verdict, bounds

    def _first_unknown(self) -> Reason | None:
        """Return the reason of the first call with unknown arguments whose tool is expected, if any."""
        for call in self.calls:
            if call.capture is not _CAPTURED or call.argument_captures:
                reason = why_hidden(call)
                if reason is not None and call.name in self._expected.names:
                    return reason
        return None

    def _highest_score(self) -> Fraction:
        """Return the score of the turn if everything unknown were right, in the best alignment for that."""

        def highest(row: int, column: int) -> Pair | None:
            pair = self._wanted[row].pair(self.calls[column], self.context)
            return None if pair is None else Pair(pair.score + pair.possible_gain)

        scores: list[Fraction] = []
        for row, partner in enumerate(self._align(highest).partners):
            pair = None if partner is None else highest(row, partner)
            if not self._wanted[row].expected.optional:
                scores.append(ZERO if pair is None else pair.score)
        return _aggregate(scores, 0, self._expected.criterion.turn_score)

    def _missing(self, rules: CallRules, near_miss: int | None) -> CallResult:
        verdict = FAILED if self.unseen is None else Verdict(None, Label.NOT_EVALUATED, self.unseen)
        if near_miss is None:
            return CallResult(verdict, rules.expected, rules.place)
        call = self.calls[near_miss]
        out_of_order = rules.pair(call, self.context) is not None
        compared = rules.compare(call, near_miss, self.context)
        return replace(compared, verdict=verdict, aligned=False, out_of_order=out_of_order)

    def _near_misses(self, partners: Sequence[int | None]) -> dict[int, int]:
        """Find the most similar unaligned call of the same tool for each missing call."""
        taken = set(partners)
        unaligned: dict[str, list[int]] = {}
        for index, call in enumerate(self.calls):
            if index not in taken:
                unaligned.setdefault(call.name, []).append(index)
        likely = [
            (rules.likeness(self.calls[index], self.context), -row, -index)
            for row, (rules, partner) in enumerate(zip(self._wanted, partners, strict=True))
            if partner is None and not rules.expected.optional
            for index in unaligned.get(rules.expected.name, ())[:_NEAR_MISS_CANDIDATES]
        ]
        nearest: dict[int, int] = {}
        for _, row, index in sorted(likely, reverse=True):
            if -row not in nearest and -index not in taken:
                nearest[-row] = -index
                taken.add(-index)
        return nearest

    def _renamed(self, partners: Sequence[int | None], near_misses: Mapping[int, int]) -> dict[int, int]:
        """Find for each other missing call one of a tool unknown to the golden with the same arguments."""
        names = {rules.expected.name for rules in self._expected.calls}
        if ANY_TOOL in names:
            return {}
        others = [index for index, call in enumerate(self.calls) if call.name not in names and not call.rejected]
        others = others[:_NEAR_MISS_CANDIDATES]
        renamed: dict[int, int] = {}
        for row, rules in enumerate(self._wanted):
            if partners[row] is None and row not in near_misses and not rules.expected.optional:
                same = (index for index in others if rules.has_same_arguments(self.calls[index], self.context))
                if (found := next(same, None)) is not None:
                    others.remove(found)
                    renamed[row] = found
        return renamed


# The verdict on the expected calls.


def _aggregate(values: Sequence[Fraction], extra: int, how: str) -> Fraction:
    if how == "all":
        return ONE if not extra and all(value == 1 for value in values) else ZERO
    return mean(values, extra)


def verdict_of(exact: Fraction, threshold: Fraction) -> Verdict:
    """Return the verdict on a score without unknown parts."""
    if exact is ONE or exact == 1:
        return PASSED
    return Verdict(exact, _PASS if threshold is not ONE and exact >= threshold else _FAIL)


def verdict_within(bounds: ScoreBounds, exact: Fraction | None, threshold: Fraction, reason: Reason | None) -> Verdict:
    """Return the verdict on a score that may still be any within the bounds (S4): a label only if all of them have it.

    `exact` is the score of what is known, and `reason` why the rest is not.
    """
    if bounds.highest < threshold:
        return Verdict(exact, Label.FAIL)
    return Verdict(exact, Label.PASS) if bounds.lowest >= threshold else Verdict(exact, Label.NOT_EVALUATED, reason)


def first_reason(calls: Iterable[CallResult]) -> Reason | None:
    """Return why the first of the calls that were not evaluated was not."""
    return next((reason for call in calls if (reason := call.verdict.reason) is not None), None)


def _verdict(
    results: Sequence[CallResult], turn: ExpectedTurn, extra: int, unseen: Reason | None
) -> tuple[Verdict, ScoreBounds]:
    """Return the verdict on a turn and the bounds of its score; `extra` unexpected calls are penalized."""
    criterion = turn.criterion
    how, threshold = criterion.turn_score, criterion.exact_threshold
    scores = [exact for result in results if (exact := result.verdict.exact) is not None]
    if unseen is None and len(scores) == len(results):
        exact = _aggregate(scores, extra, how)
        return verdict_of(exact, threshold), ScoreBounds(exact, exact)
    bounds = [_bounds_of(result, turn, unseen) for result in results]
    lowest = _aggregate([bound.lowest for bound in bounds], extra, how)
    if unseen is None and all(bound.lowest is bound.highest for bound in bounds):
        return verdict_of(lowest, threshold), ScoreBounds(lowest, lowest)
    if unseen is not None and criterion.extra_calls == "penalize":
        lowest = ZERO
    total = ScoreBounds(lowest, _aggregate([bound.highest for bound in bounds], extra, how))
    exact = _aggregate(scores, extra, how) if scores else None
    return verdict_within(total, exact, threshold, first_reason(results) or unseen), total


def _bounds_of(result: CallResult, turn: ExpectedTurn, unseen: Reason | None) -> ScoreBounds:
    if result.aligned and result.expected_index is not None:
        return turn.calls[result.expected_index].bounds(result)
    return ZERO_EXACTLY if unseen is None else UNBOUNDED


# Forbidden calls.
#
# A forbidden call with arguments, an agent or a status is violated by every call that has these, aligned or not. One
# without is violated by every unaligned call of its tool. A violation fails the turn and its session; it does
# not change scores.

_NOT_VIOLATED = Verdict(None, Label.PASS)
_VIOLATED = Verdict(None, Label.FAIL)


def _check_forbidden(
    forbidden: Sequence[CallRules],
    calls: Sequence[CallResult],
    unexpected: Sequence[CallResult],
    unseen: Reason | None,
    context: CallContext,
) -> tuple[list[CallResult], list[CallResult], Verdict]:
    """Mark the calls that violate a forbidden call, and return the verdict on all of them.

    `unseen` is the reason why calls may be missing from the recording.
    """
    with_arguments = [rules for rules in forbidden if rules.expected.args or rules.narrow]
    total = _NOT_VIOLATED if unseen is None else Verdict(None, Label.NOT_EVALUATED, unseen)
    marked: list[CallResult] = []
    mended: Mapping[str, int] = {}
    if any(rules.narrow for rules in forbidden):
        mended = _last_successes((*calls, *unexpected))
    for result in (*calls, *unexpected):
        violates, reason = _violation(with_arguments if result.aligned else forbidden, result, context, mended)
        if result.aligned and result.actual is not None:
            reason = reason or _why_unsure(forbidden, result.actual)
        if violates is not None:
            total, verdict = _VIOLATED, Verdict(result.verdict.exact, Label.FAIL)
            marked.append(replace(result, violates=violates, verdict=verdict))
            continue
        if reason is not None:
            if total is not _VIOLATED:  # the first reason stays
                total = Verdict(None, Label.NOT_EVALUATED, total.reason or reason)
            if result.unexpected:
                result = replace(result, verdict=Verdict(None, Label.NOT_EVALUATED, reason))  # noqa: PLW2901
        marked.append(result)
    return marked[: len(calls)], marked[len(calls) :], total


def with_forbidden(verdict: Verdict, forbidden: Verdict | None) -> Verdict:
    """Combine the verdict on expected calls with the verdict on forbidden calls."""
    if forbidden is None:
        return verdict
    nothing_expected = verdict.reason is Reason.NOTHING_EXPECTED
    if forbidden.label is Label.FAIL:
        return Verdict(verdict.exact, Label.FAIL)
    if forbidden.label is Label.PASS:
        return _NOT_VIOLATED if nothing_expected else verdict
    if verdict.label is Label.PASS or nothing_expected:
        return Verdict(verdict.exact, Label.NOT_EVALUATED, forbidden.reason)
    return verdict


def combine_forbidden(verdicts: Sequence[Verdict]) -> Verdict | None:
    """Return the worst of the turns' verdicts on forbidden calls; None if no call is forbidden."""
    return min(verdicts, key=lambda verdict: _WORST_TO_BEST.index(verdict.label)) if verdicts else None


def _last_successes(results: Iterable[CallResult]) -> Mapping[str, int]:
    """Return for each tool the position of its last call that did not fail."""
    last: dict[str, int] = {}
    for result in results:
        call, index = result.actual, result.actual_index
        if call is not None and index is not None and call.error is None and not call.rejected:
            last[call.name] = max(index, last.get(call.name, 0))
    return last


def _violation(
    forbidden: Sequence[CallRules], result: CallResult, context: CallContext, mended: Mapping[str, int]
) -> tuple[ExpectedCall | None, Reason | None]:
    """Return the first forbidden call that a call violates, else the reason why this is unknown, if it is.

    `mended` has for each tool the position of its last success.
    """
    call, index = result.actual, result.actual_index
    if call is None or index is None or result.missing:
        return None, None
    unknown: Reason | None = None
    for rules in forbidden:
        recovered = rules.expected.status == "unrecovered" and mended.get(call.name, -1) > index
        if recovered or not _concerns(rules, call):
            continue
        reason = _why_unknown(rules, call, context)
        if reason is None and rules.may_match(call, context):
            return rules.expected, None
        unknown = unknown or reason
    return None, unknown


def _concerns(rules: CallRules, call: ToolCall) -> bool:
    """Whether what is forbidden may be a call of this tool. A writing call that failed changed nothing."""
    if rules.expected is OTHER_WRITES:
        return call.error is None and rules.criterion.effect_of(call.name) is not ToolEffect.READS
    if rules.narrow and rules.is_of_other_kind(call):
        return False
    name = rules.expected.name
    return name == call.name or (ANY_TOOL in name and fnmatchcase(call.name, name))


def _check_repeats(
    criterion: Criterion, turn: Turn | None, unexpected: Sequence[CallResult], history: CallHistory | None
) -> tuple[list[CallResult], bool]:
    """Mark the writing calls that repeat one of the turn or of an earlier one, and say whether there are any.

    Both have the same arguments, and both were executed without an error.
    """
    marked: list[CallResult] = []
    for result in unexpected:
        call = result.actual
        if call is not None and _has_effect(call) and criterion.effect_of(call.name) is ToolEffect.WRITES:
            same = canonical(call.arguments)
            before = () if history is None or turn is None else history.before_turn(turn)
            earlier = chain(before, islice(() if turn is None else turn.calls, result.actual_index))
            if any(one.name == call.name and _has_effect(one) and canonical(one.arguments) == same for one in earlier):
                repeated = ExpectedCall(call.name, call.arguments or {}, forbidden=True, literal=True)
                result = replace(result, verdict=_VIOLATED, violates=repeated, repeats=True)  # noqa: PLW2901
        marked.append(result)
    return marked, any(result.repeats for result in marked)


def _has_effect(call: ToolCall) -> bool:
    """Whether a call was executed without an error, and all its arguments are known."""
    executed = call.error is None and not call.requested and not call.rejected
    return executed and call.arguments is not None and not call.argument_captures


def _why_unsure(forbidden: Sequence[CallRules], call: ToolCall) -> Reason | None:
    """Return why an aligned call may turn out to be unexpected, if it would then violate a forbidden call."""
    without_arguments = (rules for rules in forbidden if not rules.expected.args)
    return why_hidden(call) if any(_concerns(rules, call) for rules in without_arguments) else None


def _why_unknown(rules: CallRules, call: ToolCall, context: CallContext) -> Reason | None:
    """Return why it is unknown whether a call has the forbidden arguments; None if it is known."""
    expected = rules.expected.args
    if rules.expected.agent is not None and call.agent is None:
        return Reason.INPUT_MISSING
    if not expected:
        return None
    actual, captures = arguments_of(call), call.argument_captures
    if actual is None:
        return why_not_known(call)
    hidden = [name for name in expected if is_hidden(captures, name)]
    if not hidden or not rules.may_match(call, context):
        return None
    return REASON_OF_CAPTURE[captures[hidden[0]]]
