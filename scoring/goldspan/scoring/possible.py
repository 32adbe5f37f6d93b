"""What a turn may still be worth where something in it is unknown.

Calls are aligned by what is known of them. One that is unknown, and stands for none or for another expected call, may
turn out to be the right one: a turn fails only if it does so whatever that may be.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from goldspan.scoring.alignment import Pair, align
from goldspan.scoring.call_match import REASONS, CallMatch
from goldspan.scoring.comparison import ZERO
from goldspan.scoring.criterion import Criterion
from goldspan.scoring.results import Reason
from goldspan.scoring.sessions import Capture, ToolCall


def reason_of_unknown(matches: Sequence[CallMatch], calls: Sequence[ToolCall]) -> Reason | None:
    """Return why the first call is unknown of those that could stand for an expected one, if one is."""
    names = {match.expected.name for match in matches}
    for call in calls:
        if call.name in names:
            hidden = (call.capture, *call.argument_captures.values())
            why = next((REASONS[one] for one in hidden if one != Capture.CAPTURED), None)
            if why is not None:
                return why
    return None


def batches_of(
    calls: Sequence[ToolCall], criterion: Criterion, numbers: Sequence[int] | None = None
) -> Sequence[int] | None:
    """Return the numbers of the calls' batches, which `numbers` replaces; none where batches do not matter."""
    if criterion.parallel_calls == "in_order":
        return None
    return [call.batch for call in calls] if numbers is None else numbers


def most_of_each(
    matches: Sequence[CallMatch], calls: Sequence[ToolCall], criterion: Criterion, batches: Sequence[int] | None
) -> list[Fraction]:
    """Return what the calls that are needed would be worth if all that is unknown were right, in the best alignment."""

    def judge(row: int, column: int) -> Pair | None:
        pair = matches[row].pair(calls[column])
        return None if pair is None else Pair(pair.score + pair.room)

    expected = [match.expected for match in matches]
    partners = align(
        [call.name for call in expected],
        [call.name for call in calls],
        judge,
        ordered=criterion.ordered,
        batches=batches_of(calls, criterion, batches),
        groups=[call.group for call in expected],
        optional=[call.optional for call in expected],
    ).partners
    pairs = [None if partner is None else judge(row, partner) for row, partner in enumerate(partners)]
    return [
        ZERO if pair is None else pair.score for call, pair in zip(expected, pairs, strict=True) if not call.optional
    ]
