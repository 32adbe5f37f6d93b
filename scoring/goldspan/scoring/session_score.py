"""Score one run of a session against its golden, as the rules S1 to S12 of docs/definition.md define it.

The golden's turns are joined with the session's (S12), each is scored (`turn_score.py`), and the session's score is the
mean of them (S1). For example, a golden has the turns a, b and c:

    turns recorded     result
    a right, b wrong   (1 + 0 + 0) / 3: c is missing, and a failure
    a right, then ?    c may have been served elsewhere: 1 / 1, and the label only if c could not change it (S4)
    a, b, c, d         d is reported, and outside of the mean

A session that grows is scored at the cost of its new turns: see the second half, `IncrementalScore`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import islice, product
from operator import is_
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

from msgspec import Struct
from msgspec.structs import replace

from goldspan.scoring import turn_join, turn_score
from goldspan.scoring.call_match import CallRules, ScoreBounds
from goldspan.scoring.comparison import ZERO
from goldspan.scoring.goldens.golden import MOST_ALTERNATIVES, Ambiguous, Golden, GoldenTurn, with_golden_tool_names
from goldspan.scoring.results import SessionResult, TurnResult
from goldspan.scoring.sessions import (
    CallHistory,
    DoubtedFact,
    IncrementalList,
    Session,
    Turn,
    as_one_turn,
    batches_of,
    unchanged_start,
)
from goldspan.scoring.verdict import MAIN_METRIC, Label, Reason, Verdict

if TYPE_CHECKING:
    from goldspan.scoring.criterion import Criterion

# Collect what a golden expects of a session.


class ExpectedSession(Struct, frozen=True, gc=False):
    """What a golden expects of a session."""

    golden: Golden
    override: Criterion | None
    criterion: Criterion
    digest: str
    """Of the criterion."""
    turns: tuple[GoldenTurn, ...]
    keys: turn_join.GoldenKeys
    alternatives: tuple[tuple[turn_score.ExpectedTurn, ...], ...]
    """For each turn its alternatives, the main one first. With `is_one_turn` there is a single turn."""
    is_one_turn: bool
    """All turns of the session are scored as one turn."""
    uses_history: bool
    """An expected value may depend on the result of an earlier call."""


_MOST_KEPT = 1_000
_kept: dict[tuple[int, int], ExpectedSession] = {}
"""By golden and criterion, which the values keep alive, so that no other object has their identity."""


def expected_session(golden: Golden, override: Criterion | None) -> ExpectedSession:
    """Return what a golden expects; `override` replaces its criteria. What was used last is kept."""
    key = id(golden), id(override)
    expected = _kept.get(key)
    if expected is None:
        if len(_kept) >= _MOST_KEPT:
            _kept.clear()
        expected = _kept[key] = _expected_session(golden, override)
    return expected


def _expected_session(golden: Golden, override: Criterion | None) -> ExpectedSession:
    criterion = override or golden.criterion
    turns = golden.turns if golden.calls is None else (GoldenTurn(golden.calls, alternatives=golden.alternatives),)
    alternatives = tuple(
        tuple(
            turn_score.expected_turn(calls, override or turn.criterion or criterion, override, index)
            for calls in (turn.calls, *turn.alternatives)
        )
        for index, turn in enumerate(turns)
    )
    is_one_turn = golden.calls is not None or criterion.scope == "session"
    if is_one_turn:
        combinations = islice(product(*alternatives), MOST_ALTERNATIVES)
        alternatives = (tuple(_concatenated(parts, criterion) for parts in combinations),)
    uses_history = any(turn.uses_history for of_turn in alternatives for turn in of_turn)
    keys, digest = turn_join.golden_keys(turns), criterion.digest
    return ExpectedSession(golden, override, criterion, digest, turns, keys, alternatives, is_one_turn, uses_history)


def _concatenated(parts: Sequence[turn_score.ExpectedTurn], criterion: Criterion) -> turn_score.ExpectedTurn:
    """Concatenate the expected calls of several turns; groups of different turns stay separate."""
    numbers: dict[tuple[int, int], int] = {}
    rules: list[CallRules] = []
    for index, part in enumerate(parts):
        for one in part.calls:
            expected = one.expected
            if expected.group:
                number = numbers.setdefault((index, expected.group), len(numbers) + 1)
                expected = dataclasses.replace(expected, group=number)
            rules.append(replace(one, expected=expected, place=len(rules)))
    return turn_score.turn_of(rules, criterion, 0)


# Score the turns (S12 says which is which), then the session.


class SessionTotal(Struct, frozen=True, gc=False):
    """What the turns of a session come to (S1, S4): it is made turn by turn, each costing as much as the first."""

    counted: int = 0
    """Turns that count towards the mean."""
    evaluated: int = 0
    """Those of them that have a score."""
    lowest: Fraction = ZERO
    """The exact sums over turns that count: of the lowest scores that are possible, of the highest, of the scores."""
    highest: Fraction = ZERO
    scores: Fraction = ZERO
    exactly: bool = True
    """Nothing is unknown: the three sums are the same."""
    forbidden: Verdict | None = None
    """The worst of the verdicts on forbidden calls."""
    reason_of_call: Reason | None = None
    """Why the first call that was not evaluated was not; likewise of a turn."""
    reason_of_turn: Reason | None = None

    def plus(self, turn: turn_score.TurnScore) -> SessionTotal:
        """Return what they come to with one more turn."""
        forbidden = turn.forbidden or self.forbidden
        if turn.forbidden is not None and self.forbidden is not None:
            forbidden = turn_score.combine_forbidden((self.forbidden, turn.forbidden))
        if not turn.counts:
            return self if forbidden is self.forbidden else replace(self, forbidden=forbidden)
        result, bounds = turn.result, turn.bounds
        exact = result.verdict.exact
        exactly = self.exactly and bounds.highest is exact is bounds.lowest
        lowest = highest = scores = self.lowest + bounds.lowest
        if not exactly:
            highest = self.highest + bounds.highest
            scores = self.scores if exact is None else self.scores + exact
        reason_of_call = self.reason_of_call
        if reason_of_call is None and result.calls_evaluated < len(result.calls):
            reason_of_call = turn_score.first_reason(result.calls)
        return SessionTotal(
            self.counted + 1,
            self.evaluated + (exact is not None),
            lowest,
            highest,
            scores,
            exactly,
            forbidden,
            reason_of_call,
            self.reason_of_turn or result.verdict.reason,
        )

    def verdict(self, threshold: Fraction, *, final: bool) -> Verdict:
        """Return the verdict on the mean of the turns, by what that mean may become once everything is known."""
        if not self.counted:
            verdict = Verdict(None, Label.NOT_EVALUATED, Reason.NOTHING_EXPECTED if final else Reason.INCOMPLETE)
            return turn_score.with_forbidden(verdict, self.forbidden)
        lowest = self.lowest / self.counted
        if self.exactly:
            return turn_score.with_forbidden(turn_score.verdict_of(lowest, threshold), self.forbidden)
        bounds = ScoreBounds(lowest, self.highest / self.counted)
        exact = self.scores / self.evaluated if self.evaluated else None
        reason = self.reason_of_call or self.reason_of_turn or Reason.CALLS_NOT_VISIBLE
        return turn_score.with_forbidden(turn_score.verdict_within(bounds, exact, threshold, reason), self.forbidden)


NO_TURNS = SessionTotal()


def score_run(
    golden: Golden | Ambiguous | None, session: Session, criterion: Criterion | None = None, *, final: bool = True
) -> SessionResult:
    """Score one run of a session against its golden, which is what `GoldenIndex.find` returns.

    No golden gives the reason `no_golden`, several give `ambiguous_golden`. `criterion` replaces every criterion of the
    golden. With `final=False` more turns may come: golden turns without a turn are left out, and a golden for the whole
    session is not evaluated yet.
    """
    if golden is None or isinstance(golden, Ambiguous):
        return without_golden(golden, session)
    expected = expected_session(golden, criterion)
    if golden.aliases:
        session = with_turns(session, [with_golden_tool_names(turn, golden) for turn in session.turns])
    scores = score_turns(expected, session, final=final)
    total = NO_TURNS
    for score in scores:
        total = total.plus(score)
    return session_result(expected, session, [score.result for score in scores], total, final=final)


def without_golden(golden: Ambiguous | None, session: Session) -> SessionResult:
    """Return the result of a session with several goldens, or none."""
    reason = Reason.AMBIGUOUS_GOLDEN if golden is not None else Reason.NO_GOLDEN
    if golden is None and session.ambiguous:
        reason = Reason.SESSION_AMBIGUOUS
    return SessionResult(Verdict(None, Label.NOT_EVALUATED, reason), session, None)


def with_turns(session: Session, turns: Sequence[Turn]) -> Session:
    """Return the session with these turns; it itself if they are its own."""
    return session if all(map(is_, turns, session.turns)) else replace(session, turns=tuple(turns))


def session_result(
    expected: ExpectedSession, session: Session, turns: Sequence[TurnResult], total: SessionTotal, *, final: bool
) -> SessionResult:
    """Return the result of a session from those of its turns, and what they come to."""
    return SessionResult(
        total.verdict(expected.criterion.exact_threshold, final=final),
        session,
        expected.golden,
        tuple(turns),
        total.counted,
        total.evaluated,
        MAIN_METRIC,
        expected.digest,
    )


class TurnScorer:
    """Scores single turns of one session as its golden expects them, in the golden's order."""

    def __init__(self, expected: ExpectedSession, session: Session) -> None:
        self.golden = expected
        self.session = session
        self._unseen = Reason.INCOMPLETE if session.incomplete else None
        self._history = _history(expected, session)

    def found(self, index: int, turn_index: int) -> turn_score.TurnScore:
        """Score a golden turn by the turn that it was joined with."""
        turn, alternatives = self.session.turns[turn_index], self.golden.alternatives[index]
        return turn_score.best_alternative(alternatives, turn, turn_index, self._unseen, None, self._history)

    def missing(self, index: int, why: Reason | None) -> turn_score.TurnScore:
        """Score a golden turn without a turn. It is not evaluated if there is a reason, `why`, else it fails."""
        return turn_score.best_alternative(self.golden.alternatives[index], None, None, why, None, self._history)

    def unexpected(self, turn_index: int, why: Reason) -> turn_score.TurnScore:
        """Return the result of a turn that no golden turn is joined with."""
        turn, verdict = self.session.turns[turn_index], Verdict(None, Label.NOT_EVALUATED, why)
        unexpected, rejected = turn_score.split_unpaired(turn.calls, (), verdict)
        result = TurnResult(
            verdict, unexpected_calls=tuple(unexpected), rejected=rejected, turn=turn, turn_index=turn_index
        )
        return turn_score.TurnScore(result, counts=False)

    def fits_another(self, index: int, turn_index: int) -> bool:
        """Whether a turn, which fails as this turn of the golden, would not fail as another one near it."""
        turn, turns = self.session.turns[turn_index], len(self.golden.turns)
        for other in range(max(0, index - _NEAR), min(turns, index + _NEAR + 1)):
            if other != index:
                result = turn_score.best_alternative(self.golden.alternatives[other], turn).result
                if result.verdict.label is not Label.FAIL and (result.calls_expected or not turn.calls):
                    return True
        return False

    def record(self, index: int, score: turn_score.TurnScore | None) -> None:
        """Record the score of a golden turn, None if it has no turn, for expected values that come from its results."""
        if self.golden.uses_history:
            self._history.record(index, {} if score is None else score.result.aligned_calls())


