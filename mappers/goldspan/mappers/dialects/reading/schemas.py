"""Tells the schema of a tool's parameters from the arguments of a call: attributes named `parameters` hold either."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from goldspan.mappers.dialects.reading.value_parsing import decoded
from goldspan.scoring.json_values import is_mapping, is_sequence

_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
_COMBINING = frozenset({"anyOf", "allOf", "oneOf", "$ref", "enum", "const"})
_DESCRIBING = frozenset({"description", "title", "default", "examples"})


def is_schema(value: Any) -> bool:
    """Say whether a value, or its JSON text, is the schema of an object: JSON Schema, Gemini's, a dump of zod 3 or 4.

    A tool's definition around one is a schema too. An empty object is none.
    """
    value = decoded(value)
    return is_mapping(value) and (_declares_object(value) or _is_zod(value) or _is_wrapped(value))


def describes_parameters(value: Any) -> bool:
    """Say whether a value is a schema, or the map of a schema's properties by itself."""
    value = decoded(value)
    return is_schema(value) or (is_mapping(value) and bool(value) and _describes_each(value))


def _declares_object(value: Mapping[str, Any]) -> bool:
    if "$schema" in value:
        return True
    if _type_of(value) == "object":
        return any(key in value for key in ("properties", "additionalProperties", "required")) or len(value) == 1
    return is_mapping(value.get("properties")) and (not value["properties"] or _describes_each(value["properties"]))


def _type_of(value: Mapping[str, Any]) -> str | None:
    """Return the JSON type that a schema names; Gemini's are in capitals, and an enum's in Python's repr."""
    named = value.get("type", value.get("type_"))
    named = named[0] if is_sequence(named) and len(named) else named
    name = named.rpartition(".")[2].lower() if isinstance(named, str) else None
    return name if name in _TYPES else None


def _is_zod(value: Mapping[str, Any]) -> bool:
    """Say whether this is a dump of a zod schema, whose definition is `_def` (3), or `def` (4)."""
    if "~standard" in value or "_zod" in value:
        return True
    definition = value.get("_def", value.get("def"))
    return is_mapping(definition) and (isinstance(definition.get("typeName"), str) or "type" in definition)


def _is_wrapped(value: Mapping[str, Any]) -> bool:
    """Say whether this holds a schema: OpenAI's function, AI SDK's `jsonSchema`, MCP's and Anthropic's tool."""
    inner = value.get("function") if value.get("type") == "function" else None
    holders = (inner, value) if is_mapping(inner) else (value,)
    keys = ("parameters", "jsonSchema", "json_schema", "inputSchema", "input_schema", "schema")
    schemas = (schema for holder in holders for key in keys if is_mapping(schema := holder.get(key)))
    return any(_declares_object(schema) or _is_zod(schema) for schema in schemas)


def _describes_each(value: Mapping[str, Any]) -> bool:
    return all(is_mapping(inner) and _describes_one(inner) for inner in value.values())


def _describes_one(value: Mapping[str, Any]) -> bool:
    if _type_of(value) or not _COMBINING.isdisjoint(value):
        return True
    return _is_zod(value) or (not _DESCRIBING.isdisjoint(value) and (_DESCRIBING | {"type"}).issuperset(value))
