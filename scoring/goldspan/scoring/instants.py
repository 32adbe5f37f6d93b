"""Points in time as tools are passed them: ISO 8601 text in its common forms, and Unix time in any usual unit.

Text with `Z` or an offset is an instant. Text without one is what some clock shows, and is compared with what the
other's clock shows. A number is Unix time in seconds, milliseconds, microseconds or nanoseconds, as its size tells.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

from goldspan.scoring.json_values import is_number
from goldspan.scoring.sessions import JsonValue

_ISO = re.compile(
    r"(?P<year>\d{4})(?P<dash>-?)(?P<month>\d\d)(?P=dash)(?P<day>\d\d)"
    r"(?:[Tt ](?P<hour>\d\d)(?:(?P<colon>:?)(?P<minute>\d\d)(?:(?P=colon)(?P<second>\d\d(?:[.,]\d{1,18})?))?)?"
    r" ?(?P<zone>[Zz]|[+-]\d\d(?::?\d\d)?)?(?:\[[^\]\[]{1,40}\])?)?",
    re.ASCII,
)
_UNIX = re.compile(r"-?\d{9,19}(?:\.\d{1,9})?", re.ASCII)
_UNITS = ((10**11, 1), (10**14, 10**3), (10**17, 10**6), (10**20, 10**9))
"""Unix time below the first number has so many of its unit in a second: it is in seconds until the year 5138."""
_LONGEST = 80
_HOUR, _DAY = 3_600, 86_400
_EPOCH = 719_163
"""Number of 1970-01-01, where 0001-01-01 is day 1."""
_MONTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class Instant(NamedTuple):
    """A point in time."""

    clock: Fraction
    """Seconds from 1970-01-01T00:00:00 to what the clock shows."""
    offset: int | None
    """By how many seconds the clock is ahead of UTC; None if that is not known."""

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
    text = value.strip() if len(value) <= _LONGEST else ""
    if hit := _ISO.fullmatch(text):
        return _of_iso(hit)
    return _of_unix(Fraction(text)) if _UNIX.fullmatch(text) else None


def _of_unix(number: Fraction) -> Instant | None:
    per_second = next((unit for limit, unit in _UNITS if abs(number) < limit), None)
    return None if per_second is None else Instant(number / per_second, 0)


def _of_iso(hit: re.Match[str]) -> Instant | None:
    day = _day(int(hit["year"]), int(hit["month"]), int(hit["day"]))
    hour, minute = int(hit["hour"] or 0), int(hit["minute"] or 0)
    second = Fraction((hit["second"] or "0").replace(",", "."))
    seconds = hour * _HOUR + minute * 60 + second
    # 24:00 ends a day, and a leap second has the number 60.
    if day is None or minute > 59 or second >= 61 or seconds > _DAY:
        return None
    return Instant((day - _EPOCH) * _DAY + seconds, _offset(hit["zone"]))


def _day(year: int, month: int, day: int) -> int | None:
    """Return the number of a day of the Gregorian calendar; None if there is no such day."""
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not (year and 1 <= month <= len(_MONTHS) and 1 <= day <= _MONTHS[month - 1] + (leap and month == 2)):
        return None
    past = year - 1
    days = past * 365 + past // 4 - past // 100 + past // 400
    return days + sum(_MONTHS[: month - 1]) + (leap and month > 2) + day


def _offset(zone: str | None) -> int | None:
    if zone is None or zone in "Zz":
        return None if zone is None else 0
    seconds = int(zone[1:3]) * _HOUR + int(zone[3:].lstrip(":") or 0) * 60
    return -seconds if zone[0] == "-" else seconds
