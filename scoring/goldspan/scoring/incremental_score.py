"""Score a run again and again while it grows, at the cost of its new turns: the same results as `score_run` gives.

A live session is scored after each turn. Scoring all of it each time would cost n * n for n turns. Three things make it
linear; each keeps what `score_run` would make again:

1. **A score of a turn is kept** as long as the turn is the same object, joined with the same golden turn, and missing
   for the same reason. `TurnScorer` reads nothing else, except where an expected value comes from an earlier result;
   then nothing is kept.
2. **Runs in step.** A run is in step if turn 1 is golden turn 1, turn 2 is golden turn 2, and so on. Most are, and then
   one more turn changes nothing of those before it: neither their partners, nor their scores, nor their positions in
   the result. `InStep` tells from the clues of the new turn alone whether the run still is. For example:

       golden a b c, run a b      result: a, b, and c as missing      kept with one more turn: a, b
       golden a b c, run a b c    result: a, b, c                     kept with one more turn: a, b, c
       golden a b c, run a c      not in step: all turns are joined again, and scores of turns are kept as in 1
3. **The total** of the session is made turn by turn (`SessionTotal`), so that the first part of a result that is the
   same has the same total.

`tests/scoring/test_growing_runs.py` compares each with `score_run` and `join_turns`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, TypeVarTuple

from msgspec import Struct

from goldspan.scoring import session_score, turn_join
from goldspan.scoring.criterion import Criterion
from goldspan.scoring.goldens.golden import Ambiguous, Golden, with_golden_tool_names
from goldspan.scoring.results import SessionResult, TurnResult
from goldspan.scoring.sessions import IncrementalList, Session, Turn, unchanged_start
from goldspan.scoring.turn_score import TurnScore
from goldspan.scoring.verdict import Reason

ValueT = TypeVar("ValueT")
GivenT = TypeVarTuple("GivenT")


class InStep(Struct, frozen=True, gc=False):
    """What the turns of a run up to one of them say of whether the run is in step with its golden."""

    clues: turn_join.TurnClues
    """Of this turn."""
    by_key: bool = True
    """Each turn has the key of the golden turn at its position."""
    given: bool = True
    """All turns were given by code, not read from spans."""
    index: int = -1
    """The last turn whose place is known, -1 if none is."""
    place: int = 0
    """Its place."""
    places_grow: bool = True
    """No place leaves less room than there are turns before it."""


_NO_TURN = InStep(turn_join.TurnClues(None))


def in_step(before: InStep | None, golden: turn_join.GoldenKeys, turns: Sequence[Turn], index: int) -> InStep:
    """Return what the turns up to `index` say; `before` is what those before it say."""
    turn, clues = turns[index], turn_join.clues_of(turns, index, keys=bool(golden.turns_with))
    before = before or _NO_TURN
    by_key, last, place, grow = before.by_key, before.index, before.place, before.places_grow
    if by_key and index < len(golden.keys):
        key = golden.keys[index]
        by_key = key is not None and key in clues.keys
    if clues.place is not None:
        grow = grow and clues.place - place >= index - last
        last, place = index, clues.place
    return InStep(clues, by_key, before.given and turn.root is None, last, place, grow)


def joined_in_step(
    golden: turn_join.GoldenKeys, turns: Sequence[Turn], how: turn_join.TurnJoin, so_far: Sequence[InStep]
) -> turn_join.JoinedTurns | None:
    """Return what `join_turns` returns for a run in step; None if the run is not. `so_far` has an item for each turn.

    If turns are joined by keys, each must have the key of the golden turn at its position: then the key join of all
    is the best one in order, and nothing is left to join. If the golden has no keys, `join_turns` joins by places and
    then by counting: all turns are in step if no known place differs from the turn's position. As places grow, it is
    enough to look at the last one: no later place makes up for a gap. Places that do not grow, or that run past the
    golden, tell nothing, and then all turns are counted.
    """
    positions = range(min(len(golden.keys), len(turns)))
    if how == "index" or not so_far:
        return turn_join.JoinedTurns(positions) if how == "index" else None
    last = so_far[-1]
    past = turn_join.run_past(so_far[0].clues.place, last.clues.place, len(turns), len(golden.keys))
    tell_nothing = not last.given and (past or not last.places_grow)
    has_keys, no_gap = bool(golden.turns_with), last.given or tell_nothing or last.place == last.index + 1
    if not (last.by_key if has_keys else no_gap and how == "auto"):
        return None
    if len(positions) == len(golden.keys):
        return turn_join.JoinedTurns(positions)
    all_known = last.given or (no_gap and not tell_nothing and last.index == len(turns) - 1)
    unsure = () if has_keys or turn_join.are_proven(turns, all_known=all_known) else positions
    return turn_join.JoinedTurns(positions, unsure=unsure, complete=all_known or (no_gap and has_keys))


class IncrementalScore:
    """Scores one run while it grows, by one golden and criterion; the run stays complete, or stays incomplete."""

    def __init__(self) -> None:
        self._named = IncrementalList[Turn]()
        """The turns with the golden's names of tools, if it has aliases."""
        self._so_far = IncrementalList[InStep]()
        self._scores: list[TurnScore] = []
        """Those of the last result, in its order; then what they come to, and their results."""
        self._totals: list[session_score.SessionTotal] = []
        self._results: list[TurnResult] = []
        self._unsure: bool | None = None
        """Whether the turns of the last result may be other turns of the golden; None if the run was not in step."""
        self._missing: dict[Reason | None, list[TurnScore]] = {}
        """By the reason, the scores of the golden's last turns if they are missing."""
        self._remembered: _Remembered = {}

    def score(
        self,
        golden: Golden | Ambiguous | None,
        session: Session,
        criterion: Criterion | None = None,
        *,
        final: bool = True,
    ) -> SessionResult:
        """Return what `score_run` returns; the results of turns that do not change are the same objects as before."""
        if golden is None or isinstance(golden, Ambiguous):
            return session_score.without_golden(golden, session)
        expected = session_score.expected_session(golden, criterion)
        if golden.aliases:
            given = session.turns
            self._named.update(given, lambda at: with_golden_tool_names(given[at], golden))
            session = session_score.with_turns(session, self._named.made)
        first, more = self._scored(expected, session, final=final)
        del self._totals[first:]
        total = self._totals[-1] if first else session_score.NO_TURNS
        for score in more:
            total = total.plus(score)
            self._totals.append(total)
        self._scores[first:] = more
        self._results[first:] = [score.result for score in more]
        return session_score.session_result(expected, session, self._results, total, final=final)

    def _scored(
        self, expected: session_score.ExpectedSession, session: Session, *, final: bool
    ) -> tuple[int, list[TurnScore]]:
        """Return how many of the last scores are kept, and the scores that follow."""
        was_unsure, self._unsure = self._unsure, None  # until all is done: a failure leaves nothing half done
        if expected.is_one_turn or expected.uses_history:
            return 0, session_score.score_turns(expected, session, final=final)
        keys, turns, how = expected.keys, session.turns, expected.criterion.turn_join
        were = len(self._so_far.made)
        unchanged, _ = self._so_far.accumulate(turns, lambda before, at: in_step(before, keys, turns, at))
        if unchanged < were - 1:
            self._remembered = {}  # a call may repeat one of an earlier turn, and one of these has changed
        joined = joined_in_step(keys, turns, how, self._so_far.made)
        scorer = _RememberingScorer(expected, session, self._remembered)
        if joined is not None:
            unsure = bool(joined.unsure)
            first = unchanged if unsure is was_unsure else 0
            more = self._score_in_step(scorer, joined, first, final=final)
            if more is not None:
                self._unsure = unsure
                return first, more
        scorer.remembered = self._remembered = {}
        joined = joined or turn_join.join_turns(keys, turns, how, [one.clues for one in self._so_far.made])
        scores = session_score.score_turns(expected, session, final=final, joined=joined, scorer=scorer)
        first = unchanged_start(self._scores, scores)
        return first, scores[first:]

    def _score_in_step(
        self, scorer: session_score.TurnScorer, joined: turn_join.JoinedTurns, first: int, *, final: bool
    ) -> list[TurnScore] | None:
        """Return what `score_turns` returns for a run in step, without the first scores.

        As turn i is joined with golden turn i, the result has the turns in the run's order, then the missing golden
        turns. None if a turn may be another turn of the golden: then it is joined with none.
        """
        expected, turns, scores = scorer.golden, len(scorer.session.turns), list[TurnScore]()
        for index in range(first, turns):
            if index >= len(expected.turns):
                scores.append(scorer.unexpected(index, Reason.TURN_NOT_EXPECTED))
                continue
            score = scorer.found(index, index)
            if joined.unsure and session_score.may_be_another(scorer, score):
                return None
            scores.append(score)
        left = len(expected.turns) - turns
        if final and left > 0:
            why = session_score.why_missing(expected, scorer.session, known=True, complete=joined.complete)
            missing = self._missing.setdefault(why, [])
            missing[:0] = [scorer.missing(index, why) for index in range(turns, len(expected.turns) - len(missing))]
            scores += missing[-left:]
        return scores


