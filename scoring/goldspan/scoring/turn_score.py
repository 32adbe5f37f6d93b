"""Score one turn against its expected calls: align the calls, compare each pair, and aggregate the scores."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from msgspec.structs import replace

from goldspan.scoring.align.alignment import Alignment, Pair, PairScorer, align
from goldspan.scoring.call_context import CallContext, CallHistory, DeclaredDefaults
from goldspan.scoring.call_match import (
    FAILED,
    ONE_EXACTLY,
    PASSED,
    UNBOUNDED,
    ZERO_EXACTLY,
    CallMatch,
    CallScore,
    ScoreBounds,
    call_rules,
    extra_arguments,
)
from goldspan.scoring.comparison import ONE, ZERO
from goldspan.scoring.criterion import Criterion
from goldspan.scoring.goldens.golden import ANY_TOOL, ExpectedCall
from goldspan.scoring.results import CallResult, TurnResult
from goldspan.scoring.sessions import ToolCall, Turn
from goldspan.scoring.verdict import (
    REASON_OF_CAPTURE,
    Label,
    Reason,
    Verdict,
    arguments_of,
    is_hidden,
    why_hidden,
    why_not_known,
)

NOT_EXPECTED = Verdict(None, Label.NOT_EVALUATED, Reason.NOTHING_EXPECTED)
"""The verdict on unexpected calls, and on turns without expected calls."""

_WORST_TO_BEST = (Label.FAIL, Label.NOT_EVALUATED, Label.PASS)
_NEAR_MISS_CANDIDATES = 200
"""Maximum number of unaligned calls of one tool to search for near misses."""


class ExpectedTurn:
    """The expected calls of a turn, each with the rules for its arguments, and the criterion of the turn."""

    __slots__ = ("calls", "criterion", "forbidden", "index", "places", "uses_history")

    def __init__(
        self,
        calls: Sequence[ExpectedCall],
        criterion: Criterion,
        criteria: Sequence[Criterion],
        index: int | None = None,
    ) -> None:
        """`criteria` has a criterion for each call; `index` is the position among the golden's turns."""
        self.calls = [call_rules(call, own) for call, own in zip(calls, criteria, strict=True)]
        self.criterion = criterion
        self.index = index
        self.places = [place for place, call in enumerate(calls) if not call.forbidden]
        """Positions of the calls that are not forbidden."""
        self.forbidden = len(self.places) < len(calls)
        self.uses_history = any(argument.special for call in self.calls for argument in call.arguments)
        """An expected value may depend on the result of an earlier call."""


def expected_turn(
    calls: Sequence[ExpectedCall], criterion: Criterion, override: Criterion | None, index: int | None = None
) -> ExpectedTurn:
    """Return the expected calls with their criteria; `override` replaces the calls' own."""
    return ExpectedTurn(calls, criterion, [override or call.criterion or criterion for call in calls], index)


class TurnScore(NamedTuple):
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
    *,
    turn_index: int | None = None,
    unseen: Reason | None = None,
    batches: Sequence[int] | None = None,
    history: CallHistory | None = None,
) -> TurnScore:
    """Score a turn; if it is None, every expected call is missing.

    `unseen` is the reason why calls may be missing from the recording: expected calls without a partner are then not
    evaluated. `batches` replaces the batch numbers of the calls. `history` has the results of earlier calls.
    """
    if turn is not None and not turn.calls_visible:
        unseen = unseen or Reason.CALLS_NOT_VISIBLE
    criterion = expected.criterion
    context = CallContext(history, None if turn is None else DeclaredDefaults(turn.tool_definitions))
    matches = [CallMatch(expected.calls[place], context) for place in expected.places]
    calls = turn.calls if turn is not None else ()
    aligned = _align_known(matches, calls, criterion, batches)
    results, bounds_of = _call_results(matches, expected, calls, aligned, unseen)
    unexpected = _unexpected_results(calls, aligned.partners)
    counted = [result for result in results if not result.optional]
    verdict, bounds, forbidden = NOT_EXPECTED, UNBOUNDED, None
    if counted:
        penalized = len(unexpected) if criterion.extra_calls == "penalize" else 0
        verdict, bounds = _verdict(counted, bounds_of, criterion, penalized, unseen)
        if bounds.highest < 1 and (reason := _first_unknown(matches, calls)) is not None:
            highest = _highest_scores(matches, calls, criterion, batches)
            bounds = ScoreBounds(bounds.lowest, max(bounds.highest, _aggregate(highest, 0, criterion.turn_score)))
            if verdict.label is Label.FAIL and bounds.highest >= criterion.exact_threshold:
                verdict = Verdict(verdict.exact, Label.NOT_EVALUATED, reason)
    if expected.forbidden:
        rules = [CallMatch(rules, context) for rules in expected.calls if rules.expected.forbidden]
        results, unexpected, forbidden = _check_forbidden(rules, results, unexpected, unseen)
        verdict = with_forbidden(verdict, forbidden)
    result = TurnResult(
        verdict,
        tuple(results),
        tuple(unexpected),
        tuple(call for call in calls if call.rejected),
        turn,
        turn_index,
        expected.index,
        calls_expected=len(counted),
        calls_evaluated=sum(result.verdict.exact is not None for result in counted),
        calls_aligned=sum(result.aligned for result in counted),
        approximate=aligned.approximate,
        extra_calls_count=criterion.extra_calls == "penalize",
    )
    return TurnScore(result, bounds, forbidden, bool(counted))


