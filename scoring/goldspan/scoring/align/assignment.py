"""Maximum-weight matching of rows to columns, built row by row, with exact integers in pure Python.

This is the Hungarian method with prices. Every row has a gain and every column has a price, and none is negative.
`gain + price >= weight` for every pair, with equality for matched pairs. Unmatched rows have gain 0, and unmatched
columns have price 0. Such prices prove that the matching is optimal. They also describe all other optimal matchings:
those that use only pairs with `gain + price == weight`. Rows are added by shortest augmenting paths, so the optimal
matching of every prefix is known. For example, the rows r and s, and the columns a and b:

    weights   a b     r alone takes a: its gain is 5, and there are no prices.
    r         5 4     s is worth most at a, 6. It costs r 1 to move to b, and would cost s 4 to take b.
    s         6 2     So r moves: a has the price 1, r the gain 4, and s the gain 6 - 1 = 5.
    value     4 + 6   is the sum of gains and prices, 4 + 5 + 1, and no matching can have more.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import sub

_NONE = -1


class Assignment:
    """An optimal matching of the rows added so far. Weights are not negative; pairs with weight 0 are not matched."""

    __slots__ = ("column_of", "gains", "prices", "row_of", "rows", "value")

    def __init__(self, columns: int) -> None:
        self.rows: list[Sequence[int]] = []
        self.gains: list[int] = []
        self.prices = [0] * columns
        self.column_of: list[int] = []
        self.row_of = [_NONE] * columns
        self.value = 0

    def copy(self) -> Assignment:
        """Return an independent copy."""
        twin = Assignment(0)
        twin.rows, twin.value = self.rows.copy(), self.value
        twin.gains, twin.prices = self.gains.copy(), self.prices.copy()
        twin.column_of, twin.row_of = self.column_of.copy(), self.row_of.copy()
        return twin

    def add(self, weights: Sequence[int]) -> int:
        """Add a row with a weight for each column, and return the value of the optimal matching."""
        gain = max(map(sub, weights, self.prices), default=0)
        self.rows.append(weights)
        self.gains.append(max(gain, 0))
        self.column_of.append(_NONE)
        if gain > 0:
            # The shortest augmenting path from the new row ends at a free column or at an unmatched row.
            row = len(self.rows) - 1
            distance = [gain + price - weight for price, weight in zip(self.prices, self.rows[row], strict=True)]
            free = [c for c, owner in enumerate(self.row_of) if owner == _NONE]
            nearest_free = min(free, key=distance.__getitem__, default=_NONE)
            if nearest_free != _NONE and not distance[nearest_free]:
                self.row_of[nearest_free], self.column_of[row] = row, nearest_free
                self.value += gain
            else:
                self._search(row, gain, distance, free, nearest_free)
        return self.value

    def _search(self, row: int, gain: int, distance: list[int], free: list[int], nearest_free: int) -> None:
        """Search the path by what each column costs the new row, `distance`, and change the matching along it."""
        prices, gains, rows, row_of = self.prices, self.gains, self.rows, self.row_of
        mover = [row] * len(distance)
        """For each column, the row that moves to it."""
        waiting = [c for c, owner in enumerate(row_of) if owner != _NONE]
        passed: list[int] = []
        end, unmatched, column = gain, row, _NONE
        if nearest_free != _NONE and distance[nearest_free] < end:
            end, column = distance[nearest_free], nearest_free
        nearest = min(waiting, key=distance.__getitem__, default=_NONE)
        while nearest != _NONE and distance[nearest] < end:
            owner = row_of[nearest]
            waiting.remove(nearest)
            passed.append(nearest)
            offset, weights = distance[nearest] + gains[owner], rows[owner]
            if offset < end:
                end, unmatched, column = offset, owner, _NONE
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
            column = self.column_of[unmatched]
            self.column_of[unmatched] = _NONE
        self._move_along(column, mover)

    def _move_along(self, column: int, mover: Sequence[int]) -> None:
        """Give a column to the row that moves to it, the column that this row had to the next, and so on."""
        row_of = self.row_of
        while column != _NONE:
            owner = mover[column]
            row_of[column] = owner
            self.column_of[owner], column = column, self.column_of[owner]


class BestMatchings:
    """All matchings with the value of an optimal matching.

    A row moves to a column, the row that had this column moves to another column, and so on, until a row takes the
    first row's old column. Only moves along tight pairs are allowed, so the value stays optimal. A chain may pass
    through "nowhere", which represents all free columns and all unmatched rows.
    """

    def __init__(self, best: Assignment) -> None:
        self._column_of, self._row_of = best.column_of.copy(), best.row_of.copy()
        self._tight = {row: _tight_columns(best, row) for row in range(len(best.rows))}
        self._may_be_unmatched = [gain == 0 for gain in best.gains]
        self._may_be_free = [price == 0 for price in best.prices]

    def take_lowest(self, row: int) -> int | None:
        """Match a row with its lowest column in any of the matchings, and drop the matchings without this pair.

        None if the row is unmatched in all remaining matchings, or was never added.
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
        """Find the rows that can move so that column `own` is taken or may stay free at the end.

        Returns the column to which each such row moves (-1: nowhere), the columns that these moves free, as bits, and
        the row that moves after a chain passed nowhere (-1: the chain ends there).
        """
        free = sum(1 << column for column, row in enumerate(self._row_of) if row == _NONE)
        nowhere_leads_to = own == _NONE or self._may_be_free[own]
        leads_to = (0 if own == _NONE else 1 << own) | (free if nowhere_leads_to else 0)
        moves: dict[int, int] = {}
        after_nowhere = _NONE
        changed = True
        while changed:
            changed = False
            for row, tight in self._tight.items():
                if row in moves:
                    continue
                column = self._column_of[row]
                goals = tight & leads_to
                may_leave = nowhere_leads_to and column != _NONE and self._may_be_unmatched[row]
                if not goals and not may_leave:
                    continue
                moves[row] = (goals & -goals).bit_length() - 1  # -1 without a goal: nowhere
                changed = True
                if column != _NONE:
                    leads_to |= 1 << column
                if not nowhere_leads_to and (column == _NONE or self._may_be_free[column]):
                    nowhere_leads_to, after_nowhere = True, row
                    leads_to |= free
        return moves, leads_to, after_nowhere

    def _move(self, row: int, column: int, moves: dict[int, int], after_nowhere: int) -> None:
        """Apply the chain of moves that starts with moving a row to a column."""
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
