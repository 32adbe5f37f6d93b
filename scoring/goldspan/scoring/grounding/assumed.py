"""Values that no rule explains and an agent may have chosen with reason: what was said cannot tell right from wrong.

number_of_tickets: 1      nothing was said of a number
guests: 4                 "my wife, the two kids and me"
latitude: 48.8566         the user named Paris, and what everyone knows of it is in no text
symbol: "AMZN"            the user said Amazon
category: "shoes"         the user wrote in Chinese, and the tool's words are English
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Set
from functools import cached_property, lru_cache
from itertools import islice, takewhile

from goldspan.scoring.grounding.codes import is_currency, names_of, words_of_currencies
from goldspan.scoring.grounding.conversation import Conversation
from goldspan.scoring.grounding.dates import NUMBERED, SHORT_DAYS, is_date
from goldspan.scoring.grounding.languages import is_in_other_letters
from goldspan.scoring.grounding.leaves import Kind, Leaf, Origin, name_says, text_of_leaf
from goldspan.scoring.grounding.quantities import LARGEST_EXACT, as_number
from goldspan.scoring.grounding.words import number_word, words_of
from goldspan.scoring.patterns import regex

PEOPLE_COUNTED = frozenset(
    ("passengers", "guests", "people", "persons", "adults", "travelers", "party", "seats", "places", "tickets", "spots")
)
"""Words in the names of parameters that count people."""
_COMPANIONS = frozenset((
    "wife", "husband", "partner", "girlfriend", "boyfriend", "missus", "hubby", "spouse", "child", "children", "kid",
    "kids", "son", "sons", "daughter", "daughters", "baby", "toddler", "friend", "friends", "mate", "mates", "mother",
    "mum", "mom", "father", "dad", "brother", "sister", "parents", "adult", "adults", "colleague", "colleagues", "me",
    "myself", "i", "we", "us",
))  # fmt: skip
_CHILDREN = frozenset(("child", "children", "kid", "kids"))
_SPEAKERS = frozenset(("we", "us"))
_SPEAKER = _SPEAKERS | {"me", "myself", "i"}
_COORDINATES = frozenset(("latitude", "longitude", "lat", "lon", "lng", "coordinates"))
_LEVELS = frozenset(("priority", "level", "severity", "urgency", "importance"))
_LEVEL_WORDS = (
    "high", "highest", "low", "lowest", "urgent", "urgently", "critical", "medium", "maximum", "minimum", "top", "asap",
    "immediately", "emergency", "rush", "hurry",
)  # fmt: skip
_AMOUNTS = frozenset(("amount", "quantity", "volume", "liters", "litres", "gallons"))
_OPEN_AMOUNTS = frozenset((
    "full", "fully", "fill", "completely", "entirely", "enough", "rest", "remaining", "sufficient", "maximum", "max",
))  # fmt: skip
_END_OF_SENTENCE = regex(r"[.?!;](?=\s)")
_USUAL = frozenset(("economy", "standard", "regular", "normal", "basic"))
"""What an agent takes where nobody said which class or sort."""
_MULTIPLES = frozenset(("twice", "double", "triple"))
_OPEN_PLACES = ("coast", "region", "anywhere", "somewhere", "nearby", "nearest", "closest")
_PEOPLE = ("user", "assistant")
_MOST_PASSAGES = 50  # so many of the latest passages are searched for a name
_NAME = regex(r"[A-Z]\w{2,}(?: [A-Z]\w+){0,2}")
_RANGE = regex(r"between|from|rang|scale|minimum|maximum|lowest|highest|at (?:least|most)")
_TIME = regex(r"\d\d?:\d\d(?::\d\d)?")
_MOST_COMPANIONS = 12
_GROUPS = ("child", "children", "kid", "kids", "adult", "adults", "thereof", "rest", "others")
_MOST_TO_COMPUTE = 4  # of more numbers too much follows
_MOST_UNREAD = 100  # a larger number that was not read is written in digits


def assumed(leaf: Leaf, said: SaidByPeople, *, is_choice: bool) -> Origin | None:
    """Return why an agent may have chosen a value; none if what was said is all that it can come from."""
    if isinstance(leaf.value, (int, float)):
        why = next((why for rule in _RULES_OF_NUMBERS if (why := rule(leaf, leaf.value, said))), None)
    else:
        text = text_of_leaf(leaf.value)
        why = (
            _moment_not_read(text, said)
            or _currency_left_open(text, said)
            or (_level(leaf, text, said) if is_choice else "")
            or ("a usual class" if not is_choice and text.lower() in _USUAL else "")
            or _other_words(text, said, is_choice)
            or _place_left_open(text, said)
        )
        if not why:
            return _called_otherwise(text, said.conversation, said.passages)
    return Origin(Kind.ASSUMED, why) if why else None


class SaidByPeople:
    """What people said before a call, as far as it was understood."""

    def __init__(self, conversation: Conversation, passages: int) -> None:
        self.conversation = conversation
        self.passages = passages

    @cached_property
    def english(self) -> Conversation:
        """What was said, in English where its languages are known."""
        return self.conversation.in_english(self.passages) or self.conversation

    @cached_property
    def numbers(self) -> Set[float]:
        """The numbers that people said."""
        return self.english.said_by_people(self.passages)

    @cached_property
    def is_foreign(self) -> bool:
        """Whether a person spoke another language than English last."""
        return self.conversation.is_foreign(self.passages)

    @cached_property
    def is_read(self) -> bool:
        """Whether the number words and days of the language that a person spoke last are known."""
        return self.conversation.is_read(self.passages)

    @cached_property
    def is_in_other_letters(self) -> bool:
        """Whether a person said last, and most, in another script than Latin."""
        conversation = self.conversation
        said = (at for at in range(self.passages - 1, -1, -1) if conversation.passages[at].kind == Kind.USER)
        return is_in_other_letters("".join(conversation.texts[at] for at in islice(said, 5)))

    def speaks_of(self, words: Iterable[str]) -> bool:
        """Whether one of some English words was said, in any language."""
        return any(self.english.was_said(word, self.passages) for word in words)


# Numbers.


def _none_or_one(_: Leaf, value: float, __: SaidByPeople) -> str:
    return "none or one, where no number was said" if value in (0, 1) else ""


def _people_named(leaf: Leaf, value: float, said: SaidByPeople) -> str:
    if value != int(value) or not name_says(leaf.path, PEOPLE_COUNTED):
        return ""
    named, speaks = _companions(said.english, said.passages)
    rest_of_all = named > 1 and speaks and value + named - 1 in said.numbers
    but_for_children = value + _counted(_CHILDREN, said) in said.numbers
    return "people who were named one by one" if 1 < value <= named or rest_of_all or but_for_children else ""


def _told_in_parts(_: Leaf, value: float, said: SaidByPeople) -> str:
    if value in (25, 50, 75) and value / 100 in said.numbers:
        return "a part of a hundred"
    if value == int(value):
        return ""
    parts = {float(int(value)), float(round(value % 1 * 100))}
    return "an amount whose numbers were said" if parts <= said.numbers else ""


def _rest_of_group(_: Leaf, value: float, said: SaidByPeople) -> str:
    numbers = said.numbers if abs(value) <= LARGEST_EXACT else frozenset[float]()
    rest = 1 < len(numbers) <= _MOST_TO_COMPUTE and any(value + part in numbers for part in numbers if part and value)
    return "the others of a number of which some were named" if rest and said.speaks_of(_GROUPS) else ""


def _number_not_read(_: Leaf, value: float, said: SaidByPeople) -> str:
    unread = abs(value) <= _MOST_UNREAD and said.is_foreign and not (said.numbers and said.is_read)
    return "a number in another language, of which none was understood" if unread else ""


def _limit(leaf: Leaf, value: float, _: SaidByPeople) -> str:
    description = leaf.schema.get("description")
    return "a limit of its range" if isinstance(description, str) and value in _limits(description) else ""


@lru_cache(1024)
def _limits(description: str) -> Set[float | None]:
    if not _RANGE.search(description.lower()):
        return frozenset()
    return frozenset(map(as_number, re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?![\w]|\.\d)", description)))


def _level(leaf: Leaf, value: float | str, said: SaidByPeople) -> str:
    is_level = isinstance(value, str) or 0 < value <= 10
    told = is_level and name_says(leaf.path, _LEVELS) and said.speaks_of(_LEVEL_WORDS)
    return "a level that was said in words" if told else ""


def _amount_left_open(leaf: Leaf, _: float, said: SaidByPeople) -> str:
    """Give the reason for an amount of which the user's last words say no number: `fill it up`, `twice as much`."""
    if not name_says(leaf.path, _AMOUNTS):
        return ""
    passages = reversed(range(said.passages))
    at = next((at for at in passages if said.english.passages[at].kind == Kind.USER), None)
    sentences = [] if at is None else list(map(words_of, _END_OF_SENTENCE.split(said.english.texts[at])))
    numbers = said.english.latest_numbers(said.passages, 1)
    is_open = any(
        not any(map(_count, words)) and not (_OPEN_AMOUNTS if numbers else _OPEN_AMOUNTS | _MULTIPLES).isdisjoint(words)
        for words in sentences
    )
    return "an amount that was left open" if is_open else ""


