"""How an expected value is compared with an actual one (S6, S8): strategies, the rule for a value, points in time.

Values are equal as JSON: 1 equals 1.0, `true` never equals 1, NaN equals nothing, and `null` equals only `null`. The
order of keys does not matter, the order of list elements does. Actual values come from telemetry, so no function
raises, recurses, or takes more than linear time. Strings beyond `LONGEST_SIMILAR` are only compared for equality.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cache, lru_cache, partial
from importlib import import_module
from importlib.util import find_spec
from math import isfinite
from typing import Any, Literal, NamedTuple

from goldspan.scoring.errors import CriterionError
from goldspan.scoring.json_values import Steps, is_mapping, is_number, is_sequence
from goldspan.scoring.sessions import JsonValue

Strategy = Literal["exact", "casefold_exact", "numeric", "contains", "similarity"]
"""How an expected value is compared with an actual value."""
Comparison = Callable[[JsonValue, JsonValue], Fraction]
"""Takes the expected and the actual value, and returns a score from 0 to 1; 1 is a match."""

ZERO = Fraction(0)
"""The score of values that do not match."""
ONE = Fraction(1)
"""The score of a match."""
LONGEST_SIMILAR = 100_000
SIMILARITY_IS_MISSING = "the strategy `similarity` needs rapidfuzz: install goldspan[similarity]"

SCALARS = frozenset({str, int, float, bool, type(None)})
"""Two values of the same of these types are equal as JSON if and only if they are equal in Python."""
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE]([+-]?[0-9]+))?", re.ASCII)
_LONGEST_NUMBER = 400
_LARGEST_EXPONENT = 1_000


@lru_cache(maxsize=4096)
def share(points: Fraction | int, total: Fraction | int) -> Fraction:
    """Return points / total, made once where it is common; 1 if there is nothing to be right."""
    if points == total:
        return ONE
    return Fraction(points, total) if points else ZERO


def exact(expected: JsonValue, actual: JsonValue) -> Fraction:
    """1 if the values are equal as JSON."""
    if type(expected) is type(actual) and type(expected) in SCALARS:
        return ONE if expected == actual else ZERO
    return ONE if equal(expected, actual) else ZERO


def casefold_exact(expected: JsonValue, actual: JsonValue) -> Fraction:
    """1 if the values are equal after casefolding every string in them; keys of objects are not casefolded."""
    return ONE if equal(expected, actual, casefold=True) else ZERO


def numeric(
    expected: JsonValue, actual: JsonValue, *, tolerance: Fraction = ZERO, relative_tolerance: Fraction = ZERO
) -> Fraction:
    """1 if two numbers differ by at most `tolerance`, or by `relative_tolerance` times the expected number.

    Numbers are JSON numbers, and strings that contain a number and white space; booleans are not numbers. Their decimal
    notation counts, so 21.5 is within 0.1 of 21.6. Other values are compared as by `exact`.
    """
    wanted, found = number_of(expected), number_of(actual)
    if wanted is None or found is None:
        return exact(expected, actual)
    allowed = max(tolerance, relative_tolerance * abs(wanted)) if relative_tolerance else tolerance
    return ONE if abs(found - wanted) <= allowed else ZERO


def contains(expected: JsonValue, actual: JsonValue) -> Fraction:
    """1 if the actual value contains the expected value.

    A string contains its substrings. A list contains lists whose elements it has, as often, and scalars that it has as
    an element. An object contains objects whose keys it has, with values that contain theirs. Other values are compared
    as by `exact`.
    """
    waiting: list[tuple[JsonValue, JsonValue]] = [(expected, actual)]
    while waiting:
        wanted, found = waiting.pop()
        if isinstance(wanted, str) and isinstance(found, str):
            inside = wanted in found
        elif is_sequence(found):
            elements = wanted if is_sequence(wanted) else [wanted]
            inside = not is_mapping(wanted) and Counter(map(canonical, elements)) <= Counter(map(canonical, found))
        elif is_mapping(wanted) and is_mapping(found):
            inside = all(key in found for key in wanted)
            waiting.extend((value, found[key]) for key, value in wanted.items() if inside)
        else:
            inside = equal(wanted, found)
        if not inside:
            return ZERO
    return ONE


def similarity(expected: JsonValue, actual: JsonValue) -> Fraction:
    """Indel similarity of two strings, as in rapidfuzz: 1 - (insertions + deletions) / total length.

    Other values are compared as by `exact`. Raises CriterionError if rapidfuzz is not installed.
    """
    if not (isinstance(expected, str) and isinstance(actual, str)) or expected == actual:
        return exact(expected, actual)
    if max(len(expected), len(actual)) > LONGEST_SIMILAR:
        return ZERO
    return 1 - Fraction(_indel()(expected, actual), len(expected) + len(actual))


def comparison(strategy: str, *, tolerance: Fraction = ZERO, relative_tolerance: Fraction = ZERO) -> Comparison:
    """Return the comparison function of a strategy."""
    if strategy == "numeric" and (tolerance or relative_tolerance):
        return partial(numeric, tolerance=tolerance, relative_tolerance=relative_tolerance)
    return _STRATEGIES[strategy]


def similarity_is_available() -> bool:
    """Whether rapidfuzz is installed; does not import it."""
    return find_spec("rapidfuzz") is not None


def equal(expected: JsonValue, actual: JsonValue, *, casefold: bool = False) -> bool:
    """Whether two values are equal as JSON; `casefold` ignores the case of strings."""
    if expected is None or isinstance(expected, (str, int, float)):
        return _same(expected, actual, casefold=casefold)
    waiting: list[tuple[JsonValue, JsonValue]] = [(expected, actual)]
    while waiting:
        wanted, found = waiting.pop()
        if type(wanted) is type(found) and type(wanted) in SCALARS and wanted == found:
            continue
        if not (is_sequence(wanted) or is_mapping(wanted)):
            if not _same(wanted, found, casefold=casefold):
                return False
        elif (pairs := _pairs(wanted, found)) is None:
            return False
        else:
            waiting.extend(pairs)
    return True


def _pairs(
    wanted: Sequence[JsonValue] | Mapping[str, JsonValue], found: JsonValue
) -> Iterable[tuple[JsonValue, JsonValue]] | None:
    """Return the values in a list or an object beside those in another one; None where these have other places."""
    if not isinstance(wanted, Mapping):
        return zip(wanted, found, strict=True) if is_sequence(found) and len(wanted) == len(found) else None
    if not is_mapping(found) or len(wanted) != len(found) or any(key not in found for key in wanted):
        return None
    return ((value, found[key]) for key, value in wanted.items())


def _same(expected: JsonValue, actual: JsonValue, *, casefold: bool) -> bool:
    if isinstance(expected, str):
        if not isinstance(actual, str):
            return False
        return expected == actual or (casefold and expected.casefold() == actual.casefold())
    if expected is None or actual is None or isinstance(expected, bool) or isinstance(actual, bool):
        return expected is actual
    if isinstance(expected, (int, float)):
        return isinstance(actual, (int, float)) and expected == actual
    try:
        return type(expected) is type(actual) and bool(expected == actual)
    except Exception:  # noqa: BLE001 - not JSON: the object's __eq__ may raise anything
        return False


def number_of(value: JsonValue) -> Fraction | None:
    """Return the number that a value is, or holds as a text; None for other values and for booleans."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return Fraction(value)
    if isinstance(value, float):
        return Fraction(str(value)) if isfinite(value) else None
    if isinstance(value, str) and len(value) <= _LONGEST_NUMBER and (hit := _NUMBER.fullmatch(value.strip())):
        exponent = hit.group(1)
        if exponent is None or abs(int(exponent)) <= _LARGEST_EXPONENT:
            return Fraction(hit.group())
    return None


