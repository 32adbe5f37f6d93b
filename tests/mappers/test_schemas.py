"""The schema of a tool's parameters is told from the arguments of a call."""

from __future__ import annotations

import json
from typing import Any

import pytest

from goldspan.mappers.dialects.reading.value_parsing import describes_parameters, is_schema
from goldspan.scoring.sessions import Capture
from rigs.otlp_containers import Span, read_alone

ZOD_4 = {"def": {"type": "object", "shape": {"city": {"def": {"type": "string"}, "type": "string"}}}, "type": "object"}
SCHEMAS: dict[str, Any] = {
    "JSON Schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "without properties": {"type": "object", "properties": {}},
    "no parameters": {"type": "object", "additionalProperties": False},
    "properties alone named": {"properties": {"city": {"type": ["string", "null"]}}},
    "a dialect named": {"$schema": "https://json-schema.org/draft/2020-12/schema"},
    "Gemini": {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}},
    "Gemini in Python": {"type_": "Type.OBJECT", "properties": {"city": {"type_": "Type.STRING"}}},
    "zod 3": {"_def": {"typeName": "ZodObject", "unknownKeys": "strip"}, "_cached": None},
    "zod 4": ZOD_4,
    "standard schema": {"~standard": {"vendor": "valibot", "version": 1}},
    "OpenAI's function": {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}},
    "AI SDK's schema": {"jsonSchema": {"type": "object", "properties": {}}},
    "MCP's tool": {"name": "f", "inputSchema": {"type": "object", "properties": {}}},
}
PROPERTIES: dict[str, Any] = {
    "JSON Schema": {"city": {"type": "string"}, "days": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
    "zod": {"city": {"_def": {"typeName": "ZodString"}}},
    "descriptions": {"answer": {"type": "any", "description": "The final answer"}},
}
ARGUMENTS: dict[str, Any] = {
    "none": {},
    "plain": {"city": "Paris"},
    "an object": {"restaurant": {"name": "Chez Léa", "id": 42}},
    "a type": {"type": "object", "city": "Paris"},
    "a type of one": {"book": {"type": "novel"}},
    "properties": {"properties": {"color": "red"}},
    "a definition": {"def": "of a word"},
    "parameters": {"parameters": {"city": "Paris"}},
}


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_known_in_every_shape(name: str, as_text: bool) -> None:
    schema = json.dumps(SCHEMAS[name]) if as_text else SCHEMAS[name]
    assert is_schema(schema)
    assert describes_parameters(schema)


@pytest.mark.parametrize("name", PROPERTIES)
def test_a_map_of_properties_describes_parameters(name: str) -> None:
    assert describes_parameters(PROPERTIES[name])
    assert not is_schema(PROPERTIES[name])


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_are_no_schema(name: str) -> None:
    assert not is_schema(ARGUMENTS[name])
    assert not describes_parameters(ARGUMENTS[name])


@pytest.mark.parametrize("scope", ["", "@voltagent/core", "@arizeai/openinference-instrumentation-x"])
@pytest.mark.parametrize("schema", [*SCHEMAS.values(), *PROPERTIES.values()], ids=[*SCHEMAS, *PROPERTIES])
def test_a_schema_is_never_read_as_arguments(schema: Any, scope: str) -> None:
    kind = {"openinference.span.kind": "TOOL"} if "arizeai" in scope else {"span.type": "tool"}
    attributes = {**kind, "tool.name": "get_weather", "tool.parameters": json.dumps(schema)}
    [tool] = [read_alone(Span(attributes, scope_name=scope)).tool]
    assert tool is not None
    assert tool.arguments.capture is Capture.NOT_CAPTURED


@pytest.mark.parametrize(
    ("inputs", "capture", "arguments"),
    [
        ({"input": '{"city": "Paris"}'}, Capture.CAPTURED, {"city": "Paris"}),
        ({"input": "[REDACTED]"}, Capture.REDACTED, None),
        ({"input": "weather in Paris"}, Capture.CAPTURED, {"q": 1}),
        ({}, Capture.CAPTURED, {"q": 1}),
    ],
)
def test_parameters_never_win_over_an_input(inputs: dict[str, Any], capture: Capture, arguments: Any) -> None:
    attributes = {"span.type": "tool", "tool.name": "get_weather", "tool.parameters": '{"q": 1}', **inputs}
    tool = read_alone(Span(attributes)).tool
    assert tool is not None
    assert (tool.arguments.capture, tool.arguments.value if arguments else None) == (capture, arguments)
