"""Axion's `ToolCorrectness` (ax-foundry/axion, 7ab96dc); no partial credit inside a call."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Any, Literal, NamedTuple

from pydantic import Field

from goldspan.scoring.json_values import is_dict
from goldspan.scoring.presets.inputs import PresetOptions, named_call, plain_calls
from goldspan.scoring.verdict import PresetResult, judged

NAME = "axion"


class AxionOptions(PresetOptions):
    """The arguments of `ToolCorrectness`."""

    check_parameters: bool = False
    """Compare arguments too, not names alone."""
    strict_order: bool = False
    parameter_matching_strategy: str = "exact"
    """`exact`, `subset` or `fuzzy`; anything else is exact, as in Axion."""
    fuzzy_threshold: float = 0.8
    scoring: Literal["recall", "precision", "f1"] = "recall"
    """Has no effect in strict order."""
    threshold: float = 0.5
    """The metric's own: a score of this much passes."""
    probe: str | None = Field(default=None, repr=False)
    """Set: `expected` and `actual` are two values, and the score is their fuzzy similarity."""


class _Call(NamedTuple):
    name: str
    args: dict[str, Any]


def score(expected: object, actual: object, options: AxionOptions) -> PresetResult:
    """Score the calls as Axion does; `None` is an empty list."""
    if options.probe is not None:
        return PresetResult(NAME, similarity(actual, expected))
    wanted = [_Call(*named_call(plain)) for plain in plain_calls(expected)]
    called = [_Call(*named_call(plain)) for plain in plain_calls(actual)]
    value, explanation = _evaluate(wanted, called, options)
    return PresetResult(NAME, value, label=judged(passed=value >= options.threshold), explanation=explanation)


def _evaluate(wanted: list[_Call], called: list[_Call], options: AxionOptions) -> tuple[float, str]:
    if not wanted:
        if not called:
            return 1.0, "Correct: No tools were expected and none were called."
        return 0.0, f"Incorrect: No tools were expected, but {len(called)} were called."
    return _in_place(wanted, called, options) if options.strict_order else _any_order(wanted, called, options)


def _in_place(wanted: list[_Call], called: list[_Call], options: AxionOptions) -> tuple[float, str]:
    if len(called) != len(wanted):
        return 0.0, f"Tool count mismatch: expected {len(wanted)}, got {len(called)}"
    for position, (want, call) in enumerate(zip(wanted, called, strict=True)):
        if not _same(call, want, options):
            passed = f" with args {call.args}" if options.check_parameters else ""
            return 0.0, f"Tool mismatch at position {position}: expected '{want.name}', got '{call.name}'{passed}"
    return 1.0, f"All {len(wanted)} tools called correctly in order."


def _any_order(wanted: list[_Call], called: list[_Call], options: AxionOptions) -> tuple[float, str]:
    left = list(called)
    found: list[_Call] = []
    missing: list[_Call] = []
    for want in wanted:
        place = next((index for index, call in enumerate(left) if _same(call, want, options)), None)
        if place is None:
            missing.append(want)
        else:
            del left[place]
            found.append(want)

    parts: list[str] = []
    if found:
        parts.append(f"Correctly called: {[want.name for want in found]}")
    if missing and options.check_parameters:
        parts.append(f"Missing/incorrect calls: {[f'{want.name}({want.args})' for want in missing]}")
    elif missing:
        parts.append(f"Missing tools: {[want.name for want in missing]}")
    if left:
        parts.append(f"Unexpected tools: {[call.name for call in left]}")
    value = _aggregate(len(found), len(wanted), len(called), options.scoring)
    return value, f"[{options.scoring}] {'; '.join(parts)}"


def _aggregate(found: int, wanted: int, called: int, scoring: str) -> float:
    recall = found / wanted
    precision = found / called if called else 1.0
    if scoring == "recall":
        return recall
    if scoring == "precision":
        return precision
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _same(call: _Call, want: _Call, options: AxionOptions) -> bool:
    if call.name != want.name:
        return False
    if not options.check_parameters:
        return True
    match options.parameter_matching_strategy:
        case "subset":
            return _covers(call.args, want.args)
        case "fuzzy":
            return _alike(call.args, want.args, options.fuzzy_threshold)
        case _:
            return call.args == want.args


def _covers(called: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Every expected key is there; objects are compared so in turn, anything else by `==`."""
    for key, want in wanted.items():
        if key not in called:
            return False
        value = called[key]
        if is_dict(want) and is_dict(value):
            if not _covers(value, want):
                return False
        elif value != want:
            return False
    return True


def _alike(called: dict[str, Any], wanted: dict[str, Any], threshold: float) -> bool:
    if not wanted:
        return True
    total = 0.0  # added one by one: from Python 3.12 on, sum() rounds differently
    for key, want in wanted.items():
        total += similarity(called.get(key), want)
    return total / len(wanted) >= threshold


def similarity(called: object, expected: object) -> float:
    """How much a passed value is like the expected one, as Axion's `fuzzy` strategy sees it.

    1.0 is alike. Nothing is like null, not even null, and values of different types never are. Numbers of opposite
    sign go below 0. The order of the two matters: `SequenceMatcher` is not symmetric.
    """
    if called is None or expected is None or type(called) is not type(expected):
        return 0.0
    if isinstance(called, str) and isinstance(expected, str):
        return SequenceMatcher(None, called, expected).ratio()
    if isinstance(called, int | float) and isinstance(expected, int | float) and called != 0 and expected != 0:
        return 1.0 - (abs(called - expected) / max(abs(called), abs(expected)))
    if is_dict(called) and is_dict(expected):
        return _alike_objects(called, expected)
    return 1.0 if called == expected else 0.0


def _alike_objects(called: dict[str, Any], expected: dict[str, Any]) -> float:
    either = called.keys() | expected.keys()
    if not either:
        return 1.0
    # Axion adds in the order of a set, which changes with the hash seed; the order of the passed object is as good.
    both = [key for key in called if key in expected]
    values = 0.0
    for key in both:
        values += similarity(called[key], expected[key])
    return (len(both) / len(either) + (values / len(both) if both else 0.0)) / 2.0
