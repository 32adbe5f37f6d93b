"""What the calls of a session returned, for expected values that come from an earlier result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, Protocol

from goldspan.scoring.sessions import Content, ToolCall, Turn

CallPosition = tuple[int, int]
"""A call of a golden: its turn and its position there, each from 0."""


class NamedCall(Protocol):
    """A call of which only the tool's name matters here."""

    @property
    def name(self) -> str:
        """The tool."""
        ...


class CallHistory:
    """The calls of a session in order, and which of them are aligned with which expected calls.

    The calls are listed when a value first asks for them: most goldens never do.
    """

    __slots__ = ("_aligned", "_calls", "_complete", "_expected", "_positions", "_turns")

    def __init__(
        self, turns: Sequence[Turn], expected: Sequence[Sequence[NamedCall]], *, complete: bool = True
    ) -> None:
        """Take a session's turns and the golden's calls by turn; `complete`: no turn of the session is missing."""
        self._turns, self._expected, self._complete = turns, expected, complete
        self._aligned: dict[int, Mapping[int, ToolCall]] = {}
        self._calls: list[ToolCall] = []
        self._positions: dict[int, int] = {}

    def record(self, turn: int, aligned: Mapping[int, ToolCall]) -> None:
        """Record, for the turns after it, which calls a golden turn's expected calls are aligned with, by index."""
        self._aligned[turn] = aligned

    def before(self, call: ToolCall) -> EarlierCalls:
        """Return what is known when a call is made."""
        if not self._calls:
            self._calls = [call for turn in self._turns for call in turn.calls]
            self._complete = self._complete and all(turn.calls_visible for turn in self._turns)
            for position, one in enumerate(self._calls):
                self._positions.setdefault(id(one), position)
        return EarlierCalls(self, self._positions.get(id(call), 0))

    def returned(self, reference: str | CallPosition, position: int) -> Iterator[Content | None]:
        """Yield what the referenced calls returned; None where one of them may not have been seen."""
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

    def _tool_at(self, place: CallPosition) -> str | None:
        turn, index = place
        calls = self._expected[turn] if turn < len(self._expected) else ()
        return calls[index].name if index < len(calls) else None


class EarlierCalls(NamedTuple):
    """The calls before one call."""

    history: CallHistory
    position: int

    def returned(self, reference: str | CallPosition) -> Iterator[Content | None]:
        """Yield what earlier calls returned: those of a tool, or the one aligned with an expected call."""
        return self.history.returned(reference, self.position)
