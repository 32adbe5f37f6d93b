"""Which turn of a session stands for which turn of its golden."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from goldspan.scoring.alignment import Pair, align
from goldspan.scoring.comparison import ONE
from goldspan.scoring.goldens.matching import is_turn_of, user_texts
from goldspan.scoring.goldens.models import GoldenTurn
from goldspan.scoring.sessions import Turn


class JoinedTurns(NamedTuple):
    """The position of the turn that stands for each golden turn, and which golden turns may be among those left."""

    partners: tuple[int | None, ...]
    unknown: frozenset[int] = frozenset()
    """Golden turns without a partner, while turns are left whose key is not known."""


def join_turns(
    golden: Sequence[GoldenTurn], turns: Sequence[Turn], how: Literal["auto", "key", "index"]
) -> JoinedTurns:
    """Join by `index`, by `key` (turn id, else user text), or by `auto`.

    `auto` joins by key what has one on both sides; golden turns without a key, and turns whose key was not recorded,
    are then joined by their order between those that were found. Where there are no keys at all, that is by index.
    """
    partners: list[int | None] = [None] * len(golden)
    if how == "index" or not any(turn.has_key for turn in golden):
        if how == "key":
            return JoinedTurns(tuple(partners), frozenset(range(len(golden))) if turns else frozenset())
        return JoinedTurns(tuple(index if index < len(turns) else None for index in range(len(golden))))
    _join_by_key(golden, turns, partners)
    if how == "auto":
        _join_by_order(golden, turns, partners)
        return JoinedTurns(tuple(partners))
    left = [turn for index, turn in enumerate(turns) if index not in partners]
    unknown = {
        index
        for index, expected in enumerate(golden)
        if partners[index] is None and any(_may_be(expected, turn) for turn in left)
    }
    return JoinedTurns(tuple(partners), frozenset(unknown))


def _join_by_key(golden: Sequence[GoldenTurn], turns: Sequence[Turn], partners: list[int | None]) -> None:
    """Join turns that carry the golden's keys, as many as possible in order, then the others."""
    for ordered in (True, False):
        rows = [index for index, partner in enumerate(partners) if partner is None and golden[index].has_key]
        columns = [index for index in range(len(turns)) if index not in partners]

        def judge(row: int, column: int, rows: list[int] = rows, columns: list[int] = columns) -> Pair | None:
            return Pair(ONE) if is_turn_of(golden[rows[row]], turns[columns[column]]) else None

        found = align([""] * len(rows), [""] * len(columns), judge, ordered=ordered)
        for row, column in zip(rows, found.partners, strict=True):
            partners[row] = None if column is None else columns[column]


def _join_by_order(golden: Sequence[GoldenTurn], turns: Sequence[Turn], partners: list[int | None]) -> None:
    """Join golden turns between two joined ones with the turns between those, as far as no key speaks against it."""
    taken = {partner for partner in partners if partner is not None}
    start = 0
    for index, expected in enumerate(golden):
        partner = partners[index]
        if partner is not None:
            start = max(start, partner + 1)
            continue
        stop = min(
            (later for later in partners[index + 1 :] if later is not None and later >= start), default=len(turns)
        )
        for candidate in range(start, stop):
            if candidate not in taken and _may_be(expected, turns[candidate]):
                partners[index] = candidate
                taken.add(candidate)
                start = candidate + 1
                break


def _may_be(expected: GoldenTurn, turn: Turn) -> bool:
    """Whether it is not known that this is another turn."""
    if expected.turn_id is not None:
        return turn.turn_id is None
    return expected.user is None or not user_texts(turn.user_text)
