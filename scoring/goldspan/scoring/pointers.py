"""JSON Pointers (RFC 6901): `/address/zip`, with `~1` for a `/` and `~0` for a `~` in a key."""

from __future__ import annotations

import re
from collections.abc import Sequence

from goldspan.scoring.comparison import is_list, is_object
from goldspan.scoring.rendering import shown
from goldspan.scoring.sessions import JsonValue

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
    return "".join(f"/{step.replace('~', '~0').replace('/', '~1')}" for step in steps)


def value_at(value: JsonValue, steps: Sequence[str]) -> JsonValue:
    """Return what stands there. Raises LookupError if nothing does."""
    for step in steps:
        if is_object(value):
            value = value[step]
        elif is_list(value) and _INDEX.fullmatch(step):
            value = value[int(step)]
        else:
            raise LookupError(step)
    return value
