"""JSON text as values with lines: `json` reads the values, a second look finds their lines and duplicate keys."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from goldspan.scoring.goldens.documents import MAX_DEPTH, Notes, Place, Where
from goldspan.scoring.sessions import JsonValue

_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\]]|[^\s{}\[\],:"]++')


class _Token(NamedTuple):
    text: str
    line: int


def read_json(text: str, notes: Notes) -> JsonValue:
    """Read one JSON document. `NaN` and `Infinity`, which Python writes, are read: they may stand where nobody looks.

    Raises:
        Unreadable: it is not JSON, or nested too deep.

    """
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise notes.unreadable(f"not JSON: {error.msg}, column {error.colno}", line=error.lineno) from None
    except RecursionError:
        raise notes.unreadable(f"nested more than {MAX_DEPTH} levels deep") from None
    except ValueError as error:  # an integer with thousands of digits
        raise notes.unreadable(f"not usable: {error}") from None
    tokens = _tokens(text)
    notes.place = _place(next(tokens), tokens, (), notes)
    return value


def _tokens(text: str) -> Iterator[_Token]:
    line, seen = 1, 0
    for found in _TOKEN.finditer(text):
        line += text.count("\n", seen, found.start())
        seen = found.start()
        yield _Token(found.group(), line)


def _place(token: _Token, tokens: Iterator[_Token], where: Where, notes: Notes) -> Place:
    if len(where) > MAX_DEPTH:
        raise notes.unreadable(f"nested more than {MAX_DEPTH} levels deep", line=token.line)
    inner: dict[str | int, Place] = {}
    if token.text == "[":
        while (item := next(tokens)).text != "]":
            inner[len(inner)] = _place(item, tokens, (*where, len(inner)), notes)
    elif token.text == "{":
        while (key := next(tokens)).text != "}":
            name: str = json.loads(key.text)
            if name in inner:
                notes.add((*where, name), twice(inner[name].line), line=key.line)
            inner[name] = _place(next(tokens), tokens, (*where, name), notes)._replace(line=key.line)
    return Place(token.line, inner)


def twice(line: int) -> str:
    """Say what is wrong with a key that is already on `line`."""
    return f"this key stands twice in one object (first on line {line}): remove one of them"