_Remembered = dict[tuple[object, ...], tuple[Turn | None, Any]]
"""By what was asked, with the turn it was asked of: the answer."""


class _RememberingScorer(session_score.TurnScorer):
    """Gives the scores that were given before of the same turns."""

    def __init__(self, expected: session_score.ExpectedSession, session: Session, before: _Remembered) -> None:
        super().__init__(expected, session)
        self._before = before
        self.remembered = before
        """What is remembered for the next time."""

    def found(self, index: int, turn_index: int) -> TurnScore:
        return self._once(super().found, self.session.turns[turn_index], index, turn_index)

    def missing(self, index: int, why: Reason | None) -> TurnScore:
        key = index, id(why)  # a long golden asks often, and the hash of an enumeration's member is slow
        known = self._before.get(key) or (None, super().missing(index, why))
        self.remembered[key] = known
        score: TurnScore = known[1]
        return score

    def unexpected(self, turn_index: int, why: Reason) -> TurnScore:
        return self._once(super().unexpected, self.session.turns[turn_index], turn_index, why)

    def fits_another(self, index: int, turn_index: int) -> bool:
        return self._once(super().fits_another, self.session.turns[turn_index], index, turn_index)

    def _once(self, ask: Callable[[*GivenT], ValueT], turn: Turn, *given: *GivenT) -> ValueT:
        key = (ask.__name__, *given)
        known = self._before.get(key)
        if known is None or known[0] is not turn:
            known = (turn, ask(*given))
        self.remembered[key] = known
        answer: ValueT = known[1]
        return answer