_NULL, _TRUE, _FALSE, _LIST, _OBJECT, _END = (object() for _ in range(6))


def canonical(value: JsonValue, *, casefold: bool = False) -> Hashable:
    """Return a hashable key: two keys are equal if and only if the values are equal as JSON.

    `casefold` ignores the case of strings.
    """
    tokens: list[Hashable] = []
    waiting: list[tuple[bool, Any]] = [(False, value)]
    while waiting:
        is_token, item = waiting.pop()
        if is_token:
            tokens.append(item)
        elif isinstance(item, str):
            tokens.append(item.casefold() if casefold else item)
        elif item is None or isinstance(item, bool):
            tokens.append(_NULL if item is None else _TRUE if item else _FALSE)
        elif isinstance(item, (int, float)):
            tokens.append(item if item == item else object())  # noqa: PLR0124 - NaN equals nothing, not even itself
        elif is_sequence(item):
            tokens.append(_LIST)
            waiting.append((True, _END))
            waiting.extend((False, element) for element in reversed(item))
        elif is_mapping(item):
            tokens.append(_OBJECT)
            waiting.append((True, _END))
            for key in sorted(item, key=_key_order, reverse=True):
                waiting.extend(((False, item[key]), (True, key)))
        else:
            tokens.append(object())
    return tuple(tokens)


