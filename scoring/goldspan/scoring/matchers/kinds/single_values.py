"""Matchers of one value: `$literal`, `$datetime`, `$present`, `$absent`, `$ignore`, `$approx`, `$type`, `$regex`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from fractions import Fraction
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from msgspec import Struct

from goldspan.scoring.comparison import ONE, ZERO, Instant, ValueRule, instant_of, numeric
from goldspan.scoring.json_values import Steps, is_mapping, is_number, is_sequence, shown
from goldspan.scoring.matchers.matcher import (
    ABSENT,
    LITERAL,
    Expected,
    Matcher,
    MatcherKind,
    MatcherReader,
    Options,
    Part,
    ValuePath,
)
from goldspan.scoring.sessions import EarlierCalls, JsonValue


def _read_literal(value: JsonValue, _: Options, where: ValuePath, reader: MatcherReader) -> Expected:  # noqa: ARG001 - every kind is read alike
    return value


_DURATION = r"[0-9]{1,9}(\.[0-9]{1,9})?\s*(ms|s|m|h|d)"
_LIMIT = {"type": "number", "minimum": 0}
DURATION_SCHEMA = {"anyOf": [_LIMIT, {"type": "string", "pattern": rf"^\s*{_DURATION}\s*$"}]}
_UNITS = {"ms": Fraction(1, 1_000), "s": Fraction(1), "m": Fraction(60), "h": Fraction(3_600), "d": Fraction(86_400)}


class DateTime(Struct, Matcher, frozen=True):
    """Matches instants, or times of the day, at most a tolerance away."""

    instant: Instant
    tolerance: Fraction
    """In seconds, inclusive."""
    read: Callable[[JsonValue], Instant | None] = instant_of

    def score(self, actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None) -> Fraction | None:  # noqa: ARG002
        """Return 1 for an instant within the tolerance."""
        found = None if actual is ABSENT else self.read(actual)
        return ONE if found is not None and found.seconds_from(self.instant) <= self.tolerance else ZERO


_TIME = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9])(?:\.0+)?)? ?([ap]m)?", re.ASCII | re.IGNORECASE)


def time_of_day(value: JsonValue) -> Instant | None:
    """Return a time such as `9:30`, `09:30:00` or `9:30 PM` as an instant of the first day; None for all else."""
    hit = _TIME.fullmatch(value.strip()) if isinstance(value, str) else None
    if hit is None:
        return None
    hour = int(hit[1]) if hit[4] is None else int(hit[1]) % 12 + (12 if hit[4].casefold() == "pm" else 0)
    return Instant(Fraction(hour * 3_600 + int(hit[2]) * 60 + int(hit[3] or 0)), None)


def _read_datetime(value: JsonValue, options: Options, where: ValuePath, reader: MatcherReader) -> Expected:
    read = instant_of if time_of_day(value) is None else time_of_day
    instant, tolerance = read(value), read_tolerance(options, where, reader)
    if instant is None:
        expected = 'ISO 8601 such as "2026-03-01T09:00:00Z", Unix time, or a time such as "09:00"'
        reader.mistake((*where, "$datetime"), f"found {shown(value)}, expected {expected}")
    return None if instant is None or tolerance is None else DateTime(instant, tolerance, read)


def read_tolerance(options: Options, where: ValuePath, reader: MatcherReader) -> Fraction | None:
    """Return the option `tolerance` in seconds, 0 if it is left out; None after a mistake."""
    tolerance = _seconds(options.get("tolerance", 0))
    if tolerance is None:
        expected = "seconds, as a number or as 500ms, 60s, 5m, 1h, 1d"
        reader.mistake((*where, "tolerance"), f"found {shown(options['tolerance'])}, expected {expected}")
    return tolerance


def _seconds(value: JsonValue) -> Fraction | None:
    if is_number(value):
        return Fraction(str(value)) if value >= 0 else None
    hit = re.fullmatch(_DURATION, value.strip(), re.ASCII) if isinstance(value, str) else None
    return (
        Fraction(value.strip().removesuffix(hit[2]).rstrip()) * _UNITS[hit[2]]
        if hit and isinstance(value, str)
        else None
    )


class Present(Struct, Matcher, frozen=True):
    """Matches every value that was passed, null among them."""

    def score(self, actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None) -> Fraction | None:  # noqa: ARG002
        """Return 1 if there is a value."""
        return ZERO if actual is ABSENT else ONE


class Absent(Struct, Matcher, frozen=True):
    """Matches only that nothing was passed; null is not absent."""

    @property
    def may_be_absent(self) -> bool:
        """It may."""
        return True

    def score(self, actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None) -> Fraction | None:  # noqa: ARG002
        """Return 1 if there is no value."""
        return ONE if actual is ABSENT else ZERO


class Ignore(Struct, Matcher, frozen=True):
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


def _presence(name: str, about: str, matcher: Matcher, instead: str) -> MatcherKind:
    def read(value: JsonValue, _: Options, where: ValuePath, reader: MatcherReader) -> Expected:
        if value is not True:
            reader.mistake((*where, name), f"found {shown(value)}, expected true{instead}")
            return None
        return matcher

    return MatcherKind(name, about, read, {"const": True})


class Approx(Struct, Matcher, frozen=True):
    """Matches numbers, and strings that hold one, as the strategy `numeric` does; the wider tolerance holds."""

    number: int | float
    tolerance: Fraction | None
    """None, with `relative` too: those of the criterion."""
    relative: Fraction | None

    def score(self, actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None) -> Fraction | None:  # noqa: ARG002
        """Return 1 for a number within the tolerance."""
        if actual is ABSENT:
            return ZERO
        absolute, relative = self.tolerance, self.relative
        if absolute is None and relative is None:
            absolute, relative = rule.tolerance, rule.relative_tolerance
        return numeric(self.number, actual, tolerance=absolute or ZERO, relative_tolerance=relative or ZERO)


def _read_approx(value: JsonValue, options: Options, where: ValuePath, reader: MatcherReader) -> Expected:
    if not is_number(value):
        reader.mistake((*where, "$approx"), f"found {shown(value)}, expected a number")
        return None
    limits: dict[str, Fraction] = {}
    for name, limit in options.items():
        if is_number(limit) and limit >= 0:
            limits[name] = Fraction(str(limit))
        else:
            reader.mistake((*where, name), f"found {shown(limit)}, expected a number, 0 or more")
    return Approx(value, limits.get("tolerance"), limits.get("relative"))


_TYPES: Mapping[str, Callable[[JsonValue], bool]] = {
    "string": lambda value: isinstance(value, str),
    "number": is_number,
    "integer": lambda value: is_number(value) and value == int(value),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "array": is_sequence,
    "object": is_mapping,
}


class OfType(Struct, Matcher, frozen=True):
    """Matches values of these types; 1.0 is an integer, a boolean is no number."""

    types: tuple[str, ...]
    least: int | float | None = None
    """Numbers from here, and to `most`; None: any."""
    most: int | float | None = None

    def score(self, actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None) -> Fraction | None:  # noqa: ARG002
        """Return 1 for a value of one of the types."""
        if actual is ABSENT or not any(_TYPES[name](actual) for name in self.types):
            return ZERO
        low = self.least is not None and is_number(actual) and actual < self.least
        return ZERO if low or (self.most is not None and is_number(actual) and actual > self.most) else ONE


def _read_type(value: JsonValue, options: Options, where: ValuePath, reader: MatcherReader) -> Expected:
    names = value if is_sequence(value) else [value]
    if not names:
        reader.mistake((*where, "$type"), f"found an empty list, expected {', '.join(_TYPES)}")
    for name in names:
        if not isinstance(name, str) or name not in _TYPES:
            near = get_close_matches(str(name), _TYPES, n=1)
            hint = f"did you mean `{near[0]}`?" if near else f"expected {', '.join(_TYPES)}"
            if name is None:
                hint = 'expected "null" in quotes'
            reader.mistake((*where, "$type"), f"found {shown(name)}: {hint}")
    for option, limit in options.items():
        if not is_number(limit):
            reader.mistake((*where, option), f"found {shown(limit)}, expected a number")
    return OfType(tuple(map(str, names)), options.get("minimum"), options.get("maximum"))


_NAME = {"enum": list(_TYPES)}

RE2_IS_MISSING = "`$regex` needs RE2: install goldspan[regex]"
LONGEST_PATTERN = 10_000


class Regex(Struct, Matcher, frozen=True):
    """Matches strings that its pattern matches from the first character to the last."""

    pattern: str

    def score(self, actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None) -> Fraction | None:  # noqa: ARG002
        """Return 1 for a string that matches."""
        if not isinstance(actual, str):
            return ZERO
        try:
            return ONE if _compiled(self.pattern).fullmatch(actual) else ZERO
        except UnicodeEncodeError:
            return ZERO  # half of a surrogate pair is no text


def regex_is_available() -> bool:
    """Whether RE2 is installed; it is not imported to find out."""
    return find_spec("re2") is not None


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> Any:
    re2 = import_module("re2")
    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern, options)


def _read_regex(value: JsonValue, _: Options, where: ValuePath, reader: MatcherReader) -> Expected:
    inside = (*where, "$regex")
    if not isinstance(value, str):
        reader.mistake(inside, f"found {shown(value)}, expected a regular expression: put it in quotes")
    elif len(value) > LONGEST_PATTERN:
        reader.mistake(inside, f"found {len(value)} characters, expected at most {LONGEST_PATTERN}")
    elif not regex_is_available():
        reader.mistake(inside, RE2_IS_MISSING)
    else:
        try:
            _compiled(value)
            return Regex(value)
        except Exception as error:  # noqa: BLE001 - RE2 is imported lazily, so its error class is not known here
            why = error.args[0].decode("utf-8", "replace") if error.args and isinstance(error.args[0], bytes) else error
            reader.mistake(inside, f"found {shown(value)}, expected a regular expression of RE2: {why}")
    return None


KINDS = (
    MatcherKind(LITERAL, "exactly this value: nothing in it is a matcher", _read_literal, {}),
    MatcherKind(
        "$datetime",
        "the same instant, ISO 8601 text or Unix time, or time of the day, at most `tolerance` away (seconds, or text "
        "such as 5m)",
        _read_datetime,
        {"type": ["string", "number"]},
        {"tolerance": DURATION_SCHEMA},
    ),
    _presence("$present", "any value, null among them", Present(), ": for no value write {$absent: true}"),
    _presence("$absent", "no value at all; null is one", Absent(), ": for any value write {$present: true}"),
    _presence("$ignore", "not scored, passed or not: it leaves the mean", Ignore(), ""),
    MatcherKind(
        "$approx",
        "a number at most `tolerance` away, or at most the share `relative` of it; by default as the criterion says",
        _read_approx,
        {"type": "number"},
        {"tolerance": _LIMIT, "relative": _LIMIT},
    ),
    MatcherKind(
        "$type",
        "any value of this type, or of one of these types; numbers from `minimum` to `maximum`",
        _read_type,
        {"anyOf": [_NAME, {"type": "array", "minItems": 1, "items": _NAME}]},
        {"minimum": {"type": "number"}, "maximum": {"type": "number"}},
    ),
    MatcherKind(
        "$regex",
        "a string that this regular expression (RE2) matches as a whole; (?i) in front ignores case",
        _read_regex,
        {"type": "string", "maxLength": LONGEST_PATTERN},
    ),
)
