"""Ordered alignment with parallel calls: calls of one batch or one group may be in any order.

With batches only, the expected calls (rows) are split into one block for each batch, and each block is matched with its
batch in any order. `ends[row]` is the highest total of this row and later rows in the batches that follow. So the last
batch comes first. For example, a b c are expected, and b a are called at once, then c:

    batch {c}     ends: c 1, b c 1, a b c 1
    batch {b a}   the block a b scores 2, and `ends` from c on is 1: 3 in all
                  the block a scores 1, and `ends` from b on is 1: 2
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import comb
from operator import sub

from goldspan.scoring.align.assignment import Assignment, UniqueWeights

Weights = Sequence[Sequence[int]]
"""Row by column; 0 if the two may not be aligned."""

_FEW = 6
"""Largest batch for which every subset of calls is examined. A larger batch is matched as a whole."""
_LOOK_AHEAD = 4  # number of rows without a gain after which to compute how many more rows can have one


def align_batches(weights: Weights, batches: Sequence[Sequence[int]]) -> list[int | None]:
    """Return the column of each row in the best alignment; ties go to the earliest column for each row in turn.

    `batches` has the columns of each batch, in order. No row gets an earlier batch than a row before it.
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
    """A small batch: every subset of its calls is examined."""

    def __init__(self, block: Weights, ends: Sequence[int]) -> None:
        self._block = block
        calls = range(len(block[0]) if block else 0)
        without = [[used for used in range(1 << len(calls)) if not used >> call & 1] for call in calls]
        self._totals: list[list[int]] = [[0] * (1 << len(calls))]
        """By row, then by the bits of the used calls: the highest total of this row and later rows."""
        for row in range(len(block) - 1, -1, -1):
            below, end = self._totals[-1], ends[row]
            totals = [end if end > total else total for total in below]
            for call in calls:
                weight = block[row][call]
                if weight:
                    for used in without[call]:
                        if (value := weight + below[used | 1 << call]) > totals[used]:
                            totals[used] = value
            self._totals.append(totals)
        self._totals.reverse()
        self.values = [totals[0] for totals in self._totals]

    def earliest(self, row: int, used: int, remaining: int) -> int | None:
        """Return the first call of the batch that allows the remaining total."""
        below = self._totals[row + 1]
        for call, weight in enumerate(self._block[row]):
            if weight and not used >> call & 1 and weight + below[used | 1 << call] == remaining:
                return call
        return None


