"""JSON lines as a golden set: one golden a line, and before them, if wanted, a line with the fields of the set.

A line that cannot be read is a mistake of its own and never hides those of the others.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import PurePath

from goldspan.scoring.criterion_fields import is_mapping
from goldspan.scoring.goldens.documents import Notes, Place, Unreadable
from goldspan.scoring.goldens.json_text import read_value
from goldspan.scoring.sessions import JsonValue

_OF_A_SET = frozenset({"golden_set", "format", "version"})


def read_json_lines(text: str, notes: Notes) -> JsonValue:
    """Read one golden set; without a line that names it, it is called like the file."""
    header: dict[str, JsonValue] = {"golden_set": PurePath(notes.file).stem}
    header_places: dict[str | int, Place] = {}
    goldens: list[JsonValue] = []
    places: dict[str | int, Place] = {}
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
    notes.place = Place(1, {**header_places, "goldens": Place(1, places)})
    return {**header, "goldens": goldens}


def _is_header(line: str) -> bool:
    """Whether a line has fields of a set, which no golden has."""
    with suppress(Unreadable):
        value, _ = read_value(line, Notes(""))
        return is_mapping(value) and bool(_OF_A_SET & value.keys()) and "goldens" not in value
    return False
