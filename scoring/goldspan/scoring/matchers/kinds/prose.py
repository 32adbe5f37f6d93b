"""Matchers of texts that a model writes in its own words: `$key_facts`, `$alphanumeric`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property

from msgspec import Struct

from goldspan.scoring.comparison import ONE, ZERO, ValueRule, equal, number_of
from goldspan.scoring.grounding.dates import Day, days_of, times_of
from goldspan.scoring.grounding.quantities import as_number, quantities_of, same
from goldspan.scoring.grounding.words import letters_in, normalised, words_of
from goldspan.scoring.json_values import is_mapping, is_number, is_sequence, shown
from goldspan.scoring.matchers import matcher
from goldspan.scoring.patterns import regex
from goldspan.scoring.sessions import WORD_WITH_SIGNS, EarlierCalls, JsonValue

_LONGEST_TEXT = 100_000
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(r"(\d\d?):(\d\d)(?::00)?")
_MASKED = re.compile(r"(?=.*[^\W\d_])(?=.*\d)[\w.@+-]{4,64}")  # an identifier: letters and digits


def text_of(value: JsonValue) -> str | None:
    """Return a text that a model wrote: a text, or the texts of a list; none for other values."""
    if isinstance(value, str):
        return value
    return "\n".join(value) if is_sequence(value) and all(isinstance(one, str) for one in value) else None


class WrittenText:
    """A text in a model's own words, and what it says; of a longer one, its first 100,000 characters."""

    def __init__(self, text: str) -> None:
        self.text = normalised(text[:_LONGEST_TEXT])

    @cached_property
    def words(self) -> list[str]:
        """Its words without punctuation."""
        return words_of(self.text)

    @cached_property
    def _spaced(self) -> str:
        return f" {' '.join(self.words)} "

    @cached_property
    def tokens(self) -> list[str]:
        """Its words with the signs inside them: ids, numbers, addresses."""
        return WORD_WITH_SIGNS.findall(self.text)

    @cached_property
    def _squashed(self) -> frozenset[str]:
        return frozenset(map(squashed, self.tokens))

    @cached_property
    def numbers(self) -> list[float]:
        """Its numbers, in digits or words, without those that words only imply."""
        found = quantities_of(self.text, letters_in(self.words))
        return [one.value for one in found if one.form != "implied"]

    @cached_property
    def days(self) -> list[Day]:
        """Its dates; those without a year have the year 0."""
        return list(days_of(self.text, letters_in(self.words)))

    @cached_property
    def times(self) -> frozenset[tuple[int, int]]:
        """Its times of the day, as hour and minute; both halves of the day where it does not say which."""
        return frozenset(times_of(self.text, letters_in(self.words)))

    def says(self, fact: JsonValue) -> bool:
        """Whether it says a number, a date, an id or words, however it is written."""
        if isinstance(fact, bool) or fact is None:
            return False
        number = float(fact) if is_number(fact) else as_number(fact) if isinstance(fact, str) else None
        if number is not None and any(same(number, one) for one in self.numbers):
            return True
        text = normalised(str(fact))
        if _DATE.match(text) and (day := next(days_of(text[:10], frozenset()), None)) is not None:
            return any((one.month, one.day) == (day.month, day.day) and one.year in (0, day.year) for one in self.days)
        if hit := _TIME.fullmatch(text):
            return (int(hit[1]), int(hit[2])) in self.times
        words = words_of(text)
        return bool(words) and (f" {' '.join(words)} " in self._spaced or squashed(text) in self._squashed)

    def says_all(self, value: JsonValue) -> bool:
        """Whether it says all scalars of a value; null and booleans need not be said."""
        if is_mapping(value) or is_sequence(value):
            return all(map(self.says_all, value.values() if is_mapping(value) else value))
        return value is None or isinstance(value, bool) or value == "" or self.says(value)

    def pieces(self) -> Iterator[JsonValue]:
        """Yield its tokens, numbers and dates, each for itself."""
        yield from self.tokens
        yield from self.numbers
        yield from (str(whole) for day in self.days if (whole := day.whole()) is not None)


_BETWEEN = regex(r"[\W_]+")


def squashed(text: str) -> str:
    """Return the letters and digits of a text alone, without case."""
    return _BETWEEN.sub("", text).casefold()


def _form(token: str) -> str:
    """Return the form of an id: its letters, and a digit's sign for each digit."""
    return re.sub(r"\d", "9", token)


# The facts of a text.


