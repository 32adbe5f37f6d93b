"""What the calls of a session returned, for values that come from there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from goldspan.scoring.sessions import Content, ToolCall, Turn

if TYPE_CHECKING:
    from goldspan.scoring.goldens.golden import ExpectedCall
    from goldspan.scoring.results import TurnResult

CallPosition = tuple[int, int]
"""A call of a golden: its turn and its position there, each from 0."""


class CallHistory:
    """The calls of a session in their order, and which of them stand for which expected ones.

    Nothing is looked at before it is asked for: most goldens never ask.
    """

    __slots__ = ("_calls", "_complete", "_expected", "_judged", "_positions", "_turns")

    def __init__(
        self, turns: Sequence[Turn], expected: Sequence[Sequence[ExpectedCall]], *, complete: bool = True
    ) -> None:
        """Take a session's turns and the golden's calls by turn; `complete`: no turn of the session is missing."""
        self._turns, self._expected, self._complete = turns, expected, complete
        self._judged: dict[int, TurnResult] = {}
        self._calls: list[ToolCall] = []
        self._positions: dict[int, int] = {}

    def judged(self, turn: int, result: TurnResult) -> None:
        """Note what became of a turn of the golden, for the turns after it."""
        self._judged[turn] = result

    def before(self, call: ToolCall) -> EarlierCalls:
        """Return what is known at a call."""
        if not self._calls:
            self._calls = [call for turn in self._turns for call in turn.calls]
            self._complete = self._complete and all(turn.calls_visible for turn in self._turns)
            for position, one in enumerate(self._calls):
                self._positions.setdefault(id(one), position)
        return EarlierCalls(self, self._positions.get(id(call), 0))

    def returned(self, reference: str | CallPosition, position: int) -> Iterator[Content | None]:
        """List what the calls that are meant returned; None where one of them may not have been seen."""
        result = None if isinstance(reference, str) else self._judged.get(reference[0])
        if isinstance(reference, str) or result is None:
            name = reference if isinstance(reference, str) else self._tool_at(reference)
            for call in islice(self._calls, position):
                if call.name == name and not call.rejected:
                    yield call.result
        else:
            for one in result.calls:
                if one.expected_index == reference[1] and one.aligned and one.actual is not None:
                    yield one.actual.result
        if not self._complete:
            yield None

    def _tool_at(self, place: CallPosition) -> str | None:
        turn, index = place
        calls = self._expected[turn] if turn < len(self._expected) else ()
        return calls[index].name if index < len(calls) else None


class EarlierCalls(NamedTuple):
    """What was known when a call was made."""

    history: CallHistory
    position: int

    def returned(self, reference: str | CallPosition) -> Iterator[Content | None]:
        """List what earlier calls returned: those of a tool, or the one that stands for an expected call."""
        return self.history.returned(reference, self.position)
