"""What both ADK presets read: invocations of function calls, as google-adk 2.13.0 pairs them."""

from __future__ import annotations

from typing import Any, NamedTuple

from goldspan.scoring.presets.calls import checked_arguments, items, plain_calls
from goldspan.scoring.presets.result import PresetResult, judged
from goldspan.scoring.presets.shapes import is_mapping, is_sequence
from goldspan.scoring.results import Label, Reason

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

    Two empty lists are one invocation without calls; `{"invocations": []}` says that there is none.

    Raises:
        TypeError: something is no call.

    """
    several = _several(expected) or _several(actual)
    wanted = None if expected is None else _read(expected, several=several)
    return Paired(wanted, _read(actual, several=several), single=not several)


def check_lengths(paired: Paired) -> list[list[FunctionCall]]:
    """Return the expected invocations, once they pair up with the actual ones.

    Raises:
        ValueError: as in ADK, where there are more of one side than of the other.

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


def invocation_results(scores: list[float | None], threshold: float) -> tuple[dict[str, Any], ...]:
    """List score and status of each invocation, as ADK does."""
    return tuple({"score": score, "status": status_of(score, threshold)} for score in scores)


def scored(name: str, score: float, scores: list[float | None], threshold: float) -> PresetResult:
    """Make the result of a case that has a score."""
    return PresetResult(
        name,
        score,
        status=status_of(score, threshold),
        label=judged(passed=score >= threshold),
        per_invocation=invocation_results(scores, threshold),
    )


def unscored(name: str, reason: Reason, scores: list[float | None], threshold: float) -> PresetResult:
    """Make the result of a case in which there was nothing to score."""
    return PresetResult(
        name,
        None,
        status=NOT_EVALUATED,
        label=Label.NOT_EVALUATED,
        reason=reason,
        per_invocation=invocation_results(scores, threshold),
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
