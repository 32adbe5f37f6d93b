"""Compare one expected call with one actual call: the score of the pair, and the outcome of each argument.

Only expected arguments are scored. An unknown value is neither right nor wrong: the call gets no score, and the bounds
of its score are wider.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from goldspan.scoring.align.alignment import Pair
from goldspan.scoring.argument_rules import Rule
from goldspan.scoring.call_context import CallContext, EarlierCalls
from goldspan.scoring.comparison import ONE, ZERO
from goldspan.scoring.criterion import Criterion
from goldspan.scoring.goldens.golden import ExpectedCall
from goldspan.scoring.matchers.kinds.presence import Absent, Ignore, Present
from goldspan.scoring.matchers.matcher import ABSENT, Absence, Expected, holds_matchers
from goldspan.scoring.matchers.value_score import differing, has_parts, lacks, score_of
from goldspan.scoring.results import ArgumentOutcome, ArgumentResult
from goldspan.scoring.sessions import JsonValue, ToolCall
from goldspan.scoring.verdict import REASON_OF_CAPTURE, Label, Reason, Verdict, arguments_of, is_hidden, why_not_known


class ExpectedArgument(NamedTuple):
    """An expected argument that is scored."""

    name: str
    value: Expected
    rule: Rule
    special: bool
    """The value has matchers or parts with rules, so one comparison of plain JSON is not enough."""


class CallRules(NamedTuple):
    """An expected call with the rules for its arguments, as its criterion resolves them."""

    expected: ExpectedCall
    criterion: Criterion
    arguments: list[ExpectedArgument]
    total: int | Fraction
    """The sum of the arguments' weights."""


def call_rules(expected: ExpectedCall, criterion: Criterion) -> CallRules:
    """Resolve the rules for the arguments of an expected call."""
    rules = criterion.rules(expected.name)
    plain = expected.values is expected.args and not rules.reach_inside
    arguments = [
        ExpectedArgument(name, value, rule := rules[name], not plain and has_parts(value, rule))
        for name, value in expected.values.items()
        if not isinstance(value, Ignore)
    ]
    return CallRules(expected, criterion, arguments, sum([argument.rule.points for argument in arguments]))


MISSING = ABSENT
"""Returned instead of a score if a required argument was left out."""
PASSED = Verdict(ONE, Label.PASS)
FAILED = Verdict(ZERO, Label.FAIL)

_PERFECT = Pair(ONE)
_UNKNOWN = Pair(ZERO, known=False, possible_gain=ONE)


class ScoreBounds(NamedTuple):
    """The lowest and the highest score that are possible, depending on what is unknown."""

    lowest: Fraction
    highest: Fraction


UNBOUNDED = ScoreBounds(ZERO, ONE)
ONE_EXACTLY = ScoreBounds(ONE, ONE)
ZERO_EXACTLY = ScoreBounds(ZERO, ZERO)


class CallScore(NamedTuple):
    """The result of comparing an expected call with an actual call."""

    verdict: Verdict
    bounds: ScoreBounds
    arguments: tuple[ArgumentResult, ...]
    extra: tuple[str, ...]


