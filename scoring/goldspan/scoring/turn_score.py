"""One turn against what was expected of it: alignment, what became of each call, and the turn's own verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from goldspan.scoring.call_alignment import best_partners
from goldspan.scoring.call_match import (
    ANYTHING,
    FAILED,
    PASSED,
    RIGHT,
    WRONG,
    Bounds,
    CallMatch,
    Judged,
    Surroundings,
    extra_arguments,
)
from goldspan.scoring.comparison import ONE, ZERO
from goldspan.scoring.criterion import Criterion
from goldspan.scoring.declared_defaults import DeclaredDefaults
from goldspan.scoring.expected_turn import ExpectedTurn
from goldspan.scoring.forbidden import judge_forbidden, with_forbidden
from goldspan.scoring.matchers.history import History
from goldspan.scoring.plain_turn import judged
from goldspan.scoring.possible import most_of_each, reason_of_unknown
from goldspan.scoring.results import CallResult, Label, Reason, TurnResult, Verdict
from goldspan.scoring.sessions import ToolCall, Turn

NOT_EXPECTED = Verdict(None, Label.NOT_EVALUATED, Reason.NOTHING_EXPECTED)
"""Of calls that stand for no expected one, and of turns of which nothing is expected."""

_BETTER = (Label.FAIL, Label.NOT_EVALUATED, Label.PASS)
_NEAREST_OF = 200
"""How many left-over calls of a name are looked at for near misses."""


class TurnScore(NamedTuple):
    """A turn's result, and what the score may be once everything unknown were known."""

    result: TurnResult
    bounds: Bounds = ANYTHING
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
    history: History | None = None,
) -> TurnScore:
    """Score a turn; without one, every expected call is missing.

    `unseen` is a reason why there may be calls that were not seen: expected calls without a partner are then not
    evaluated. `batches` replaces the batch numbers of the calls. `history` has what earlier calls returned.
    """
    if turn is not None and not turn.calls_visible:
        unseen = unseen or Reason.CALLS_NOT_VISIBLE
    if turn is not None and unseen is None and golden.plain is not None:
        found = golden.plain.score(turn, batches)
        if found is not None:
            partners, verdict, bounds = found

            def whole() -> TurnResult:
                matches = _matches(golden, Surroundings(None, DeclaredDefaults(turn.tool_definitions)))
                scored = _Scored(matches, golden.places, turn.calls, partners, {}, None)
                return _result(golden, scored, verdict, turn, turn_index)

            return TurnScore(TurnResult.later(whole, verdict=verdict), bounds)
    around = Surroundings(history, None if turn is None else DeclaredDefaults(turn.tool_definitions))
    matches = _matches(golden, around)
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
        forbidden = [
            CallMatch(call, one, around)
            for call, one in zip(golden.calls, golden.criteria, strict=True)
            if call.forbidden
        ]
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
        judged: Mapping[int, Judged],
        unseen: Reason | None,
    ) -> None:
        self.calls: list[CallResult] = []
        self.counted: list[CallResult] = []
        """Those that count towards the mean, with their bounds."""
        self.bounds: list[Bounds] = []
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


def _matches(golden: ExpectedTurn, around: Surroundings) -> list[CallMatch]:
    return [CallMatch(golden.calls[place], golden.criteria[place], around) for place in golden.places]


def _result(
    golden: ExpectedTurn,
    scored: _Scored,
    verdict: Verdict,
    turn: Turn | None,
    turn_index: int | None,
    *,
    approximate: bool = False,
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
        expected=len(scored.counted),
        evaluated=sum(result.verdict.exact is not None for result in scored.counted),
        matched=sum(result.aligned for result in scored.counted),
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
        Bounds(max(one.least for one in alike), max(one.most for one in alike)),
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
        result.evaluated - result.expected,
        result.matched,
        -len(result.unexpected),
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
    return judged(*exact.as_integer_ratio(), *threshold.as_integer_ratio())[0]


def label_of(bounds: Bounds, threshold: Fraction) -> Label:
    """Judge by what the score may be: it passes or fails only if it does so whatever the unknown turns out to be."""
    if bounds.most < threshold:
        return Label.FAIL
    return Label.PASS if bounds.least >= threshold else Label.NOT_EVALUATED


def _verdict(
    results: Sequence[CallResult], bounds: Sequence[Bounds], criterion: Criterion, extra: int, unseen: Reason | None
) -> tuple[Verdict, Bounds]:
    how = criterion.turn_score
    if not extra and unseen is None and all(one is RIGHT for one in bounds):
        return PASSED, RIGHT
    threshold = criterion.exact_threshold
    if unseen is None and all(one.least is one.most for one in bounds):
        certain = _score_of([one.least for one in bounds], extra, how)
        return judged(*certain.as_integer_ratio(), *threshold.as_integer_ratio())
    least = _score_of([one.least for one in bounds], extra, how)
    if unseen is not None and criterion.extra_calls == "penalize":
        least = ZERO
    within = Bounds(least, _score_of([one.most for one in bounds], extra, how))
    scores = [result.verdict.exact for result in results if result.verdict.exact is not None]
    exact = _score_of(scores, extra, how) if scores else None
    label = label_of(within, threshold)
    reason = None
    if label is Label.NOT_EVALUATED:
        reasons = (result.verdict.reason for result in results)
        reason = next((one for one in reasons if one is not None), unseen)
    return Verdict(exact, label, reason), within


def _with_room(
    verdict: Verdict, within: Bounds, most: Sequence[Fraction], criterion: Criterion, why: Reason
) -> tuple[Verdict, Bounds]:
    """Widen bounds by what another alignment may be worth once everything unknown were known."""
    within = Bounds(within.least, max(within.most, _score_of(most, 0, criterion.turn_score)))
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
