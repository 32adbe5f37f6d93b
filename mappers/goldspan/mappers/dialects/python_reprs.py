"""Python reprs, where an instrumentation leaves nothing else: literals are read, never evaluated."""

from __future__ import annotations

import ast
from typing import Any

_MAX_LENGTH = 1_000_000
_CLOSING = {"[": "]", "{": "}", "(": ")"}


def literal(text: str) -> Any:
    """Return the value of a Python literal; none where the text is none, or is too long to be worth it."""
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
    """Find where the bracket at `start` is closed, minding quoted text; 0 where it is not."""
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
