"""Compare one expected call with one actual call: the score of the pair, and the outcome of each argument.

Only expected arguments are scored. An unknown value is neither right nor wrong: the call gets no score, and the bounds
of its score are wider.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from math import lcm
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from goldspan.scoring.align.alignment import Pair
from goldspan.scoring.comparison import ONE, SCALARS, ZERO, ValueRule, exact, share
from goldspan.scoring.goldens.golden import ExpectedCall
from goldspan.scoring.json_values import Steps
from goldspan.scoring.matchers.kinds.single_values import Absent, Ignore, Present
from goldspan.scoring.matchers.matcher import (
    ABSENT,
    Absence,
    Asks,
    Expected,
    asked_by,
    differing,
    has_parts,
    holds_matchers,
    lacks,
    score_of,
)
from goldspan.scoring.results import ArgumentOutcome, ArgumentResult, CallResult
from goldspan.scoring.sessions import CallHistory, EarlierCalls, JsonValue, ToolCall, Turn
from goldspan.scoring.tool_definitions import ToolsInForce, tools_in_force
from goldspan.scoring.verdict import REASON_OF_CAPTURE, Label, Reason, Verdict, arguments_of, is_hidden, why_not_known

if TYPE_CHECKING:
    from goldspan.scoring.criterion import Criterion

MISSING: Final = ABSENT
"""Returned instead of a score if a required argument was left out."""
PASSED = Verdict(ONE, Label.PASS)
FAILED = Verdict(ZERO, Label.FAIL)

_MATCHED, _MISMATCHED = ArgumentOutcome.MATCHED, ArgumentOutcome.MISMATCHED
_PERFECT = Pair(ONE)
_UNKNOWN = Pair(ZERO, known=False, possible_gain=ONE)
_SHARED = frozenset[type]({str, int, bool, type(None)})
"""Two equal values of one of these types cannot be told apart; 0.0 and -0.0 can."""
_AGENT_UNKNOWN = Verdict(None, Label.NOT_EVALUATED, Reason.INPUT_MISSING)
_NO_TYPES = frozenset[type]()


class ScoreBounds(Struct, frozen=True, gc=False):
    """The lowest and the highest score that are possible, depending on what is unknown."""

    lowest: Fraction
    highest: Fraction


UNBOUNDED = ScoreBounds(ZERO, ONE)
ONE_EXACTLY = ScoreBounds(ONE, ONE)
ZERO_EXACTLY = ScoreBounds(ZERO, ZERO)


class CallContext:
    """What a comparison uses besides the call's own arguments."""

    def __init__(self, history: CallHistory | None, turn: Turn | None) -> None:
        self.history = history
        """The results of earlier calls; None: unknown."""
        self._turn = turn

    @cached_property
    def tools(self) -> ToolsInForce | None:
        """Declares the defaults of arguments that were left out; None: unknown."""
        return None if self._turn is None else tools_in_force(self._turn)


class ExpectedArgument(Struct, frozen=True, gc=False):
    """An expected argument that is scored."""

    name: str
    value: Expected
    rule: ValueRule
    points: int | Fraction
    """Its weight."""
    special: bool
    """The value has matchers or parts with rules, so one comparison of plain JSON is not enough."""
    asks: bool
    """The value needs more of the session than what was passed."""
    settled: frozenset[type]
    """Types of actual values that are right exactly if they have the type of the expected value and are equal to it. Of
    other values the rule decides."""
    matched: ArgumentResult
    """The result for every right value of these types."""
    required: bool
    """A call without it may not be aligned."""
    needed: tuple[Steps, ...]
    """Parts of it without which a call may not be aligned."""


Step = tuple[ExpectedArgument, str, JsonValue, frozenset[type], int | Fraction]
"""An expected argument with its name, value, settled types and points: to unpack all takes as long as to read one."""


