"""What was made of each item of a list, kept while the list grows: a session that is judged again has one turn more.

Items count as unchanged only if they are the same objects. What is kept never changes a result: it is what would be
made again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from typing import Generic, TypeVar

MadeT = TypeVar("MadeT")


def unchanged_start(before: Sequence[object], now: Sequence[object]) -> int:
    """Return how many items at the start of both lists are the same objects."""
    if not before or before is now:
        return len(before)
    same = list(map(is_, before, now))
    return same.index(False) if False in same else len(same)


class IncrementalList(Generic[MadeT]):
    """What was made of each item of a list, in the order of the list."""

    __slots__ = ("_items", "made")

    def __init__(self) -> None:
        self._items: Sequence[object] = ()
        self.made: list[MadeT] = []

    def update(
        self, items: Sequence[object], make: Callable[[int], MadeT], *, at_most: int | None = None
    ) -> tuple[int, list[MadeT]]:
        """Make the items anew, by their positions, from the first one that is not the same object as before.

        `at_most` says how many of those before may be kept. Returns how many were kept, and what was made of the
        others before; what `make` raises changes nothing.
        """
        return self.accumulate(items, lambda _, at: make(at), at_most=at_most)

    def accumulate(
        self, items: Sequence[object], make: Callable[[MadeT | None, int], MadeT], *, at_most: int | None = None
    ) -> tuple[int, list[MadeT]]:
        """Do as `update` does, where `make` also takes what was made of the item before, None for the first."""
        first = unchanged_start(self._items, items)
        if at_most is not None:
            first = min(first, at_most)
        before = self.made[first - 1] if first else None
        more: list[MadeT] = []
        for at in range(first, len(items)):
            before = make(before, at)
            more.append(before)
        gone = self.made[first:]
        self.made[first:] = more
        self._items = items
        return first, gone
