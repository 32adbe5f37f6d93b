"""The matchers that may explain an argument's values, from strict to loose.

Each form makes the value that a golden should have for one call from the values that several runs passed there; whether
it accepts another run's value is asked of the matcher itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from goldspan.collector_processor.golden_tools.inference.task_runs import SeenCall, ValueOrigin, bag_of, has_parts
from goldspan.scoring.comparison import ValueRule, canonical, comparison, equal, instant_of
from goldspan.scoring.errors import MatcherError
from goldspan.scoring.grounding.dates import is_date
from goldspan.scoring.json_values import is_number, is_sequence
from goldspan.scoring.matchers import escape_literal, score_of
from goldspan.scoring.matchers.kinds.prose import WrittenText, bare, facts_of
from goldspan.scoring.matchers.kinds.session_values import dates_in
from goldspan.scoring.matchers.matcher import has_dollar_keys
from goldspan.scoring.matchers.reading import matches, read_arguments
from goldspan.scoring.sessions import JsonValue

ABSENT: JsonValue = {"$absent": True}
_EXACT = ValueRule("exact", comparison("exact"))


@dataclass(frozen=True, slots=True)
class PooledValues:
    """What is known of an argument over all tasks."""

    choices: Sequence[JsonValue] = ()
    """A small closed set of values, if it varies among them."""
    mentions: Sequence[JsonValue] = ()
    """Values of the run, as `$mentions` names them, that prose repeats in nearly every run."""
    common_keys: frozenset[str] = frozenset()
    """Of lists of objects: the keys that all objects have, if not all have the same."""
    together: Sequence[str] = ()
    """Other arguments whose elements belong to the elements of this one."""
    spread: float = 0
    """Of numbers that hardly differ in a task: by how much they do, as a power of ten."""
    in_list: bool = False
    """A value sometimes stands alone in a list."""
    edge: str = ""
    """Of dates that all are the first or last day of a month, quarter or year: which one, as `$date` names it."""
    after_a_week: bool = False
    """Some dates are more than a week after the day of the call."""


class SeenValues(NamedTuple):
    """What runs passed in one place of a task."""

    values: Sequence[JsonValue]
    calls: Sequence[SeenCall]
    """The calls that passed them."""
    pool: PooledValues = PooledValues()


Fit = Callable[[SeenValues], JsonValue]
"""Returns what a golden expects in one place. None: the form does not fit."""


class Form(NamedTuple):
    """A kind of matcher."""

    name: str
    fit: Fit
    words: str
    """What it says of an argument, for comments and questions."""


def accepts(expected: JsonValue, value: JsonValue, call: SeenCall) -> bool:
    """Whether a golden's value accepts what a call passed."""
    try:
        read = read_arguments(call.name, {"value": expected})["value"]
    except MatcherError:
        return False
    return score_of(read, value, _EXACT, call.earlier) == 1


def any_of(values: Sequence[JsonValue], written: Callable[[JsonValue], JsonValue] = escape_literal) -> JsonValue:
    """Return an expected value that accepts each of these, as `written` writes it."""
    seen = distinct(map(written, values))
    return seen[0] if len(seen) == 1 else {"$any_of": seen}


def distinct(values: Iterable[JsonValue]) -> list[JsonValue]:
    """Return the values that differ as JSON, in the order they came."""
    seen: list[JsonValue] = []
    for value in values:
        if not any(equal(one, value) for one in seen):
            seen.append(value)
    return seen


def _exact(seen: SeenValues) -> JsonValue:
    return any_of(seen.values)


def _spelling(seen: SeenValues) -> JsonValue:
    """Take numbers however they are written, and text whatever its case, white space and punctuation."""
    if not all(isinstance(value, str) or is_number(value) for value in seen.values):
        return None
    kept = {bare(value): value for value in reversed(seen.values)}
    return any_of(list(reversed(kept.values())), lambda one: {"$alphanumeric": one})


