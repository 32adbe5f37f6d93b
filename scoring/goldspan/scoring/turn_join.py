"""Which turn of a session is which turn of its golden (S12), and where a session id was used again.

A turn is joined by its key, else by its place in the conversation, else by counting. Several processes may serve one
session, and each may see some of its turns only. So counting alone does not say that a turn never came.
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
from goldspan.scoring.goldens.golden import Golden, GoldenTurn
from goldspan.scoring.goldens.golden_index import TurnKey, key_of, keys_of, user_texts
from goldspan.scoring.growing import same_start
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
    """Which turn of the session is which turn of its golden."""

    partners: Sequence[int | None]
    """For each golden turn up to the last that was seen, the position of its turn; a range if all stand in line."""
    unknown: Collection[int] = ()
    """Golden turns without a partner that may be a remaining turn whose key is unknown."""
    unsure: Collection[int] = ()
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


class ToldTogether(Struct, frozen=True, gc=False):
    """What the first so many turns of a run tell together, so that one more turn costs as much as the first."""

    keys_in_line: bool = True
    """Each has the key of the golden turn at its position."""
    without_root: bool = True
    """They were given by code, not read from spans."""
    index: int = -1
    """The last turn whose place is known."""
    place: int = 0
    grows: bool = True
    """No place leaves less room than there are turns before it."""

    @property
    def straight(self) -> bool:
        """Each place that is known is that of the turn's position, if they grow: no later place makes up for a gap."""
        return self.place == self.index + 1

    def then(self, expected: GoldenKeys, index: int, turn: Turn, told: TurnTold) -> ToldTogether:
        """Return what they tell together with the turn after them, which has this index."""
        place, without_root, in_line = told.place, self.without_root and turn.root is None, self.keys_in_line
        if in_line and index < len(expected.keys):
            key = expected.keys[index]
            in_line = key is not None and key in told.keys
        if place is not None:
            grows = self.grows and place - self.place >= index - self.index
            return ToldTogether(in_line, without_root, index, place, grows)
        if in_line is self.keys_in_line and without_root is self.without_root:
            return self
        return ToldTogether(in_line, without_root, self.index, self.place, self.grows)


NOTHING_TOLD = ToldTogether()


def join_turns(
    expected: GoldenKeys,
    turns: Sequence[Turn],
    how: Literal["auto", "key", "index"],
    told: Sequence[TurnTold],
    together: ToldTogether,
) -> JoinedTurns:
    """Join by `index`, by `key` (turn id, else user text), or by `auto`.

    `auto` first joins the turns that have a key on both sides. Without any such turn it joins by places. What is left,
    golden turns without a key and turns whose key was not recorded, it joins by order. `told` is what each turn tells,
    `together` what all do.
    """
    golden, with_keys = expected.turns, bool(expected.places)
    in_line = range(min(len(golden), len(turns)))
    if how == "index":
        return JoinedTurns(in_line)
    if how == "key" and not with_keys:
        return JoinedTurns((), range(len(golden)) if turns else ())
    tell_nothing = not together.without_root and (not together.grows or _run_past(golden, told))
    straight = together.without_root or tell_nothing or together.straight
    all_known = together.without_root or (together.straight and not tell_nothing and together.index == len(turns) - 1)
    if together.keys_in_line if with_keys else straight and how == "auto":
        if len(in_line) == len(golden):
            return JoinedTurns(in_line)
        proven = all_known and (len(turns) > 1 or together.without_root)
        complete = all_known or (straight and (with_keys or not in_line))
        return JoinedTurns(in_line, unsure=() if proven or with_keys else in_line, complete=complete)
    places: Sequence[int | None] = [None] * len(turns) if tell_nothing else places_of(turns, told)
    partners: list[int | None] = [None] * len(golden)
    _join_by_key(expected, told, partners)
    by_key = frozenset(index for index, partner in enumerate(partners) if partner is not None)
    if how == "auto":
        if not by_key:
            _join_by_place(golden, told, places, partners)
        _join_by_order(golden, told, places if not by_key else [None] * len(turns), partners)
    found = frozenset(index for index, partner in enumerate(partners) if partner is not None)
    if len(found) == len(golden):
        return JoinedTurns(partners)
    may_be: frozenset[int] = frozenset()
    if how == "key":
        taken = set(partners)
        remaining = [one for index, one in enumerate(told) if index not in taken]
        missing = (index for index, partner in enumerate(partners) if partner is None)
        may_be = frozenset(index for index in missing if any(_may_be(golden[index], one) for one in remaining))
    proven = all_known and (len(turns) > 1 or together.without_root)
    complete = all_known or (straight and found == by_key == frozenset(range(len(by_key))))
    del partners[max(found, default=-1) + 1 :]
    return JoinedTurns(partners, may_be, frozenset() if proven else found - by_key, complete)


def _run_past(golden: Sequence[GoldenTurn], told: Sequence[TurnTold]) -> bool:
    """Whether the places of turns run past the golden without a gap: then the prompt has examples."""
    first, last = (told[0].place, told[-1].place) if told else (None, None)
    return first is not None and last is not None and first > 1 and last > len(golden) and last - first == len(told) - 1


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
        self._turns: Sequence[Turn] = ()
        self._told: list[TurnTold] = []
        self._starts = [0]
        """Where each run begins, as far as the turns were looked at."""
        self._looked_at = 0
        self._seen: _SeenTurns | None = None
        """The turns of the last run."""
        self._runs: list[Session] = []

    def update(self, session: Session) -> list[Session]:
        """Return the runs; those that do not change are the same objects as before."""
        if not self.golden.turns:
            return [session]
        turns, told = session.turns, self._told
        same = same_start(self._turns, turns)
        self._turns = ()  # until all is done: a failure leaves nothing half done
        del told[same:]
        told += [told_of(turns, index) for index in range(same, len(turns))]
        if same < self._looked_at:
            while len(self._starts) > 1 and self._starts[-1] >= same:
                self._starts.pop()
            self._looked_at, self._seen = self._starts[-1], None
        self._look_at(turns)
        self._turns = turns
        if len(self._starts) == 1:
            self._runs = []
            return [session]
        return self._runs_of(session, same)

    def _look_at(self, turns: Sequence[Turn]) -> None:
        for index in range(self._looked_at, len(turns)):
            turn, told, seen = turns[index], self._told[index], self._seen or _SeenTurns(self.golden)
            if seen.over and self._begins is not None and self._begins in told.keys:
                ends = True
            else:
                idle = turn.start - seen.end if turn.start and seen.end else 0
                ends = seen.every_turn and idle > self._idle and _may_begin(self.golden.turns[0], turn, told)
            if ends:
                self._starts.append(index)
                seen = _SeenTurns(self.golden)
            seen.add(turn, told.keys)
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


def _may_begin(first: GoldenTurn, turn: Turn, told: TurnTold) -> bool:
    """Whether a turn may be the first of a conversation."""
    carries_on = bool(turn.user_messages and turn.user_messages[0].earlier)
    return not carries_on and (key_of(first) in told.keys or _may_be(first, told))


def _name(turn: Turn, index: int) -> str:
    return f"{turn.root.trace_id}-{turn.root.span_id}" if turn.root and turn.root.span_id else str(index)
