"""Texts of other languages, read in English where numbers, days, times, units, places and currencies are named.

    "am 15. April, für vier Personen"  ->  "am 15. april , für 4 personen"
    "下周五下午3点, 500万日元"              ->  "next week friday 3:00 pm , 5000000 japanese yen"

Names are those of CLDR in `babel`, where it is installed: the extra `grounding`. What CLDR lacks is here: number words,
and words that lead from one day to another. A text is read in the languages that its script or its small words show, so
the tables of others are never loaded.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from typing import Any

from goldspan.scoring.grounding.words import ARABIC_BEGINNING, LAST_LATIN, NUMBER_WORDS, without_marks
from goldspan.scoring.patterns import regex


@cache
def _tables() -> Mapping[str, Mapping[str, str]]:
    """Return the tables of `languages.toml`, which says what they hold."""
    # Imported when values are looked up: no other metric needs a file.
    import tomllib  # noqa: PLC0415
    from importlib.resources import files  # noqa: PLC0415

    return tomllib.loads((files("goldspan.scoring.grounding") / "languages.toml").read_text("utf-8"))


_ENGLISH = frozenset((
    "the", "a", "an", "of", "and", "to", "for", "from", "with", "is", "are", "my", "i", "you", "please", "it", "this",
    "that", "on", "in", "at", "me", "do", "as", "no", "we", "our", "by", "be", "can",
))  # fmt: skip
_ENGLISH_TOO = frozenset(("once", "sept", "cent", "cents", "mille", "media", "seven", "null", "com"))
"""Words of other languages that are English words, too, or stand in JSON and addresses of any language."""
_MOST_WITH_ONE_SIGN = 20
"""A text with more words than so has more than one that shows its language."""
_SCRIPTS = tuple(
    (regex(f"[{letters}]"), tuple(languages.split()))
    for letters, languages in (
        ("\u3040-\u30ff", "ja"), ("\u4e00-\u9fff", "zh ja"), ("\uac00-\ud7a3", "ko"), ("\u0400-\u04ff", "ru"),
        ("\u0600-\u06ff", "ar"), ("\u0900-\u097f", "hi"), ("\u0e00-\u0e7f", "th"),
    )
)  # fmt: skip
_COMPOUNDS = {"de": "und", "nl": "en|ën", "it": "e", "es": "y"}
"""Languages that write a number in one word, with what may stand between its pieces."""
_ORDINAL_ENDING = regex(r"(?<=\w\w)(?:sten|ste|ten|te|de)$")
_TOKEN = regex(
    r"[\u0900-\u097f]+|[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]|[^\W_\u0e00-\U0010ffff]+(?:['\u2019-](?=\w))?|.",
    re.DOTALL,
)
_HAN_DIGITS = "零〇幺一二两兩三四五六七八九十百千"
_OTHER_HAN_DIGITS = {"两": 2, "兩": 2, "幺": 1}
_HAN_NUMBER = regex(f"(?<!\\d)(?:[{_HAN_DIGITS[:-1]}]|千(?![克米瓦卡]))+")
_YEAR_MONTH_DAY = regex(
    r"(\d{4})\s*[年년]\s*(\d{1,2})\s*[月월](?:\s*(\d{1,2})\s*[日号號일])?|(?<!\d)(\d{1,2})\s*[月월]\s*(?:(\d{1,2})\s*[日号號일]?)?"
)
_EARLY, _LATE = "上午|早上|早晨|凌晨|清晨|午前|오전|아침", "下午|晚上|傍晚|中午|今晚|午後|夜|오후|저녁|밤"
_CLOCK = regex(
    rf"({_EARLY})?({_LATE})?\s*(\d{{1,2}})\s*(?:[点點時时시](?![간間间])(?:\s*(半|반)|\s*(\d{{1,2}})\s*(?:(刻)|[分분])?)?|:(\d{{2}}))"
)
_LARGE = regex(
    r"(?:(?<!\d)\d+(?:\.\d+)?\s*(?:[千천](?![克米瓦卡])|[万萬만亿億억])\s*)+(?:[1-9]\d{2,3}(?!\d)|(?<=\S)[1-9](?![\d.:点點時时月]))?"
)
_LARGE_PART = regex(r"(\d+(?:\.\d+)?)\s*([千천万萬만亿億억]?)")
_PART_OF_DAY = regex(
    r"\b(\w+(?:tag|woch|dag)|(?:über|over)?morgen|heute|gestern|gister)(?=(?:abend|morgen|vormittag|mittag|nachmittag|nacht|früh|middag|avond|ochtend)s?\b)"
)
"""A day and its part in one word: `freitagabend`, `zondagmiddag`."""
_RUSSIAN_HALF = regex(
    r"\bпол[- ]?(?=(?:перв|втор|четв|пят|шест|седьм|восьм|девят|десят|одиннадц|двенадц)\w*ого\b|третьего|"
    r"литра|кило|метра|стакана|дня)"
)
_HINDI_PART = regex(
    unicodedata.normalize("NFKC", r"(साढ़े|सवा|पौने|\bsaa?dhe|\bsavaa?|\bpaune)\s*(\d+)(?:\s*(1000|100)\b)?")
)
_DO_BEFORE_UNIT = regex(
    r"\bdo(?= (?:kilo|lit|din|log|baje|ghant|min|hafte|mahin|haz|sau|lakh|plate|packet|dozen|ticket))"
)
_KOREAN_COUNTS = {
    "한": 1, "두": 2, "세": 3, "네": 4, "다섯": 5, "여섯": 6, "일곱": 7, "여덟": 8, "아홉": 9, "열": 10, "열한": 11,
    "열두": 12, "스무": 20,
}  # fmt: skip
_KOREAN_COUNT = regex(
    rf"(?<![\uac00-\ud7a3])({'|'.join(sorted(_KOREAN_COUNTS, key=len, reverse=True))})\s*"
    "(?=시|명|개|장|사람|살|번|잔|병|마리|대|권|분|달|주|가지|자리|켤레|박)"
)
_KOREAN_DIGITS = "일이삼사오육칠팔구"
_KOREAN_DIGIT_BY_DIGIT = regex(
    rf"(?<![\uac00-\ud7a3])(?:[공영][{_KOREAN_DIGITS}공영]{{2,}}|[{_KOREAN_DIGITS}공영]{{4,}})"
)
_KOREAN_POINT = regex(
    rf"(?<![\uac00-\ud7a3])([{_KOREAN_DIGITS}십백]+) ?점 ?([{_KOREAN_DIGITS}영공])(?![{_KOREAN_DIGITS}])"
)
_KOREAN_NUMBER = regex(
    rf"([{_KOREAN_DIGITS}십백천]+)(?=\s*[만억])|(?<=[만억])([{_KOREAN_DIGITS}십백천]+)|"
    rf"(?<![\uac00-\ud7a3])(?!이번\s)([{_KOREAN_DIGITS}십백천]+)(?=\s*(?:원|분|층|번|퍼센트|프로|도|개월|박|킬로|년|월|호|인분))|"
    rf"(?<![\uac00-\ud7a3])(?=[{_KOREAN_DIGITS}]*[십백천])([{_KOREAN_DIGITS}십백천]{{3,}})(?=으로|로|을|를|에|까지|부터|정도|이상|이하|[^\uac00-\ud7a3])"
)
_AND_HALF_A_UNIT = regex(
    r"(?<![\d.])(\d{1,2})\s*(?=[個个かヶ月小時时年週시개년주])[個个]?((?:[かヶ]?月|小[时時]|[時时][間间]|年|週間|시간|개월|년|주)?)\s*[半반]"
)
_CJK = frozenset(("zh", "ja", "ko"))
_RUSSIAN_ENDING = regex(r"(?<=[\u0400-\u04ff]{4})[аяуюеёиыоьй]{1,2}$")
_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july", "august", "september", "october"),
    *("november", "december"),
)


def in_english(text: str, spoken: Sequence[str]) -> str:
    """Return a normalised text in English where it is of languages that are known."""
    for language in spoken:
        days, names = _short_weekdays(language)
        text = days.sub(lambda run: re.sub(r"\w+", lambda word: names.get(word[0], word[0]), run[0]), text)  # noqa: B023
    tokens = _TOKEN.findall(_replaced(text, spoken, _BEFORE_NAMES))
    return _replaced("".join(_translated(tokens, spoken)), spoken, _AFTER_NAMES)


_Replacement = tuple[Set[str], re.Pattern[str], str | Callable[[re.Match[str]], str]]
"""Languages, none for all, a pattern and what is written in its place."""


def _replaced(text: str, spoken: Sequence[str], rules: Sequence[_Replacement]) -> str:
    for languages, pattern, replacement in rules:
        if not languages or not languages.isdisjoint(spoken):
            text = pattern.sub(replacement, text)
    return text


def languages_of(text: str, words: Set[str], spoken: Sequence[str] = ()) -> list[str]:
    """Return the languages of a normalised text, which has these words; English is none of them.

    One sign is enough of a language that was `spoken` before, or in a text without a word of English where none has
    more.
    """
    found_words = len(words & _languages_by_word().keys()) if text.isascii() else 2
    if not found_words or (found_words == 1 and not spoken and not words.isdisjoint(_ENGLISH)):
        return []
    signs = _signs(text, words)
    most, english = max(signs.values()), len(words & _ENGLISH)
    alone = most == 1 and not english and len(words) <= _MOST_WITH_ONE_SIGN
    found = [
        language
        for language, count in signs.items()
        if (count > 1 and 2 * count >= max(most, english)) or (count and (alone or language in spoken))
    ]
    if not text.isascii():
        found += [
            one for letters, languages in _SCRIPTS if letters.search(text) for one in languages if one not in found
        ]
    return list(dict.fromkeys(found))


@cache
def _small_words() -> Mapping[str, frozenset[str]]:
    return {
        language: frozenset(
            (*words.split(), *(one for one, _ in _numbers(language) if len(one) > 3 or not one.isascii()))
        )
        - NUMBER_WORDS
        - _ENGLISH_TOO
        for language, words in _tables()["small_words"].items()
    }


@cache
def _languages_by_word() -> Mapping[str, Sequence[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for language, small in _small_words().items():
        for word in small:
            found[word].append(language)
    return dict(found)


def _signs(text: str, words: Set[str]) -> Mapping[str, int]:
    """Return by language how many of its words and letters a text has."""
    by_word = _languages_by_word()
    signs = dict.fromkeys(_small_words(), 0)
    for language in chain.from_iterable(map(by_word.__getitem__, words & by_word.keys())):
        signs[language] += 1
    if not text.isascii():
        marks = frozenset(text)
        for language in signs:
            signs[language] += not marks.isdisjoint(_tables()["marks"].get(language, ""))
    return signs


def is_foreign(text: str, words: Set[str]) -> bool:
    """Whether a normalised text, which has these words, is in a language other than English."""
    signs, english = max(_signs(text, words).values()), len(words & _ENGLISH)
    return signs > max(english, text.isascii()) or is_in_other_letters(text)


def is_in_other_letters(text: str) -> bool:
    """Whether most letters of a text are of another script than Latin."""
    return not text.isascii() and 2 * sum(char > LAST_LATIN for char in text) > sum(map(str.isalpha, text))


_LEAST_TYPED = 4
_Table = Mapping[str, list[tuple[list[str], str]]]


def _translated(tokens: list[str], languages: Sequence[str]) -> Iterator[str]:
    """Yield tokens, and in the place of those that are a name its English one."""
    at, forms, table = 0, _forms(tokens), _table_of_all(tuple(languages))
    while at < len(tokens):
        found = (
            (len(name), english) for name, english in table.get(forms[at], ()) if forms[at : at + len(name)] == name
        )
        size, english = max(found, default=(0, ""))
        if english.startswith(_BEHIND_NUMBER):
            counted = "".join(tokens[max(0, at - 2) : at]).rstrip()[-1:].isdigit()
            size, english = (size, english[1:]) if counted else (0, "")
        if not size and len(tokens[at]) > 5 and tokens[at].isalpha():
            english = next(filter(None, (_compound(language, tokens[at]) for language in languages)), "")
        yield f" {english} " if english else tokens[at]
        at += size or 1


def _forms(tokens: list[str]) -> list[str]:
    """Return tokens without a hyphen, and what Russian puts to a name and Arabic before it: `пятница`, `пятницу`."""
    return [
        _RUSSIAN_ENDING.sub("", ARABIC_BEGINNING.sub("", token)) if token[0] > "\u03ff" else token.rstrip("-") or token
        for token in tokens
    ]


@cache
def _table_of_all(languages: Sequence[str]) -> _Table:
    """Return the names of some languages in English, by their first token."""
    table: dict[str, list[tuple[list[str], str]]] = defaultdict(list)
    for token, named in chain.from_iterable(_table(language).items() for language in languages):
        table[token] += named
    return dict(table)


@cache
def _table(language: str) -> _Table:
    """Return the names of a language in English, by their first token."""
    table: dict[str, list[tuple[list[str], str]]] = defaultdict(list)
    named: dict[str, str] = {}
    phrases = (
        (phrase, english)
        for english, some in _tables()["phrases"].items()
        for phrase in re.split(r"[\s/]+", some.strip())
    )
    for name, english in chain(_numbers(language), phrases, _names(language)):
        named.setdefault(unicodedata.normalize("NFKC", name.replace("_", " ")), english)
    plain = ((bare, english) for name, english in named.items() for bare in _as_typed(name))
    for name, english in {**dict(plain), **named}.items():
        if tokens := _forms(_TOKEN.findall(name)):
            table[tokens[0]].append((tokens, english))
    return table


def _as_typed(name: str) -> Sequence[str]:
    """Return a long name as it is typed in a hurry: `martedi`."""
    return without_marks(name) if len(name) >= _LEAST_TYPED and max(name) <= LAST_LATIN else ()


# Numbers in several words or pieces.

_BEHIND_NUMBER = "\x02"  # before the name of a unit of one sign, which in other places is part of a word
_WORD = "\x01"  # before a number that was a word
_AND = "(?:e|y|et|und|en|и|و)"
_RUN = regex(rf"(?:(?<![\w.,])\d+(?:[.,]\d+)? +(?={_WORD}1000))?{_WORD}[\d.]+(?:[ -]+(?:{_AND} +)?{_WORD}[\d.]+)*")
_AND_BETWEEN = regex(rf"{_WORD}[\d.]+ +{_AND} +{_WORD}[\d.]+")
_PART = regex(rf"([ -]*(?:{_AND} +)?){_WORD}?([\d.,]+)")


@cache
def _compound(language: str, word: str) -> str:
    """Return the number that is written as one word of pieces, as `dreihundertfünfzig`, or `""`."""
    if language not in _COMPOUNDS:
        return ""
    pieces, pattern = _pieces(language)
    ending = _ORDINAL_ENDING.search(word)
    for text, suffix in ((word, ""), (word[: ending.start()], "th")) if ending else ((word, ""),):
        values = [pieces[one] for one in pattern.findall(text)] if re.fullmatch(f"(?:{pattern.pattern})+", text) else []
        if len(values) > 1 or (values and suffix):
            total, current = 0.0, 0.0
            for value in filter(None, values):
                total, current = _with_part(total, current, value)
            return f"{total + current:.15g}{suffix}" if suffix else f"{_WORD}{total + current:.15g}"
    return ""


@cache
def _pieces(language: str) -> tuple[Mapping[str, float], re.Pattern[str]]:
    """Return the pieces of numbers of a language, and a pattern that takes the longest first."""
    named = {token[0]: english for found in _table(language).values() for token, english in found if len(token) == 1}
    numbers = {word: float(english[1:]) for word, english in named.items() if english.startswith(_WORD)}
    numbers |= dict.fromkeys(_COMPOUNDS[language].split("|"), 0.0)
    return numbers, regex("|".join(sorted(map(re.escape, numbers), key=len, reverse=True)))


def _as_one_number(match: re.Match[str]) -> str:
    """Write the numbers in a run of number words: `2 1000 500` is 2500, `2 3` are two."""
    found: list[float] = []
    total = current = last = 0.0
    for joined, written in _PART.findall(match[0]):
        value = float(written.replace(",", "."))
        if value == 0.5 and total + current == 1 and not joined.strip(" -"):
            total, current, last = 0.0, 0.5, 0.5  # `ein halbes`
            continue
        if value == 0.5 and last:
            return f" {total + current + 0.5:.15g} or {current:.15g}:30 "
        if last == 0.5 and 1 <= value <= 12:
            return f" {(value + 10) % 12 + 1:.15g}:30 "
        if last and not _goes_on(value, total, current, hyphened="-" in joined, last=last):
            and_minutes = _AND_BETWEEN.fullmatch(match[0]) is not None
            if and_minutes and last < 25 and value < 60 and total == 0:
                return f" {current:.15g} y {value:.15g} "  # a time, or two numbers
            # Of `1000 and 2 1000` the second number has begun before its 1000.
            kept = current if value >= 1000 and total else 0.0
            found.append(total + current - kept)
            total, current = 0.0, kept
        total, current = _with_part(total, current, value)
        last = value or 0.1
    return f" {' '.join(f'{one:.15g}' for one in (*found, total + current))} "


def _with_part(total: float, current: float, value: float) -> tuple[float, float]:
    """Return the finished thousands of a number and its other part, with the next word of it."""
    if value >= 1000:
        return total + (current or 1) * value, 0
    return total, (current or 1) * value if value == 100 else current + value


def _goes_on(value: float, total: float, current: float, *, hyphened: bool, last: float) -> bool:
    """Whether a number word goes on with the number before it."""
    if not value or last < 0.5:
        return False  # digits that are told one by one: `0 1 7 6`
    if value >= 1000:
        return total == 0
    if value == 100:
        return current == 0 or 1 < current < 10
    if current == 0 or (current % 100 == 0 and value < 100):
        return True
    tens = current % 100
    return (
        (value < 10 and tens >= 20 and tens % 10 == 0)
        or (10 <= value < 20 and tens in (60, 80))
        or (hyphened and value < last)
    )


# Times that are told from the hour before or after.

_DAYS_FROM_TO = regex(
    r"\b(?:dal|del|do dia|du|vom|с)\s+(\d{1,2})\.?\s+(?:al|ao dia|ao|au|bis(?: zum)?|по)\s+(\d{1,2})\b(?![:.,]\d)"
)
_DAY_WITH_ARTICLE = regex(
    r"\b(?:le|el|il|day) +(?:[12]\d|3[01]|[1-9])\b(?! *(?:[:.,]\d|[%€$h]|o'clock|percent|and|less|y|e) *)"
)
_HOUR = r"(?:le |las |as |a la )?(?P<{0}>\d{{1,2}})(?: +o'clock|h\b)?"
_DECIMAL_IN_WORDS = regex(
    r"(?<![\d.,])(\d{1,4}) +(?:komma|virgule|coma|vírgula|virgola|punto|ponto|con|点) +(\d{1,3})\b(?![.,:]\d)"
)
_THOUSANDS_AND_DIGITS = regex(
    rf"(?<![\d.,])([1-9]\d{{0,2}}000) +(?:{_AND} +)?([1-9]\d\d)\b(?![.,:]\d)"
)  # `3 mil e 500`
_CLOCK_IN_WORDS = regex(
    "|".join(
        (
            rf"\b(?:(?:viertel|kwart|quarter|kwadrans|(?:um )?quarto)|(?P<to>\d{{1,2}})(?: minuten)?)"
            rf" +(?P<way>nach|over|vor|voor|para|pras?|pro|po) +{_HOUR.format('one')}\b",
            r"\b(?:без|za) +(?:(?P<less>\d+)|четверти|kwadrans) +(?P<before>\d{1,2})\b",
            r"\b(?P<told>\d{1,2}) +(?:quarter|(?P<by>\d{1,2})) +(?:(?P<past>geç)|var|kala)\w*",
            rf"\b{_HOUR.format('hour')} +(?:(?P<minus>minus)|e|y|et) +"
            r"(?P<minutes>\d{1,2})\b",
            rf"\b{_HOUR.format('quartered')} +(?P<part>and|less) a quarter\b",
            rf"\bdreiviertel +{_HOUR.format('next')}\b",
            r"(?:\bполовин\w*|\b0\.5) +(?P<ordinal>\d{1,2})(?:st|nd|rd|th)\b",
        )
    )
)


def _as_clock(match: re.Match[str]) -> str:
    """Write `viertel nach 6` and `без 20 8` as times."""
    found = match.groupdict()
    if found["one"]:
        hour, minutes = int(found["one"]), _from_hour(found["to"], past=found["way"] in ("nach", "over", "po"))
    elif found["told"]:
        hour, minutes = int(found["told"]), _from_hour(found["by"], past=bool(found["past"]))
    elif found["before"]:
        hour, minutes = int(found["before"]), _from_hour(found["less"], past=False)
    elif found["hour"]:
        hour, minutes = int(found["hour"]), _from_hour(found["minutes"], past=not found["minus"])
    elif found["quartered"]:
        hour, minutes = int(found["quartered"]), 15 if found["part"] == "and" else -15
    else:
        hour, minutes = int(found["next"] or found["ordinal"]), -15 if found["next"] else -30
    at = hour * 60 + minutes
    return f" {at // 60 % 24}:{at % 60:02} " if hour <= 24 and abs(minutes) < 60 else match[0]


def _from_hour(minutes: str | None, *, past: bool) -> int:
    """Return the minutes past an hour, below 0 before it; a quarter if none are said."""
    return int(minutes or 15) * (1 if past else -1)


def _as_around_half(match: re.Match[str]) -> str:
    """Write `5 nach 5:30`, which is `fünf nach halb sechs`, as 5:35."""
    minutes = 30 + int(match[1]) * (1 if match[2] in ("nach", "over") else -1)
    return f"{match[3]}:{minutes:02}" if 0 <= minutes < 60 else match[0]


def with_digits(text: str) -> str:
    """Return a text with its Chinese numbers in digits, as `in_english` writes them."""
    return _HAN_NUMBER.sub(_as_number, text)


_ENDINGS = {"tr": re.split(" ", " da de ta te ya ye a e dan den tan ten i ı u ü yi yı")}
"""What a language puts to numbers and days: `yedide` and `yediyi` for `yedi`."""


def _numbers(language: str) -> Iterator[tuple[str, str]]:
    """Yield the number words of a language, with the number behind a mark."""
    for number, words in (one.split("=") for one in _tables()["numbers"].get(language, "").split()):
        mark = _WORD if number[-1].isdigit() else ""
        endings = _ENDINGS.get(language, ("",))
        yield from ((f"{word}{ending}", f"{mark}{number}") for word in words.split("/") for ending in endings)


def has_numbers(language: str) -> bool:
    """Whether the number words of a language are known, or its numbers are read from their signs."""
    return language in _tables()["numbers"] or language in _CJK


_UNITS = ("duration-", "length-", "mass-", "volume-", "temperature-", "area-", "speed-", "digital-")


def _names(language: str) -> Iterator[tuple[str, str]]:
    """Yield names, normalised, with the English ones; those of up to two letters are other words, too."""
    for name, english in _names_of_locale(language):
        plain = unicodedata.normalize("NFKC", name).casefold().strip(" .")
        if len(plain) > 2 or (plain and plain[0] > "\u2fff"):
            yield plain, f"{_BEHIND_NUMBER if len(plain) == 1 else ''}{english.casefold()}"


def _names_of_locale(language: str) -> Iterator[tuple[str, str]]:
    """Yield the names of months, weekdays, units, places, languages and currencies in CLDR, with the English ones."""
    if find_spec("babel") is None:
        return
    locales: Any = import_module("babel")  # optional, and slow to load
    here, english = locales.Locale.parse(language), locales.Locale("en")
    for width in ("wide", "abbreviated"):
        for form in ("format", "stand-alone"):
            yield from ((name, _MONTHS[number - 1]) for number, name in here.months[form][width].items())
            yield from (
                (f"{name}{ending}", english.days["format"]["wide"][number])
                for number, name in here.days[form][width].items()
                for ending in _ENDINGS.get(language, ("",))
            )
    for ours, theirs in (
        (here.territories, english.territories),
        (here.languages, english.languages),
        (here.currencies, english.currencies),
    ):
        yield from ((name, theirs[code]) for code, name in ours.items() if code in theirs and not code.isdecimal())
    zones: Mapping[str, Mapping[str, str]] = here.time_zones
    for zone, inside in zones.items():
        if "city" in inside:
            yield inside["city"], zone.rpartition("/")[2].replace("_", " ")
    yield from _names_of_units(here, english)
    yield from _relative_dates(language)


def _relative_dates(language: str) -> Iterator[tuple[str, str]]:
    data: Any = import_module("babel.localedata")
    fields, named = (data.LocaleDataDict(data.load(one))["date_fields"] for one in (language, "en"))
    for field in ("day", "week", "month", "year"):
        beyond = {-2: "day before yesterday", 2: "day after tomorrow", 3: "in 3 days"} if field == "day" else {}
        names = {**named[field]["relative"], **beyond}
        yield from ((name, names[step]) for step, name in fields[field]["relative"].items() if step in names)


@cache
def _short_weekdays(language: str) -> tuple[re.Pattern[str], Mapping[str, str]]:
    """Return a pattern of ranges and lists of weekdays in two letters, `mo bis do`, and their names in English.

    Alone, words of two letters are other words.
    """
    if find_spec("babel") is None:
        return regex(r"(?!)"), {}
    locales: Any = import_module("babel")
    days: Mapping[str, Mapping[int, str]] = locales.Locale.parse(language).days["format"]
    short = {
        name.casefold().strip(" ."): _WEEKDAYS[number]
        for width in ("short", "abbreviated")
        for number, name in days[width].items()
    }
    names = "|".join(re.escape(one) for one in short if len(one) < 4)
    between = r"\s*[-\u2013,/]\s*|\s+(?:bis|tot|t/m|al?|à|ao|do|по|und|en|et|y|e)\s+"
    alone = r"\.(?= (?:in|um|ab|den|le|el|\d))"  # `Sa. um 8`
    return regex(rf"\b(?:{names})(?:\b\.?(?:(?:{between})(?:{names})\b\.?)+|{alone})"), short


def _names_of_units(here: Any, english: Any) -> Iterator[tuple[str, str]]:
    """Yield the names of units in the locale `here`, as of one, two and five of them, with the English ones."""
    units: Any = import_module("babel.units")
    measured: list[str] = [unit for unit in english.unit_display_names if unit.startswith(_UNITS)]
    for unit in measured:
        for length, count in ((length, count) for length in ("long", "short") for count in (1, 2, 5)):
            name = re.sub(r"\d", "", units.format_unit(count, unit, length, locale=here))
            if unit not in name:  # as where CLDR has no name
                yield name, unit.partition("-")[2].replace("-", " ")


# Numbers, dates and times in the digits and signs of Chinese, Japanese and Korean.


_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday", "sunday")


def _as_number(match: re.Match[str]) -> str:
    values = [_OTHER_HAN_DIGITS.get(sign) or int(unicodedata.numeric(sign)) for sign in match[0]]
    if len(values) > 1 and max(values) < 10:
        return "".join(map(str, values))  # digit by digit, as numbers of telephones and years
    total, current = 0, 0
    for value in values:
        if value >= 10:
            total, current = total + (current or 1) * value, 0
        else:
            current = value
    if len(match[0]) > 2 and match[0][-2] in "百千" and current < 10:
        current *= 10 if match[0][-2] == "百" else 100  # `两千五` is 2500
    return f"{total + current}"


def _as_date(match: re.Match[str]) -> str:
    year, month, day = match[1], int(match[2] or match[4]), match[3] or match[5]
    if not 1 <= month <= 12:
        return match[0]
    return f" {_MONTHS[month - 1]} {day or ''} {year or ''} "


def _as_time(match: re.Match[str]) -> str:
    hour = int(match[3])
    minute = 30 if match[4] else int(match[5] or match[7] or 0) * (15 if match[6] else 1)
    half = " pm" if match[2] and hour <= 12 else " am" if match[1] and hour <= 12 else ""
    return f" {hour}:{minute:02}{half} "


def _in_full(match: re.Match[str]) -> str:
    """Write `3만 5천` as 35000, and `2万5` as people mean it."""
    total, factor = 0.0, 10
    for number, sign in _LARGE_PART.findall(match[0]):
        factor = 1000 if sign in "千천" else 10**4 if sign in "万萬만" else 10**8 if sign else factor // 10
        factor = factor if sign else max(factor, 1) if len(number) == 1 else 1
        total += float(number) * factor
    return f"{total:.15g}{' ' * match[0][-1].isspace()}"


def _as_korean_count(match: re.Match[str]) -> str:
    return str(_KOREAN_COUNTS[match[1]])


def _as_korean_digits(match: re.Match[str], group: int = 0) -> str:
    return "".join(str(_KOREAN_DIGITS.find(sign) + 1) for sign in match[group])


def _as_korean_number(match: re.Match[str]) -> str:
    total = current = 0
    for sign in next(filter(None, match.groups())):
        scale = {"십": 10, "백": 100, "천": 1000}.get(sign)
        total, current = (total + (current or 1) * scale, 0) if scale else (total, _KOREAN_DIGITS.index(sign) + 1)
    return str(total + current)


def _with_hindi_part(match: re.Match[str]) -> str:
    """Write `साढ़े 7` as 7.5, which is half past seven, too."""
    sign = unicodedata.normalize("NFKC", match[1])
    quarters = -1 if sign[0] in "पp" else 2 if "ढ" in sign or "dh" in sign else 1
    number = int(match[2]) + quarters / 4
    return f" {number * int(match[3] or 1):.15g} or {int(number)}:{int(number % 1 * 60):02} "


_COMMAS = frozenset(("de", "fr", "es", "pt", "it", "nl", "ru", "ar", "pl", "tr", "sv", "id", "vi"))
_ALL = frozenset[str]()
_BEFORE_NAMES: Sequence[_Replacement] = (
    (_ALL, _PART_OF_DAY, r"\1 "),
    ({"ko"}, _KOREAN_POINT, lambda one: f"{_as_korean_number(one)}.{_as_korean_digits(one, 2)}"),
    ({"ko"}, regex(rf"(?<![\uac00-\ud7a3\d])만(?=[{_KOREAN_DIGITS}십백천\d ]*원)"), "1만"),
    ({"ko"}, _KOREAN_DIGIT_BY_DIGIT, _as_korean_digits),
    ({"ko"}, regex(rf"(?<=\d )[{_KOREAN_DIGITS}공영]{{2,}}(?![\uac00-\ud7a3])"), _as_korean_digits),
    ({"ko"}, _KOREAN_COUNT, _as_korean_count),
    ({"ko"}, _KOREAN_NUMBER, _as_korean_number),
    ({"ar"}, regex(r"\b(?!مائ)(\w{3,})تين\b"), r"2 \1ة"),
    ({"hi_Latn"}, _DO_BEFORE_UNIT, "2"),
    ({"ru"}, _RUSSIAN_HALF, "половина "),
    (_CJK, regex("[俩倆仨]"), lambda one: f" {3 if one[0] in '仨' else 2} "),
    # Weekdays before their last sign is read as a number.
    (_CJK, regex("([月火水木金土日])曜日?"), lambda one: f" {_WEEKDAYS['月火水木金土日'.index(one[1])]} "),
    (
        _CJK,
        regex(r"(?:星期|周|週|礼拜|曜日)([一二三四五六日天])(?!\s*[回次])"),
        lambda one: f" {_WEEKDAYS['一二三四五六日天'.index(one[1])]} ",
    ),
    (_CJK, _HAN_NUMBER, _as_number),
    (_CJK, regex(r"(?<=\d)\s*[个個]\s*(?=小[时時]|[钟鐘][头頭]|星期|[礼禮]拜)"), ""),
    (
        _CJK,
        regex(r"差\s*(?:(1刻)|(\d{1,2})分?)钟?\s*(1?\d)\s*[点點]"),
        lambda one: f"{int(one[3]) - 1}点{60 - int(one[2] or 15)}分",
    ),
    (_CJK, _YEAR_MONTH_DAY, _as_date),
    (_CJK, _CLOCK, _as_time),
    (_CJK, regex(r"打?\s*(?<!\d)([1-9]\d?)\s*折"), lambda one: f" {100 - int(one[1].ljust(2, '0'))} percent discount "),
    (_CJK, regex(r"(\d)[块塊](\d)(?!\d)"), r"\1.\2元"),
    (_CJK, regex(r"(?<!\d)(\d\d)度(\d)分"), r"\1.\2"),
    (_CJK, regex(r"(\d{1,2})\s*(?:泊|박|晚(?!上))"), r"\1 nights "),
    (_CJK, _AND_HALF_A_UNIT, r"\1.5\2"),
    (_CJK, regex(r"100分之(\d+(?:\.\d+)?)"), r" \1 percent "),
    (_CJK, _LARGE, _in_full),
    (_CJK, regex(r"(?<=\d)\s*打(?!\d)"), " dozen "),
    (_CJK, regex(r"(?<!\d)([1-9])[成割]"), r" \g<1>0 percent "),
    (_COMMAS, regex(r"(?<![\d.,])(\d{1,6}),(\d{1,2})(?![\d,])"), r"\1.\2"),
    (_ALL, regex(r"(?<!\d)(?<!\d月)(?<!\d月\s)(\d{1,2})\s*[号號일日](?!\w?元|[楼樓线線店门門院房])"), r" \1th "),
    (_ALL, _DAYS_FROM_TO, r" from the \1th to the \2th "),
    (_ALL, regex(r"(?<=\d)\.(?=\s?[^\W\d])"), ""),
    (_ALL, regex(r"(?<![\d.,])\d{1,3}(?:[. ]\d{3})+(?![.,]?\d)"), lambda one: re.sub("[. ]", "", one[0])),
)
_AFTER_NAMES: Sequence[_Replacement] = (
    (_ALL, _RUN, _as_one_number),
    (_ALL, _DAY_WITH_ARTICLE, r"\g<0>th"),
    (_ALL, regex(rf"between +(\d{{1,4}}) +{_AND} +(\d{{1,4}})\b"), r"between \1 and \2"),
    (_ALL, regex(r"(?<!\d)([2-9]0) +(\d(?:st|nd|rd|th))\b"), lambda one: f"{one[1][0]}{one[2]}"),
    (_ALL, _HINDI_PART, _with_hindi_part),
    (_ALL, regex(r"\b(1?\d)\.5 +o'clock"), r"\g<0> \1:30"),  # `ढाई बजे`
    (_ALL, regex(r"без +2([1-9])\b(?! +\d)"), r"без 20 \1"),
    (_ALL, regex(r"\b(\d{1,2})(?: +o'clock| ?h)? +and a half\b(?! +1000?\b)"), r"\g<0> or \1:30"),
    (_ALL, regex(r"\b(\d{1,2}) +and a half +(100|1000)\b"), lambda one: f"{(int(one[1]) + 0.5) * int(one[2]):.15g}"),
    (_ALL, regex(r"\b(\d{1,2}) +(?:minuten +)?(nach|over|vor|voor) +(\d{1,2}):30\b"), _as_around_half),
    (_ALL, regex(r"\b([01]?\d|2[0-4]) +o'clock +([0-5]\d)\b(?![.,:]\d)"), r" \1:\2 "),
    (_ALL, _DECIMAL_IN_WORDS, r"\1.\2"),
    (_ALL, _THOUSANDS_AND_DIGITS, lambda one: str(int(one[1]) + int(one[2]))),
    ({"pl"}, regex(r"\bo(?: godzinie)? +(\d{1,2})\b"), r"at \1"),
    (_ALL, _CLOCK_IN_WORDS, _as_clock),
)
