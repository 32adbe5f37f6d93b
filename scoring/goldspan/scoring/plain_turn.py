"""Turns in which nothing is special, scored in integers.

Most turns are like that: plain calls are expected, and every actual call was made, did not fail and shows its
arguments. They are aligned and judged here by the rules of `alignment` and `turn_score`, whose short cut this is:
whatever is not plain is left to them, and so is all that is to be said beside partners and score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from math import lcm
from types import MappingProxyType
from typing import NamedTuple

from goldspan.scoring.align.alignment import LIMIT, align_in_order, align_weights, ranks_of
from goldspan.scoring.call_match import PASSED, RIGHT, LeftOutError, PlainCall, ScoreBounds
from goldspan.scoring.criterion import Criterion
from goldspan.scoring.results import Label, Verdict
from goldspan.scoring.sessions import Capture, JsonValue, ToolCall, Turn

Partners = Sequence[int | None]

_CAPTURED = Capture.CAPTURED
_MAPPINGS = frozenset({dict, MappingProxyType})
_LARGEST_SCALE = 1 << 64


class PlainScore(NamedTuple):
    """The partner of each expected call, and what the turn is worth."""

    partners: Partners
    verdict: Verdict
    bounds: ScoreBounds


class _Row(NamedTuple):
    """An expected call, and how its points count: a weight is greater exactly where an alignment is better.

    A pair weighs `base` and `unit` for each point, and `bonus` where all points were made.
    """

    name: str
    call: PlainCall
    total: int
    base: int
    unit: int
    bonus: int


class PlainTurn:
    """Plain calls that are expected of a turn, in their order."""

    __slots__ = ("_all", "_extra", "_in_batches", "_names", "_ordered", "_rows", "_scale", "_score", "_threshold")

    def __init__(self, calls: Sequence[tuple[str, PlainCall]], criterion: Criterion, scale: int) -> None:
        self._scale = scale
        most = len(calls) + 1
        # Where a call is right or wrong as a whole, the points it makes decide between alignments that are else equal.
        fine = most * scale if calls[0][1].all_or_nothing else 1
        self._score = score = most * fine
        """What a score of 1, divided by `scale`, weighs. Numbers of pairs weigh less, and points that break ties."""
        self._rows: list[_Row] = []
        for name, call in calls:
            share = scale // call.total if call.total else scale
            whole = call.all_or_nothing or not call.total
            unit = share if whole else share * score
            bonus = scale * score if whole else 0
            if call.all_or_nothing and not call.total:
                bonus += scale
            self._rows.append(_Row(name, call, call.total, fine, unit, bonus))
        self._names = [row.name for row in self._rows]
        self._ordered = criterion.ordered
        self._in_batches = criterion.parallel_calls == "any_order"
        self._all = criterion.turn_score == "all"
        self._extra = criterion.extra_calls == "penalize"
        self._threshold = criterion.exact_threshold.as_integer_ratio()

    def score(self, turn: Turn, batches: Sequence[int] | None = None) -> PlainScore | None:
        """Align and judge a turn; None if it is not plain. `batches` replaces the batch numbers of its calls."""
        calls = turn.calls
        arguments: list[Mapping[str, JsonValue]] = []
        for call in calls:
            given = call.arguments
            if (
                call.capture is not _CAPTURED
                or call.error is not None
                or call.rejected
                or call.argument_captures
                or given is None
                or type(given) not in _MAPPINGS
            ):
                return None
            arguments.append(given)
        try:
            return self._scored(calls, arguments, batches, defaults=turn.tool_definitions.capture is _CAPTURED)
        except LeftOutError:
            return None

    def _scored(
        self,
        calls: Sequence[ToolCall],
        arguments: Sequence[Mapping[str, JsonValue]],
        batches: Sequence[int] | None,
        *,
        defaults: bool,
    ) -> PlainScore | None:
        rows, done = self._rows, 0
        for row, call, given in zip(rows, calls, arguments, strict=False):
            if row.name != call.name or row.call.points(given, defaults=defaults) != row.total:
                break
            done += 1
        if done == len(rows):
            return self._result(range(done), done * self._scale, len(calls) - done)
        ranks: Sequence[int] | None = None
        if self._ordered and len(rows) > 1:
            ranks = self._ranks(calls, batches)
        if not isinstance(ranks, range):
            done = 0
        # In order, what begins as it should is aligned already: nothing can be better there, and nothing earlier.
        columns_of: dict[str, list[int]] = {name: [] for name in self._names[done:]}
        columns: list[int] = []
        for index in range(done, len(calls)):
            found = columns_of.get(calls[index].name)
            if found is not None:
                found.append(len(columns))
                columns.append(index)
        if len(rows) * len(columns) > LIMIT:
            return None
        if not columns:
            return self._result([*range(done), *[None] * (len(rows) - done)], done * self._scale, len(calls) - done)
        weights: list[list[int]] = []
        for row in rows[done:]:
            weights.append(of_row := [0] * len(columns))
            for column in columns_of[row.name]:
                points = row.call.points(arguments[columns[column]], defaults=defaults)
                if points >= 0:
                    of_row[column] = row.base + points * row.unit + (row.bonus if points == row.total else 0)
        if isinstance(ranks, range):
            positions = align_in_order(weights)
        else:
            names = self._names, [calls[column].name for column in columns]
            positions = align_weights(weights, *names, None if ranks is None else [ranks[c] for c in columns])
        partners: list[int | None] = list(range(done))
        weight = taken = 0
        for of_row, position in zip(weights, positions, strict=True):
            partners.append(None if position is None else columns[position])
            if position is not None:
                weight += of_row[position]
                taken += 1
        score = weight // self._score
        return self._result(partners, done * self._scale + score, len(calls) - done - taken)

    def _ranks(self, calls: Sequence[ToolCall], batches: Sequence[int] | None) -> Sequence[int]:
        """Return what orders calls; a range where each has a place of its own."""
        if not self._in_batches:
            return range(len(calls))
        numbers = [call.batch for call in calls] if batches is None else batches
        some = [number for number in numbers if number]
        return range(len(calls)) if len(set(some)) == len(some) else ranks_of(len(calls), numbers)

    def _result(self, partners: Partners, score: int, extra: int) -> PlainScore:
        if not self._extra:
            extra = 0
        expected = len(self._rows)
        if self._all:
            score = self._scale * expected if score == self._scale * expected and not extra else 0
            extra = 0
        return PlainScore(partners, *judged(score, self._scale * (expected + extra), *self._threshold))


def plain_turn(calls: Sequence[tuple[str, PlainCall | None]], criterion: Criterion) -> PlainTurn | None:
    """Return a turn of these calls by their names, unless one is not plain, or not judged as the others are."""
    plain = [(name, call) for name, call in calls if call is not None]
    if not plain or len(plain) < len(calls) or len({call.all_or_nothing for _, call in plain}) > 1:
        return None
    scale = lcm(*{call.total or 1 for _, call in plain})
    return PlainTurn(plain, criterion, scale) if scale < _LARGEST_SCALE else None


@lru_cache(maxsize=4096)
def judged(score: int, whole: int, threshold: int, of: int) -> tuple[Verdict, ScoreBounds]:
    """Return the verdict on `score / whole`, and its bounds, by the threshold `threshold / of`."""
    if score == whole:
        return PASSED, RIGHT
    label = Label.PASS if score * of >= threshold * whole else Label.FAIL
    exact = Fraction(score, whole)
    return Verdict(exact, label), ScoreBounds(exact, exact)