class CallRules(Struct, frozen=True, gc=False):
    """An expected call with the rules for its arguments, as its criterion resolves them, to compare calls with."""

    expected: ExpectedCall
    criterion: Criterion
    arguments: tuple[ExpectedArgument, ...]
    """Those that are scored."""
    steps: tuple[Step, ...]
    """The same, to compare a call with."""
    total: int | Fraction
    """The sum of the arguments' weights."""
    place: int
    """Position among the turn's expected calls."""
    narrow: bool
    """It names its agent, or how it ends."""
    by_values: bool
    """A call with a wrong argument, or an unexpected one, may not be aligned."""
    extra_arguments_count: bool
    """An unexpected argument lowers the score, or keeps a call from being aligned."""
    how: Literal["mean", "all"]
    """With `all`, one wrong argument makes the score 0."""
    plain: tuple[tuple[str, ...], tuple[JsonValue, ...]] | None
    """Names and values of the arguments, if each is a plain value that is right or wrong as a whole."""
    with_a_mistake: Pair | None
    """The best pair with a call that has a wrong argument, if the arguments are plain."""

    def is_perfect(self, result: CallResult, call: ToolCall) -> bool:
        """Whether no other call of the same name can be a better partner."""
        if result.verdict is not PASSED or call.error is not None or call.rejected:
            return False
        return not (self.by_values and result.extra_arguments)

    def is_of_other_kind(self, call: ToolCall) -> bool:
        """Whether another agent than the expected one made a call, or it ended otherwise."""
        wanted, status = self.expected.agent, self.expected.status
        other_agent = wanted is not None and call.agent is not None and call.agent != wanted
        return other_agent or (status is not None and (call.error is None) is not (status == "succeeded"))

    def pair(self, call: ToolCall, context: CallContext) -> Pair | None:
        """Return the score of the pair with a call of the same name; None if the two may not be aligned."""
        if self.narrow:
            if self.is_of_other_kind(call):
                return None
            if self.expected.agent is not None and call.agent is None:
                return _UNKNOWN
        successful = call.error is None and not call.rejected
        if not successful and not self._may_stand(call):
            return None
        actual = arguments_of(call)
        if actual is None:
            return self._pair_unread(successful=successful)
        weights = self._points(actual, call, context)
        extra = len(extra_arguments(self.expected, call)) if self.extra_arguments_count else 0
        if weights is None or (extra and self.by_values):
            return None
        points, unknown = weights
        total = self.total + extra
        if not unknown:
            pair = _known_pair(points, total, self.how)
            return pair if successful else replace(pair, successful=False)
        right = share(points, total)
        bounds = _bounds(right, share(points + unknown, total), self.how)
        return Pair(bounds.lowest, False, successful, bounds.highest - bounds.lowest, right)  # noqa: FBT003

    def _pair_unread(self, *, successful: bool) -> Pair:
        pair = _UNKNOWN if self.arguments or self.extra_arguments_count else _PERFECT
        return pair if successful else replace(pair, successful=False)

    def _may_stand(self, call: ToolCall) -> bool:
        """Whether a call that failed, or was rejected, may stand for an expected one."""
        if call.rejected:
            return self.criterion.rejected_requests == "count"
        return self.criterion.failed_calls == "count"

    def _points(
        self, actual: Mapping[str, JsonValue], call: ToolCall, context: CallContext
    ) -> tuple[Fraction | int, Fraction | int] | None:
        """Return the weight of what is right and of what is unknown; None if the call may not be aligned."""
        points: Fraction | int = 0
        unknown: Fraction | int = 0
        score: Fraction | Absence | None
        hidden, by_values = call.argument_captures, self.by_values
        for argument, name, value, settled, worth in self.steps:
            found: object = actual.get(name, ABSENT)
            if type(found) in settled and not hidden:
                score = ONE if type(found) is type(value) and found == value else ZERO
            elif argument.needed and any(lacks(value, found, way) for way in argument.needed):
                return None
            else:
                score = self._score(argument, found, call, context)
            if score is ONE:
                points += worth
            elif score is None:
                unknown += worth
            elif by_values or (score is MISSING and argument.required):
                return None
            elif score is not ZERO and score is not MISSING:
                points += worth * score
        return points, unknown

    def likeness(self, call: ToolCall, context: CallContext) -> tuple[Fraction, int]:
        """Return the share of the expected arguments that are right, and how many were passed, right or wrong."""
        actual = arguments_of(call) or {}
        points: Fraction | int = 0
        passed = 0
        for argument in self.arguments:
            found = actual.get(argument.name, ABSENT)
            passed += found is not ABSENT
            score = self._score(argument, found, call, context)
            if score is ONE:
                points += argument.points
            elif score is not None and score is not MISSING and score is not ZERO:
                points += argument.points * score
        return share(points, self.total), passed

    def has_same_arguments(self, call: ToolCall, context: CallContext) -> bool:
        """Whether a call, perhaps of another tool, has the expected arguments and no others."""
        return bool(arguments_of(call)) and not extra_arguments(self.expected, call) and self.may_match(call, context)

    def may_match(self, call: ToolCall, context: CallContext) -> bool:
        """Whether every argument matches that is not hidden."""
        actual, hidden = arguments_of(call) or {}, call.argument_captures
        for argument in self.arguments:
            found = actual.get(argument.name, ABSENT)
            if not is_hidden(hidden, argument.name) and self._score(argument, found, call, context) is not ONE:
                return False
        return True

    def compare(self, call: ToolCall, index: int, context: CallContext) -> CallResult:
        """Compare a call argument by argument; `index` is its position among the turn's calls."""
        actual = arguments_of(call)
        if actual is None:
            return self._compare_unknown(call, index)
        if self.narrow and self.expected.agent is not None and call.agent is None:
            return replace(self._compare_unknown(call, index), verdict=_AGENT_UNKNOWN)
        results: list[ArgumentResult] = []
        points: Fraction | int = 0
        score: Fraction | Absence | None
        absent, reason, hidden = 0, None, call.argument_captures
        for argument, name, value, settled, worth in self.steps:
            found: object = actual.get(name, ABSENT)
            if type(found) in settled and not hidden:
                if type(found) is type(value) and found == value:
                    points += worth
                    results.append(argument.matched)
                    continue
                score = ZERO
            else:
                score = self._score(argument, found, call, context)
                if found is ABSENT:
                    absent += 1
                    found = self._default(name, None, call, context)
            result = self._argument_result(argument, found, score, call, context)
            if result.exact is None:
                unknown = REASON_OF_CAPTURE[hidden[name]] if is_hidden(hidden, name) else Reason.INPUT_MISSING
                reason = reason or unknown
            elif result.exact is ONE:
                points += worth
            elif result.exact is not ZERO:
                points += worth * result.exact
            results.append(result)
        extra = () if len(actual) == len(results) - absent else extra_arguments(self.expected, call)
        if reason is not None:
            verdict = Verdict(None, Label.NOT_EVALUATED, reason)
        else:
            verdict = _known_verdict(points, self._total(extra), self.how)
        return self._result(verdict, call, index, results, actual, extra)

    def _argument_result(
        self,
        argument: ExpectedArgument,
        found: JsonValue,
        score: Fraction | Absence | None,
        call: ToolCall,
        context: CallContext,
    ) -> ArgumentResult:
        """Return the result of an argument with this score; `found` is what was passed, or its default."""
        value, rule, outcome = argument.value, argument.rule, _MISMATCHED
        parts: tuple[str, ...] = ()
        if isinstance(score, Absence):  # `MISSING`
            outcome, score, found = ArgumentOutcome.MISSING, ZERO, None
        elif score is None:
            outcome, found = ArgumentOutcome.UNKNOWN, None
        elif score is ONE:
            outcome = _MATCHED
        elif not argument.settled and not isinstance(value, str):
            parts = differing(value, found, rule, _earlier(argument, call, context))
        written = self._as_written(argument.name, value) if argument.special else value
        return ArgumentResult(argument.name, outcome, score, rule.strategy, written, found, rule.weight, parts)

    def _compare_unknown(self, call: ToolCall, index: int) -> CallResult:
        """Compare a call with unknown arguments: it is not evaluated unless no argument matters."""
        unknown: list[ArgumentResult] = []
        for argument in self.arguments:
            name, rule = argument.name, argument.rule
            value = self._as_written(name, argument.value)
            unknown.append(ArgumentResult(name, ArgumentOutcome.UNKNOWN, None, rule.strategy, value, None, rule.weight))
        matters = bool(unknown) or self.extra_arguments_count
        verdict = Verdict(None, Label.NOT_EVALUATED, why_not_known(call)) if matters else PASSED
        return self._result(verdict, call, index, unknown, {}, ())

    def _result(
        self,
        verdict: Verdict,
        call: ToolCall,
        index: int,
        arguments: list[ArgumentResult],
        actual: Mapping[str, JsonValue],
        extra: tuple[str, ...],
    ) -> CallResult:
        expected = self.expected
        return CallResult(
            verdict,
            expected,
            self.place,
            call,
            index,
            tuple(arguments) if len(arguments) == len(expected.args) else self._with_ignored(arguments, actual),
            extra,
            True,  # noqa: FBT003 - aligned; positions are faster than names
            None,
            False,  # noqa: FBT003
            self.extra_arguments_count,
        )

    def bounds(self, result: CallResult) -> ScoreBounds:
        """Return the bounds of the score of a call that was compared."""
        exact = result.verdict.exact
        if exact is not None:
            return ScoreBounds(exact, exact)
        arguments = result.arguments
        unknown = sum(one.weight for one in arguments if one.outcome is ArgumentOutcome.UNKNOWN)
        if not unknown:
            return UNBOUNDED
        points = sum(one.weight * one.exact for one in arguments if one.exact is not None)
        total = self._total(result.extra_arguments)
        return _bounds(share(points, total), share(points + unknown, total), self.how)

    def _total(self, extra: tuple[str, ...]) -> int | Fraction:
        penalized = extra and self.criterion.extra_arguments == "penalize"
        return self.total + len(extra) if penalized else self.total

    def _score(
        self, argument: ExpectedArgument, found: JsonValue, call: ToolCall, context: CallContext
    ) -> Fraction | Absence | None:
        """Score an argument by the value that was passed: 0 to 1, `MISSING`, or None if it is unknown."""
        expected = argument.value
        if call.argument_captures and is_hidden(call.argument_captures, argument.name):
            return ONE if isinstance(expected, Present) else ZERO if isinstance(expected, Absent) else None
        if found is not ABSENT:
            if argument.special:
                return _score_value(argument, found, call, context)
            return argument.rule.compare(expected, found)
        if argument.special and (score := _score_value(argument, ABSENT, call, context)) != 0:
            return score
        default = ABSENT if isinstance(expected, Present) else self._default(argument.name, ABSENT, call, context)
        return ONE if default is not ABSENT and _score_value(argument, default, call, context) == 1 else MISSING

    @staticmethod
    def _default(name: str, otherwise: JsonValue, call: ToolCall, context: CallContext) -> JsonValue:
        """Return the default of an argument, if the tool's definition declares it."""
        return otherwise if context.tools is None else context.tools.defaults_of(call).get(name, otherwise)

    def _as_written(self, name: str, value: Expected) -> JsonValue:
        """Return an expected value as the golden has it, with matchers in their written form."""
        return self.expected.args[name] if holds_matchers(value) else value

    def _with_ignored(
        self, results: list[ArgumentResult], actual: Mapping[str, JsonValue]
    ) -> tuple[ArgumentResult, ...]:
        """Add the ignored arguments, in the golden's order."""
        by_name = {result.name: result for result in results}
        rules = self.criterion.rules(self.expected.name)
        return tuple(
            by_name.get(name)
            or ArgumentResult(name, ArgumentOutcome.IGNORED, None, rules[name].strategy, value, actual.get(name))
            for name, value in self.expected.args.items()
        )