def _same_instant(seen: SeenValues) -> JsonValue:
    """Take instants and times of the day however they are written."""
    kept: list[JsonValue] = []
    for value in seen.values:
        if not isinstance(value, str) or not matches({"$datetime": value}, value):
            return None
        if not any(matches({"$datetime": one}, value) for one in kept):
            kept.append(value)
    return any_of(kept, lambda one: {"$datetime": one})


_FEW_WORDS_OF_AMOUNT = 2


def _amount(seen: SeenValues) -> JsonValue:
    """Take a number with or without its unit, however it is written."""
    texts = [WrittenText(str(value)) for value in seen.values if isinstance(value, str) or is_number(value)]
    if len(texts) < len(seen.values) or any(len(one.text.split()) > _FEW_WORDS_OF_AMOUNT for one in texts):
        return None
    numbers = {tuple(one.numbers) for one in texts}
    if len(numbers) != 1 or len(next(iter(numbers))) != 1:
        return None
    words = frozenset[str].intersection(*(frozenset(filter(str.isalpha, one.words)) for one in texts))
    return {"$key_facts": [*next(iter(numbers)), *sorted(words)]}


def _in_list(seen: SeenValues) -> JsonValue:
    """Take a value for the list that has it alone."""
    alone = [value[0] if is_sequence(value) and len(value) == 1 else value for value in seen.values]
    if not seen.pool.in_list or any(map(has_parts, alone)):
        return None
    return any_of([one for value in alone for one in (value, [value])])


def _near(seen: SeenValues) -> JsonValue:
    """Take numbers that differ as little as those of any task do."""
    if not seen.pool.spread or not all(map(is_number, seen.values)):
        return None
    kept: list[JsonValue] = []
    for value in sorted(seen.values):
        if not kept or value - kept[-1] > seen.pool.spread:
            kept.append(value)
    return any_of(kept, lambda one: {"$approx": one, "tolerance": seen.pool.spread})


def _unordered(seen: SeenValues) -> JsonValue:
    if not all(is_sequence(value) for value in seen.values):
        return None
    kept = {bag_of(value): value for value in reversed(seen.values)}
    return any_of(list(kept.values()), lambda one: {"$unordered": escape_literal(one)})


def _common_keys(seen: SeenValues) -> JsonValue:
    """Compare lists of objects by the keys that all objects have that were ever passed."""
    if not seen.pool.common_keys:
        return None
    cut = [
        [{key: item[key] for key in item if key in seen.pool.common_keys} for item in value] for value in seen.values
    ]
    kept = {bag_of(value): value for value in reversed(cut)}
    return any_of(list(kept.values()), lambda one: {"$unordered": escape_literal(one), "common_keys": True})


def _together(seen: SeenValues) -> JsonValue:
    """Compare lists whose elements belong to those of other lists of the call."""
    if not seen.pool.together:
        return None
    kept: dict[object, JsonValue] = {}
    for value, call in zip(seen.values, seen.calls, strict=True):
        others = {name: call.args.get((name,)) for name in seen.pool.together}
        if not all(is_sequence(one) and len(one) == len(value) for one in (value, *others.values())):
            return None
        rows = frozenset(canonical(list(row)) for row in zip(value, *others.values(), strict=True))
        kept.setdefault(rows, {"$unordered": escape_literal(value), "together": escape_literal(others)})
    return any_of(list(kept.values()), lambda one: one)


def _from_result(seen: SeenValues) -> JsonValue:
    found = [call.origins(value) for value, call in zip(seen.values, seen.calls, strict=True)]
    common = set[ValueOrigin].intersection(*found)
    if not common:
        return None
    tool, pointer = min(common, key=lambda one: (one.pointer.count("/"), len(one.pointer), one))
    return {"$from_result": {"call": tool, **({"path": pointer} if pointer else {})}}


Distance = tuple[int, str | None]
"""So many days from the day of a call, and a time of the day, if one is said."""


