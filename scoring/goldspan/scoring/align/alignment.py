"""Which actual call stands for which expected one.

Of all alignments one to one, the one with the highest total score; of those, with the most pairs, then with the most
pairs whose arguments are known, then with the most successful calls, then the one that may still turn out best; of
those, the one in which each expected call in turn has the earliest actual call. Pairs first would be wrong: f1, f2, f3
against f2, f3, f9 is worth 2/3, not 0.

The result is exact for up to `LIMIT` pairs of calls that could be looked at. Beyond, calls are aligned in exact
portions, one after the other, and the alignment is marked as approximate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import islice
from math import lcm
from typing import NamedTuple

from goldspan.scoring.align.assignment import Assignment, BestMatchings
from goldspan.scoring.align.groups import align_batches, align_groups

LIMIT = 200 * 200
_PORTION = 200
_LARGEST_SCALE = 1 << 4096


class Pair(NamedTuple):
    """What it is worth to let an actual call stand for an expected one."""

    score: Fraction
    known: bool = True
    """No expected argument's value is unknown."""
    successful: bool = True
    """The actual call did not fail."""
    room: Fraction = Fraction(0)
    """How much more it may turn out to be worth once everything unknown were known."""
    likeness: Fraction = Fraction(0)
    """Breaks ties between pairs whose score says little; 0 to 1, and the same for all perfect pairs of a call."""

    @property
    def perfect(self) -> bool:
        """No other pair can be better."""
        return self.score == 1 and self.known and self.successful


class Alignment(NamedTuple):
    """The actual call, by position, that stands for each expected one."""

    partners: tuple[int | None, ...]
    approximate: bool = False


Judge = Callable[[int, int], Pair | None]
"""What the pair of an expected and an actual call of one name, by position, is worth; None: may not be aligned."""


def align(
    expected: Sequence[str],
    actual: Sequence[str],
    judge: Judge,
    *,
    ordered: bool = True,
    batches: Sequence[int] | None = None,
    groups: Sequence[int] | None = None,
    optional: Sequence[bool] | None = None,
) -> Alignment:
    """Align calls by their names and what `judge` says of pairs of one name.

    `batches` has a number for each actual call: order is free among those with the same number, except 0, which
    stands for no batch. `groups` has one for each expected call, and order is free among neighbours with the same
    number. If not `ordered`, neither matters. `optional` expected calls decide only between alignments that are
    equally good for the others.
    """
    names = set(expected)
    columns = [index for index, name in enumerate(actual) if name in names]
    ranks = ranks_of(len(actual), batches if ordered else [1] * len(actual))
    table = _Table(expected, actual, judge, _starts(len(expected), groups if ordered else None), optional)
    partners: list[int | None] = [None] * len(expected)
    if len(expected) * len(columns) <= LIMIT:
        exact = _align_exactly(table, range(len(expected)), columns, ranks, partners)
        return Alignment(tuple(partners), approximate=not exact)
    used, reached = set[int](), 0
    for first in range(0, len(expected), _PORTION):
        rows = range(first, min(first + _PORTION, len(expected)))
        wanted = {expected[row] for row in rows}
        left = [column for column in columns if column not in used and ranks[column] >= reached]
        candidates = _first_of_each([c for c in left if actual[c] in wanted], actual, ordered=ordered)
        _align_exactly(table, rows, candidates, ranks, partners)
        taken = [partner for row in rows if (partner := partners[row]) is not None]
        used.update(taken)
        reached = max((ranks[column] for column in taken), default=reached)
    return Alignment(tuple(partners), approximate=True)


class _Table:
    """What pairs are worth, each looked at once, and which rows stand in one group or may be left out."""

    def __init__(
        self,
        expected: Sequence[str],
        actual: Sequence[str],
        judge: Judge,
        groups: Sequence[int],
        optional: Sequence[bool] | None,
    ) -> None:
        self.expected, self.actual, self._judge = expected, actual, judge
        self.groups = groups
        """For each row where its group begins."""
        self.optional = optional if optional is not None and any(optional) else None
        self._known: dict[tuple[int, int], Pair | None] = {}

    def pair(self, row: int, column: int) -> Pair | None:
        if self.expected[row] != self.actual[column]:
            return None
        place = (row, column)
        if place not in self._known:
            self._known[place] = self._judge(row, column)
        return self._known[place]


