"""One turn against what was expected of it: alignment, what became of each call, and the turn's own verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from msgspec.structs import replace

from goldspan.scoring.align.alignment import Alignment, Judge, Pair, align
from goldspan.scoring.call_history import CallHistory
from goldspan.scoring.call_match import (
    ANYTHING,
    FAILED,
    PASSED,
    RIGHT,
    WRONG,
    CallContext,
    CallMatch,
    CallScore,
    ScoreBounds,
    extra_arguments,
)
from goldspan.scoring.comparison import ONE, ZERO
from goldspan.scoring.criterion import Criterion
from goldspan.scoring.expected_turn import ExpectedTurn
from goldspan.scoring.goldens.golden import ANY_TOOL, ExpectedCall
from goldspan.scoring.results import CallResult, TurnResult
from goldspan.scoring.sessions import ToolCall, Turn
from goldspan.scoring.tool_definitions import DeclaredDefaults
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


class AlignedCalls(NamedTuple):
    """The partner of each expected call, and what came to light on the way."""

    partners: Sequence[int | None]
    judged: Mapping[int, CallScore]
    """By expected call, what some of the pairs were judged as already."""
    approximate: bool


def best_partners(
    matches: Sequence[CallMatch], calls: Sequence[ToolCall], criterion: Criterion, batches: Sequence[int] | None
) -> AlignedCalls:
    """Align calls by what is known of them. `batches` replaces the batch numbers of the calls."""
    judged: dict[int, CallScore] = {}
    for index, (match, call) in enumerate(zip(matches, calls, strict=False)):
        if match.expected.name != call.name:
            break
        found = match.judge(call)
        if not match.is_perfect(call, found):
            break
        judged[index] = found
    if len(judged) == len(matches):
        return AlignedCalls(range(len(matches)), judged, approximate=False)
    alignment = align_calls(matches, calls, lambda row, column: matches[row].pair(calls[column]), criterion, batches)
    kept = {index: found for index, found in judged.items() if alignment.partners[index] == index}
    return AlignedCalls(alignment.partners, kept, alignment.approximate)


def align_calls(
    matches: Sequence[CallMatch],
    calls: Sequence[ToolCall],
    judge: Judge,
    criterion: Criterion,
    batches: Sequence[int] | None,
) -> Alignment:
    """Align calls by what `judge` says of pairs. `batches` replaces the batch numbers of the calls."""
    if criterion.parallel_calls == "in_order":
        batches = None
    elif batches is None:
        batches = [call.batch for call in calls]
    return align(
        [match.expected.name for match in matches],
        [call.name for call in calls],
        judge,
        ordered=criterion.ordered,
        batches=batches,
        groups=[match.expected.group for match in matches],
        optional=[match.expected.optional for match in matches],
    )


# A call that is unknown may turn out to be the right one: a turn fails only if it does so whatever that may be.


def reason_of_unknown(matches: Sequence[CallMatch], calls: Sequence[ToolCall]) -> Reason | None:
    """Return why the first call is unknown of those that could stand for an expected one, if one is."""
    names = {match.expected.name for match in matches}
    reasons = (why_hidden(call) for call in calls if call.name in names)
    return next((why for why in reasons if why is not None), None)


def most_of_each(
    matches: Sequence[CallMatch], calls: Sequence[ToolCall], criterion: Criterion, batches: Sequence[int] | None
) -> list[Fraction]:
    """Return what the calls that are needed would be worth if all that is unknown were right, in the best alignment."""

    def judge(row: int, column: int) -> Pair | None:
        pair = matches[row].pair(calls[column])
        return None if pair is None else Pair(pair.score + pair.room)

    partners = align_calls(matches, calls, judge, criterion, batches).partners
    pairs = [None if partner is None else judge(row, partner) for row, partner in enumerate(partners)]
    return [
        ZERO if pair is None else pair.score
        for match, pair in zip(matches, pairs, strict=True)
        if not match.expected.optional
    ]


# A forbidden call with arguments is violated by every call that has these, whatever else it stands for; one without, by
# every call of its tool that stands for no expected one.

_KEPT = Verdict(None, Label.PASS)
_VIOLATED = Verdict(None, Label.FAIL)


def judge_forbidden(
    forbidden: Sequence[CallMatch],
    calls: Sequence[CallResult],
    unexpected: Sequence[CallResult],
    unseen: Reason | None,
) -> tuple[list[CallResult], list[CallResult], Verdict]:
    """Mark the calls that were made although they are forbidden, and say whether what is forbidden was left alone.

    `unseen` is a reason why there may be calls that were not seen.
    """
    specific = [match for match in forbidden if match.expected.args]
    kept = _KEPT if unseen is None else Verdict(None, Label.NOT_EVALUATED, unseen)
    marked: list[CallResult] = []
    for result in (*calls, *unexpected):
        call = result.actual if result.aligned or result.unexpected else None
        matches = specific if result.aligned else forbidden
        violated, reason = (None, None) if call is None else _violated(matches, call)
        if call is not None and result.aligned:
            reason = reason or _why_unsure(forbidden, call)
        if violated is not None:
            kept = _VIOLATED
            marked.append(replace(result, violates=violated, verdict=Verdict(result.verdict.exact, Label.FAIL)))
            continue
        if reason is not None and kept is not _VIOLATED:
            kept = Verdict(None, Label.NOT_EVALUATED, kept.reason or reason)
        unknown = reason is not None and result.unexpected
        marked.append(replace(result, verdict=Verdict(None, Label.NOT_EVALUATED, reason)) if unknown else result)
    return marked[: len(calls)], marked[len(calls) :], kept


def with_forbidden(verdict: Verdict, kept: Verdict | None) -> Verdict:
    """Return a verdict on what is expected together with that on what is forbidden."""
    if kept is None:
        return verdict
    nothing = verdict.reason is Reason.NOTHING_EXPECTED
    if kept.label is Label.FAIL:
        return Verdict(verdict.exact, Label.FAIL)
    if kept.label is Label.PASS:
        return _KEPT if nothing else verdict
    if verdict.label is Label.PASS or nothing:
        return Verdict(verdict.exact, Label.NOT_EVALUATED, kept.reason)
    return verdict


def all_kept(parts: Iterable[Verdict | None]) -> Verdict | None:
    """Return whether what is forbidden in several turns was left alone in all of them; none where nothing is."""
    some = [part for part in parts if part is not None]
    order = (Label.FAIL, Label.NOT_EVALUATED, Label.PASS)
    return min(some, key=lambda part: order.index(part.label), default=None)


def _violated(forbidden: Sequence[CallMatch], call: ToolCall) -> tuple[ExpectedCall | None, Reason | None]:
    """Return the first forbidden call that a call is, else why that cannot be told of one, if it cannot."""
    unknown: Reason | None = None
    for match in forbidden:
        if match.expected.name not in (ANY_TOOL, call.name):
            continue
        reason = _unknown(match, call)
        if reason is None and match.may_be(call):
            return match.expected, None
        unknown = unknown or reason
    return None, unknown


def _why_unsure(forbidden: Sequence[CallMatch], call: ToolCall) -> Reason | None:
    """Say why a call may yet turn out to stand for no expected one, where that would be a violation."""
    if not any(not match.expected.args and match.expected.name in (ANY_TOOL, call.name) for match in forbidden):
        return None
    return why_hidden(call)


def _unknown(match: CallMatch, call: ToolCall) -> Reason | None:
    """Say why it is not known whether a call has the forbidden arguments, if that depends on what is not known."""
    wanted = match.expected.args
    if not wanted:
        return None
    actual, hidden = arguments_of(call), call.argument_captures
    if actual is None:
        return why_not_known(call)
    secret = [name for name in wanted if is_hidden(hidden, name)]
    if not secret or not match.may_be(call):
        return None
    return REASON_OF_CAPTURE[hidden[secret[0]]]


NOT_EXPECTED = Verdict(None, Label.NOT_EVALUATED, Reason.NOTHING_EXPECTED)
"""Of calls that stand for no expected one, and of turns of which nothing is expected."""

_BETTER = (Label.FAIL, Label.NOT_EVALUATED, Label.PASS)
_NEAREST_OF = 200
"""How many left-over calls of a name are looked at for near misses."""


class TurnScore(NamedTuple):
    """A turn's result, and what the score may be once everything unknown were known."""

    result: TurnResult
    bounds: ScoreBounds = ANYTHING
    kept: Verdict | None = None
    """Whether what is forbidden was left alone; none where nothing is."""
    counts: bool = True
    """Something is expected of the turn."""


