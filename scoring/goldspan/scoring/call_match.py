"""One expected call against one actual call: what the pair is worth, and what became of each argument.

Only expected arguments are judged. A value that is not known is neither right nor wrong: it leaves the call without a
score and widens the bounds its turn is judged by.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

from goldspan.scoring.alignment import Pair
from goldspan.scoring.comparison import ONE, ZERO
from goldspan.scoring.criterion import Criterion, Rule
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
        name, rule = expected.name, criterion.rule
        self._items = [(argument, value, rule(name, argument)) for argument, value in expected.args.items()]
        self._total = sum(item[2].weight for item in self._items)

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
                points += rule.weight
            elif by_values:
                return None
            elif score is not ZERO:
                points += rule.weight * score
        extra = len(extra_arguments(self.expected, call)) if by_values or criterion.extra_arguments == "penalize" else 0
        if by_values and extra:
            return None
        score = _share(points, self._total + extra)
        if criterion.call_score == "all":
            return Pair(ONE if score == 1 else ZERO, known, successful, likeness=score)
        return Pair(score, known, successful)

    def likeness(self, call: ToolCall) -> Fraction:
        """Return which share of the expected arguments a call has right, whether it may be a partner or not."""
        actual = arguments_of(call) or {}
        return sum(
            (
                rule.weight * rule.compare(value, actual[name])
                for name, value, rule in self._items
                if name in actual and not is_hidden(call.argument_captures, name)
            ),
            ZERO,
        )

    def judge(self, call: ToolCall) -> Judged:
        """Compare a call argument by argument."""
        actual, hidden = arguments_of(call), call.argument_captures
        results: list[ArgumentResult] = []
        points: Fraction | int = 0
        unknown: Fraction | int = 0
        reason = None
        for name, value, rule in self._items:
            result = _argument_result(name, value, rule, call, actual)
            results.append(result)
            if result.exact is None:
                unknown += rule.weight
                reason = reason or REASONS[hidden.get(name, call.capture) if actual is not None else _capture(call)]
            else:
                points += rule.weight * result.exact
        extra = extra_arguments(self.expected, call)
        penalized = len(extra) if self.criterion.extra_arguments == "penalize" else 0
        total = self._total + penalized
        bounds = Bounds(_share(points, total), _share(points + unknown, total))
        if actual is None and self.criterion.extra_arguments == "penalize":
            reason = REASONS[_capture(call)]
            bounds = Bounds(ZERO, bounds.most)
        if self.criterion.call_score == "all":
            bounds = Bounds(ONE if bounds.least == 1 else ZERO, ONE if bounds.most == 1 else ZERO)
        return Judged(_verdict(bounds, reason), bounds, tuple(results), extra)


def arguments_of(call: ToolCall) -> Mapping[str, JsonValue] | None:
    """Return the arguments of a call, None where they are not known."""
    if call.capture is not Capture.CAPTURED:
        return None
    arguments: object = call.arguments
    return call.arguments if isinstance(arguments, dict | Mapping) else None


def extra_arguments(expected: ExpectedCall, call: ToolCall) -> tuple[str, ...]:
    """Return the names of arguments that were passed and not expected."""
    return tuple(name for name in arguments_of(call) or () if name not in expected.args)


def is_hidden(captures: Mapping[str, Capture], name: str) -> bool:
    """Whether the value of an argument is hidden though the call's others are known."""
    return captures.get(name, Capture.CAPTURED) is not Capture.CAPTURED


def _capture(call: ToolCall) -> Capture:
    """Say what is known of arguments that are not known; captured ones that are no mapping cannot be read."""
    return Capture.UNPARSABLE if call.capture is Capture.CAPTURED else call.capture


def _argument_result(
    name: str, expected: JsonValue, rule: Rule, call: ToolCall, actual: Mapping[str, JsonValue] | None
) -> ArgumentResult:
    if actual is None or is_hidden(call.argument_captures, name):
        return ArgumentResult(name, Outcome.UNKNOWN, None, rule.strategy, expected, weight=rule.weight)
    if name not in actual:
        return ArgumentResult(name, Outcome.MISSING, ZERO, rule.strategy, expected, weight=rule.weight)
    score = rule.compare(expected, actual[name])
    outcome = Outcome.MATCHED if score == 1 else Outcome.MISMATCHED
    return ArgumentResult(name, outcome, score, rule.strategy, expected, actual[name], rule.weight)


def _share(points: Fraction | int, total: Fraction | int) -> Fraction:
    """Return a weighted mean; a call of which nothing is expected is right."""
    if points == total:
        return ONE
    return Fraction(points) / total if points else ZERO


def _verdict(bounds: Bounds, reason: Reason | None) -> Verdict:
    if reason is not None:
        return Verdict(None, Label.NOT_EVALUATED, reason)
    if bounds.least == 1:
        return PASSED
    return Verdict(bounds.least, Label.FAIL)
