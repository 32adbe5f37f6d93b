"""Which turn of a session is which turn of its golden (S12), and where a session id was used again.

A turn is joined by its key, else by its place in the conversation, else by counting. Several processes may serve one
session, and each may see some of its turns only. So counting alone does not say that a turn never came.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from goldspan.scoring.align.alignment import Pair, align
from goldspan.scoring.comparison import ONE
from goldspan.scoring.goldens.golden import Golden, GoldenTurn
from goldspan.scoring.goldens.golden_index import TurnKey, key_of, keys_of, user_texts
from goldspan.scoring.sessions import Session, Turn

# Places: what telemetry says of where a turn stands in the conversation.


class TurnTold(Struct, frozen=True, gc=False):
    """What a turn tells of which turn of its conversation it is."""

    place: int | None
    """Its place in the conversation by its own telemetry and that of the turn before it."""
    keys: tuple[TurnKey, ...] = ()
    """Every key that its golden turn may have."""
    has_text: bool = False
    """The user's text was recorded."""


def told_of(turns: Sequence[Turn], index: int, *, keys: bool = True) -> TurnTold:
    """Return what a turn tells, without its `keys` if no golden turn has any."""
    turn = turns[index]
    place = turn.turn_number or _counted_place(turn, turns[index - 1] if index else None)
    return TurnTold(place, keys_of(turn), bool(user_texts(turn.user_text))) if keys else TurnTold(place)


def places_of(turns: Sequence[Turn], told: Sequence[TurnTold] | None = None) -> list[int | None]:
    """Return the place of each turn in its conversation, from 1; None where nothing tells it.

    The input of a turn's first model call tells it, if it holds the conversation so far: then it has as many user
    messages as there were turns. Counts that do not grow from turn to turn tell nothing: the history is kept elsewhere.
    """
    if _is_given(turns):
        return list(range(1, len(turns) + 1))
    places = [one.place for one in told or [told_of(turns, index) for index in range(len(turns))]]
    known = [(index, place) for index, place in enumerate(places) if place is not None]
    if any(after[1] - before[1] < after[0] - before[0] for before, after in pairwise([(-1, 0), *known])):
        return [None] * len(places)
    for (start, place), (stop, later) in pairwise([(-1, 0), *known]):
        if later - place == stop - start:
            places[start + 1 : stop] = range(place + 1, later)
    return places


def _is_given(turns: Sequence[Turn]) -> bool:
    """Whether the turns are given by code, not read from spans."""
    return all(turn.root is None for turn in turns)


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


class GoldenKeys(Struct, frozen=True, gc=False):
    """The turns of a golden, and their keys."""

    turns: Sequence[GoldenTurn]
    keys: tuple[TurnKey | None, ...]
    places: Mapping[TurnKey, Sequence[int]]
    """The turns with each key."""


def golden_keys(turns: Sequence[GoldenTurn]) -> GoldenKeys:
    """Return the keys of a golden's turns."""
    keys = tuple(map(key_of, turns))
    places: dict[TurnKey, list[int]] = {}
    for index, key in enumerate(keys):
        if key is not None:
            places.setdefault(key, []).append(index)
    return GoldenKeys(turns, keys, places)


