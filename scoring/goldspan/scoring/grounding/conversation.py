"""What was said before a call, indexed once a session, so that each value is looked up and no text is read twice."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice

from msgspec import Struct

from goldspan.scoring.grounding.dates import Day, days_of, times_of
from goldspan.scoring.grounding.quantities import Quantity, quantities_of
from goldspan.scoring.grounding.words import normalised, stem, words_of

_GAP = 50
"""Positions between two passages, so that no phrase crosses them."""
_TRIED = 500
"""So many places of the rarest word of a phrase are tried."""


class Passage(Struct, frozen=True):
    """One thing that was said or returned."""

    kind: str
    """`user`, `assistant`, `system` or `tool_result`."""
    text: str
    where: str = ""
    """Names it to a person: `user message 2`, or the call whose result it is."""


def number_key(value: float) -> float:
    """Return what numbers have in common that are one up to nine digits."""
    return float(f"{value:.9g}")


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
        self._positions: dict[str, list[int]] = {}
        self._stems: dict[str, int] = {}
        self._stemmed = 0
        self._numbers: dict[float, tuple[int, Quantity]] = {}
        self._with_unit: list[tuple[int, Quantity]] = []
        self._numbers_read = 0
        self._days: dict[Day, int] = {}
        self._times: dict[tuple[int, int], int] = {}
        self._dates_read = 0
        for passage in passages:
            self.add(passage)

    def __len__(self) -> int:
        return len(self.passages)

    def add(self, passage: Passage) -> None:
        """Add a passage after all others."""
        text = normalised(passage.text)
        self.passages.append(passage)
        self.texts.append(text)
        self._starts.append(len(self._words))
        positions = self._positions
        words = words_of(text)
        for position, word in enumerate(words, len(self._words)):
            if word in positions:
                positions[word].append(position)
            else:
                positions[word] = [position]
        self._words += words
        self._words += [""] * _GAP

    def end(self, passages: int) -> int:
        """Return the position at which the first so many passages end."""
        return self._starts[passages] if passages < len(self._starts) else len(self._words)

    def passage_at(self, position: int) -> int:
        """Return the number of the passage that holds a position."""
        return bisect_right(self._starts, position) - 1

    def word_at(self, word: str, end: int) -> int | None:
        """Return where a word stands first, if that is before a position."""
        found = self._positions.get(word)
        return found[0] if found is not None and found[0] < end else None

    def form_at(self, word: str, end: int) -> int | None:
        """Return where a word stands first in any of its forms, if that is before a position."""
        exact = self._positions.get(word)
        if exact is not None and exact[0] < end:
            return exact[0]
        if self._stemmed < len(self._positions):
            for known, places in islice(self._positions.items(), self._stemmed, None):
                self._stems.setdefault(stem(known), places[0])
            self._stemmed = len(self._positions)
        found = self._stems.get(stem(word))
        return found if found is not None and found < end else None

    def words(self, end: int) -> Iterator[str]:
        """Yield each word that stands before a position."""
        return (word for word, found in self._positions.items() if found[0] < end)

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
        return None

    def initials_at(self, initials: str, end: int) -> int | None:
        """Return where words stand one after the other that begin with some letters, if that is before a position."""
        count = len(initials)
        if not self._initials:
            self._initials = "".join(word[0] if word else " " for word in self._words)
        elif len(self._initials) < len(self._words):
            self._initials += "".join(word[0] if word else " " for word in self._words[len(self._initials) :])
        found = self._initials.find(initials, 0, end)
        return found if found >= 0 and count > 1 else None

    def _read_numbers(self) -> None:
        for at in range(self._numbers_read, len(self.texts)):
            for quantity in quantities_of(self.texts[at]):
                self._numbers.setdefault(number_key(quantity.value), (at, quantity))
                if quantity.unit:
                    self._with_unit.append((at, quantity))
        self._numbers_read = len(self.texts)

    def number(self, value: float, passages: int) -> tuple[int, Quantity] | None:
        """Return the first passage and quantity of a number among the first so many passages."""
        self._read_numbers()
        found = self._numbers.get(number_key(value))
        return found if found is not None and found[0] < passages else None

    def latest_numbers(self, passages: int, limit: int) -> list[float]:
        """Return distinct numbers of the first so many passages, the latest first."""
        self._read_numbers()
        found: list[float] = []
        for value, (at, quantity) in reversed(self._numbers.items()):
            if at < passages and quantity.form != "implied":
                found.append(value)
                if len(found) == limit:
                    break
        return found

    def quantities(self, passages: int, limit: int = 200) -> list[tuple[int, Quantity]]:
        """Return the latest quantities with a unit among the first so many passages."""
        self._read_numbers()
        found = [one for one in self._with_unit[-2 * limit :] if one[0] < passages]
        return found[-limit:]

    def _read_dates(self) -> None:
        for at in range(self._dates_read, len(self.texts)):
            for day in days_of(self.texts[at]):
                self._days.setdefault(day, at)
            for time in times_of(self.texts[at]):
                self._times.setdefault(time, at)
        self._dates_read = len(self.texts)

    def day(self, day: Day, passages: int) -> int | None:
        """Return the first passage that names a date, or a date with the same parts missing."""
        self._read_dates()
        found = self._days.get(day)
        return found if found is not None and found < passages else None

    def days(self, passages: int, limit: int = 100) -> list[tuple[Day, int]]:
        """Return the latest dates of the first so many passages, each with its passage."""
        self._read_dates()
        found: list[tuple[Day, int]] = []
        for day, at in reversed(self._days.items()):
            if at < passages:
                found.append((day, at))
                if len(found) == limit:
                    break
        return found

    def times(self, passages: int, limit: int = 100) -> list[tuple[tuple[int, int], int]]:
        """Return the latest times of the first so many passages, each with its passage."""
        self._read_dates()
        return [(time, at) for time, at in self._times.items() if at < passages][-limit:]

    def time(self, time: tuple[int, int], passages: int) -> int | None:
        """Return the first passage that names a time."""
        self._read_dates()
        found = self._times.get(time)
        return found if found is not None and found < passages else None

    def said(self, passages: int, limit: int = 20) -> str:
        """Return what people and the assistant said last, for the words of relative dates."""
        kinds = ("user", "assistant")
        found = [self.texts[at] for at in range(passages - 1, -1, -1) if self.passages[at].kind in kinds][:limit]
        return " . ".join(reversed(found))


__all__ = ["Conversation", "Passage", "number_key"]
