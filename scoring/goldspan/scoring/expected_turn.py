"""What is expected of a turn, and of a whole session: worked out once for a golden, and kept with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, product
from typing import NamedTuple

from goldspan.scoring.compiled_call import compiled_call
from goldspan.scoring.criterion import Criterion
from goldspan.scoring.goldens.models import MOST_ALTERNATIVES, ExpectedCall, Golden, GoldenTurn
from goldspan.scoring.plain_turn import PlainTurn, plain_turn
from goldspan.scoring.sessions import Turn
from goldspan.scoring.turn_join import JoinedTurns, join_turns


class ExpectedTurn:
    """The calls that are expected of a turn, and how they are judged."""

    __slots__ = ("asks_history", "calls", "criteria", "criterion", "forbidden", "index", "places", "plain")

    def __init__(
        self,
        calls: Sequence[ExpectedCall],
        criterion: Criterion,
        criteria: Sequence[Criterion],
        index: int | None = None,
    ) -> None:
        self.calls, self.criterion, self.criteria = calls, criterion, criteria
        self.index = index
        """Position among the golden's turns."""
        self.places = [place for place, call in enumerate(calls) if not call.forbidden]
        """Of the calls that should be made."""
        self.forbidden = len(self.places) < len(calls)
        compiled = [compiled_call(call, one) for call, one in zip(calls, criteria, strict=True)]
        self.asks_history = any(argument.special for one in compiled for argument in one.arguments)
        """Whether what was called before may matter."""
        self.plain: PlainTurn | None = None
        """The same, where nothing in it is special."""
        if not any(call.forbidden or call.optional or call.group for call in calls):
            named = [(call.name, one.plain) for call, one in zip(calls, compiled, strict=True)]
            self.plain = plain_turn(named, criterion)


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
    return golden.kept(override, _expected_session)


def _expected_session(golden: Golden, override: Criterion | None) -> ExpectedSession:
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
        replace(call, group=numbers.setdefault((index, call.group), len(numbers) + 1)) if call.group else call
        for index, part in enumerate(parts)
        for call in part.calls
    ]
    return ExpectedTurn(calls, judging, [criterion for part in parts for criterion in part.criteria], 0)
