"""Which turn of a session is which turn of its golden (S12), and where a session id was used again.

A turn is joined by its key, else by its place in the conversation, else by counting. Several processes may serve one
session, and each may see some of its turns only. So counting alone does not say that a turn never came.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from goldspan.scoring.align.alignment import Pair, align
from goldspan.scoring.comparison import ONE
from goldspan.scoring.goldens.golden import Golden, GoldenTurn
from goldspan.scoring.goldens.golden_index import is_turn_of, key_of, keys_of, user_texts
from goldspan.scoring.sessions import Session, Turn

# Places: what telemetry says of where a turn stands in the conversation.


def places_of(turns: Sequence[Turn]) -> list[int | None]:
    """Return the place of each turn in its conversation, from 1; None where nothing tells it.

    The input of a turn's first model call tells it, if it holds the conversation so far: then it has as many user
    messages as there were turns. Counts that do not grow from turn to turn tell nothing: the history is kept elsewhere.
    """
    if all(turn.root is None for turn in turns):
        return list(range(1, len(turns) + 1))  # given by code, not read from spans
    places: list[int | None] = []
    for index, turn in enumerate(turns):
        places.append(turn.turn_number or _counted_place(turn, turns[index - 1] if index else None))
    known = [(index, place) for index, place in enumerate(places) if place is not None]
    if any(after[1] - before[1] < after[0] - before[0] for before, after in pairwise([(-1, 0), *known])):
        return [None] * len(places)
    for (start, place), (stop, later) in pairwise([(-1, 0), *known]):
        if later - place == stop - start:
            places[start + 1 : stop] = range(place + 1, later)
    return places


def _counted_place(turn: Turn, previous: Turn | None) -> int | None:
    """Return the place by the number of user messages; None if one turn may have brought several of them."""
    if not turn.user_messages:
        return None
    first = turn.user_messages[0]
    if first.total != first.earlier + 1:
        return None
    if previous is not None and previous.user_messages:
        start, most = previous.user_messages[0].total, max(count.total for count in previous.user_messages)
        if start < first.earlier <= most:
            return None
    return first.total


# The join.


class JoinedTurns(Struct, frozen=True, gc=False):
    """For each golden turn, the position of its turn in the session."""

    partners: tuple[int | None, ...]
    unknown: frozenset[int] = frozenset()
    """Golden turns without a partner that may be a remaining turn whose key is unknown."""
    unsure: frozenset[int] = frozenset()
    """Golden turns whose partner may be another turn of the golden, since some of its turns were not seen."""
    complete: bool = True
    """No turn can have been served elsewhere: a golden turn without a partner never came."""


def join_turns(
    golden: Sequence[GoldenTurn], turns: Sequence[Turn], how: Literal["auto", "key", "index"]
) -> JoinedTurns:
    """Join by `index`, by `key` (turn id, else user text), or by `auto`.

    `auto` first joins the turns that have a key on both sides. Without any such turn it joins by places. What is left,
    golden turns without a key and turns whose key was not recorded, it joins by order.
    """
    if how == "auto" and _are_in_line(golden, turns):
        return JoinedTurns(tuple(range(len(golden))))
    partners: list[int | None] = [None] * len(golden)
    if how == "index":
        return JoinedTurns(tuple(index if index < len(turns) else None for index in range(len(golden))))
    if how == "key" and not any(turn.has_key for turn in golden):
        return JoinedTurns(tuple(partners), frozenset(range(len(golden))) if turns else frozenset())
    places = _places_in(golden, turns)
    _join_by_key(golden, turns, partners)
    by_key = frozenset(index for index, partner in enumerate(partners) if partner is not None)
    if how == "auto":
        if not by_key:
            _join_by_place(golden, turns, places, partners)
        _join_by_order(golden, turns, places if not by_key else [None] * len(turns), partners)
    remaining = [turn for index, turn in enumerate(turns) if index not in partners]
    missing = [index for index, partner in enumerate(partners) if partner is None]
    may_be = {index for index in missing if any(_may_be(golden[index], turn) for turn in remaining)}
    joined = frozenset(range(len(golden))).difference(missing)
    complete, proven = _saw_all(places, joined, by_key, turns)
    return JoinedTurns(
        tuple(partners),
        frozenset(may_be) if how == "key" else frozenset(),
        joined - by_key if missing and not proven else frozenset(),
        complete,
    )


def _are_in_line(golden: Sequence[GoldenTurn], turns: Sequence[Turn]) -> bool:
    """Whether there is a turn for each turn of the golden, and nothing but its position to join it by."""
    if len(golden) != len(turns):
        return False
    for turn in golden:
        if turn.user is not None or turn.turn_id is not None:
            return False
    if len(turns) == 1:
        return True
    return places_of(turns) in ([None] * len(turns), [*range(1, len(turns) + 1)])


def _places_in(golden: Sequence[GoldenTurn], turns: Sequence[Turn]) -> list[int | None]:
    """Return the places of turns, unless they run past the golden without a gap: then the prompt has examples."""
    places = places_of(turns)
    first, last = (places[0], places[-1]) if places else (None, None)
    if first is not None and last is not None and first > 1 and last > len(golden) and last - first == len(turns) - 1:
        return [None] * len(turns)
    return places


def _saw_all(
    places: Sequence[int | None], joined: frozenset[int], by_key: frozenset[int], turns: Sequence[Turn]
) -> tuple[bool, bool]:
    """Return whether no turn before the last can have been served elsewhere, and whether this is proven.

    It is proven if the places of at least two turns leave nothing out. A single first turn may be one of many in a
    framework that keeps the history elsewhere.
    """
    expected = list(range(1, len(places) + 1))
    if places == expected:
        return True, len(places) > 1 or all(turn.root is None for turn in turns)
    left_out = any(place is not None and place != number for place, number in zip(places, expected, strict=True))
    return not left_out and joined == by_key and by_key == frozenset(range(len(by_key))), False


def _join_by_key(golden: Sequence[GoldenTurn], turns: Sequence[Turn], partners: list[int | None]) -> None:
    """Join turns that have the golden's keys: as many as possible in order, then the others."""
    for ordered in (True, False):
        rows = [index for index, partner in enumerate(partners) if partner is None and golden[index].has_key]
        columns = [index for index in range(len(turns)) if index not in partners]

        def pair_score(row: int, column: int, rows: list[int] = rows, columns: list[int] = columns) -> Pair | None:
            return Pair(ONE) if is_turn_of(golden[rows[row]], turns[columns[column]]) else None

        alignment = align([""] * len(rows), [""] * len(columns), pair_score, ordered=ordered)
        for row, column in zip(rows, alignment.partners, strict=True):
            partners[row] = None if column is None else columns[column]


