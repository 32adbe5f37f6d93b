"""Codes of countries, regions, currencies, languages and airports, and the names that people use for them.

The tables are those of `pycountry` and `airportsdata`, where these are installed: the extra `grounding`. What a city is
called in other languages is in `cities.txt`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from itertools import chain, pairwise
from types import MappingProxyType
from typing import Any, cast

from goldspan.scoring.grounding.words import (
    FILLERS,
    LAST_LATIN,
    UNSPACED,
    normalised,
    remembered,
    without_marks,
    words_of,
)

Name = tuple[str, ...]
_LONGEST_CITY = 40
_SHORT = 3  # words of currencies up to this length, such as `us`, name none alone


_ANY_AIRPORT = frozenset(("airport", "international", "intl", "regional", "municipal", "field", "airfield", "airpark"))


def _name(text: str) -> Name:
    return tuple(word for word in words_of(normalised(text)) if word not in FILLERS)


@cache
def _table() -> Mapping[str, tuple[Name, ...]]:
    """Return names by code, and codes and other names by name, as words, in one order in every process."""
    names: dict[str, set[Name]] = {}
    for alike in _records():
        for text in filter(None, alike):
            names.setdefault(" ".join(_name(text)), set()).update(
                _name(other) for other in alike if other and other != text
            )
    for code, name in _currencies():
        names.setdefault(" ".join(_name(code)), set()).update((word,) for word in _name(name) if len(word) > _SHORT)
    for airport in _airports():
        code, city = " ".join(_name(airport["iata"])), _name(airport["city"])
        named = _name(airport["name"])
        own = [word for word in named if len(word) > _SHORT and word not in city and word not in _ANY_AIRPORT]
        names.setdefault(code, set()).update((city, named, *((word,) for word in own[:1])))
        if city:
            for region in (airport["subd"], airport["country"]):
                names.setdefault(" ".join(_name(region)), set()).add(city)
            names.setdefault(" ".join(city), set()).add((code,))
    return MappingProxyType({code: tuple(sorted(found - {()})) for code, found in names.items()})


def _records() -> Iterator[tuple[str | None, ...]]:
    """Yield the codes and names of each country, currency, language and state of the US."""
    if find_spec("pycountry") is None:
        return
    pycountry: Any = import_module("pycountry")  # optional, and slow to load
    for country in pycountry.countries:
        more = (getattr(country, "common_name", None), getattr(country, "official_name", None))
        yield (country.alpha_2, country.alpha_3, country.name, *more)
    for language in pycountry.languages:
        if (short := getattr(language, "alpha_2", None)) is not None:
            yield (short, language.alpha_3, language.name)
    for region in pycountry.subdivisions.get(country_code="US"):
        yield (region.code.removeprefix("US-"), region.name)
    yield from _currencies()


def is_currency(code: str) -> bool:
    """Whether a text is the code of a currency, whose name is known in other languages, too."""
    return len(code) == 3 and code.isupper() and code in _codes_of_currencies()


@cache
def _codes_of_currencies() -> frozenset[str]:
    return frozenset(code for code, _ in _currencies())


SIGNS_OF_CURRENCIES: Mapping[str, str] = {
    "USD": "$", "CAD": "$", "AUD": "$", "EUR": "€", "GBP": "£", "JPY": "¥", "CNY": "¥", "INR": "₹", "KRW": "₩",
    "BRL": "r$", "PLN": "zł", "RUB": "₽", "TRY": "₺", "ILS": "₪", "THB": "฿", "VND": "₫", "UAH": "₴", "NGN": "₦",
}  # fmt: skip
"""The signs that stand beside amounts, as texts are normalised."""


@cache
def words_of_currencies() -> frozenset[str]:
    """Return the codes of currencies and the last words of their names: `usd`, `dollar`, `dollars`."""
    last = {word for _, name in _currencies() for word in _name(name)[-1:]}
    return frozenset((*map(str.lower, _codes_of_currencies()), *last, *(f"{word}s" for word in last)))


def _currencies() -> Iterator[tuple[str, str]]:
    if find_spec("pycountry") is not None:
        pycountry: Any = import_module("pycountry")
        for currency in pycountry.currencies:
            yield currency.alpha_3, currency.name
        yield from (("GBP", "quid"), ("GBP", "tenner"), ("GBP", "fiver"), ("USD", "bucks"))


def _airports() -> Iterable[Mapping[str, str]]:
    if find_spec("airportsdata") is None:
        return ()
    airportsdata: Any = import_module("airportsdata")  # optional, and slow to load
    return cast("Iterable[Mapping[str, str]]", airportsdata.load("IATA").values())


@remembered
def names_of(value: str) -> tuple[Name, ...]:
    """Return what else a code or name may be called, in words."""
    key = " ".join(_name(value))
    return _table().get(key, ()) if key else ()


@cache
def _cities() -> Sequence[str]:
    listed = (files("goldspan.scoring.grounding") / "cities.txt").read_text("utf-8").splitlines()
    return [line for line in listed if not line.startswith("#")]


@cache
def _cities_by_name() -> Mapping[str, Sequence[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for line in _cities():
        for name in line.split("|")[1:-1]:
            found[name].append(line)
    return dict(found)


def _as_listed(name: str) -> str:
    plain = normalised(name)
    return next(iter(without_marks(plain)), plain)


@remembered
def names_of_city(name: str) -> tuple[str, ...]:
    """Return what the cities of a name, or of the code of an airport, are called in other languages.

    All are written without capitals and accents, and have four letters at least in Latin script.
    """
    if len(name) > _LONGEST_CITY or (len(name) < 4 and name.isascii() and not name.isupper()):
        return ()
    names = chain.from_iterable(line.split("|")[1:-1] for line in _cities_by_name().get(_as_listed(name), ()))
    return tuple(one for one in dict.fromkeys(names) if len(one) > 3 or one[0] > LAST_LATIN)


@lru_cache(64)
def _cities_in(country: str) -> str:
    """Return the cities of a country, by its code of two small letters."""
    return "".join(line[2:] for line in _cities() if line.startswith(f"{country}|"))


def names_city_in(country: str, text: str, words: Sequence[str]) -> bool:
    """Whether a normalised text, which has these words, names a city of a country, by its code of two letters."""
    known = _cities_in(country.lower())
    pairs = (f"{one} {other}" for one, other in pairwise(words))
    if any(f"|{_as_listed(one)}|" in known for one in chain(words, pairs) if len(one) > 3):
        return True
    return not text.isascii() and any(name in text for name in known.split("|") if name and name[0] >= UNSPACED)
