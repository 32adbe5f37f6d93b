"""The context of a call: the results of earlier calls, and the parameter defaults that tool definitions declare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol

from msgspec import Struct

from goldspan.scoring.json_values import is_mapping
from goldspan.scoring.sessions import Capture, Content, JsonValue, ToolCall, Turn
from goldspan.scoring.tool_definitions import definitions_in

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


# Defaults of parameters: if an agent leaves out an argument, its value is the default in the tool's JSON Schema.

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
            for name, schema in definitions_in(self._definitions.value):
                self._of_tools.setdefault(name, _defaults(schema))
        return self._of_tools.get(tool, {})


def _defaults(schema: Mapping[str, Any]) -> Defaults:
    properties = schema.get("properties")
    if not is_mapping(properties):
        return {}
    return {
        name: schema["default"] for name, schema in properties.items() if is_mapping(schema) and "default" in schema
    }


class CallContext(Struct, frozen=True, gc=False):
    """What a comparison uses besides the call's own arguments."""

    history: CallHistory | None = None
    """The results of earlier calls; None: unknown."""
    defaults: DeclaredDefaults | None = None
    """The defaults of arguments that were left out; None: unknown."""
