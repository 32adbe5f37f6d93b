"""A small language for the shape of a file: one declaration checks a document and makes its JSON Schema.

A shape checks everything it can see and notes every mistake; it changes nothing and raises nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from goldspan.scoring.criterion_fields import is_mapping
from goldspan.scoring.goldens.documents import Notes, Where, is_list, nearest
from goldspan.scoring.matchers.family import Family
from goldspan.scoring.matchers.reading import FAMILIES, Reader
from goldspan.scoring.rendering import shown
from goldspan.scoring.sessions import JsonValue

JsonSchema = dict[str, Any]

_LONGEST = 60


class Shape(Protocol):
    """What a value must look like."""

    def check(self, value: JsonValue, where: Where, notes: Notes) -> None:
        """Note everything wrong with the value."""

    def schema(self) -> JsonSchema:
        """Return the same as JSON Schema."""
        ...


def found(value: JsonValue) -> str:
    """Say what was found where something else was expected."""
    return f"found {shown(value, _LONGEST)}"


def check_finite(value: JsonValue, where: Where, notes: Notes) -> None:
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

    def check(self, value: JsonValue, where: Where, notes: Notes) -> None:
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

    def check(self, value: JsonValue, where: Where, notes: Notes) -> None:
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

    def check(self, value: JsonValue, where: Where, notes: Notes) -> None:
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

    def check(self, value: JsonValue, where: Where, notes: Notes) -> None:
        """Note anything but an object of JSON values, and what is wrong with its matchers."""
        if not is_mapping(value):
            notes.add(where, f"{found(value)}, expected an object of arguments by name, such as {{city: Paris}}")
            return
        reader = Reader(notes.add)
        for name, argument in value.items():
            check_finite(argument, (*where, name), notes)
            reader.read(argument, (*where, name))

    def schema(self) -> JsonSchema:
        """Return the same as JSON Schema."""
        return {"type": "object", "additionalProperties": {"$ref": "#/$defs/value"}}


def _matcher_schema(family: Family) -> JsonSchema:
    return {
        "description": family.about,
        "type": "object",
        "properties": {family.name: family.schema, **family.options},
        "required": [family.name],
        "additionalProperties": False,
    }


MATCHER_SCHEMA: JsonSchema = {"anyOf": [_matcher_schema(family) for family in FAMILIES.values()]}
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
    together: Callable[[Mapping[str, Any], Where, Notes], None] | None = None
    """Notes what fields say wrongly together."""

    def check(self, value: JsonValue, where: Where, notes: Notes) -> None:
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

    def _exactly_one(self, there: Sequence[str], group: Sequence[str], where: Where, notes: Notes) -> None:
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
