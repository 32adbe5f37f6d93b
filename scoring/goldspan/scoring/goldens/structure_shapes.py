"""Shapes of what a golden says of its calls beside name and arguments: groups, alternatives, repeats, counts, joins."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from goldspan.scoring.criterion_fields import is_mapping
from goldspan.scoring.goldens.documents import Notes, Where, is_list, nearest
from goldspan.scoring.goldens.models import ANY_TOOL, MOST_ALTERNATIVES, CallCount, Operator
from goldspan.scoring.goldens.shapes import Fields, JsonSchema, ListOf, Shape, Text, check_finite, found
from goldspan.scoring.sessions import JsonValue

_COUNT = re.compile(r"(==|=|!=|<=|>=|<|>)\s*([0-9]{1,9})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Truth:
    """True or false."""

    def check(self, value: JsonValue, where: Where, notes: Notes) -> None:
        """Note anything else."""
        if not isinstance(value, bool):
            notes.add(where, f"{found(value)}, expected true or false")

    def schema(self) -> JsonSchema:
        """Return the same as JSON Schema."""
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number from 1."""

    def check(self, value: JsonValue, where: Where, notes: Notes) -> None:
        """Note anything else."""
        if type(value) is not int or value < 1:
            notes.add(where, f"{found(value)}, expected a whole number from 1")

    def schema(self) -> JsonSchema:
        """Return the same as JSON Schema."""
        return {"type": "integer", "minimum": 1}


@dataclass(frozen=True, slots=True)
class Something:
    """Any JSON value but null."""

    def check(self, value: JsonValue, where: Where, notes: Notes) -> None:
        """Note null, and numbers that JSON cannot write."""
        if value is None:
            notes.add(where, "found null, expected a value: leave it out where nothing is expected")
        check_finite(value, where, notes)

    def schema(self) -> JsonSchema:
        """Return the same as JSON Schema."""
        return {"not": {"type": "null"}}


@dataclass(frozen=True, slots=True)
class Scalar:
    """Text, a number, or true or false: what a span's attribute can be equal to."""

    def check(self, value: JsonValue, where: Where, notes: Notes) -> None:
        """Note anything else."""
        if not isinstance(value, str | int | float):
            notes.add(where, f"{found(value)}, expected text, a number, true or false")
        check_finite(value, where, notes)

    def schema(self) -> JsonSchema:
        """Return the same as JSON Schema."""
        return {"type": ["string", "number", "boolean"]}


