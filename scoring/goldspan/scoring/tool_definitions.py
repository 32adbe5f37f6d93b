"""Defaults of parameters, as far as the tool definitions in a trace declare them.

An argument that an agent leaves out has its default; what the default is stands in the tool's JSON Schema. Frameworks
wrap that in their own ways, so that an object with a name and a schema is looked for, wherever it stands.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from goldspan.scoring.json_values import is_mapping, is_sequence
from goldspan.scoring.sessions import Capture, Content, JsonValue

_SCHEMAS = (
    "parameters",
    "parameters_json_schema",
    "parametersJsonSchema",
    "input_schema",
    "inputSchema",
    "json_schema",
    "schema",
)
"""Where a definition holds the schema of its arguments: OpenAI, Google, Anthropic, MCP and Bedrock, Vercel."""
_DEEPEST = 6
_MOST_DEFINITIONS = 2_000

Defaults = Mapping[str, JsonValue]
"""By parameter name."""


class DeclaredDefaults:
    """The defaults that the definitions in one turn declare; they are read when they are first asked for."""

    __slots__ = ("_definitions", "_of_tools")

    def __init__(self, definitions: Content) -> None:
        self._definitions = definitions
        self._of_tools: dict[str, Defaults] | None = None

    def of(self, tool: str) -> Defaults:
        """Return the defaults of a tool's parameters; of two definitions of one name those of the first."""
        if self._definitions.capture is not Capture.CAPTURED:
            return {}
        if self._of_tools is None:
            self._of_tools = {}
            for name, schema in _definitions(self._definitions.value):
                self._of_tools.setdefault(name, _defaults(schema))
        return self._of_tools.get(tool, {})


def declared_parameters(definitions: Content) -> Mapping[str, Mapping[str, JsonValue] | None]:
    """Return the schemas of each tool's parameters by their names; None where a tool takes others as well."""
    found: dict[str, Mapping[str, JsonValue] | None] = {}
    if definitions.capture is Capture.CAPTURED:
        for name, schema in _definitions(definitions.value):
            properties = _inner(schema).get("properties")
            closed = is_mapping(properties) and _inner(schema).get("additionalProperties", False) is False
            found.setdefault(name, properties if closed else None)
    return found


def _definitions(value: JsonValue) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Find names and schemas, whatever they are wrapped in."""
    waiting: list[tuple[Any, int]] = [(value, 0)]
    for _ in range(_MOST_DEFINITIONS):
        if not waiting:
            return
        item, depth = waiting.pop()
        item = _decoded(item)
        if is_mapping(item):
            schema = next((found for key in _SCHEMAS if is_mapping(found := _decoded(item.get(key)))), None)
            name = item.get("name")
            if isinstance(name, str) and schema is not None:
                yield name, schema
                continue
        inner = list(item.values()) if is_mapping(item) else item if is_sequence(item) else ()
        if depth < _DEEPEST:
            waiting.extend((one, depth + 1) for one in reversed(inner))


def _decoded(value: Any) -> Any:
    """Return what JSON text says, anything else as it is."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _defaults(schema: Mapping[str, Any]) -> Defaults:
    properties = _inner(schema).get("properties")
    if not is_mapping(properties):
        return {}
    return {name: one["default"] for name, one in properties.items() if is_mapping(one) and "default" in one}


def _inner(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = schema.get("json")  # Bedrock: {"inputSchema": {"json": {...}}}
    return inner if is_mapping(inner) else schema
