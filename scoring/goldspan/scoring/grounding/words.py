"""Words of a text: normalised, without their endings, and the numbers that words stand for."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from functools import lru_cache, wraps
from typing import TypeVar

from goldspan.scoring.patterns import regex

_WORD = regex(r"[^\W_\u0e00-\U0010ffff]+|(?:(?![\W_])[\u0e00-\U0010ffff])+")  # scripts without spaces apart
_ASCII_WORDS = "".join(char if char.isalnum() else " " for char in map(chr, range(128)))
LETTER = r"[^\W\d_]"
_LETTERS = regex(f"{LETTER}+")
_CAMEL = regex(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ENDINGS = (
    "ational", "ization", "isation", "fulness", "iveness", "ements", "ations", "ation", "ement", "ments",
    "ment", "ically", "ities", "able", "ible", "ility", "ingly", "edly", "ness", "ies", "ied", "ier", "ing",
    "ers", "ors", "est", "ism", "ist", "ity", "ive", "ize", "ise", "ful", "ous", "ian", "ese", "ish", "al",
    "ic", "ly", "ed", "er", "or", "es", "en", "an", "s", "y", "e",
)  # fmt: skip
_ENDINGS_BY_LAST = {last: tuple(one for one in _ENDINGS if one[-1] == last) for last in {one[-1] for one in _ENDINGS}}
_CYRILLIC_ENDING = regex(
    "(?<=..)(?:ами|ями|[иы]й|ая|яя|[оеиы]е|ую|юю|ого|его|ому|ему|ах|ях|ов|ев|ей|ой|ом|ем|ым|им|ых|их|[аяуюеёиыоьй])$"
)
ARABIC_BEGINNING = regex(r"^(?:[وف](?=\w{3}))?(?:ال|لل|[لبك](?!ا))?(?=[\u0600-\u06ff]{3})")
"""What Arabic puts before a word: the article, and short words such as `to`."""
_LONGEST_WORD = 40  # letters of a word that has an ending

_DIGITS = {first + digit: str(digit) for first in (0x660, 0x6F0, 0x966) for digit in range(10)}
"""Digits as Arabic, Persian and Hindi write them."""
FILLERS = frozenset((
    "a", "an", "the", "of", "and", "or", "in", "on", "at", "to", "for", "from", "by", "with", "is", "are", "be", "as",
    "it", "its", "this", "that", "my", "your", "our", "their", "his", "her", "s", "t",
))  # fmt: skip
"""Words that say nothing about where a value comes from."""

UNITS = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16,
    "seventeen": 17, "eighteen": 18, "nineteen": 19,
}  # fmt: skip
TENS = {
    "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90,
}  # fmt: skip
SCALES = {
    "hundred": 100, "thousand": 1000, "k": 1000, "grand": 1000, "lakh": 100_000, "million": 10**6, "mil": 10**6,
    "crore": 10**7, "billion": 10**9, "bn": 10**9, "trillion": 10**12, "dozen": 12,
}  # fmt: skip
ORDINALS = {
    "first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8, "ninth": 9,
    "tenth": 10, "eleventh": 11, "twelfth": 12, "thirteenth": 13, "fourteenth": 14, "fifteenth": 15, "sixteenth": 16,
    "seventeenth": 17, "eighteenth": 18, "nineteenth": 19, "twentieth": 20, "thirtieth": 30,
}  # fmt: skip
_IMPLIED: tuple[tuple[float, str], ...] = (
    (0, "none no without rest stationary dropped start starting beginning"),
    (0.25, "quarter"),
    (0.5, "half"),
    (
        1,
        "a an single once alone solo myself me individual just only highest lowest best top latest most nearest newest",
    ),
    (1, "largest annually yearly daily"),
    (2, "double twice couple pair both twin duo semiannually"),
    (3, "triple thrice trio"),
    (4, "quadruple quarterly"),
    (7, "week weekly"),
    (5, "fiver"),
    (10, "tenner"),
    (12, "monthly"),
    (14, "fortnight"),
    (24, "hourly"),
    (26, "biweekly"),
    (52, "weekly"),
    (365, "daily"),
)
NUMBER_OF_ONE_WORD = (*UNITS, *TENS)
COUNTING: dict[str, tuple[float, ...]] = {
    word: tuple(number for number, others in _IMPLIED if word in others.split())
    for _, words in _IMPLIED
    for word in words.split()
}
"""Words that imply a number without being one."""
_SHORT_FORMS = (
    "street st", "road rd", "avenue ave av", "avenida av avda", "boulevard blvd bd", "lane ln", "drive dr", "court ct",
    "square sq", "place pl", "platz pl", "highway hwy", "parkway pkwy", "apartment apt", "suite ste", "floor fl",
    "building bldg", "north n", "south s", "east e", "west w", "saint st", "mount mt", "fort ft", "doctor dr",
    "professor prof", "company co", "incorporated inc", "limited ltd", "corporation corp", "department dept",
    "number no nr num", "calle c", "rua r", "strasse straße str", "chemin ch", "plaza pza", "flat f", "room rm",
    "and plus", "versus vs", "junior jr", "senior sr", "vegetarian veggie veg", "bicycle bike", "television tv telly",
    "telephone phone", "refrigerator fridge", "motorcycle motorbike", "mathematics maths", "influenza flu",
    "physiotherapist physio", "physiotherapy physio",
)  # fmt: skip
SHORT_FORMS: dict[str, frozenset[str]] = {
    word: frozenset(other for names in _SHORT_FORMS if word in names.split() for other in names.split()) - {word}
    for words in _SHORT_FORMS
    for word in words.split()
}
"""What words of addresses and names are for short, and at length."""
NUMBER_WORDS = frozenset((*UNITS, *TENS, *ORDINALS, *SCALES, *COUNTING))
"""Words that are or imply a number, without those with digits such as `7th`."""


_ReadT = TypeVar("_ReadT")
_SHORT = 80
_RECENT = 4096


def remembered(read: Callable[[str], _ReadT]) -> Callable[[str], _ReadT]:
    """Remember what is read of short texts: the values and names of arguments recur from session to session."""
    recent = lru_cache(_RECENT)(read)

    @wraps(read)
    def of_text(text: str) -> _ReadT:
        return recent(text) if len(text) <= _SHORT else read(text)

    return of_text


@remembered
def normalised(text: str) -> str:
    """Return a text in NFKC, without case, with single spaces for all white space."""
    plain = text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold().translate(_DIGITS)
    return " ".join(plain.split())


def words_of(text: str) -> list[str]:
    """Return the words of a text that is normalised; `_` and punctuation separate them."""
    return text.translate(_ASCII_WORDS).split() if text.isascii() else _WORD.findall(text)


def starting(words: Iterable[str], but_after: str = r"\w") -> str:
    """Return a pattern of words that begin where a word does: after no character of a class.

    It begins with their first letters, so that a search looks at these alone and not at every character.
    """
    by_letter: dict[str, list[str]] = {}
    for word in sorted(words, key=len, reverse=True):
        by_letter.setdefault(word[0], []).append(word[1:])
    return "|".join(f"{first}(?<!{but_after}.)(?:{'|'.join(rest)})" for first, rest in by_letter.items())


def letters_in(words: Iterable[str]) -> set[str]:
    """Return the runs of letters in words, by which a reader knows the patterns that may match."""
    found: set[str] = set()
    for word in set(words):
        if word.isalpha():
            found.add(word)
        elif not word.isdecimal():
            found.update(_LETTERS.findall(word))
    return found


@remembered
def camel_words(text: str) -> tuple[str, ...]:
    """Return the normalised words of an identifier such as `pendingOrders`."""
    return tuple(words_of(normalised(_CAMEL.sub(" ", text))))


def stem(word: str) -> str:
    """Return a word without its ending, roughly: `orders` and `ordering` are `order`."""
    return _stem(word) if 3 <= len(word) <= _LONGEST_WORD and word.isalpha() else word


@lru_cache(maxsize=65536)
def _stem(word: str) -> str:
    if "\u0400" <= word[0] <= "\u06ff":
        return ARABIC_BEGINNING.sub("", _CYRILLIC_ENDING.sub("", word))
    if len(word) < 4:
        return word
    for _ in range(2):
        for ending in _ENDINGS_BY_LAST.get(word[-1], ()):
            if word.endswith(ending) and len(word) - len(ending) >= 3:
                word = word[: -len(ending)]
                break
        else:
            break
    if len(word) > 3 and word[-1] == word[-2]:
        word = word[:-1]
    return word


_NO_MARK = str.maketrans({"ß": "ss", "æ": "ae", "ø": "o", "ł": "l", "đ": "d", "ı": "i", "œ": "oe"})
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})


def without_marks(word: str) -> tuple[str, ...]:
    """Return how a word of Latin letters is written without accents: `müller` as `muller` and `mueller`."""
    if word.isascii() or word[0] > LAST_LATIN:
        return ()
    ways = dict.fromkeys((word, word.translate(_UMLAUTS)))
    bare = (unicodedata.normalize("NFD", one.translate(_NO_MARK)) for one in ways)
    return tuple("".join(char for char in one if not unicodedata.combining(char)) for one in bare)


def words_of_number(number: int) -> list[str]:
    """Return a number below a hundred in English words."""
    if (found := _IN_WORDS.get(number)) is not None:
        return [found]
    return [_IN_WORDS[number // 10 * 10], _IN_WORDS[number % 10]]


LAST_LATIN = "\u024f"
UNSPACED = "\u0e00"
"""From this letter on are the scripts that put no spaces between words, and Korean's, which puts endings to them."""
_IN_WORDS = {number: word for word, number in (UNITS | TENS).items()}


def number_word(word: str) -> int | None:
    """Return what `seven`, `forty` or `7th` is as a number."""
    if (found := UNITS.get(word, TENS.get(word, ORDINALS.get(word)))) is not None:
        return found
    if len(word) > 2 and word[:-2].isdecimal() and word[-2:] in ("st", "nd", "rd", "th") and len(word) < 7:
        return int(word[:-2])
    return None


def one_edit(one: str, other: str) -> bool:
    """Whether two words differ by one letter that is added, left out, replaced or swapped with the next."""
    if len(one) > len(other):
        one, other = other, one
    if len(other) - len(one) > 1:
        return False
    index = next((at for at, (left, right) in enumerate(zip(one, other, strict=False)) if left != right), len(one))
    if len(one) == len(other):
        swapped = one[index + 1 : index + 2] + one[index : index + 1] + one[index + 2 :]
        return one[index + 1 :] == other[index + 1 :] or swapped == other[index:]
    return one[index:] == other[index + 1 :]
