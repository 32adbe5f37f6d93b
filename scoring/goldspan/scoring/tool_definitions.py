"""The definitions of an agent's tools: names, and the JSON Schemas of their parameters.

Frameworks wrap a schema in different ways, so the search takes any object with a name and a schema, at any place.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from goldspan.scoring.errors import FileError, Mistake
from goldspan.scoring.json_values import is_mapping, is_sequence
from goldspan.scoring.sessions import Capture, Content, JsonValue, ToolCall, Turn

_SCHEMAS = (
    "parameters",
    "parameters_json_schema",
    "parametersJsonSchema",
    "input_schema",
    "inputSchema",
    "json_schema",
    "schema",
)
"""Keys of the parameters' schema: OpenAI, Google, Anthropic, MCP and Bedrock, Vercel."""
_SEPARATORS = ("-", ".", "_", "/", ":")  # between the name of a tool and that of its server, plugin or class
_DEEPEST = 6
_MOST_DEFINITIONS = 2_000
_READ_ONLY = "readOnlyHint"


Definitions = str | Path | Mapping[str, Any] | Sequence[Any]
"""The path of a JSON file with definitions of tools, or the definitions, in any provider's format."""


def load_tools(given: Definitions) -> Mapping[str, Mapping[str, JsonValue]]:
    """Return the schema of each tool's parameters by name. Raises FileError where no tool is defined."""
    source, definitions = "tools", given
    if isinstance(given, str | Path):
        source = str(given)
        try:
            definitions = json.loads(Path(given).read_text("utf-8"))
        except OSError as error:
            raise FileError(Mistake(source, "", f"cannot be read: {error.strerror or error}")) from None
        except (ValueError, RecursionError) as error:
            raise FileError(Mistake(source, "", f"is not JSON: {error}")) from None
    found = schemas_of(Content(definitions, Capture.CAPTURED))
    if not found:
        expected = 'expected definitions such as [{"name": "get_weather", "parameters": {"type": "object", ...}}]'
        raise FileError(Mistake(source, "", f"holds no definition of a tool; {expected}"))
    return found


def schemas_of(definitions: Content, agent: str | None = None) -> Mapping[str, Mapping[str, JsonValue]]:
    """Return the schema of each tool's parameters by name, the first of each name; empty unless captured.

    Of definitions that are recorded by agent, those of `agent`, if it is among them.
    """
    if definitions.capture is not Capture.CAPTURED:
        return {}
    raw = definitions.raw
    return _schemas_in_text(raw, agent) if isinstance(raw, str) else _schemas_in(raw, agent)


@lru_cache(maxsize=64)
def _schemas_in_text(text: str, agent: str | None) -> Mapping[str, Mapping[str, JsonValue]]:
    return _schemas_in(Content(text, Capture.CAPTURED).value, agent)


def _schemas_in(value: JsonValue, agent: str | None) -> Mapping[str, Mapping[str, JsonValue]]:
    found: dict[str, Mapping[str, JsonValue]] = {}
    for name, schema in definitions_in(of_agent(value, agent)):
        found.setdefault(name, schema)
    return found


def of_agent(value: JsonValue, agent: str | None) -> JsonValue:
    """Return an agent's own part of decoded definitions, if they are recorded by agent."""
    return value[agent] if agent and is_mapping(value) and agent in value else value


def schema_of(tool: str, declared: Mapping[str, Mapping[str, JsonValue]]) -> Mapping[str, JsonValue] | None:
    """Return the schema of a tool; of `ops-book_table` for `book_table`, if no other name ends so (R9)."""
    found = declared.get(tool)
    if found is not None or not declared:
        return found
    ends = [name for name in declared if name.endswith(tool) and name[-len(tool) - 1 : -len(tool)] in _SEPARATORS]
    return declared[ends[0]] if len(ends) == 1 else None


def declared_parameters(definitions: Content) -> Mapping[str, Mapping[str, JsonValue] | None]:
    """Return the schemas of each tool's parameters by name; None for a tool that also takes undeclared parameters."""
    found: dict[str, Mapping[str, JsonValue] | None] = {}
    if definitions.capture is Capture.CAPTURED:
        for name, schema in definitions_in(definitions.value):
            properties = schema.get("properties")
            closed = is_mapping(properties) and schema.get("additionalProperties", False) is False
            found.setdefault(name, properties if closed else None)
    return found