def distances(value: JsonValue, call: SeenCall) -> Sequence[Distance]:
    """Return how far a date is from the day of its call: in several ways where day and month may be exchanged."""
    if call.day is None or not isinstance(value, str) or value.strip().isdecimal() or not is_date(value):
        return ()
    found: list[Distance] = []
    for day, seconds, _ in dates_in(value, 0):
        minutes, second = divmod(int(seconds or 0), 60)
        time = f"{minutes // 60:02}:{minutes % 60:02}" + (f":{second:02}" if second else "")
        found.append(((day - call.day).days, time if seconds is not None else None))
    return found


def _relative_date(seen: SeenValues) -> JsonValue:
    found = list(map(distances, seen.values, seen.calls))
    if not all(found):
        return None
    common = [one for one in found[0] if all(one in other for other in found)]
    dates = common[:1] or [one for ways in found for one in ways]
    return any_of([_written(*one) for one in dates], lambda one: {"$date": one})


def _written(days: int, time: str | None) -> JsonValue:
    return {"days": days, **({"time": time} if time else {})}


def _relative_instant(seen: SeenValues) -> JsonValue:
    """Take days and times in UTC, where values tell their zone."""
    instants = [instant_of(value) if isinstance(value, str) and ":" in value else None for value in seen.values]
    dates: list[JsonValue] = []
    for instant, call in zip(instants, seen.calls, strict=True):
        if instant is None or instant.offset is None or call.day is None:
            return None
        at = datetime.fromtimestamp(int(instant.utc), UTC)
        dates.append({"days": (at.date() - call.day).days, "time": f"{at:%H:%M}Z"})
    return any_of(dates, lambda one: {"$date": one})


def _relative_day(seen: SeenValues) -> JsonValue:
    """Take days, at any time."""
    found = [{days for days, _ in distances(*one)} for one in zip(seen.values, seen.calls, strict=True)]
    common = sorted(set[int].intersection(*found), key=abs)
    return {"$date": {"days": common[0]}} if common else None


_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
EDGES = tuple(
    f"{edge} of {which}{unit}"
    for unit in ("month", "quarter", "year")
    for which in ("", "next ", "last ")
    for edge in ("start", "end")
)


def _calendar_date(seen: SeenValues) -> JsonValue:
    """Take the next day of a weekday, or the edge of a month, quarter or year."""
    weekdays = (f"next {day}" if seen.pool.after_a_week else day for day in _WEEKDAYS)
    for words in (seen.pool.edge,) if seen.pool.edge else weekdays:
        expected = {"$date": words}
        if all(accepts(expected, value, call) for value, call in zip(seen.values, seen.calls, strict=True)):
            return expected
    return None


def _choice(seen: SeenValues) -> JsonValue:
    return any_of(sorted(seen.pool.choices, key=str)) if seen.pool.choices else None


_KINDS_OF_IDS = ("uuid", "ulid", "hex")
_FEW_WORDS = 4
_PREFIX = re.compile(r"[A-Za-z]{1,20}[-_:#]")
_SURELY_GENERATED = (
    re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE),
    re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}"),
    re.compile(r"(?=.*\d)(?:[0-9a-f]{16,128}|[0-9A-F]{16,128})"),
)


def is_surely_generated(text: str) -> bool:
    """Whether a text looks generated: a UUID, a ULID, or many hexadecimal digits; any word may stand before it."""
    rest = _PREFIX.sub("", text, count=1)
    return any(pattern.fullmatch(text) or pattern.fullmatch(rest) for pattern in _SURELY_GENERATED)


def of_values_alone(values: Sequence[JsonValue]) -> JsonValue:
    """Return an expected value that accepts these and their like, where nothing is known of the calls.

    A matcher if one explains the difference, else `$any_of`. The values are as goldens write them.
    """
    if len(values) > 1 and not any(map(has_dollar_keys, values)):
        for kind, form in zip(_KINDS_OF_IDS, _SURELY_GENERATED, strict=True):
            if all(isinstance(value, str) and form.fullmatch(value) for value in values):
                return {"$generated": kind}
        seen = SeenValues(values, ())
        prose = all(isinstance(value, str) and len(value.split()) > _FEW_WORDS for value in values)
        for fit in (_spelling, _same_instant, _amount, _unordered, *((_key_facts,) if prose else ())):
            expected = fit(seen)
            if expected is not None and "$any_of" not in expected:
                return expected
    return any_of(values, lambda one: one)