def _join_by_place(
    golden: Sequence[GoldenTurn], turns: Sequence[Turn], places: Sequence[int | None], partners: list[int | None]
) -> None:
    for index, place in enumerate(places):
        if place is not None and place <= len(golden) and _may_be(golden[place - 1], turns[index]):
            partners[place - 1] = index


def _join_by_order(
    golden: Sequence[GoldenTurn], turns: Sequence[Turn], places: Sequence[int | None], partners: list[int | None]
) -> None:
    """Join the golden turns between two joined turns with the session's turns between them, unless a key differs.

    A turn whose place is known is never joined with another place.
    """
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
            if candidate not in taken and places[candidate] is None and _may_be(expected, turns[candidate]):
                partners[index] = candidate
                taken.add(candidate)
                start = candidate + 1
                break


def _may_be(expected: GoldenTurn, turn: Turn) -> bool:
    """Whether no key shows that these are different turns."""
    if expected.turn_id is not None:
        return turn.turn_id is None
    return expected.user is None or not user_texts(turn.user_text)


# Runs: where a session id was used again.

DEFAULT_RUN_IDLE = 60.0
"""Seconds after which a run that saw every turn of its golden is over."""


def split_runs(session: Session, golden: Golden, run_idle: float = DEFAULT_RUN_IDLE) -> list[Session]:
    """Split the turns of a session where its session id was used again.

    A run that saw every turn of its golden ends at the next gap longer than `run_idle` seconds, unless the turn after
    it carries on the conversation or has another key than the golden's first turn. Where the golden's first and last
    turns carry keys, it ends at a repeat of the first key after the last, too. A key that several of its turns carry
    must have come as often before it counts as the last. The first run keeps the session's `run`; the others add their
    first turn to it. A golden for the whole session cuts nothing.
    """
    if not golden.turns:
        return [session]
    first, last = golden.turns[0], golden.turns[-1]
    keyed = first.has_key and last.has_key
    needed = sum(key_of(turn) == key_of(last) for turn in golden.turns)
    parts: list[list[Turn]] = [[]]
    seen, lasts, end = _SeenTurns(golden), 0, 0
    for turn in session.turns:
        repeats = keyed and lasts >= needed and is_turn_of(first, turn)
        idle = turn.start - end if turn.start and end else 0
        if repeats or (seen.every_turn and idle > run_idle * 1_000_000_000 and _may_begin(first, turn)):
            parts.append([])
            seen, lasts, end = _SeenTurns(golden), 0, 0
        parts[-1].append(turn)
        seen.add(turn)
        lasts += is_turn_of(last, turn)
        end = max(end, turn.end)
    if len(parts) == 1:
        return [session]
    runs = [replace(session, turns=tuple(part)) for part in parts]
    return runs[:1] + [
        replace(run, run=f"{session.run}/{_name(run.turns[0], number)}", used_again=True)
        for number, run in enumerate(runs[1:], start=1)
    ]


class _SeenTurns:
    """Tells in one pass over the turns of a run whether it saw every turn of its golden."""

    def __init__(self, golden: Golden) -> None:
        self._keys = Counter(key for turn in golden.turns if (key := key_of(turn)) is not None)
        self._left, self._without_key = len(golden.turns), 0
        self._user_messages: int | None = 0
        self._left_out = False

    @property
    def every_turn(self) -> bool:
        return self._left <= 0 and self._keys.total() <= self._without_key and not self._left_out

    def add(self, turn: Turn) -> None:
        self._left -= 1
        keys = keys_of(turn)
        self._without_key += not keys
        if (key := next((key for key in keys if self._keys[key] > 0), None)) is not None:
            self._keys[key] -= 1
        counts, before = turn.user_messages, self._user_messages
        self._left_out |= bool(counts) and before is not None and counts[0].earlier > before
        self._user_messages = max(count.total for count in counts) if counts else None


def _may_begin(first: GoldenTurn, turn: Turn) -> bool:
    """Whether a turn may be the first of a conversation."""
    carries_on = bool(turn.user_messages and turn.user_messages[0].earlier)
    return not carries_on and (is_turn_of(first, turn) or _may_be(first, turn))


def _name(turn: Turn, index: int) -> str:
    return f"{turn.root.trace_id}-{turn.root.span_id}" if turn.root and turn.root.span_id else str(index)