class ToolDefinition(Struct, frozen=True):
    """A tool as it is described to a model."""

    name: str
    description: str = ""
    schema: Mapping[str, Any] | None = None
    """The JSON Schema of its parameters; None if it declares none."""
    read_only: bool | None = None
    """What MCP's `readOnlyHint` says; None: nothing."""


def definitions_in(value: JsonValue) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the names and schemas in a decoded value, at any depth."""
    for tool in tools_in(value):
        if tool.schema is not None:
            yield tool.name, tool.schema


def tools_in(value: JsonValue) -> Iterator[ToolDefinition]:
    """Yield the definitions of tools in a decoded value, at any depth, also of tools that declare no parameters."""
    waiting: list[tuple[Any, int]] = [(value, 0)]
    for _ in range(_MOST_DEFINITIONS):
        if not waiting:
            return
        item, depth = waiting.pop()
        item = _decoded(item)
        if is_mapping(item):
            schema = next((found for key in _SCHEMAS if is_mapping(found := _decoded(item.get(key)))), None)
            name, description = item.get("name"), item.get("description")
            if isinstance(name, str) and (schema is not None or _is_bare(item)):
                text = description if isinstance(description, str) else ""
                yield ToolDefinition(name, text, None if schema is None else _inner(schema), _read_only(item))
                continue
        inner = list(item.values()) if is_mapping(item) else item if is_sequence(item) else ()
        if depth < _DEEPEST:
            waiting.extend((element, depth + 1) for element in reversed(inner))


def _read_only(item: Mapping[str, Any]) -> bool | None:
    hints = item.get("annotations")
    hint = hints.get(_READ_ONLY) if is_mapping(hints) else None
    return hint if isinstance(hint, bool) else None


def read_only_hints(turns: Iterable[Turn]) -> Mapping[str, bool]:
    """Return what MCP's `readOnlyHint` says of tools, by name."""
    lists = (one for one in lists_of(turns) if not isinstance(one.raw, str) or _READ_ONLY in one.raw)
    tools = (tool for one in lists for tool in tools_in(one.value))
    return {tool.name: tool.read_only for tool in tools if tool.read_only is not None}


def _is_bare(item: Mapping[str, Any]) -> bool:
    """Whether a named object is a tool without parameters: it says what tools say, and holds nothing."""
    if item.keys().isdisjoint(("description", *_SCHEMAS)):
        return False
    return not any(is_mapping(one) or is_sequence(one) for one in map(_decoded, item.values()))


def _decoded(value: Any) -> Any:
    """Decode JSON text; return anything else unchanged."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _inner(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = schema.get("json")  # Bedrock: {"inputSchema": {"json": {...}}}
    return inner if is_mapping(inner) else schema


# The list in force: the definitions that were given to the model which requested a call, else those of the call's turn.


def lists_of(turns: Iterable[Turn]) -> Iterator[Content]:
    """Yield the captured definitions of turns and of their calls, in order; equal neighbours once."""
    last: Content | None = None
    for turn in turns:
        for one in (turn.tool_definitions, *turn.more_definitions, *[call.tool_definitions for call in turn.calls]):
            if one is not last and one.capture is Capture.CAPTURED:
                last = one
                yield one


Defaults = Mapping[str, JsonValue]
"""By parameter name."""


class ToolsInForce:
    """The tools that each call of a turn could use; what was declared is read on first use."""

    __slots__ = ("_read", "_turn")

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._read: dict[tuple[int, str | None], Mapping[str, Mapping[str, JsonValue]]] = {}

    def schema_of(self, call: ToolCall) -> Mapping[str, JsonValue] | None:
        """Return the schema of a call's tool: by the list in force for it, else by that of its turn."""
        for one in (call.tool_definitions, self._turn.tool_definitions):
            if one.capture is Capture.CAPTURED:
                key = id(one), call.agent
                if key not in self._read:
                    self._read[key] = schemas_of(one, call.agent)
                if (schema := schema_of(call.alias or call.name, self._read[key])) is not None:
                    return schema
        return None

    def defaults_of(self, call: ToolCall) -> Defaults:
        """Return the declared defaults of the parameters of a call's tool."""
        properties = (self.schema_of(call) or {}).get("properties")
        if not is_mapping(properties):
            return {}
        return {name: one["default"] for name, one in properties.items() if is_mapping(one) and "default" in one}


def tools_in_force(turn: Turn) -> ToolsInForce | None:
    """Return the tools of a turn's calls; None where no definition was captured."""
    return ToolsInForce(turn) if next(lists_of((turn,)), None) is not None else None
