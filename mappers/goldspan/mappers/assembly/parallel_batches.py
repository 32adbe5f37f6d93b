"""Which tool calls of a turn ran in parallel (R8).

Calls that one model response requested are a batch. Executions without a visible request are a batch if they are
siblings that overlap in time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from goldspan.mappers.assembly.trace_tree import TraceTree, time_order
from goldspan.mappers.facts import SpanFacts
from goldspan.scoring.sessions import SpanRef, ToolCall


def overlapping_siblings(
    executions: Iterable[SpanFacts], tree_of: Callable[[SpanFacts], TraceTree]
) -> dict[SpanRef, SpanRef]:
    """Return the first span of its batch for each execution: siblings that overlap in time, transitively (R8)."""
    batches: dict[SpanRef, SpanRef] = {}
    open_until: dict[tuple[str, str], tuple[int, SpanRef]] = {}
    for span in sorted(executions, key=time_order):
        parent = tree_of(span).parent(span.span_id)
        siblings = (span.trace_id, parent.span_id if parent is not None else span.parent_id or span.span_id)
        until, batch = open_until.get(siblings, (0, span.ref))
        if span.start >= until:
            batch = span.ref
        open_until[siblings] = (max(until, span.end), batch)
        batches[span.ref] = batch
    return batches


class Batches:
    """The calls of a turn by batch. A batch is ordered by its first execution, else by the end of the model call."""

    def __init__(self) -> None:
        self._order: dict[object, tuple[int, int, str]] = {}
        self._calls: dict[object, list[tuple[int, ToolCall]]] = {}

    def add(
        self,
        batch: object,
        moment: tuple[int, int, str],
        position: int,
        call: ToolCall,
        *,
        only_requested: bool = False,
    ) -> None:
        """Add a call at a position of a batch; a call that was `only_requested` does not move the batch forward."""
        if batch not in self._calls:
            self._order[batch], self._calls[batch] = moment, []
        elif not only_requested:
            self._order[batch] = min(self._order[batch], moment)
        self._calls[batch].append((position, call))

    def numbered(self) -> tuple[ToolCall, ...]:
        """Return all calls in order, each with the number of its batch."""
        ordered = sorted(self._calls, key=self._order.__getitem__)
        return tuple(
            replace(call, batch=number)
            for number, batch in enumerate(ordered, start=1)
            for _, call in sorted(self._calls[batch], key=lambda item: item[0])
        )