_NEAR = 20  # a turn is compared with so many golden turns on each side, so that long goldens cost no more


def score_turns(
    expected: ExpectedSession,
    session: Session,
    *,
    final: bool,
    joined: turn_join.JoinedTurns | None = None,
    scorer: TurnScorer | None = None,
) -> list[turn_score.TurnScore]:
    """Score the golden's turns in its order, then add the turns that no golden turn is joined with.

    `joined` says which turn is which, and `scorer` scores single turns, if the caller knows better than to do it anew.
    """
    if expected.is_one_turn:
        return [_score_as_one_turn(expected, session)] if final else []
    joined = joined or turn_join.join_turns(expected.keys, session.turns, expected.criterion.turn_join)
    scorer = scorer or TurnScorer(expected, session)
    scores: list[turn_score.TurnScore | None] = []
    elsewhere: set[int | None] = set()
    """Turns that may be another turn of the golden, so that they are joined with none."""
    for index, turn_index in enumerate(joined.partners):
        score = None if turn_index is None else scorer.found(index, turn_index)
        if score is not None and index in joined.unsure and may_be_another(scorer, score):
            elsewhere.add(turn_index)
            score = None
        scorer.record(index, score)
        scores.append(score)
    complete = joined.complete and not elsewhere
    why = {known: why_missing(expected, session, known=known, complete=complete) for known in (True, False)}
    found: list[turn_score.TurnScore] = []
    for index, score in enumerate([*scores, *[None] * (len(expected.turns) - len(scores))]):
        if score is not None:
            found.append(score)
        elif final:
            found.append(scorer.missing(index, why[index not in joined.unknown]))
    why_left = dict.fromkeys(elsewhere, Reason.SESSION_AMBIGUOUS)
    left = set(range(len(session.turns))).difference(set(joined.partners) - elsewhere)
    return found + [scorer.unexpected(index, why_left.get(index, Reason.TURN_NOT_EXPECTED)) for index in sorted(left)]


