"""Align expected calls with actual calls, one to one.

The best alignment has the highest total score. Ties are broken, in this order, by the number of pairs, the number of
pairs with known arguments, the number of successful calls, the possible gain from unknown values, the share of right
arguments, and the earliest actual call for each expected call in turn. The number of pairs must not come first: the
score of f1, f2, f3 against f2, f3, f9 is 2/3, not 0.

The alignment is exact if there are at most `LIMIT` candidate pairs. Beyond that, it is exact within portions, and it is
marked as approximate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import islice
from math import lcm

from msgspec import Struct

from goldspan.scoring.align.assignment import Assignment, BestMatchings
from goldspan.scoring.align.groups import align_batches, align_groups
from goldspan.scoring.comparison import ZERO

LIMIT = 200 * 200
_PORTION = 200
_FEW = 150
"""So many pairs are scored at once, rather than looking for alignments that need fewer of them."""
_LARGEST_SCALE = 1 << 4096


class Pair(Struct, frozen=True, gc=False):
    """The score of aligning an expected call with an actual call."""

    score: Fraction
    known: bool = True
    """The values of all expected arguments are known."""
    successful: bool = True
    """The actual call did not fail."""
    possible_gain: Fraction = ZERO
    """How much higher the score is if everything unknown is right."""
    argument_score: Fraction = ZERO
    """The share of right arguments, where `score` does not show it. Breaks ties; the same for all perfect pairs of a
    call."""

    @property
    def perfect(self) -> bool:
        """Whether no other pair can be better."""
        return self.known and self.successful and self.score == 1


class Alignment(Struct, frozen=True, gc=False):
    """For each expected call, the position of its actual call."""

    partners: tuple[int | None, ...]
    approximate: bool = False


PairScorer = Callable[[int, int], Pair | None]
"""Scores an expected and an actual call of the same name, by position; None if they may not be aligned."""


def align(
    expected: Sequence[str],
    actual: Sequence[str],
    pair_scorer: PairScorer,
    *,
    ordered: bool = True,
    batches: Sequence[int] | None = None,
    groups: Sequence[int] | None = None,
    optional: Sequence[bool] | None = None,
    perfect: int = 0,
) -> Alignment:
    """Align calls of the same name by the scores of their pairs.

    `batches` has a number for each actual call: calls with the same number may be in any order. 0 means no batch.
    `groups` has a number for each expected call: neighbours with the same number may be in any order. 0 means no group.
    Without `ordered`, all calls may be in any order. `optional` expected calls decide only between alignments that are
    equally good for the required calls. `perfect`: so many calls in front are known to be perfect partners, in order.
    """
    names = set(expected)
    columns = [index for index, name in enumerate(actual) if name in names]
    if len(expected) == len(columns) == 1:
        return Alignment((None if pair_scorer(0, columns[0]) is None else columns[0],))
    ranks = ranks_of(len(actual), batches if ordered else [1] * len(actual))
    starts = _starts(len(expected), groups if ordered else None)
    table = _Table(expected, actual, pair_scorer, starts, optional)
    partners: list[int | None] = [None] * len(expected)
    if len(expected) * len(columns) <= LIMIT:
        rows = range(len(expected))
        if type(ranks) is range and type(starts) is range and not (optional and any(optional)):
            if len(rows) == len(columns) and _is_best_in_line(table, columns, perfect):
                return Alignment(tuple(columns))
            partners[:perfect] = rows[:perfect]  # without any choice of order nothing is better
            rows, columns = rows[perfect:], columns[perfect:]
        exact = _align_exactly(table, rows, columns, ranks, partners)
        return Alignment(tuple(partners), not exact)
    used: set[int] = set()
    reached = 0
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
    """The scores of pairs, computed on first use, and the groups and optional flags of the rows."""

    def __init__(
        self,
        expected: Sequence[str],
        actual: Sequence[str],
        pair_scorer: PairScorer,
        groups: Sequence[int],
        optional: Sequence[bool] | None,
    ) -> None:
        self.expected, self.actual, self._pair_scorer = expected, actual, pair_scorer
        self.groups = groups
        """For each row, the first row of its group."""
        self.optional = optional if optional is not None and any(optional) else None
        self._known: list[dict[int, Pair | None]] = [{} for _ in expected]

    def pair(self, row: int, column: int) -> Pair | None:
        known = self._known[row]
        if column not in known:
            same = self.expected[row] == self.actual[column]
            known[column] = self._pair_scorer(row, column) if same else None
        return known[column]

    def pairs(self, row: int, positions: Sequence[int], columns: Sequence[int]) -> list[tuple[int, Pair]]:
        """Return the pairs of a row with the columns at some positions."""
        known, scorer = self._known[row], self._pair_scorer
        pairs: list[tuple[int, Pair]] = []
        for position in positions:
            column = columns[position]
            pair = known[column] if column in known else scorer(row, column)
            if pair is not None:
                pairs.append((position, pair))
        return pairs


def ranks_of(calls: int, batches: Sequence[int] | None) -> Sequence[int]:
    """Return for each actual call the first call of its batch: a range if no two calls share one.

    A call without a batch is its own batch.
    """
    if batches is None:
        return range(calls)
    first: dict[int, int] = {}
    ranks = [first.setdefault(batch, call) if batch else call for call, batch in enumerate(batches)]
    return range(calls) if ranks == [*range(calls)] else ranks


def _starts(calls: int, groups: Sequence[int] | None) -> Sequence[int]:
    """Return for each expected call the first call of its group. A call without a group is its own group."""
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
    """Set the partners of some rows, and return whether they are exact."""
    if not rows or not columns:
        return True
    in_line = type(ranks) is range and type(table.groups) is range and len(rows) > 1
    found = None
    if not in_line or len(rows) * len(columns) > _FEW:
        found = _without_rivals(table, rows, columns, ranks) or _first_perfect(table, rows, columns, ranks)
    if found is not None:
        partners[rows.start : rows.stop] = found
        return True
    optional = None if table.optional is None else [table.optional[row] for row in rows]
    positions: dict[str, list[int]] = {}
    for position, column in enumerate(columns):
        positions.setdefault(table.actual[column], []).append(position)
    pairs = [table.pairs(row, positions.get(table.expected[row], ()), columns) for row in rows]
    weights, exact = _weights(pairs, len(columns), optional)
    if in_line:
        found = align_in_order(weights)
        partners[rows.start : rows.stop] = [None if position is None else columns[position] for position in found]
        return exact
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
    """Return the column of each row in the best alignment. A weight of 0 means that the two may not be aligned.

    Partners must be in the order of their ranks; columns of the same rank may be in any order. Without ranks, all
    columns may be in any order.
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
    """Group the positions of calls by rank, in the order of ranks."""
    places: dict[int, list[int]] = {}
    for position, rank in enumerate(ranks):
        places.setdefault(rank, []).append(position)
    return [places[rank] for rank in sorted(places)]


