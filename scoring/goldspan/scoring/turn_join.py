"""Which turn of a session is which turn of its golden (S12), and where a session id was used again.

A turn is joined by its key, else by its place in the conversation, else by counting. Several processes may serve one
session, and each may see some of its turns only. So counting alone does not say that a turn never came. For example, a
golden has three turns, and two turns were recorded:

    user texts b, c                 joined with the golden's turns b and c; a may have been served elsewhere
    places 1, 3, no user texts      joined with turns 1 and 3; turn 2 was served elsewhere
    places 1, 2                     joined with turns 1 and 2; no place is left out, so turn 3 never came
    places unknown                  joined with turns 1 and 2 by counting; they may as well be 2 and 3
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from goldspan.scoring.align.alignment import Pair, align
from goldspan.scoring.comparison import ONE
from goldspan.scoring.goldens.golden import Golden, GoldenTurn, TurnKey, key_of, keys_of
from goldspan.scoring.sessions import IncrementalList, Session, Turn

TurnJoin = Literal["auto", "key", "index"]
_SAME_KEY = Pair(ONE)

# Clues: what telemetry says of where a turn stands in the conversation.


class TurnClues(Struct, frozen=True, gc=False):
    """What the telemetry of a turn says of which turn of its conversation it is."""

    place: int | None
    """Its place in the conversation, from 1, by its own telemetry and that of the turn before it."""
    keys: tuple[TurnKey, ...] = ()
    """Every key that its golden turn may have."""


def clues_of(turns: Sequence[Turn], index: int, *, keys: bool = True) -> TurnClues:
    """Return the clues of a turn, without its `keys` if no golden turn has any."""
    turn = turns[index]
    place = turn.turn_number or _counted_place(turn, turns[index - 1] if index else None)
    return TurnClues(place, keys_of(turn) if keys else ())


def places_of(turns: Sequence[Turn], clues: Sequence[TurnClues] | None = None) -> list[int | None]:
    """Return the place of each turn in its conversation, from 1; None where nothing tells it.

    The input of a turn's first model call tells it, if it holds the conversation so far: then it has as many user
    messages as there were turns. Counts that do not grow from turn to turn tell nothing: the history is kept elsewhere.
    Turns without a root are given by code, not read from spans: none is missing.
    """
    if all(turn.root is None for turn in turns):
        return list(range(1, len(turns) + 1))
    places = [one.place for one in clues or [clues_of(turns, index) for index in range(len(turns))]]
    known = [(index, place) for index, place in enumerate(places) if place is not None]
    if any(after[1] - before[1] < after[0] - before[0] for before, after in pairwise([(-1, 0), *known])):
        return [None] * len(places)
    for (start, place), (stop, later) in pairwise([(-1, 0), *known]):
        if later - place == stop - start:
            places[start + 1 : stop] = range(place + 1, later)
    return places


def leave_no_gap(places: Sequence[int | None]) -> bool:
    """Return whether every known place is that of the turn's position, so that no turn before it is missing."""
    return all(place in (None, number) for number, place in enumerate(places, start=1))


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
    """Which turn of the session is which turn of its golden."""

    partners: Sequence[int | None]
    """For each golden turn up to the last that was seen, the position of its turn."""
    unknown: Collection[int] = ()
    """Golden turns without a partner that may be a remaining turn whose key is unknown."""
    unsure: Collection[int] = ()
    """Golden turns whose partner may be another turn of the golden, since some of its turns were not seen."""
    complete: bool = True
    """No turn can have been served elsewhere: a golden turn without a partner never came."""


class GoldenKeys(Struct, frozen=True, gc=False):
    """The keys of a golden's turns."""

    keys: tuple[TurnKey | None, ...]
    """The key of each turn."""
    turns_with: Mapping[TurnKey, Sequence[int]]
    """The positions of the turns with each key."""
    expecting: Collection[int]
    """The positions of the turns that expect calls."""