def _key_order(key: object) -> tuple[str, str]:
    return ("", key) if isinstance(key, str) else (type(key).__name__, str(hash(key)))


@cache
def _indel() -> Callable[[str, str], int]:
    if not similarity_is_available():
        raise CriterionError(SIMILARITY_IS_MISSING)
    return import_module("rapidfuzz.distance.Indel").distance  # type: ignore[no-any-return]


_STRATEGIES: Mapping[str, Comparison] = {
    "exact": exact,
    "casefold_exact": casefold_exact,
    "numeric": numeric,
    "contains": contains,
    "similarity": similarity,
}


# The rule for a value, as a criterion resolves it.


class ValueRule(NamedTuple):
    """The resolved rule for an argument or a part of it."""

    strategy: Strategy
    compare: Comparison
    weight: Fraction = Fraction(1)
    points: int | Fraction = 1
    """The weight, as an int if it is integral, since ints are faster to add."""
    required: bool = True
    tolerance: Fraction = Fraction(0)
    relative_tolerance: Fraction = Fraction(0)
    parts: Mapping[str, ValueRule] = {}
    """Rules for parts, by key or index; also for the parts that enclose them."""
    counts: bool = False
    """Whether a part has its own weight."""
    by_leaf: bool = False
    """Whether the criterion's `argument_score` is `mean`, so that every leaf counts separately."""
    needed: tuple[Steps, ...] = ()
    """Paths of the required parts: a call without them may not be aligned."""

    def by(self, strategy: Strategy) -> ValueRule:
        """Return the rule with another strategy, and without rules for parts."""
        if strategy == self.strategy and not (self.parts or self.counts):
            return self
        compare = comparison(strategy, tolerance=self.tolerance, relative_tolerance=self.relative_tolerance)
        return self._replace(strategy=strategy, compare=compare, parts={}, counts=False, needed=())

    def inside(self) -> ValueRule:
        """Return the rule for parts without their own rule: `numeric` and `similarity` become `exact`."""
        return self.by("exact" if self.strategy in ("numeric", "similarity") else self.strategy)

    def element(self) -> ValueRule:
        """Return the rule for elements to be found in a list: they are compared for equality, under `contains` too."""
        return self.by("casefold_exact" if self.strategy == "casefold_exact" else "exact")


# Points in time as tools are passed them: ISO 8601 text in its common forms, and Unix time in any usual unit.
#
# Text with `Z` or an offset is an instant. Text without one is what some clock shows, and is compared with what the
# other's clock shows. A number is Unix time in seconds, milliseconds, microseconds or nanoseconds, as its size tells.

