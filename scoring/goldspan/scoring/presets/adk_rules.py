"""Both ADK presets: invocations of function calls, as google-adk 2.13.0 pairs them, and what each makes of them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

from msgspec.structs import replace
from pydantic import field_validator

from goldspan.scoring.json_values import is_mapping, is_sequence
from goldspan.scoring.presets.inputs import PresetOptions, checked_arguments, items, plain_calls
from goldspan.scoring.verdict import Label, PresetResult, Reason, judged

PASSED, FAILED, NOT_EVALUATED = "PASSED", "FAILED", "NOT_EVALUATED"
"""ADK's own words; an exception in an evaluator is `EXCEPTION`."""


class FunctionCall(NamedTuple):
    """Google GenAI's: both may be null, and null arguments are not empty ones."""

    name: str | None
    args: dict[str, Any] | None


class Paired(NamedTuple):
    """Both sides of an evaluation, one list of calls per invocation."""

    expected: list[list[FunctionCall]] | None
    """None: the case has no reference at all."""
    actual: list[list[FunctionCall]]
    single: bool
    """The calls of one invocation were given as they are, not as a list of invocations."""


def read_invocations(expected: object, actual: object) -> Paired:
    """Read a list of calls as one invocation, a list of lists (or nulls) as one list per invocation.

    Two empty lists are no invocation, as in ADK, whose lists hold invocations; `[[]]` is one without calls. So is
    `{"invocations": [[]]}`, and `{"invocations": []}` is none. Raises TypeError if something is no call.
    """
    several = (
        _several(expected) or _several(actual) or all(is_sequence(side) and not side for side in (expected, actual))
    )
    wanted = None if expected is None else _read(expected, several=several)
    return Paired(wanted, _read(actual, several=several), single=not several)


def check_lengths(paired: Paired) -> list[list[FunctionCall]]:
    """Return the expected invocations, once they pair up with the actual ones.

    Raises ValueError, as in ADK, where there are more of one side than of the other.
    """
    expected = paired.expected or []
    if len(expected) != len(paired.actual):
        raise ValueError(
            "actual_invocations and expected_invocations must have the same length; "
            f"got {len(paired.actual)} and {len(expected)}."
        )
    return expected


def status_of(score: float | None, threshold: float) -> str:
    """Say ADK's verdict on a score."""
    if score is None:
        return NOT_EVALUATED
    return PASSED if score >= threshold else FAILED


def result_of(
    name: str, score: float | None, scores: list[float | None], threshold: float, reason: Reason | None = None
) -> PresetResult:
    """Make the result of a case, with score and status of each invocation; `reason` says why there is no score."""
    return PresetResult(
        name,
        score,
        status=status_of(score, threshold),
        label=Label.NOT_EVALUATED if score is None else judged(passed=score >= threshold),
        reason=reason,
        per_invocation=tuple({"score": one, "status": status_of(one, threshold)} for one in scores),
    )


def _several(side: object) -> bool:
    return is_mapping(side) or (is_sequence(side) and any(one is None or is_sequence(one) for one in side))


def _read(side: object, *, several: bool) -> list[list[FunctionCall]]:
    if is_mapping(side):
        side = side["invocations"]
    elif not several or (side and not _several(side)):
        return [_calls(side)]
    return [_calls(one) for one in items(side)]


def _calls(invocation: object) -> list[FunctionCall]:
    return [_function_call(plain) for plain in plain_calls(invocation)]


def _function_call(plain: dict[str, Any]) -> FunctionCall:
    name, args = plain.get("name"), plain.get("args")
    if name is not None and not isinstance(name, str):
        raise TypeError(f"the name of a call is a string or null, not {type(name).__name__}")
    return FunctionCall(name, None if args is None else checked_arguments(name, args))


# ADK's `tool_parameter_match` as proposed in google/adk-python pull request 6726: null arguments count as none.

PARAMETER_MATCH_NAME = "adk_parameter_match"

_Pairs = list[tuple[int | None, float]]  # for each expected call its partner's index, if it has one, and its score


class AdkParameterMatchOptions(PresetOptions):
    """ADK's `BaseCriterion`."""

    threshold: float = 0.8
    """ADK wants one to be given; the default is goldspan's."""


