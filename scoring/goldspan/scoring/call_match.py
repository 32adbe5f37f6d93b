"""One expected call against one actual call: what the pair is worth, and what became of each argument.

Only expected arguments are judged. A value that is not known is neither right nor wrong: it leaves the call without a
score and widens the bounds its turn is judged by.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from goldspan.scoring.align.alignment import Pair
from goldspan.scoring.call_history import CallHistory, EarlierCalls
from goldspan.scoring.comparison import ONE, ZERO
from goldspan.scoring.criterion import Criterion
from goldspan.scoring.goldens.golden import ExpectedCall
from goldspan.scoring.matchers.kinds.presence import Absent, Ignore, Present
from goldspan.scoring.matchers.matcher import ABSENT, Absence, Expected, holds_matchers
from goldspan.scoring.matchers.value_score import differing, has_parts, lacks, score_of
from goldspan.scoring.results import ArgumentResult, Outcome
from goldspan.scoring.rules import Rule
from goldspan.scoring.sessions import JsonValue, ToolCall
from goldspan.scoring.tool_definitions import DeclaredDefaults
from goldspan.scoring.verdict import REASON_OF_CAPTURE, Label, Reason, Verdict, arguments_of, is_hidden, why_not_known


class ExpectedArgument(NamedTuple):
    """An expected argument that counts."""

    name: str
    value: Expected
    rule: Rule
    special: bool
    """It is more than plain JSON to be compared as a whole."""


class CallRules(NamedTuple):
    """An expected call with the rules for its arguments, as its criterion resolves them."""

    expected: ExpectedCall
    criterion: Criterion
    arguments: list[ExpectedArgument]
    total: int | Fraction
    """What the arguments are worth together."""


def call_rules(expected: ExpectedCall, criterion: Criterion) -> CallRules:
    """Resolve the rules for the arguments of an expected call."""
    rules = criterion.rules(expected.name)
    as_a_whole = expected.values is expected.args and not rules.reach_inside
    arguments = [
        ExpectedArgument(name, value, rule := rules[name], not as_a_whole and has_parts(value, rule))
        for name, value in expected.values.items()
        if not isinstance(value, Ignore)
    ]
    return CallRules(expected, criterion, arguments, sum([one.rule.points for one in arguments]))


MISSING = ABSENT
"""In the place of a score: the argument was left out, and that is wrong."""
PASSED = Verdict(ONE, Label.PASS)
FAILED = Verdict(ZERO, Label.FAIL)

_PERFECT = Pair(ONE)
_UNKNOWN = Pair(ZERO, known=False, room=ONE)


class ScoreBounds(NamedTuple):
    """The least and the most a score can turn out to be once everything unknown were known."""

    least: Fraction
    most: Fraction


ANYTHING = ScoreBounds(ZERO, ONE)
RIGHT = ScoreBounds(ONE, ONE)
WRONG = ScoreBounds(ZERO, ZERO)


class CallScore(NamedTuple):
    """What an actual call is worth in the place of an expected one."""

    verdict: Verdict
    bounds: ScoreBounds
    arguments: tuple[ArgumentResult, ...]
    extra: tuple[str, ...]


class CallContext(NamedTuple):
    """What is judged by besides a call's own arguments."""

    history: CallHistory | None = None
    """What earlier calls returned; None: not known."""
    defaults: DeclaredDefaults | None = None
    """What the tools' definitions declare for arguments that are left out."""


