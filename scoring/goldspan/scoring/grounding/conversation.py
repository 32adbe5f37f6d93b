"""What was said before a call, indexed once a session, so that each value is looked up and no text is read twice."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence, Set
from contextlib import suppress
from itertools import accumulate, islice, pairwise, takewhile
from math import isfinite
from operator import itemgetter
from typing import Generic, TypeVar

from msgspec import Struct

from goldspan.scoring.grounding import dates
from goldspan.scoring.grounding.languages import has_numbers, in_english, is_foreign, languages_of
from goldspan.scoring.grounding.quantities import (
    CENT,
    FACTORS,
    OPERATORS,
    Computed,
    Quantity,
    bounds_of,
    quantities_of,
    same,
    steps_of,
)
from goldspan.scoring.grounding.words import TENS, UNITS, letters_in, normalised, stem, without_marks, words_of
from goldspan.scoring.json_values import is_mapping, is_sequence, loads

_MOST_INSTRUCTIONS = 20  # so many places of a word are looked at for one that is no instruction
_PERCENT = ("%", "percent", "pct")
_OPERANDS = 20  # so many of the latest numbers are computed with
_TRIED = 500  # so many places of the rarest word of a phrase are tried


_LEAST_JOINED, _MOST_JOINED = 4, 40  # letters of an identifier that may have been told in pieces
_MOST_SPOKEN = 200
_LAST_SAID = 3  # by so many of the latest messages of a person their language is known
_SHIFTS = frozenset((
    "raise", "reduce", "lower", "higher", "warmer", "cooler", "hotter", "colder", "increase", "decrease", "louder",
    "quieter", "brighter", "dimmer",
))  # fmt: skip
_CHANGES = ("by", "off", "raise", "reduce", "increase", "decrease", "up", "down", "discount")
_REPEATED = {"double": 2, "triple": 3, "treble": 3}
_SPOKEN_DIGITS = {word: str(number) for word, number in UNITS.items()} | {"oh": "0", "o": "0"}
_SPOKEN_LETTERS = {
    word: word[0]
    for word in (
        "alpha", "alfa", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliet", "juliett",
        "kilo", "lima", "mike", "november", "oscar", "papa", "quebec", "romeo", "sierra", "tango", "uniform", "victor",
        "whiskey", "xray", "yankee", "zulu",
        # Names by which letters are spelled in German, Italian and French.
        "anton", "berta", "cäsar", "dora", "emil", "friedrich", "gustav", "heinrich", "ida", "julius", "kaufmann",
        "konrad", "ludwig", "martha", "nordpol", "otto", "paula", "quelle", "richard", "samuel", "siegfried", "theodor",
        "ulrich", "viktor", "wilhelm", "zacharias", "zeppelin", "ancona", "bologna", "como", "domodossola", "empoli",
        "firenze", "genova", "imola", "jolly", "livorno", "milano", "napoli", "otranto", "palermo", "quarto", "roma",
        "savona", "torino", "udine", "venezia", "washington", "york", "zara", "anatole", "berthe", "célestin", "désiré",
        "eugène", "françois", "gaston", "henri", "irma", "joseph", "kléber", "louis", "marcel", "nicolas", "pierre",
        "quintal", "raoul", "suzanne", "thérèse", "ursule", "william", "xavier", "yvonne", "zoé",
    )
}  # fmt: skip
_LETTERS_BY_NAME = {
    word: letters.partition(" ")[0]
    for letters in (
        "b bi bé bê", "c ci ce cé cê", "d di de dé dê", "f effe ef efe", "g gi ge gé gê", "h acca ha hache agá",
        "j jot jota ji", "k ka kappa cá", "l elle el ele", "m emme em eme", "n enne en ene", "p pi pe pé pê",
        "q qu ku cu quê", "r erre er", "s esse es ese", "t ti te té tê", "v vu vi vau uve vé vê", "w we",
        "x ics ix ixe equis xis", "y ypsilon", "z zeta zett zède zê",
    )
    for word in letters.split()[1:]
}  # fmt: skip
_AS_IN = frozenset(("wie", "comme", "como", "come"))  # before a word that begins with the letter: `B wie Berta`
_SPOKEN_ZEROS = {"hundred": "00", "100": "00", "thousand": "000", "1000": "000"}  # behind a digit
_TOLD = _SPOKEN_DIGITS | _SPOKEN_LETTERS | _LETTERS_BY_NAME  # how people tell a number digit by digit
_TOLD_AS = {sign: [word for word, one in _TOLD.items() if one == sign] for sign in _TOLD.values()}
_BETWEEN_PIECES = frozenset((
    "dash", "hyphen", "minus", "slash", "and", "then", "und", "dann", "et", "y", "luego", "e", "poi", "depois",
    "strich", "bindestrich", "tiret", "guion", "guión", "traço", "hífen", "trattino", "streepje", "barra",
    "schrägstrich", "の", "杠", "横杠",
))  # fmt: skip
"""Words between the pieces of what is told in some."""


class Passage(Struct, frozen=True, gc=False):
    """One thing that was said or returned."""

    kind: str
    """`user`, `assistant`, `system` or `tool_result`."""
    text: str
    where: str = ""
    """Names it to a person: `user message 2`, or the call whose result it is."""


def number_key(value: float) -> float:
    """Return what numbers have in common that are one: whole numbers exactly, others up to nine digits."""
    return float(value) if not isfinite(value) or value == int(value) else float(f"{value:.9g}")


_FoundT = TypeVar("_FoundT", bound=Hashable)


class _Places(Generic[_FoundT]):
    """Things that were found in passages, each with the first passage; they are added in the order of passages."""

    def __init__(self) -> None:
        self._first: dict[_FoundT, int] = {}
        self._order: list[tuple[_FoundT, int]] = []

    def add(self, one: _FoundT, passage: int) -> None:
        if one not in self._first:
            self._first[one] = passage
            self._order.append((one, passage))

    def go_back(self, passages: int) -> None:
        """Remove what was first found after the first so many passages."""
        while self._order and self._order[-1][1] >= passages:
            del self._first[self._order.pop()[0]]

    def first(self, one: _FoundT, passages: int) -> int | None:
        """Return the first passage of a thing, if it is among the first so many."""
        found = self._first.get(one)
        return found if found is not None and found < passages else None

    def latest(self, passages: int, limit: int) -> list[tuple[_FoundT, int]]:
        """Return the last things of the first so many passages, the latest first."""
        stop = bisect_left(self._order, passages, key=_place)
        return self._order[max(0, stop - limit) : stop][::-1]


_place = itemgetter(1)


class Conversation:
    """An index of passages in order. Passages are only added; every look-up says how many of them count.

    Time and memory are linear in text. Numbers and dates are read at the first value that needs them.
    """

    def __init__(self, passages: Sequence[Passage] = ()) -> None:
        self.passages: list[Passage] = []
        self.texts: list[str] = []
        self._words: list[str] = []
        self._initials = ""
        self._starts: list[int] = []
        self._positions: defaultdict[str, list[int]] = defaultdict(list)
        self._stems: dict[str, int] = {}
        self._stemmed = 0
        self._joined = ""
        self._joined_starts: list[int] = []
        self._sorted: list[str] = []
        self._sorted_backwards: list[str] = []
        self._numbers: dict[float, tuple[int, Quantity]] = {}
        self._stated: _Places[float] = _Places()
        self._with_unit: list[tuple[Quantity, int]] = []
        self._spoken_numbers: list[tuple[float, int]] = []
        self._fractions: list[tuple[float, int]] = []
        self._said_last: tuple[int, Set[float]] = -1, frozenset()
        self._bounds: _Places[int] = _Places()
        self._steps: _Places[float] = _Places()
        self._numbers_read = 0
        self._days: _Places[dates.Day] = _Places()
        self._times: _Places[tuple[int, int]] = _Places()
        self._relative: _Places[dates.RelativeDay] = _Places()
        self._ranges: _Places[str] = _Places()
        self._parts: _Places[dates.PartOfMonth] = _Places()
        self._dates_read = 0
        self._computed: tuple[int, list[float], bool, Computed | None] | None = None
        self._letters: dict[int, set[str]] = {}
        """Runs of letters of passages of which numbers or dates are not read yet."""
        self._translated = 0
        self._foreign: dict[int, bool] = {}
        self._spoken: list[Sequence[str]] = []  # the languages that people spoke last when each passage was read
        self._english: Conversation | None = None
        for passage in passages:
            self.add(passage)

    def __len__(self) -> int:
        return len(self.passages)

    def add(self, passage: Passage) -> None:
        """Add a passage after all others."""
        escaped = "\\" in passage.text and passage.kind == "tool_result"
        text = normalised(" ".join(texts_in(passage.text)) if escaped else passage.text)
        self.add_read(passage, text, words_of(text))

    def add_read(self, passage: Passage, text: str, words: Sequence[str]) -> None:
        """Add a passage after all others of which the normalised text and its words are known."""
        self.passages.append(passage)
        self.texts.append(text)
        self._starts.append(len(self._words))
        positions = self._positions
        for position, word in enumerate(words, len(self._words)):
            positions[word].append(position)
        self._words += words
        self._words.append("")  # no phrase crosses it

    def go_back(self, passages: int) -> None:
        """Remove all passages after the first so many. Whatever was found in them was added last, everywhere."""
        if passages >= len(self.passages):
            return
        end = self._starts[passages]
        for word in filter(None, self._words[end:]):
            places = self._positions[word]
            places.pop()
            if not places:
                del self._positions[word]
        while self._stems and next(reversed(self._stems.values())) >= end:
            self._stems.popitem()
        self._stemmed = min(self._stemmed, len(self._positions))
        if len(self._sorted) > len(self._positions):
            self._sorted, self._sorted_backwards = [], []
        while self._numbers and next(reversed(self._numbers.values()))[0] >= passages:
            self._numbers.popitem()
        for listed in (self._with_unit, self._spoken_numbers, self._fractions):
            while listed and listed[-1][1] >= passages:
                listed.pop()
        for one in vars(self).values():
            if isinstance(one, _Places):
                one.go_back(passages)
        self._numbers_read, self._dates_read = min(self._numbers_read, passages), min(self._dates_read, passages)
        self._initials, self._joined, self._joined_starts = self._initials[:end], "", []
        self._computed, self._said_last = None, (-1, frozenset())
        self._letters.clear()
        self._translated = min(self._translated, passages)
        del self._spoken[passages:]
        self._foreign.clear()
        if self._english is not None:
            self._english.go_back(passages)
        del self.passages[passages:], self.texts[passages:], self._starts[passages:], self._words[end:]

    def in_english(self, passages: int) -> Conversation | None:
        """Return the same passages with what is known of other languages in English; None if all are in English."""
        for at in range(self._translated, passages):
            self._translated = at + 1
            words = self._words_in(at)
            spoken = languages_of(self.texts[at], set(words), self._spoken[-1] if self._spoken else ())
            is_said = self.passages[at].kind in _PEOPLE and spoken
            self._spoken.append(spoken if is_said or not self._spoken else self._spoken[-1])
            english = in_english(self.texts[at], spoken) if spoken else None
            if english is not None and self._english is None:
                self._english = Conversation()
                for before in range(at):
                    self._english.add_read(self.passages[before], self.texts[before], self._words_in(before))
            if english is not None and self._english is not None:
                self._english.add(Passage(self.passages[at].kind, english))
            elif self._english is not None:
                self._english.add_read(self.passages[at], self.texts[at], words)
        return self._english

    def translated(self, word: str, passages: int) -> str:
        """Return a word in English, read in the languages that people spoke last."""
        return in_english(word, self._spoken[passages - 1]).strip() if self._spoken[passages - 1 :] else word

    def is_foreign(self, passages: int) -> bool:
        """Whether what a person said last is in a language other than English."""
        said = (at for at in range(passages - 1, -1, -1) if self.passages[at].kind == "user")
        for at in islice(said, _LAST_SAID):
            if at not in self._foreign:
                self._foreign[at] = is_foreign(self.texts[at], set(self._words_in(at)))
            if self._foreign[at]:
                return True
        return False

    def is_read(self, passages: int) -> bool:
        """Whether the numbers of one of the languages that people spoke last are known; so are those of English."""
        self.in_english(passages)
        spoken = self._spoken[passages - 1] if passages else ()
        return not spoken or any(map(has_numbers, spoken))

    def end(self, passages: int) -> int:
        """Return the position at which the first so many passages end."""
        return self._starts[passages] if passages < len(self._starts) else len(self._words)

    def _words_in(self, at: int) -> list[str]:
        return self._words[self._starts[at] : self.end(at + 1) - 1]

    def passage_at(self, position: int) -> int:
        """Return the number of the passage that holds a position."""
        return bisect_right(self._starts, position) - 1

    def word_at(self, word: str, end: int) -> int | None:
        """Return where a word stands first, if that is before a position."""
        found = self._positions.get(word)
        return found[0] if found is not None and found[0] < end else None

    def was_said(self, word: str, passages: int) -> bool:
        """Whether a word stands in one of the first so many passages that is no instruction."""
        places = self._positions.get(word, ())[:_MOST_INSTRUCTIONS]
        return any(self.passages[at].kind != "system" for place in places if (at := self.passage_at(place)) < passages)

    def has_any(self, words: Set[str], passages: int) -> bool:
        """Whether one of many words stands among the first so many passages."""
        end = self.end(passages)
        return any(self._positions[word][0] < end for word in self._positions.keys() & words)

    def form_at(self, word: str, end: int) -> int | None:
        """Return where a word stands first in any of its forms, if that is before a position."""
        exact = self._positions.get(word)
        if exact is not None and exact[0] < end:
            return exact[0]
        if word.isascii() and not word.isalpha():
            return None
        if self._stemmed < len(self._positions):
            for known, places in islice(self._positions.items(), self._stemmed, None):
                if known.isalpha():  # others have no forms
                    self._stems.setdefault(stem(known), places[0])
                    for one in () if known.isascii() else without_marks(known):
                        self._stems.setdefault(stem(one), places[0])
            self._stemmed = len(self._positions)
        found = self._stems.get(stem(word), end)
        for one in () if word.isascii() else without_marks(word):
            found = min(found, self._stems.get(stem(one), end)) if found >= end else found
        return found if found < end else None

    def words_beginning(self, letters: str, end: int) -> Iterator[str]:
        """Return, in order, the words that begin with some letters and stand before a position."""
        self._sort()
        known = _beginning(self._sorted, letters)
        return (word for word in known if self._positions[word][0] < end)

    def words_ending(self, letters: str, end: int) -> Iterator[str]:
        """Return the words that end with some letters and stand before a position."""
        self._sort()
        known = _beginning(self._sorted_backwards, letters[::-1])
        return (word for word in (one[::-1] for one in known) if self._positions[word][0] < end)

    def _sort(self) -> None:
        if len(self._sorted) < len(self._positions):
            words = list(islice(self._positions, len(self._sorted), None))
            self._sorted += words
            self._sorted.sort()
            self._sorted_backwards += [word[::-1] for word in words]
            self._sorted_backwards.sort()

    def phrase_at(self, wanted: Sequence[str], end: int) -> int | None:
        """Return where some words stand one after the other before a position."""
        if not wanted:
            return None
        if len(wanted) == 1:
            return self.word_at(wanted[0], end)
        rarest, places = 0, self._positions.get(wanted[0])
        for index, word in enumerate(wanted):
            found = self._positions.get(word)
            if found is None or places is None:
                return None
            if len(found) < len(places):
                rarest, places = index, found
        count, words = len(wanted), list(wanted)
        for position in (places or ())[:_TRIED]:
            start = position - rarest
            if start >= 0 and start + count <= end and self._words[start : start + count] == words:
                return start
        return self._passage_with(words, end) if places is not None and len(places) > _TRIED else None

    def _passage_with(self, wanted: Sequence[str], end: int) -> int | None:
        """Return where the passage begins in which some words stand one after the other, whatever their number."""
        if len(self._joined_starts) < len(self._starts):
            passages = [*self._starts, len(self._words)]
            texts = [f" {' '.join(self._words[one:other])}" for one, other in pairwise(passages)]
            self._joined_starts = [0, *accumulate(map(len, texts))][:-1]
            self._joined = "".join(texts)
        passages_before = bisect_left(self._starts, end)
        stop = self._joined_starts[passages_before] if passages_before < len(self._starts) else len(self._joined)
        found = self._joined.find(f" {' '.join(wanted)} ", 0, stop)
        return self._starts[bisect_right(self._joined_starts, found) - 1] if found >= 0 else None

    def joined_at(self, wanted: str, end: int) -> int | None:
        """Return where a text with digits stands before a position, in one or in pieces: `DE89 3704`, `0 double 7`."""
        if not _LEAST_JOINED <= len(wanted) <= _MOST_JOINED:
            return None
        if (found := self.word_at(wanted, end)) is not None:
            return found
        beginnings = [wanted[:stop] for stop in range(1, len(wanted))]
        beginnings += (*_REPEATED, *_TOLD_AS.get(wanted[0], ()))
        positions = self._positions
        starts = (at for one in beginnings if one in positions for at in positions[one][:_TRIED] if at < end)
        return next((at for at in starts if self._is_joined(wanted, at, end)), None)

    def _is_joined(self, wanted: str, at: int, end: int) -> bool:
        """Whether the words from a position on, put together, are a text."""
        times = 1
        while wanted and at < end:
            word = self._words[at]
            at += 1
            if word in _REPEATED or (word in _BETWEEN_PIECES and not wanted.startswith(word)):
                times = _REPEATED.get(word, 1)
                continue
            if word in _AS_IN and not wanted.startswith(word):
                at += 1
                continue
            tens = TENS.get(word)
            if tens is not None:
                said = str(tens // 10 if _TOLD.get(self._words[at], "").isdecimal() else tens)
            else:
                said, times = (word if wanted.startswith(word) else _TOLD.get(word, word)) * times, 1
                if word in _SPOKEN_ZEROS and not wanted.startswith(word):
                    said = _SPOKEN_ZEROS[word]
            if not said or not wanted.startswith(said):
                return False
            wanted = wanted[len(said) :]
        return not wanted

    def numbered_at(self, beginning: str, number: str, end: int) -> int | None:
        """Return where a number stands after a word that begins with some letters: `кв 8` for `квартира 8`."""
        places = self._positions.get(number, ())[:_TRIED] if len(beginning) > 1 else ()
        before = (at - 1 for at in places if 0 < at < end)
        return next((at for at in before if self._words[at].startswith(beginning)), None)

    def initials_at(self, initials: str, end: int) -> int | None:
        """Return where words stand one after the other that begin with some letters, if that is before a position."""
        count = len(initials)
        if len(self._initials) < len(self._words):
            self._initials += "".join([word[:1] or " " for word in self._words[len(self._initials) :]])
        found = self._initials.find(initials, 0, end)
        return found if found >= 0 and count > 1 else None

    def _letters_in(self, at: int) -> set[str]:
        """Return the runs of letters of a passage: kept for the other of the two that ask, numbers and dates."""
        if (kept := self._letters.pop(at, None)) is not None:
            return kept
        found = self._letters[at] = letters_in(self._words_in(at))
        return found

    def _read_numbers(self, passages: int) -> None:
        for at in range(self._numbers_read, passages):
            self._numbers_read = at + 1
            text, letters = self.texts[at], self._letters_in(at)
            quantities = quantities_of(text, letters)
            for quantity in quantities:
                key = number_key(quantity.value)
                self._numbers.setdefault(key, (at, quantity))
                if quantity.form != "implied":
                    self._stated.add(key, at)
                    if key != int(key):
                        self._fractions.append((key, at))
                if quantity.unit:
                    self._with_unit.append((quantity, at))
            if self.passages[at].kind in _PEOPLE:
                self._spoken_numbers += [(number_key(one.value), at) for one in quantities]
                for step in steps_of(text, letters):
                    self._steps.add(step, at)
                for bound in bounds_of(text, letters):
                    self._bounds.add(bound, at)

    def number(self, value: float, passages: int) -> tuple[int, Quantity] | None:
        """Return the first passage and quantity of a number among the first so many passages."""
        key = number_key(value)
        while (found := self._numbers.get(key)) is None and self._numbers_read < passages:
            self._read_numbers(self._numbers_read + 1)
        return found if found is not None and found[0] < passages else None

    def latest_numbers(self, passages: int, limit: int) -> list[float]:
        """Return distinct numbers of the first so many passages, the latest first; none that words only imply."""
        self._read_numbers(passages)
        return [value for value, _ in self._stated.latest(passages, limit)]

    def quantities(self, passages: int, limit: int = 200) -> list[tuple[Quantity, int]]:
        """Return the latest quantities with a unit among the first so many passages."""
        self._read_numbers(passages)
        stop = bisect_left(self._with_unit, passages, key=_place)
        return self._with_unit[max(0, stop - limit) : stop]

    def computed(self, passages: int, *, detailed: bool) -> Computed | None:
        """Return what follows from the latest numbers, if people speak of it or the number is `detailed`."""
        if self._computed is None or self._computed[0] != passages:
            words = OPERATORS.keys() & self._positions.keys()
            said = [factor for word, factor in OPERATORS.items() if word in words and self.was_said(word, passages)]
            if any(self.was_said(word, passages) for word in _CHANGES):
                said += [share for part in said if part and part < 1 for share in (1 - part, 1 + part)]
            percents = [one.value / 100 for one, _ in self.quantities(passages, 20) if one.unit in _PERCENT]
            shares = [share for part in percents for share in (part, 1 - part, 1 + part)]  # of it, less it, with it
            reason = bool(said or shares) or 0.5 in self.said_by_people(passages)
            self._computed = passages, [*filter(None, said), *shares], reason, None
        _, brought, reason, computed = self._computed
        if computed is None and (reason or detailed):
            computed = Computed([*brought, *self.latest_numbers(passages, _OPERANDS)])
            self._computed = passages, brought, reason, computed
        return computed if reason or detailed else None

    def share(self, value: float, passages: int) -> bool:
        """Whether a number with a fraction is the percentage that people speak of, of a number that is known."""
        if value == int(value):
            return False
        percents = [one.value / 100 for one, _ in self.quantities(passages, 20) if one.unit in _PERCENT]
        numbers = self.latest_numbers(passages, _OPERANDS) if percents else ()
        return any(
            abs(part * number - value) <= CENT
            for percent in percents
            for part in (percent, 1 - percent, 1 + percent)
            for number in numbers
        )

    def said_by_people(self, passages: int) -> Set[float]:
        """Return the numbers that people said last, in digits or words, and those that words such as `half` imply."""
        if self._said_last[0] != passages:
            self._read_numbers(passages)
            stop = bisect_left(self._spoken_numbers, passages, key=_place)
            self._said_last = passages, {one for one, _ in self._spoken_numbers[max(0, stop - _MOST_SPOKEN) : stop]}
        return self._said_last[1]

    def shifted(self, value: float, passages: int) -> bool:
        """Whether people say how much higher or lower than a known number a value is to be: `2 degrees lower`."""
        said = self.said_by_people(passages)
        if not any(self.was_said(word, passages) for word in self._positions.keys() & _SHIFTS):
            said = {number for number, _ in self._steps.latest(passages, _OPERANDS)}
        known = {*said, *self.latest_numbers(passages, _OPERANDS)}
        ways = (way for one in said if 0 < one < value for way in (value - one, value + one))
        return any(way in known or round(way, 2) in known for way in ways)

    def is_multiple(self, value: float, passages: int) -> bool:
        """Whether people speak of the double, the half and the like of a known number, and a value is that."""
        words = FACTORS.keys() & self._positions.keys()
        factors = [FACTORS[word] for word in words if self.was_said(word, passages)]
        factors += (0.5,) if 0.5 in self.said_by_people(passages) else ()
        known = self.latest_numbers(passages, _OPERANDS) if factors else ()
        return any(same(value, factor * one) for factor in factors for one in known)

    def rounded(self, value: float, passages: int) -> bool:
        """Whether a number with a fraction is a known one with more decimals, rounded to one or two."""
        decimals = next((one for one in (1, 2) if round(value, one) == value), None)
        if value == int(value) or decimals is None:
            return False
        self._read_numbers(passages)
        stop = bisect_left(self._fractions, passages, key=_place)
        known = self._fractions[max(0, stop - _MOST_SPOKEN) : stop]
        return any(one != value and round(one, decimals) == value for one, _ in known)

    def bound(self, value: int, passages: int) -> int | None:
        """Return the first passage whose `less than` or `more than` has a whole number as its last one."""
        self._read_numbers(passages)
        return self._bounds.first(value, passages)

    def _read_dates(self, passages: int) -> None:
        for at in range(self._dates_read, passages):
            self._dates_read = at + 1
            text, letters = self.texts[at], self._letters_in(at)
            for day in dates.days_of(text, letters):
                self._days.add(day, at)
            for time in dates.times_of(text, letters):
                self._times.add(time, at)
            if self.passages[at].kind in _PEOPLE:
                for relative in dates.relative_days_of(text, letters):
                    self._relative.add(relative, at)
                for part in dates.parts_of_months(text, letters):
                    self._parts.add(part, at)
                for name in dates.names_in_ranges(text, letters):
                    self._ranges.add(name, at)

    def day(self, day: dates.Day, passages: int) -> int | None:
        """Return the first passage that names a date, or a date with the same parts missing."""
        self._read_dates(passages)
        return self._days.first(day, passages)

    def days(self, passages: int, limit: int = 100) -> list[tuple[dates.Day, int]]:
        """Return the latest dates of the first so many passages, the latest first, each with its passage."""
        self._read_dates(passages)
        return self._days.latest(passages, limit)

    def part_of_month(self, day: dates.Day, passages: int) -> int | None:
        """Return a passage of a person that names the part of a month that a day is in: `the last week of May`."""
        self._read_dates(passages)
        parts = self._parts.latest(passages, _OPERANDS)
        return next((at for (month, *days), at in parts if month == day.month and days[0] <= day.day <= days[1]), None)

    def times(self, passages: int, limit: int = 100) -> list[tuple[tuple[int, int], int]]:
        """Return the latest times of the first so many passages, the latest first, each with its passage."""
        self._read_dates(passages)
        return self._times.latest(passages, limit)

    def relative_days(self, passages: int, limit: int = 200) -> list[tuple[dates.RelativeDay, int]]:
        """Return the words of relative dates that people and the assistant said, the latest first."""
        self._read_dates(passages)
        return self._relative.latest(passages, limit)

    def in_range(self, name: str, passages: int) -> bool:
        """Whether people named days of the week or months that one is of: `weekdays`, `January to June`."""
        if name not in dates.NUMBERED:
            return False
        self._read_dates(passages)
        return self._ranges.first(name, passages) is not None

    def time(self, time: tuple[int, int], passages: int) -> int | None:
        """Return the first passage that names a time."""
        self._read_dates(passages)
        return self._times.first(time, passages)


def _beginning(ordered: list[str], letters: str) -> Iterator[str]:
    """Return the words that begin with some letters."""
    at = bisect_left(ordered, letters)
    if at == len(ordered) or not ordered[at].startswith(letters):
        return iter(())
    return takewhile(lambda word: word.startswith(letters), map(ordered.__getitem__, range(at, len(ordered))))


def texts_in(text: str) -> Iterator[str]:
    """Yield the keys and values in a text that is JSON, JSON within JSON too, or the text, if it is none."""
    waiting: list[object] = [text]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str) and one.lstrip()[:1] in _OPENING and "\\" in one:
            with suppress(ValueError, RecursionError):
                waiting.append(loads(one))
                continue
        if is_mapping(one):
            waiting += [part for name, value in reversed(list(one.items())) for part in (value, name)]
        elif is_sequence(one):
            waiting += reversed(one)
        else:
            yield str(one)


_OPENING = ("{", "[", '"')
_PEOPLE = ("user", "assistant")  # kinds of passages whose words speak of days and bounds
