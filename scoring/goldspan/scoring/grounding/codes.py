"""Codes of countries, regions, currencies, languages and airports, and the names that people use for them.

The tables are those of `pycountry` and `airportsdata`, where these are installed: the extra `grounding`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from types import MappingProxyType

from goldspan.scoring.grounding.words import FILLERS, normalised, words_of

Name = tuple[str, ...]


def _name(text: str) -> Name:
    return tuple(word for word in words_of(normalised(text)) if word not in FILLERS)


@cache
def _table() -> Mapping[str, frozenset[Name]]:
    """Return names by code, and codes and other names by name, as words."""
    names: dict[str, set[Name]] = {}

    def alike(texts: Iterable[str | None]) -> None:
        given = [text for text in texts if text]
        for text in given:
            names.setdefault(" ".join(_name(text)), set()).update(_name(other) for other in given if other != text)

    if find_spec("pycountry"):
        import pycountry  # noqa: PLC0415 - optional, and slow to load

        for country in pycountry.countries:
            alike(
                (country.alpha_2, country.alpha_3, country.name, getattr(country, "common_name", None),
                 getattr(country, "official_name", None))
            )  # fmt: skip
        for currency in pycountry.currencies:
            alike((currency.alpha_3, currency.name))
            words = _name(currency.name)
            names.setdefault(" ".join(_name(currency.alpha_3)), set()).update(
                (word,) for word in words if len(word) > 3
            )
        for language in pycountry.languages:
            if (short := getattr(language, "alpha_2", None)) is not None:
                alike((short, language.alpha_3, language.name))
        for region in pycountry.subdivisions.get(country_code="US"):  # type: ignore[no-untyped-call]
            alike((region.code.removeprefix("US-"), region.name))
    if find_spec("airportsdata"):
        import airportsdata  # noqa: PLC0415 - optional, and slow to load

        for airport in airportsdata.load("IATA").values():
            code = " ".join(_name(airport["iata"]))
            city = _name(airport["city"])
            names.setdefault(code, set()).update((city, _name(airport["name"])))
            if city:
                for region in (airport["subd"], airport["country"]):
                    names.setdefault(" ".join(_name(region)), set()).add(city)
                names.setdefault(" ".join(city), set()).add((code,))
    return MappingProxyType({code: frozenset(found - {()}) for code, found in names.items()})


def names_of(value: str) -> Iterator[Name]:
    """Yield what else a code or name may be called, in words."""
    key = " ".join(_name(value))
    if key:
        yield from _table().get(key, ())


__all__ = ["names_of"]
