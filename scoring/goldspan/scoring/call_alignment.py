"""Calls of a turn aligned with expected ones, as their criterion says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from goldspan.scoring.alignment import Alignment, Judge, align
from goldspan.scoring.call_match import CallMatch, Judged
from goldspan.scoring.criterion import Criterion
from goldspan.scoring.sessions import ToolCall


class AlignedCalls(NamedTuple):
    """The partner of each expected call, and what came to light on the way."""

    partners: Sequence[int | None]
    judged: Mapping[int, Judged]
    """By expected call, what some of the pairs were judged as already."""
    approximate: bool


def best_partners(
    matches: Sequence[CallMatch], calls: Sequence[ToolCall], criterion: Criterion, batches: Sequence[int] | None
) -> AlignedCalls:
    """Align calls by what is known of them. `batches` replaces the batch numbers of the calls."""
    judged: dict[int, Judged] = {}
    for index, (match, call) in enumerate(zip(matches, calls, strict=False)):
        if match.expected.name != call.name:
            break
        found = match.judge(call)
        if not match.is_perfect(call, found):
            break
        judged[index] = found
    if len(judged) == len(matches):
        return AlignedCalls(range(len(matches)), judged, approximate=False)
    alignment = align_calls(matches, calls, lambda row, column: matches[row].pair(calls[column]), criterion, batches)
    kept = {index: found for index, found in judged.items() if alignment.partners[index] == index}
    return AlignedCalls(alignment.partners, kept, alignment.approximate)


def align_calls(
    matches: Sequence[CallMatch],
    calls: Sequence[ToolCall],
    judge: Judge,
    criterion: Criterion,
    batches: Sequence[int] | None,
) -> Alignment:
    """Align calls by what `judge` says of pairs. `batches` replaces the batch numbers of the calls."""
    if criterion.parallel_calls == "in_order":
        batches = None
    elif batches is None:
        batches = [call.batch for call in calls]
    return align(
        [match.expected.name for match in matches],
        [call.name for call in calls],
        judge,
        ordered=criterion.ordered,
        batches=batches,
        groups=[match.expected.group for match in matches],
        optional=[match.expected.optional for match in matches],
    )
