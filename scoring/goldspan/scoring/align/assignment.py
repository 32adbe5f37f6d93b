"""Maximum-weight matching of rows to columns, built row by row, with exact integers in pure Python.

This is the Hungarian method with prices. Every row has a gain and every column has a price, and none is negative.
`gain + price >= weight` for every pair, with equality for matched pairs. Unmatched rows have gain 0, and unmatched
columns have price 0. Such prices prove that the matching is optimal. Rows are added by shortest augmenting paths, so
the optimal matching of every prefix is known. For example, the rows r and s, and the columns a and b:

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


class UniqueWeights:
    """Weights with a unique best alignment: ties go to the earliest column for each row in turn.

    Each pair adds a digit for its row to the total, so that the alignment can be read from the total.
    """

    def __init__(self, weights: Sequence[Sequence[int]]) -> None:
        self._rows, self._columns = len(weights), len(weights[0])
        self._base = self._columns + 1
        digit = self._all = int(self._base**self._rows)
        self.weights: list[list[int]] = []
        for row in weights:
            digit //= self._base
            self.weights.append(
                [weight and weight * self._all + (self._columns - column) * digit for column, weight in enumerate(row)]
            )

    def plain(self, total: int) -> int:
        """Return what a total is by the weights as they were given."""
        return total // self._all

    def alignment(self, total: int) -> list[int | None]:
        """Decode the alignment from its total."""
        digits = total % self._all
        found: list[int | None] = []
        for _ in range(self._rows):
            digits, digit = divmod(digits, self._base)
            found.append(self._columns - digit if digit else None)
        return found[::-1]
