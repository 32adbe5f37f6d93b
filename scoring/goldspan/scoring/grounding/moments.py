"""Where a date or a time came from: it was said, or what was said leads to it from the day of the call.

The user says, on a Monday, `Friday at half past seven, for two hours`:

    2024-05-17           relative date    `Friday` leads from the day of the call to it
    2024-05-17T19:30     time             so does `half past seven` to its time
    2024-05-17T21:30     time             a duration that was said leads from a time that was said to it
    2024-05-18           none             nothing that was said leads to it
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from datetime import date, timedelta
from functools import cached_property
from itertools import chain, islice

from msgspec.structs import replace

from goldspan.scoring.grounding.conversation import Conversation
from goldspan.scoring.grounding.dates import (
    Day,
    RelativeDay,
    days_of,
    led_in_two_steps,
    may_lead,
    times_of,
    weeks_of,
)
from goldspan.scoring.grounding.languages import in_english, languages_of
from goldspan.scoring.grounding.leaves import Kind, Leaf, Origin, name_says, text_of_leaf
from goldspan.scoring.grounding.quantities import Quantity
from goldspan.scoring.grounding.words import letters_in, normalised, remembered, words_of
from goldspan.scoring.patterns import regex

_ENDS = frozenset(("end", "until", "finish", "stop"))
_DAYS = frozenset(("days", "tage", "jours", "dias", "giorni"))
_DURATIONS = frozenset(("minutes", "minute", "min", "mins", "duration", "length"))
_ENDS_OF_YEAR = ((1, 1), (12, 31))
_DAYS_AFTER_MONTH = 3  # the last week of a month may end so many days after it
_USUAL_MINUTES = (30, 60, 90, 120)
_MOST_SPANS = 3
_LONGEST_MONTH = 31
_LEAST_DAY = 10  # smaller numbers are said of other things, too
_LED_FROM = 50
_LED_IN_STEPS_FROM = 3
_LONG_RUN = regex(r"(?<![\d.t])\d{5,}")
_NUMBERED_DAY = regex(r"\d{8}[-_](?!(?:[01]\d|2[0-3])[0-5]\d)\d")  # an order of a day: `20240516-7702`
_OFFSET = regex(r"(?<=\d[:.]\d\d)(?::00)?(?:\.0+)?[+-](?:0\d|1[0-4]):?[0-5]\d$")  # of a zone
_DIGITS_OF_MOMENTS = (8, 12, 14)
_NOT_CERTAIN = (Kind.UNKNOWN, Kind.ASSUMED)


class MomentFinder:
    """Finds the origins of dates and times of one call; so many passages of a conversation were before it."""

    def __init__(self, conversation: Conversation, passages: int, today: Sequence[date]) -> None:
        """`today`: the days on which the call may have been made."""
        self._conversation = conversation
        self._passages = passages
        self._today = today

    @cached_property
    def days(self) -> list[tuple[Day, int]]:
        """The dates that were said, each with its passage."""
        return self._conversation.days(self._passages)

    @cached_property
    def times(self) -> list[tuple[tuple[int, int], int]]:
        """The times of day that were said, each with its passage."""
        return self._conversation.times(self._passages)

    @cached_property
    def quantities(self) -> list[Quantity]:
        """The numbers with units that were said."""
        return [one for one, _ in self._conversation.quantities(self._passages)]

    @cached_property
    def _moments(self) -> tuple[Set[int], Set[int]]:
        """The latest dates as ordinals, and the latest times as minutes."""
        latest = [day for day, _ in self.days[:20]]
        months = {(day.year, day.month) for day in latest if day.month}
        latest += [Day(year, month, day.day) for day in latest if not day.month for year, month in months]
        days = {whole.toordinal() for day in latest if (whole := _with_year(day, self._today))}
        return days, {hour * 60 + minute for (hour, minute), _ in self.times[:20]}

    def is_time_between(self, value: int, leaf: Leaf | None = None) -> bool:
        """Whether a number is the time between two dates or two times that were said, in days or a smaller unit.

        Or how long a time is: `1h50` is 110 minutes. Days may count the first and the last.
        """
        days, times = self._moments if value > 0 else (set[int](), set[int]())
        gaps = (value, value * 60, value // 60 if value % 60 == 0 else value)
        if leaf is not None and name_says(leaf.path, _DAYS) and any(day + value - 1 in days for day in days):
            return True
        if leaf is not None and value in times and name_says(leaf.path, _DURATIONS):
            return True
        return any(day + value in days for day in days) or any(time + gap in times for time in times for gap in gaps)

    def origin(self, days: Sequence[Day], times: Sequence[tuple[int, int]], leaf: Leaf) -> Origin | None:
        """Return the origin of a value that consists of these dates and times; None without one."""
        origin = self._first_known(days) if days else None
        if origin is None and days and self._is_today(days):
            kind = Kind.DERIVED if times and self._user_said_a_time() else Kind.ASSUMED
            origin = Origin(kind, "the day of the call")
        if days and (origin is None or origin.kind in _NOT_CERTAIN):
            return origin
        open_end = bool(days) and times[:1] in ([(0, 0)], [(23, 59)])
        if times and not open_end and not any(map(self._time, times)):
            return self._assumed_time(times, leaf, of_day=bool(days))
        return Origin(Kind.DERIVED, "time" if origin is None else origin.rule)

    def _is_today(self, days: Sequence[Day]) -> bool:
        """Whether dates are the day of the call, and people said no day."""
        if self._conversation.relative_days(self._passages):
            return False
        by_people = any(self._conversation.passages[at].kind == Kind.USER for _, at in self.days)
        return not by_people and all(day.whole() in self._today for day in days)

    def _assumed_time(self, times: Sequence[tuple[int, int]], leaf: Leaf, *, of_day: bool) -> Origin | None:
        """Return what a time that nothing leads to may follow from; `of_day`: a day that was said stands before it."""
        if name_says(leaf.path, _ENDS) and any(map(self._is_usual_end, times)):
            return Origin(Kind.ASSUMED, "the end of what begins at a time that was said")
        if any(map(self._told_by_numbers, times)) or (not of_day and self._is_told_duration(leaf)):
            return Origin(Kind.ASSUMED, "a time whose numbers were said")
        without_hour = of_day and not self._user_said_a_time()
        return Origin(Kind.ASSUMED, "an hour of a day that was said without one") if without_hour else None

    def _user_said_a_time(self) -> bool:
        conversation = self._conversation
        return any(conversation.passages[at].kind == Kind.USER for _, at in self.times)

    def numbers_in(self, text: str) -> set[str]:
        """Return the numbers in a normalised text of dates and times that have an origin, and the year of the call."""
        english = normalised(in_english(text, languages_of(text, set(words_of(text)))))
        letters, leaf = letters_in(words_of(english)), Leaf("", text, {})
        years = sorted({day.year for day in self._today})
        days = [day for day in days_of(english, letters) if self._leads_to(day, years, leaf)]
        times = [time for time in times_of(english, letters) if self.origin((), [time], leaf) is not None]
        parts = (str(part) for part in chain(years, chain.from_iterable(days)) if part)
        return {*parts, *chain.from_iterable(map(_ways_to_write, times))}

    def _leads_to(self, day: Day, years: Sequence[int], leaf: Leaf) -> bool:
        days = (day._replace(year=year) for year in ((day.year,) if day.year else years))
        return any(self.origin([one], (), leaf) is not None for one in days)

    def _first_known(self, days: Sequence[Day]) -> Origin | None:
        """Return the origin of the first date that has one; dates that only may have one do for want of others."""
        exact = [day for day in days if day.day]
        found = [self._day(day) for day in exact] if exact else [self._month(day) for day in days]
        known = [origin for origin in found if origin is not None]
        certain = any(origin.kind not in _NOT_CERTAIN for origin in known)
        return replace(known[0], kind=Kind.DERIVED) if certain else next(iter(known), None)

    def _time(self, time: tuple[int, int]) -> bool:
        if self._conversation.time(time, self._passages) is not None:
            return True
        minutes = time[0] * 60 + time[1]
        spans = {
            round(quantity.value * factor)
            for quantity in self.quantities[-20:]
            for unit, factor in (("hour", 60), ("hr", 60), ("min", 1))
            if quantity.unit.startswith(unit)
        }
        starts = [hour * 60 + minute for (hour, minute), _ in self.times[:20]]
        if 1 < len(spans) <= _MOST_SPANS:
            spans |= {one + other for one in spans for other in spans if one < other}
        return minutes in spans or any(
            (start + span) % 1440 == minutes or (start - span) % 1440 == minutes for start in starts for span in spans
        )

    def _told_by_numbers(self, time: tuple[int, int]) -> bool:
        """Whether a person said the hour of a time, and its minutes or those to the next hour, as numbers or parts."""
        hour, minute = time
        passages = self._conversation.passages
        if any(known % 12 == hour % 12 and passages[at].kind == Kind.USER for (known, _), at in self.times):
            return False
        said = self._conversation.said_by_people(self._passages)
        parts = {0: 0.0, 15: 0.25, 30: 0.5, 45: 0.25}
        after = minute in (0, *said) or parts.get(minute) in said
        before = minute and (60 - minute in said or parts.get(minute) in said)
        hours = {hour, hour % 12 or 12} if after else set[int]()
        return not (hours | ({hour + 1, hour % 12 + 1} if before else set[int]())).isdisjoint(said)

    def _is_told_duration(self, leaf: Leaf) -> bool:
        """Whether the hours, minutes and seconds of a duration were all said: `00:52:30` for `fifty-two thirty`."""
        parts = text_of_leaf(leaf.value).split(":")
        numbers = {int(part) for part in parts if part.isdecimal()} - {0}
        said = self._conversation.said_by_people(self._passages)
        return len(parts) > 2 and len(numbers) > 1 and numbers.issubset(said)

    def _is_usual_end(self, time: tuple[int, int]) -> bool:
        starts = [hour * 60 + minute for (hour, minute), _ in self.times[:20]]
        return any(time[0] * 60 + time[1] - start in _USUAL_MINUTES for start in starts)

    def _day(self, wanted: Day) -> Origin | None:
        conversation, passages = self._conversation, self._passages
        for year in dict.fromkeys((wanted.year, 0)):
            if (at := conversation.day(Day(year, wanted.month, wanted.day), passages)) is not None:
                return Origin(Kind.DERIVED, "date" if year == wanted.year else "date without a year", at)
        if not wanted.year:
            found = next((at for day, at in self.days if day[1:] == wanted[1:]), None)
            return None if found is None else Origin(Kind.DERIVED, "date", found)
        whole = wanted.whole()
        if whole is None:
            return None
        if (at := self._end_of_period(wanted, whole)) is not None:
            return Origin(Kind.DERIVED, "end of a period", at)
        at = conversation.day(Day(0, 0, wanted.day), passages)
        if at is not None and self._is_month_of_talk(wanted):
            return Origin(Kind.DERIVED, "day of a month", at)
        if (at := conversation.part_of_month(wanted, passages)) is not None:
            return Origin(Kind.ASSUMED, "a day of a part of a month", at)
        return self._relative_day(whole) or self._some_day_of(wanted) or self._day_by_number(wanted)

    def _day_by_number(self, wanted: Day) -> Origin | None:
        """Return the origin of a day of the month of which they talk, whose number a person said: `au 12`."""
        told = wanted.day >= _LEAST_DAY and wanted.day in self._conversation.said_by_people(self._passages)
        is_told = told and self._is_month_of_talk(wanted)
        return Origin(Kind.ASSUMED, "a day of which the number was said") if is_told else None

    def _some_day_of(self, wanted: Day) -> Origin | None:
        """Return the origin of a day of a month of which a person named no day: `the last week of April`."""
        conversation = self._conversation
        before = wanted.month - 1 or 12 if wanted.day <= _DAYS_AFTER_MONTH else wanted.month
        known = [(day, at) for day, at in self.days if day.month in (wanted.month, before)]
        days = chain(known, ((day, at) for day, at in self.days if not day.month))
        if any(day.day for day, _ in days):
            return None
        said = (at for _, at in known if conversation.passages[at].kind == Kind.USER)
        return next((Origin(Kind.ASSUMED, "a day of a month that was said without one", at) for at in said), None)

    def _is_month_of_talk(self, wanted: Day) -> bool:
        """Whether another day of the month was said, or the call may have been made in it."""
        whole = wanted.whole()
        if whole is not None and any(0 <= (whole - base).days <= _LONGEST_MONTH for base in self._dated):
            return True  # `on the 3rd`, said on the 27th
        near = [day for day, _ in self.days if day.month]
        near += [Day(day.year, day.month, day.day) for day in self._today]
        return any(day.month == wanted.month and day.year in (0, wanted.year) for day in near)

    def _end_of_period(self, wanted: Day, whole: date) -> int | None:
        """Return where a month or year was said that begins or ends on a day."""
        conversation, passages = self._conversation, self._passages
        if whole.day == 1 or (whole + timedelta(days=1)).day == 1:
            for year in (wanted.year, 0):
                if (at := conversation.day(Day(year, wanted.month, 0), passages)) is not None:
                    return at
        if (whole.month, whole.day) in _ENDS_OF_YEAR:
            year_said = conversation.number(wanted.year, passages)
            return None if year_said is None else year_said[0]
        return None

    def _relative_day(self, wanted: date) -> Origin | None:
        relative = self._conversation.relative_days(self._passages)
        for base, unit in self._days_to_lead_from(wanted) if relative else ():
            for words, at in relative:
                if (
                    unit in ("", words.unit)
                    and words.lead(base, wanted)
                    and not self._names_other_day(words, at, wanted)
                ):
                    return Origin(Kind.DERIVED, "relative date", at)
        dated = self._dated
        if wanted in led_in_two_steps((words for words, _ in relative), dated):
            return Origin(Kind.DERIVED, "relative date")
        if not dated and may_lead((words for words, _ in relative), wanted):
            return Origin(Kind.UNKNOWN, "relative date, but the day of the call is unknown")
        return None

    def _names_other_day(self, words: RelativeDay, at: int, wanted: date) -> bool:
        """Whether who said `next month` or `last year` said which days or months: `from the 3rd of next month`."""
        said = [day for day, place in self.days if place == at] if words.unit in ("month", "year") else ()
        if words.unit == "month":
            unknown = self._conversation.day(Day(0, 0, wanted.day), self._passages) is None
            return unknown and any(not day.month for day in said)
        is_whole = (wanted.month, wanted.day) in _ENDS_OF_YEAR
        return not is_whole and any(day.month for day in said) and all(wanted.month != day.month for day in said)

    @cached_property
    def _dated(self) -> Sequence[date]:
        """The days on which the call may have been made, and the latest days that were said whole."""
        whole = (found for day, _ in self.days if day.year and (found := day.whole()) is not None)
        return (*self._today, *islice(whole, _LED_IN_STEPS_FROM))

    def _days_to_lead_from(self, wanted: date) -> Iterator[tuple[date, str]]:
        """Yield the days on which relative words may be said or that they refer to, each with their unit if not any."""
        relative = [words for words, _ in self._conversation.relative_days(self._passages)]
        yield from ((base, "") for base in self._today)
        dated = (day for day, _ in self.days[:_LED_FROM] if day.year)
        yield from ((found, "") for found in (day.whole() for day in dated) if found is not None)
        for days in weeks_of(relative):
            yield from ((base + timedelta(days=days), "weekday") for base in self._today)
        whole = self._days_without_year(wanted.year)
        yield from ((found, "days") for found in whole)
        if any(words.unit == "weekday" and words.number == wanted.weekday() for words in relative):
            yield from (
                (day, "weekday") for day in (*whole, *_feasts_before(wanted, relative)) if self._is_near(day, wanted)
            )
        if any(words.is_next for words in relative):
            yield from ((found, "day") for found in whole)

    def _days_without_year(self, year: int) -> list[date]:
        """Return the latest days that were said without a year, in one; and those without a month in near ones."""
        known = [day for day, _ in self.days[:_LED_FROM] if not day.year]
        months = sorted({(base.year, base.month) for day in self._dated for base in (day, day + timedelta(days=31))})
        days = [day._replace(year=year) for day in known]
        days += [Day(*month, day.day) for day in known if not day.month for month in months]
        return [found for found in (day.whole() for day in days) if found is not None]

    def _is_near(self, day: date, wanted: date) -> bool:
        """Whether a day is within a week after one that was said, or before it if people say `before`."""
        before = self._conversation.was_said("before", self._passages)
        return (wanted - day).days in range(-6 if before else 1, 7)

    def _month(self, wanted: Day) -> Origin | None:
        for day, at in self.days:
            if day.month == wanted.month and (day.year in (0, wanted.year) or not wanted.year):
                return Origin(Kind.DERIVED, "month", at)
        shifts = [one.months for one, _ in self._conversation.relative_days(self._passages) if one.months]
        single = set(chain.from_iterable(shifts)) if wanted.year else set[int]()
        reached = single | {one + other for one in single for other in single if not other % 12}
        months = (wanted.year * 12 + wanted.month - base.year * 12 - base.month for base in self._dated)
        return Origin(Kind.DERIVED, "relative date") if not reached.isdisjoint(months) else None


def _feasts_before(wanted: date, relative: Sequence[RelativeDay]) -> list[date]:
    """Return the days of a week before one that people named by a feast."""
    feasts = [words for words in relative if words.unit == "easter"]
    week = (wanted - timedelta(days=back) for back in range(1, 7) if feasts)
    return [day for day in week if any(words.lead(day, day) for words in feasts)]


def _ways_to_write(time: tuple[int, int]) -> Iterator[str]:
    minute = f"{time[1]:02}"
    for hour in {time[0], time[0] % 12 or 12}:
        yield from (str(hour), f"{hour:02}", f"{hour}h", f"{hour}h{minute}", minute)


@remembered
def moment_of(plain: str) -> tuple[list[Day], list[tuple[int, int]]] | None:
    """Return the dates and times of a short text that holds nothing else."""
    plain = _OFFSET.sub("", plain)
    letters = letters_in(words_of(plain))
    days = [day for day in days_of(plain, letters) if day.day or day.year]
    times = list(times_of(plain, letters)) if re.search(r"\d[:h]\d|\d\s?[ap]\.?m\b", plain) else []
    if not days and not times:
        return None
    if _NUMBERED_DAY.search(plain) or any(len(run) not in _DIGITS_OF_MOMENTS for run in _LONG_RUN.findall(plain)):
        return None
    rest = re.sub(r"(?<![^\W\d_])(?:t|z|utc|gmt|am|pm|of|the|st|nd|rd|th|[a-z]{3,9}day|est|pst|edt|cst)\b", "", plain)
    rest = re.sub(r"jan\w*|feb\w*|mar\w*|apr\w*|may|jun\w*|jul\w*|aug\w*|sep\w*|oct\w*|nov\w*|dec\w*", "", rest)
    return (days, times) if re.search(r"[^\W\d_]{2,}", rest) is None else None


def _with_year(day: Day, today: Sequence[date]) -> date | None:
    return Day(day.year or (today[0].year if today else 2001), day.month, day.day).whole() if day.day else None
