"""Matchers of values that come from the session: `$from_result`, `$mentions`, `$generated`, `$date`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from difflib import get_close_matches
from fractions import Fraction

from msgspec import Struct

from goldspan.scoring.comparison import ONE, ZERO, ValueRule, instant_of, offset_of
from goldspan.scoring.grounding.dates import RelativeDay, days_of, relative_days_of
from goldspan.scoring.grounding.words import letters_in, normalised, words_of
from goldspan.scoring.json_values import Steps, is_mapping, is_number, is_sequence, shown, steps_of
from goldspan.scoring.matchers.kinds.prose import WrittenText, text_of
from goldspan.scoring.matchers.kinds.single_values import DURATION_SCHEMA, read_tolerance, time_of_day
from goldspan.scoring.matchers.matcher import (
    ABSENT,
    Asks,
    Expected,
    Matcher,
    MatcherKind,
    MatcherReader,
    Options,
    ValuePath,
    best_of,
    part_at,
)
from goldspan.scoring.patterns import regex
from goldspan.scoring.sessions import (
    WORD_WITH_SIGNS,
    Capture,
    Content,
    EarlierCalls,
    ExpectedCallPosition,
    JsonValue,
    ToolCall,
)

_PLACE = regex(r"([0-9]{1,6})\.([0-9]{1,6})", re.ASCII)
_EXAMPLE = "expected an object such as {call: create_order, path: /id}"


class FromResult(Struct, Matcher, frozen=True):
    """Matches what an earlier call returned, compared by the argument's strategy.

    Of several calls of a tool the best counts. A result that was not captured is unknown, not wrong.
    """

    call: str | ExpectedCallPosition
    path: Steps
    anywhere: bool = False
    """Also what stands anywhere in that: an element of a list, a field of an object, words of a text."""

    @property
    def asks(self) -> Asks:
        """What calls returned."""
        return Asks.CONTENT

    def score(self, actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None) -> Fraction | None:
        """Return how good the value is for what was returned."""
        if actual is ABSENT:
            return ZERO
        if earlier is None:
            return None
        return best_of(self._by_result(result, actual, rule) for result in earlier.returned(self.call))

    def _by_result(self, result: Content | None, actual: JsonValue, rule: ValueRule) -> Fraction | None:
        if result is None or result.capture is not Capture.CAPTURED:
            return None
        return best_of(self._compared(value, actual, rule) for value in values_at(result.value, self.path))

    def _compared(self, value: JsonValue, actual: JsonValue, rule: ValueRule) -> Fraction:
        score = rule.compare(value, actual)
        if score == 1 or not self.anywhere:
            return score
        if isinstance(value, str):
            return ONE if not is_mapping(actual) and WrittenText(value).says(actual) else score
        inner = value.values() if is_mapping(value) else value if is_sequence(value) else ()
        return max([score, *(self._compared(one, actual, rule) for one in inner)])


def values_at(value: JsonValue, steps: Sequence[str]) -> Iterator[JsonValue]:
    """Yield what stands at the end of these steps, where `*` is every element of a list, or every field."""
    for at, step in enumerate(steps):
        if step == "*" and (is_sequence(value) or (is_mapping(value) and "*" not in value)):
            for inner in value.values() if is_mapping(value) else value:
                yield from values_at(inner, steps[at + 1 :])
            return
        value = part_at(value, (step,))
    if value is not ABSENT:
        yield value


def _read_from_result(value: JsonValue, _: Options, where: ValuePath, reader: MatcherReader) -> Expected:
    return _result_of(value, (*where, "$from_result"), reader, ("call", "path", "anywhere"))


def _result_of(
    value: JsonValue, inside: ValuePath, reader: MatcherReader, fields: tuple[str, ...]
) -> FromResult | None:
    if not is_mapping(value):
        reader.mistake(inside, f"found {shown(value)}, {_EXAMPLE}")
        return None
    for name in value:
        if name not in fields:
            reader.mistake((*inside, name), f"unknown field: {_EXAMPLE}")
    call, path, anywhere = value.get("call"), value.get("path", ""), value.get("anywhere", False)
    if not isinstance(call, str) or not call.strip():
        there = (*inside, "call") if "call" in value else inside
        reader.mistake(there, f"found {shown(call)}, expected a tool's name, or turn.index in quotes such as '0.2'")
        return None
    if not isinstance(anywhere, bool):
        reader.mistake((*inside, "anywhere"), f"found {shown(anywhere)}, expected true or false")
    try:
        steps = steps_of(path) if isinstance(path, str) else None
    except ValueError as error:
        reader.mistake((*inside, "path"), str(error))
        return None
    if steps is None:
        reader.mistake((*inside, "path"), f"found {shown(path)}, expected a JSON Pointer such as /id")
        return None
    hit = _PLACE.fullmatch(call)
    return FromResult((int(hit.group(1)), int(hit.group(2))) if hit else call, steps, anywhere is True)


# What the run itself passed to tools and got from them.


class PassedArgument(Struct, frozen=True):
    """An argument of the run's calls: of the earlier calls of a tool, or of the call itself."""

    tool: str | None
    path: Steps

    def values(self, earlier: EarlierCalls) -> Iterator[JsonValue]:
        """Yield what was passed by each call that did not fail; `ABSENT` where that is hidden."""
        calls: Iterator[ToolCall] = iter([earlier.call]) if self.tool is None else earlier.made(self.tool)
        for call in calls:
            if self.tool is not None and call.error is not None:
                continue
            if call.arguments is None or call.argument_captures.get(self.path[0]):
                yield ABSENT
            else:
                yield from values_at(call.arguments, self.path)