def may_be_another(scorer: TurnScorer, score: turn_score.TurnScore) -> bool:
    """Whether a turn fails as the golden turn it was joined with, and would not fail as another one near it."""
    result = score.result
    if result.verdict.label is not Label.FAIL or result.expected_index is None or result.turn_index is None:
        return False
    return scorer.fits_another(result.expected_index, result.turn_index)


def why_missing(expected: ExpectedSession, session: Session, *, known: bool, complete: bool) -> Reason | None:
    """Return why a missing turn is not evaluated; None if it is a failure.

    `known`: no turn whose key was not recorded may be it. `complete`: no turn can have been served elsewhere.
    """
    if session.incomplete:
        return Reason.INCOMPLETE
    if any(doubt.fact is DoubtedFact.TURNS for turn in session.turns for doubt in turn.doubts):
        return Reason.READING_DOUBTFUL
    if not known:
        return Reason.INPUT_MISSING
    if not complete:
        return Reason.SESSION_AMBIGUOUS
    return Reason.GOLDEN_NEVER_SEEN if expected.criterion.missing_turns == "not_evaluated" else None


def _score_as_one_turn(expected: ExpectedSession, session: Session) -> turn_score.TurnScore:
    """Score all calls of a session as one turn, which has the root of the session's last turn."""
    [alternatives] = expected.alternatives
    turn = as_one_turn(session)
    if turn is None:
        return turn_score.best_alternative(
            alternatives, None, None, why_missing(expected, session, known=True, complete=True)
        )
    unseen = Reason.INCOMPLETE if session.incomplete else None
    if (
        unseen is None
        and expected.criterion.turn_join != "index"
        and not turn_join.leave_no_gap(turn_join.places_of(session.turns))
    ):
        unseen = Reason.SESSION_AMBIGUOUS
    history = None
    if expected.uses_history:
        calls = iter(turn.calls)  # those that are scored: some have got their own turn's definitions of tools
        turns = [replace(one, calls=tuple(islice(calls, len(one.calls)))) for one in session.turns]
        history = _history(expected, replace(session, turns=tuple(turns)))
    return turn_score.best_alternative(alternatives, turn, None, unseen, batches_of(session.turns), history)


