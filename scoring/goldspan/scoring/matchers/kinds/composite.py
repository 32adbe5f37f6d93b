"""Matchers that hold values: `$any_of`, `$unordered`, `$casefold`, `$contains`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from goldspan.scoring.comparison import ONE, ZERO
from goldspan.scoring.json_values import Steps, is_sequence, shown
from goldspan.scoring.matchers.matcher import (
    VALUE,
    Expected,
    Matcher,
    MatcherKind,
    MatcherReader,
    Options,
    Part,
    ValuePath,
    holds_matchers,
)
from goldspan.scoring.matchers.value_score import MOST_ITEMS, included, parts_of, score_of
from goldspan.scoring.sessions import JsonValue

if TYPE_CHECKING:
    from goldspan.scoring.argument_rules import ValueRule
    from goldspan.scoring.call_context import EarlierCalls


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
        best, known = ZERO, True
        for value in self.values:
            score = score_of(value, actual, rule, earlier)
            if score is None:
                known = False
            elif score > best:
                best = score
        return best if known or best == 1 else None


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
)
