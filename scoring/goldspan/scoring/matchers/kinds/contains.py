"""`{$contains: Paris}`, `{$casefold: paris}`: one value compared by another strategy than its argument."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from goldspan.scoring.json_values import Steps
from goldspan.scoring.matchers.matcher import (
    VALUE,
    Expected,
    Matcher,
    MatcherKind,
    MatcherReader,
    Options,
    Part,
    ValuePath,
)
from goldspan.scoring.matchers.value_score import parts_of, score_of
from goldspan.scoring.sessions import JsonValue

if TYPE_CHECKING:
    from goldspan.scoring.call_history import EarlierCalls
    from goldspan.scoring.rules import Rule

_Name = Literal["contains", "casefold_exact"]


@dataclass(frozen=True, slots=True)
class ByStrategy(Matcher):
    """Matches what its value matches by a strategy of its own."""

    strategy: _Name
    value: Expected

    def score(self, actual: JsonValue, rule: Rule, earlier: EarlierCalls | None) -> Fraction | None:
        """Return the score by that strategy."""
        return score_of(self.value, actual, rule.by(self.strategy), earlier)

    def parts(self, actual: JsonValue, rule: Rule, earlier: EarlierCalls | None, place: Steps) -> Iterator[Part]:
        """List the parts of its value."""
        return parts_of(self.value, actual, rule.by(self.strategy), earlier, place)


def _kind(name: str, strategy: _Name, about: str) -> MatcherKind:
    def read(value: JsonValue, _: Options, where: ValuePath, reader: MatcherReader) -> Expected:
        return ByStrategy(strategy, reader.read(value, (*where, name)))

    return MatcherKind(name, about, read, VALUE)


KINDS = (
    _kind("$casefold", "casefold_exact", "this value, upper and lower case alike"),
    _kind(
        "$contains",
        "contains",
        "a value that contains this one: a substring, elements of a list, fields of an object",
    ),
)
