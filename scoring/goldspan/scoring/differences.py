"""What differs between a golden and a session, one difference at a time, in words."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from enum import StrEnum
from fractions import Fraction

from msgspec import Struct

from goldspan.scoring.comparison import instant_of
from goldspan.scoring.json_values import Steps, is_number, shown, shown_name, steps_of, value_at
from goldspan.scoring.sessions import JsonValue

_MAX_PARTS = 3


class DifferenceKind(StrEnum):
    """The kinds of differences, the one that explains most first."""

    FORBIDDEN_CALL = "forbidden_call"
    WRONG_ARGUMENT = "wrong_argument"
    ARGUMENT_NOT_PASSED = "argument_not_passed"
    UNEXPECTED_ARGUMENT = "unexpected_argument"
    OUT_OF_ORDER = "out_of_order"
    TURN_NOT_SEEN = "turn_not_seen"
    TOOL_NOT_CALLED = "tool_not_called"
    TOOL_NOT_EXPECTED = "tool_not_expected"


_WORDS = {
    DifferenceKind.FORBIDDEN_CALL: "forbidden",
    DifferenceKind.WRONG_ARGUMENT: "wrong",
    DifferenceKind.ARGUMENT_NOT_PASSED: "not passed",
    DifferenceKind.UNEXPECTED_ARGUMENT: "not expected",
    DifferenceKind.OUT_OF_ORDER: "called, but out of order",
    DifferenceKind.TURN_NOT_SEEN: "never seen",
    DifferenceKind.TOOL_NOT_CALLED: "not called",
    DifferenceKind.TOOL_NOT_EXPECTED: "not expected",
}
_WEIGHT = {kind: weight for weight, kind in enumerate(DifferenceKind)}


class Difference(Struct, frozen=True, gc=False):
    """One difference: `str(difference)` is `send_email.to (not passed)`."""

    kind: DifferenceKind
    tool: str = ""
    """The tool; empty if a whole turn was never seen."""
    argument: str = ""
    """The argument; empty if the difference is in a call or a turn."""
    lowers_score: bool = True
    """Whether it lowers a score or fails the turn; if not, it is only reported."""
    expected: JsonValue = None
    """The expected value of a wrong argument, as the golden has it."""
    actual: JsonValue = None
    """The value that was passed for it."""
    parts: tuple[str, ...] = ()
    """JSON Pointers to the parts of the value that differ."""
    hint: str = ""
    """What may be the cause, if something suggests it."""
    turn: str = ""
    """The name of the turn, such as `turn 2`."""

    @property
    def name(self) -> str:
        """`tool.argument`, the tool, or the name of the turn."""
        return ".".join(shown_name(name) for name in (self.tool, self.argument) if name) or self.turn

    @property
    def words(self) -> str:
        """What is different, in words, without values: `not passed`."""
        return _WORDS[self.kind]

    def text(self, *, include_values: bool = False) -> str:
        """Return the difference on one line: `convert.unit (wrong)`, or with values `(expected "F", found "K")`."""
        words = self.words
        if self.kind is DifferenceKind.WRONG_ARGUMENT and include_values:
            words = value_differences(self.expected, self.actual, self.parts)
        elif self.parts:
            words += f" at {part_names(self.parts)}"
        return f"{self.name} ({'; '.join(filter(None, (words, self.hint)))})"

    def __str__(self) -> str:
        return self.text(include_values=True)


def heaviest_first(differences: Iterable[Difference]) -> tuple[Difference, ...]:
    """Sort differences: those that lower a score first, then by kind; equal ones keep their order."""
    return tuple(sorted(differences, key=lambda one: (not one.lowers_score, _WEIGHT[one.kind])))


def value_differences(expected: JsonValue, actual: JsonValue, parts: tuple[str, ...]) -> str:
    """Return `expected 2, found 1`; of an object or a list, the same for the first parts that differ."""
    first, more = parts[:_MAX_PARTS], len(parts) - _MAX_PARTS
    try:
        inside = [f"{shown_name(part)}: {_part(expected, actual, steps_of(part))}" for part in first]
    except LookupError:
        inside = []  # the pointer leads into a matcher
    if not inside:
        return _both(expected, actual)
    return "; ".join([*inside, *([f"and {more} more"] if more > 0 else [])])


def part_names(parts: tuple[str, ...]) -> str:
    """Return the names of the first parts that differ."""
    more = len(parts) - _MAX_PARTS
    return ", ".join([*map(shown_name, parts[:_MAX_PARTS]), *([f"and {more} more"] if more > 0 else [])])


def _part(expected: JsonValue, actual: JsonValue, steps: Steps) -> str:
    wanted = value_at(expected, steps)
    try:
        return _both(wanted, value_at(actual, steps))
    except LookupError:
        return f"expected {shown(wanted)}, found nothing"


def _both(expected: JsonValue, actual: JsonValue) -> str:
    text, hint = f"expected {shown(expected)}, found {shown(actual)}", _hint(expected, actual)
    return f"{text}; {hint}" if hint else text


# Two values that differ as JSON may mean the same.

_NEAR = Fraction(1, 1_000_000)
"""The share of the greater number by which numbers differ that a computation has rounded."""


def value_hint(expected: JsonValue, actual: JsonValue, parts: tuple[str, ...] = ()) -> str:
    """Return how a golden could accept a value that seems to mean the same; empty if nothing suggests it."""
    for steps in [steps_of(part) for part in parts] or [()]:
        with suppress(LookupError):
            if hint := _hint(value_at(expected, steps), value_at(actual, steps)):
                return hint
    return ""


def _hint(expected: JsonValue, actual: JsonValue) -> str:
    if is_number(expected) and is_number(actual) and (hint := _near_numbers(expected, actual)):
        return hint
    wanted, found = (
        None if is_number(value) and abs(value) < _UNIX_TIME else instant_of(value) for value in (expected, actual)
    )
    same = wanted is not None and found is not None and not wanted.seconds_from(found) and expected != actual
    return "the same instant: use $datetime" if same else ""


_UNIX_TIME = 10**8
"""Least number that a hint takes for Unix time: in seconds, March 1973."""


def _near_numbers(expected: float, actual: float) -> str:
    wanted, found = (Fraction(str(one)) if isinstance(one, float) else Fraction(one) for one in (expected, actual))
    apart, greater = abs(wanted - found), max(abs(wanted), abs(found))
    if expected == actual or apart > _NEAR * greater or wanted.denominator == found.denominator == 1:
        return ""
    amount = f"{float(apart):.1g}".replace("e-0", "e-")
    return f"differ by {amount}: use a tolerance ($approx)"
