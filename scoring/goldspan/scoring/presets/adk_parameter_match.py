"""ADK's `tool_parameter_match` as proposed in google/adk-python pull request 6726.

Expected calls are aligned by name alone, in order, each with the earliest call that is left after the partner of the
one before; a call without partner scores 0.0 and blocks nothing. A call's score is the share of its expected
arguments that are present and equal (Python's `==`; null arguments count as none, and none expected scores 1.0).
Extra calls and arguments cost nothing. An invocation in which nothing is expected is not evaluated and leaves the mean.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

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

NAME = "adk_parameter_match"

_Pairs = list[tuple[int | None, float]]
"""For each expected call its partner's index, if it has one, and its score."""


class AdkParameterMatchOptions(PresetOptions):
    """ADK's `BaseCriterion`."""

    threshold: float = 0.8
    """ADK wants one to be given; the default is goldspan's."""


def score(expected: object, actual: object, options: AdkParameterMatchOptions) -> PresetResult:
    """Score one invocation's calls, or a list of invocations; `expected` null: the case has no reference."""
    paired = read_invocations(expected, actual)
    if paired.expected is None:
        return unscored(NAME, Reason.NO_GOLDEN, [], options.threshold)
    pairings = [
        _align(wanted, called) if wanted else None
        for wanted, called in zip(check_lengths(paired), paired.actual, strict=True)
    ]
    scores = [None if pairing is None else _mean([value for _, value in pairing]) for pairing in pairings]
    evaluated = [value for value in scores if value is not None]
    if evaluated:
        result = scored(NAME, _mean(evaluated), scores, options.threshold)
    else:
        result = unscored(NAME, Reason.NOTHING_EXPECTED, scores, options.threshold)
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