def ranks_of(calls: int, batches: Sequence[int] | None) -> Sequence[int]:
    """Return for each call where its batch begins, which is what orders batches; no batch is one of its own."""
    if batches is None:
        return range(calls)
    first: dict[int, int] = {}
    return [first.setdefault(batch, call) if batch else call for call, batch in enumerate(batches)]


def _starts(calls: int, groups: Sequence[int] | None) -> Sequence[int]:
    """Return for each expected call where its group begins; no group is one of its own."""
    if groups is None or not any(groups):
        return range(calls)
    starts: list[int] = []
    for call, group in enumerate(groups):
        starts.append(starts[-1] if call and group and group == groups[call - 1] else call)
    return starts


def _first_of_each(columns: Sequence[int], actual: Sequence[str], *, ordered: bool) -> list[int]:
    if ordered:
        return list(columns[:_PORTION])
    by_name: dict[str, list[int]] = {}
    for column in columns:
        by_name.setdefault(actual[column], []).append(column)
    return sorted(column for named in by_name.values() for column in named[:_PORTION])


def _align_exactly(
    table: _Table, rows: range, columns: Sequence[int], ranks: Sequence[int], partners: list[int | None]
) -> bool:
    """Fill in the partners of some rows; whether that is exact."""
    if not rows or not columns:
        return True
    found = _without_rivals(table, rows, columns, ranks) or _first_perfect(table, rows, columns, ranks)
    if found is not None:
        partners[rows.start : rows.stop] = found
        return True
    optional = None if table.optional is None else [table.optional[row] for row in rows]
    weights, exact = _weights([[table.pair(row, column) for column in columns] for row in rows], optional)
    places = [ranks[column] for column in columns]
    groups = _numbered(table.groups[row] for row in rows)
    if 1 < len(groups) < len(rows) and len(set(places)) > 1:
        found, best = align_groups(weights, groups, _numbered(places))
        exact = exact and best
    else:
        names = [table.expected[row] for row in rows], [table.actual[column] for column in columns]
        found = align_weights(weights, *names, None if len(groups) == 1 else places)
    partners[rows.start : rows.stop] = [None if position is None else columns[position] for position in found]
    return exact


def align_weights(
    weights: Sequence[Sequence[int]], expected: Sequence[str], actual: Sequence[str], ranks: Sequence[int] | None
) -> list[int | None]:
    """Align calls by what their pairs are worth: for each row the best column, 0 where the two may not be aligned.

    Columns come in the order of their ranks, and order is free among those of one rank; without ranks, among all.
    """
    if len(weights) == 1:
        [row] = weights
        best = max(row)
        return [row.index(best) if best else None]
    batches = None if ranks is None else _numbered(ranks)
    if batches is None or len(batches) == 1:
        return _in_any_order(weights, expected, actual)
    if len(batches) == len(actual) and batches == sorted(batches):
        return align_in_order(weights)
    return align_batches(weights, batches)


def _numbered(ranks: Iterable[int]) -> list[list[int]]:
    """Put the positions of calls with one rank together, in the order of ranks."""
    places: dict[int, list[int]] = {}
    for position, rank in enumerate(ranks):
        places.setdefault(rank, []).append(position)
    return [places[rank] for rank in sorted(places)]


def _without_rivals(
    table: _Table, rows: range, columns: Sequence[int], ranks: Sequence[int]
) -> list[int | None] | None:
    """Give each row the only column of its name, if no two rows or columns share one and none stands in the way."""
    column_of = {table.actual[column]: column for column in columns}
    names = [table.expected[row] for row in rows]
    if len(column_of) < len(columns) or len(set(names)) < len(names):
        return None
    found: list[int | None] = []
    reached = 0
    for row, name in zip(rows, names, strict=True):
        column = column_of.get(name)
        if column is None or table.pair(row, column) is None:
            found.append(None)
        elif ranks[column] < reached:
            return None
        else:
            found.append(column)
            reached = ranks[column]
    return found


