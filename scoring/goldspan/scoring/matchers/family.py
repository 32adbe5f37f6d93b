"""What every family of matchers declares: how it is written, what it means, and how it is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from goldspan.scoring.matchers.matcher import Expected
from goldspan.scoring.sessions import JsonValue

Where = tuple[str | int, ...]
"""The way to a value: keys and indexes."""
Options = Mapping[str, JsonValue]
"""What stands beside the `$` key, by name."""
JsonSchema = dict[str, Any]

VALUE: JsonSchema = {"$ref": "#/$defs/value"}
"""The JSON Schema of a value that may hold matchers."""


class Reading(Protocol):
    """What a family is read with: it reads the values inside, and notes mistakes."""

    def read(self, value: JsonValue, where: Where) -> Expected:
        """Return what a value inside the matcher means."""
        ...

    def mistake(self, where: Where, message: str) -> None:
        """Note one."""
        ...


class Family(NamedTuple):
    """One matcher of the golden file."""

    name: str
    about: str
    """What it matches: the description an editor shows."""
    read: Callable[[JsonValue, Options, Where, Reading], Expected]
    """Takes what stands under the `$` key, the options, and the way to the object; returns what is expected."""
    schema: JsonSchema
    """What may stand under the `$` key."""
    options: Mapping[str, JsonSchema] = {}
    """What may stand beside it, by name."""
