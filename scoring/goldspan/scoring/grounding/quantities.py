"""Numbers in a text: digits, words, units, and what follows from few of them by arithmetic."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence, Set
from functools import cached_property
from math import isfinite

from msgspec import Struct

from goldspan.scoring.grounding.words import (
    COUNTING,
    NUMBER_OF_ONE_WORD,
    NUMBER_WORDS,
    ORDINALS,
    SCALES,
    TENS,
    UNITS,
    number_word,
    remembered,
    starting,
    stem,
)
from goldspan.scoring.patterns import regex

_DIGIT = regex(r"\d")
_GROUPED = regex(r"[-+]?\d{1,3}(,\d{2,3})+(\.\d+)?")
_DECIMAL_COMMA = regex(r"[-+]?\d{1,3}(\.\d{3})+,\d+|[-+]?\d+,\d{1,2}")
_MINUS, _MONEY = "-\u2212", "$€£¥₹"
_MORE_DIGITS = r"\d{0,2}(?:,\d{2,3})+(?:\.\d+)?|\d{0,2}(?:\.\d{3})+,\d+|\d*(?:\.\d+)?(?:e[-+]?\d+)?"
_DIGITS = rf"\d(?:{_MORE_DIGITS})|\.\d+"
# It begins with one of few characters, so that it is tried at these alone.
_NUMBER = regex(
    rf"([{_MINUS}+{_MONEY}.\d])(?<![a-z_0-9.].)"
    rf"((?<=\d)(?:{_MORE_DIGITS})|(?<=\.)\d+|(?<=[{_MINUS}+])(?:[{_MONEY}]\s?)?(?:{_DIGITS})|(?<=[{_MONEY}])\s?(?:{_DIGITS}))"
    r"(?:[\s-]?([a-z°%²³/]+))?",
    re.DOTALL,
)
_FEET = regex(r"(\d)(?<!\w\d)\s?(?:'|\u2019|ft|feet|foot)\s?(\d{1,2})(?:\"|\u201d|''|\s?in\w*|\b)")
_FEET_MARKS = ("'", "\u2019", "ft", "feet", "foot")
_TIMES = ("x", "\u00d7", "*")
_POWER = regex(r"(\d(?<![\w.]\d)\d*(?:\.\d+)?)\s*(?:x|\u00d7|\*)\s*10\s*(?:\^|\*\*)\s*\(?([-\u2212+]?\d{1,3})")
_FRACTION = regex(r"(\d(?<![\w./]\d)\d{0,14})\s?/\s?(\d{1,15})(?![\w/])")
_BOUND = regex(
    r"\b(?:(?P<less>less|fewer|lower|smaller|under|below|before)|more|greater|higher|over|above|after) (?:than )?"
    r"(?P<number>\d{1,15})\b"
)
_STEP = regex(r"\b(?:by|up|down) (?!by )(?:about |around )?(\d{1,9}(?:\.\d+)?|[a-z]+)\b")
_PARTS: dict[str, tuple[int, int, str]] = {
    name: (most, size, unit)
    for names, most, size, unit in (
        ("h hr hrs hour hours", 2, 60, "minute"),
        ("min mins minute minutes", 2, 60, "second"),
        ("m meter meters metre metres", 2, 100, "centimeter"),
        ("euro euros dollar dollars pound pounds quid franc francs", 2, 100, "cent"),
        ("kg kilo kilos kilogram kilograms km kilometer kilometers kilometre kilometres", 3, 1000, ""),
        ("stone", 2, 14, "pound"),
        ("year years", 2, 12, "month"),
    )
    for name in names.split()
}
"""Units and what stands behind them without its own: `1 meter 72`; how many digits, how many make one, which."""
_WITH_PART = regex(
    rf"(\d(?<!\w.)\d{{0,5}}|{starting(NUMBER_OF_ONE_WORD)}) ?({'|'.join(sorted(_PARTS, key=len, reverse=True))})\b,? ?"
    rf"(?:(?:and|und|et|e|y|en) )?(\d{{1,3}}|{'|'.join(NUMBER_OF_ONE_WORD)})(?![\w.,:%-]\w)\b"
)
_LARGEST = 1e300
LARGEST_EXACT = 2**53
"""Beyond it floats skip integers: such a number is an identifier, whose digits count."""
_LONGEST = 40  # characters of a number
_WORD = regex(r"[^\W\d_]+|(?<!\d)\d{1,6}(?:st|nd|rd|th)\b")
_BOUNDING = frozenset(
    ("less", "fewer", "lower", "smaller", "under", "below", "before", "more", "greater", "higher", "over", "above")
) | {"after"}
_SPELLING = (NUMBER_WORDS - COUNTING.keys()) | {"st", "nd", "rd", "th"}

# factor to the first unit of each dimension
_DIMENSIONS: tuple[dict[str, float], ...] = tuple(
    {name: float(factor) for factor, names in (one.split(":") for one in table.split(",")) for name in names.split()}
    for table in (
        "0.001:ms millisecond,1:second s sec,60:minute min,3600:hour hr h,86400:day night,604800:week,"
        "1209600:fortnight,2592000:month,7776000:quarter,31536000:year yr,315360000:decade",
        "1:month,3:quarter,12:year yr,120:decade",
        "1e-9:nm nanometer,1e-6:micrometer,0.001:mm millimeter,0.01:cm centimeter,0.0254:inch in,0.3048:foot feet ft,"
        "0.9144:yard yd,1:meter metre m,1000:km kilometer kilometre,1609.344:mile mi",
        "0.001:mg milligram,1:g gram,28.349523:oz ounce,453.59237:lb pound,500:jin pfund,1000:kg kilo kilogram,"
        "50000:zentner,100:hectogram,6350.29318:stone,1e6:ton tonne",
        "0.001:ml milliliter,0.005:teaspoon,0.015:tablespoon,0.24:cup,1:l liter litre,3.785411784:gallon",
        "1:b byte,1e3:kb,1e6:mb,1e9:gb,1e12:tb",
        "1:b byte,1024:kb kib,1048576:mb mib meg,1073741824:gb gib gig giga,1099511627776:tb",
        "1:bit,1e3:kilobit kbit kbps,1e6:megabit mbit mbps,1e9:gigabit gbit gbps",
        "1:cent,100:dollar euro usd eur",
        "1:pa,1e3:kpa,1e6:mpa,1e5:bar,101325:atm",
        "1:j joule,1e3:kj kilojoule,1e6:mj",
        "1:w watt,1e3:kw kilowatt,1e6:mw",
        "1:hz,1e3:khz,1e6:mhz,1e9:ghz",
        "1:c coulomb,1e-6:uc microcoulomb,1e-9:nc nanocoulomb",
        "1:m/s,0.2777777777777778:km/h kmh kph,0.44704:mph",
    )
)


class Quantity(Struct, frozen=True, gc=False):
    """A number that a text holds."""

    value: float
    unit: str
    """The word after it, or nothing."""
    form: str = "digits"
    """`digits`, `word` for a number in words, `implied` for one that words such as `couple` or `weekly` imply."""


@remembered
def as_number(text: str) -> float | None:
    """Return the number that a whole text is, as in `1,200.50`, `$5`, `12%`; none for another text."""
    text = text.strip().strip("$€£¥₹#%").replace("\u2212", "-").strip()
    if len(text) > _LONGEST or _DIGIT.search(text) is None:
        return None
    if "," in text:
        if _GROUPED.fullmatch(text):
            text = text.replace(",", "")
        elif _DECIMAL_COMMA.fullmatch(text):
            text = text.replace(".", "").replace(",", ".")
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


def same(one: float, other: float) -> bool:
    """Whether two numbers are one, up to nine digits."""
    return one == other or abs(one - other) <= 1e-9 * max(abs(one), abs(other))


_IRREGULAR = {"feet": "foot", "inches": "inch", "celsius": "celsius"}


def singular(unit: str) -> str:
    """Return a unit without the ending of its plural."""
    if unit in _IRREGULAR:
        return _IRREGULAR[unit]
    return unit[:-1] if len(unit) > 2 and unit.endswith("s") else unit


def quantities_of(text: str, letters: Set[str]) -> list[Quantity]:
    """Return the numbers of a normalised text, whose runs of letters are given; none beyond 1e300."""
    found = _in_digits(text) if _DIGIT.search(text) else []
    if not _SPELLING.isdisjoint(letters):
        found += _spelled(text)
        found += _with_a_point(text) if "point" in letters else ()
    found += (
        Quantity(number, "", "implied") for word in sorted(COUNTING.keys() & letters) for number in COUNTING[word]
    )
    if not letters.isdisjoint(("a", "an")):
        found += (Quantity(1, match[1], "implied") for match in _ONE_UNIT.finditer(text))
    if not letters.isdisjoint(_PARTS):
        found += _with_parts(text)
    if not letters.isdisjoint(("half", "quarter")):
        found += _with_a_part(text)
    if not letters.isdisjoint(("half", "quarter", "quarters")):
        found += _parts_of(text)
    return [quantity for quantity in found if -_LARGEST < quantity.value < _LARGEST]


def bounds_of(text: str, letters: Set[str]) -> Iterator[int]:
    """Yield the last whole numbers that a normalised text allows: 4 for `fewer than 5`, 6 for `more than 5`."""
    for match in () if _BOUNDING.isdisjoint(letters) else _BOUND.finditer(text):
        yield int(match["number"]) + (-1 if match["less"] else 1)


def steps_of(text: str, letters: Set[str]) -> Iterator[float]:
    """Yield by how much a normalised text wants something changed: 2 for `down by 2 degrees`."""
    for match in () if letters.isdisjoint(("by", "up", "down")) else _STEP.finditer(text):
        number = number_word(match[1]) if match[1].isalpha() else as_number(match[1])
        if number:
            yield float(number)


def _in_digits(text: str) -> list[Quantity]:
    found: list[Quantity] = []
    for match in _NUMBER.finditer(text):
        first, rest, unit = match.groups("")
        if first == "." or first.isdecimal():
            money, digits = False, first + rest
        else:
            money, digits = first in _MONEY or rest[0] in _MONEY, rest.lstrip(f"{_MONEY} ")
        value = float(digits) if digits.isdecimal() and len(digits) <= _LONGEST else as_number(digits)
        if value is None:
            continue
        scale = SCALES.get(unit)
        unit = "hour" if unit == "o" else unit  # of `4 o'clock`, which `4 heures` is in English
        if money and scale is None:
            unit = "dollar"
        if first in _MINUS and not text[match.start() - 1 : match.start()].isalnum():
            found.append(Quantity(-value, unit))
        if scale is not None:
            found.append(Quantity(value * scale, ""))
        found.append(Quantity(value, unit))
    return [*found, *_in_notation(text)]


def _in_notation(text: str) -> Iterator[Quantity]:
    """Yield numbers that are written with signs of their own: feet and inches, powers of ten, fractions."""
    if any(mark in text for mark in _FEET_MARKS):
        yield from (Quantity(int(match[1]) * 12 + int(match[2]), "inch") for match in _FEET.finditer(text))
    if "10" in text and any(sign in text for sign in _TIMES):
        powers = ((match[1], match[2].replace(_MINUS[-1], "-")) for match in _POWER.finditer(text))
        yield from (Quantity(float(f"{factor}e{power}"), "") for factor, power in powers)
    if "/" in text:
        fractions = ((int(match[1]), int(match[2])) for match in _FRACTION.finditer(text))
        yield from (Quantity(above / below, "") for above, below in fractions if below)


def _spelled(text: str) -> Iterator[Quantity]:
    """Yield the numbers in words: `two hundred and five` is one, `two five` are two.

    A number is a total of finished parts (`two thousand`) and a current part (`two hundred`).
    """
    total: float = 0
    current: float = 0
    started = False
    last_end = 0
    last_word = ""
    for match in _WORD.finditer(text):
        word = match[0]
        if not started and word not in _SPELLING and not word[0].isdecimal():
            continue
        joined = started and text[last_end : match.start()].strip(" -") == ""
        value = number_word(word)
        if started and not (joined and (value is not None or word in SCALES or word == "and")):
            yield Quantity(total + current, word if joined else "", "word")
            started, total, current = False, 0, 0
        if value is not None:
            if not started or _begins_another(word, last_word, total, current):
                if started:
                    yield Quantity(total + current, "", "word")
                    if not total and 0 < current < 100 and last_word in _TELLING_HUNDREDS and word in TENS:
                        yield from _as_hundreds(current, text[match.start() :])
                started, total, current = True, 0, value
            else:
                current += value
        elif word in SCALES and word != "k":
            total, current = _scaled(total, current if started else 1, SCALES[word])
            started = True
        last_end = match.end()
        last_word = word
    if started:
        yield Quantity(total + current, "", "word")


_TELLING_HUNDREDS = UNITS.keys() - {"zero"}


def _as_hundreds(hundreds: float, rest: str) -> Iterator[Quantity]:
    """Yield 475 for `four seventy-five`, of which the rest of the text begins with the second word."""
    words = _WORD.findall(rest[:_LONGEST])[:2]
    tens, unit = TENS[words[0]], UNITS.get(words[1], 0) if len(words) > 1 else 0
    yield Quantity(hundreds * 100 + tens + (unit if 0 < unit < 10 else 0), "", "word")


_AND_A_PART = regex(r"\b(\w+)(?: +(\w+))? +and a (half|quarter)\b(?: +(\w+))?")
_POINT = regex(rf" point ((?:(?:{'|'.join(UNITS)}|\d+)\b ?)+)")
_ONE_UNIT = regex(
    r"\ban? (hour|minute|second|day|week|fortnight|month|year|decade|kilo|pound|ounce|stone|ton|tonne|pint|gallon|litre"
    r"|liter|metre|meter|kilometre|kilometer|mile|yard|foot|inch)\b"
)
_WHOLES = frozenset(("the", "my", "our", "that", "it", "what"))
_PART_OF = regex(r"\b(?:half|(\w+) quarters?(?: of)?)(?: an?)? (\w+)")


def _with_a_part(text: str) -> Iterator[Quantity]:
    """Yield `two and a half`, and with what scales it: `two and a half grand`, `two kilos and a half`."""
    for match in _AND_A_PART.finditer(text):
        first, second, part, after = match.groups()
        share = 0.5 if part == "half" else 0.25
        for word, unit in ((second, after), (first, second)):
            if word and (number := int(word[:_LONGEST]) if word.isdecimal() else number_word(word)) is not None:
                yield Quantity((number + share) * SCALES.get(unit, 1), "" if unit in SCALES else unit or "", "word")
        unit = second or first
        if unit in SCALES:
            yield Quantity((1 + share) * SCALES[unit], "", "word")
        elif any(singular(unit) in dimension for dimension in _DIMENSIONS):
            yield Quantity(1 + share, unit, "word")


def _with_parts(text: str) -> Iterator[Quantity]:
    """Yield `1 meter 72`, `13 stone 4` and `14 euros 90`, in the unit and in its part."""
    for match in _WITH_PART.finditer(text):
        whole, part = (int(one) if one.isdecimal() else number_word(one) for one in (match[1], match[3]))
        most, size, unit = _PARTS[match[2]]
        if whole is None or part is None or part >= size or (len(match[3]) > most and match[3].isdecimal()):
            continue
        if match[2].startswith("m") and match[3].isdecimal() and len(match[3]) == 1:
            part *= 10  # `一米七`
        yield Quantity(round(whole + part / size, 9), match[2], "word")
        if unit:
            yield Quantity(whole * size + part, unit, "word")


def _with_a_point(text: str) -> Iterator[Quantity]:
    """Yield `five point two`."""
    for match in _POINT.finditer(text):
        before = text[max(0, match.start() - _LONGEST) : match.start()].rpartition(" ")[2]
        whole = as_number(before) if before.isdecimal() else number_word(before)
        digits = [UNITS.get(word, word) for word in match[1].split()]
        if whole is not None:
            yield Quantity(float(f"{whole:.0f}.{''.join(map(str, digits))}"), "", "word")


def _parts_of(text: str) -> Iterator[Quantity]:
    """Yield `half an hour`, `three quarters of an hour`, `half a dozen`."""
    for match in _PART_OF.finditer(text):
        quarters = 2 if match[1] is None else number_word(match[1]) or 1
        unit = match[2]
        if quarters and unit in SCALES:
            yield Quantity(quarters / 4 * SCALES[unit], "", "word")
        elif quarters and unit in _WHOLES:
            yield Quantity(quarters / 4, "", "word")
        elif quarters and any(singular(unit) in dimension for dimension in _DIMENSIONS):
            yield Quantity(quarters / 4, unit, "word")


def _begins_another(word: str, last_word: str, total: float, current: float) -> bool:
    """Whether a number word after others is not part of their number: `five` after `twenty` is, after `two` not."""
    if total and not current:
        return False
    is_unit = word in UNITS or word in ORDINALS
    after_unit = is_unit and current and (last_word in TENS or current % 100 == 0)
    return not after_unit and not (word in TENS and current % 100 == 0)


def _scaled(total: float, current: float, scale: int) -> tuple[float, float]:
    """Multiply the current part, which a thousand and more also finish."""
    return (total, min(current * scale, _LARGEST)) if scale in (12, 100) else (total + current * scale, 0)


ABBREVIATIONS: dict[str, str] = {
    short: name
    for names in (
        "m meter,km kilometer,cm centimeter,mm millimeter,mi mile,ft foot,in inch,yd yard,kg kilogram,g gram",
        "lb pound,lbs pound,oz ounce,l liter,ml milliliter,s second,sec second,min minute,mins minute,hr hour,hrs hour",
        "mg milligram,h hour,yr year,c celsius,f fahrenheit,k kelvin,j joule,w watt,n newton,pa pascal,hz hertz",
        "mph mile,kph kilometer,metre meter,litre liter,feet foot,inches inch,us usa,uk kingdom",
    )
    for short, name in (one.split() for one in names.split(","))
}
"""Units and their names."""
UNITS_BY_STEM = {
    stem(name): tuple(short for short, other in ABBREVIATIONS.items() if stem(other) == stem(name))
    for name in ABBREVIATIONS.values()
}
"""What the units are for short whose names have a stem."""


def converted(value: float, known: Sequence[Quantity]) -> Quantity | None:
    """Return the known quantity that a value is in another unit of its dimension; percent and temperature too."""
    for quantity in known:
        unit = singular(quantity.unit) if quantity.unit else ""
        if unit in ("%", "percent", "percentage", "pct") and same(value * 100, quantity.value):
            return quantity
        if not unit:
            continue
        for dimension in _DIMENSIONS:
            if unit in dimension:
                base = quantity.value * dimension[unit]
                if any(same(value * factor, base) or _rounded(value, base / factor) for factor in dimension.values()):
                    return quantity
        if unit in _FAHRENHEIT and _as_degrees(value, (quantity.value - 32) / 1.8):
            return quantity
        if unit in _CELSIUS and _as_degrees(value, quantity.value * 1.8 + 32):
            return quantity
    return None


_DEGREES = ("°", "degree")
_FAHRENHEIT = ("fahrenheit", "°f", "f", *_DEGREES)
_CELSIUS = ("celsius", "centigrade", "°c", "c", *_DEGREES)


def _as_degrees(value: float, exact: float) -> bool:
    return _rounded(value, exact) or (value == int(value) and abs(value - exact) <= 0.5)


def _rounded(value: float, exact: float) -> bool:
    """Whether a value is an exact one rounded to at least two decimals, or three digits."""
    return value != int(value) and (
        round(exact, 2) == value or round(exact, 1) == value or abs(value - exact) <= 0.002 * abs(exact)
    )


_REACH = 2e-10  # how far apart two numbers with a fraction may be that are one, as a share of one
_LEAST_APART = 0.1  # no further apart than so, however great: every digit of an order's number counts
CENT = 0.0051
"""How far an amount of money may be from what was computed, since it is rounded."""
_FEW, _FEW_WITH_SHARE = 10, 6
_DETAILED = 5  # significant digits of a number that does not come about by chance

_SIGNS_OF_SUMS = frozenset((
    "total", "plus", "add", "adding", "added", "additional", "additionally", "extra", "minus", "less", "difference",
    "subtract", "deduct", "each", "per", "percent", "percentage", "average", "mean", "sum", "combined", "altogether",
    "together", "worth", "increase", "increased", "raise", "decrease", "decreased", "reduce", "reduced", "discount",
    "tax", "vat", "tip", "fee", "split", "divide", "divided", "times", "multiply", "rest", "remaining", "ago", "older",
    "younger", "more", "another", "both", "quarters",
))  # fmt: skip
FACTORS = {
    "half": 0.5, "double": 2.0, "doubled": 2.0, "twice": 2.0, "triple": 3.0, "thrice": 3.0, "quarter": 0.25,
    "third": 1 / 3,
}  # fmt: skip
OPERATORS: dict[str, float | None] = dict.fromkeys(sorted(_SIGNS_OF_SUMS)) | FACTORS
"""Words that say that something is to be computed, and the numbers that they bring."""


def is_detailed(value: float) -> bool:
    """Whether a number has so many digits that it does not follow from others by chance."""
    return len(f"{value:.9g}".replace(".", "").strip("-0")) >= _DETAILED


class Computed:
    """What follows from known numbers: sums, differences, products and quotients of two, and of two and a third."""

    def __init__(self, numbers: Sequence[float]) -> None:
        self._numbers = sorted(set(numbers))
        self._least = min(numbers, default=0) - 1
        self._most = max(numbers, default=0) + 1
        self._largest = max(-self._least, self._most)

    @cached_property
    def _pairs(self) -> tuple[list[float], list[float]]:
        """What two of them give as sums and differences, and as products and quotients."""
        numbers = [one for one in self._numbers if one]  # with 0 a number gives itself
        pairs = [(a, b) for a in numbers for b in numbers]
        sums = [given for a, b in pairs for given in (a + b, a - b if a != b else a + b)]
        return sorted(sums), sorted([given for a, b in pairs for given in (a * b, a / b if a != b else a * b)])

    @property
    def are_few(self) -> bool:
        """Whether so little follows from them that a number which does is no chance."""
        return len(self._numbers) <= _FEW

    def are_few_for(self, value: float) -> bool:
        """Whether so little follows from them that it is no chance: to the cent, or where they have a share."""
        if value != int(value):
            return self.are_few
        return len(self._numbers) <= _FEW_WITH_SHARE and any(0 < one < 1 for one in self._numbers)

    def of_two(self, value: float, reach: float = 0) -> bool:
        """Whether a number is what two of them give; so far from it at most."""
        least, most = self._least, self._most
        return any(
            least - around <= rest <= most + around and _holds(self._numbers, rest, around, but)
            for one in self._numbers
            for rest, around, but in (
                (value - one, reach, None),
                (one - value, reach, one),
                (value / (one or 1), reach / abs(one or 1), None),
                (value * one, reach * abs(one), one),
                (one / value, 0, one),
            )
        )

    def of_two_in_cents(self, value: float) -> bool:
        """Whether a number is what two of them give, to the cent if it is an amount with cents."""
        return self.of_two(value, CENT if value != int(value) and round(value, 2) == value else 0)

    def of_three(self, value: float) -> bool:
        """Whether a number is what two of them and a third give."""
        return any(
            self._may_be_pair(rest) and self.of_two(rest)
            for third in filter(None, self._numbers)
            for rest in (value - third, value + third, third - value, value / third, value * third)
            if rest and isfinite(rest)
        )

    def _may_be_pair(self, value: float) -> bool:
        """Whether a number is near one that two of them give; no further than what `of_two` allows."""
        reach = 1.01 * max(1e-6, min(_REACH * (abs(value) + self._largest), _LEAST_APART))
        sums, products = self._pairs
        return _is_near(sums, value, reach) or _is_near(products, value, 1.01 * _REACH * abs(value))


def _is_near(ordered: Sequence[float], value: float, reach: float) -> bool:
    at = bisect_left(ordered, value - reach)
    return at < len(ordered) and ordered[at] <= value + reach


def _holds(ordered: Sequence[float], value: float, reach: float, but: float | None) -> bool:
    """Whether one of some numbers, but for one, is no further from a value than so."""
    if not isfinite(value):
        return False
    reach = max(reach, 1e-6 if value == int(value) else min(abs(value) * _REACH, _LEAST_APART))
    at = bisect_left(ordered, value - reach)
    return at < len(ordered) and ordered[at] <= value + reach and ordered[at] != but
