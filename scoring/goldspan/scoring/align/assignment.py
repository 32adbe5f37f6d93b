"""Maximum-weight matching of rows to columns, built row by row, in exact integers and pure Python.

The Hungarian method with prices: every row has a gain and every column a price, none negative, with
`gain + price >= weight`, equal where row and column are matched, a gain of 0 where a row is left over and a price of 0
where a column is. Such prices prove a matching best, and name all other best ones: those that use only pairs where
`gain + price == weight`. Rows are added by shortest augmenting paths, so the best matching of every prefix is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import sub

_NONE = -1


class Assignment:
    """A best matching of the rows added so far. Two with a weight of 0 may not be matched; none is negative."""

    __slots__ = ("column_of", "gains", "prices", "row_of", "rows", "value")

    def __init__(self, columns: int) -> None:
        self.rows: list[Sequence[int]] = []
        self.gains: list[int] = []
        self.prices = [0] * columns
        self.column_of: list[int] = []
        self.row_of = [_NONE] * columns
        self.value = 0

    def copy(self) -> Assignment:
        """Return the same matching, to be continued in another way."""
        twin = Assignment(0)
        twin.rows, twin.value = self.rows.copy(), self.value
        twin.gains, twin.prices = self.gains.copy(), self.prices.copy()
        twin.column_of, twin.row_of = self.column_of.copy(), self.row_of.copy()
        return twin

    def add(self, weights: Sequence[int]) -> int:
        """Add a row by its weights, one for each column, and return the value of the best matching."""
        gain = max(map(sub, weights, self.prices), default=0)
        self.rows.append(weights)
        self.gains.append(max(gain, 0))
        self.column_of.append(_NONE)
        if gain > 0:
            self._make_room(len(self.rows) - 1, gain)
        return self.value

    def _make_room(self, row: int, gain: int) -> None:
        """Find the cheapest end of a chain of moves that starts with a new row: a free column, or a row left over."""
        prices, gains, rows, row_of = self.prices, self.gains, self.rows, self.row_of
        distance = [gain + price - weight for price, weight in zip(prices, rows[row], strict=True)]
        free = [c for c, owner in enumerate(row_of) if owner == _NONE]
        nearest_free = min(free, key=distance.__getitem__, default=_NONE)
        if nearest_free != _NONE and not distance[nearest_free]:
            row_of[nearest_free], self.column_of[row] = row, nearest_free
            self.value += gain
            return
        mover = [row] * len(distance)
        """Which row would move to a column."""
        waiting = [c for c, owner in enumerate(row_of) if owner != _NONE]
        passed: list[int] = []
        end, left_over, column = gain, row, _NONE
        if nearest_free != _NONE and distance[nearest_free] < end:
            end, column = distance[nearest_free], nearest_free
        nearest = min(waiting, key=distance.__getitem__, default=_NONE)
        while nearest != _NONE and distance[nearest] < end:
            owner = row_of[nearest]
            waiting.remove(nearest)
            passed.append(nearest)
            offset, weights = distance[nearest] + gains[owner], rows[owner]
            if offset < end:
                end, left_over, column = offset, owner, _NONE
            if free:
                # A free column has no price.
                best_free = max(free, key=weights.__getitem__)
                if offset - weights[best_free] < end:
                    end, column = offset - weights[best_free], best_free
                    mover[best_free] = owner
            nearest, least = _NONE, end
            for c in waiting:
                through = offset + prices[c] - weights[c]
                known = distance[c]
                if through < known:
                    distance[c] = known = through
                    mover[c] = owner
                if known < least:
                    nearest, least = c, known
        self.value += gain - end
        gains[row] = gain - end
        for c in passed:
            change = end - distance[c]
            gains[row_of[c]] -= change
            prices[c] += change
        if column == _NONE:
            column = self.column_of[left_over]
            self.column_of[left_over] = _NONE
        while column != _NONE:
            owner = mover[column]
            row_of[column] = owner
            self.column_of[owner], column = column, self.column_of[owner]


class BestMatchings:
    """All matchings as good as a given one.

    A row moves to a column by having its owner make way, who moves to another column, and so on, until somebody takes
    the column that the first row came from. Nobody moves but between pairs that keep the matching best. A chain may
    pass through "nowhere", which stands for all free columns and all rows left over.
    """

    def __init__(self, best: Assignment) -> None:
        self._column_of, self._row_of = best.column_of.copy(), best.row_of.copy()
        self._tight = {row: _tight_columns(best, row) for row in range(len(best.rows))}
        self._may_be_left_over = [gain == 0 for gain in best.gains]
        self._may_be_free = [price == 0 for price in best.prices]

    def take_lowest(self, row: int) -> int | None:
        """Match a row with the lowest column it has in any of them, and keep only those that have this pair.

        None where the row is left over in all that are still there, or was never added.
        """
        if row not in self._tight:
            return None
        own, wanted = self._column_of[row], self._tight.pop(row)
        if own == _NONE or wanted & ((1 << own) - 1):
            moves, leads_to, after_nowhere = self._moves(own)
            wanted &= leads_to
            if not wanted:
                return None
            lowest = (wanted & -wanted).bit_length() - 1
            if lowest != own:
                self._move(row, lowest, moves, after_nowhere)
        else:
            lowest = own
        for other in self._tight:
            self._tight[other] &= ~(1 << lowest)
        return lowest

    def _moves(self, own: int) -> tuple[dict[int, int], int, int]:
        """Find who can make way so that in the end the column `own` is taken or may stay free.

        Returns the column each such row moves to (none: nowhere), the columns whose owners can make way as bits, and
        the row that moves after a chain passed nowhere (none: it ends there).
        """
        leads_to = 0 if own == _NONE else 1 << own
        nowhere_leads_to = own == _NONE or self._may_be_free[own]
        free = sum(1 << column for column, row in enumerate(self._row_of) if row == _NONE)
        moves: dict[int, int] = {}
        after_nowhere = _NONE
        changed = True
        while changed:
            changed = False
            for row, tight in self._tight.items():
                if row in moves:
                    continue
                column = self._column_of[row]
                goals = tight & (leads_to | free if nowhere_leads_to else leads_to)
                if goals:
                    moves[row] = (goals & -goals).bit_length() - 1
                elif nowhere_leads_to and column != _NONE and self._may_be_left_over[row]:
                    moves[row] = _NONE
                else:
                    continue
                changed = True
                if column != _NONE:
                    leads_to |= 1 << column
                if not nowhere_leads_to and (column == _NONE or self._may_be_free[column]):
                    nowhere_leads_to, after_nowhere = True, row
        return moves, leads_to | free if nowhere_leads_to else leads_to, after_nowhere

    def _move(self, row: int, column: int, moves: dict[int, int], after_nowhere: int) -> None:
        """Make a chain of moves, begun by a row that goes to a column."""
        column_of, row_of = self._column_of, self._row_of
        goal = column_of[row]
        mover, left = row, goal
        while True:
            if left != _NONE:
                row_of[left] = _NONE
            displaced = _NONE if column == _NONE else row_of[column]
            column_of[mover] = column
            if column != _NONE:
                row_of[column] = mover
                if column == goal:
                    return
            left = _NONE
            if displaced == _NONE:
                if after_nowhere == _NONE:
                    return
                displaced, left = after_nowhere, column_of[after_nowhere]
            mover, column = displaced, moves[displaced]


def _tight_columns(best: Assignment, row: int) -> int:
    gain = best.gains[row]
    return sum(
        1 << column
        for column, (weight, price) in enumerate(zip(best.rows[row], best.prices, strict=True))
        if weight > 0 and gain + price == weight
    )
