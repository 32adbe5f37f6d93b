"""One expected call against one actual call: what the pair is worth, and what became of each argument.

Only expected arguments are judged. A value that is not known is neither right nor wrong: it leaves the call without a
score and widens the bounds its turn is judged by.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from goldspan.scoring.alignment import Pair
from goldspan.scoring.comparison import ONE, ZERO
from goldspan.scoring.criterion import Criterion
from goldspan.scoring.goldens.models import ExpectedCall
from goldspan.scoring.results import ArgumentResult, Label, Outcome, Reason, Verdict
from goldspan.scoring.sessions import Capture, JsonValue, ToolCall

REASONS: Mapping[Capture, Reason] = {
    Capture.NOT_CAPTURED: Reason.ARGUMENTS_NOT_CAPTURED,
    Capture.REDACTED: Reason.ARGUMENTS_REDACTED,
    Capture.TRUNCATED: Reason.ARGUMENTS_TRUNCATED,
    Capture.UNPARSABLE: Reason.ARGUMENTS_UNPARSABLE,
}
PASSED = Verdict(ONE, Label.PASS)
FAILED = Verdict(ZERO, Label.FAIL)

_PERFECT = Pair(ONE)
_UNKNOWN = Pair(ZERO, known=False)


class Bounds(NamedTuple):
    """The least and the most a score can turn out to be once everything unknown were known."""

    least: Fraction
    most: Fraction


ANYTHING = Bounds(ZERO, ONE)
RIGHT = Bounds(ONE, ONE)
WRONG = Bounds(ZERO, ZERO)


class Judged(NamedTuple):
    """What an actual call is worth in the place of an expected one."""

    verdict: Verdict
    bounds: Bounds
    arguments: tuple[ArgumentResult, ...]
    extra: tuple[str, ...]


class CallMatch:
    """An expected call together with the rules for its arguments, to be compared with many actual calls."""

    __slots__ = ("_items", "_total", "criterion", "expected")

    def __init__(self, expected: ExpectedCall, criterion: Criterion) -> None:
        self.expected, self.criterion = expected, criterion
        rules = criterion.rules(expected.name)
        self._items = [(argument, value, rules[argument]) for argument, value in expected.args.items()]
        self._total = sum(rule.points for _, _, rule in self._items)

    def is_perfect(self, call: ToolCall, judged: Judged) -> bool:
        """Whether no other call could be a better partner than this one of the same name."""
        return (
            judged.verdict is PASSED
            and call.error is None
            and not (call.rejected or (judged.extra and self.criterion.match_mode == "name_and_args"))
        )

    def pair(self, call: ToolCall) -> Pair | None:
        """Return what it is worth to let a call of the same name stand for the expected one; None: it may not."""
        criterion = self.criterion
        if call.rejected and criterion.rejected_requests == "report":
            return None
        successful = call.error is None and not call.rejected
        if not successful and not call.rejected and criterion.failed_calls == "ignore":
            return None
        actual = arguments_of(call)
        if actual is None:
            needed = self._items or criterion.extra_arguments == "penalize"
            pair = _UNKNOWN if needed else _PERFECT
            return pair if successful else pair._replace(successful=False)
        by_keys, by_values = criterion.match_mode != "name_only", criterion.match_mode == "name_and_args"
        hidden = call.argument_captures
        points: Fraction | int = 0
        known = True
        for name, value, rule in self._items:
            if hidden and is_hidden(hidden, name):
                known = False
            elif name not in actual:
                if by_values or (by_keys and rule.required):
                    return None
            elif (score := rule.compare(value, actual[name])) is ONE:
                points += rule.points
            elif by_values:
                return None
            elif score is not ZERO:
                points += rule.points * score
        extra = len(extra_arguments(self.expected, call)) if by_values or criterion.extra_arguments == "penalize" else 0
        if by_values and extra:
            return None
        score = _share(points, self._total + extra)
        if criterion.call_score == "all":
            return Pair(ONE if score is ONE else ZERO, known, successful, likeness=score)
        return Pair(score, known, successful)

    def likeness(self, call: ToolCall) -> Fraction:
        """Return which share of the expected arguments a call has right, whether it may be a partner or not."""
        actual = arguments_of(call) or {}
        points: Fraction | int = 0
        for name, value, rule in self._items:
            if name in actual and not is_hidden(call.argument_captures, name):
                score = rule.compare(value, actual[name])
                if score is not ZERO:
                    points += rule.points if score is ONE else rule.points * score
        return _share(points, self._total)

    def may_be(self, call: ToolCall) -> bool:
        """Whether every expected argument that is known is a match."""
        actual, hidden = arguments_of(call) or {}, call.argument_captures
        return all(
            is_hidden(hidden, name) or (name in actual and rule.compare(value, actual[name]) is ONE)
            for name, value, rule in self._items
        )

    def judge(self, call: ToolCall) -> Judged:
        """Compare a call argument by argument."""
        actual, hidden = arguments_of(call), call.argument_captures
        if actual is None:
            return self._judge_unknown(call)
        results: list[ArgumentResult] = []
        points: Fraction | int = 0
        unknown: Fraction | int = 0
        reason = None
        for name, value, rule in self._items:
            strategy, compare, weight, worth, _ = rule
            if hidden and is_hidden(hidden, name):
                results.append(ArgumentResult(name, Outcome.UNKNOWN, None, strategy, value, None, weight))
                unknown += worth
                reason = reason or REASONS[hidden[name]]
            elif name not in actual:
                results.append(ArgumentResult(name, Outcome.MISSING, ZERO, strategy, value, None, weight))
            elif (score := compare(value, actual[name])) is ONE:
                results.append(ArgumentResult(name, Outcome.MATCHED, ONE, strategy, value, actual[name], weight))
                points += worth
            else:
                results.append(ArgumentResult(name, Outcome.MISMATCHED, score, strategy, value, actual[name], weight))
                if score is not ZERO:
                    points += worth * score
        extra = extra_arguments(self.expected, call)
        total = self._total + (len(extra) if extra and self.criterion.extra_arguments == "penalize" else 0)
        least = _share(points, total)
        bounds = self._of_call(least, _share(points + unknown, total) if reason else least)
        return Judged(_verdict(bounds, reason), bounds, tuple(results), extra)

    def _judge_unknown(self, call: ToolCall) -> Judged:
        """Judge a call whose arguments are not known: nothing can be said unless nothing is expected."""
        # Captured arguments that are no mapping cannot be read.
        capture = Capture.UNPARSABLE if call.capture == Capture.CAPTURED else call.capture
        results = tuple(
            ArgumentResult(name, Outcome.UNKNOWN, None, rule.strategy, value, None, rule.weight)
            for name, value, rule in self._items
        )
        if not results and self.criterion.extra_arguments == "report":
            return Judged(PASSED, RIGHT, (), ())
        return Judged(Verdict(None, Label.NOT_EVALUATED, REASONS[capture]), ANYTHING, results, ())

    def _of_call(self, least: Fraction, most: Fraction) -> Bounds:
        if least is ONE:
            return RIGHT
        if self.criterion.call_score == "all":
            return Bounds(ZERO, ONE if most is ONE else ZERO)
        return Bounds(least, most)


def arguments_of(call: ToolCall) -> Mapping[str, JsonValue] | None:
    """Return the arguments of a call, None where they are not known."""
    if call.capture != Capture.CAPTURED:
        return None
    arguments: object = call.arguments
    return call.arguments if isinstance(arguments, dict | Mapping) else None


def extra_arguments(expected: ExpectedCall, call: ToolCall) -> tuple[str, ...]:
    """Return the names of arguments that were passed and not expected."""
    actual = arguments_of(call)
    if not actual or actual.keys() == expected.args.keys():
        return ()
    return tuple(name for name in actual if name not in expected.args)


def is_hidden(captures: Mapping[str, Capture], name: str) -> bool:
    """Whether the value of an argument is hidden though the call's others are known."""
    return captures.get(name, Capture.CAPTURED) != Capture.CAPTURED


def _share(points: Fraction | int, total: Fraction | int) -> Fraction:
    """Return a weighted mean; a call of which nothing is expected is right."""
    if points == total:
        return ONE
    if not points:
        return ZERO
    return _ratio(points, total) if isinstance(points, int) and isinstance(total, int) else Fraction(points) / total


@lru_cache(maxsize=4096)
def _ratio(points: int, total: int) -> Fraction:
    return Fraction(points, total)


def _verdict(bounds: Bounds, reason: Reason | None) -> Verdict:
    if reason is not None:
        return Verdict(None, Label.NOT_EVALUATED, reason)
    if bounds.least is ONE:
        return PASSED
    return Verdict(bounds.least, Label.FAIL)
