"""The turns of a session taken as one, where a golden or another system's rules judge all of its calls together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from goldspan.scoring.sessions import Capture, Session, Turn


def as_one_turn(session: Session) -> Turn | None:
    """Return all turns as one, which ends with the last and stands at its root; none where there is no turn."""
    if not session.turns:
        return None
    turns, last = session.turns, session.turns[-1]
    captured = (turn.tool_definitions for turn in reversed(turns) if turn.tool_definitions.capture is Capture.CAPTURED)
    return replace(
        last,
        calls=tuple(call for turn in turns for call in turn.calls),
        trace_ids=tuple(dict.fromkeys(trace for turn in turns for trace in turn.trace_ids)),
        turn_id=None,
        start=turns[0].start,
        calls_visible=all(turn.calls_visible for turn in turns),
        tool_definitions=next(captured, last.tool_definitions),
    )


def batches_of(turns: Sequence[Turn]) -> list[int]:
    """Return a batch number for each call, which no two turns share; 0 stands for no batch."""
    numbers: dict[tuple[int, int], int] = {}
    return [
        numbers.setdefault((index, call.batch), len(numbers) + 1) if call.batch else 0
        for index, turn in enumerate(turns)
        for call in turn.calls
    ]
