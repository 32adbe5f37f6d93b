"""Expected values after reading: plain JSON, matchers, and objects and lists that hold matchers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from goldspan.scoring.json_values import Steps
from goldspan.scoring.sessions import JsonValue

if TYPE_CHECKING:
    from goldspan.scoring.argument_rules import ValueRule
    from goldspan.scoring.call_context import EarlierCalls

Expected = Any
"""A JSON value, in which nothing is a matcher any more; a Matcher, a HoldingObject or a HoldingList."""


class Absence(Enum):
    """The type of `ABSENT`."""

    ABSENT = auto()


ABSENT: Final = Absence.ABSENT
"""In place of the actual value where none was passed."""


class Part(NamedTuple):
    """A part of an expected value that is right or wrong by itself."""

    place: Steps
    """The way to it from the argument."""
    score: Fraction | None
    """0 to 1; None where it is not known."""
    weight: Fraction | None = None
    """Where a rule gives it one."""
    expected: bool = True
    """False for what the actual value has and the expected one has not."""


class Matcher:
    """An expected value that matches more than itself. It is made when a golden is read and knows no criterion."""

    __slots__ = ()

    @property
    def may_be_absent(self) -> bool:
        """Whether it is satisfied where nothing was passed."""
        return False

    def score(self, actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None) -> Fraction | None:
        """Return how good an actual value, or `ABSENT`, is: 0 to 1, none where that is not known.

        `rule` holds at this place: plain values inside the matcher are compared by its strategy.
        """
        raise NotImplementedError

    def parts(self, actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None, place: Steps) -> Iterator[Part]:
        """List what counts by itself where an argument is scored by its parts; most matchers are one part."""
        yield Part(place, self.score(actual, rule, earlier))


@dataclass(frozen=True, slots=True)
class ObjectWithMatchers:
    """An object with a matcher somewhere in it."""

    fields: Mapping[str, Expected]


@dataclass(frozen=True, slots=True)
class ListWithMatchers:
    """A list with a matcher somewhere in it."""

    items: tuple[Expected, ...]


def holds_matchers(expected: Expected) -> bool:
    """Whether a value that was read is a matcher or holds one."""
    return isinstance(expected, (Matcher, ObjectWithMatchers, ListWithMatchers))


# How a matcher is written in a golden.

ValuePath = tuple[str | int, ...]
"""The way to a value: keys and indexes."""
Options = Mapping[str, JsonValue]
"""The other keys of the object, by name."""
JsonSchema = dict[str, Any]

VALUE: JsonSchema = {"$ref": "#/$defs/value"}
"""The JSON Schema of a value that may hold matchers."""


class MatcherReader(Protocol):
    """Reads the values inside a matcher, and notes mistakes."""

    def read(self, value: JsonValue, where: ValuePath) -> Expected:
        """Return what a value inside the matcher means."""
        ...

    def mistake(self, where: ValuePath, message: str) -> None:
        """Note one."""
        ...


class MatcherKind(NamedTuple):
    """One matcher of the golden file."""

    name: str
    about: str
    """What it matches: the description an editor shows."""
    read: Callable[[JsonValue, Options, ValuePath, MatcherReader], Expected]
    """Takes the value under the `$` key, the options, and the path of the object; returns the expected value."""
    schema: JsonSchema
    """The schema of the value under the `$` key."""
    options: Mapping[str, JsonSchema] = {}
    """The schemas of options beside it, by name."""
