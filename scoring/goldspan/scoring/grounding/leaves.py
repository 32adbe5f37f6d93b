"""The values inside the arguments of a call, with what the schema says of each, and the kinds of their origins."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from itertools import islice
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from goldspan.scoring.grounding.words import camel_words, remembered
from goldspan.scoring.json_values import is_mapping, is_sequence, plain, pointer_name, pointer_to, steps_of, value_at


class Kind(StrEnum):
    """What a value came from."""

    USER = "user"
    TOOL_RESULT = "tool_result"
    SYSTEM = "system"
    ASSISTANT = "assistant"
    SCHEMA = "schema"
    DERIVED = "derived"
    ASSUMED = "assumed"
    """Chosen with reason, but what was said does not give it: a default of the agent's, or knowledge of the world."""
    TRIVIAL = "trivial"
    FREE_TEXT = "free_text"
    UNKNOWN = "unknown"
    NONE = "none"


class Origin(Struct, frozen=True, gc=False):
    """Where a value came from."""

    kind: Kind
    rule: str = ""
    passage: int | None = None


class Leaf(Struct, frozen=True, gc=False):
    """A value inside the arguments of a call that has no parts, with what its schema says."""

    path: str
    value: Any
    schema: Mapping[str, Any]
    required: bool = False


MAX_LEAVES = 500
"""So many values of one call are judged."""
_BRANCHES = ("anyOf", "oneOf", "allOf")
_NOT_PLAIN = frozenset(("$ref", *_BRANCHES))
_MOST_ALTERNATIVES = 50


_NOTHING: Mapping[str, Any] = MappingProxyType({})


def _has_every_option(values: Sequence[Any], items: Mapping[str, Any]) -> bool:
    options = items.get("enum")
    return is_sequence(options) and all(one in values for one in options)


_Waiting = tuple[str, Any, Any, bool]
"""A value whose leaves are not yielded yet: its pointer, itself, its schema, and whether that requires it."""


def _members(path: str, value: Mapping[str, Any], part: Mapping[str, Any]) -> list[_Waiting]:
    properties, needed = part.get("properties"), part.get("required")
    properties = properties if is_mapping(properties) else _NOTHING
    needed = needed if is_sequence(needed) else ()
    return [(f"{path}{_step(str(name))}", one, properties.get(name), name in needed) for name, one in value.items()]


def leaves(arguments: Any, schema: Mapping[str, Any] | None) -> Iterator[Leaf]:
    """Yield the leaves of arguments in their order, each with its JSON Pointer; the first 500 of them."""
    root: Mapping[str, Any] = schema or {}
    waiting: list[_Waiting] = [("", arguments, root, False)]
    found = 0
    while waiting and found < MAX_LEAVES:
        path, value, part, required = waiting.pop()
        part = _NOTHING if part is None else _offered(part, root)
        if isinstance(value, (str, int, float)):
            found += 1
            yield Leaf(path, value, part, required)
            continue
        inner: list[_Waiting] = []
        if is_mapping(value) and value:
            inner = _members(path, value, part)
        elif is_sequence(value) and value:
            inherited = {"description": part["description"]} if "description" in part else {}
            items = _offered(part.get("items"), root)
            required = required and not _has_every_option(value, items)
            inner = [
                (f"{path}/{index}", one, {**inherited, **items}, required)
                for index, one in enumerate(value[:MAX_LEAVES])
            ]
        else:
            found += 1
            yield Leaf(path, value, part, required)
        waiting += reversed(inner)


def _offered(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema with what its references within the document and its alternatives say; its own words first."""
    if not is_mapping(schema):
        return {}
    if _NOT_PLAIN.isdisjoint(schema):
        return schema
    said: dict[str, Any] = {}
    waiting: list[Any] = [schema]
    for one in islice(waiting, _MOST_ALTERNATIVES):  # which grows
        if not is_mapping(one):
            continue
        for key in ("description", "default", "items", "required"):
            if key in one:
                said.setdefault(key, one[key])
        if is_mapping(one.get("properties")):
            said["properties"] = {**one["properties"], **said.get("properties", {})}
        options = one.get("enum", [one["const"]] if "const" in one else [])
        if is_sequence(options) and options:
            said["enum"] = [*said.get("enum", []), *options]
        waiting += _parts_of(one, root)
    return said


def _parts_of(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the alternatives of a schema, and what it refers to within the document."""
    for key in _BRANCHES:
        if is_sequence(branches := schema.get(key)):
            yield from branches
    if isinstance(reference := schema.get("$ref"), str) and reference.startswith("#"):
        with suppress(LookupError, ValueError):
            yield value_at(root, steps_of(reference[1:]))


@remembered
def _step(name: str) -> str:
    return pointer_to((name,))


def name_says(path: str, names: frozenset[str]) -> bool:
    """Whether one of some words is in the names that lead to a leaf."""
    return not names.isdisjoint(camel_words(path))


def text_of_leaf(value: object) -> str:
    """Return a value as text."""
    return value if isinstance(value, str) else str(plain(value))


def argument_name(tool: str, path: str) -> str:
    """Return the name of an argument as people write it: `refund.items.*.id`; elements of lists have no number."""
    return f"{tool}.{pointer_name(without_numbers(path))}" if path else tool


def without_numbers(path: str) -> str:
    """Return a JSON Pointer with `*` in place of the numbers of elements."""
    return re.sub(r"/\d+(?=/|$)", "/*", path)
