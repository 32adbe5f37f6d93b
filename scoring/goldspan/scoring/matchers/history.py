"""What the calls of a session returned, for values that come from there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from goldspan.scoring.sessions import Content, ToolCall

Place = tuple[int, int]
"""A call of a golden: its turn and its position there, each from 0."""


class History:
    """The calls of a session in their order, and which of them stand for which expected ones."""

    __slots__ = ("_calls", "_complete", "_names", "_partners", "_positions")

    def __init__(
        self, calls: Sequence[ToolCall], *, names: Mapping[Place, str] | None = None, complete: bool = True
    ) -> None:
        """`names` has the tool of each expected call; `complete` says that no call may be missing."""
        self._calls, self._names, self._complete = calls, names or {}, complete
        self._positions: dict[int, int] = {}
        for position, call in enumerate(calls):
            self._positions.setdefault(id(call), position)
        self._partners: dict[Place, ToolCall | None] = {}

    def stands_for(self, place: Place, call: ToolCall | None) -> None:
        """Note which call stands for an expected one of a turn that was judged already; None: none does."""
        self._partners[place] = call

    def before(self, call: ToolCall) -> Earlier:
        """Return what is known at a call."""
        return Earlier(self, self._positions.get(id(call), len(self._calls)))

    def returned(self, reference: str | Place, position: int) -> Iterable[Content | None]:
        """List what the calls that are meant returned; None where one may be missing."""
        if isinstance(reference, tuple) and reference in self._partners:
            partner = self._partners[reference]
            if partner is not None and self._positions.get(id(partner), position) < position:
                yield partner.result
        else:
            name = self._names.get(reference) if isinstance(reference, tuple) else reference
            for call in self._calls[:position]:
                if call.name == name and not call.rejected:
                    yield call.result
        if not self._complete:
            yield None


class Earlier(NamedTuple):
    """What was known when a call was made."""

    history: History
    position: int

    def returned(self, reference: str | Place) -> Iterable[Content | None]:
        """List what earlier calls returned: those of a tool, or the one that stands for an expected call."""
        return self.history.returned(reference, self.position)
