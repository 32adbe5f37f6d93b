"""Align expected calls with actual calls, one to one (S2).

The best alignment has the highest total score. Ties are broken, in this order, by the number of pairs, the number of
pairs with known arguments, the number of successful calls, the possible gain from unknown values, the share of right
arguments, and the earliest actual call for each expected call in turn. The number of pairs must not come first: the
score of f1, f2, f3 against f2, f3, f9 is 2/3, not 0.

Each pair gets one integer, its weight, whose digits are these tie-breakers (`_weights`). So the solvers only look for
the greatest sum, and there is one for each freedom of order:

    neither batches nor groups     `_align_in_line`: dynamic programming, only near the diagonal
    batches, or groups alone       `groups.align_batches`: each batch takes a block of expected calls
    batches and groups             `groups.align_groups`: groups and batches form a staircase
    any order                      `assignment.Assignment`, for each name by itself

Before that, alignments that cannot be beaten are taken as they are found (`_without_rivals`, `_first_free`).

The alignment is exact if there are at most `LIMIT` candidate pairs. Beyond that, it is exact within portions, and it is
marked as approximate.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from fractions import Fraction
from math import lcm
from typing import Protocol

from msgspec import Struct

from goldspan.scoring.align.assignment import Assignment, UniqueWeights
from goldspan.scoring.align.groups import align_batches, align_groups
from goldspan.scoring.comparison import ONE, ZERO

LIMIT = 200 * 200
_PORTION = 200
_FEW = 150  # so many pairs are scored at once, rather than looking for alignments that need fewer of them
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
        return (self.score is ONE or self.score == 1) and self.known and self.successful


class Alignment(Struct, frozen=True, gc=False):
    """For each expected call, the position of its actual call."""

    partners: tuple[int | None, ...]
    approximate: bool = False


PairScorer = Callable[[int, int], Pair | None]
"""Scores an expected and an actual call of the same name, by position; None if they may not be aligned."""


class AlignmentBounds(Protocol):
    """What is known of the pairs of expected calls without scoring them."""

    def second(self, row: int) -> Pair | None:
        """Return a pair that all pairs of a row are at most as good as, but those with `rivals`; None: any."""
        ...

    def rivals(self, row: int) -> Iterable[int]:
        """Return the columns whose pairs with a row may be better than that."""
        ...


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
    limits: AlignmentBounds | None = None,
) -> Alignment:
    """Align calls of the same name by the scores of their pairs.

    `batches` has a number for each actual call: calls with the same number may be in any order. 0 means no batch.
    `groups` has a number for each expected call: neighbours with the same number may be in any order. 0 means no group.
    Without `ordered`, all calls may be in any order. `optional` expected calls decide only between alignments that are
    equally good for the required calls. `perfect`: so many calls in front are known to be perfect partners, in order.
    With `limits`, fewer pairs need to be scored.
    """
    names = set(expected)
    columns = [index for index, name in enumerate(actual) if name in names]
    if len(expected) == len(columns) == 1:
        return Alignment((None if pair_scorer(0, columns[0]) is None else columns[0],))
    ranks = ranks_of(len(actual), batches if ordered else [1] * len(actual))
    starts = _starts(len(expected), groups)
    table = _Table(expected, actual, pair_scorer, limits, starts, optional)
    partners: list[int | None] = [None] * len(expected)
    if len(expected) * len(columns) <= LIMIT:
        rows = range(len(expected))
        if type(ranks) is range and type(starts) is range and table.optional is None:
            partners[:perfect] = rows[:perfect]  # without any choice of order nothing is better
            rows, columns = rows[perfect:], columns[perfect:]
        exact = _align_exactly(table, rows, columns, ranks, partners)
        return Alignment(tuple(partners), not exact)
    _align_in_portions(table, columns, ranks, partners, ordered=ordered)
    return Alignment(tuple(partners), approximate=True)


def _align_in_portions(
    table: _Table, columns: Sequence[int], ranks: Sequence[int], partners: list[int | None], *, ordered: bool
) -> None:
    """Set the partners of so many rows at a time, each time with the first columns that are left (of each name)."""
    used: set[int] = set()
    reached = 0
    for first in range(0, len(partners), _PORTION):
        rows = range(first, min(first + _PORTION, len(partners)))
        wanted = {table.expected[row] for row in rows}
        free = [column for column in columns if column not in used and ranks[column] >= reached]
        candidates = [column for column in free if table.actual[column] in wanted]
        places = [range(len(candidates))] if ordered else table.positions(candidates).values()
        candidates = sorted(candidates[place] for of_name in places for place in of_name[:_PORTION])
        _align_exactly(table, rows, candidates, ranks, partners)
        taken = [partner for row in rows if (partner := partners[row]) is not None]
        used.update(taken)
        reached = max((ranks[column] for column in taken), default=reached)


class _Table:
    """The scores of pairs, computed on first use, and the groups and optional flags of the rows."""

    def __init__(
        self,
        expected: Sequence[str],
        actual: Sequence[str],
        pair_scorer: PairScorer,
        limits: AlignmentBounds | None,
        groups: Sequence[int],
        optional: Sequence[bool] | None,
    ) -> None:
        self.expected, self.actual, self._pair_scorer, self._limits = expected, actual, pair_scorer, limits
        self.groups = groups
        """For each row, the first row of its group."""
        self.optional = optional if optional is not None and any(optional) else None
        self._known: list[dict[int, Pair | None]] = [{} for _ in expected]

    def positions(self, columns: Sequence[int]) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for position, column in enumerate(columns):
            found.setdefault(self.actual[column], []).append(position)
        return found

    def pair(self, row: int, column: int) -> Pair | None:
        known = self._known[row]
        if column not in known:
            same = self.expected[row] == self.actual[column]
            known[column] = self._pair_scorer(row, column) if same else None
        return known[column]

    def highest_score(self, row: int) -> Fraction:
        """Return a score that no pair of a row exceeds."""
        second = None if self._limits is None else self._limits.second(row)
        return ONE if second is None or self._has_rival(row, second) else second.score

    def is_best(self, row: int, column: int) -> bool:
        """Whether a pair is known to be the best one of its row."""
        pair = self.pair(row, column)
        if pair is None or pair.perfect or self._limits is None:
            return pair is not None and pair.perfect
        second = self._limits.second(row)
        return (pair is second or pair == second) and not self._has_rival(row, pair)

    def perfect_columns(self, row: int, columns: Container[int]) -> tuple[int, ...] | None:
        """Return those of the columns that are in a perfect pair with a row; None if only scoring all would tell."""
        if self._limits is None or self._limits.second(row) is None:
            return None
        pairs = [(column, self.pair(row, column)) for column in sorted(self._limits.rivals(row)) if column in columns]
        return tuple([column for column, pair in pairs if pair is not None and pair.perfect])

    def _has_rival(self, row: int, second: Pair) -> bool:
        assert self._limits is not None
        pairs = [self.pair(row, column) for column in self._limits.rivals(row)]
        most = second.score, second.argument_score
        return any(pair is not None and (pair.score, pair.argument_score) > most for pair in pairs)

    def pairs(self, row: int, positions: Sequence[int], columns: Sequence[int]) -> list[tuple[int, Pair]]:
        known, scorer = self._known[row], self._pair_scorer
        pairs: list[tuple[int, Pair]] = []
        for position in positions:
            column = columns[position]
            if column in known:
                pair = known[column]
            else:
                pair = known[column] = scorer(row, column)
            if pair is not None:
                pairs.append((position, pair))
        return pairs


def ranks_of(calls: int, batches: Sequence[int] | None) -> Sequence[int]:
    """Return for each actual call the first call of its batch: a range if no two calls share one.

    A call without a batch is its own batch.
    """
    if batches is None or len(set(batches)) == calls:
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


def _align_exactly(
    table: _Table, rows: range, columns: Sequence[int], ranks: Sequence[int], partners: list[int | None]
) -> bool:
    """Set the partners of some rows, and return whether they are exact."""
    if not rows or not columns:
        return True
    if type(ranks) is range and type(table.groups) is range:
        return _align_in_line(table, rows, columns, partners)
    found, exact = _without_rivals(table, rows, columns, ranks) or _first_free(table, rows, columns, ranks), True
    if found is None:
        found, exact = _align_by_weights(table, rows, columns, ranks)
    partners[rows.start : rows.stop] = found
    return exact


def _align_by_weights(
    table: _Table, rows: range, columns: Sequence[int], ranks: Sequence[int]
) -> tuple[list[int | None], bool]:
    """Return the columns of some rows, and whether they are exact, by the weights of all pairs."""
    positions = table.positions(columns)
    pairs = [table.pairs(row, positions.get(table.expected[row], ()), columns) for row in rows]
    weighted, exact = _weights(pairs, len(columns), table.optional and [table.optional[row] for row in rows])
    weights = [_dense(row, len(columns)) for row in weighted]
    places = [ranks[column] for column in columns]
    groups = _numbered(table.groups[row] for row in rows)
    if 1 < len(groups) < len(rows) and len(set(places)) > 1:
        found, best = align_groups(weights, groups, _numbered(places))
        exact = exact and best
    else:
        names = [table.expected[row] for row in rows], [table.actual[column] for column in columns]
        found = align_weights(weights, *names, None if len(groups) == 1 else places)
    return [None if position is None else columns[position] for position in found], exact


def _dense(weighted: Sequence[tuple[int, int]], columns: int) -> list[int]:
    weights = [0] * columns
    for position, weight in weighted:
        weights[position] = weight
    return weights


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
        return align_in_order([[pair for pair in enumerate(row) if pair[1]] for row in weights], len(actual))
    return align_batches(weights, batches)


def _numbered(ranks: Iterable[int]) -> list[list[int]]:
    """Group the positions of calls by rank, in the order of ranks."""
    places: dict[int, list[int]] = {}
    for position, rank in enumerate(ranks):
        places.setdefault(rank, []).append(position)
    return [places[rank] for rank in sorted(places)]


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


def _first_free(table: _Table, rows: range, columns: Sequence[int], ranks: Sequence[int]) -> list[int | None] | None:
    """Align each row with the first free column that no other beats, if there is one. No alignment can be better."""
    if len(rows) > len(columns):
        return None
    candidates = _candidates(table, rows, columns)
    found: list[int | None] = []
    taken: set[int] = set()
    reached, before, group = 0, 0, -1
    for row in rows:
        if table.groups[row] != group:
            group, before = table.groups[row], reached
        for column in candidates[row]:
            if column not in taken and ranks[column] >= before and table.is_best(row, column):
                break
        else:
            return None
        found.append(column)
        taken.add(column)
        reached = max(reached, ranks[column])
    return found


def _candidates(table: _Table, rows: range, columns: Sequence[int]) -> dict[int, Sequence[int]]:
    """Return for each row the columns it may be aligned with: those of perfect pairs if these are known, else all.

    Where as many rows as columns can be in perfect pairs with each other, no other row gets one of these columns.
    """
    positions, within = table.positions(columns), set(columns)
    perfect = {row: table.perfect_columns(row, within) for row in rows}
    for wanted, number in Counter(perfect.values()).items():
        if wanted is not None and len(wanted) == number:
            left = positions[table.actual[wanted[0]]]
            left[:] = [position for position in left if columns[position] not in wanted]
    free = {name: [columns[position] for position in left] for name, left in positions.items()}
    return {row: perfect[row] or free.get(table.expected[row]) or () for row in rows}


# A weight has a digit for the score and for each tie-breaker. In a base greater than the number of pairs, the digits of
# a sum never carry into the next one, so that sums compare as the tie-breakers do, one after the other. For example,
# with at most two pairs the base is 3, and the scores 1/2 and 1/3 are 3/6 and 2/6:
#
#     1/2, known, successful   digits 3 1 1 1   ((3 * 3 + 1) * 3 + 1) * 3 + 1 = 94
#     1/2, known, failed       digits 3 1 1 0   93: worse only where nothing before the last digit differs
#     1/3 and 1/3              digits 4 2 2 2   134: better than one pair of 1/2, since 2/3 > 1/2
#     1/2 beside a pair of 0   digits 3 2 2 2   107: better than 1/2 alone, since it has one pair more
#
# Where there are any, two finer digits follow: the possible gain and the share of right arguments, over `fine`.
# Weights of required calls are multiplied by more than all optional ones can add up to.


def _weights(
    pairs: Sequence[Sequence[tuple[int, Pair]]], columns: int, optional: Sequence[bool] | None
) -> tuple[list[list[tuple[int, int]]], bool]:
    """Return a positive integer as the weight of each pair, and whether they are exact; `pairs` has those of each row.

    They are not exact if the common denominator of the scores is too large; then scores are rounded down.
    """
    possible = _distinct(pairs)
    scale = lcm(*{pair.score.denominator for pair in possible.values()})
    finer = [pair for pair in possible.values() if pair.argument_score is not ZERO or pair.possible_gain is not ZERO]
    fine = lcm(*(share.denominator for pair in finer for share in (pair.argument_score, pair.possible_gain)))
    exact = scale < _LARGEST_SCALE and fine < _LARGEST_SCALE
    scale, fine = min(scale, _LARGEST_SCALE), min(fine, _LARGEST_SCALE)
    most = min(len(pairs), columns) + 1
    has_gains = any(pair.possible_gain for pair in finer)
    base = (most * fine) ** (2 if has_gains else 1)
    folded = {key: _ranked(pair, scale, most) * base for key, pair in possible.items()}
    for pair in finer:
        folded[id(pair)] += _over(fine, pair.possible_gain) * most * fine + _over(fine, pair.argument_score)
    weights = [[(position, folded[id(pair)]) for position, pair in row] for row in pairs]
    return weights if optional is None else _required_first(weights, optional, most), exact


def _distinct(pairs: Sequence[Sequence[tuple[int, Pair]]]) -> dict[int, Pair]:
    """Return each pair once, by its identity: most equal ones are the same object, and fractions are slow to hash."""
    return {id(pair): pair for row in pairs for _, pair in row}


def _required_first(
    weights: list[list[tuple[int, int]]], optional: Sequence[bool], most: int
) -> list[list[tuple[int, int]]]:
    """Multiply the weights of required calls by more than all optional ones, fewer than `most`, can add up to."""
    beyond = max((weight for row in weights for _, weight in row), default=0) * most + 1
    return [
        row if is_optional else [(position, weight * beyond) for position, weight in row]
        for row, is_optional in zip(weights, optional, strict=True)
    ]


def _ranked(pair: Pair, scale: int, most: int) -> int:
    """Return the number with the digits for the score, the pair, known arguments, and success."""
    return ((_over(scale, pair.score) * most + 1) * most + pair.known) * most + pair.successful


def _over(denominator: int, value: Fraction) -> int:
    """Return the numerator of a fraction over this denominator, rounded down."""
    numerator, own = value.as_integer_ratio()
    return numerator * denominator // own


# The band. In order, the place of a call among the expected ones says where its partner is, and a pair far from there
# leaves out expected calls. For example, the first of five expected calls is paired with the third of five actual ones.
# Then only the actual calls 4 and 5 are left for four expected calls:
#
#     expected  1 2 3 4 5
#     actual    3 4 5        two are left out, so the total is at most the sum of the three highest scores
#
# So pairs near the diagonal are scored first. If the best alignment among them is better than any that leaves out as
# many calls as a pair outside would, it is the best of all; else the band gets wider.


def _align_in_line(table: _Table, rows: range, columns: Sequence[int], partners: list[int | None]) -> bool:
    """Set the partners of some rows where neither rows nor columns are free of order; return whether they are exact."""
    names = {table.actual[column] for column in columns}
    rows_in = [row for row in rows if table.expected[row] in names]
    found: Sequence[int | None] | None = None
    exact = True
    if len(columns) >= len(rows_in) and table.optional is None:
        found = _first_best(table, rows_in, columns)
    if found is None:
        found, exact = _align_in_band(table, rows_in, columns)
    for row, column in zip(rows_in, found, strict=True):
        partners[row] = column
    return exact


def _align_in_band(table: _Table, rows: Sequence[int], columns: Sequence[int]) -> tuple[Sequence[int | None], bool]:
    """Return the column of each row, and whether they are exact.

    A pair of the row and the column at positions i and j is outside of the band if j - i is less than 0, or more than
    there are more columns than rows, by more than `beyond` (with fewer columns likewise). An alignment with such a pair
    leaves out at least one row more than `beyond`, beside those that have to be left out.
    """
    count, spare = len(rows), len(columns) - len(rows)
    furthest = min(count, len(columns)) - 1
    beyond = furthest if table.optional is not None or count * len(columns) <= _FEW else 0
    highest: list[Fraction] | None = None
    while True:
        found, exact = _align_within(table, rows, columns, None if beyond >= furthest else beyond)
        if beyond >= furthest:
            return found, exact
        left_out = max(-spare, 0) + beyond + 1
        chosen = [None if column is None else table.pair(row, column) for row, column in zip(rows, found, strict=True)]
        if _is_better(chosen, highest or [ONE] * count, left_out):
            return found, exact
        if highest is None:
            highest = [
                ONE if pair is not None and pair.perfect else table.highest_score(row)
                for row, pair in zip(rows, chosen, strict=True)
            ]
            if _is_better(chosen, highest, left_out):
                return found, exact
        beyond = min(3 * beyond + 1, furthest)


def _align_within(
    table: _Table, rows: Sequence[int], columns: Sequence[int], beyond: int | None
) -> tuple[list[int | None], bool]:
    """Return the best column of each row in a band, or of all columns, and whether they are exact."""
    positions, spare = table.positions(columns), len(columns) - len(rows)
    near: list[list[int]] = []
    for at, row in enumerate(rows):
        places = positions[table.expected[row]]
        if beyond is not None:
            first, last = at + min(spare, 0) - beyond, at + max(spare, 0) + beyond
            places = places[bisect_left(places, first) : bisect_left(places, last + 1)]
        near.append(places)
    pairs = [table.pairs(row, places, columns) for row, places in zip(rows, near, strict=True)]
    weights, exact = _weights(pairs, len(columns), table.optional and [table.optional[row] for row in rows])
    found = align_in_order(weights, len(columns))
    return [None if position is None else columns[position] for position in found], exact


def _first_best(table: _Table, rows: Sequence[int], columns: Sequence[int]) -> list[int] | None:
    """Align each row with the first column, in order, that no other column beats; None if that leaves out a row."""
    spare = len(columns) - len(rows)
    if not spare:
        score = 0.0
        for row, column in zip(rows, columns, strict=True):
            pair = table.pair(row, column)
            if pair is None:
                return None
            numerator, denominator = pair.score.as_integer_ratio()
            score += numerator / denominator
        if score > len(rows) - 1 + _ROUNDING:  # any other alignment has a pair less
            return [*columns]
    found: list[int] = []
    position = 0
    for at, row in enumerate(rows):
        while position <= at + spare:
            column = columns[position]
            position += 1
            if table.is_best(row, column):
                found.append(column)
                break
        else:
            return None
    return found


_ROUNDING = 1e-6  # more than the error of a sum of so many floats


def _is_better(chosen: Sequence[Pair | None], limits: Sequence[Fraction], left_out: int) -> bool:
    """Whether an alignment is better than any that leaves out so many rows; `limits` are the rows' highest scores."""
    pairs = [pair for pair in chosen if pair is not None]
    ratios = [score.as_integer_ratio() for score in (*limits, *[pair.score for pair in pairs])]
    scale = lcm(*{denominator for _, denominator in ratios})
    points = [numerator * (scale // denominator) for numerator, denominator in ratios]
    most = sum(sorted(points[: len(limits)])[left_out:])
    score = sum(points[len(limits) :])
    return score > most or (score == most and len(pairs) > len(limits) - left_out)


def align_in_order(rows: Sequence[Sequence[tuple[int, int]]], columns: int) -> list[int | None]:
    """Align as `align_weights` does if each column has its own rank, in ascending order; `rows` have column and weight.

    Dynamic programming from the end, then a walk from the start. `best[row]` has for each column, counted from the
    last, the highest total of this row and later rows from that column on.
    """
    below = [0] * (columns + 1)
    best = [below]
    for row in reversed(rows):
        here = below
        if row:
            here = below.copy()
            for column, weight in row:
                place = columns - column
                total = weight + below[place - 1]
                if total > here[place]:
                    end = bisect_left(here, total, place)
                    here[place:end] = [total] * (end - place)
        best.append(here)
        below = here
    found: list[int | None] = []
    start = 0
    for number, row in enumerate(rows, start=1):
        here, below = best[-number], best[-number - 1]
        partner: int | None = None
        target = here[columns - start]
        for column, weight in row:
            if column >= start:
                if here[columns - column] < target:
                    break
                if weight + below[columns - column - 1] == target:
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
        unique = UniqueWeights([[weights[row][column] for column in columns] or [0] for row in rows])
        matching = Assignment(len(unique.weights[0]))
        for of_row in unique.weights:
            matching.add(of_row)
        for row, position in zip(rows, unique.alignment(matching.value), strict=True):
            found[row] = None if position is None else columns[position]
    return found
