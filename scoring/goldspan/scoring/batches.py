"""Ordered alignment where some actual calls were asked for at once: order is free inside a batch, batches keep theirs.

The expected calls (rows) are cut into one block for each batch, and each block is matched with its batch in any order.
`ends[row]` below is the most that rows from this one on can win in the batches that follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import sub

from goldspan.scoring.assignment import Assignment, BestMatchings

Weights = Sequence[Sequence[int]]
"""Row by column; 0 where the two may not be aligned."""

_FEW = 6
"""Up to so many calls of one batch, every subset of them is looked at; beyond, the batch is matched as a whole."""
_LOOK_AHEAD = 4
"""After how many rows without a gain it pays to ask how many more may bring one."""


def align_batches(weights: Weights, batches: Sequence[Sequence[int]]) -> list[int | None]:
    """Return the best alignment as one column for each row; of equals, each row in turn has the earliest column.

    `batches` are the columns of each batch, in order. Rows i < j never go to a later and an earlier batch.
    """
    rows = len(weights)
    ends = [0] * (rows + 1)
    steps: list[_FewCalls | _ManyCalls] = []
    for number, columns in reversed(tuple(enumerate(batches))):
        block = [[row[column] for column in columns] for row in weights]
        few = len(columns) <= _FEW
        steps.append(_FewCalls(block, ends) if few else _ManyCalls(block, ends, is_first=number == 0))
        ends = steps[-1].values
    steps.reverse()

    partners: list[int | None] = [None] * rows
    remaining, current, used = ends[0], 0, 0
    for row in range(rows):
        for number in range(current, len(steps)):
            if number > current and steps[number].values[row] < remaining:
                break
            column = steps[number].earliest(row, used if number == current else 0, remaining)
            if column is not None:
                used = (used if number == current else 0) | 1 << column
                current = number
                partners[row] = batches[number][column]
                remaining -= weights[row][batches[number][column]]
                break
    return partners


class _FewCalls:
    """A batch whose every subset of used calls is looked at."""

    def __init__(self, block: Weights, ends: Sequence[int]) -> None:
        self._block = block
        calls = range(len(block[0]) if block else 0)
        without = [[used for used in range(1 << len(calls)) if not used >> call & 1] for call in calls]
        self._won: list[list[int]] = [[0] * (1 << len(calls))]
        """By row, then by the bits of the used calls: the most that this and later rows can win."""
        for row in range(len(block) - 1, -1, -1):
            below, end = self._won[-1], ends[row]
            won = [end if end > other else other for other in below]
            for call in calls:
                weight = block[row][call]
                if weight:
                    for used in without[call]:
                        if (value := weight + below[used | 1 << call]) > won[used]:
                            won[used] = value
            self._won.append(won)
        self._won.reverse()
        self.values = [won[0] for won in self._won]

    def earliest(self, row: int, used: int, remaining: int) -> int | None:
        """Return the first call of the batch that lets this and later rows win what remains."""
        below = self._won[row + 1]
        for call, weight in enumerate(self._block[row]):
            if weight and not used >> call & 1 and weight + below[used | 1 << call] == remaining:
                return call
        return None


class _ManyCalls:
    """A batch that is matched as a whole with every block of rows that may be the best one.

    Where the block of a row ends best never comes earlier for a later row (matching a set of rows is submodular), which
    halves what is to be looked at again and again; blocks grow row by row from what they have in common.
    """

    def __init__(self, block: Weights, ends: Sequence[int], *, is_first: bool) -> None:
        self._block, self._ends = block, ends
        self._blocks: list[tuple[int, BestMatchings]] = []
        self._chosen_for = -1
        self._strength = [sum(row) for row in block]
        self._calls = len(block[0]) if block else 0
        self.values = list(ends)
        if ends[0] == ends[-1]:
            matching = Assignment(self._calls)
            for row in range(len(block) - 1, -1, -1):
                self.values[row] = matching.add(block[row]) + ends[-1]
        else:
            self._fill(Assignment(self._calls), 0, 0 if is_first else len(block), 0, len(block))

    def _fill(self, common: Assignment, first: int, last: int, earliest: int, latest: int) -> None:
        """Find the values of rows first..last, whose blocks end between earliest and latest.

        `common` has the rows that all these blocks share: last..earliest, if any.
        """
        if first > last:
            return
        middle = (first + last) // 2
        matching = self._extended(common, range(middle, min(last, earliest)))
        end = best_end = max(middle, earliest)
        best = matching.value + self._ends[end]
        reach, look = latest, end + _LOOK_AHEAD
        while end < reach:
            matching.add(self._block[end])
            end += 1
            if matching.value + self._ends[end] > best:
                best, best_end = matching.value + self._ends[end], end
            elif end >= look:
                reach, look = self._reach(matching, end, reach, best), 2 * end - max(middle, earliest)
        self.values[middle] = best
        self._fill(
            self._extended(common, range(middle - 1, min(last, earliest))), first, middle - 1, earliest, best_end
        )
        self._fill(self._extended(common, range(max(last, earliest), best_end)), middle + 1, last, best_end, latest)

    def _reach(self, matching: Assignment, end: int, latest: int, best: int) -> int:
        """Return the last end that may be better than the best so far, by what each row can win at most."""
        reach, bound, prices = end, matching.value, matching.prices
        for row in range(end, latest):
            gain = max(map(sub, self._block[row], prices))
            bound += gain if gain > 0 else 0
            if bound + self._ends[row + 1] > best:
                reach = row + 1
        return reach

    def _extended(self, matching: Assignment, rows: range) -> Assignment:
        longer = matching.copy()
        # The strongest first: then few of those that follow make others move.
        for row in sorted(rows, key=self._strength.__getitem__, reverse=True):
            longer.add(self._block[row])
        return longer

    def earliest(self, row: int, used: int, remaining: int) -> int | None:
        """Return the first call of the batch that lets this and later rows win what remains."""
        if not used and self._chosen_for != remaining:
            # What is best for this row is so for later ones too, as long as nothing was won.
            self._chosen_for = remaining
            self._choose_blocks(row, remaining)
        found = [(matchings.take_lowest(row - first), matchings, first) for first, matchings in self._blocks]
        column = min((column for column, _, _ in found if column is not None), default=None)
        if column is not None:
            self._blocks = [(first, matchings) for taken, matchings, first in found if taken == column]
        return column

    def _choose_blocks(self, row: int, remaining: int) -> None:
        """Keep the best matchings of each block that starts here and lets this and later rows win what remains."""
        self._blocks = []
        matching, ends = Assignment(self._calls), self._ends
        for end in range(row + 1, len(ends)):
            matching.add(self._block[end - 1])
            # Of blocks that leave the same to win, the longest has all the matchings of the others.
            is_longest = end == len(ends) - 1 or ends[end + 1] < ends[end]
            if is_longest and matching.value + ends[end] == remaining:
                self._blocks.append((row, BestMatchings(matching)))
