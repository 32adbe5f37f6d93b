"""Ragas' `ToolCallAccuracy` and `ToolCallF1` (explodinggradients/ragas 3e28e9d).

Arguments are compared *as text*. Without expected arguments a call scores 1.0 only if none were passed.
"""

from __future__ import annotations

from typing import Any, Literal

from goldspan.scoring.json_values import is_dict, is_sequence
from goldspan.scoring.presets.inputs import PresetOptions, named_call, plain_calls
from goldspan.scoring.verdict import PresetResult

NAME = "ragas"

_Call = tuple[str, dict[str, Any]]


class RagasOptions(PresetOptions):
    """Which of the two metrics, and the argument of the first."""

    metric: Literal["ToolCallAccuracy", "ToolCallF1"] = "ToolCallAccuracy"
    strict_order: bool | None = True
    """`ToolCallAccuracy` only; null is its default, true."""


def score(expected: object, actual: object, options: RagasOptions) -> PresetResult:
    """Score the calls as Ragas does; `None` is an empty list."""
    wanted = [named_call(plain) for plain in plain_calls(expected)]
    called = [named_call(plain) for plain in plain_calls(actual)]
    if options.metric == "ToolCallF1":
        return PresetResult(NAME, _f1(wanted, called))
    return PresetResult(NAME, _accuracy(wanted, called, sort=options.strict_order is False))


def _accuracy(wanted: list[_Call], called: list[_Call], *, sort: bool) -> float:
    if not wanted or not called:
        return 0.0 if wanted or called else 1.0
    if sort:
        wanted, called = sorted(wanted, key=_sort_key), sorted(called, key=_sort_key)
    if [name for name, _ in wanted] != [name for name, _ in called]:
        return 0.0
    total = 0.0
    for (_, want), (_, args) in zip(wanted, called, strict=True):
        total += _equal_share(want, args)
    return total / len(wanted)


def _sort_key(call: _Call) -> tuple[str, ...]:
    name, args = call
    return (name, *(text for key in sorted(args) for text in (key, str(args[key]))))


def _equal_share(wanted: dict[str, Any], args: dict[str, Any]) -> float:
    if not wanted:
        return 0.0 if args else 1.0
    equal = sum(key in args and str(args[key]) == str(value) for key, value in wanted.items())
    return equal / len(wanted)


def _f1(wanted: list[_Call], called: list[_Call]) -> float:
    expected = {(name, _hashable(args)) for name, args in wanted}
    actual = {(name, _hashable(args)) for name, args in called}
    found = len(actual & expected)
    if not found:
        return 0.0
    precision, recall = found / len(actual), found / len(expected)
    return round(2 * precision * recall / (precision + recall), 4)


def _hashable(value: object) -> Any:
    if is_dict(value):
        return frozenset((key, _hashable(item)) for key, item in value.items())
    if is_sequence(value):
        return tuple(_hashable(item) for item in value)
    return value
