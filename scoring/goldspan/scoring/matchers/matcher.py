"""What an expected value is made of once it was read: plain JSON, matchers, and objects and lists that hold some."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from goldspan.scoring.pointers import Steps
from goldspan.scoring.sessions import JsonValue

if TYPE_CHECKING:
    from goldspan.scoring.argument_rules import Rule
    from goldspan.scoring.matchers.history import Earlier

Expected = Any
"""A JSON value, in which nothing is a matcher any more; a Matcher, a HoldingObject or a HoldingList."""


class Absence(Enum):
    """The type of `ABSENT`."""

    ABSENT = auto()


ABSENT: Final = Absence.ABSENT
"""Stands for the actual value where there is none."""


class Part(NamedTuple):
    """A part of an expected value that is right or wrong by itself."""

    place: Steps
    """The way to it from the argument."""
    score: Fraction | None
    """0 to 1; none where what it takes to judge is not known."""
    weight: Fraction | None = None
    """Where a rule gives it one."""
    expected: bool = True
    """False for what the actual value has and the expected one has not."""


class Matcher:
    """A value that matches more than itself. Made when a golden is read; knows no criterion."""

    __slots__ = ()

    @property
    def may_be_absent(self) -> bool:
        """Whether it is satisfied where nothing was passed."""
        return False

    def score(self, actual: JsonValue, rule: Rule, earlier: Earlier | None) -> Fraction | None:
        """Return how good an actual value, or `ABSENT`, is: 0 to 1, none where that is not known.

        `rule` holds at this place: plain values inside the matcher are compared by its strategy.
        """
        raise NotImplementedError

    def parts(self, actual: JsonValue, rule: Rule, earlier: Earlier | None, place: Steps) -> Iterator[Part]:
        """List what counts by itself where an argument is scored by its parts; most matchers are one part."""
        yield Part(place, self.score(actual, rule, earlier))


@dataclass(frozen=True, slots=True)
class HoldingObject:
    """An object with a matcher somewhere in it."""

    fields: Mapping[str, Expected]


@dataclass(frozen=True, slots=True)
class HoldingList:
    """A list with a matcher somewhere in it."""

    items: tuple[Expected, ...]


def holds_matchers(expected: Expected) -> bool:
    """Whether a value that was read is a matcher or holds one."""
    return isinstance(expected, Matcher | HoldingObject | HoldingList)