class CallMatch:
    """An expected call with its rules and context, ready to be compared with many actual calls."""

    __slots__ = ("_arguments", "_context", "_total", "criterion", "expected")

    def __init__(self, rules: CallRules, context: CallContext = CallContext()) -> None:  # noqa: B008 - immutable
        self.expected, self.criterion, self._arguments, self._total = rules
        self._context = context

    @property
    def extra_arguments_count(self) -> bool:
        """Whether an unexpected argument lowers the score, or keeps a call from being aligned."""
        return self.criterion.extra_arguments == "penalize" or self.criterion.match_mode == "name_and_args"

    def is_perfect(self, call: ToolCall, score: CallScore) -> bool:
        """Whether no other call of the same name can be a better partner."""
        return (
            score.verdict is PASSED
            and call.error is None
            and not (call.rejected or (score.extra and self.criterion.match_mode == "name_and_args"))
        )

    def pair(self, call: ToolCall) -> Pair | None:
        """Return the score of the pair with a call of the same name; None if the two may not be aligned."""
        criterion = self.criterion
        if call.rejected and criterion.rejected_requests == "report":
            return None
        successful = call.error is None and not call.rejected
        if not successful and not call.rejected and criterion.failed_calls == "ignore":
            return None
        actual = arguments_of(call)
        if actual is None:
            pair = _UNKNOWN if self._arguments or self.extra_arguments_count else _PERFECT
            return pair if successful else pair._replace(successful=False)
        by_keys, by_values = criterion.match_mode != "name_only", criterion.match_mode == "name_and_args"
        hidden = call.argument_captures
        points: Fraction | int = 0
        unknown: Fraction | int = 0
        for argument in self._arguments:
            name, expected, rule, special = argument
            if special or name not in actual or (hidden and is_hidden(hidden, name)):
                if by_keys and rule.needed and self._lacks_part(argument, actual):
                    return None
                score = self._score(argument, actual, call)
                if score is MISSING:
                    if by_values or (by_keys and rule.required):
                        return None
                    continue
                if score is None:
                    unknown += rule.points
                    continue
            else:
                score = rule.compare(expected, actual[name])
            if score is ONE:
                points += rule.points
            elif by_values:
                return None
            elif score is not ZERO:
                points += rule.points * score
        extra = len(extra_arguments(self.expected, call)) if self.extra_arguments_count else 0
        if by_values and extra:
            return None
        score = _share(points, self._total + extra)
        if unknown:
            lowest, highest = self._bounds(score, _share(points + unknown, self._total + extra))
            return Pair(
                lowest, known=False, successful=successful, possible_gain=highest - lowest, argument_score=score
            )
        if criterion.call_score == "all":
            return Pair(ONE if score is ONE else ZERO, successful=successful, argument_score=score)
        return Pair(score, successful=successful)

    def likeness(self, call: ToolCall) -> tuple[Fraction, int]:
        """Return the share of the expected arguments that are right, and how many were passed, right or wrong."""
        actual = arguments_of(call) or {}
        points: Fraction | int = 0
        for argument in self._arguments:
            score = self._score(argument, actual, call)
            if score is not None and score is not MISSING and score is not ZERO:
                points += argument.rule.points if score is ONE else argument.rule.points * score
        return _share(points, self._total), sum(argument.name in actual for argument in self._arguments)

    def has_same_arguments(self, call: ToolCall) -> bool:
        """Whether a call, perhaps of another tool, has the expected arguments and no others."""
        return bool(arguments_of(call)) and not extra_arguments(self.expected, call) and self.may_match(call)

    def may_match(self, call: ToolCall) -> bool:
        """Whether every argument matches that is not hidden."""
        actual, hidden = arguments_of(call) or {}, call.argument_captures
        return all(
            is_hidden(hidden, argument.name) or self._score(argument, actual, call) is ONE
            for argument in self._arguments
        )

    def compare(self, call: ToolCall) -> CallScore:
        """Compare a call argument by argument."""
        actual, hidden = arguments_of(call), call.argument_captures
        if actual is None:
            return self._compare_unknown(call)
        results: list[ArgumentResult] = []
        points: Fraction | int = 0
        unknown: Fraction | int = 0
        reason = None
        for argument in self._arguments:
            name, expected, rule, special = argument
            parts: tuple[str, ...] = ()
            if special or name not in actual or (hidden and is_hidden(hidden, name)):
                score = self._score(argument, actual, call)
                expected = self._as_written(name, expected)
                found = actual[name] if name in actual else self._default(name, None)
            else:
                found = actual[name]
                score = rule.compare(expected, found)
            if score is ONE:
                outcome, score = ArgumentOutcome.MATCHED, ONE
                points += rule.points
            elif isinstance(score, Absence):  # `MISSING`
                outcome, score, found = ArgumentOutcome.MISSING, ZERO, None
            elif score is None:
                outcome, found = ArgumentOutcome.UNKNOWN, None
                unknown += rule.points
                reason = reason or (
                    REASON_OF_CAPTURE[hidden[name]] if is_hidden(hidden, name) else Reason.INPUT_MISSING
                )
            else:
                outcome, parts = ArgumentOutcome.MISMATCHED, self._differing(argument, found, call)
                if score is not ZERO:
                    points += rule.points * score
            results.append(ArgumentResult(name, outcome, score, rule.strategy, expected, found, rule.weight, parts))
        extra = extra_arguments(self.expected, call)
        total = self._total + (len(extra) if extra and self.criterion.extra_arguments == "penalize" else 0)
        lowest = _share(points, total)
        bounds = self._bounds(lowest, _share(points + unknown, total) if reason else lowest)
        if reason is not None:
            verdict = Verdict(None, Label.NOT_EVALUATED, reason)
        else:
            verdict = PASSED if bounds.lowest is ONE else Verdict(bounds.lowest, Label.FAIL)
        return CallScore(verdict, bounds, self._with_ignored(results, actual), extra)

    def _compare_unknown(self, call: ToolCall) -> CallScore:
        """Compare a call with unknown arguments: it is not evaluated unless no argument matters."""
        unknown = [
            ArgumentResult(
                name, ArgumentOutcome.UNKNOWN, None, rule.strategy, self._as_written(name, value), None, rule.weight
            )
            for name, value, rule, _ in self._arguments
        ]
        results = self._with_ignored(unknown, {})
        if not self._arguments and not self.extra_arguments_count:
            return CallScore(PASSED, ONE_EXACTLY, results, ())
        return CallScore(Verdict(None, Label.NOT_EVALUATED, why_not_known(call)), UNBOUNDED, results, ())

    def _score(
        self, argument: ExpectedArgument, actual: Mapping[str, JsonValue], call: ToolCall
    ) -> Fraction | Absence | None:
        """Score an argument: 0 to 1, `MISSING`, or None if it is unknown."""
        name, expected, rule, special = argument
        if is_hidden(call.argument_captures, name):
            return ONE if isinstance(expected, Present) else ZERO if isinstance(expected, Absent) else None
        if name in actual:
            return self._score_value(argument, actual[name], call) if special else rule.compare(expected, actual[name])
        if special and (score := self._score_value(argument, ABSENT, call)) != 0:
            return score
        default = ABSENT if isinstance(expected, Present) else self._default(name, ABSENT)
        return ONE if default is not ABSENT and self._score_value(argument, default, call) == 1 else MISSING

    def _score_value(self, argument: ExpectedArgument, actual: JsonValue, call: ToolCall) -> Fraction | None:
        score = score_of(argument.value, actual, argument.rule, self._earlier(call))
        return ONE if score == 1 else score

    def _earlier(self, call: ToolCall) -> EarlierCalls | None:
        history = self._context.history
        return None if history is None else history.before(call)

    def _default(self, name: str, otherwise: JsonValue) -> JsonValue:
        """Return the default of an argument, if the tool's definition declares it."""
        defaults = self._context.defaults
        return otherwise if defaults is None else defaults.of(self.expected.name).get(name, otherwise)

    def _lacks_part(self, argument: ExpectedArgument, actual: Mapping[str, JsonValue]) -> bool:
        """Whether a required part of an argument is missing."""
        value = actual.get(argument.name, ABSENT)
        return any(lacks(argument.value, value, way) for way in argument.rule.needed)

    def _as_written(self, name: str, value: Expected) -> JsonValue:
        """Return an expected value as the golden has it, with matchers in their written form."""
        return self.expected.args[name] if holds_matchers(value) else value

    def _differing(self, argument: ExpectedArgument, found: JsonValue, call: ToolCall) -> tuple[str, ...]:
        """Return the pointers to the parts of a value that differ."""
        expected = argument.value
        return () if isinstance(expected, str) else differing(expected, found, argument.rule, self._earlier(call))

    def _with_ignored(
        self, results: list[ArgumentResult], actual: Mapping[str, JsonValue]
    ) -> tuple[ArgumentResult, ...]:
        """Add the ignored arguments, in the golden's order."""
        if len(results) == len(self.expected.args):
            return tuple(results)
        by_name = {result.name: result for result in results}
        rules = self.criterion.rules(self.expected.name)
        return tuple(
            by_name.get(name)
            or ArgumentResult(name, ArgumentOutcome.IGNORED, None, rules[name].strategy, value, actual.get(name))
            for name, value in self.expected.args.items()
        )

    def _bounds(self, lowest: Fraction, highest: Fraction) -> ScoreBounds:
        """Return the bounds of the call's score, from the bounds of the mean of its arguments."""
        if lowest is ONE:
            return ONE_EXACTLY
        if self.criterion.call_score == "all":
            return ScoreBounds(ZERO, ONE if highest is ONE else ZERO)
        return ScoreBounds(lowest, highest)


def extra_arguments(expected: ExpectedCall, call: ToolCall) -> tuple[str, ...]:
    """Return the names of the arguments that were passed but not expected."""
    actual = arguments_of(call)
    if not actual or actual.keys() == expected.args.keys():
        return ()
    return tuple(name for name in actual if name not in expected.args)


def _share(points: Fraction | int, total: Fraction | int) -> Fraction:
    """Return points / total; 1 if there are no expected arguments."""
    if points == total:
        return ONE
    if not points:
        return ZERO
    return _ratio(points, total) if isinstance(points, int) and isinstance(total, int) else Fraction(points) / total


@lru_cache(maxsize=4096)
def _ratio(points: int, total: int) -> Fraction:
    return Fraction(points, total)