@dataclass(frozen=True, slots=True)
class Count:
    """How often: a number, or text such as `>= 1`."""

    def check(self, value: JsonValue, where: Where, notes: Notes) -> None:
        """Note anything else."""
        if not (type(value) is int and value >= 0) and not (isinstance(value, str) and _COUNT.fullmatch(value.strip())):
            notes.add(where, f'{found(value)}, expected a number of calls, or text such as ">= 1"')

    def schema(self) -> JsonSchema:
        """Return the same as JSON Schema."""
        pattern = r"^\s*(==|=|!=|<=|>=|<|>)\s*[0-9]{1,9}\s*$"
        return {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": pattern}]}


@dataclass(frozen=True, slots=True)
class Names:
    """A name, or a list of names."""

    def check(self, value: JsonValue, where: Where, notes: Notes) -> None:
        """Note anything else."""
        if not is_list(value):
            Text().check(value, where, notes)
            return
        for index, name in enumerate(value):
            Text().check(name, (*where, index), notes)

    def schema(self) -> JsonSchema:
        """Return the same as JSON Schema."""
        return {"anyOf": [Text().schema(), {"type": "array", "items": Text().schema()}]}


@dataclass(frozen=True, slots=True)
class ByName:
    """An object of values of one shape by name, at least one."""

    item: Shape
    example: str
    """Such as `{city: Paris}`."""

    def check(self, value: JsonValue, where: Where, notes: Notes) -> None:
        """Note anything but such an object, and what is wrong with its values."""
        if not is_mapping(value) or not value:
            notes.add(where, f"{found(value)}, expected an object such as {self.example}")
            return
        for name, one in value.items():
            self.item.check(one, (*where, name), notes)

    def schema(self) -> JsonSchema:
        """Return the same as JSON Schema."""
        return {"type": "object", "minProperties": 1, "additionalProperties": self.item.schema()}


@dataclass(frozen=True, slots=True)
class Aliases:
    """Other names of tools, each of one tool only."""

    def check(self, value: JsonValue, where: Where, notes: Notes) -> None:
        """Note anything but names by name, and names that stand for two tools."""
        ByName(Names(), "{get_weather: [weather.get]}").check(value, where, notes)
        seen: dict[str, str] = {}
        for tool, step, alias in _aliases(value):
            if is_mapping(value) and alias in value:
                notes.add((*where, *step), f"found {alias}, which has aliases itself: a tool has one name in goldens")
            elif seen.setdefault(alias, tool) != tool:
                notes.add((*where, *step), f"found {alias}, which is an alias of {seen[alias]} already")

    def schema(self) -> JsonSchema:
        """Return the same as JSON Schema."""
        return ByName(Names(), "").schema()


def aliases_of(value: JsonValue) -> dict[str, str]:
    """Return the tool that each alias stands for."""
    return {alias: tool for tool, _, alias in _aliases(value)}


def _aliases(value: JsonValue) -> list[tuple[str, tuple[str | int, ...], str]]:
    listed: list[tuple[str, tuple[str | int, ...], str]] = []
    for tool, names in value.items() if is_mapping(value) else ():
        if isinstance(names, str):
            listed.append((tool, (tool,), names))
        elif is_list(names):
            listed += [(tool, (tool, index), name) for index, name in enumerate(names) if isinstance(name, str)]
    return listed


@dataclass(frozen=True, slots=True)
class CallOrGroup:
    """A call, or a group of calls whose order is free."""

    call: Fields
    group: Fields

    def check(self, value: JsonValue, where: Where, notes: Notes) -> None:
        """Note what is wrong with what it is meant to be."""
        (self.group if self._is_group(value) else self.call).check(value, where, notes)

    def _is_group(self, item: JsonValue) -> bool:
        names = list(self.group.fields)
        return is_mapping(item) and "name" not in item and any(nearest(name, names) for name in item)

    def schema(self) -> JsonSchema:
        """Return the same as JSON Schema."""
        return {"anyOf": [self.call.schema(), self.group.schema()]}


@dataclass(frozen=True, slots=True)
class Alternatives:
    """Lists of calls of which any would do."""

    calls: ListOf

    def check(self, value: JsonValue, where: Where, notes: Notes) -> None:
        """Note anything but several lists of calls, and such as everything satisfies."""
        if not is_list(value) or len(value) < 2:
            notes.add(where, f"{found(value)}, expected a list of at least two lists of calls: [[...], [...]]")
            return
        if len(value) > MOST_ALTERNATIVES:
            notes.add(where, f"found {len(value)} alternatives, expected at most {MOST_ALTERNATIVES}")
        for index, one in enumerate(value):
            self.calls.check(one, (*where, index), notes)
            if is_list(one) and all(is_mapping(call) and call.get("optional") is True for call in one):
                message = "an alternative without a needed call would always do: say which calls are `optional` instead"
                notes.add((*where, index), message)

    def schema(self) -> JsonSchema:
        """Return the same as JSON Schema."""
        lists = {**self.calls.schema(), "minItems": 1}
        return {"type": "array", "minItems": 2, "maxItems": MOST_ALTERNATIVES, "items": lists}


def check_call(call: Mapping[str, Any], where: Where, notes: Notes) -> None:
    """Note what the fields of a call say wrongly together."""
    if call.get("name") == ANY_TOOL and call.get("forbidden") is not True:
        notes.add((*where, "name"), "`*` stands for any tool where `forbidden: true` stands beside it, and only there")


def check_repeat(repeat: Mapping[str, Any], where: Where, notes: Notes) -> None:
    """Note more passes than runs."""
    runs, passes = repeat.get("runs"), repeat.get("passes")
    if type(runs) is int and type(passes) is int and passes > runs:
        notes.add((*where, "passes"), f"{found(passes)}, expected at most {runs}, as many as there are `runs`")


def counts_of(value: JsonValue) -> dict[str, CallCount]:
    """Read counts that were checked."""
    return {name: _count(one) for name, one in value.items()} if is_mapping(value) else {}


def _count(value: str | int) -> CallCount:
    hit = _COUNT.fullmatch(value.strip()) if isinstance(value, str) else None
    if hit is None:
        return CallCount("==", int(value))
    operator = hit.group(1)
    return CallCount("==" if operator == "=" else cast("Operator", operator), int(hit.group(2)))