def _coordinate(leaf: Leaf, value: float, said: SaidByPeople) -> str:
    is_place = abs(value) <= 180 and name_says(leaf.path, _COORDINATES) and not said.speaks_of(_COORDINATES)
    return "the place of something that was named" if is_place else ""


_RULES_OF_NUMBERS = (
    _none_or_one,
    _people_named,
    _told_in_parts,
    _rest_of_group,
    _number_not_read,
    _limit,
    _level,
    _amount_left_open,
    _coordinate,
)


def _companions(spoken: Conversation, passages: int) -> tuple[int, bool]:
    """Return how many people a person named as those who take part, with the speaker: `my wife and 2 kids` are 4.

    And whether the speaker was named, too.
    """
    total, speaks = 0, False
    for at in range(max(0, passages - _MOST_PASSAGES), passages):
        words = words_of(spoken.texts[at]) if spoken.passages[at].kind == Kind.USER else []
        for index, word in enumerate(words):
            if word in _SPEAKER:
                speaks = True
                others = islice(takewhile(lambda one: one not in _COMPANIONS, words[index + 1 :]), 3)
                total += int(next(filter(None, map(_count, others)), 0)) if word not in _SPEAKERS else 0
            elif word in _COMPANIONS:
                counts = filter(None, map(_count, words[max(0, index - 2) : index]))
                total += int(next((count for count in counts if count <= _MOST_COMPANIONS), 1))
    return min(total, _MOST_COMPANIONS) + (total > 0), speaks


