"""Score one run of a session against its golden, as the rules S1 to S12 of docs/definition.md define it.

The golden's turns are joined with the session's (S12), each is scored (`turn_score.py`), and the session's score is the
mean of them (S1). For example, a golden has the turns a, b and c:

    turns recorded     result
    a right, b wrong   (1 + 0 + 0) / 3: c is missing, and a failure
    a right, then ?    c may have been served elsewhere: 1 / 1, and the label only if c could not change it (S4)
    a, b, c, d         d is reported, and outside of the mean

`incremental_score.py` gives the same results while a session grows, at the cost of the new turns.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from fractions import Fraction
from itertools import islice, product
from operator import is_

from msgspec import Struct
from msgspec.structs import replace

from goldspan.scoring import turn_score
from goldspan.scoring.call_match import CallRules, ScoreBounds
from goldspan.scoring.comparison import ZERO
from goldspan.scoring.criterion import MAIN_METRIC, Criterion
from goldspan.scoring.goldens.golden import MOST_ALTERNATIVES, Ambiguous, Golden, GoldenTurn, with_golden_tool_names
from goldspan.scoring.results import SessionResult, TurnResult
from goldspan.scoring.sessions import CallHistory, DoubtedFact, Session, Turn, as_one_turn, batches_of
from goldspan.scoring.turn_join import GoldenKeys, JoinedTurns, golden_keys, join_turns, leave_no_gap, places_of
from goldspan.scoring.verdict import Label, Reason, Verdict

# Collect what a golden expects of a session.


class ExpectedSession(Struct, frozen=True, gc=False):
    """What a golden expects of a session."""

    golden: Golden
    override: Criterion | None
    criterion: Criterion
    digest: str
    """Of the criterion."""
    turns: tuple[GoldenTurn, ...]
    keys: GoldenKeys
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
    keys, digest = golden_keys(turns), criterion.digest
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


_NEAR = 20
"""A turn is compared with so many golden turns on each side, so that long goldens cost no more."""


def score_turns(
    expected: ExpectedSession,
    session: Session,
    *,
    final: bool,
    joined: JoinedTurns | None = None,
    scorer: TurnScorer | None = None,
) -> list[turn_score.TurnScore]:
    """Score the golden's turns in its order, then add the turns that no golden turn is joined with.

    `joined` says which turn is which, and `scorer` scores single turns, if the caller knows better than to do it anew.
    """
    if expected.is_one_turn:
        return [_score_as_one_turn(expected, session)] if final else []
    joined = joined or join_turns(expected.keys, session.turns, expected.criterion.turn_join)
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
    if unseen is None and expected.criterion.turn_join != "index" and not leave_no_gap(places_of(session.turns)):
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
