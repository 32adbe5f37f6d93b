"""Where a number came from: it was said in some form, or follows from numbers that were said.

The user says `it was 41.40, split it between us three`, or `two and a half hours a day, from the 6th to the 10th`:

    41.4      literal            150       unit: 2.5 hours in minutes
    13.8      a share of it      5         time between: the days from the 6th to the 10th, for `days`
    17.3      none: nothing that was said leads to it

Arithmetic needs a reason, since of ten numbers much follows by chance: people speak of it (`each`, `in all`), the name
of the argument does (`total`), or the value has so many digits that chance is out.
"""

from __future__ import annotations

from math import e, pi

from goldspan.scoring.grounding.assumed import PEOPLE_COUNTED
from goldspan.scoring.grounding.conversation import Conversation
from goldspan.scoring.grounding.leaves import Kind, Leaf, Origin, name_says
from goldspan.scoring.grounding.moments import MomentFinder
from goldspan.scoring.grounding.quantities import LARGEST_EXACT, converted, is_detailed
from goldspan.scoring.grounding.words import words_of, words_of_number

_PAGING = frozenset(("offset", "skip", "page", "index", "cursor"))
_HUNDREDTHS = frozenset(("cents", "cent", "pence", "centimes", "centavos", "centimos", "minor", "centesimi"))
"""Words in the names of amounts that are in hundredths of what people say."""
_COMPUTED = frozenset((
    "total", "totals", "sum", "subtotal", "net", "gross", "balance", "difference", "remaining", "remainder", "share",
    "each", "average", "consumption", "usage", "increase", "change", "delta", "declared", "totale", "gesamt", "importe",
    "saldo",
))  # fmt: skip
"""Words in the names of numbers that are computed."""
_SHARED = ("split", "each", "share", "evenly", "equally")
_MOST_SHARING = 13
_LEAST_TOTAL = 1000  # smaller ones follow from three numbers by chance
_LEAST_COMPUTED = 20  # smaller numbers follow from others by chance
_LEAST_REST = 10
_MOST_MINUTES, _FIRST_YEAR, _LAST_YEAR = 60, 1000, 9999


def said(conversation: Conversation, at: int) -> Origin:
    """Return the origin of what a passage says as it is."""
    return Origin(Kind(conversation.passages[at].kind), "literal", at)


def _is_amount(value: float) -> bool:
    return value != int(value) and round(value, 2) == value