def golden_keys(turns: Sequence[GoldenTurn]) -> GoldenKeys:
    """Return the keys of a golden's turns."""
    keys = tuple(map(key_of, turns))
    turns_with: dict[TurnKey, list[int]] = {}
    for index, key in enumerate(keys):
        if key is not None:
            turns_with.setdefault(key, []).append(index)
    return GoldenKeys(keys, turns_with, frozenset(at for at, turn in enumerate(turns) if turn.calls))


def join_turns(
    golden: GoldenKeys, turns: Sequence[Turn], how: TurnJoin, clues: Sequence[TurnClues] | None = None
) -> JoinedTurns:
    """Join by `index`, by `key` (turn id, else user text), or by `auto`. `clues` are those of the turns, if known.

    `auto` first joins the turns that have a key on both sides. Without any such turn it joins by places. What is left,
    golden turns without a key and turns whose key was not recorded, it joins by order. Where there are as many turns as
    the golden has, turns with other texts of the user than the golden's stand at the same positions.
    """
    keys = golden.keys
    if how == "index":
        return JoinedTurns(range(min(len(keys), len(turns))))
    if how == "key" and not golden.turns_with:
        return JoinedTurns((), range(len(keys)) if turns else ())
    if clues is None:
        clues = [clues_of(turns, index, keys=bool(golden.turns_with)) for index in range(len(turns))]
    places = places_of(turns, clues)
    if places and run_past(places[0], places[-1], len(turns), len(keys)):
        places = [None] * len(turns)
    partners = _joined_by_key(golden, clues)
    by_key = _found(partners)
    if how == "auto":
        if by_key:
            _join_by_order(keys, clues, [None] * len(turns), partners)
        else:
            _join_by_place(keys, clues, places, partners)
            _join_by_order(keys, clues, places, partners)
        if len(clues) == len(keys):
            _join_by_position(partners, golden.expecting)
    found = _found(partners)
    if len(found) == len(keys):
        return JoinedTurns(partners)
    none_left_out = leave_no_gap(places)
    all_known = none_left_out and None not in places
    unknown = _may_be_unkeyed(keys, clues, partners) if how == "key" else ()
    complete = all_known or (none_left_out and found == by_key == frozenset(range(len(by_key))))
    unsure = () if are_proven(turns, all_known=all_known) else found - by_key
    del partners[max(found, default=-1) + 1 :]
    return JoinedTurns(partners, unknown, unsure, complete)


def run_past(first: int | None, last: int | None, turns: int, golden_turns: int) -> bool:
    """Return whether the places of turns run past the golden, without a gap: then the prompt has examples.

    `first` and `last` are the places of the first and the last of so many turns.
    """
    if first is None or last is None:
        return False
    return first > 1 and last > golden_turns and last - first == turns - 1


def are_proven(turns: Sequence[Turn], *, all_known: bool) -> bool:
    """Return whether the places of turns, if `all_known`, prove which golden turns they are.

    The place of a single turn that was read from spans proves nothing: it does not show that counts grow.
    """
    return all_known and (len(turns) != 1 or turns[0].root is None)


def _found(partners: Sequence[int | None]) -> frozenset[int]:
    return frozenset(index for index, partner in enumerate(partners) if partner is not None)


def _may_be_unkeyed(
    keys: Sequence[TurnKey | None], clues: Sequence[TurnClues], partners: Sequence[int | None]
) -> frozenset[int]:
    """Return the golden turns without a partner that may be a turn that is left, since its key was not recorded."""
    taken = set(partners)
    left = [one for index, one in enumerate(clues) if index not in taken]
    missing = [index for index, partner in enumerate(partners) if partner is None]
    return frozenset(index for index in missing if any(_may_have(keys[index], one) for one in left))


def _joined_by_key(golden: GoldenKeys, clues: Sequence[TurnClues]) -> list[int | None]:
    """Join turns that have the golden's keys: as many as possible in order, then the others."""
    partners: list[int | None] = [None] * len(golden.keys)
    if golden.turns_with:
        _join_equal_keys(golden, clues, partners, ordered=True)
        _join_equal_keys(golden, clues, partners, ordered=False)
    return partners