class _ManyCalls:
    """A large batch: it is matched as a whole with every block of rows that may be the best block.

    The best end of a block never moves back as its first row moves on, because the value of a matching is submodular in
    its rows. So divide and conquer works. Blocks grow row by row from their common rows.
    """

    def __init__(self, block: Weights, ends: Sequence[int], *, is_first: bool) -> None:
        self._block, self._ends = block, ends
        self._found: list[list[int | None]] = []
        """The alignment of each block that may be the best one from the last row on, by row."""
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
        """Compute the values of rows first..last, whose blocks end between earliest and latest.

        `common` matches the rows that all these blocks share: last..earliest, if any.
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
        """Return the last end that may exceed the best total, by an upper bound on the gain of each row."""
        reach, bound, prices = end, matching.value, matching.prices
        for row in range(end, latest):
            gain = max(map(sub, self._block[row], prices))
            bound += gain if gain > 0 else 0
            if bound + self._ends[row + 1] > best:
                reach = row + 1
        return reach

    def _extended(self, matching: Assignment, rows: range) -> Assignment:
        longer = matching.copy()
        # Rows with the greatest weights come first, so that few later rows need long augmenting paths.
        for row in sorted(rows, key=self._strength.__getitem__, reverse=True):
            longer.add(self._block[row])
        return longer

    def earliest(self, row: int, used: int, remaining: int) -> int | None:
        """Return the first call of the batch that allows the remaining total."""
        if not used and self._chosen_for != remaining:
            # The best blocks stay the same for later rows until a row is aligned.
            self._chosen_for = remaining
            self._found = []
            matching, ends, unique = Assignment(self._calls), self._ends, UniqueWeights(self._block)
            for end in range(row + 1, len(ends)):
                total = matching.add(unique.weights[end - 1])
                # Of blocks with the same total after them, the longest has all the matchings of the others.
                is_longest = end == len(ends) - 1 or ends[end + 1] < ends[end]
                if is_longest and unique.plain(total) + ends[end] == remaining:
                    self._found.append(unique.alignment(total))
        column = min((column for one in self._found if (column := one[row]) is not None), default=None)
        if column is not None:
            self._found = [one for one in self._found if one[row] == column]
        return column


# Groups of expected calls and batches of actual calls.
#
# A call of an earlier group is never aligned with a later batch than a call of a later group. So groups and batches
# form a staircase: after each pair of a group and a batch comes the next batch, with the remaining calls of the same
# group, or the next group, with the remaining calls of the same batch.

_MOST_STEPS = 200_000  # maximum number of pairings of subsets to examine
_LARGEST = 10  # largest group or batch for which every subset of calls is examined
_IMPOSSIBLE = -1


def align_groups(
    weights: Weights, groups: Sequence[Sequence[int]], batches: Sequence[Sequence[int]]
) -> tuple[list[int | None], bool]:
    """Return the column of each row in the best alignment, and whether it is exact.

    `groups` has the rows of each group and `batches` the columns of each batch, in order. Ties go to the earliest
    column for each row in turn. If groups and batches are both too large, the alignment is a good one; it counts as
    exact if no alignment in any order is better.
    """
    if all(len(group) == 1 for group in groups):
        return align_batches(weights, batches), True
    unique = UniqueWeights(weights)
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


def _steps(groups: Sequence[Sequence[int]], batches: Sequence[Sequence[int]]) -> int:
    if max(map(len, groups)) > _LARGEST or max(map(len, batches)) > _LARGEST:
        return _MOST_STEPS + 1
    return sum(comb(len(group) + len(batch), len(group)) for group in groups for batch in batches)


def _best(weights: Weights, groups: Sequence[Sequence[int]], batches: Sequence[Sequence[int]]) -> int:
    """Return the highest total over all staircases, group by group and batch by batch.

    A cell gets from the left the highest total for each set of used rows of its group, and from above the highest total
    for each set of used columns of its batch. Sets are bits of integers.
    """
    above: list[list[int]] = [[_IMPOSSIBLE] * (1 << len(batch)) for batch in batches]
    above[0][0] = 0
    best = 0
    for group in groups:
        left = [_IMPOSSIBLE] * (1 << len(group))
        below: list[list[int]] = []
        for number, batch in enumerate(batches):
            cell = _Cell([[weights[row][column] for column in batch] for row in group])
            over = above[number]
            below.append(list(map(max, _more(over, cell.of_columns), _across(left, cell.pairings, len(over)))))
            turned = ((columns, rows, value) for rows, columns, value in cell.pairings)
            left = list(map(max, _more(left, cell.of_rows), _across(over, turned, len(left))))
        best = max(left)
        above = below
    return best


class _Cell:
    """A group and a batch: the highest total for each set of their rows and columns."""

    def __init__(self, block: Weights) -> None:
        totals: dict[tuple[int, int], int] = {(0, 0): 0}
        for row, of_row in enumerate(block):
            for (rows, taken), value in list(totals.items()):
                for column, weight in enumerate(of_row):
                    if weight and not taken >> column & 1:
                        place = (rows | 1 << row, taken | 1 << column)
                        if value + weight > totals.get(place, _IMPOSSIBLE):
                            totals[place] = value + weight
        self.pairings = [(rows, taken, value) for (rows, taken), value in totals.items()]
        self.of_rows: dict[int, int] = {}
        self.of_columns: dict[int, int] = {}
        for rows, taken, value in self.pairings:
            self.of_rows[rows] = max(self.of_rows.get(rows, 0), value)
            self.of_columns[taken] = max(self.of_columns.get(taken, 0), value)


def _more(used: list[int], totals: dict[int, int]) -> list[int]:
    """Use more calls of the same side."""
    after = used.copy()
    for before, value in enumerate(used):
        if value != _IMPOSSIBLE:
            for members, gain in totals.items():
                if members and not before & members and value + gain > after[before | members]:
                    after[before | members] = value + gain
    return after


def _across(used: list[int], pairings: Iterable[tuple[int, int, int]], sets: int) -> list[int]:
    """Continue with the other side, which has `sets` sets. Each pairing is (set here, set there, total)."""
    within, everything = _within(used), len(used) - 1
    after = [_IMPOSSIBLE] * sets
    for own, other, value in pairings:
        before = within[everything & ~own]
        if before != _IMPOSSIBLE and before + value > after[other]:
            after[other] = before + value
    return after


def _within(used: list[int]) -> list[int]:
    """Return for each set the highest total over its subsets."""
    best = used.copy()
    bit = 1
    while bit < len(best):
        for members in range(len(best)):
            if members & bit and best[members ^ bit] > best[members]:
                best[members] = best[members ^ bit]
        bit <<= 1
    return best


def _good(
    weights: Weights, groups: Sequence[Sequence[int]], batches: Sequence[Sequence[int]]
) -> tuple[list[int | None], bool]:
    """Align with each group in its own order, and with each group in the order of the unordered best matching."""
    matching = Assignment(len(weights[0]))
    for of_row in weights:
        matching.add(of_row)
    rank = {column: number for number, batch in enumerate(batches) for column in batch}
    rank[_IMPOSSIBLE] = len(batches)
    best: list[int | None] = []
    best_total = _IMPOSSIBLE
    for reorder in (False, True):
        order = [
            row
            for group in groups
            for row in (sorted(group, key=lambda row: rank[matching.column_of[row]]) if reorder else group)
        ]
        partners = align_batches([weights[row] for row in order], batches)
        found: list[int | None] = [None] * len(weights)
        for row, column in zip(order, partners, strict=True):
            found[row] = column
        total = sum(weights[row][column] for row, column in enumerate(found) if column is not None)
        if total > best_total:
            best, best_total = found, total
    return best, best_total == matching.value