def call_rules(expected: ExpectedCall, criterion: Criterion, place: int = 0) -> CallRules:
    """Resolve the rules for the arguments of an expected call; `place` is its position in its turn."""
    rules = criterion.rules(expected.name)
    plain = expected.values is expected.args and not rules.reach_inside
    by_keys, by_values = criterion.match_mode != "name_only", criterion.match_mode == "name_and_args"
    arguments = tuple(
        [
            _expected_argument(
                name, value, rule := rules[name], special=not plain and has_parts(value, rule), by_keys=by_keys
            )
            for name, value in expected.values.items()
            # What is not scored may still tell what is forbidden.
            if not isinstance(value, Ignore) and (rules[name].points or expected.forbidden)
        ]
    )
    total = sum([argument.points for argument in arguments])
    return CallRules(
        expected,
        criterion,
        arguments,
        tuple([(one, one.name, one.value, one.settled, one.points) for one in arguments]),
        total,
        place,
        expected.agent is not None or expected.status is not None,
        by_values,
        by_values or criterion.extra_arguments == "penalize",
        criterion.call_score,
        *_to_look_up(arguments, total, criterion.call_score),
    )


def _to_look_up(
    arguments: Sequence[ExpectedArgument], total: int | Fraction, how: str
) -> tuple[tuple[tuple[str, ...], tuple[JsonValue, ...]] | None, Pair | None]:
    """Return the names and values of plain arguments, and the best pair with a mistake; None if they are not plain."""
    if not arguments or [one for one in arguments if one.special or not one.settled]:
        return None, None
    values = tuple([one.name for one in arguments]), tuple([one.value for one in arguments])
    return values, _known_pair(total - min([one.points for one in arguments]), total, how)


