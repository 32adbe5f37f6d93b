"""Dates and times in a text: read from the formats that people and tools write, and told by relative words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from datetime import date, timedelta
from itertools import chain
from typing import NamedTuple

from goldspan.scoring.grounding.words import LETTER, ORDINALS, TENS, UNITS, letters_in, normalised, starting, words_of
from goldspan.scoring.patterns import regex

_MONTHS = {
    name: number
    for number, names in enumerate(
        ("january jan", "february feb", "march mar", "april apr", "may", "june jun", "july jul", "august aug",
         "september sept sep", "october oct", "november nov", "december dec"), 1,
    )
    for name in names.split()
}  # fmt: skip
_MONTH_WORDS = frozenset(_MONTHS)
_WEEKDAYS = {
    name: number
    for number, names in enumerate(
        ("monday mon", "tuesday tues tue", "wednesday wed", "thursday thurs thur thu", "friday fri", "saturday sat",
         "sunday sun")
    )
    for name in names.split()
}  # fmt: skip
_MONTH = rf"(?P<month>{starting(_MONTHS, LETTER)})(?![^\W\d_])\.?"
# A pattern that begins with a digit and then looks behind it is tried at digits alone, not at every character.
_SEPARATED = regex(r"[-/.](?<=\d.)\d")
_ISO = regex(r"(?P<year>\d(?<!\d\d)\d{3})[-/.](?P<month>\d{1,2})[-/.](?P<day>\d{1,2})(?!\d)")
_NUMBER_YEAR = regex(r"(?P<month>\d(?<![\d/.-]\d)\d?)[-/](?P<year>\d{4})(?![\d/-])")
_YEAR_NUMBER = regex(r"(?P<year>(?:19|20)(?<![\d/.-]\d\d)\d\d)[-/](?P<month>\d{1,2})(?![\d/-])")
_COMPACT = regex(r"(?P<year>[12](?<!\d\d)(?:(?<=1)9|(?<=2)0)\d\d)(?P<month>[01]\d)(?P<day>[0-3]\d)(?!\d)")
_SLASHES = regex(r"(?P<one>\d(?<![\d/.-]\d)\d?)[-/.](?P<other>\d{1,2})(?:[-/.](?P<year>\d{4}|\d{2}))?(?![\d/-])")
_MONTH_DAY = regex(
    _MONTH + r"\s*(?:the\s+)?(?P<day>\d{1,2})(?:st|nd|rd|th)?\b(?:,?\s*(?:of\s+|in\s+)?(?P<year>\d{4})\b)?"
)
_DAY_MONTH = regex(
    r"(?P<day>\d(?<![\d:]\d)\d?)(?:st|nd|rd|th)?\s*(?:day\s+)?(?:of\s+)?[-\s]?"
    + _MONTH
    + r"[-\s,]*(?:of\s+)?(?P<year>\d{4})?\b"
)
_MONTH_YEAR = regex(_MONTH + r"\s*,?\s*(?:of\s+|in\s+)?(?P<year>\d{4})\b")
_MONTH_ALONE = regex(rf"(?P<month>{starting(_MONTHS)})(?![^\W\d_])\.?")
_DAY_RANGE = regex(
    r"(\d(?<![\d:.]\d)\d?)(?:st|nd|rd|th)?\s*(?:-|\u2013|to|and|until|through|au|al|a|ao)\s*(?:[a-z]{3,6}day )?\s*"
    r"\d{1,2}(?:st|nd|rd|th)?\s*(?:of\s+)?" + _MONTH
)
_QUARTER = regex(
    r"\b(?:q([1-4])|(first|second|third|fourth|1st|2nd|3rd|4th|[1-4]th) quarter)\b(?:,? (?:of |in )?(\d{4})\b)?"
)
_ORDINALS = frozenset(("st", "nd", "rd", "th"))
_DAY_LIST = regex(r"(\d(?<!\w\d)\d?)(?:st|nd|rd|th)\b")
_TIME = regex(
    r"(?P<hour>\d(?<![\d:.]\d)\d?)(?:[:.h](?P<minute>\d{2}))?(?::(?P<second>\d{2}))?(?:\.\d+)?(?:ish\b)?\s*(?P<half>[ap]\.?\s?m\b\.?)?"
)
_MINUTES = regex(r"[:.h](?<=\d.)\d\d")
_BEFORE_HOURS = ("at", "by", "around", "about", "from", "until", "till", "to", "before", "after", "and", "between")
_AFTER_HOURS = ("am", "pm", "m", "clock", "oclock", "morning", "afternoon", "evening", "night")
_AROUND_HOURS = frozenset((*_BEFORE_HOURS, *_AFTER_HOURS))
_PART_OF_DAY = regex(r"\s*(?:o'?clock|(?:in the|at|this) (?:morning|afternoon|evening|night))\b")
_UNTIL_A_TIME = regex(r" (?:to|till?|until) (?:a )?(?:quarter|half|noon|midnight|\d{1,2}[:.]\d\d)\b")
"""After an hour: `3 to quarter to four`."""
_CLOCK_BEFORE = regex(rf"\b(?:{'|'.join(_BEFORE_HOURS)})\s*$")
_LATER_HALF = regex(r"\W*(?:in the |at |this )?(?:afternoon|evening|night)")
_EARLIER_HALF = regex(r"\W*in the morning")
_QUARTERS = regex(rf"(?:({starting(('half', 'quarter'))})\s+(past|to)|h(?<!\w.)(?<!past .)(?<!to .)alf)\s+(\w+)")
"""`half past six`; `half six`, as the British say it."""
_PARTS_OF_HOURS = ("half", "quarter")
_MINUTES_IN_WORDS = {"five": 5, "ten": 10, "twenty": 20, "twenty-five": 25, "twenty five": 25}
_MINUTES_AND_HOUR = regex(rf"({starting(_MINUTES_IN_WORDS)})(?: minutes)? (past|to) (\w+)")
"""`ten to six`."""
_NAMED_TIMES = {"noon": (12, 0), "midday": (12, 0), "midnight": (0, 0)}
_NAMED_TIME = regex(rf"(?:{starting(_NAMED_TIMES)})\b")
_HOURS = {name: number for name, number in UNITS.items() if 1 <= number <= 12}
_HOUR_WORD = regex(
    rf"({starting(_HOURS)})\s*(?:(thirty|fifteen|forty[- ]five)\s*)?"
    r"(o'?clock|[ap]\.?\s?m\b|in the (?:morning|afternoon|evening)|at night)"
)


class Day(NamedTuple):
    """A date, or what a text says of one: 0 stands for a year or day that it does not say."""

    year: int
    month: int
    day: int

    def whole(self) -> date | None:
        """Return it as a date; none if a part is missing or wrong, or if it stands for no end, as 9999-12-31 does."""
        try:
            found = date(self.year, self.month, self.day)
        except ValueError:
            return None
        return found if date.min.year < self.year < date.max.year else None  # days before and after it are dates, too


_HOLIDAYS = {
    "christmas": Day(0, 12, 25), "xmas": Day(0, 12, 25), "halloween": Day(0, 10, 31), "valentine": Day(0, 2, 14),
    "valentines": Day(0, 2, 14), "hogmanay": Day(0, 12, 31), "juneteenth": Day(0, 6, 19), "boxing": Day(0, 12, 26),
    "patrick's": Day(0, 3, 17),
}  # fmt: skip
"""Days of the year that people name in words."""


def days_of(text: str, letters: Set[str]) -> Iterator[Day]:
    """Yield the dates of a normalised text, whose runs of letters are given.

    One for each order of day and month where both are possible.
    """
    separated = ("-" in text or "/" in text or "." in text) and _SEPARATED.search(text) is not None
    named, listed = not letters.isdisjoint(_MONTH_WORDS), not letters.isdisjoint(_ORDINALS)
    for match in chain(_ISO.finditer(text) if separated else (), _COMPACT.finditer(text)):
        yield from _checked(int(match["year"]), int(match["month"]), int(match["day"]))
    if separated:
        yield from _in_either_order(text)
    yield from (_HOLIDAYS[name] for name in _HOLIDAYS.keys() & letters)
    if "eve" in letters:
        yield from (Day(0, 12, 24), Day(0, 12, 31))
    if "new year" in text:
        yield Day(0, 1, 1)
    for match in chain(_MONTH_DAY.finditer(text), _DAY_MONTH.finditer(text)) if named else ():
        yield from _checked(int(match["year"] or 0), _MONTHS[match["month"]], int(match["day"]))
    if separated:
        yield from _months_of_years(text)
    for match in () if letters.isdisjoint(("q", "quarter")) else _QUARTER.finditer(text):
        last = 3 * (int(match[1]) if match[1] else ORDINALS.get(match[2]) or int(match[2][0]))
        yield from (Day(int(match[3] or 0), month, 0) for month in (last - 2, last))
    if named or listed:
        yield from _with_parts_missing(text, named=named, listed=listed)


def _months_of_years(text: str) -> Iterator[Day]:
    for match in chain(_NUMBER_YEAR.finditer(text), _YEAR_NUMBER.finditer(text)):
        if 1 <= int(match["month"]) <= 12:
            yield Day(int(match["year"]), int(match["month"]), 0)


_WORDS_OF_DATES = frozenset((*_MONTHS, *_WEEKDAYS, *_ORDINALS, "t", "z", "utc", "gmt", "of", "at", "am", "pm"))


def is_date(text: str) -> bool:
    """Whether a text says a date and nothing else, with or without a time."""
    normal = normalised(text[:60])
    return len(text) <= 60 and _WORDS_OF_DATES.issuperset(letters_in(words_of(normal)))


def _in_either_order(text: str) -> Iterator[Day]:
    """Yield the dates in digits that begin with the day or the month: `5/6`, `5/6/24`."""
    for match in _SLASHES.finditer(text):
        year = int(match["year"] or 0)
        year = 2000 + year if 0 < year < 70 else 1900 + year if 70 <= year < 100 else year
        one, other = int(match["one"]), int(match["other"])
        if "." in match[0] and not match["year"]:
            continue
        yield from _checked(year, one, other)
        yield from _checked(year, other, one)


def _with_parts_missing(text: str, *, named: bool, listed: bool) -> Iterator[Day]:
    """Yield the months that are named, the days of a month (`the 5th`), and each of these in each of those."""
    for match in _MONTH_YEAR.finditer(text) if named else ():
        yield Day(int(match["year"]), _MONTHS[match["month"]], 0)
    for match in _DAY_RANGE.finditer(text) if named else ():
        yield from _checked(0, _MONTHS[match["month"]], int(match[1]))
    months = sorted({_MONTHS[match["month"]] for match in _MONTH_ALONE.finditer(text)} if named else ())
    yield from (Day(0, month, 0) for month in months)
    days = sorted({int(match[1]) for match in _DAY_LIST.finditer(text)} if listed else ())
    yield from (Day(0, 0, day) for day in days if day <= 31)
    for month in months:
        for day in days:
            yield from _checked(0, month, day)


def _checked(year: int, month: int, day: int) -> Iterator[Day]:
    if 1 <= month <= 12 and 1 <= day <= 31:
        yield Day(year, month, day)


def times_of(text: str, letters: Set[str]) -> Iterator[tuple[int, int]]:
    """Yield the times of a normalised text, whose runs of letters are given, as hour and minute.

    Both halves of the day where it does not say which.
    """
    if not letters.isdisjoint(_AROUND_HOURS) or _MINUTES.search(text) is not None:
        yield from _times_in_digits(text)
    for match in () if letters.isdisjoint(_HOURS) else _HOUR_WORD.finditer(text):
        minute = {"thirty": 30, "fifteen": 15}.get(match[2] or "", 45 if match[2] else 0)
        yield from _halves(_HOURS[match[1]], minute, match[3], text[match.end() : match.end() + 24])
    for match in () if letters.isdisjoint(_PARTS_OF_HOURS) else _QUARTERS.finditer(text):
        yield from _times_by_quarters(match, 15 if match[1] == "quarter" else 30)
    for match in () if letters.isdisjoint(("past", "to")) else _MINUTES_AND_HOUR.finditer(text):
        yield from _times_by_quarters(match, _MINUTES_IN_WORDS[match[1]])
    for match in () if letters.isdisjoint(_NAMED_TIMES) else _NAMED_TIME.finditer(text):
        yield _NAMED_TIMES[match[0]]


def _times_by_quarters(match: re.Match[str], minute: int) -> Iterator[tuple[int, int]]:
    """Yield the times of `half past six`, `a quarter to 7` and `ten to six`."""
    named = _HOURS.get(match[3]) or (int(match[3]) if match[3].isdecimal() else None)
    if named is None:
        return
    if match[2] == "to":
        named, minute = named - 1, 60 - minute
    yield from _halves(named, minute, None, match.string[match.end() : match.end() + 24])


def _times_in_digits(text: str) -> Iterator[tuple[int, int]]:
    for match in _TIME.finditer(text):
        hour, minute, half = int(match["hour"]), int(match["minute"] or 0), match["half"]
        if hour > 24 or minute > 59:
            continue
        said = match["minute"] is not None or half is not None
        before = "" if said else text[max(0, match.start() - 9) : match.start()].rstrip()
        if (
            said
            or (before.endswith(_BEFORE_HOURS) and _CLOCK_BEFORE.search(before))
            or _PART_OF_DAY.match(text, match.end())
            or _UNTIL_A_TIME.match(text, match.end())
        ):
            yield from _halves(hour, minute, half, text[match.end() : match.end() + 24])


def _halves(hour: int, minute: int, half: str | None, after: str) -> Iterator[tuple[int, int]]:
    said = (half or "") + after
    if (half and half.startswith("p")) or _LATER_HALF.match(said):
        yield (hour % 12) + 12, minute
    elif (half and half.startswith("a")) or _EARLIER_HALF.match(said):
        yield hour % 12, minute
    else:
        yield hour % 24, minute
        if hour < 12:
            yield hour + 12, minute
        if hour == 12:
            yield 0, minute


_NEXT_WORDS = frozenset(
    ("next", "coming", "following", "this", "upcoming", "last", "past", "previous", "current", "the")
)
_NEXT = regex(rf"({starting(_NEXT_WORDS - {'the'})}|t(?<!\w.)he(?=\s+weekend))\s+(weekend|week|month|year|quarter)\b")
_WEEKDAY = regex(rf"({starting(_WEEKDAYS)})s?\b")
_COUNTS = {"a": 1, "an": 1, "couple of": 2, "few": 3} | UNITS | TENS
_SPAN = regex(rf"({starting(_COUNTS)}|\d(?<![a-z\d_.]\d)\d{{0,3}})[ -](day|night|week|month|year)s?\b")
_AFTER = regex(r"(?<!\d )(?<!a )\b(week|month|year) (?:after|before|later|earlier)\b")
_OFFSET_WORDS = frozenset((
    "today", "tonight", "now", "current", "currently", "this", "day", "immediately", "tomorrow", "overnight",
    "yesterday", "night", "tmrw", "tmr", "tmw", "tomoz", "tomo", "moro", "todays", "tomorrows", "tmrws", "yesterdays",
))  # fmt: skip
_WEEKDAY_WORDS = frozenset(f"{name}{ending}" for name in _WEEKDAYS for ending in ("", "s"))
_UNITS = frozenset(
    f"{unit}{s}" for unit in ("weekend", "day", "night", "week", "month", "year", "quarter") for s in ("", "s")
)
_END_OF_MONTH = regex(r"\bend of (?:the |this |next )?month\b|\bmonth[- ]end\b")
_AFTER_WORDS = ("after", "before", "later", "earlier")
_NAMES = ((*_WEEKDAYS,), (*_MONTHS,))
_IN_FULL = {
    name: [short for short in names if short != name and names[short] == number]
    for names in (_WEEKDAYS, _MONTHS)
    for name, number in names.items()
    if len(name) > 5 or name in ("april", "june", "july")
}
"""What is short for names of weekdays and months."""
NUMBERED = {**_WEEKDAYS, **_MONTHS}
"""Names that may stand in a range."""
SHORT_DAYS: dict[str, str] = {name[:2]: name for name in _WEEKDAYS if name.endswith("day")}
"""Weekdays as calendars write them; in what people write they are other words."""
_NAMED_RANGE = regex(
    r"(?:({0})s?\s*(?:{2})\s*({0})s?|({1})\s*(?:{2})\s*({1}))\b".format(
        *map(starting, _NAMES), "-|\u2013|to|through|thru|until|till|a|\u00e0|ao|au|al|по"
    )
)
_SETS = (
    (rf"(?:{starting(('week ?days?', 'working days', 'business days'))})\b", range(5)),
    (rf"(?:{starting(('weekends?',))})\b", range(5, 7)),
    (rf"(?:{starting(('every ?day', 'each ?day', 'daily', '7 days', 'seven days', 'all week'))})\b", range(7)),
)
_BUT = regex(
    rf"\b(?:except|excluding|but not|bar|apart from) (?:for |on )?(?:the )?(?:weekends?|({starting(_WEEKDAYS)})s?)\b"
)
"""`every day except weekends` are the other days."""
_WORDS_OF_SETS = frozenset(
    ("week", "weekday", "weekdays", "weekend", "weekends", "day", "days", "everyday", "eachday", "daily")
)


def names_in_ranges(text: str, letters: Set[str]) -> Iterator[str]:
    """Yield the names of weekdays and months in what a normalised text says of several: `weekdays`, `May to July`.

    And what is short for a name: `tue` for `tuesday`.
    """
    for one in _IN_FULL.keys() & letters:
        yield from _IN_FULL[one]
    for pattern, numbers in () if letters.isdisjoint(_WORDS_OF_SETS) else _SETS:
        if re.search(pattern, text):
            yield from (name for name, number in _WEEKDAYS.items() if number in numbers)
    for match in () if letters.isdisjoint(_WORDS_OF_SETS | _WEEKDAY_WORDS) else _BUT.finditer(text):
        left_out = range(5, 7) if match[1] is None else (_WEEKDAYS[match[1]],)
        yield from (name for name, number in _WEEKDAYS.items() if number not in left_out)
    for match in () if letters.isdisjoint(NUMBERED) else _NAMED_RANGE.finditer(text):
        yield from _names_between(match)


def _names_between(match: re.Match[str]) -> Iterator[str]:
    names, size = (_WEEKDAYS, 7) if match[1] else (_MONTHS, 12)
    first, last = (names[name] for name in match.groups() if name)
    between = {(first + step) % size for step in range((last - first) % size + 1)}
    yield from (name for name, number in names.items() if number % size in between)


_OFFSETS = tuple(
    (regex(rf"({starting(words.split(','))})s?\b"), offset)
    for offset, words in (
        (0, "today,tonight,now,current,currently,same day,immediately,this morning,this afternoon,this evening"),
        (2, "day after tomorrow"),
        (1, "tomorrow,tmrw,tmr,tmw,tomo,tomoz,2moro,next day,following day,overnight,day after(?! tomorrow)"),
        (-2, "day before yesterday"),
        (-1, "yesterday,day before,previous day,last night"),
    )
)


_REACHES = {
    "weekend": (range(-9, 1), range(16)),
    "week": (range(-14, 1), range(15)),
    "month": (range(-1, 0), range(2)),
    "year": (range(-1, 1), range(2)),
    "end": (range(0), range(2)),
}
"""How far a day may be in days, months or years, before or after the day on which `next week` and the like are said."""


class PartOfMonth(NamedTuple):
    """Some days of a month, in any year: `the last week of August`, `mid May`."""

    month: int
    first: int
    last: int


_SPANS_OF_MONTHS = {
    "first": (1, 10), "1st": (1, 10), "1th": (1, 10), "second": (8, 17), "2nd": (8, 17), "2th": (8, 17),
    "third": (15, 24), "3rd": (15, 24), "3th": (15, 24), "fourth": (22, 31), "4th": (22, 31), "last": (22, 31),
    "early": (1, 12), "beginning": (1, 12), "start": (1, 12), "mid": (9, 21), "middle": (9, 21), "late": (19, 31),
    "end": (19, 31),
}  # fmt: skip
_PART_OF_MONTH = regex(
    rf"(?P<part>{starting(_SPANS_OF_MONTHS)})[ -](?:(?:week|weekend|half|{'|'.join(_WEEKDAYS)}) )?(?:(?:of|in|im|en) )?"
    rf"(?:the |next |this )?{_MONTH}"
)


def parts_of_months(text: str, letters: Set[str]) -> Iterator[PartOfMonth]:
    """Yield the parts of months that a normalised text, whose runs of letters are given, names."""
    for match in () if letters.isdisjoint(_MONTH_WORDS) else _PART_OF_MONTH.finditer(text):
        yield PartOfMonth(_MONTHS[match["month"]], *_SPANS_OF_MONTHS[match["part"]])


_FROM_EASTER = {
    "easter": 0, "easter sunday": 0, "palm sunday": -7, "maundy thursday": -3, "holy thursday": -3, "good friday": -2,
    "holy saturday": -1, "easter saturday": -1, "easter monday": 1, "ascension day": 39, "whit sunday": 49,
    "pentecost": 49, "whit monday": 50, "corpus christi": 60, "ash wednesday": -46, "shrove tuesday": -47,
    "carnival monday": -48,
}  # fmt: skip
"""Days that people name by feasts, as days after the Sunday of Easter."""
_EASTER = regex(rf"\b(?:{'|'.join(sorted(_FROM_EASTER, key=len, reverse=True))})\b")
_EASTER_WORDS = frozenset(name.split()[0] for name in _FROM_EASTER)
_YEAR = 366


class RelativeDay(NamedTuple):
    """Words that lead from a day to others: `tomorrow`, `next week`, `in 3 days`, `friday`."""

    words: str
    unit: str
    """`day`, `weekday`, `weekend`, `week`, `month`, its `end`, `quarter`, `year`; with `s` for several: `days`."""
    number: int
    """Of `day`, how many later; of `weekday`, which, Monday is 0; else -1 for one before, 1 for this or the next."""

    @property
    def months(self) -> Sequence[int]:
        """How many months from one to another the words can mean, if they tell of months or years."""
        last = self.number < 0
        match self.unit:
            case "month":
                return (-1,) if last else (0, 1)
            case "year":
                return (-12,) if last else (0, 12)
            case "months":
                return (-self.number, self.number)
            case _:
                return ()

    @property
    def steps(self) -> bool:
        """Whether they lead on from a day that other words name: `the day after`, `for two nights`."""
        return self.unit == "days" or self.is_next

    @property
    def is_next(self) -> bool:
        """Whether they name the day after or before one that other words name."""
        follows = self.unit == "day" and self.words.startswith(("day ", "next ", "following "))
        return follows and not self.words.endswith(("tomorrow", "yesterday"))

    def lead(self, base: date, wanted: date) -> bool:
        """Whether the words can mean a day, said on a base."""
        delta, years = (wanted - base).days, wanted.year - base.year
        months = years * 12 + wanted.month - base.month
        if self.unit in _REACHES:
            reached = {"month": months, "end": months, "year": years}.get(self.unit, delta)
            before, after = _REACHES[self.unit]
            fits = {"weekend": wanted.weekday() > 3, "end": (wanted + timedelta(days=1)).day == 1}.get(self.unit, True)
            return fits and reached in (before if self.number < 0 else after)
        match self.unit:
            case "day":
                return delta == self.number
            case "weekday":
                return abs(delta) <= 14 and wanted.weekday() == self.number
            case "quarter":
                return abs(months) <= 6
            case "easter":
                return abs(delta) <= _YEAR and (wanted - _easter(wanted.year)).days == self.number
            case "days":
                return abs(delta) in (self.number, self.number - 1)
            case _:
                until = wanted + timedelta(days=1)  # for six months from the 1st, the last day is one before the 1st
                ends = base.day == until.day == 1 and (until.year - base.year) * 12 + until.month - base.month
                return (abs(months) == self.number and abs(wanted.day - base.day) <= 1) or ends == self.number


def _easter(year: int) -> date:
    """Return the Sunday of Easter in the Gregorian calendar, by the method of Meeus, Jones and Butcher."""
    century, rest = divmod(year, 100)
    epact = (19 * (year % 19) + century - century // 4 - (century - (century + 8) // 25 + 1) // 3 + 15) % 30
    to_sunday = (32 + 2 * (century % 4) + 2 * (rest // 4) - epact - rest % 4) % 7
    later = (year % 19 + 11 * epact + 22 * to_sunday) // 451
    return date(year, 3, 22) + timedelta(days=epact + to_sunday - 7 * later)


def weeks_of(words: Iterable[RelativeDay]) -> set[int]:
    """Return the days in the weeks from now that words tell, which a weekday may stand beside: `Friday in 3 weeks`."""
    return {one.number for one in words if one.unit == "days" and one.number >= 14 and one.number % 7 == 0}


def _days_from(said: Iterable[RelativeDay], base: date) -> set[int]:
    """Return the days that words name on a day, as ordinals; a weekday is of this week or the next."""
    ordinal, found = base.toordinal(), set[int]()
    for one in said:
        if one.unit == "day":
            found.add(ordinal + one.number)
        elif one.unit == "weekday":
            days = ordinal + ((one.number - base.weekday()) % 7 or 7)
            found.update((days, days + 7))
    return found


def led_in_two_steps(words: Iterable[RelativeDay], bases: Iterable[date]) -> set[date]:
    """Return the days of `tomorrow, for two nights` and `the day after Friday`, said on one of some days."""
    said = list(words)
    steps = [one.number for one in said if one.steps]
    found: set[date] = set()
    for base in bases if steps else ():
        led = (first + step for first in _days_from(said, base) for step in steps)
        found.update(date.fromordinal(one) for one in led if 0 < one <= date.max.toordinal())
    return found


def may_lead(words: Iterable[RelativeDay], wanted: date) -> bool:
    """Whether words can mean a day if they were said within 15 days of it, or tell of months and years."""
    near = [date.fromordinal(min(max(wanted.toordinal() - one, 1), date.max.toordinal())) for one in range(-15, 16)]
    return any(
        one.unit in ("month", "quarter", "year") or any(one.lead(base, wanted) for base in near) for one in words
    )


def relative_days_of(text: str, letters: Set[str]) -> Iterator[RelativeDay]:
    """Yield the words of a normalised text, whose runs of letters are given, that name a day by its distance."""
    for pattern, offset in () if letters.isdisjoint(_OFFSET_WORDS) else _OFFSETS:
        for match in pattern.finditer(text):
            if match[1] not in ("tomorrow", "yesterday") or not text[: match.start()].endswith(("after ", "before ")):
                yield RelativeDay(match[1], "day", offset)
    for match in () if letters.isdisjoint(_WEEKDAY_WORDS) else _WEEKDAY.finditer(text):
        yield RelativeDay(match[1], "weekday", _WEEKDAYS[match[1]])
    for match in () if letters.isdisjoint(_EASTER_WORDS) else _EASTER.finditer(text):
        yield RelativeDay(match[0], "easter", _FROM_EASTER[match[0]])
    if letters.isdisjoint(_UNITS):
        return
    for match in () if "end" not in letters else _END_OF_MONTH.finditer(text):
        yield RelativeDay(match[0], "end", 1)
    for match in () if letters.isdisjoint(_NEXT_WORDS) else _NEXT.finditer(text):
        yield RelativeDay(match[0], match[2], -1 if match[1] in ("last", "past", "previous") else 1)
    for match in () if letters.isdisjoint(_AFTER_WORDS) else _AFTER.finditer(text):
        yield RelativeDay(match[0], *{"week": ("days", 7), "month": ("months", 1), "year": ("months", 12)}[match[1]])
    for match in _SPAN.finditer(text):
        count = int(match[1]) if match[1].isdecimal() else _COUNTS[match[1]]
        unit, size = {"day": ("days", 1), "night": ("days", 1), "week": ("days", 7), "month": ("months", 1)}.get(
            match[2], ("months", 12)
        )
        if count <= 1000:
            yield RelativeDay(match[0], unit, count * size)