def join_turns(
    expected: GoldenKeys, turns: Sequence[Turn], how: Literal["auto", "key", "index"], told: Sequence[TurnTold]
) -> JoinedTurns:
    """Join by `index`, by `key` (turn id, else user text), or by `auto`.

    `auto` first joins the turns that have a key on both sides. Without any such turn it joins by places. What is left,
    golden turns without a key and turns whose key was not recorded, it joins by order. `told` is what each turn tells.
    """
    golden = expected.turns
    partners: list[int | None] = [None] * len(golden)
    if how == "index":
        return JoinedTurns(tuple(index if index < len(turns) else None for index in range(len(golden))))
    if how == "key" and not expected.places:
        return JoinedTurns(tuple(partners), frozenset(range(len(golden))) if turns else frozenset())
    places: Sequence[int | None] = [one.place for one in told]
    if len(turns) < len(golden) or not _are_in_line(expected, told, places, how):
        places = _places_in(golden, turns, told)
    if _are_in_line(expected, told, places, how):
        in_line = range(min(len(golden), len(turns)))
        if len(in_line) == len(golden):
            return JoinedTurns(tuple(in_line))
        partners[: len(in_line)] = in_line
        by_key = frozenset(in_line if expected.places else ())
    else:
        _join_by_key(expected, told, partners)
        by_key = frozenset(index for index, partner in enumerate(partners) if partner is not None)
        if how == "auto":
            if not by_key:
                _join_by_place(golden, told, places, partners)
            _join_by_order(golden, told, places if not by_key else [None] * len(turns), partners)
    found = frozenset(index for index, partner in enumerate(partners) if partner is not None)
    if len(found) == len(golden):
        return JoinedTurns(tuple(partners))
    may_be: frozenset[int] = frozenset()
    if how == "key":
        taken = set(partners)
        remaining = [one for index, one in enumerate(told) if index not in taken]
        missing = (index for index, partner in enumerate(partners) if partner is None)
        may_be = frozenset(index for index in missing if any(_may_be(golden[index], one) for one in remaining))
    complete, proven = _saw_all(places, found, by_key, turns)
    return JoinedTurns(tuple(partners), may_be, frozenset() if proven else found - by_key, complete)


def _are_in_line(
    expected: GoldenKeys,
    told: Sequence[TurnTold],
    places: Sequence[int | None],
    how: Literal["auto", "key", "index"],
) -> bool:
    """Whether each turn has the key of the golden turn at its position, or nothing tells that it has another place."""
    if expected.places:
        return all(key is not None and key in one.keys for key, one in zip(expected.keys, told, strict=False))
    return how == "auto" and not [at for at, place in enumerate(places, start=1) if place not in (None, at)]


def _places_in(golden: Sequence[GoldenTurn], turns: Sequence[Turn], told: Sequence[TurnTold]) -> list[int | None]:
    """Return the places of turns, unless they run past the golden without a gap: then the prompt has examples."""
    places = places_of(turns, told)
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
        return True, len(places) > 1 or _is_given(turns)
    left_out = any(place is not None and place != number for place, number in zip(places, expected, strict=True))
    return not left_out and joined == by_key and by_key == frozenset(range(len(by_key))), False


def _join_by_key(expected: GoldenKeys, told: Sequence[TurnTold], partners: list[int | None]) -> None:
    """Join turns that have the golden's keys: as many as possible in order, then the others.

    Turns that have the same key as the next golden turn are joined with it first, as long as there are such: in the
    order of both, no other join is better.
    """
    if not expected.places:
        return
    for ordered in (True, False):
        taken = set(partners)
        rows_of = {
            column: {row for key in one.keys for row in expected.places.get(key, ()) if partners[row] is None}
            for column, one in enumerate(told)
            if column not in taken
        }
        columns = [column for column, rows in rows_of.items() if rows]
        rows = sorted(set[int]().union(*(rows_of[column] for column in columns)))
        same = 0
        if ordered:
            while same < min(len(rows), len(columns)) and rows[same] in rows_of[columns[same]]:
                partners[rows[same]] = columns[same]
                same += 1
        rows, columns = rows[same:], columns[same:]

        def pair_score(
            row: int,
            column: int,
            rows: list[int] = rows,
            columns: list[int] = columns,
            rows_of: Mapping[int, set[int]] = rows_of,
        ) -> Pair | None:
            return Pair(ONE) if rows[row] in rows_of[columns[column]] else None

        alignment = align([""] * len(rows), [""] * len(columns), pair_score, ordered=ordered)
        for row, column in zip(rows, alignment.partners, strict=True):
            partners[row] = None if column is None else columns[column]


def _join_by_place(
    golden: Sequence[GoldenTurn], told: Sequence[TurnTold], places: Sequence[int | None], partners: list[int | None]
) -> None:
    for index, place in enumerate(places):
        if place is not None and place <= len(golden) and _may_be(golden[place - 1], told[index]):
            partners[place - 1] = index


