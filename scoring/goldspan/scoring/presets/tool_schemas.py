"""Tool definitions that a trace holds, in the form BFCL documents functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from goldspan.scoring.presets.shapes import is_list, is_mapping
from goldspan.scoring.sessions import Session

_TYPES = {
    "string": "string",
    "integer": "integer",
    "number": "float",
    "boolean": "boolean",
    "array": "array",
    "object": "dict",
}
_SCHEMAS = ("parameters", "input_schema", "inputSchema", "parameters_json_schema", "parametersJsonSchema")


def described_functions(session: Session) -> list[Mapping[str, Any]]:
    """Return the functions whose parameters the session's traces describe well enough, each name once."""
    found: dict[str, Mapping[str, Any]] = {}
    for turn in session.turns:
        definitions = turn.tool_definitions.value
        for definition in definitions if is_list(definitions) else []:
            for name, schema in _functions(definition):
                properties = _properties(schema)
                if properties is not None:
                    required = schema.get("required")
                    parameters = {
                        "type": "dict",
                        "properties": properties,
                        "required": list(required) if is_list(required) else [],
                    }
                    found.setdefault(name, {"name": name, "parameters": parameters})
    return list(found.values())


def _functions(definition: object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Find name and schema in OpenAI's, Anthropic's and the semantic conventions' ways of writing them."""
    if not is_mapping(definition):
        return
    inner = definition.get("function", definition)
    name = inner.get("name") if is_mapping(inner) else None
    if isinstance(name, str):
        schema = next((inner[key] for key in _SCHEMAS if is_mapping(inner.get(key))), None)
        if schema is not None:
            yield name, schema


def _properties(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what is declared of each parameter; None where a type cannot be told, since BFCL checks every type."""
    properties: dict[str, Any] = {}
    declared = schema.get("properties", {})
    for name, one in declared.items() if is_mapping(declared) else ():
        kind = _TYPES.get(str(one.get("type"))) if is_mapping(one) else None
        if kind is None:
            return None
        properties[name] = {"type": kind}
        if kind == "array":
            items = one.get("items")
            inner = _TYPES.get(str(items.get("type"))) if is_mapping(items) else None
            if inner is None:
                return None
            properties[name]["items"] = {"type": inner}
    return properties