def best_alternative(scores: Sequence[TurnScore]) -> TurnScore:
    """Return the best score among the alternatives of a turn, the first of equals.

    The label decides first, then the verdict on forbidden calls, then the score.
    """
    if len(scores) == 1:
        return scores[0]
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


# Align the calls.


class _AlignedCalls(NamedTuple):
    """The partner of each expected call."""

    partners: Sequence[int | None]
    scores: Mapping[int, CallScore]
    """The scores of pairs that the alignment already compared in full, by expected call."""
    approximate: bool


def _align_known(
    matches: Sequence[CallMatch], calls: Sequence[ToolCall], criterion: Criterion, batches: Sequence[int] | None
) -> _AlignedCalls:
    """Align calls by their known arguments. Calls that match perfectly in order need no search."""
    scores: dict[int, CallScore] = {}
    for index, (match, call) in enumerate(zip(matches, calls, strict=False)):
        if match.expected.name != call.name:
            break
        score = match.compare(call)
        if not match.is_perfect(call, score):
            break
        scores[index] = score
    if len(scores) == len(matches):
        return _AlignedCalls(range(len(matches)), scores, approximate=False)
    alignment = _align(matches, calls, lambda row, column: matches[row].pair(calls[column]), criterion, batches)
    aligned = {index: score for index, score in scores.items() if alignment.partners[index] == index}
    return _AlignedCalls(alignment.partners, aligned, alignment.approximate)


def _align(
    matches: Sequence[CallMatch],
    calls: Sequence[ToolCall],
    pair_scorer: PairScorer,
    criterion: Criterion,
    batches: Sequence[int] | None,
) -> Alignment:
    if criterion.parallel_calls == "in_order":
        batches = None
    elif batches is None:
        batches = [call.batch for call in calls]
    return align(
        [match.expected.name for match in matches],
        [call.name for call in calls],
        pair_scorer,
        ordered=criterion.ordered,
        batches=batches,
        groups=[match.expected.group for match in matches],
        optional=[match.expected.optional for match in matches],
    )


def _first_unknown(matches: Sequence[CallMatch], calls: Sequence[ToolCall]) -> Reason | None:
    """Return the reason of the first call with unknown arguments whose tool is expected, if any.

    Such a call may be a better partner than its known arguments show. The turn fails only if it fails in that case too.
    """
    names = {match.expected.name for match in matches}
    reasons = (why_hidden(call) for call in calls if call.name in names)
    return next((reason for reason in reasons if reason is not None), None)


def _highest_scores(
    matches: Sequence[CallMatch], calls: Sequence[ToolCall], criterion: Criterion, batches: Sequence[int] | None
) -> list[Fraction]:
    """Return the scores of the required calls if everything unknown were right, in the best alignment for that."""

    def highest(row: int, column: int) -> Pair | None:
        pair = matches[row].pair(calls[column])
        return None if pair is None else Pair(pair.score + pair.possible_gain)

    partners = _align(matches, calls, highest, criterion, batches).partners
    pairs = [None if partner is None else highest(row, partner) for row, partner in enumerate(partners)]
    return [
        ZERO if pair is None else pair.score
        for match, pair in zip(matches, pairs, strict=True)
        if not match.expected.optional
    ]


# The result of each call.


def _call_results(
    matches: Sequence[CallMatch],
    turn: ExpectedTurn,
    calls: Sequence[ToolCall],
    aligned: _AlignedCalls,
    unseen: Reason | None,
) -> tuple[list[CallResult], list[ScoreBounds]]:
    """Return the results of the expected calls, and the score bounds of the required ones."""
    results: list[CallResult] = []
    bounds: list[ScoreBounds] = []
    near_misses = _near_misses(matches, calls, aligned.partners)
    renamed = _renamed(matches, calls, aligned.partners, near_misses, {call.expected.name for call in turn.calls})
    for row, (match, partner, place) in enumerate(zip(matches, aligned.partners, turn.places, strict=True)):
        expected = match.expected
        if partner is not None:
            call = calls[partner]
            score = aligned.scores.get(row) or match.compare(call)
            result = CallResult(
                score.verdict,
                expected,
                place,
                call,
                partner,
                score.arguments,
                score.extra,
                aligned=True,
                extra_arguments_count=match.extra_arguments_count,
            )
            score_bounds = score.bounds
        elif expected.optional:
            continue
        else:
            result = _missing_result(match, place, calls, near_misses.get(row), unseen)
            if row in renamed:
                index = renamed[row]
                result = replace(result, same_arguments_index=index, same_arguments_tool=calls[index].name)
            score_bounds = ZERO_EXACTLY if unseen is None else UNBOUNDED
        results.append(result)
        if not expected.optional:
            bounds.append(score_bounds)
    return results, bounds


