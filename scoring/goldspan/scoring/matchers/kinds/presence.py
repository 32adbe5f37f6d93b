"""`{$present: true}`, `{$absent: true}`, `{$ignore: true}`: whether there is a value, whatever it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from goldspan.scoring.comparison import ONE, ZERO
from goldspan.scoring.json_values import Steps, shown
from goldspan.scoring.matchers.matcher import (
    ABSENT,
    Expected,
    Matcher,
    MatcherKind,
    MatcherReader,
    Options,
    Part,
    ValuePath,
)
from goldspan.scoring.sessions import JsonValue

if TYPE_CHECKING:
    from goldspan.scoring.argument_rules import ValueRule
    from goldspan.scoring.call_context import EarlierCalls


@dataclass(frozen=True, slots=True)
class Present(Matcher):
    """Matches every value that was passed, null among them."""

    def score(self, actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None) -> Fraction | None:  # noqa: ARG002
        """Return 1 if there is a value."""
        return ZERO if actual is ABSENT else ONE


@dataclass(frozen=True, slots=True)
class Absent(Matcher):
    """Matches only that nothing was passed; null is not absent."""

    @property
    def may_be_absent(self) -> bool:
        """It may."""
        return True

    def score(self, actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None) -> Fraction | None:  # noqa: ARG002
        """Return 1 if there is no value."""
        return ONE if actual is ABSENT else ZERO


@dataclass(frozen=True, slots=True)
class Ignore(Matcher):
    """Is not scored, passed or not: it leaves the mean."""

    @property
    def may_be_absent(self) -> bool:
        """It may."""
        return True

    def score(self, actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None) -> Fraction | None:  # noqa: ARG002
        """Return 1: it lowers no score."""
        return ONE

    def parts(self, actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None, place: Steps) -> Iterator[Part]:  # noqa: ARG002
        """Return nothing."""
        return iter(())


def _kind(name: str, about: str, matcher: Matcher, instead: str) -> MatcherKind:
    def read(value: JsonValue, _: Options, where: ValuePath, reader: MatcherReader) -> Expected:
        if value is not True:
            reader.mistake((*where, name), f"found {shown(value)}, expected true{instead}")
            return None
        return matcher

    return MatcherKind(name, about, read, {"const": True})


KINDS = (
    _kind("$present", "any value, null among them", Present(), ": for no value write {$absent: true}"),
    _kind("$absent", "no value at all; null is one", Absent(), ": for any value write {$present: true}"),
    _kind("$ignore", "not scored, passed or not: it leaves the mean", Ignore(), ""),
)