def _generated(seen: SeenValues) -> JsonValue:
    if not all(isinstance(value, str) or is_number(value) for value in seen.values):
        return None
    if any(time is None for one in zip(seen.values, seen.calls, strict=True) for _, time in distances(*one)):
        return None
    prefixes = {hit[0] if (hit := _PREFIX.match(str(value))) else "" for value in seen.values}
    for prefix in dict.fromkeys(("", *(prefixes if len(prefixes) == 1 else ()))):
        times = ("timestamp",) if all(call.day for call in seen.calls) else ()
        counter = ("counter",) if all(map(is_number, seen.values)) else ()
        for kind in (*_KINDS_OF_IDS[:2], *times, *counter, *_KINDS_OF_IDS[2:], "token"):
            expected = {"$generated": kind, **({"prefix": prefix} if prefix else {})}
            if all(accepts(expected, value, call) for value, call in zip(seen.values, seen.calls, strict=True)):
                return expected
    return None


def _mentions(seen: SeenValues) -> JsonValue:
    return {"$mentions": list(seen.pool.mentions)} if seen.pool.mentions else None


def _key_facts(seen: SeenValues) -> JsonValue:
    """Compare prose by the ids, dates and numbers that all runs say."""
    texts = [WrittenText(value) for value in seen.values if isinstance(value, str) and value.strip()]
    if len(texts) < len(seen.values):
        return None
    shared = [fact for fact in facts_of(seen.values[0]) if all(text.says(fact) for text in texts)]
    return {"$key_facts": shared} if shared else None


def _type(seen: SeenValues) -> JsonValue:
    kinds = {_type_of(value) for value in seen.values}
    return {"$type": kinds.pop()} if len(kinds) == 1 else {"$present": True}


def _type_of(value: JsonValue) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if is_number(value):
        return "number"
    return "string" if isinstance(value, str) else "array" if is_sequence(value) else "object"


def _present(_: SeenValues) -> JsonValue:
    return {"$present": True}


def _ignore(_: SeenValues) -> JsonValue:
    return {"$ignore": True}


FORMS = (
    Form("exact", _exact, "is the same"),
    Form("spelling", _spelling, "differs in case, punctuation or notation alone"),
    Form("same_instant", _same_instant, "is the same instant"),
    Form("amount", _amount, "is the same number, however it is written"),
    Form("near", _near, "is nearly the same"),
    Form("in_list", _in_list, "stands for itself or alone in a list"),
    Form("unordered", _unordered, "has the same elements in any order"),
    Form("together", _together, "has rows with another list, in any order"),
    Form("common_keys", _common_keys, "has objects with other optional keys"),
    Form("from_result", _from_result, "equals an earlier result"),
    Form("relative_date", _relative_date, "is always so many days from the day of the call"),
    Form("relative_instant", _relative_instant, "is always so many days from the day of the call, in any time zone"),
    Form("calendar_date", _calendar_date, "is always such a day, seen from the day of the call"),
    Form("relative_day", _relative_day, "is always so many days from the day of the call, at any time"),
    Form("choice", _choice, "is one of few values"),
    Form("generated", _generated, "is generated anew"),
    Form("mentions", _mentions, "is prose that repeats values of the run"),
    Form("key_facts", _key_facts, "is prose with the same facts"),
    Form("type", _type, "varies"),
)
PRESENT = Form("present", _present, "is not written")
IGNORED = Form("ignored", _ignore, "may have any value")
BY_NAME = {form.name: form for form in (*FORMS, PRESENT, IGNORED)}