def _counted(names: Set[str], said: SaidByPeople) -> float:
    """Return the first number before one of some words, as in `2 of them are children`; 0.5 without one."""
    texts = (words_of(text) for text in said.english.texts[: said.passages])
    before = (words[max(0, at - 4) : at] for words in texts for at, word in enumerate(words) if word in names)
    return next((count for few in before for word in reversed(few) if (count := _count(word)) is not None), 0.5)


def _count(word: str) -> float | None:
    return as_number(word) or number_word(word)


# Texts.


def _moment_not_read(text: str, said: SaidByPeople) -> str:
    is_time = said.is_foreign and _TIME.fullmatch(text) is not None
    if not said.is_foreign or not (is_time or (any(sign in text for sign in "-/.") and is_date(text))):
        return ""
    english, passages = said.english, said.passages
    read = english.times(passages) if is_time else [*english.days(passages), *english.relative_days(passages)]
    return "" if read and said.is_read else "a date or time in another language, of which none was understood"


def _currency_left_open(text: str, said: SaidByPeople) -> str:
    """Give the reason for a currency, where amounts were named without one: no code, no sign, no word of a name."""
    if not is_currency(text) or not said.numbers:
        return ""
    named = said.english.has_any(words_of_currencies(), said.passages)
    named = named or any(sign in one for one in said.english.texts[: said.passages] for sign in "$€£¥₹")
    return "" if named else "a currency, where none was named"


def _place_left_open(text: str, said: SaidByPeople) -> str:
    is_code = len(text) == 3 and text.isupper() and not is_currency(text) and bool(names_of(text))
    return "a place, where a region was named" if is_code and said.speaks_of(_OPEN_PLACES) else ""


def _other_words(text: str, said: SaidByPeople, is_choice: bool) -> str:  # noqa: FBT001
    if not text.isascii() or any(map(str.isdigit, text)) or "@" in text or is_currency(text):
        return ""
    is_day = (name := text.casefold()) in NUMBERED or name in SHORT_DAYS
    if is_choice and not is_day and said.is_foreign:
        return "a choice in another language than what was said"
    if said.is_in_other_letters:
        return "in other letters than what was said"
    is_word = text.islower() and not is_day and said.is_foreign
    return "a word of another language than what was said" if is_word else ""


def _called_otherwise(text: str, conversation: Conversation, passages: int) -> Origin | None:
    """Return the origin of a word for one of the family (`妈妈` for `妈`), or of a code of a name."""
    if len(text) > 1 and not text[0].isascii() and text == text[0] * len(text):
        at = next((at for at in range(passages - 1, -1, -1) if text[0] in conversation.texts[at]), None)
        return None if at is None else Origin(Kind.ASSUMED, "a word for one of the family", at)
    if 2 < len(text) < 6 and text.isupper() and text.isalpha() and not is_currency(text):
        at = _named_by(text, conversation, passages)
        return None if at is None else Origin(Kind.ASSUMED, "a code of a name", at)
    return None


def _named_by(code: str, conversation: Conversation, passages: int) -> int | None:
    """Return the passage of a person with a name that begins like a code and has all its letters."""
    letters = set(code.lower())
    for at in range(passages - 1, max(-1, passages - 1 - _MOST_PASSAGES), -1):
        if conversation.passages[at].kind in _PEOPLE:
            names = (
                match[0].lower() for match in _NAME.finditer(conversation.passages[at].text) if match[0][0] == code[0]
            )
            if any(letters.issubset(name) for name in names):
                return at
    return None