class Mentions(Struct, Matcher, frozen=True):
    """Matches a text that says values which this run passed to tools or got from them.

    Of several calls of a tool any will do. What the run never passed or got needs no mention.
    """

    references: tuple[PassedArgument | FromResult, ...]

    @property
    def asks(self) -> Asks:
        """Arguments of calls, or what they returned."""
        results = any(isinstance(one, FromResult) for one in self.references)
        return Asks.CONTENT if results else Asks.CALLS

    def score(self, actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None) -> Fraction | None:  # noqa: ARG002
        """Return 1 for a text that says one value of each reference."""
        text = text_of(actual)
        if text is None or not text.strip():
            return ZERO
        if earlier is None:
            return None
        written = WrittenText(text)
        scores = [_mentioned(one, written, earlier) for one in self.references]
        return ZERO if ZERO in scores else None if None in scores else ONE


def _mentioned(reference: PassedArgument | FromResult, text: WrittenText, earlier: EarlierCalls) -> Fraction | None:
    if isinstance(reference, PassedArgument):
        values = list(reference.values(earlier))
    else:
        results = list(earlier.returned(reference.call))
        known = [one for one in results if one is not None and one.capture is Capture.CAPTURED]
        values = [value for one in known for value in values_at(one.value, reference.path)]
        values += [ABSENT] * (len(results) - len(known))
    scores = [None if one is ABSENT else ONE if text.says_all(one) else ZERO for one in values]
    return best_of(scores) if scores else ONE


def _read_mentions(value: JsonValue, _: Options, where: ValuePath, reader: MatcherReader) -> Expected:
    inside = (*where, "$mentions")
    if not is_sequence(value) or not value:
        reader.mistake(inside, f"found {shown(value)}, expected a list such as [create_refund.amount]")
        return None
    references: list[PassedArgument | FromResult] = []
    for index, one in enumerate(value):
        if is_mapping(one):
            found = _result_of(one, (*inside, index), reader, ("call", "path"))
            references += [found] if found is not None else []
        elif isinstance(one, str) and all(one.split(".")):
            tool, _dot, path = one.partition(".")
            references.append(PassedArgument(tool, tuple(path.split("."))) if path else PassedArgument(None, (tool,)))
        else:
            expected = "tool.argument, an argument of this call, or {call: create_order, path: /id}"
            reader.mistake((*inside, index), f"found {shown(one)}, expected {expected}")
    return Mentions(tuple(references))


# Ids and numbers that the agent makes up.

UUID = regex(r"(?:urn:uuid:)?\{?[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}\}?", re.IGNORECASE)
_TOKEN = regex(r"(?=[^0-9]*[0-9])[\w.-]{4,128}", re.ASCII)
_FORMS: Mapping[str, re.Pattern[str] | None] = {
    "uuid": UUID,
    "ulid": regex(r"[0-7][0-9A-HJKMNP-TV-Z]{25}", re.IGNORECASE),
    "timestamp": None,
    "counter": regex(r"[0-9]{1,18}"),
    "hex": regex(r"[0-9a-f]{6,128}", re.IGNORECASE),
    "token": _TOKEN,
}
_NEAR = 86_400
_LONGEST_ID = 200