def _join_equal_keys(
    golden: GoldenKeys, clues: Sequence[TurnClues], partners: list[int | None], *, ordered: bool
) -> None:
    """Join as many turns as possible that have the golden's keys.

    In order, turns that have the same key as the next golden turn are joined with it first, as long as there are such:
    no other join is better.
    """
    taken = set(partners)
    rows_of: dict[int, set[int]] = {}
    for column, one in enumerate(clues):
        rows = {row for key in one.keys for row in golden.turns_with.get(key, ()) if partners[row] is None}
        if rows and column not in taken:
            rows_of[column] = rows
    columns, rows_left = list(rows_of), sorted(set[int]().union(*rows_of.values()))
    same = 0
    while ordered and same < min(len(rows_left), len(columns)) and rows_left[same] in rows_of[columns[same]]:
        partners[rows_left[same]] = columns[same]
        same += 1
    rows_left, columns = rows_left[same:], columns[same:]
    alignment = align(
        [""] * len(rows_left),
        [""] * len(columns),
        lambda row, column: _SAME_KEY if rows_left[row] in rows_of[columns[column]] else None,
        ordered=ordered,
    )
    for row, partner in zip(rows_left, alignment.partners, strict=True):
        partners[row] = None if partner is None else columns[partner]


def _join_by_place(
    keys: Sequence[TurnKey | None], clues: Sequence[TurnClues], places: Sequence[int | None], partners: list[int | None]
) -> None:
    for index, place in enumerate(places):
        if place is not None and place <= len(keys) and _may_have(keys[place - 1], clues[index]):
            partners[place - 1] = index


def _join_by_order(
    keys: Sequence[TurnKey | None], clues: Sequence[TurnClues], places: Sequence[int | None], partners: list[int | None]
) -> None:
    """Join the golden turns between two joined turns with the session's turns between them, unless a key differs.

    A turn whose place is known is never joined with another place.
    """
    joined = sorted(partner for partner in partners if partner is not None)
    taken = set(joined)
    free = [at for at, place in enumerate(places) if place is None and at not in taken]
    key_of_kind = {key and key[0]: key for key in keys}
    may_have = {kind: [at for at in free if _may_have(key, clues[at])] for kind, key in key_of_kind.items()}
    start = 0
    for index, key in enumerate(keys):
        partner = partners[index]
        if partner is not None:
            del joined[bisect_left(joined, partner)]
            start = max(start, partner + 1)
            continue
        following = bisect_left(joined, start)
        stop = joined[following] if following < len(joined) else len(clues)
        candidates = may_have[key and key[0]]
        first = bisect_left(candidates, start)
        if first < len(candidates) and candidates[first] < stop:
            partners[index] = candidates[first]
            start = candidates[first] + 1


def _join_by_position(partners: list[int | None], expecting: Collection[int]) -> None:
    """Join each golden turn that is left with the turn at its own position, if all these turns are left too."""
    left = [index for index, partner in enumerate(partners) if partner is None and index in expecting]
    if not set(left) & set(partners):
        for index in left:
            partners[index] = index


def _may_have(key: TurnKey | None, clues: TurnClues) -> bool:
    """Whether a turn may be the golden turn with this key: no key of this kind was recorded of it."""
    return key is None or all(kind != key[0] for kind, _ in clues.keys)


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
    return SplitRuns(golden, run_idle).update(session)


