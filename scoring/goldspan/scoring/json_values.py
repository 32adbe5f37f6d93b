"""Values for people and for documents: whatever a sender wrote becomes text or JSON that can be printed.

Nothing here raises: nesting is cut at `DEEPEST`, numbers JSON cannot hold become strings that say so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, TypeGuard, cast

import msgspec

from goldspan.scoring.sessions import JsonValue

_NO_MAPPING = (str, type(None), list, int, float, bytes, tuple)
_NO_SEQUENCE = (str, dict, type(None), int, float, bytes)
# Abstract base classes are slow to check, so common types are checked first. `list | tuple` would be built each time.


def is_mapping(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Return whether a value is an object: a dict, or a mapping such as the read-only ones of the SDK."""
    return isinstance(value, dict) or (not isinstance(value, _NO_MAPPING) and isinstance(value, Mapping))


def is_dict(value: object) -> TypeGuard[dict[str, Any]]:
    """Return whether a value is a dict; string keys are assumed."""
    return isinstance(value, dict)


def is_sequence(value: object) -> TypeGuard[Sequence[Any]]:
    """Return whether a value is an array: a list, a tuple or another sequence, but no text."""
    return isinstance(value, (list, tuple)) or (not isinstance(value, _NO_SEQUENCE) and isinstance(value, Sequence))


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Return whether a value is a list; a tuple is not."""
    return isinstance(value, list)


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value is a JSON number; booleans, NaN and infinities are not."""
    return (
        isinstance(value, (int, float)) and not isinstance(value, bool) and (isinstance(value, int) or isfinite(value))
    )


DEEPEST = 64
_JSON = json.JSONEncoder(ensure_ascii=False)
_ELLIPSIS = "…"
_LARGEST_BITS = 4_096


def plain(value: JsonValue, depth: int = DEEPEST) -> JsonValue:
    """Return the value as JSON that any parser reads."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, int):
        return value if value.bit_length() <= _LARGEST_BITS else f"<integer of {value.bit_length()} bits>"
    if isinstance(value, float):
        return value if isfinite(value) else {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    if depth <= 0:
        return _ELLIPSIS
    if isinstance(value, (list, tuple)):
        elements = cast("Sequence[JsonValue]", value)
        return [plain(element, depth - 1) for element in elements]
    if isinstance(value, Mapping):
        items = cast("Mapping[object, JsonValue]", value)
        return {key if isinstance(key, str) else shown(key): plain(item, depth - 1) for key, item in items.items()}
    return f"<{type(value).__name__}>"


def shown(value: JsonValue, longest: int = 80) -> str:
    """Return the value as JSON text on one line, cut where it is long."""
    text = _JSON.encode(plain(value))
    return text if len(text) <= longest else text[: longest - 1] + _ELLIPSIS


def shown_name(name: str, longest: int = 80) -> str:
    """Return a name as it is where it can be printed on one line, else as JSON text."""
    text = name if name and name.isprintable() else json.dumps(plain(name))
    return text if len(text) <= longest else text[: longest - 1] + _ELLIPSIS


_STEERING = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def escaped(text: str) -> str:
    """Escape, in JSON text, what would control a terminal, end a line, or turn the reading direction."""
    return text if text.isascii() else _STEERING.sub(lambda one: f"\\u{ord(one.group()):04x}", text)


def json_text(document: object) -> str:
    """Return a document as commands print it."""
    text = escaped(json.dumps(document, ensure_ascii=False, allow_nan=False))
    try:
        return msgspec.json.format(text, indent=2)  # the same text as by `dumps` in a fifth of the time
    except UnicodeEncodeError:  # a lone surrogate
        return escaped(json.dumps(document, ensure_ascii=False, indent=2))


# JSON Pointers (RFC 6901): `/address/zip`, with `~1` for a `/` and `~0` for a `~` in a key.

Steps = tuple[str, ...]
"""The keys and indexes of a way into a value, as text."""

_STRAY = re.compile(r"~(?![01])")
_INDEX = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)


def steps_of(pointer: str) -> Steps:
    """Return the steps of a pointer; the empty one has none. Raises ValueError for what is no pointer."""
    if pointer and (not pointer.startswith("/") or _STRAY.search(pointer)):
        wanted = "a JSON Pointer such as /address/zip, with ~1 for a / and ~0 for a ~ in a key"
        raise ValueError(f"found {shown(pointer)}, expected {wanted}")
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:])


def pointer_to(steps: Sequence[str]) -> str:
    """Return the pointer with these steps."""
    return "".join([f"/{step.replace('~', '~0').replace('/', '~1')}" for step in steps])


def pointer_name(pointer: str) -> str:
    """Return a JSON Pointer as people write a place: `/items/0/id` is `items[0].id`."""
    return "".join(f"[{step}]" if step.isdecimal() else f".{step}" for step in steps_of(pointer)).removeprefix(".")


def value_at(value: JsonValue, steps: Sequence[str]) -> JsonValue:
    """Return the value at these steps. Raises LookupError if there is none."""
    for step in steps:
        if is_mapping(value):
            value = value[step]
        elif is_sequence(value) and _INDEX.fullmatch(step):
            value = value[int(step)]
        else:
            raise LookupError(step)
    return value


def counted(number: int, thing: str) -> str:
    """Return `1 call` or `2 calls`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
