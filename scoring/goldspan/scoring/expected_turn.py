"""What a golden expects of a turn and of a session, with the criteria that apply, and how turns are joined."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, product
from typing import Literal, NamedTuple

from goldspan.scoring.align.alignment import Pair, align
from goldspan.scoring.call_match import call_rules
from goldspan.scoring.comparison import ONE
from goldspan.scoring.criterion import Criterion
from goldspan.scoring.goldens.golden import MOST_ALTERNATIVES, ExpectedCall, Golden, GoldenTurn
from goldspan.scoring.goldens.golden_index import is_turn_of, user_texts
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


class ExpectedTurn:
    """The calls that are expected of a turn, and how they are judged."""

    __slots__ = ("asks_history", "calls", "criterion", "forbidden", "index", "places")

    def __init__(
        self,
        calls: Sequence[ExpectedCall],
        criterion: Criterion,
        criteria: Sequence[Criterion],
        index: int | None = None,
    ) -> None:
        self.calls = [call_rules(call, one) for call, one in zip(calls, criteria, strict=True)]
        self.criterion = criterion
        self.index = index
        """Position among the golden's turns."""
        self.places = [place for place, call in enumerate(calls) if not call.forbidden]
        """Of the calls that should be made."""
        self.forbidden = len(self.places) < len(calls)
        self.asks_history = any(argument.special for call in self.calls for argument in call.arguments)
        """Whether what was called before may matter."""


Choices = tuple[ExpectedTurn, ...]
"""What would do for a turn, the golden's first choice first."""


class ExpectedSession(NamedTuple):
    """What a golden expects of a session."""

    criterion: Criterion
    turns: tuple[GoldenTurn, ...]
    choices: tuple[Choices, ...]
    """For each turn; of a golden for the whole session a single one."""
    as_one: bool
    """All turns of the session are judged as one."""
    by_index: JoinedTurns | None
    """Where turns find each other by their positions alone: how they do if there are as many as expected."""
    asks_history: bool

    def joined(self, turns: Sequence[Turn]) -> JoinedTurns:
        """Say which turns of a session stand for which ones that are expected."""
        if self.by_index is not None and len(turns) == len(self.turns):
            return self.by_index
        return join_turns(self.turns, turns, self.criterion.turn_join)


def expected_turn(
    calls: Sequence[ExpectedCall], judging: Criterion, override: Criterion | None, index: int | None = None
) -> ExpectedTurn:
    """Return a list of calls with the criteria that hold for it."""
    return ExpectedTurn(calls, judging, [override or call.criterion or judging for call in calls], index)


def expected_session(golden: Golden, override: Criterion | None) -> ExpectedSession:
    """Return what a golden expects; `override` replaces its criteria."""
    judging = override or golden.criterion
    turns = golden.turns if golden.calls is None else (GoldenTurn(golden.calls, alternatives=golden.alternatives),)
    choices = tuple(tuple(_choices(turn, index, judging, override)) for index, turn in enumerate(turns))
    as_one = golden.calls is not None or judging.scope == "session"
    how = judging.turn_join
    by_index = how == "index" or (how == "auto" and not any(turn.has_key for turn in turns))
    if as_one:
        parts = islice(product(*choices), MOST_ALTERNATIVES)
        choices = (tuple(_one_after_the_other(some, judging) for some in parts),)
    asks_history = any(one.asks_history for some in choices for one in some)
    straight = JoinedTurns(tuple(range(len(turns)))) if by_index else None
    return ExpectedSession(judging, turns, choices, as_one, straight, asks_history)


def _choices(turn: GoldenTurn, index: int, above: Criterion, override: Criterion | None) -> Iterator[ExpectedTurn]:
    judging = override or turn.criterion or above
    for calls in (turn.calls, *turn.alternatives):
        yield expected_turn(calls, judging, override, index)


def _one_after_the_other(parts: Sequence[ExpectedTurn], judging: Criterion) -> ExpectedTurn:
    """Join what is expected of several turns; groups of free order stay apart."""
    numbers: dict[tuple[int, int], int] = {}
    calls = [
        replace(call.expected, group=numbers.setdefault((index, call.expected.group), len(numbers) + 1))
        if call.expected.group
        else call.expected
        for index, part in enumerate(parts)
        for call in part.calls
    ]
    return ExpectedTurn(calls, judging, [call.criterion for part in parts for call in part.calls], 0)