def score_calls(
    golden: ExpectedTurn,
    turn: Turn | None,
    *,
    turn_index: int | None = None,
    unseen: Reason | None = None,
    batches: Sequence[int] | None = None,
    history: CallHistory | None = None,
) -> TurnScore:
    """Score a turn; without one, every expected call is missing.

    `unseen` is a reason why there may be calls that were not seen: expected calls without a partner are then not
    evaluated. `batches` replaces the batch numbers of the calls. `history` has what earlier calls returned.
    """
    if turn is not None and not turn.calls_visible:
        unseen = unseen or Reason.CALLS_NOT_VISIBLE
    context = CallContext(history, None if turn is None else DeclaredDefaults(turn.tool_definitions))
    matches = [CallMatch(golden.calls[place], context) for place in golden.places]
    calls = turn.calls if turn is not None else ()
    partners, known, approximate = best_partners(matches, calls, golden.criterion, batches)
    scored = _Scored(matches, golden.places, calls, partners, known, unseen)
    penalized = len(scored.unexpected) if golden.criterion.extra_calls == "penalize" else 0
    verdict, bounds = NOT_EXPECTED, ANYTHING
    if scored.counted:
        verdict, bounds = _verdict(scored.counted, scored.bounds, golden.criterion, penalized, unseen)
        if bounds.most < 1 and (why := reason_of_unknown(matches, calls)) is not None:
            most = most_of_each(matches, calls, golden.criterion, batches)
            verdict, bounds = _with_room(verdict, bounds, most, golden.criterion, why)
    kept = None
    if golden.forbidden:
        forbidden = [CallMatch(rules, context) for rules in golden.calls if rules.expected.forbidden]
        scored.calls, scored.unexpected, kept = judge_forbidden(forbidden, scored.calls, scored.unexpected, unseen)
        verdict = with_forbidden(verdict, kept)
    result = _result(golden, scored, verdict, turn, turn_index, approximate=approximate)
    return TurnScore(result, bounds, kept, bool(scored.counted))