class CallMatch:
    """An expected call together with the rules for its arguments, to be compared with many actual calls."""

    __slots__ = ("_context", "_items", "_total", "criterion", "expected")

    def __init__(self, rules: CallRules, context: CallContext = CallContext()) -> None:  # noqa: B008 - immutable
        self.expected, self.criterion, self._items, self._total = rules
        self._context = context

    @property
    def _minds_extra(self) -> bool:
        """Whether arguments that were not expected decide something."""
        return self.criterion.extra_arguments == "penalize" or self.criterion.match_mode == "name_and_args"

    def is_perfect(self, call: ToolCall, judged: CallScore) -> bool:
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
            pair = _UNKNOWN if self._items or self._minds_extra else _PERFECT
            return pair if successful else pair._replace(successful=False)
        by_keys, by_values = criterion.match_mode != "name_only", criterion.match_mode == "name_and_args"
        hidden = call.argument_captures
        points: Fraction | int = 0
        unknown: Fraction | int = 0
        for item in self._items:
            name, value, rule, special = item
            if special or name not in actual or (hidden and is_hidden(hidden, name)):
                if by_keys and rule.needed and self._lacks_part(item, actual):
                    return None
                score = self._special(item, actual, call)
                if score is MISSING:
                    if by_values or (by_keys and rule.required):
                        return None
                    continue
                if score is None:
                    unknown += rule.points
                    continue
            else:
                score = rule.compare(value, actual[name])
            if score is ONE:
                points += rule.points
            elif by_values:
                return None
            elif score is not ZERO:
                points += rule.points * score
        extra = len(extra_arguments(self.expected, call)) if by_values or criterion.extra_arguments == "penalize" else 0
        if by_values and extra:
            return None
        score = _share(points, self._total + extra)
        if unknown:
            least, most = self._of_call(score, _share(points + unknown, self._total + extra))
            return Pair(least, known=False, successful=successful, room=most - least, likeness=score)
        if criterion.call_score == "all":
            return Pair(ONE if score is ONE else ZERO, successful=successful, likeness=score)
        return Pair(score, successful=successful)

    def likeness(self, call: ToolCall) -> Fraction:
        """Return which share of the expected arguments a call has right, whether it may be a partner or not."""
        actual = arguments_of(call) or {}
        points: Fraction | int = 0
        for item in self._items:
            score = self._special(item, actual, call)
            if score is not None and score is not MISSING and score is not ZERO:
                points += item[2].points if score is ONE else item[2].points * score
        return _share(points, self._total)

    def may_be(self, call: ToolCall) -> bool:
        """Whether every expected argument that is known is a match."""
        actual, hidden = arguments_of(call) or {}, call.argument_captures
        return all(is_hidden(hidden, item[0]) or self._special(item, actual, call) is ONE for item in self._items)

    def judge(self, call: ToolCall) -> CallScore:
        """Compare a call argument by argument."""
        actual, hidden = arguments_of(call), call.argument_captures
        if actual is None:
            return self._judge_unknown(call)
        results: list[ArgumentResult] = []
        points: Fraction | int = 0
        unknown: Fraction | int = 0
        reason = None
        for item in self._items:
            name, value, rule, special = item
            strategy, weight, worth = rule.strategy, rule.weight, rule.points
            if special or name not in actual or (hidden and is_hidden(hidden, name)):
                score = self._special(item, actual, call)
                value = self._written(name, value)
                found = actual[name] if name in actual else self._default(name, None)
            else:
                found = actual[name]
                score = rule.compare(value, found)
            if score is ONE:
                results.append(ArgumentResult(name, Outcome.MATCHED, ONE, strategy, value, found, weight))
                points += worth
            elif score is MISSING:
                results.append(ArgumentResult(name, Outcome.MISSING, ZERO, strategy, value, None, weight))
            elif score is None:
                results.append(ArgumentResult(name, Outcome.UNKNOWN, None, strategy, value, None, weight))
                unknown += worth
                reason = reason or (
                    REASON_OF_CAPTURE[hidden[name]] if is_hidden(hidden, name) else Reason.INPUT_MISSING
                )
            else:
                parts = self._differing(item, found, call)
                results.append(ArgumentResult(name, Outcome.MISMATCHED, score, strategy, value, found, weight, parts))
                if score is not ZERO:
                    points += worth * score
        extra = extra_arguments(self.expected, call)
        total = self._total + (len(extra) if extra and self.criterion.extra_arguments == "penalize" else 0)
        least = _share(points, total)
        bounds = self._of_call(least, _share(points + unknown, total) if reason else least)
        return CallScore(_verdict(bounds, reason), bounds, self._with_ignored(results, actual), extra)

    def _judge_unknown(self, call: ToolCall) -> CallScore:
        """Judge a call whose arguments are not known: nothing can be said unless nothing is expected."""
        results = self._with_ignored(
            [
                ArgumentResult(
                    name, Outcome.UNKNOWN, None, rule.strategy, self._written(name, value), None, rule.weight
                )
                for name, value, rule, _ in self._items
            ],
            {},
        )
        if not self._items and not self._minds_extra:
            return CallScore(PASSED, RIGHT, results, ())
        return CallScore(Verdict(None, Label.NOT_EVALUATED, why_not_known(call)), ANYTHING, results, ())

    def _special(
        self, item: ExpectedArgument, actual: Mapping[str, JsonValue], call: ToolCall
    ) -> Fraction | Absence | None:
        """Judge an argument of any kind: 0 to 1, `MISSING`, or none where that is not known."""
        name, value, rule, special = item
        if is_hidden(call.argument_captures, name):
            return ONE if isinstance(value, Present) else ZERO if isinstance(value, Absent) else None
        if name in actual:
            return self._score(item, actual[name], call) if special else rule.compare(value, actual[name])
        if special and (score := self._score(item, ABSENT, call)) != 0:
            return score
        default = ABSENT if isinstance(value, Present) else self._default(name, ABSENT)
        return ONE if default is not ABSENT and self._score(item, default, call) == 1 else MISSING

    def _score(self, item: ExpectedArgument, actual: JsonValue, call: ToolCall) -> Fraction | None:
        _, value, rule, _ = item
        score = score_of(value, actual, rule, self._earlier(call))
        return ONE if score == 1 else score

    def _earlier(self, call: ToolCall) -> EarlierCalls | None:
        history = self._context.history
        return None if history is None else history.before(call)

    def _default(self, name: str, otherwise: JsonValue) -> JsonValue:
        """Return what an argument is when it is left out, as far as its tool declares it."""
        defaults = self._context.defaults
        return otherwise if defaults is None else defaults.of(self.expected.name).get(name, otherwise)

    def _lacks_part(self, item: ExpectedArgument, actual: Mapping[str, JsonValue]) -> bool:
        """Whether a part is expected and needed, and not there."""
        name, value, rule, _ = item
        return any(lacks(value, actual.get(name, ABSENT), way) for way in rule.needed)

    def _written(self, name: str, value: Expected) -> JsonValue:
        """Return an expected value as it stands in the golden; a literal one as it is meant."""
        return self.expected.args[name] if holds_matchers(value) else value

    def _differing(self, item: ExpectedArgument, found: JsonValue, call: ToolCall) -> tuple[str, ...]:
        """Name the parts of an expected value that differ, where it has parts."""
        _, value, rule, _ = item
        return () if isinstance(value, str) else differing(value, found, rule, self._earlier(call))

    def _with_ignored(
        self, results: list[ArgumentResult], actual: Mapping[str, JsonValue]
    ) -> tuple[ArgumentResult, ...]:
        """Put what is not judged among the results, in the golden's order."""
        if len(results) == len(self.expected.args):
            return tuple(results)
        by_name = {result.name: result for result in results}
        rules = self.criterion.rules(self.expected.name)
        return tuple(
            by_name.get(name)
            or ArgumentResult(name, Outcome.IGNORED, None, rules[name].strategy, value, actual.get(name))
            for name, value in self.expected.args.items()
        )

    def _of_call(self, least: Fraction, most: Fraction) -> ScoreBounds:
        if least is ONE:
            return RIGHT
        if self.criterion.call_score == "all":
            return ScoreBounds(ZERO, ONE if most is ONE else ZERO)
        return ScoreBounds(least, most)


def extra_arguments(expected: ExpectedCall, call: ToolCall) -> tuple[str, ...]:
    """Return the names of arguments that were passed and not expected."""
    actual = arguments_of(call)
    if not actual or actual.keys() == expected.args.keys():
        return ()
    return tuple(name for name in actual if name not in expected.args)


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


def _verdict(bounds: ScoreBounds, reason: Reason | None) -> Verdict:
    if reason is not None:
        return Verdict(None, Label.NOT_EVALUATED, reason)
    if bounds.least is ONE:
        return PASSED
    return Verdict(bounds.least, Label.FAIL)
