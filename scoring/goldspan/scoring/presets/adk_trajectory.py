"""ADK's `tool_trajectory_avg_score` (`TrajectoryEvaluator`, google-adk 2.13.0).

An invocation scores 1.0 or 0.0; the case scores their mean. Calls are equal when name and arguments are (Python's `==`;
null arguments are not empty ones). `EXACT`: the same calls in the same places. `IN_ORDER`: the expected calls are a
subsequence. `ANY_ORDER`: each finds an equal call of its own. With nothing expected, `EXACT` wants nothing called and
the other two pass whatever was.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from pydantic import field_validator

from goldspan.scoring.presets.adk_invocations import (
    FunctionCall,
    check_lengths,
    read_invocations,
    scored,
    unscored,
)
from goldspan.scoring.presets.options import PresetOptions
from goldspan.scoring.presets.result import PresetResult
from goldspan.scoring.results import Reason

NAME = "adk_trajectory"

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


def score(expected: object, actual: object, options: AdkTrajectoryOptions) -> PresetResult:
    """Score one invocation's calls, or a list of invocations.

    Raises:
        ValueError: as ADK does where the case has no reference, or the invocations do not pair up.

    """
    paired = read_invocations(expected, actual)
    if paired.expected is None:
        raise ValueError("expected_invocations is needed by this metric.")
    matches = _MATCHES[options.match_type]
    equal = _same_name if options.ignore_args else _same_call
    scores = [
        1.0 if matches(wanted, called, equal) else 0.0
        for wanted, called in zip(check_lengths(paired), paired.actual, strict=True)
    ]
    if not scores:
        return unscored(NAME, Reason.NOTHING_EXPECTED, [], options.threshold)
    return scored(NAME, sum(scores) / len(scores), [*scores], options.threshold)


def _same_name(one: FunctionCall, other: FunctionCall) -> bool:
    return one.name == other.name


def _same_call(one: FunctionCall, other: FunctionCall) -> bool:
    return one.name == other.name and one.args == other.args


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