_ISO = re.compile(
    r"(?P<year>\d{4})(?P<dash>-?)(?P<month>\d\d)(?P=dash)(?P<day>\d\d)"
    r"(?:[Tt ](?P<hour>\d\d)(?:(?P<colon>:?)(?P<minute>\d\d)(?:(?P=colon)(?P<second>\d\d(?:[.,]\d{1,18})?))?)?"
    r" ?(?P<zone>[Zz]|[+-]\d\d(?::?\d\d)?)?(?:\[[^\]\[]{1,40}\])?)?",
    re.ASCII,
)
_UNIX = re.compile(r"-?\d{9,19}(?:\.\d{1,9})?", re.ASCII)
_UNITS = ((10**11, 1), (10**14, 10**3), (10**17, 10**6), (10**20, 10**9))
"""Unix time below the first number has so many of its unit in a second: it is in seconds until the year 5138."""
_LONGEST_TIME = 80
_HOUR, _DAY = 3_600, 86_400
_EPOCH = 719_163  # number of 1970-01-01, where 0001-01-01 is day 1
_MONTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class Instant(NamedTuple):
    """A point in time."""

    clock: Fraction
    """Seconds from 1970-01-01T00:00:00 to what the clock shows."""
    offset: int | None
    """By how many seconds the clock is ahead of UTC; None if that is not known."""

    @property
    def utc(self) -> Fraction:
        """Seconds from 1970-01-01T00:00:00 in UTC; of a clock whose offset is not known, as if it showed UTC."""
        return self.clock - (self.offset or 0)

    def seconds_from(self, other: Instant) -> Fraction:
        """Return how far apart two instants are; what the clocks show, if the offset of one is not known."""
        apart = self.clock - other.clock
        if self.offset is not None and other.offset is not None:
            apart -= self.offset - other.offset
        return abs(apart)


def instant_of(value: JsonValue) -> Instant | None:
    """Return the instant that a value means; None if it means none."""
    if not isinstance(value, str):
        if not is_number(value):
            return None
        return _of_unix(Fraction(str(value)) if isinstance(value, float) else Fraction(value))
    text = value.strip() if len(value) <= _LONGEST_TIME else ""
    if hit := _ISO.fullmatch(text):
        day = _day(int(hit["year"]), int(hit["month"]), int(hit["day"]))
        hour, minute = int(hit["hour"] or 0), int(hit["minute"] or 0)
        second = Fraction((hit["second"] or "0").replace(",", "."))
        seconds = hour * _HOUR + minute * 60 + second
        # 24:00 ends a day, and a leap second has the number 60.
        if day is None or minute > 59 or second >= 61 or seconds > _DAY:
            return None
        return Instant((day - _EPOCH) * _DAY + seconds, offset_of(hit["zone"]))
    return _of_unix(Fraction(text)) if _UNIX.fullmatch(text) else None


def _of_unix(number: Fraction) -> Instant | None:
    per_second = next((unit for limit, unit in _UNITS if abs(number) < limit), None)
    return None if per_second is None else Instant(number / per_second, 0)


def _day(year: int, month: int, day: int) -> int | None:
    """Return the number of a day of the Gregorian calendar; None if there is no such day."""
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not (year and 1 <= month <= len(_MONTHS) and 1 <= day <= _MONTHS[month - 1] + (leap and month == 2)):
        return None
    past = year - 1
    days = past * 365 + past // 4 - past // 100 + past // 400
    return days + sum(_MONTHS[: month - 1]) + (leap and month > 2) + day


_ZONE = re.compile(r"[Zz]|[+-]\d\d(?::?\d\d)?", re.ASCII)


def offset_of(zone: str | None) -> int | None:
    """Return the seconds that a clock is ahead of UTC by its zone: `Z`, `+02:00`; None if it is no such text."""
    if zone is None or _ZONE.fullmatch(zone) is None:
        return None
    if zone in "Zz":
        return 0
    seconds = int(zone[1:3]) * _HOUR + int(zone[3:].lstrip(":") or 0) * 60
    return -seconds if zone[0] == "-" else seconds