class NumberFinder:
    """Finds the origins of numbers of one call; so many passages of a conversation were before it."""

    def __init__(
        self, conversation: Conversation, passages: int, moments: MomentFinder, *, is_translated: bool = False
    ) -> None:
        """`is_translated`: the conversation is one in English of what was said in other languages."""
        self._conversation = conversation
        self._passages = passages
        self._moments = moments
        self._end = conversation.end(passages)
        self._is_translated = is_translated

    def origin(self, value: float, leaf: Leaf | None = None) -> Origin | None:
        """Return the origin of a number, which may be a part of the text of a leaf; None without one."""
        conversation, passages = self._conversation, self._passages
        if (found := conversation.number(value, passages)) is not None:
            at, quantity = found
            return (
                said(self._conversation, at) if quantity.form == "digits" else Origin(Kind.DERIVED, "number word", at)
            )
        whole = value == int(value) if abs(value) < 1e15 else True
        literal = str(int(value)) if whole else repr(value)
        if value >= 0 and (position := conversation.phrase_at(words_of(literal), self._end)) is not None:
            return said(conversation, conversation.passage_at(position))
        if value and (opposite := conversation.number(-value, passages)) is not None:
            return Origin(Kind.DERIVED, "sign", opposite[0])
        if value in (0, 1) and leaf is not None and name_says(leaf.path, _PAGING):
            return Origin(Kind.TRIVIAL, "first page")
        return self._computed_from_said(value, leaf, whole=whole)

    def _computed_from_said(self, value: float, leaf: Leaf | None, *, whole: bool) -> Origin | None:
        conversation, passages = self._conversation, self._passages
        if (origin := converted(value, self._moments.quantities)) is not None:
            with_unit = conversation.quantities(passages)
            return Origin(Kind.DERIVED, "unit", next(place for one, place in with_unit if one is origin))
        in_hundredths = whole and leaf is not None and name_says(leaf.path, _HUNDREDTHS)
        if in_hundredths and (amount := conversation.number(value / 100, passages)) is not None:
            return Origin(Kind.DERIVED, "unit", amount[0])
        if (found := self._whole_number(int(value), leaf) if whole else self._constant(value)) is not None:
            return found
        if conversation.rounded(value, passages):
            return Origin(Kind.DERIVED, "rounded")
        if self._follows(value, leaf):
            return Origin(Kind.DERIVED, "arithmetic")
        return Origin(Kind.ASSUMED, "a share of an amount") if self._is_share(value) else None

    def _follows(self, value: float, leaf: Leaf | None) -> bool:
        conversation, passages = self._conversation, self._passages
        if conversation.share(value, passages) or conversation.shifted(value, passages):
            return True
        if abs(value) < _LEAST_COMPUTED:
            return value != 0 and conversation.is_multiple(value, passages)
        # As a float, and so is what it gives with two like it.
        return abs(value) < LARGEST_EXACT / 4 and self._is_computed(value, leaf)

    def _is_share(self, value: float) -> bool:
        """Whether an amount that was said, divided among some people, gives a value to the cent."""
        shared = value != int(value) and any(self._conversation.was_said(word, self._passages) for word in _SHARED)
        whole = (value * people for people in range(2, _MOST_SHARING)) if shared else ()
        return any(self._conversation.number(round(one, 1), self._passages) is not None for one in whole)

    def _is_computed(self, value: float, leaf: Leaf | None) -> bool:
        """Whether a number follows from others, and that is no chance: for its digits, or since people speak of it."""
        detailed, conversation = is_detailed(value), self._conversation
        named = leaf is not None and name_says(leaf.path, _COMPUTED)
        likely = named or _is_amount(value)
        computed = conversation.computed(self._passages, detailed=detailed or likely)
        if computed is None:
            return False
        of_few, spoken_of = computed.are_few if likely else computed.are_few_for(value), detailed or not likely
        if not spoken_of and conversation.computed(self._passages, detailed=False) is None:
            return of_few and computed.of_two_in_cents(value)
        telling = detailed or (of_few and not (named and abs(value) < _LEAST_TOTAL))
        return computed.of_two_in_cents(value) or (telling and computed.of_three(value))

    def _whole_number(self, value: int, leaf: Leaf | None) -> Origin | None:
        counted = leaf is not None and name_says(leaf.path, PEOPLE_COUNTED)
        if not counted and (part_of := self._part_of_date(value)) is not None:
            return Origin(Kind.DERIVED, "part of a date", part_of)
        if self._moments.is_time_between(value, leaf):
            return Origin(Kind.DERIVED, "time between")
        if (limit := self._conversation.bound(value, self._passages)) is not None:
            return Origin(Kind.DERIVED, "bound", limit)
        return Origin(Kind.DERIVED, "number word") if self._told_as_hundreds(value) else None

    def _told_as_hundreds(self, value: int) -> bool:
        """Whether a number was told without its `hundred`: `one twenty` for 120, `nineteen eighty-seven`."""
        hundreds, rest = divmod(value, 100)
        if not 0 < hundreds < 100 or rest < _LEAST_REST:
            return False
        ways = [[*words_of_number(hundreds), *words_of_number(rest)]]
        if self._is_translated:
            ways.append([str(hundreds), str(rest)])
        return any(self._conversation.phrase_at(words, self._end) is not None for words in ways)

    def _part_of_date(self, value: int) -> int | None:
        if not 0 <= value < _MOST_MINUTES and not _FIRST_YEAR <= value <= _LAST_YEAR:
            return None
        named = next((at for day, at in self._moments.days if value in day), None) if value else None
        return next((at for time, at in self._moments.times if value in time), None) if named is None else named

    def _constant(self, value: float) -> Origin | None:
        for constant in (pi, e):
            ratio = value / constant
            near = round(ratio)
            if near and abs(ratio - near) < 1e-3 and (near == 1 or self._conversation.number(near, self._passages)):
                named = any(self._conversation.word_at(word, self._end) is not None for word in ("pi", "π", "e"))
                return Origin(Kind.DERIVED, "constant") if named else None
        return None
