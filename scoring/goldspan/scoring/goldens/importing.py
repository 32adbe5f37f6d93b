"""What readers of other systems' files share: records with their places, and the golden set that is made of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from goldspan.scoring.criterion_fields import is_mapping
from goldspan.scoring.goldens.documents import Notes, Place, Unreadable, Where, is_list
from goldspan.scoring.goldens.json_text import read_json, read_value
from goldspan.scoring.goldens.shapes import check_finite, found
from goldspan.scoring.sessions import JsonValue


@dataclass(slots=True)
class Imported:
    """A golden set as a document of goldspan's own format, and what could not be taken over."""

    document: dict[str, JsonValue]
    notices: list[str] = field(default_factory=list[str])


def read_records(text: str, notes: Notes) -> JsonValue:
    """Read JSON lines, or one JSON document, as a list; a line that cannot be read hides no other.

    Raises:
        Unreadable: it is one document, and not JSON.

    """
    if text.lstrip().startswith("["):
        return read_json(text, notes)
    with suppress(Unreadable):
        whole = Notes(notes.file)
        value = read_json(text, whole)
        notes.place = Place(1, {0: whole.place})
        notes.mistakes += whole.mistakes
        return [value]
    records: list[JsonValue] = []
    places: dict[str | int, Place] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            with suppress(Unreadable):
                value, places[len(records)] = read_value(line, notes, (len(records),), number)
                records.append(value)
    notes.place = Place(1, places)
    return records


def objects(value: JsonValue, where: Where, notes: Notes) -> Iterator[tuple[Where, dict[str, Any]]]:
    """Yield the objects of a list with their places, and note what is none."""
    if not is_list(value):
        notes.add(where, f"{found(value)}, expected a list")
        return
    for index, item in enumerate(value):
        if is_mapping(item):
            yield (*where, index), dict(item)
        else:
            notes.add((*where, index), f"{found(item)}, expected an object")


def text_of(given: dict[str, Any], names: tuple[str, ...], where: Where, notes: Notes) -> str:
    """Return the text of the first of these fields that is there; a number stands for its digits."""
    for name in names:
        value = given.get(name)
        if isinstance(value, str) and value.strip():
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
    notes.add(where, f"`{names[0]}` is missing, or no text")
    return ""


def arguments_of(given: dict[str, Any], names: tuple[str, ...], where: Where, notes: Notes) -> dict[str, Any]:
    """Return the arguments in the first of these fields that is there; null is none."""
    for name in names:
        value = given.get(name)
        if is_mapping(value):
            check_finite(value, (*where, name), notes)
            return dict(value)
        if value is not None:
            notes.add((*where, name), f"{found(value)}, expected an object of arguments by name")
    return {}
