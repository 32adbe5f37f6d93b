"""A file's text as JSON values that know their line, whatever the file was written in.

    text -> yaml_text or json_text -> Document -> shape -> values

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
from typing import Any, NamedTuple, Protocol, cast

from goldspan.scoring.errors import Mistake
from goldspan.scoring.json_values import shown
from goldspan.scoring.matchers.matcher import MatcherKind
from goldspan.scoring.matchers.reading import MATCHER_KINDS, ValueReader
from goldspan.scoring.sessions import JsonValue
from goldspan.scoring.type_guards import is_list, is_mapping

MAX_DEPTH = 100
"""Levels of lists and objects in each other: beyond any tool's arguments, far below Python's recursion limit."""
MAX_VALUES = 1_000_000
"""Values in one file, each use of an alias counted: some lines of YAML aliases can stand for billions."""

ValuePath = tuple[str | int, ...]
"""The way to a value from the top of a document: keys and indexes."""


class Place(NamedTuple):
    """The line of a value, counted from 1, and the places of what it holds."""

    line: int
    inner: Mapping[str | int, Place] = {}


NOWHERE = Place(0)
"""The place of values that came from no text."""


class Unreadable(Exception):  # noqa: N818 - it ends one file and never leaves this room
    """The text as a whole cannot be used; its one mistake is already noted."""


@dataclass(slots=True)
class MistakeCollector:
    """The mistakes found in one file so far, and where its values stand."""

    file: str
    place: Place = NOWHERE
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


# A small language for the shape of a file: one declaration checks a document and makes its JSON Schema.
#
# A shape checks everything it can see and notes every mistake; it changes nothing and raises nothing.

JsonSchema = dict[str, Any]

_LONGEST = 60


class Shape(Protocol):
    """What a value must look like."""

    def check(self, value: JsonValue, where: ValuePath, notes: MistakeCollector) -> None:
        """Note everything wrong with the value."""

    def schema(self) -> JsonSchema:
        """Return the same as JSON Schema."""
        ...


def found(value: JsonValue) -> str:
    """Say what was found where something else was expected."""
    return f"found {shown(value, _LONGEST)}"


def check_finite(value: JsonValue, where: ValuePath, notes: MistakeCollector) -> None:
    """Note every number that JSON cannot write, however deep it stands."""
    if is_list(value):
        for index, item in enumerate(value):
            check_finite(item, (*where, index), notes)
    elif is_mapping(value):
        for name, item in value.items():
            check_finite(item, (*where, name), notes)
    elif isinstance(value, float) and not math.isfinite(value):
        notes.add(where, f"{found(value)}, expected a JSON value: quote it if it is text")


@dataclass(frozen=True, slots=True)
class Text:
    """Text that is not blank."""

    def check(self, value: JsonValue, where: ValuePath, notes: MistakeCollector) -> None:
        """Note anything but text, and blank text."""
        if isinstance(value, bool | int | float):
            notes.add(where, f"{found(value)}, expected text: put it in quotes")
        elif not isinstance(value, str):
            notes.add(where, f"{found(value)}, expected text")
        elif not value.strip():
            notes.add(where, f"{found(value)}, expected text that is not blank")

    def schema(self) -> JsonSchema:
        """Return the same as JSON Schema."""
        return {"type": "string", "pattern": "\\S"}


@dataclass(frozen=True, slots=True)
class Number:
    """One certain integer."""

    value: int
    otherwise: str
    """What to say of any other value."""

    def check(self, value: JsonValue, where: ValuePath, notes: MistakeCollector) -> None:
        """Note anything else."""
        if type(value) is not int or value != self.value:
            notes.add(where, f"{found(value)}, expected {self.value}: {self.otherwise}")

    def schema(self) -> JsonSchema:
        """Return the same as JSON Schema."""
        return {"const": self.value}


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list, each item of one shape."""

    item: Shape
    items: str
    """What the items are called."""

    def check(self, value: JsonValue, where: ValuePath, notes: MistakeCollector) -> None:
        """Note anything but a list, and what is wrong with its items."""
        if not is_list(value):
            notes.add(where, f"{found(value)}, expected a list of {self.items}")
            return
        for index, item in enumerate(value):
            self.item.check(item, (*where, index), notes)

    def schema(self) -> JsonSchema:
        """Return the same as JSON Schema."""
        return {"type": "array", "items": self.item.schema()}


@dataclass(frozen=True, slots=True)
class Arguments:
    """An object of JSON values by parameter name, in which objects with a key that begins with `$` are matchers."""

    def check(self, value: JsonValue, where: ValuePath, notes: MistakeCollector) -> None:
        """Note anything but an object of JSON values, and what is wrong with its matchers."""
        if not is_mapping(value):
            notes.add(where, f"{found(value)}, expected an object of arguments by name, such as {{city: Paris}}")
            return
        reader = ValueReader(notes.add)
        for name, argument in value.items():
            check_finite(argument, (*where, name), notes)
            reader.read(argument, (*where, name))

    def schema(self) -> JsonSchema:
        """Return the same as JSON Schema."""
        return {"type": "object", "additionalProperties": {"$ref": "#/$defs/value"}}