class SplitRuns:
    """Splits a session while it grows, as `split_runs` does."""

    def __init__(self, golden: Golden, run_idle: float = DEFAULT_RUN_IDLE) -> None:
        """Begin without turns."""
        self.golden = golden
        self._idle = run_idle * 1_000_000_000
        self._last = key_of(golden.turns[-1]) if golden.turns else None
        self._begins = None if self._last is None else key_of(golden.turns[0])
        self._clues = IncrementalList[TurnClues]()
        self._starts = [0]  # where each run begins, as far as the turns were looked at
        self._looked_at = 0
        self._seen: _SeenTurns | None = None  # the turns of the last run
        self._runs: list[Session] = []

    def update(self, session: Session) -> list[Session]:
        """Return the runs; those that do not change are the same objects as before."""
        if not self.golden.turns:
            return [session]
        turns = session.turns
        same, _ = self._clues.update(turns, lambda index: clues_of(turns, index))
        if same < self._looked_at:
            while len(self._starts) > 1 and self._starts[-1] >= same:
                self._starts.pop()
            self._looked_at, self._seen = self._starts[-1], None
        self._look_at(turns)
        if len(self._starts) == 1:
            self._runs = []
            return [session]
        return self._runs_of(session, same)

    def _look_at(self, turns: Sequence[Turn]) -> None:
        for index in range(self._looked_at, len(turns)):
            turn, clues, seen = turns[index], self._clues.made[index], self._seen or _SeenTurns(self.golden)
            if seen.over and self._begins is not None and self._begins in clues.keys:
                ends = True
            else:
                idle = turn.start - seen.end if turn.start and seen.end else 0
                ends = seen.every_turn and idle > self._idle and _may_begin(self.golden.turns[0], turn, clues)
            if ends:
                self._starts.append(index)
                seen = _SeenTurns(self.golden)
            seen.add(turn, clues.keys)
            self._seen = seen
        self._looked_at = len(turns)

    def _runs_of(self, session: Session, same: int) -> list[Session]:
        ends = [*self._starts[1:], len(session.turns)]
        before = self._runs
        stays = bool(before) and replace(before[0], turns=()) == replace(session, turns=())
        self._runs = []
        for number, (start, end) in enumerate(zip(self._starts, ends, strict=True)):
            if stays and end < same:
                self._runs.append(before[number])
                continue
            run = replace(session, turns=session.turns[start:end])
            if number:
                run = replace(run, run=f"{session.run}/{_name(run.turns[0], number)}", used_again=True)
            self._runs.append(run)
        return list(self._runs)


class _SeenTurns:
    """Tells in one pass over the turns of a run whether it saw every turn of its golden."""

    def __init__(self, golden: Golden) -> None:
        self._keys = Counter(key for turn in golden.turns if (key := key_of(turn)) is not None)
        self._last = key_of(golden.turns[-1])
        self._lasts = 0 if self._last is None else self._keys[self._last]
        self.end = 0
        self._left, self._without_key = len(golden.turns), 0
        self._user_messages: int | None = 0
        self._left_out = False

    @property
    def every_turn(self) -> bool:
        return self._left <= 0 and self._keys.total() <= self._without_key and not self._left_out

    @property
    def over(self) -> bool:
        """The golden's last key came as often as the golden has it."""
        return self._lasts <= 0

    def add(self, turn: Turn, keys: Sequence[TurnKey]) -> None:
        self._left -= 1
        self._lasts -= self._last in keys
        self.end = max(self.end, turn.end)
        self._without_key += not keys
        if (key := next((key for key in keys if self._keys[key] > 0), None)) is not None:
            self._keys[key] -= 1
        counts, before = turn.user_messages, self._user_messages
        self._left_out |= bool(counts) and before is not None and counts[0].earlier > before
        self._user_messages = max(count.total for count in counts) if counts else None


def _may_begin(first: GoldenTurn, turn: Turn, clues: TurnClues) -> bool:
    """Whether a turn may be the first of a conversation."""
    carries_on = bool(turn.user_messages and turn.user_messages[0].earlier)
    key = key_of(first)
    return not carries_on and (key in clues.keys or _may_have(key, clues))


def _name(turn: Turn, index: int) -> str:
    return f"{turn.root.trace_id}-{turn.root.span_id}" if turn.root and turn.root.span_id else str(index)