class _Scored:
    """What became of the calls of a turn, once each has its partner."""

    __slots__ = ("bounds", "calls", "counted", "unexpected")

    def __init__(
        self,
        matches: Sequence[CallMatch],
        places: Sequence[int],
        calls: Sequence[ToolCall],
        partners: Sequence[int | None],
        judged: Mapping[int, CallScore],
        unseen: Reason | None,
    ) -> None:
        self.calls: list[CallResult] = []
        self.counted: list[CallResult] = []
        """Those that count towards the mean, with their bounds."""
        self.bounds: list[ScoreBounds] = []
        taken = {partner for partner in partners if partner is not None}
        left = [index for index in range(len(calls)) if index not in taken] if len(taken) < len(calls) else []
        self.unexpected = [
            CallResult(NOT_EXPECTED, actual=calls[index], actual_index=index)
            for index in left
            if not calls[index].rejected
        ]
        nearest = _near_misses(matches, partners, calls, left) if left and len(taken) < len(matches) else {}
        for row, (match, partner, place) in enumerate(zip(matches, partners, places, strict=True)):
            if partner is not None:
                found = judged.get(row) or match.judge(calls[partner])
                result = CallResult(
                    found.verdict,
                    match.expected,
                    place,
                    calls[partner],
                    partner,
                    found.arguments,
                    found.extra,
                    aligned=True,
                )
                within = found.bounds
            elif match.expected.optional:
                continue
            else:
                result = _missing(match, place, calls, nearest.get(row), unseen)
                within = WRONG if unseen is None else ANYTHING
            self.calls.append(result)
            if not match.expected.optional:
                self.counted.append(result)
                self.bounds.append(within)


def _result(
    golden: ExpectedTurn,
    scored: _Scored,
    verdict: Verdict,
    turn: Turn | None,
    turn_index: int | None,
    *,
    approximate: bool,
) -> TurnResult:
    calls = turn.calls if turn is not None else ()
    return TurnResult(
        verdict,
        tuple(scored.calls),
        tuple(scored.unexpected),
        tuple(call for call in calls if call.rejected),
        turn,
        turn_index,
        golden.index,
        calls_expected=len(scored.counted),
        calls_evaluated=sum(result.verdict.exact is not None for result in scored.counted),
        calls_matched=sum(result.aligned for result in scored.counted),
        approximate=approximate,
    )


def best_of(scored: Sequence[TurnScore]) -> TurnScore:
    """Return the best of what a turn is worth by each alternative; of equals, the first.

    What may pass comes before what fails, then what leaves alone what is forbidden, then the score.
    """
    if len(scored) == 1:
        return scored[0]
    best = max(range(len(scored)), key=lambda index: (*_worth(scored[index]), -index))
    kept = scored[best].kept
    alike = [one.bounds for one in scored if (one.kept and one.kept.label) == (kept and kept.label)]
    return TurnScore(
        replace(scored[best].result, alternative=best),
        ScoreBounds(max(one.least for one in alike), max(one.most for one in alike)),
        kept,
        scored[best].counts,
    )


