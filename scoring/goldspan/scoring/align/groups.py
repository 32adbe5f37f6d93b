"""Ordered alignment where some actual calls were asked for at once: order is free inside a batch, batches keep theirs.

The expected calls (rows) are cut into one block for each batch, and each block is matched with its batch in any order.
`ends[row]` below is the most that rows from this one on can win in the batches that follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import comb
from operator import sub
from typing import NamedTuple

from goldspan.scoring.align.assignment import Assignment, BestMatchings

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


# Order is free inside groups of expected calls and inside batches of actual ones. An expected call of an earlier group
# never goes to a later batch than one of a later group. So groups and batches form a staircase: from each pair of them
# it goes on with the next batch, and then only calls of this group are used up, or with the next group, and then only
# calls of this batch are.

_MOST_STEPS = 200_000
"""How many ways to pair up parts of groups and batches are looked at."""
_LARGEST = 10
"""Calls of a group or a batch whose every subset may be looked at."""
_IMPOSSIBLE = -1


def align_groups(
    weights: Weights, groups: Sequence[Sequence[int]], batches: Sequence[Sequence[int]]
) -> tuple[list[int | None], bool]:
    """Return the best alignment as one column for each row, and whether it is exact.

    `groups` are the rows of each group and `batches` the columns of each batch, in order. Of equals, each row in turn
    has the earliest column. Where too many calls are free of order on both sides at once, what is found is good,
    and exact if no alignment in any order is better.
    """
    if all(len(group) == 1 for group in groups):
        return align_batches(weights, batches), True
    unique = _Unique(weights)
    if all(len(batch) == 1 for batch in batches):
        columns = [batch[0] for batch in batches]
        turned = [[unique.weights[row][column] for row in range(len(weights))] for column in columns]
        rows = align_batches(turned, groups)
        found: list[int | None] = [None] * len(weights)
        for column, row in zip(columns, rows, strict=True):
            if row is not None:
                found[row] = column
        return found, True
    if _steps(groups, batches) <= _MOST_STEPS:
        return unique.alignment(_best(unique.weights, groups, batches)), True
    return _good(weights, groups, batches)


class _Unique:
    """Weights of which one alignment alone is best: of equals that with the earliest column for each row in turn.

    What a pair adds to a total beside its weight is a digit of its own for its row, so the total names the alignment.
    """

    def __init__(self, weights: Weights) -> None:
        self._rows, self._columns = len(weights), len(weights[0])
        self._base = self._columns + 1
        digit = self._all = self._base**self._rows
        self.weights: list[list[int]] = []
        for row in weights:
            digit //= self._base
            self.weights.append(
                [weight and weight * self._all + (self._columns - column) * digit for column, weight in enumerate(row)]
            )

    def alignment(self, total: int) -> list[int | None]:
        """Read the alignment off its total."""
        digits = total % self._all
        found: list[int | None] = []
        for _ in range(self._rows):
            digits, digit = divmod(digits, self._base)
            found.append(self._columns - digit if digit else None)
        return found[::-1]


def _steps(groups: Sequence[Sequence[int]], batches: Sequence[Sequence[int]]) -> int:
    if max(map(len, groups)) > _LARGEST or max(map(len, batches)) > _LARGEST:
        return _MOST_STEPS + 1
    return sum(comb(len(group) + len(batch), len(group)) for group in groups for batch in batches)


def _best(weights: Weights, groups: Sequence[Sequence[int]], batches: Sequence[Sequence[int]]) -> int:
    """Return the highest total over all staircases, group by group and in each batch by batch.

    What comes into a cell from the left is the most by which rows of its group are used up; from above, by which
    columns of its batch are. Sets are bits of numbers.
    """
    above: list[list[int]] = [[_IMPOSSIBLE] * (1 << len(batch)) for batch in batches]
    above[0][0] = 0
    best = 0
    for group in groups:
        left = [_IMPOSSIBLE] * (1 << len(group))
        below: list[list[int]] = []
        for number, batch in enumerate(batches):
            cell = _Cell([[weights[row][column] for column in batch] for row in group], len(batch))
            right = _either(cell.rows_after_rows(left), cell.rows_after_columns(above[number]))
            below.append(_either(cell.columns_after_columns(above[number]), cell.columns_after_rows(left)))
            left = right
        best = max(left)
        above = below
    return best


class _Pairing(NamedTuple):
    rows: int
    columns: int
    worth: int


class _Cell:
    """One group and one batch: what their calls are worth together."""

    def __init__(self, block: Weights, columns: int) -> None:
        worth: dict[tuple[int, int], int] = {(0, 0): 0}
        for row, of_row in enumerate(block):
            for (rows, taken), value in list(worth.items()):
                for column, weight in enumerate(of_row):
                    if weight and not taken >> column & 1:
                        place = (rows | 1 << row, taken | 1 << column)
                        if value + weight > worth.get(place, _IMPOSSIBLE):
                            worth[place] = value + weight
        self._pairings = [_Pairing(*place, value) for place, value in worth.items()]
        self._rows, self._columns = len(block), columns
        self._of_rows: dict[int, int] = {}
        self._of_columns: dict[int, int] = {}
        for rows, taken, value in self._pairings:
            self._of_rows[rows] = max(self._of_rows.get(rows, 0), value)
            self._of_columns[taken] = max(self._of_columns.get(taken, 0), value)

    def rows_after_rows(self, used: list[int]) -> list[int]:
        return _more(used, self._of_rows)

    def columns_after_columns(self, used: list[int]) -> list[int]:
        return _more(used, self._of_columns)

    def rows_after_columns(self, used: list[int]) -> list[int]:
        turned = ((columns, rows, value) for rows, columns, value in self._pairings)
        return _across(used, turned, 1 << self._rows)

    def columns_after_rows(self, used: list[int]) -> list[int]:
        return _across(used, self._pairings, 1 << self._columns)


def _more(used: list[int], worth: dict[int, int]) -> list[int]:
    """Use up more of the same side."""
    after = used.copy()
    for before, value in enumerate(used):
        if value != _IMPOSSIBLE:
            for some, gain in worth.items():
                if some and not before & some and value + gain > after[before | some]:
                    after[before | some] = value + gain
    return after


def _across(used: list[int], pairings: Iterable[tuple[int, int, int]], sets: int) -> list[int]:
    """Go on with the other side, which has so many sets; a pairing has its set of this side, of that, and its worth."""
    within, everything = _within(used), len(used) - 1
    after = [_IMPOSSIBLE] * sets
    for own, other, value in pairings:
        before = within[everything & ~own]
        if before != _IMPOSSIBLE and before + value > after[other]:
            after[other] = before + value
    return after


def _within(used: list[int]) -> list[int]:
    """Return for each set the most over its subsets."""
    best = used.copy()
    bit = 1
    while bit < len(best):
        for members in range(len(best)):
            if members & bit and best[members ^ bit] > best[members]:
                best[members] = best[members ^ bit]
        bit <<= 1
    return best


def _either(one: list[int], other: list[int]) -> list[int]:
    return list(map(max, one, other))


def _good(
    weights: Weights, groups: Sequence[Sequence[int]], batches: Sequence[Sequence[int]]
) -> tuple[list[int | None], bool]:
    """Put each group in an order that suits it, and align in that order."""
    matching = Assignment(len(weights[0]))
    for of_row in weights:
        matching.add(of_row)
    rank = {column: number for number, batch in enumerate(batches) for column in batch}
    rank[_IMPOSSIBLE] = len(batches)
    best: list[int | None] = []
    best_total = _IMPOSSIBLE
    for suited in (False, True):
        order = [
            row
            for group in groups
            for row in (sorted(group, key=lambda row: rank[matching.column_of[row]]) if suited else group)
        ]
        partners = align_batches([weights[row] for row in order], batches)
        found: list[int | None] = [None] * len(weights)
        for row, column in zip(order, partners, strict=True):
            found[row] = column
        total = sum(weights[row][column] for row, column in enumerate(found) if column is not None)
        if total > best_total:
            best, best_total = found, total
    return best, best_total == matching.value