def score_parameter_match(expected: object, actual: object, options: AdkParameterMatchOptions) -> PresetResult:
    """Score one invocation's calls, or a list of invocations; `expected` null: the case has no reference."""
    paired = read_invocations(expected, actual)
    if paired.expected is None:
        return result_of(PARAMETER_MATCH_NAME, None, [], options.threshold, Reason.NO_GOLDEN)
    pairings = [
        _align(wanted, called) if wanted else None
        for wanted, called in zip(check_lengths(paired), paired.actual, strict=True)
    ]
    scores = [None if pairing is None else _mean([value for _, value in pairing]) for pairing in pairings]
    evaluated = [value for value in scores if value is not None]
    score, reason = (_mean(evaluated), None) if evaluated else (None, Reason.NOTHING_EXPECTED)
    result = result_of(PARAMETER_MATCH_NAME, score, scores, options.threshold, reason)
    return replace(result, per_call=_per_call(pairings[0] or [])) if paired.single else result


def _align(wanted: list[FunctionCall], called: list[FunctionCall]) -> _Pairs:
    pairs: _Pairs = []
    start = 0
    for want in wanted:
        place = next((index for index in range(start, len(called)) if called[index].name == want.name), None)
        if place is None:
            pairs.append((None, 0.0))
        else:
            start = place + 1
            pairs.append((place, _share(want, called[place])))
    return pairs


def _share(want: FunctionCall, call: FunctionCall) -> float:
    if not want.args:
        return 1.0
    passed = call.args or {}
    return sum(key in passed and bool(passed[key] == value) for key, value in want.args.items()) / len(want.args)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _per_call(pairing: _Pairs) -> tuple[dict[str, Any], ...]:
    return tuple(
        {"expected_index": index, "actual_index": place, "score": value} for index, (place, value) in enumerate(pairing)
    )


# ADK's `tool_trajectory_avg_score` (`TrajectoryEvaluator`, google-adk 2.13.0): null arguments are not empty ones.
# With nothing expected, `EXACT` wants nothing called, and the other two pass whatever was.

TRAJECTORY_NAME = "adk_trajectory"

_Calls = list[FunctionCall]
_Equal = Callable[[FunctionCall, FunctionCall], bool]


class MatchType(Enum):
    """ADK's `ToolTrajectoryCriterion.MatchType`, with its numbers."""

    EXACT = 0
    IN_ORDER = 1
    ANY_ORDER = 2


class AdkTrajectoryOptions(PresetOptions):
    """ADK's `ToolTrajectoryCriterion`."""

    threshold: float = 1.0
    """ADK wants one to be given; the default is that of `adk eval` without a configuration."""
    match_type: MatchType = MatchType.EXACT
    """A name in any case, with `-` or a space for `_`, or its number."""
    ignore_args: bool = False

    @field_validator("match_type", mode="before")
    @classmethod
    def _by_name(cls, value: object) -> object:
        if isinstance(value, str):
            name = value.strip().upper().replace("-", "_").replace(" ", "_")
            return MatchType.__members__.get(name, value)
        return value


def score_trajectory(expected: object, actual: object, options: AdkTrajectoryOptions) -> PresetResult:
    """Score one invocation's calls, or a list of invocations.

    Raises ValueError, as ADK does where the case has no reference, or the invocations do not pair up.
    """
    paired = read_invocations(expected, actual)
    if paired.expected is None:
        raise ValueError("expected_invocations is needed by this metric.")
    matches = _MATCHES[options.match_type]
    equal: _Equal = (lambda one, other: one.name == other.name) if options.ignore_args else operator.eq
    scores = [
        1.0 if matches(wanted, called, equal) else 0.0
        for wanted, called in zip(check_lengths(paired), paired.actual, strict=True)
    ]
    if not scores:
        return result_of(TRAJECTORY_NAME, None, [], options.threshold, Reason.NOTHING_EXPECTED)
    return result_of(TRAJECTORY_NAME, _mean(scores), [*scores], options.threshold)


def _exact(wanted: _Calls, called: _Calls, equal: _Equal) -> bool:
    return len(called) == len(wanted) and all(equal(call, want) for call, want in zip(called, wanted, strict=True))


def _in_order(wanted: _Calls, called: _Calls, equal: _Equal) -> bool:
    rest = iter(called)
    return all(any(equal(call, want) for call in rest) for want in wanted)


def _any_order(wanted: _Calls, called: _Calls, equal: _Equal) -> bool:
    left = list(called)
    for want in wanted:
        place = next((index for index, call in enumerate(left) if equal(call, want)), None)
        if place is None:
            return False
        del left[place]
    return True


_MATCHES = {MatchType.EXACT: _exact, MatchType.IN_ORDER: _in_order, MatchType.ANY_ORDER: _any_order}