def _worth(scored: TurnScore) -> tuple[float | Fraction, ...]:
    result, kept = scored.result, scored.kept
    return (
        -1 if result.verdict.reason is Reason.NOTHING_EXPECTED else _BETTER.index(result.verdict.label),
        len(_BETTER) if kept is None else _BETTER.index(kept.label),
        Fraction(-1) if result.verdict.exact is None else result.verdict.exact,
        scored.bounds.least,
        result.calls_evaluated - result.calls_expected,
        result.calls_matched,
        -len(result.unexpected_calls),
    )


def mean(values: Sequence[Fraction], extra: int = 0) -> Fraction:
    """Return the exact mean; every extra one counts as a 0."""
    if not extra and (len(values) == 1 or all(value is ONE for value in values)):
        return values[0]
    return sum(values, ZERO) / (len(values) + extra)


def _score_of(values: Sequence[Fraction], extra: int, how: str) -> Fraction:
    if how == "all":
        return ONE if not extra and all(value == 1 for value in values) else ZERO
    return mean(values, extra)


def verdict_of(exact: Fraction, threshold: Fraction) -> Verdict:
    """Return the verdict on a score that is certain."""
    if exact == 1:
        return PASSED
    return Verdict(exact, Label.PASS if exact >= threshold else Label.FAIL)


def label_of(bounds: ScoreBounds, threshold: Fraction) -> Label:
    """Judge by what the score may be: it passes or fails only if it does so whatever the unknown turns out to be."""
    if bounds.most < threshold:
        return Label.FAIL
    return Label.PASS if bounds.least >= threshold else Label.NOT_EVALUATED


def _verdict(
    results: Sequence[CallResult],
    bounds: Sequence[ScoreBounds],
    criterion: Criterion,
    extra: int,
    unseen: Reason | None,
) -> tuple[Verdict, ScoreBounds]:
    how = criterion.turn_score
    if not extra and unseen is None and all(one is RIGHT for one in bounds):
        return PASSED, RIGHT
    threshold = criterion.exact_threshold
    if unseen is None and all(one.least is one.most for one in bounds):
        certain = _score_of([one.least for one in bounds], extra, how)
        return verdict_of(certain, threshold), RIGHT if certain == 1 else ScoreBounds(certain, certain)
    least = _score_of([one.least for one in bounds], extra, how)
    if unseen is not None and criterion.extra_calls == "penalize":
        least = ZERO
    within = ScoreBounds(least, _score_of([one.most for one in bounds], extra, how))
    scores = [result.verdict.exact for result in results if result.verdict.exact is not None]
    exact = _score_of(scores, extra, how) if scores else None
    label = label_of(within, threshold)
    reason = None
    if label is Label.NOT_EVALUATED:
        reasons = (result.verdict.reason for result in results)
        reason = next((one for one in reasons if one is not None), unseen)
    return Verdict(exact, label, reason), within


def _with_room(
    verdict: Verdict, within: ScoreBounds, most: Sequence[Fraction], criterion: Criterion, why: Reason
) -> tuple[Verdict, ScoreBounds]:
    """Widen bounds by what another alignment may be worth once everything unknown were known."""
    within = ScoreBounds(within.least, max(within.most, _score_of(most, 0, criterion.turn_score)))
    if verdict.label is Label.FAIL and within.most >= criterion.exact_threshold:
        verdict = Verdict(verdict.exact, Label.NOT_EVALUATED, why)
    return verdict, within


def _near_misses(
    matches: Sequence[CallMatch], partners: Sequence[int | None], calls: Sequence[ToolCall], left: Sequence[int]
) -> dict[int, int]:
    """Find for each expected call without a partner the left-over call of that name that is most like it."""
    left_of: dict[str, list[int]] = {}
    for index in left:
        left_of.setdefault(calls[index].name, []).append(index)
    nearest: dict[int, int] = {}
    for index, (match, partner) in enumerate(zip(matches, partners, strict=True)):
        candidates = left_of.get(match.expected.name)
        if partner is None and candidates and not match.expected.optional:
            best = max(candidates[:_NEAREST_OF], key=lambda place: match.likeness(calls[place]))
            candidates.remove(best)
            nearest[index] = best
    return nearest


def _missing(
    match: CallMatch, index: int, calls: Sequence[ToolCall], near: int | None, unseen: Reason | None
) -> CallResult:
    verdict = FAILED if unseen is None else Verdict(None, Label.NOT_EVALUATED, unseen)
    if near is None:
        return CallResult(verdict, match.expected, index)
    call = calls[near]
    arguments, extra = match.judge(call).arguments, extra_arguments(match.expected, call)
    return CallResult(verdict, match.expected, index, call, near, arguments, extra)
