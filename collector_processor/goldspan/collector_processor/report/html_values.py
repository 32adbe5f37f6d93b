"""Two values side by side as HTML, with what differs between them marked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from goldspan.collector_processor.report.values import differences, may_be_absent, printable
from goldspan.mappers.json_shapes import is_list, is_object
from goldspan.scoring.matchers.escaping import dollar_keys
from goldspan.scoring.rendering import plain
from goldspan.scoring.sessions import JsonValue

LONGEST = 20_000
"""Characters of one value that are shown; the JSON document has all of it."""
_ON_ONE_LINE = 48
_CUT = "… cut here; the JSON document has the whole value"
_INDENT = "  "

_Part = tuple[str, bool]
"""Text, and whether it is marked."""


def html_text(text: str) -> str:
    """Escape text for HTML, and whatever in it could not be seen."""
    return escape(printable(text))


def value_html(value: JsonValue) -> str:
    """Write one value as JSON: short ones on one line."""
    value = plain(value)
    return _html(_parts(value, value, "", casefold=False))


def side_by_side(expected: JsonValue, actual: JsonValue, *, casefold: bool = False) -> tuple[str, str]:
    """Write both values as JSON, each with the innermost parts marked in which it differs from the other."""
    expected, actual = plain(expected), plain(actual)
    return (
        _html(_parts(expected, actual, "", casefold=casefold)),
        _html(_parts(actual, expected, "", casefold=casefold)),
    )


def _html(parts: Iterable[_Part]) -> str:
    room = LONGEST
    pieces: list[str] = []
    for text, marked in parts:
        # What holds a line break is layout: JSON writes those of a text as an escape.
        shown = escape(text) if "\n" in text else html_text(text[:room])
        pieces.append(f"<mark>{shown}</mark>" if marked and shown else shown)
        room -= len(text)
        if room < 0:
            pieces.append(f'<span class="none"> {_CUT}</span>')
            break
    return "".join(pieces)


def _parts(value: JsonValue, other: JsonValue, indent: str, *, casefold: bool) -> Iterator[_Part]:
    if is_object(value) and is_object(other) and not (dollar_keys(value) or dollar_keys(other)):
        items = [(f"{_json(key)}: ", value[key], key in other, other.get(key)) for key in value]
        yield from _container("{}", items, value, indent, casefold=casefold)
    elif is_list(value) and is_list(other) and len(value) == len(other):
        yield from _container(
            "[]",
            [("", mine, True, its) for mine, its in zip(value, other, strict=True)],
            value,
            indent,
            casefold=casefold,
        )
    elif not differences(value, other, casefold=casefold):
        yield _json(value), False
    elif isinstance(value, str) and isinstance(other, str):
        yield from _string(value, other, casefold=casefold)
    else:
        yield _json(value), True


def _container(
    brackets: str,
    items: Sequence[tuple[str, JsonValue, bool, JsonValue]],
    value: JsonValue,
    indent: str,
    *,
    casefold: bool,
) -> Iterator[_Part]:
    short = not items or len(_json(value)) <= _ON_ONE_LINE
    inner = indent + _INDENT
    yield brackets[0], False
    for index, (head, mine, shared, its) in enumerate(items):
        if index:
            yield ("," if not short else ", "), False
        if not short:
            yield f"\n{inner}", False
        if not shared:
            yield head + _json(mine), not may_be_absent(mine)
            continue
        yield head, False
        yield from _parts(mine, its, inner, casefold=casefold)
    if not short:
        yield f"\n{indent}", False
    yield brackets[1], False


def _string(value: str, other: str, *, casefold: bool) -> Iterator[_Part]:
    """Mark what is between the common beginning and the common end of two texts."""
    mine, its = list(value), list(other)
    if casefold:
        mine, its = [char.casefold() for char in mine], [char.casefold() for char in its]
    begin = _common(mine, its)
    end = _common(mine[begin:][::-1], its[begin:][::-1])
    stop = len(value) - end
    yield f'"{_inside(value[:begin])}', False
    yield _inside(value[begin:stop]), True
    yield f'{_inside(value[stop:])}"', False


def _common(first: Sequence[str], second: Sequence[str]) -> int:
    pairs = enumerate(zip(first, second, strict=False))
    return next((index for index, (one, other) in pairs if one != other), min(len(first), len(second)))


def _json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)


def _inside(text: str) -> str:
    return _json(text)[1:-1]