def _is_best_in_line(table: _Table, columns: Sequence[int], perfect: int) -> bool:
    """Whether pairing each row with the column at its position is best: others have a pair less, and a lower score."""
    total = float(perfect)
    for row in range(perfect, len(columns)):
        pair = table.pair(row, columns[row])
        if pair is None:
            return False
        numerator, denominator = pair.score.as_integer_ratio()
        total += numerator / denominator
    return total > len(columns) - 1 + _ROUNDING


_ROUNDING = 1e-6
"""More than the error of a sum of so many floats."""


def _without_rivals(
    table: _Table, rows: range, columns: Sequence[int], ranks: Sequence[int]
) -> list[int | None] | None:
    """Align each row with the only column of its name, if names are unique and the order allows it."""
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
    """Align each row with its first perfect partner, if every row has one. No alignment can be better."""
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


def _weights(
    pairs: Sequence[Sequence[tuple[int, Pair]]], columns: int, optional: Sequence[bool] | None
) -> tuple[list[list[int]], bool]:
    """Return an integer weight for each pair, and whether the weights are exact; `pairs` has those of each row.

    A weight combines the score with all tie-breakers: the better alignment has the greater sum. 0 means no pair.
    """
    possible = {id(pair): pair for row in pairs for _, pair in row}
    """Most equal pairs are the same object, and fractions are slow to hash."""
    scale = fine = 1
    gains = False
    for pair in possible.values():
        scale = lcm(scale, pair.score.denominator)
        if pair.argument_score is not ZERO or pair.possible_gain is not ZERO:
            fine = lcm(fine, pair.argument_score.denominator, pair.possible_gain.denominator)
            gains = gains or bool(pair.possible_gain)
    exact = scale < _LARGEST_SCALE and fine < _LARGEST_SCALE
    scale, fine = min(scale, _LARGEST_SCALE), min(fine, _LARGEST_SCALE)
    most = min(len(pairs), columns) + 1
    base = most * fine * (most * fine if gains else 1)
    folded: dict[int, int] = {}
    for key, pair in possible.items():
        numerator, denominator = pair.score.as_integer_ratio()
        ranked = ((numerator * scale // denominator * most + 1) * most + pair.known) * most + pair.successful
        folded[key] = ranked * base
        if pair.argument_score is not ZERO or pair.possible_gain is not ZERO:
            tie_breaker = pair.argument_score.numerator * fine // pair.argument_score.denominator
            gain = pair.possible_gain.numerator * fine // pair.possible_gain.denominator
            folded[key] += gain * most * fine + tie_breaker
    weights = [[0] * columns for _ in pairs]
    for row, weighted in zip(pairs, weights, strict=True):
        for position, pair in row:
            weighted[position] = folded[id(pair)]
    if optional is not None:
        beyond = max(folded.values(), default=0) * most + 1
        weights = [
            row if is_optional else [weight * beyond for weight in row]
            for row, is_optional in zip(weights, optional, strict=True)
        ]
    return weights, exact


def align_in_order(weights: Sequence[Sequence[int]]) -> list[int | None]:
    """Align as `align_weights` does if each column has its own rank, in ascending order.

    Dynamic programming from the end, then a walk from the start. `best[row]` has for each column, counted from the
    last, the highest total of this row and later rows from that column on.
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
    """Align each name separately: calls of different names never compete."""
    found: list[int | None] = [None] * len(weights)
    for name in dict.fromkeys(expected):
        rows = [row for row, row_name in enumerate(expected) if row_name == name]
        columns = [column for column, column_name in enumerate(actual) if column_name == name]
        matching = Assignment(len(columns))
        for row in rows:
            matching.add([weights[row][column] for column in columns])
        best = BestMatchings(matching)
        for number, row in enumerate(rows):
            position = best.take_lowest(number)
            found[row] = None if position is None else columns[position]
    return found