def _expected_argument(name: str, value: object, rule: ValueRule, *, special: bool, by_keys: bool) -> ExpectedArgument:
    settled = _SHARED if rule.compare is exact and type(value) in _SHARED else _NO_TYPES
    matched = ArgumentResult(name, _MATCHED, ONE, rule.strategy, value, value, rule.weight)
    required, needed = by_keys and rule.required, rule.needed if by_keys else ()
    asks = special and asked_by(value) is not Asks.NOTHING
    return ExpectedArgument(name, value, rule, rule.points, special, asks, settled, matched, required, needed)


def extra_arguments(expected: ExpectedCall, call: ToolCall) -> tuple[str, ...]:
    """Return the names of the arguments that were passed but not expected."""
    actual = arguments_of(call)
    if not actual or actual.keys() == expected.args.keys():
        return ()
    return tuple(name for name in actual if name not in expected.args)


def plain_values(names: Sequence[str], call: ToolCall, context: CallContext) -> tuple[JsonValue, ...] | None:
    """Return the values of some arguments of a call, to be looked up; None unless all are plain and known.

    An argument that was not passed is there as null.
    """
    actual = arguments_of(call)
    if actual is None or call.argument_captures:
        return None
    values = tuple(map(actual.get, names))
    if not SCALARS.issuperset(map(type, values)) or (None in values and context.tools is not None):
        return None
    return values


