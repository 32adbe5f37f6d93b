"""Taking what is wanted out of a recorded value: the steps that dialect tables name. None means "not here"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from goldspan.mappers.json_shapes import is_mapping, is_sequence
from goldspan.mappers.json_texts import loads

Take = Callable[[Any], Any]


def decoded(value: Any) -> Any:
    """Decode JSON text; none where it is none."""
    if isinstance(value, str):
        try:
            return loads(value)
        except (ValueError, RecursionError):
            return None
    return value


def at(*path: str | int) -> Take:
    """Return a step down a path of keys and positions, through JSON text where it is written as such."""

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
    """Return a step down a path to a text; anything else there is none."""
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
    """Take the one text among the arguments of a call that was given a question: plain, by name or by position."""
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
