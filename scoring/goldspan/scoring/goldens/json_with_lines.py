"""A file's text as JSON values that know their line, and the mistakes in them.

Mistakes never stop at the first: readers note them and go on. Only text that cannot be read at all, or that would grow
beyond all bounds, ends a file at once (`Unreadable`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple, cast

from goldspan.scoring.errors import Mistake
from goldspan.scoring.json_values import is_list, is_mapping, shown
from goldspan.scoring.sessions import JsonValue

MAX_DEPTH = 100
"""Levels of lists and objects in each other: beyond any tool's arguments, far below Python's recursion limit."""
MAX_VALUES = 1_000_000
"""Values in one file, each use of an alias counted: some lines of YAML aliases can stand for billions."""


ValuePath = tuple[str | int, ...]
"""The way to a value from the top of a document: keys and indexes."""
JsonSchema = dict[str, Any]


class SourcePlace(NamedTuple):
    """The line of a value, counted from 1, and the places of what it holds."""

    line: int
    inner: Mapping[str | int, SourcePlace] = {}


NOWHERE = SourcePlace(0)
"""The place of values that came from no text."""


class Unreadable(Exception):  # noqa: N818 - it ends one file and never leaves this room
    """The text as a whole cannot be used; its one mistake is already noted."""


@dataclass(slots=True)
class MistakeCollector:
    """The mistakes found in one file so far, and where its values stand."""

    file: str
    place: SourcePlace = NOWHERE
    mistakes: list[Mistake] = field(default_factory=list[Mistake])

    def line(self, where: ValuePath) -> int | None:
        """Find the line of the value, else of the nearest value around it."""
        place = self.place
        for step in where:
            if step not in place.inner:
                break
            place = place.inner[step]
        return place.line or None

    def add(self, where: ValuePath, message: str, *, line: int | None = None) -> None:
        """Note a mistake; `line` where it is known better than the place of the value."""
        self.mistakes.append(Mistake(self.file, path_text(where), message, line or self.line(where)))

    def source(self, where: ValuePath) -> str:
        """Name the place for people: `file:line`, or the way to the value where there are no lines."""
        line = self.line(where)
        if line is None:
            return f"{self.file} {path_text(where)}".strip()
        return f"{self.file}:{line}" if where else self.file

    def unreadable(self, message: str, *, where: ValuePath = (), line: int | None = None) -> Unreadable:
        """Note a mistake after which nothing more of the file can be read."""
        self.add(where, message, line=line)
        return Unreadable(message)

    def in_order(self) -> list[Mistake]:
        """List the mistakes from the top of the file to its end."""
        return sorted(self.mistakes, key=lambda mistake: mistake.line or 0)


def path_text(where: ValuePath) -> str:
    """Write a way as people do: `goldens[2].turns[0].calls[1].args`."""
    text = ""
    for step in where:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.isidentifier():
            text += f".{step}" if text else step
        else:
            text += f"[{json.dumps(step, ensure_ascii=False)}]"
    return text


def nearest(name: str, known: Sequence[str]) -> str | None:
    """Find the known name that was probably meant, if one is near; spelling in camelCase is near."""
    by_folded = {one.replace("_", "").casefold(): one for one in known}
    near = get_close_matches(name.replace("_", "").replace("-", "").casefold(), by_folded, n=1)
    return by_folded[near[0]] if near else None


def read_text(path: Path, notes: MistakeCollector) -> str:
    """Read the text of a UTF-8 file, with or without a byte order mark."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise notes.unreadable("there is no such file") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise notes.unreadable("not UTF-8 text: save the file as UTF-8", line=line) from None
    except OSError as error:
        raise notes.unreadable(f"cannot be read: {error.strerror or error}") from None


def json_copy(value: object, notes: MistakeCollector) -> JsonValue:
    """Copy values given in code deeply: mappings and tuples of any kind are welcome, anything but JSON is noted."""
    return _plain(value, (), notes)


def _plain(value: object, where: ValuePath, notes: MistakeCollector) -> JsonValue:
    if len(where) > MAX_DEPTH:
        raise notes.unreadable(f"nested more than {MAX_DEPTH} levels deep", where=where[:3])
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Mapping():
            copy: dict[str, Any] = {}
            for name, inner in cast("Mapping[object, object]", value).items():
                if not isinstance(name, str):
                    notes.add(where, f"found the key {shown(name, 40)}, expected text")
                copy[str(name)] = _plain(inner, (*where, str(name)), notes)
            return copy
        case list() | tuple():
            items = cast("Sequence[object]", value)
            return [_plain(inner, (*where, index), notes) for index, inner in enumerate(items)]
        case _:
            notes.add(where, f"found a {type(value).__name__}, expected a JSON value")
            return None


_LONGEST = 60


def found(value: JsonValue) -> str:
    """Say what was found where something else was expected."""
    return f"found {shown(value, _LONGEST)}"


def check_finite(value: JsonValue, where: ValuePath, note: Callable[[ValuePath, str], None]) -> None:
    """Note every number that JSON cannot write, at any depth."""
    if is_list(value):
        for index, item in enumerate(value):
            check_finite(item, (*where, index), note)
    elif is_mapping(value):
        for name, item in value.items():
            check_finite(item, (*where, name), note)
    elif isinstance(value, float) and not math.isfinite(value):
        note(where, f"{found(value)}, expected a JSON value: quote it if it is text")