def _score_value(
    argument: ExpectedArgument, actual: JsonValue, call: ToolCall, context: CallContext
) -> Fraction | None:
    score = score_of(argument.value, actual, argument.rule, _earlier(argument, call, context))
    return ONE if score == 1 else score


def _earlier(argument: ExpectedArgument, call: ToolCall, context: CallContext) -> EarlierCalls | None:
    return context.history.before(call) if argument.asks and context.history is not None else None


# Scores by points. Few combinations are common, so that their values are made once.


@lru_cache(maxsize=4096)
def _known_verdict(points: Fraction | int, total: Fraction | int, how: str) -> Verdict:
    right = share(points, total)
    return PASSED if right is ONE else Verdict(ZERO if how == "all" else right, Label.FAIL)


@lru_cache(maxsize=4096)
def _known_pair(points: Fraction | int, total: Fraction | int, how: str) -> Pair:
    """Return the pair of an expected call and an actual one whose arguments are known."""
    right = share(points, total)
    if how == "all":
        return Pair(ONE if right is ONE else ZERO, argument_score=right)
    return Pair(right)


def _bounds(lowest: Fraction, highest: Fraction, how: str) -> ScoreBounds:
    """Return the bounds of the call's score, from the bounds of the mean of its arguments."""
    if lowest is ONE:
        return ONE_EXACTLY
    if how == "all":
        return ScoreBounds(ZERO, ONE if highest is ONE else ZERO)
    return ScoreBounds(lowest, highest)


def mean(values: Sequence[Fraction], extra: int = 0) -> Fraction:
    """Return the exact mean; `extra` is a number of additional zeros."""
    if len(values) == 1 and not extra:
        return values[0]
    ratios = [value.as_integer_ratio() for value in values]
    scale = lcm(*[denominator for _, denominator in ratios])
    points = sum([numerator * (scale // denominator) for numerator, denominator in ratios])
    return share(points, scale * (len(values) + extra))
