"""What a turn may still be worth where something in it is unknown.

Calls are aligned by what is known of them. One that is unknown, and stands for none or for another expected call, may
turn out to be the right one: a turn fails only if it does so whatever that may be.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from goldspan.scoring.alignment import Pair
from goldspan.scoring.call_alignment import align_calls
from goldspan.scoring.call_match import CallMatch
from goldspan.scoring.comparison import ZERO
from goldspan.scoring.criterion import Criterion
from goldspan.scoring.known_arguments import why_hidden
from goldspan.scoring.results import Reason
from goldspan.scoring.sessions import ToolCall


def reason_of_unknown(matches: Sequence[CallMatch], calls: Sequence[ToolCall]) -> Reason | None:
    """Return why the first call is unknown of those that could stand for an expected one, if one is."""
    names = {match.expected.name for match in matches}
    reasons = (why_hidden(call) for call in calls if call.name in names)
    return next((why for why in reasons if why is not None), None)


def most_of_each(
    matches: Sequence[CallMatch], calls: Sequence[ToolCall], criterion: Criterion, batches: Sequence[int] | None
) -> list[Fraction]:
    """Return what the calls that are needed would be worth if all that is unknown were right, in the best alignment."""

    def judge(row: int, column: int) -> Pair | None:
        pair = matches[row].pair(calls[column])
        return None if pair is None else Pair(pair.score + pair.room)

    partners = align_calls(matches, calls, judge, criterion, batches).partners
    pairs = [None if partner is None else judge(row, partner) for row, partner in enumerate(partners)]
    return [
        ZERO if pair is None else pair.score
        for match, pair in zip(matches, pairs, strict=True)
        if not match.expected.optional
    ]