def _first_perfect(table: _Table, rows: range, columns: Sequence[int], ranks: Sequence[int]) -> list[int | None] | None:
    """Give each row the first perfect partner, if there is one for every row: then nothing can be better."""
    if len(rows) > len(columns):
        return None
    found: list[int | None] = []
    free, reached, before, group = list(columns), 0, 0, -1
    for row in rows:
        if table.groups[row] != group:
            group, before = table.groups[row], reached
        for column in free:
            if ranks[column] >= before and (pair := table.pair(row, column)) is not None and pair.perfect:
                break
        else:
            return None
        found.append(column)
        free.remove(column)
        reached = max(reached, ranks[column])
    return found


def _weights(pairs: Sequence[Sequence[Pair | None]], optional: Sequence[bool] | None) -> tuple[list[list[int]], bool]:
    """Fold all that makes one alignment better than another into one number for each pair; 0 where there is none.

    A sum of such numbers is greater exactly where the alignment is better; second, whether they are exact.
    """
    some = [pair for row in pairs for pair in row if pair is not None]
    scale = lcm(*{pair.score.denominator for pair in some})
    fine = lcm(*{part.denominator for pair in some for part in (pair.likeness, pair.room)})
    exact = scale < _LARGEST_SCALE and fine < _LARGEST_SCALE
    scale, fine = min(scale, _LARGEST_SCALE), min(fine, _LARGEST_SCALE)
    most = min(len(pairs), len(pairs[0])) + 1
    base = most * fine * (most * fine if any(pair.room for pair in some) else 1)
    folded: dict[tuple[int, int, int, bool, bool], int] = {}
    for pair in some:
        if _key(pair) not in folded:
            score = pair.score.numerator * scale // pair.score.denominator
            likeness = pair.likeness.numerator * fine // pair.likeness.denominator
            room = pair.room.numerator * fine // pair.room.denominator
            ranked = ((score * most + 1) * most + pair.known) * most + pair.successful
            folded[_key(pair)] = ranked * base + room * most * fine + likeness
    weights = [[0 if pair is None else folded[_key(pair)] for pair in row] for row in pairs]
    if optional is not None:
        beyond = max(folded.values(), default=0) * most + 1
        weights = [
            row if may_lack else [weight * beyond for weight in row]
            for row, may_lack in zip(weights, optional, strict=True)
        ]
    return weights, exact


def _key(pair: Pair) -> tuple[int, int, int, bool, bool]:
    """Tell pairs apart quickly: fractions are slow to hash, and most that are equal are one object."""
    return id(pair.score), id(pair.room), id(pair.likeness), pair.known, pair.successful


def align_in_order(weights: Sequence[Sequence[int]]) -> list[int | None]:
    """Align as `align_weights` does where each column has a rank of its own, in their order.

    By dynamic programming from the end, then a walk from the start. `best[row]` has for each column, counted from the
    last, the most that this row and later ones can win from there on.
    """
    columns = len(weights[0])
    below = [0] * (columns + 1)
    best = [below]
    for row in reversed(weights):
        if any(row):
            here, so_far, diagonal = [0], 0, 0
            for weight, without in zip(reversed(row), islice(below, 1, None), strict=True):
                if without > so_far:  # noqa: PLR1730 - a call costs more than all the rest
                    so_far = without
                if weight and weight + diagonal > so_far:
                    so_far = weight + diagonal
                here.append(so_far)
                diagonal = without
            below = here
        best.append(below)
    found: list[int | None] = []
    start = 0
    for number, row in enumerate(weights, start=1):
        here, below = best[-number], best[-number - 1]
        partner: int | None = None
        if here is not below:
            target = here[columns - start]
            for column in range(start, columns):
                if here[columns - column] < target:
                    break
                weight = row[column]
                if weight and weight + below[columns - column - 1] == target:
                    partner = column
                    break
        found.append(partner)
        start = start if partner is None else partner + 1
    return found


def _in_any_order(weights: Sequence[Sequence[int]], expected: Sequence[str], actual: Sequence[str]) -> list[int | None]:
    """Align each name by itself: calls of different names never compete."""
    found: list[int | None] = [None] * len(weights)
    for name in dict.fromkeys(expected):
        rows = [row for row, other in enumerate(expected) if other == name]
        columns = [column for column, other in enumerate(actual) if other == name]
        matching = Assignment(len(columns))
        for row in rows:
            matching.add([weights[row][column] for column in columns])
        best = BestMatchings(matching)
        for number, row in enumerate(rows):
            position = best.take_lowest(number)
            found[row] = None if position is None else columns[position]
    return found