def _join_by_order(
    golden: Sequence[GoldenTurn], told: Sequence[TurnTold], places: Sequence[int | None], partners: list[int | None]
) -> None:
    """Join the golden turns between two joined turns with the session's turns between them, unless a key differs.

    A turn whose place is known is never joined with another place.
    """
    later = sorted(partner for partner in partners if partner is not None)
    taken = set(later)
    free = [at for at, place in enumerate(places) if place is None and at not in taken]
    without_id = [at for at in free if not any(kind == "turn id" for kind, _ in told[at].keys)]
    without_text = [at for at in free if not told[at].has_text]
    start = 0
    for index, expected in enumerate(golden):
        partner = partners[index]
        if partner is not None:
            del later[bisect_left(later, partner)]
            start = max(start, partner + 1)
            continue
        if start >= len(told):
            break
        following = bisect_left(later, start)
        stop = later[following] if following < len(later) else len(told)
        candidates = free if expected.user is None else without_text
        candidates = candidates if expected.turn_id is None else without_id
        first = bisect_left(candidates, start)
        if first < len(candidates) and candidates[first] < stop:
            partners[index] = candidates[first]
            start = candidates[first] + 1


def _may_be(expected: GoldenTurn, told: TurnTold) -> bool:
    """Whether no key shows that these are different turns."""
    if expected.turn_id is not None:
        return not any(kind == "turn id" for kind, _ in told.keys)
    return expected.user is None or not told.has_text


# Runs: where a session id was used again.

DEFAULT_RUN_IDLE = 60.0
"""Seconds after which a run that saw every turn of its golden is over."""


def split_runs(
    session: Session, golden: Golden, run_idle: float = DEFAULT_RUN_IDLE, told: Sequence[TurnTold] | None = None
) -> list[Session]:
    """Split the turns of a session where its session id was used again.

    A run that saw every turn of its golden ends at the next gap longer than `run_idle` seconds, unless the turn after
    it carries on the conversation or has another key than the golden's first turn. Where the golden's first and last
    turns carry keys, it ends at a repeat of the first key after the last, too. A key that several of its turns carry
    must have come as often before it counts as the last. The first run keeps the session's `run`; the others add their
    first turn to it. A golden for the whole session cuts nothing. `told` is what each turn tells, if that is known.
    """
    if not golden.turns:
        return [session]
    first, last = golden.turns[0], key_of(golden.turns[-1])
    begins = None if last is None else key_of(first)
    told = told or [told_of(session.turns, index) for index in range(len(session.turns))]
    repeated = begins is not None and any(begins in one.keys for one in told[1:])
    if not repeated and len(session.turns) <= len(golden.turns):
        return [session]
    needed = sum(key_of(turn) == last for turn in golden.turns)
    parts: list[list[Turn]] = [[]]
    seen, lasts, end = _SeenTurns(golden), 0, 0
    for turn, one in zip(session.turns, told, strict=True):
        repeats = begins is not None and lasts >= needed and begins in one.keys
        idle = turn.start - end if turn.start and end else 0
        if repeats or (seen.every_turn and idle > run_idle * 1_000_000_000 and _may_begin(first, turn, one)):
            parts.append([])
            seen, lasts, end = _SeenTurns(golden), 0, 0
        parts[-1].append(turn)
        seen.add(turn, one.keys)
        lasts += last in one.keys
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

    def add(self, turn: Turn, keys: Sequence[TurnKey]) -> None:
        self._left -= 1
        self._without_key += not keys
        if (key := next((key for key in keys if self._keys[key] > 0), None)) is not None:
            self._keys[key] -= 1
        counts, before = turn.user_messages, self._user_messages
        self._left_out |= bool(counts) and before is not None and counts[0].earlier > before
        self._user_messages = max(count.total for count in counts) if counts else None


def _may_begin(first: GoldenTurn, turn: Turn, told: TurnTold) -> bool:
    """Whether a turn may be the first of a conversation."""
    carries_on = bool(turn.user_messages and turn.user_messages[0].earlier)
    return not carries_on and (key_of(first) in told.keys or _may_be(first, told))


def _name(turn: Turn, index: int) -> str:
    return f"{turn.root.trace_id}-{turn.root.span_id}" if turn.root and turn.root.span_id else str(index)
