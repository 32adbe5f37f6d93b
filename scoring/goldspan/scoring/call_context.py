"""The context of a call: the results of earlier calls, and the parameter defaults that tool definitions declare."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol

from goldspan.scoring.json_values import is_mapping, is_sequence
from goldspan.scoring.sessions import Capture, Content, JsonValue, ToolCall, Turn

ExpectedCallPosition = tuple[int, int]
"""The position of an expected call in its golden: turn, then call in the turn, each from 0."""


class NamedCall(Protocol):
    """A call with the name of its tool."""

    @property
    def name(self) -> str:
        """The tool."""
        ...


class CallHistory:
    """The calls of a session in order, and the expected calls that they are aligned with.

    The list of calls is made on first use, since most goldens never use it.
    """

    __slots__ = ("_aligned", "_calls", "_complete", "_expected", "_positions", "_turns")

    def __init__(
        self, turns: Sequence[Turn], expected: Sequence[Sequence[NamedCall]], *, complete: bool = True
    ) -> None:
        """Take a session's turns, and the golden's calls by turn; `complete`: no call of the session is missing."""
        self._turns, self._expected, self._complete = turns, expected, complete
        self._aligned: dict[int, Mapping[int, ToolCall]] = {}
        self._calls: list[ToolCall] = []
        self._positions: dict[int, int] = {}

    def record(self, turn: int, aligned: Mapping[int, ToolCall]) -> None:
        """Record the partners of a golden turn's expected calls, by index, for the turns after it."""
        self._aligned[turn] = aligned

    def before(self, call: ToolCall) -> EarlierCalls:
        """Return the calls before a call."""
        if not self._calls:
            self._calls = [call for turn in self._turns for call in turn.calls]
            self._complete = self._complete and all(turn.calls_visible for turn in self._turns)
            for position, earlier in enumerate(self._calls):
                self._positions.setdefault(id(earlier), position)
        return EarlierCalls(self, self._positions.get(id(call), 0))

    def returned(self, reference: str | ExpectedCallPosition, position: int) -> Iterator[Content | None]:
        """Yield the results of the referenced calls before a position; None if such a call may be missing."""
        aligned = None if isinstance(reference, str) else self._aligned.get(reference[0])
        if isinstance(reference, str) or aligned is None:
            name = reference if isinstance(reference, str) else self._tool_at(reference)
            for call in islice(self._calls, position):
                if call.name == name and not call.rejected:
                    yield call.result
        elif reference[1] in aligned:
            yield aligned[reference[1]].result
        if not self._complete:
            yield None

    def _tool_at(self, place: ExpectedCallPosition) -> str | None:
        turn, index = place
        calls = self._expected[turn] if turn < len(self._expected) else ()
        return calls[index].name if index < len(calls) else None


class EarlierCalls(NamedTuple):
    """The calls before a call of the session."""

    history: CallHistory
    position: int

    def returned(self, reference: str | ExpectedCallPosition) -> Iterator[Content | None]:
        """Yield the results of earlier calls: of a tool, or of the call aligned with an expected call."""
        return self.history.returned(reference, self.position)


# Defaults of parameters.
#
# If an agent leaves out an argument, its value is the default in the tool's JSON Schema. Frameworks wrap that schema in
# different ways, so the search takes any object with a name and a schema, at any place.

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
_DEEPEST = 6
_MOST_DEFINITIONS = 2_000

Defaults = Mapping[str, JsonValue]
"""By parameter name."""


class DeclaredDefaults:
    """The defaults that the tool definitions of a turn declare; read on first use."""

    __slots__ = ("_definitions", "_of_tools")

    def __init__(self, definitions: Content) -> None:
        self._definitions = definitions
        self._of_tools: dict[str, Defaults] | None = None

    def of(self, tool: str) -> Defaults:
        """Return the defaults of a tool's parameters; the first definition of a name counts."""
        if self._definitions.capture is not Capture.CAPTURED:
            return {}
        if self._of_tools is None:
            self._of_tools = {}
            for name, schema in _definitions(self._definitions.value):
                self._of_tools.setdefault(name, _defaults(schema))
        return self._of_tools.get(tool, {})


def declared_parameters(definitions: Content) -> Mapping[str, Mapping[str, JsonValue] | None]:
    """Return the schemas of each tool's parameters by name; None for a tool that also takes undeclared parameters."""
    found: dict[str, Mapping[str, JsonValue] | None] = {}
    if definitions.capture is Capture.CAPTURED:
        for name, schema in _definitions(definitions.value):
            properties = _inner(schema).get("properties")
            closed = is_mapping(properties) and _inner(schema).get("additionalProperties", False) is False
            found.setdefault(name, properties if closed else None)
    return found


def _definitions(value: JsonValue) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Find names and schemas at any depth."""
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
            waiting.extend((element, depth + 1) for element in reversed(inner))


def _decoded(value: Any) -> Any:
    """Decode JSON text; return anything else unchanged."""
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
    return {
        name: schema["default"] for name, schema in properties.items() if is_mapping(schema) and "default" in schema
    }


def _inner(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = schema.get("json")  # Bedrock: {"inputSchema": {"json": {...}}}
    return inner if is_mapping(inner) else schema


class CallContext(NamedTuple):
    """What a comparison uses besides the call's own arguments."""

    history: CallHistory | None = None
    """The results of earlier calls; None: unknown."""
    defaults: DeclaredDefaults | None = None
    """The defaults of arguments that were left out; None: unknown."""
