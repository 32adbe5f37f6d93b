"""JSON text as values with lines: `json` reads the values, a second look finds their lines and duplicate keys."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import PurePath

from goldspan.scoring.goldens.json_with_lines import MAX_DEPTH, MistakeCollector, SourcePlace, Unreadable, ValuePath
from goldspan.scoring.json_values import is_mapping
from goldspan.scoring.sessions import JsonValue

_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\]]|[^\s{}\[\],:"]++')

_Token = tuple[str, int]
"""Text and line."""


def read_json(text: str, notes: MistakeCollector) -> JsonValue:
    """Read one JSON document. `NaN` and `Infinity`, which Python writes, are read: they may stand where nobody looks.

    Raises Unreadable if it is not JSON, or nested too deep.
    """
    value, notes.place = read_value(text, notes)
    return value


def read_value(
    text: str, notes: MistakeCollector, where: ValuePath = (), line: int = 1
) -> tuple[JsonValue, SourcePlace]:
    """Read JSON text that begins on a line of the file, and stands at a place in its document.

    Raises Unreadable if it is not JSON, or nested too deep.
    """
    at = line if where else None
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        message = f"not JSON: {error.msg}, column {error.colno}"
        raise notes.unreadable(message, where=where, line=error.lineno + line - 1) from None
    except RecursionError:
        raise notes.unreadable(f"nested more than {MAX_DEPTH} levels deep", where=where, line=at) from None
    except ValueError as error:  # an integer with thousands of digits
        raise notes.unreadable(f"not usable: {error}", where=where, line=at) from None
    tokens = _tokens(text, line)
    return value, _place(next(tokens), tokens, where, notes)


def _tokens(text: str, line: int) -> Iterator[_Token]:
    seen = 0
    for found in _TOKEN.finditer(text):
        start = found.start()
        line += text.count("\n", seen, start)
        seen = start
        yield found.group(), line


def _place(
    token: _Token, tokens: Iterator[_Token], where: ValuePath, notes: MistakeCollector, of: int = 0
) -> SourcePlace:
    """Find the places in the value that begins with the token; `of` is the line of its key, if it has one."""
    opening, line = token
    if opening not in {"[", "{"}:
        return SourcePlace(of or line)
    if len(where) > MAX_DEPTH:
        raise notes.unreadable(f"nested more than {MAX_DEPTH} levels deep", line=line)
    inner: dict[str | int, SourcePlace] = {}
    if opening == "[":
        while (item := next(tokens))[0] != "]":
            inner[len(inner)] = _place(item, tokens, (*where, len(inner)), notes)
    else:
        while (key := next(tokens))[0] != "}":
            text, key_line = key
            name: str = json.loads(text) if "\\" in text else text[1:-1]
            if name in inner:
                notes.add((*where, name), duplicate_key_message(inner[name].line), line=key_line)
            inner[name] = _place(next(tokens), tokens, (*where, name), notes, key_line)
    return SourcePlace(of or line, inner)


def duplicate_key_message(line: int) -> str:
    """Return the message for a key that is already on `line`."""
    return f"this key appears twice in one object (first on line {line}): remove one of them"


_OF_A_SET = frozenset({"golden_set", "format", "version"})


def read_json_lines(text: str, notes: MistakeCollector) -> JsonValue:
    """Read one golden set; without a line that names it, it is called like the file."""
    header: dict[str, JsonValue] = {"golden_set": PurePath(notes.file).stem}
    header_places: dict[str | int, SourcePlace] = {}
    goldens: list[JsonValue] = []
    places: dict[str | int, SourcePlace] = {}
    first = True
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        with suppress(Unreadable):
            where = () if first and _is_header(line) else ("goldens", len(goldens))
            value, place = read_value(line, notes, where, number)
            if where:
                places[len(goldens)] = place
                goldens.append(value)
            else:
                header |= value
                header_places |= place.inner
        first = False
    notes.place = SourcePlace(1, {**header_places, "goldens": SourcePlace(1, places)})
    return {**header, "goldens": goldens}


def _is_header(line: str) -> bool:
    """Whether a line has fields of a set, which no golden has."""
    with suppress(Unreadable):
        value, _ = read_value(line, MistakeCollector(""))
        return is_mapping(value) and bool(_OF_A_SET & value.keys()) and "goldens" not in value
    return False
