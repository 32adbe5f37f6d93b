"""Matchers that compare with values: `$any_of`, `$unordered`, `$casefold`, `$contains`, `$from_result`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from goldspan.scoring.comparison import ONE, ZERO, ValueRule
from goldspan.scoring.json_values import Steps, is_mapping, is_sequence, shown, steps_of
from goldspan.scoring.matchers.matcher import (
    ABSENT,
    MOST_ITEMS,
    VALUE,
    Expected,
    Matcher,
    MatcherKind,
    MatcherReader,
    Options,
    Part,
    ValuePath,
    best_of,
    holds_matchers,
    included,
    part_at,
    parts_of,
    score_of,
)
from goldspan.scoring.sessions import Capture, Content, EarlierCalls, ExpectedCallPosition, JsonValue


@dataclass(frozen=True, slots=True)
class AnyOf(Matcher):
    """Matches what one of its values matches."""

    values: tuple[Expected, ...]

    @property
    def may_be_absent(self) -> bool:
        """Whether one of its values may."""
        return any(isinstance(value, Matcher) and value.may_be_absent for value in self.values)

    def score(self, actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None) -> Fraction | None:
        """Return the best score; none where nothing is right and something is not known."""
        return best_of(score_of(value, actual, rule, earlier) for value in self.values)


def _read_any_of(value: JsonValue, _: Options, where: ValuePath, reader: MatcherReader) -> Expected:
    inside = (*where, "$any_of")
    if not is_sequence(value) or not value:
        reader.mistake(inside, f"found {shown(value)}, expected a list of at least one value")
        return None
    return AnyOf(tuple(reader.read(one, (*inside, index)) for index, one in enumerate(value)))


@dataclass(frozen=True, slots=True)
class Unordered(Matcher):
    """Matches a list whose elements can be paired with its own, one to one."""

    items: tuple[Expected, ...]

    def score(self, actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None) -> Fraction | None:
        """Return 1 if all elements can be paired."""
        if not is_sequence(actual) or len(actual) != len(self.items):
            return ZERO
        found = included(self.items, actual, rule.element(), earlier)
        return ZERO if 0 in found else None if None in found else ONE

    def parts(self, actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None, place: Steps) -> Iterator[Part]:
        """List its elements; elements of the actual list without a partner are wrong parts."""
        found: Sequence[JsonValue] = actual if is_sequence(actual) else ()
        scores = included(self.items, found, rule.element(), earlier)
        for index, score in enumerate(scores):
            yield Part((*place, str(index)), score)
        for index in range(len(self.items), len(found)):
            yield Part((*place, str(index)), ZERO, expected=False)
        if not is_sequence(actual):
            yield Part(place, ZERO)


def _read_unordered(value: JsonValue, _: Options, where: ValuePath, reader: MatcherReader) -> Expected:
    inside = (*where, "$unordered")
    if not is_sequence(value):
        reader.mistake(inside, f"found {shown(value)}, expected a list")
        return None
    items = tuple(reader.read(one, (*inside, index)) for index, one in enumerate(value))
    if len(items) > MOST_ITEMS and any(map(holds_matchers, items)):
        reader.mistake(inside, f"found {len(items)} elements, expected at most {MOST_ITEMS} where some are matchers")
    return Unordered(items)


_Name = Literal["contains", "casefold_exact"]


@dataclass(frozen=True, slots=True)
class ByStrategy(Matcher):
    """Matches what its value matches by a strategy of its own."""

    strategy: _Name
    value: Expected

    def score(self, actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None) -> Fraction | None:
        """Return the score by that strategy."""
        return score_of(self.value, actual, rule.by(self.strategy), earlier)

    def parts(self, actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None, place: Steps) -> Iterator[Part]:
        """List the parts of its value."""
        return parts_of(self.value, actual, rule.by(self.strategy), earlier, place)


def _kind(name: str, strategy: _Name, about: str) -> MatcherKind:
    def read(value: JsonValue, _: Options, where: ValuePath, reader: MatcherReader) -> Expected:
        return ByStrategy(strategy, reader.read(value, (*where, name)))

    return MatcherKind(name, about, read, VALUE)


_PLACE = re.compile(r"([0-9]{1,6})\.([0-9]{1,6})", re.ASCII)
_EXAMPLE = "expected an object such as {call: create_order, path: /id}"


@dataclass(frozen=True, slots=True)
class FromResult(Matcher):
    """Matches what an earlier call returned, compared by the argument's strategy.

    Of several calls of a tool the best counts. A result that was not captured is unknown, not wrong.
    """

    call: str | ExpectedCallPosition
    path: Steps

    def score(self, actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None) -> Fraction | None:
        """Return how good the value is for what was returned."""
        if actual is ABSENT:
            return ZERO
        if earlier is None:
            return None
        return best_of(self._by_result(result, actual, rule) for result in earlier.returned(self.call))

    def _by_result(self, result: Content | None, actual: JsonValue, rule: ValueRule) -> Fraction | None:
        if result is None or result.capture is not Capture.CAPTURED:
            return None
        expected = part_at(result.value, self.path)
        return ZERO if expected is ABSENT else rule.compare(expected, actual)


def _read_from_result(value: JsonValue, _: Options, where: ValuePath, reader: MatcherReader) -> Expected:
    inside = (*where, "$from_result")
    if not is_mapping(value):
        reader.mistake(inside, f"found {shown(value)}, {_EXAMPLE}")
        return None
    for name in value:
        if name not in ("call", "path"):
            reader.mistake((*inside, name), f"unknown field: {_EXAMPLE}")
    call, path = value.get("call"), value.get("path", "")
    if not isinstance(call, str) or not call.strip():
        there = (*inside, "call") if "call" in value else inside
        reader.mistake(there, f"found {shown(call)}, expected a tool's name, or turn.index in quotes such as '0.2'")
        return None
    try:
        steps = steps_of(path) if isinstance(path, str) else None
    except ValueError as error:
        reader.mistake((*inside, "path"), str(error))
        return None
    if steps is None:
        reader.mistake((*inside, "path"), f"found {shown(path)}, expected a JSON Pointer such as /id")
        return None
    hit = _PLACE.fullmatch(call)
    return FromResult((int(hit.group(1)), int(hit.group(2))) if hit else call, steps)


KINDS = (
    MatcherKind("$any_of", "one of these values", _read_any_of, {"type": "array", "minItems": 1, "items": VALUE}),
    _kind("$casefold", "casefold_exact", "this value, upper and lower case alike"),
    _kind(
        "$contains",
        "contains",
        "a value that contains this one: a substring, elements of a list, fields of an object",
    ),
    MatcherKind(
        "$unordered",
        "a list of these elements in any order, each as often as it stands here",
        _read_unordered,
        {"type": "array", "items": VALUE},
    ),
    MatcherKind(
        "$from_result",
        "what an earlier call returned: `call` is a tool or a call of this golden (turn.index), `path` a JSON Pointer",
        _read_from_result,
        {
            "type": "object",
            "properties": {
                "call": {"type": "string", "pattern": "\\S"},
                "path": {"type": "string", "pattern": "^(/|$)"},
            },
            "required": ["call"],
            "additionalProperties": False,
        },
    ),
)