def _matcher_schema(family: MatcherKind) -> JsonSchema:
    return {
        "description": family.about,
        "type": "object",
        "properties": {family.name: family.schema, **family.options},
        "required": [family.name],
        "additionalProperties": False,
    }


MATCHER_SCHEMA: JsonSchema = {"anyOf": [_matcher_schema(family) for family in MATCHER_KINDS.values()]}
"""`#/$defs/matcher`: a value that matches more than itself."""
VALUE_SCHEMA: JsonSchema = {
    "anyOf": [
        {"type": ["null", "boolean", "number", "string"]},
        {"type": "array", "items": {"$ref": "#/$defs/value"}},
        {
            "type": "object",
            "propertyNames": {"not": {"pattern": "^\\$"}},
            "additionalProperties": {"$ref": "#/$defs/value"},
        },
        {"$ref": "#/$defs/matcher"},
    ]
}
"""`#/$defs/value`: JSON, with matchers wherever a value may stand."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of an object."""

    shape: Shape
    about: str
    """What it means: the description an editor shows."""
    required: bool = False


@dataclass(frozen=True, slots=True)
class Fields:
    """An object of known fields."""

    what: str
    """With its article: `a golden`."""
    fields: Mapping[str, Field]
    one_of: Sequence[tuple[str, ...]] = ()
    """Groups of fields of which exactly one must be there."""
    never_both: Sequence[tuple[str, str]] = ()
    """Fields that contradict each other."""
    together: Callable[[Mapping[str, Any], ValuePath, MistakeCollector], None] | None = None
    """Notes what fields say wrongly together."""

    def check(self, value: JsonValue, where: ValuePath, notes: MistakeCollector) -> None:
        """Note unknown, missing and contradicting fields, and what is wrong with each."""
        if not is_mapping(value):
            needed = [name for name, one in self.fields.items() if one.required]
            needed += [" or ".join(group) for group in self.one_of]
            notes.add(where, f"{found(value)}, expected {self.what}: an object with {', '.join(needed or self.fields)}")
            return
        unknown = [name for name in value if name not in self.fields]
        # A misspelled field is one mistake: it is not missing too.
        there = {*value, *(nearest(name, list(self.fields)) for name in unknown)}
        for name, one in self.fields.items():
            if name in value:
                one.shape.check(value[name], (*where, name), notes)
            elif one.required and name not in there:
                notes.add(where, f"`{name}` is missing: {one.about}")
        for group in self.one_of:
            self._exactly_one([name for name in group if name in there], group, where, notes)
        for first, second in self.never_both:
            if first in value and second in value:
                notes.add(where, f"found both `{first}` and `{second}`, expected only one of them")
        for name in unknown:
            notes.add((*where, name), self._unknown(name))
        if self.together is not None:
            self.together(value, where, notes)

    def _exactly_one(
        self, there: Sequence[str], group: Sequence[str], where: ValuePath, notes: MistakeCollector
    ) -> None:
        either = " or ".join(f"`{name}`" for name in group)
        if not there:
            none = "neither" if len(group) == 2 else "none of them"
            notes.add(where, f"{self.what} has {either}, and {none} is there")
        elif len(there) > 1:
            both = " and ".join(f"`{name}`" for name in there)
            notes.add(where, f"found both {both}, expected only one of them: {self.what} has {either}")

    def _unknown(self, name: str) -> str:
        known = list(self.fields)
        near = nearest(name, known)
        advice = f"did you mean `{near}`?" if near else f"{self.what} has {', '.join(known)}"
        return f"unknown field: {advice}"

    def schema(self) -> JsonSchema:
        """Return a reference to the same as JSON Schema."""
        return {"$ref": f"#/$defs/{self.name}"}

    @property
    def name(self) -> str:
        """What it is called among the schema's definitions."""
        return self.what.split()[-1]

    def definition(self) -> JsonSchema:
        """Return the same as JSON Schema."""
        properties = {name: {"description": one.about, **one.shape.schema()} for name, one in self.fields.items()}
        schema: JsonSchema = {"type": "object", "properties": properties, "additionalProperties": False}
        if required := [name for name, one in self.fields.items() if one.required]:
            schema["required"] = required
        if self.one_of:
            schema["allOf"] = [{"oneOf": [{"required": [name]} for name in group]} for group in self.one_of]
        if self.never_both:
            schema["not"] = {"anyOf": [{"required": list(pair)} for pair in self.never_both]}
        return schema