def _history(expected: ExpectedSession, session: Session) -> CallHistory:
    tools = [[call.name for call in turn.calls] for turn in expected.turns] if expected.uses_history else ()
    return CallHistory(session.turns, tools, complete=not session.incomplete)


# Scoring while a run grows: the same results as `score_run` gives, at the cost of the new turns.
#
# A live session is scored after each turn. Scoring all of it each time would cost n * n for n turns. Three things make
# it linear; each keeps what `score_run` would make again:
#
# 1. **A score of a turn is kept** as long as the turn is the same object, joined with the same golden turn, and missing
#    for the same reason. `TurnScorer` reads nothing else, except where an expected value comes from an earlier result;
#    then nothing is kept.
# 2. **Runs in step.** A run is in step if turn 1 is golden turn 1, turn 2 is golden turn 2, and so on. Most are, and
#    then one more turn changes nothing of those before it: neither their partners, nor their scores, nor their
#    positions in the result. `InStep` tells from the clues of the new turn alone whether the run still is. For example:
#
#        golden a b c, run a b      result: a, b, and c as missing      kept with one more turn: a, b
#        golden a b c, run a b c    result: a, b, c                     kept with one more turn: a, b, c
#        golden a b c, run a c      not in step: all turns are joined again, and scores of turns are kept as in 1
# 3. **The total** of the session is made turn by turn (`SessionTotal`), so that the first part of a result that is the
#    same has the same total.
#
# `tests/scoring/test_growing_runs.py` compares each with `score_run` and `join_turns`.

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
        self._named = IncrementalList[Turn]()  # the turns with the golden's names of tools, if it has aliases
        self._so_far = IncrementalList[InStep]()
        self._scores: list[turn_score.TurnScore] = []
        """Those of the last result, in its order; then what they come to, and their results."""
        self._totals: list[SessionTotal] = []
        self._results: list[TurnResult] = []
        self._unsure: bool | None = None
        """Whether the turns of the last result may be other turns of the golden; None if the run was not in step."""
        self._missing: dict[Reason | None, list[turn_score.TurnScore]] = {}
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
            return without_golden(golden, session)
        expected = expected_session(golden, criterion)
        if golden.aliases:
            given = session.turns
            self._named.update(given, lambda at: with_golden_tool_names(given[at], golden))
            session = with_turns(session, self._named.made)
        first, more = self._scored(expected, session, final=final)
        del self._totals[first:]
        total = self._totals[-1] if first else NO_TURNS
        for score in more:
            total = total.plus(score)
            self._totals.append(total)
        self._scores[first:] = more
        self._results[first:] = [score.result for score in more]
        return session_result(expected, session, self._results, total, final=final)

    def _scored(
        self, expected: ExpectedSession, session: Session, *, final: bool
    ) -> tuple[int, list[turn_score.TurnScore]]:
        """Return how many of the last scores are kept, and the scores that follow."""
        was_unsure, self._unsure = self._unsure, None  # until all is done: a failure leaves nothing half done
        if expected.is_one_turn or expected.uses_history:
            return 0, score_turns(expected, session, final=final)
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
        scores = score_turns(expected, session, final=final, joined=joined, scorer=scorer)
        first = unchanged_start(self._scores, scores)
        return first, scores[first:]

    def _score_in_step(
        self, scorer: TurnScorer, joined: turn_join.JoinedTurns, first: int, *, final: bool
    ) -> list[turn_score.TurnScore] | None:
        """Return what `score_turns` returns for a run in step, without the first scores.

        As turn i is joined with golden turn i, the result has the turns in the run's order, then the missing golden
        turns. None if a turn may be another turn of the golden: then it is joined with none.
        """
        expected, turns, scores = scorer.golden, len(scorer.session.turns), list[turn_score.TurnScore]()
        for index in range(first, turns):
            if index >= len(expected.turns):
                scores.append(scorer.unexpected(index, Reason.TURN_NOT_EXPECTED))
                continue
            score = scorer.found(index, index)
            if joined.unsure and may_be_another(scorer, score):
                return None
            scores.append(score)
        left = len(expected.turns) - turns
        if final and left > 0:
            why = why_missing(expected, scorer.session, known=True, complete=joined.complete)
            missing = self._missing.setdefault(why, [])
            missing[:0] = [scorer.missing(index, why) for index in range(turns, len(expected.turns) - len(missing))]
            scores += missing[-left:]
        return scores


_Remembered = dict[tuple[object, ...], tuple[Turn | None, Any]]
"""By what was asked, with the turn it was asked of: the answer."""


class _RememberingScorer(TurnScorer):
    """Gives the scores that were given before of the same turns."""

    def __init__(self, expected: ExpectedSession, session: Session, before: _Remembered) -> None:
        super().__init__(expected, session)
        self._before = before
        self.remembered = before
        """What is remembered for the next time."""

    def found(self, index: int, turn_index: int) -> turn_score.TurnScore:
        return self._once(super().found, self.session.turns[turn_index], index, turn_index)

    def missing(self, index: int, why: Reason | None) -> turn_score.TurnScore:
        key = index, id(why)  # a long golden asks often, and the hash of an enumeration's member is slow
        known = self._before.get(key) or (None, super().missing(index, why))
        self.remembered[key] = known
        score: turn_score.TurnScore = known[1]
        return score

    def unexpected(self, turn_index: int, why: Reason) -> turn_score.TurnScore:
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