class KeyFacts(Struct, matcher.Matcher, frozen=True):
    """Matches a text that says all facts, and makes up no id that looks like one of them.

    An id is made up if it is none of the facts, and is not recorded in the session before the call.
    """

    facts: tuple[matcher.Expected, ...]
    """Numbers, dates, ids and words; a matcher wants a word, a number or a date of the text that it matches."""

    @property
    def asks(self) -> matcher.Asks:
        """What was said and returned, if there are ids that may be made up."""
        return matcher.Asks.CONTENT if any(map(_is_id, self.facts)) else matcher.asked_by(*self.facts)

    def score(self, actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None) -> Fraction | None:
        """Return 1 for a text with all facts; a number is the text that says it."""
        text = str(actual) if is_number(actual) else text_of(actual)
        if text is None or not text.strip():
            return ZERO
        written, inside = WrittenText(text), rule.by("exact")
        scores: list[Fraction | None] = []
        for fact in self.facts:
            if matcher.holds_matchers(fact):
                scores.append(matcher.best_of(matcher.score_of(fact, one, inside, earlier) for one in written.pieces()))
            else:
                scores.append(ONE if written.says(fact) else ZERO)
        if ZERO in scores:
            return ZERO
        strange = self._other_ids(written)
        if strange and earlier is None:
            return None
        if earlier is not None and not all(map(earlier.knows, strange)):
            return ZERO
        return None if None in scores else ONE

    def _other_ids(self, written: WrittenText) -> list[str]:
        """Return what looks like the id of a fact in a text, and is none."""
        ids = {squashed(str(fact)) for fact in self.facts if _is_id(fact)}
        forms = {_form(one) for one in ids}
        return [one for one in written.tokens if _form(squashed(one)) in forms and squashed(one) not in ids]


def _is_id(fact: matcher.Expected) -> bool:
    return isinstance(fact, str) and _MASKED.fullmatch(fact.strip("#").casefold()) is not None and not _DATE.match(fact)


def facts_of(text: str) -> tuple[str | float, ...]:
    """Return the facts of a text that can be told without knowing what it is about: ids, addresses, dates, numbers."""
    written = WrittenText(text)
    dates = [str(whole) for day in written.days if (whole := day.whole()) is not None]
    ids = [one for one in written.tokens if _MASKED.fullmatch(one) and not _DATE.match(one) and not _is_measure(one)]
    rest = written.text
    for one in (*ids, *(token for token in written.tokens if _DATE.match(token))):
        rest = rest.replace(one, " ")
    numbers = [] if dates and not _DATE.search(written.text) else WrittenText(rest).numbers
    return tuple(dict.fromkeys([*ids, *dates, *numbers]))


def _is_measure(token: str) -> bool:
    """Whether a word is a number with a unit or an ending: `5th`, `20eur`, `3pm`."""
    return re.fullmatch(r"\d+(?:\.\d+)?[^\W\d_]{1,4}", token) is not None


def _read_key_facts(
    value: JsonValue, _: matcher.Options, where: matcher.ValuePath, reader: matcher.MatcherReader
) -> matcher.Expected:
    inside = (*where, "$key_facts")
    if isinstance(value, str) and value.strip():
        return KeyFacts(facts_of(value))
    if not is_sequence(value) or not value:
        reader.mistake(inside, f"found {shown(value)}, expected a text, or a list of what a text must say")
        return None
    facts = tuple(reader.read(one, (*inside, index)) for index, one in enumerate(value))
    for index, fact in enumerate(facts):
        if not (
            matcher.holds_matchers(fact) or is_number(fact) or (isinstance(fact, str) and words_of(normalised(fact)))
        ):
            reader.mistake((*inside, index), f"found {shown(fact)}, expected a number, or text with letters or digits")
    return KeyFacts(facts)


# Text without punctuation.


class Alphanumeric(Struct, matcher.Matcher, frozen=True):
    """Matches values whose texts have the same letters and digits, whatever their case, spaces and punctuation.

    Numbers equal texts that hold them.
    """

    value: JsonValue

    def score(self, actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None) -> Fraction | None:  # noqa: ARG002
        """Return 1 for such a value."""
        try:
            return ONE if equal(bare(self.value), bare(actual)) else ZERO
        except RecursionError:  # nested too deep
            return ZERO


def bare(value: JsonValue) -> JsonValue:
    """Return a value with its texts as letters and digits alone, and numbers as the text that says them."""
    if is_sequence(value):
        return list(map(bare, value))
    if is_mapping(value):
        return {name: bare(item) for name, item in value.items()}
    number = number_of(value)
    if number is not None:
        return str(number)
    return squashed(normalised(value)) or value if isinstance(value, str) else value


def _read_alphanumeric(
    value: JsonValue, _: matcher.Options, where: matcher.ValuePath, reader: matcher.MatcherReader
) -> matcher.Expected:
    if matcher.holds_matchers(reader.read(value, (*where, "$alphanumeric"))):
        reader.mistake((*where, "$alphanumeric"), "found a matcher inside, expected plain values")
    return Alphanumeric(value)


KINDS = (
    matcher.MatcherKind(
        "$key_facts",
        "a text that says these ids, numbers, dates and words, however it puts them, and makes up no other such id",
        _read_key_facts,
        {"anyOf": [{"type": "string", "pattern": "\\S"}, {"type": "array", "minItems": 1, "items": matcher.VALUE}]},
    ),
    matcher.MatcherKind(
        "$alphanumeric",
        "the same letters and digits, whatever case, spaces and punctuation; a number and a text that holds it are one",
        _read_alphanumeric,
        matcher.VALUE,
    ),
)