class Generated(Struct, Matcher, frozen=True):
    """Matches a value that the agent makes up for the call: of the right kind, and new in the session.

    It is new if no earlier call of the tool that succeeded passed it as the same argument, and, of ids, if neither a
    call returned it nor the user said it, as far as that is recorded.
    """

    kind: str
    prefix: str

    @property
    def asks(self) -> Asks:
        """What was said and returned before: of ids, numbers may be there for another reason."""
        return Asks.CALLS if self.kind in ("timestamp", "counter") else Asks.CONTENT

    def score(self, actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None) -> Fraction | None:  # noqa: ARG002
        """Return 1 for a new value of the kind."""
        text = actual if isinstance(actual, str) else str(actual) if is_number(actual) else ""
        if not text.startswith(self.prefix):
            return ZERO
        rest = text[len(self.prefix) :]
        if not self._has_form(rest if self.prefix or isinstance(actual, str) else actual, earlier):
            return ZERO
        if earlier is None:
            return None
        if _was_passed(actual, earlier):
            return ZERO
        known = self.asks is Asks.CONTENT and all(map(earlier.knows, WORD_WITH_SIGNS.findall(text)))
        return ZERO if known else ONE

    def _has_form(self, value: JsonValue, earlier: EarlierCalls | None) -> bool:
        form = _FORMS[self.kind]
        if form is not None:
            text = str(value)
            return len(text) <= _LONGEST_ID and form.fullmatch(text) is not None
        instant = instant_of(value)
        made = earlier.time if earlier is not None else 0
        return instant is not None and (not made or abs(instant.utc - Fraction(made, 10**9)) <= _NEAR)


def _was_passed(value: JsonValue, earlier: EarlierCalls) -> bool:
    """Whether an earlier call of the tool that succeeded passed a value as the same argument."""
    own = [name for name, one in (earlier.call.arguments or {}).items() if one == value]
    for call in earlier.made(earlier.call.name):
        passed = call.arguments or {}
        if call.error is None and any(name in passed and passed[name] == value for name in own):
            return True
    return False


def _read_generated(value: JsonValue, options: Options, where: ValuePath, reader: MatcherReader) -> Expected:
    prefix = options.get("prefix", "")
    if not isinstance(prefix, str):
        reader.mistake((*where, "prefix"), f"found {shown(prefix)}, expected text")
        return None
    if isinstance(value, str) and value in _FORMS:
        return Generated(value, prefix)
    example = value if isinstance(value, str) else str(value) if is_number(value) else ""
    alike = None if get_close_matches(example, _FORMS, n=1) else _like(example.removeprefix(prefix))
    if alike is None:
        near = get_close_matches(example, _FORMS, n=1)
        advice = f"did you mean `{near[0]}`?" if near else f"expected one of {', '.join(_FORMS)}, or an example"
        reader.mistake((*where, "$generated"), f"found {shown(value)}: {advice}")
        return None
    kind, own_prefix = alike
    return Generated(kind, prefix + own_prefix)


def _like(example: str) -> tuple[str, str] | None:
    """Return the kind of an example, and the word in front of it."""
    front = re.match(r"[A-Za-z]{1,20}[-_:#]", example)
    for prefix in ("", front[0] if front else ""):
        rest = example[len(prefix) :]
        if len(rest) > 9 and rest.isdecimal() and instant_of(rest) is not None:
            return "timestamp", prefix
        kinds = (kind for kind, form in _FORMS.items() if form is not None and form.fullmatch(rest))
        found = next((kind for kind in kinds if prefix or kind != "token"), None)
        if found is not None:
            return found, prefix
    return ("token", "") if _TOKEN.fullmatch(example) else None


# Days by their distance from the call.

_UNITS = ("days", "weeks", "months", "years")
_EDGE = regex(
    r"(?P<edge>start|beginning|first day|end|last day) of (?:the )?(?P<which>this |current |next |last |previous )?"
    r"(?P<unit>week|month|quarter|year)"
)
_BACK = frozenset(("ago", "last", "past", "previous", "before", "earlier"))


