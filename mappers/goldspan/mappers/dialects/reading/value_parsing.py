"""Reads recorded values: JSON text, paths into values, ids, Python reprs."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from goldspan.scoring.json_values import is_dict, is_mapping, is_sequence

_decode = msgspec.json.Decoder().decode


def loads(text: str) -> Any:
    """Parse JSON like `json.loads`, with the same values and errors: `ValueError`, `RecursionError`."""
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return json.loads(text)  # it knows more: NaN, lone surrogates, numbers of any size


# Steps that dialect tables use to extract part of a recorded value. None means "not here".

Take = Callable[[Any], Any]


def decoded(value: Any) -> Any:
    """Decode JSON text; None if it is invalid. Other values are returned unchanged."""
    if isinstance(value, str):
        try:
            return loads(value)
        except (ValueError, RecursionError):
            return None
    return value


def decoded_dict(value: Any) -> dict[str, Any] | None:
    """Decode JSON text of an object, or take an object; none for anything else."""
    value = decoded(value)
    return value if is_dict(value) else None


def at(*path: str | int) -> Take:
    """Return a step that follows a path of keys and positions, and decodes JSON text on the way."""

    def take(value: Any) -> Any:
        for step in path:
            value = decoded(value)
            if isinstance(step, str):
                value = value.get(step) if is_mapping(value) else None
            else:
                value = value[step] if is_sequence(value) and -len(value) <= step < len(value) else None
        return value

    return take


def text_at(*path: str | int) -> Take:
    """Return a step that follows a path to a text; None if it finds anything else."""
    down = at(*path)

    def take(value: Any) -> Any:
        found = down(value)
        return found if isinstance(found, str) else None

    return take


def plain_text(value: Any) -> Any:
    """Take text as it is, and JSON text of a string as that string; objects and arrays are no text."""
    if not isinstance(value, str) or value[:1] in {"{", "["}:
        return None
    inner = decoded(value) if value[:1] == '"' else value
    return inner if isinstance(inner, str) else value


def only_text(value: Any) -> Any:
    """Take the only text among a call's arguments: plain, by name or by position."""
    if (text := plain_text(value)) is not None:
        return text
    found = decoded(value)
    if not is_mapping(found):
        return None
    args, kwargs = found.get("args"), found.get("kwargs")
    values = list(found.values())
    if is_sequence(args) and is_mapping(kwargs):
        values = [*args, *kwargs.values()]
    texts = [text for text in values if isinstance(text, str)]
    return texts[0] if len(texts) == 1 else None


def first_of(*steps: Take) -> Take:
    """Return the first of several steps that finds something."""

    def take(value: Any) -> Any:
        for step in steps:
            if (found := step(value)) is not None:
                return found
        return None

    return take


# Ids as senders write them.

_MAX_DIGITS_BITS = 512


def identifier(value: object) -> str | None:
    """Return an id as text. Whole numbers are ids; blank texts and other types are not."""
    if isinstance(value, str):
        return value if value and not value.isspace() else None
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() <= _MAX_DIGITS_BITS:
        return str(value)
    return None


def positive_number(value: object) -> int | None:
    """Return a whole number from 1, also if it is written as text."""
    number = int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 10 else value
    return number if isinstance(number, int) and not isinstance(number, bool) and 0 < number < 1 << 31 else None


def identifiers(attributes: Mapping[str, Any], keys: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each of these keys that holds an id, with the id."""
    for key in keys:
        if (found := identifier(attributes.get(key))) is not None:
            yield key, found


def first_identifier(attributes: Mapping[str, Any], keys: Iterable[str]) -> str | None:
    """Return the first id under one of these keys."""
    return next((found for _, found in identifiers(attributes, keys)), None)


# Some instrumentations record only Python reprs. Literals are parsed, never evaluated.

_MAX_LENGTH = 1_000_000
_CLOSING = {"[": "]", "{": "}", "(": ")"}


def literal(text: str) -> Any:
    """Return the value of a Python literal; None if the text is not a literal or is too long."""
    if len(text) > _MAX_LENGTH:
        return None
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return None


def literal_at(text: str, start: int) -> tuple[Any, int]:
    """Return the value of the list, dict or tuple literal at this position of a longer repr, and where it ends."""
    end = _end_of_bracket(text, start)
    return (literal(text[start:end]), end) if end else (None, start)


def _end_of_bracket(text: str, start: int) -> int:
    """Return the end of the bracket at `start`, skipping quoted text; 0 if it is not closed."""
    open_brackets: list[str] = []
    quote = ""
    position = start
    while position < min(len(text), start + _MAX_LENGTH):
        character = text[position]
        if quote:
            if character == "\\":
                position += 1
            elif character == quote:
                quote = ""
        elif character in {"'", '"'}:
            quote = character
        elif character in _CLOSING:
            open_brackets.append(_CLOSING[character])
        elif open_brackets and character == open_brackets[-1]:
            open_brackets.pop()
            if not open_brackets:
                return position + 1
        position += 1
    return 0
