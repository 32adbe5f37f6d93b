"""`{$unordered: [a, b]}`: a list with these elements and no others, in any order, each as often as it stands here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from goldspan.scoring.comparison import ONE, ZERO
from goldspan.scoring.json_values import Steps, shown
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
from goldspan.scoring.matchers.value_score import MOST_ITEMS, included
from goldspan.scoring.sessions import JsonValue
from goldspan.scoring.type_guards import is_sequence

if TYPE_CHECKING:
    from goldspan.scoring.call_history import EarlierCalls
    from goldspan.scoring.rules import Rule


@dataclass(frozen=True, slots=True)
class Unordered(Matcher):
    """Matches a list whose elements can be paired with its own, one to one."""

    items: tuple[Expected, ...]

    def score(self, actual: JsonValue, rule: Rule, earlier: EarlierCalls | None) -> Fraction | None:
        """Return 1 if all elements can be paired."""
        if not is_sequence(actual) or len(actual) != len(self.items):
            return ZERO
        found = included(self.items, actual, rule.element(), earlier)
        return ZERO if 0 in found else None if None in found else ONE

    def parts(self, actual: JsonValue, rule: Rule, earlier: EarlierCalls | None, place: Steps) -> Iterator[Part]:
        """List its elements; elements of the actual list without a partner are wrong parts."""
        found: Sequence[JsonValue] = actual if is_sequence(actual) else ()
        scores = included(self.items, found, rule.element(), earlier)
        for index, score in enumerate(scores):
            yield Part((*place, str(index)), score)
        for index in range(len(self.items), len(found)):
            yield Part((*place, str(index)), ZERO, expected=False)
        if not is_sequence(actual):
            yield Part(place, ZERO)


def _read(value: JsonValue, _: Options, where: ValuePath, reader: MatcherReader) -> Expected:
    inside = (*where, "$unordered")
    if not is_sequence(value):
        reader.mistake(inside, f"found {shown(value)}, expected a list")
        return None
    items = tuple(reader.read(one, (*inside, index)) for index, one in enumerate(value))
    if len(items) > MOST_ITEMS and any(map(holds_matchers, items)):
        reader.mistake(inside, f"found {len(items)} elements, expected at most {MOST_ITEMS} where some are matchers")
    return Unordered(items)


KINDS = (
    MatcherKind(
        "$unordered",
        "a list of these elements in any order, each as often as it stands here",
        _read,
        {"type": "array", "items": VALUE},
    ),
)