class RelativeDate(Struct, Matcher, frozen=True):
    """Matches dates by their distance from the day of the call, in any common way to write a date.

    The day is that of the call's own clock: in the time zone of the value, if it has one, else in `zone`.
    """

    days: int
    months: int
    words: str
    """In place of a distance: words that lead to a day, or to one of several."""
    time: Fraction | None
    """Seconds into the day that the value has to show; None: any."""
    time_zone: int | None
    """The zone of that time: a value in another one shows its own time there; None: the value's own."""
    tolerance: Fraction
    """In seconds."""
    zone: int

    @property
    def asks(self) -> Asks:
        """When the call was made."""
        return Asks.CALLS

    def score(self, actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None) -> Fraction | None:  # noqa: ARG002
        """Return 1 for a date of the right distance; none if it is not known when the call was made."""
        found = list(dates_in(actual, self.zone)) if actual is not ABSENT else []
        if self.time_zone is not None:
            found = [_in_zone(*one, self.time_zone) for one in found]
        if self.time is not None:
            found = [one for one in found if one[1] == self.time]
        if not found:
            return ZERO
        if earlier is None or not earlier.time:
            return None
        try:
            right = any(self._leads(day, _day_of(earlier.time, zone)) for day, _, zone in found)
        except (OverflowError, ValueError):  # so far away that no calendar has it
            return ZERO
        return ONE if right else ZERO

    def _leads(self, wanted: date, base: date) -> bool:
        slack = int(self.tolerance // 86_400)
        near = [wanted + timedelta(off) for off in range(-slack, slack + 1)]
        if not self.words:
            return moved(base, self.months, self.days) in near
        if edge := _EDGE.fullmatch(self.words):
            return _edge_of(base, edge) in near
        words = self.words.split()
        farthest = timedelta(0 if not _BACK.isdisjoint(words) else 14 if "next" in words else 7)
        return any(
            one.lead(base, day)
            and (one.unit == "day" or (day <= base if not farthest else day >= base))
            and (one.unit != "weekday" or day - base <= farthest)
            for one in _relative_days(self.words)
            for day in near
        )


def _in_zone(day: date, seconds: Fraction | None, zone: int, wanted: int) -> tuple[date, Fraction | None, int]:
    """Return the day and the time that clocks of another zone show."""
    if seconds is None:
        return day, None, zone
    days, inside = divmod(seconds + wanted - zone, 86_400)
    return day + timedelta(int(days)), inside, wanted


def _day_of(nanoseconds: int, zone: int) -> date:
    return (datetime.fromtimestamp(nanoseconds // 10**9, UTC) + timedelta(seconds=zone)).date()


def dates_in(value: JsonValue, zone: int) -> Iterator[tuple[date, Fraction | None, int]]:
    """Yield each date that a value may mean, the seconds into that day if it says them, and the time zone."""
    instant = instant_of(value)
    if instant is not None:
        of_clock = not isinstance(value, str) or value.strip().isdecimal()
        clock = instant.clock + (zone if of_clock else 0)
        days, seconds = divmod(clock, 86_400)
        says_time = of_clock or ":" in str(value) or "T" in str(value)
        if abs(days) < 700_000:
            own = zone if of_clock or instant.offset is None else instant.offset
            yield date(1970, 1, 1) + timedelta(int(days)), Fraction(seconds) if says_time else None, own
    elif isinstance(value, str) and len(value) <= 1_000:
        text = normalised(value)
        for day in days_of(text, letters_in(words_of(text))):
            whole = day.whole()
            if whole is not None:
                yield whole, None, zone


def _relative_days(words: str) -> list[RelativeDay]:
    """Return what words mean; `day after tomorrow` is not `tomorrow`."""
    found = list(relative_days_of(words, letters_in(words_of(words))))
    longest = max((len(one.words) for one in found), default=0)
    return [one for one in found if len(one.words) == longest]


def moved(base: date, months: int, days: int) -> date:
    """Return the day that is so many months and days away; a month that is too short ends on its last day."""
    year, month = divmod(base.year * 12 + base.month - 1 + months, 12)
    first = date(year, month + 1, 1)
    last = (first + timedelta(31)).replace(day=1) - timedelta(1)
    return first.replace(day=min(base.day, last.day)) + timedelta(days)


def _edge_of(base: date, edge: re.Match[str]) -> date:
    """Return the first or the last day of a week, month, quarter or year."""
    away = {"next ": 1, "last ": -1, "previous ": -1}.get(edge["which"] or "", 0)
    at_end = edge["edge"] in ("end", "last day")
    if edge["unit"] == "week":
        return base - timedelta(base.weekday()) + timedelta(7 * away + (6 if at_end else 0))
    months = {"month": 1, "quarter": 3, "year": 12}[edge["unit"]]
    first = base.replace(day=1)
    first = moved(first, away * months - (first.month - 1) % months, 0)
    return moved(first, months, -1) if at_end else first


_OF_DAYS = "words such as tomorrow or end of month, or a distance such as {days: -7}"
_ZONE_OF_TIME = regex(r"(?:Z|[+-]\d\d:?\d\d)$")


def _read_date(value: JsonValue, options: Options, where: ValuePath, reader: MatcherReader) -> Expected:
    inside = (*where, "$date")
    words, time, time_zone = "", None, None
    counts: dict[str, int] = dict.fromkeys(_UNITS, 0)
    if isinstance(value, str):
        words = normalised(value)
        if not (_EDGE.fullmatch(words) or _relative_days(words)):
            reader.mistake(inside, f"found {shown(value)}, expected {_OF_DAYS}; for a fixed date use $datetime")
    elif is_mapping(value) and value:
        counts, time, time_zone = _read_distance(value, inside, reader)
    else:
        reader.mistake(inside, f"found {shown(value)}, expected {_OF_DAYS}")
    zone = options.get("zone", "Z")
    offset = offset_of(zone) if isinstance(zone, str) else None
    if offset is None:
        reader.mistake((*where, "zone"), f'found {shown(zone)}, expected an offset from UTC such as "+02:00"')
    days, months = counts["days"] + 7 * counts["weeks"], counts["months"] + 12 * counts["years"]
    slack = read_tolerance(options, where, reader) or ZERO
    return RelativeDate(days, months, words, time, time_zone, slack, offset or 0)


def _read_distance(
    value: Mapping[str, JsonValue], inside: ValuePath, reader: MatcherReader
) -> tuple[dict[str, int], Fraction | None, int | None]:
    """Return how many of each unit a distance such as {days: -7} has, the second of the day it names, and its zone."""
    counts: dict[str, int] = dict.fromkeys(_UNITS, 0)
    time, zone = None, None
    for name, number in value.items():
        if name == "time":
            hit = _ZONE_OF_TIME.search(number) if isinstance(number, str) else None
            found = time_of_day(number[: hit.start()] if hit else number)
            zone = offset_of(hit[0]) if hit else None
            time = found.clock if found is not None else None
            if found is None:
                reader.mistake((*inside, name), f'found {shown(number)}, expected text such as "09:30" or "09:30Z"')
        elif name not in counts:
            reader.mistake((*inside, name), f"unknown field: expected {', '.join(_UNITS)} or time")
        elif not isinstance(number, int) or isinstance(number, bool) or abs(number) > 10_000:
            reader.mistake((*inside, name), f"found {shown(number)}, expected a whole number of at most 10,000")
        else:
            counts[name] = number
    return counts, time, zone


_REFERENCE: Mapping[str, object] = {
    "call": {"type": "string", "pattern": "\\S"},
    "path": {"type": "string", "pattern": "^(/|$)"},
}
_WHOLE = {"type": "integer", "minimum": -10_000, "maximum": 10_000}

KINDS = (
    MatcherKind(
        "$from_result",
        "what an earlier call returned: `call` is a tool or a call of this golden (turn.index), `path` a JSON Pointer "
        "with `*` for every element; `anywhere`: at any depth, or in a text",
        _read_from_result,
        {
            "type": "object",
            "properties": {**_REFERENCE, "anywhere": {"type": "boolean"}},
            "required": ["call"],
            "additionalProperties": False,
        },
    ),
    MatcherKind(
        "$mentions",
        "a text that says values of this run's own calls: arguments (`tool.argument`, or one of this call) and results",
        _read_mentions,
        {
            "type": "array",
            "minItems": 1,
            "items": {
                "anyOf": [
                    {"type": "string", "pattern": "\\S"},
                    {"type": "object", "properties": _REFERENCE, "required": ["call"], "additionalProperties": False},
                ]
            },
        },
    ),
    MatcherKind(
        "$generated",
        f"a new id or number of this kind, behind `prefix`: {', '.join(_FORMS)}, or like this example",
        _read_generated,
        {"type": ["string", "number"]},
        {"prefix": {"type": "string"}},
    ),
    MatcherKind(
        "$date",
        "a date by its distance from the day of the call: words such as tomorrow, or {days: -7}; at most `tolerance` "
        "away; `zone` is the offset of the agent's clock",
        _read_date,
        {
            "anyOf": [
                {"type": "string", "pattern": "\\S"},
                {
                    "type": "object",
                    "minProperties": 1,
                    "properties": {**dict.fromkeys(_UNITS, _WHOLE), "time": {"type": "string"}},
                    "additionalProperties": False,
                },
            ]
        },
        {"tolerance": DURATION_SCHEMA, "zone": {"type": "string"}},
    ),
)
