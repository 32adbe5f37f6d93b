"""Numbers in a text: digits, words, units, and what follows from few of them by arithmetic."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import isfinite
from typing import NamedTuple

from goldspan.scoring.grounding.words import COUNTING, SCALES, is_tens, is_unit, number_word, words_of

_NUMBER = re.compile(
    r"(?<![a-z_0-9.])(?P<sign>[-−+])?(?P<money>[$€£¥₹]\s?)?(?P<digits>\d{1,3}(?:,\d{2,3})+(?:\.\d+)?|\d{1,3}(?:\.\d{3})+,\d+|\d+(?:\.\d+)?(?:e[-+]?\d+)?|\.\d+)"
    r"(?:\s?(?P<unit>[a-z°%²³/]+|%))?"
)
_FEET = re.compile(r"(?<!\w)(\d)\s?(?:'|’|ft|feet|foot)\s?(\d{1,2})(?:\"|”|''|\s?in\w*|\b)")
_POWER = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)\s*(?:x|×|\*)\s*10\s*(?:\^|\*\*)\s*\(?([-−+]?\d{1,3})")
_FRACTION = re.compile(r"(?<![\w./])(\d+)\s*/\s*(\d+)(?![\w/])")
_WORD = re.compile(r"[^\W\d_]+|\d+(?:st|nd|rd|th)\b")

# factor to the first unit of each dimension
_DIMENSIONS: tuple[dict[str, float], ...] = (
    {"second": 1, "s": 1, "sec": 1, "minute": 60, "min": 60, "hour": 3600, "hr": 3600, "h": 3600, "day": 86400, "night": 86400,
     "week": 604800, "fortnight": 1209600, "month": 2592000, "quarter": 7776000, "year": 31536000, "yr": 31536000,
     "decade": 315360000, "ms": 0.001, "millisecond": 0.001},
    {"month": 1, "quarter": 3, "year": 12, "yr": 12, "decade": 120},
    {"meter": 1, "metre": 1, "m": 1, "km": 1000, "kilometer": 1000, "kilometre": 1000, "cm": 0.01, "centimeter": 0.01, "mm": 0.001,
     "millimeter": 0.001, "inch": 0.0254, "in": 0.0254, "foot": 0.3048, "feet": 0.3048, "ft": 0.3048, "yard": 0.9144, "mile": 1609.344,
     "mi": 1609.344, "nm": 1e-9, "nanometer": 1e-9, "micrometer": 1e-6},
    {"g": 1, "gram": 1, "kg": 1000, "kilogram": 1000, "mg": 0.001, "lb": 453.59237, "pound": 453.59237, "oz": 28.349523, "ounce": 28.349523,
     "ton": 1e6, "tonne": 1e6},
    {"l": 1, "liter": 1, "litre": 1, "ml": 0.001, "milliliter": 0.001, "gallon": 3.785411784, "cup": 0.24, "tablespoon": 0.015, "teaspoon": 0.005},
    {"b": 1, "byte": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12},
    {"b": 1, "byte": 1, "kb": 1024, "mb": 1024**2, "gb": 1024**3, "tb": 1024**4, "kib": 1024, "mib": 1024**2, "gib": 1024**3},
    {"cent": 1, "dollar": 100, "euro": 100, "usd": 100, "eur": 100},
    {"pa": 1, "kpa": 1e3, "mpa": 1e6, "bar": 1e5, "atm": 101325},
    {"j": 1, "joule": 1, "kj": 1e3, "kilojoule": 1e3, "mj": 1e6},
    {"w": 1, "watt": 1, "kw": 1e3, "kilowatt": 1e3, "mw": 1e6},
    {"hz": 1, "khz": 1e3, "mhz": 1e6, "ghz": 1e9},
    {"c": 1, "coulomb": 1, "uc": 1e-6, "microcoulomb": 1e-6, "nc": 1e-9, "nanocoulomb": 1e-9},
    {"m/s": 1, "km/h": 1 / 3.6, "kmh": 1 / 3.6, "kph": 1 / 3.6, "mph": 0.44704},
)  # fmt: skip


class Quantity(NamedTuple):
    """A number that a text holds."""

    value: float
    position: int
    """Where it begins, in characters of the text."""
    unit: str
    """The word after it, or nothing."""
    form: str = "digits"
    """`digits`, `word` for a number in words, `implied` for one that words such as `couple` or `weekly` imply."""


def as_number(text: str) -> float | None:
    """Return the number that a whole text is, as in `1,200.50`, `$5`, `12%`; none for another text."""
    text = text.strip().strip("$€£¥₹#%").replace("−", "-").strip()
    if not text or len(text) > 40 or not any(char.isdigit() for char in text):
        return None
    if re.fullmatch(r"[-+]?\d{1,3}(,\d{2,3})+(\.\d+)?", text):
        text = text.replace(",", "")
    elif re.fullmatch(r"[-+]?\d{1,3}(\.\d{3})+,\d+|[-+]?\d+,\d{1,2}", text):
        text = text.replace(".", "").replace(",", ".")
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


def same(one: float, other: float) -> bool:
    """Whether two numbers are one, up to nine digits."""
    return one == other or abs(one - other) <= 1e-9 * max(abs(one), abs(other))


def singular(unit: str) -> str:
    """Return a unit without the ending of its plural."""
    if unit in ("feet", "inches"):
        return {"feet": "foot", "inches": "inch"}[unit]
    return unit[:-1] if len(unit) > 2 and unit.endswith("s") else unit


def quantities_of(text: str) -> Iterator[Quantity]:
    """Yield the numbers of a normalised text."""
    for match in _NUMBER.finditer(text):
        value = as_number(match["digits"])
        if value is None:
            continue
        unit = "dollar" if match["money"] and match["unit"] not in SCALES else match["unit"] or ""
        if match["sign"] in ("-", "−"):
            before = text[match.start() - 1 : match.start()]
            if not before.strip() or not before.isalnum():
                yield Quantity(-value, match.start(), unit)
        if unit in SCALES and match["unit"]:
            yield Quantity(value * SCALES[unit], match.start(), "")
        yield Quantity(value, match.start(), unit)
    for match in _FEET.finditer(text):
        yield Quantity(int(match[1]) * 12 + int(match[2]), match.start(), "inch")
    for match in _POWER.finditer(text):
        yield Quantity(float(match[1]) * 10.0 ** int(match[2].replace("−", "-")), match.start(), "")
    for match in _FRACTION.finditer(text):
        if int(match[2]):
            yield Quantity(int(match[1]) / int(match[2]), match.start(), "")
    yield from _spelled(text)


def _spelled(text: str) -> Iterator[Quantity]:
    total: float = 0
    current: float = 0
    start: int | None = None
    last_end = 0
    for match in _WORD.finditer(text):
        word = match[0]
        gap = text[last_end : match.start()]
        joined = start is not None and gap.strip(" -") == ""
        value = number_word(word)
        if start is not None and not (joined and (value is not None or word in SCALES or word == "and")):
            yield Quantity(total + current, start, word if joined else "", "word")
            start, total, current = None, 0, 0
        if value is not None:
            if start is None:
                start, total, current = match.start(), 0, value
            elif is_unit(word) and current and (is_tens(last_word) or current % 100 == 0):
                current += value
            elif is_tens(word) and current % 100 == 0:
                current += value
            else:
                yield Quantity(total + current, start, "", "word")
                start, total, current = match.start(), 0, value
        elif word in SCALES and word != "k":
            if start is None:
                start, total, current = match.start(), 0, 1
            if SCALES[word] == 100 or SCALES[word] == 12:
                current *= SCALES[word]
            else:
                total, current = total + current * SCALES[word], 0
        elif word in COUNTING:
            for implied in COUNTING[word]:
                yield Quantity(implied, match.start(), "", "implied")
        last_end = match.end()
        last_word = word
    if start is not None:
        yield Quantity(total + current, start, "", "word")


ABBREVIATIONS: dict[str, str] = {
    "m": "meter", "km": "kilometer", "cm": "centimeter", "mm": "millimeter", "mi": "mile", "ft": "foot", "in": "inch", "yd": "yard",
    "kg": "kilogram", "g": "gram", "mg": "milligram", "lb": "pound", "lbs": "pound", "oz": "ounce", "l": "liter", "ml": "milliliter",
    "s": "second", "sec": "second", "min": "minute", "mins": "minute", "hr": "hour", "hrs": "hour", "h": "hour", "yr": "year",
    "c": "celsius", "f": "fahrenheit", "k": "kelvin", "j": "joule", "w": "watt", "n": "newton", "pa": "pascal", "hz": "hertz",
    "mph": "mile", "kph": "kilometer", "metre": "meter", "litre": "liter", "feet": "foot", "inches": "inch", "us": "usa", "uk": "kingdom",
}  # fmt: skip
"""Units and their names."""


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
        if unit.startswith(("fahrenheit", "°f", "f")) and _rounded(value, (quantity.value - 32) / 1.8):
            return quantity
        if unit.startswith(("celsius", "°c", "c")) and _rounded(value, quantity.value * 1.8 + 32):
            return quantity
    return None


def _rounded(value: float, exact: float) -> bool:
    """Whether a value is an exact one rounded to at least two decimals, or three digits."""
    return value != int(value) and (round(exact, 2) == value or round(exact, 1) == value or abs(value - exact) <= 0.002 * abs(exact))


def computed(value: float, known: Sequence[float], limit: int = 40) -> tuple[float, ...] | None:
    """Return two or three known numbers whose sum, difference, product or quotient is a value; the latest ones count."""
    numbers = list(dict.fromkeys(reversed(known)))[:limit]
    for one in numbers:
        for other in numbers:
            if same(one + other, value) or same(one - other, value) or same(one * other, value):
                return one, other
            if other and same(one / other, value):
                return one, other
    by_key = {round(number, 6): number for number in numbers}
    for one in numbers:
        for other in numbers:
            for part in (one + other, one - other):
                if (third := by_key.get(round(value - part, 6))) is not None:
                    return one, other, third
                if part and (third := by_key.get(round(value / part, 6))) is not None:
                    return one, other, third
            if (third := by_key.get(round(value - one * other, 6))) is not None:
                return one, other, third
    return None


__all__ = ["Quantity", "as_number", "computed", "converted", "quantities_of", "same", "singular", "words_of"]