def _missing_result(
    match: CallMatch, place: int, calls: Sequence[ToolCall], near_miss: int | None, unseen: Reason | None
) -> CallResult:
    verdict = FAILED if unseen is None else Verdict(None, Label.NOT_EVALUATED, unseen)
    if near_miss is None:
        return CallResult(verdict, match.expected, place)
    call = calls[near_miss]
    arguments, extra = match.compare(call).arguments, extra_arguments(match.expected, call)
    return CallResult(
        verdict,
        match.expected,
        place,
        call,
        near_miss,
        arguments,
        extra,
        out_of_order=match.pair(call) is not None,
        extra_arguments_count=match.extra_arguments_count,
    )


def _unexpected_results(calls: Sequence[ToolCall], partners: Sequence[int | None]) -> list[CallResult]:
    taken = set(partners)
    return [
        CallResult(NOT_EXPECTED, actual=call, actual_index=index)
        for index, call in enumerate(calls)
        if index not in taken and not call.rejected
    ]


def _near_misses(
    matches: Sequence[CallMatch], calls: Sequence[ToolCall], partners: Sequence[int | None]
) -> dict[int, int]:
    """Find the most similar unaligned call of the same tool for each missing call."""
    taken = set(partners)
    if None not in taken:
        return {}
    unaligned: dict[str, list[int]] = {}
    for index, call in enumerate(calls):
        if index not in taken:
            unaligned.setdefault(call.name, []).append(index)
    likely = [
        (match.likeness(calls[index]), -row, -index)
        for row, (match, partner) in enumerate(zip(matches, partners, strict=True))
        if partner is None and not match.expected.optional
        for index in unaligned.get(match.expected.name, ())[:_NEAR_MISS_CANDIDATES]
    ]
    nearest: dict[int, int] = {}
    for _, row, index in sorted(likely, reverse=True):
        if -row not in nearest and -index not in taken:
            nearest[-row] = -index
            taken.add(-index)
    return nearest


def _renamed(
    matches: Sequence[CallMatch],
    calls: Sequence[ToolCall],
    partners: Sequence[int | None],
    near_misses: Mapping[int, int],
    names: Container[str],
) -> dict[int, int]:
    """Find for each missing call without a near miss a call of an unknown tool with the same arguments.

    `names` are those of the tools that the golden knows.
    """
    if None not in partners or ANY_TOOL in names:
        return {}
    others = [index for index, call in enumerate(calls) if call.name not in names and not call.rejected]
    others = others[:_NEAR_MISS_CANDIDATES]
    renamed: dict[int, int] = {}
    for row, match in enumerate(matches):
        if partners[row] is None and row not in near_misses and not match.expected.optional:
            found = next((index for index in others if match.has_same_arguments(calls[index])), None)
            if found is not None:
                others.remove(found)
                renamed[row] = found
    return renamed


# The verdict on the expected calls.


def mean(values: Sequence[Fraction], extra: int = 0) -> Fraction:
    """Return the exact mean; `extra` is a number of additional zeros."""
    if not extra and (len(values) == 1 or all(value is ONE for value in values)):
        return values[0]
    return sum(values, ZERO) / (len(values) + extra)


def _aggregate(values: Sequence[Fraction], extra: int, how: str) -> Fraction:
    if how == "all":
        return ONE if not extra and all(value == 1 for value in values) else ZERO
    return mean(values, extra)


def verdict_of(exact: Fraction, threshold: Fraction) -> Verdict:
    """Return the verdict on a score without unknown parts."""
    if exact == 1:
        return PASSED
    return Verdict(exact, Label.PASS if exact >= threshold else Label.FAIL)


def label_of(bounds: ScoreBounds, threshold: Fraction) -> Label:
    """Return `pass` or `fail` only if every score within the bounds has that label."""
    if bounds.highest < threshold:
        return Label.FAIL
    return Label.PASS if bounds.lowest >= threshold else Label.NOT_EVALUATED


def _verdict(
    results: Sequence[CallResult],
    bounds: Sequence[ScoreBounds],
    criterion: Criterion,
    extra: int,
    unseen: Reason | None,
) -> tuple[Verdict, ScoreBounds]:
    """Return the verdict on a turn and the bounds of its score; `extra` unexpected calls are penalized."""
    how, threshold = criterion.turn_score, criterion.exact_threshold
    if not extra and unseen is None and all(bound is ONE_EXACTLY for bound in bounds):
        return PASSED, ONE_EXACTLY
    lowest = _aggregate([bound.lowest for bound in bounds], extra, how)
    if unseen is None and all(bound.lowest is bound.highest for bound in bounds):
        return verdict_of(lowest, threshold), ONE_EXACTLY if lowest == 1 else ScoreBounds(lowest, lowest)
    if unseen is not None and criterion.extra_calls == "penalize":
        lowest = ZERO
    total = ScoreBounds(lowest, _aggregate([bound.highest for bound in bounds], extra, how))
    scores = [result.verdict.exact for result in results if result.verdict.exact is not None]
    label, reason = label_of(total, threshold), None
    if label is Label.NOT_EVALUATED:
        reasons = (result.verdict.reason for result in results)
        reason = next((reason for reason in reasons if reason is not None), unseen)
    return Verdict(_aggregate(scores, extra, how) if scores else None, label, reason), total


# Forbidden calls.
#
# A forbidden call with arguments is violated by every call that has these arguments, aligned or not. A forbidden call
# without arguments is violated by every unaligned call of its tool. A violation fails the turn and its session; it does
# not change scores.

_NOT_VIOLATED = Verdict(None, Label.PASS)
_VIOLATED = Verdict(None, Label.FAIL)


def _check_forbidden(
    forbidden: Sequence[CallMatch],
    calls: Sequence[CallResult],
    unexpected: Sequence[CallResult],
    unseen: Reason | None,
) -> tuple[list[CallResult], list[CallResult], Verdict]:
    """Mark the calls that violate a forbidden call, and return the verdict on all of them.

    `unseen` is the reason why calls may be missing from the recording.
    """
    with_arguments = [match for match in forbidden if match.expected.args]
    total = _NOT_VIOLATED if unseen is None else Verdict(None, Label.NOT_EVALUATED, unseen)
    marked: list[CallResult] = []
    for result in (*calls, *unexpected):
        call = result.actual if result.aligned or result.unexpected else None
        matches = with_arguments if result.aligned else forbidden
        violates, reason = (None, None) if call is None else _violation(matches, call)
        if call is not None and result.aligned:
            reason = reason or _why_unsure(forbidden, call)
        if violates is not None:
            total = _VIOLATED
            marked.append(replace(result, violates=violates, verdict=Verdict(result.verdict.exact, Label.FAIL)))
            continue
        if reason is not None and total is not _VIOLATED:
            total = Verdict(None, Label.NOT_EVALUATED, total.reason or reason)
        unknown = reason is not None and result.unexpected
        marked.append(replace(result, verdict=Verdict(None, Label.NOT_EVALUATED, reason)) if unknown else result)
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


def combine_forbidden(verdicts: Iterable[Verdict | None]) -> Verdict | None:
    """Return the worst of the turns' verdicts on forbidden calls; None if no call is forbidden."""
    return min(
        (verdict for verdict in verdicts if verdict is not None),
        key=lambda verdict: _WORST_TO_BEST.index(verdict.label),
        default=None,
    )


def _violation(forbidden: Sequence[CallMatch], call: ToolCall) -> tuple[ExpectedCall | None, Reason | None]:
    """Return the first forbidden call that a call violates, else the reason why this is unknown, if it is."""
    unknown: Reason | None = None
    for match in forbidden:
        if match.expected.name not in (ANY_TOOL, call.name):
            continue
        reason = _why_unknown(match, call)
        if reason is None and match.may_match(call):
            return match.expected, None
        unknown = unknown or reason
    return None, unknown


def _why_unsure(forbidden: Sequence[CallMatch], call: ToolCall) -> Reason | None:
    """Return why an aligned call may turn out to be unexpected, if it would then violate a forbidden call."""
    if not any(not match.expected.args and match.expected.name in (ANY_TOOL, call.name) for match in forbidden):
        return None
    return why_hidden(call)


def _why_unknown(match: CallMatch, call: ToolCall) -> Reason | None:
    """Return why it is unknown whether a call has the forbidden arguments; None if it is known."""
    expected = match.expected.args
    if not expected:
        return None
    actual, captures = arguments_of(call), call.argument_captures
    if actual is None:
        return why_not_known(call)
    hidden = [name for name in expected if is_hidden(captures, name)]
    if not hidden or not match.may_match(call):
        return None
    return REASON_OF_CAPTURE[captures[hidden[0]]]
