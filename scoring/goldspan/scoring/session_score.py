"""Score one run of a session against its golden: its turns, joined with the golden's turns, then the session."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import islice, product
from operator import is_

from msgspec import Struct
from msgspec.structs import replace

from goldspan.scoring.call_context import CallHistory
from goldspan.scoring.call_match import CallRules, ScoreBounds, Sum, mean_of, plus
from goldspan.scoring.criterion import MAIN_METRIC, Criterion
from goldspan.scoring.goldens.golden import MOST_ALTERNATIVES, Golden, GoldenTurn
from goldspan.scoring.goldens.golden_index import Ambiguous, with_golden_tool_names
from goldspan.scoring.growing import Growing, same_start
from goldspan.scoring.results import CallResult, SessionResult, TurnResult
from goldspan.scoring.sessions import Session, Turn, as_one_turn, batches_of
from goldspan.scoring.turn_join import (
    NOTHING_TOLD,
    GoldenKeys,
    ToldTogether,
    TurnTold,
    golden_keys,
    join_turns,
    places_of,
    told_of,
)
from goldspan.scoring.turn_score import (
    ExpectedTurn,
    TurnScore,
    best_alternative,
    combine_forbidden,
    expected_turn,
    label_of,
    score_calls,
    turn_of,
    verdict_of,
    with_forbidden,
)
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
    alternatives: tuple[tuple[ExpectedTurn, ...], ...]
    """For each turn its alternatives, the main one first. With `as_one` there is a single turn."""
    as_one: bool
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
            expected_turn(calls, override or turn.criterion or criterion, override, index)
            for calls in (turn.calls, *turn.alternatives)
        )
        for index, turn in enumerate(turns)
    )
    as_one = golden.calls is not None or criterion.scope == "session"
    if as_one:
        combinations = islice(product(*alternatives), MOST_ALTERNATIVES)
        alternatives = (tuple(_concatenated(parts, criterion) for parts in combinations),)
    uses_history = any(turn.uses_history for of_turn in alternatives for turn in of_turn)
    keys, digest = golden_keys(turns), criterion.digest
    return ExpectedSession(golden, override, criterion, digest, turns, keys, alternatives, as_one, uses_history)


def _concatenated(parts: Sequence[ExpectedTurn], criterion: Criterion) -> ExpectedTurn:
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
    return turn_of(rules, criterion, 0)


# Score the turns, then the session.


class _Sum(Struct, frozen=True, gc=False):
    """What the first so many turns of a run come to: one more turn costs as much as the first."""

    counted: int = 0
    """Turns that count towards the mean."""
    evaluated: int = 0
    """Those of them that have a score."""
    lowest: Sum = None
    """The exact sums over turns that count: of the lowest scores that are possible, of the highest, of the scores."""
    highest: Sum = None
    scores: Sum = None
    exactly: bool = True
    """Nothing is unknown: the three sums are the same."""
    forbidden: Verdict | None = None
    """The worst of the verdicts on forbidden calls."""

    def plus(self, turn: TurnScore) -> _Sum:
        """Return what they come to with one more turn."""
        forbidden = turn.forbidden or self.forbidden
        if turn.forbidden is not None and self.forbidden is not None:
            forbidden = combine_forbidden((self.forbidden, turn.forbidden))
        if not turn.counts:
            return self if forbidden is self.forbidden else replace(self, forbidden=forbidden)
        exact, bounds = turn.result.verdict.exact, turn.bounds
        exactly = self.exactly and bounds.highest is exact is bounds.lowest
        lowest = highest = scores = plus(self.lowest, bounds.lowest)
        if not exactly:
            highest = plus(self.highest, bounds.highest)
            scores = self.scores if exact is None else plus(self.scores, exact)
        evaluated = self.evaluated + (exact is not None)
        return _Sum(self.counted + 1, evaluated, lowest, highest, scores, exactly, forbidden)


_NOTHING = _Sum()


class KeptScores:
    """What was made of the turns of one run, for the next time that the run is scored by the same golden."""

    __slots__ = (
        *("in_line", "left", "named", "others", "results", "rows", "scored", "scores", "sums", "together", "told"),
        *("turns", "unsure", "_reasons"),
    )

    def __init__(self) -> None:
        self.named: Growing[Turn] | None = None
        """The turns with the golden's names of tools, if it names aliases."""
        self.turns: Sequence[Turn] = ()
        self.told: list[TurnTold] = []
        self.together: list[ToldTogether] = []
        """What each turn tells, and what it tells together with those before it."""
        self.in_line = self.unsure = False
        """Whether the first turns of the run and of its golden were joined one by one, and whether that is unsure."""
        self.rows: list[TurnScore | None] = []
        """The scores of the golden's turns, by position."""
        self.scored: list[TurnScore] = []
        self.results: list[TurnResult] = []
        """Those of all turns, in the order of the run's result."""
        self.sums: list[_Sum] = []
        """What they come to together with those before them."""
        self._reasons: list[tuple[Reason | None, Reason | None]] = []
        """The first reason of a call, and of a turn, as far as anything asked for it."""
        self.scores: dict[int, tuple[Turn | None, int | None, Reason | None, TurnScore]] = {}
        """By golden turn, what was joined with it, why calls may be missing, and its score."""
        self.others: dict[int, tuple[TurnScore, bool]] = {}
        """By golden turn, whether the turn with this score may be another one."""
        self.left: dict[int, tuple[Turn, Reason, TurnScore]] = {}
        """By position, the scores of turns that no golden turn is joined with."""

    def put(self, first: int, scores: Sequence[TurnScore]) -> None:
        """Replace the scores of the run's result from `first` on."""
        sums = self.sums
        del sums[first:], self._reasons[first:]
        self.scored[first:] = scores
        self.results[first:] = [score.result for score in scores]
        so_far = sums[-1] if sums else _NOTHING
        for score in scores:
            so_far = so_far.plus(score)
            sums.append(so_far)

    def reason(self) -> Reason:
        """Return why the run is not evaluated: what a call of it says first, else a turn."""
        of_calls, of_turns = self._reasons[-1] if self._reasons else (None, None)
        for score in self.scored[len(self._reasons) :]:
            if score.counts:
                reasons = (call.verdict.reason for call in score.result.calls)
                of_calls = of_calls or next((reason for reason in reasons if reason is not None), None)
                of_turns = of_turns or score.result.verdict.reason
            self._reasons.append((of_calls, of_turns))
        return of_calls or of_turns or Reason.CALLS_NOT_VISIBLE


def score_run(
    golden: Golden | Ambiguous | None,
    session: Session,
    criterion: Criterion | None = None,
    *,
    final: bool = True,
    kept: KeptScores | None = None,
) -> SessionResult:
    """Score one run of a session against its golden, which is what `GoldenIndex.find` returns.

    No golden gives the reason `no_golden`, several give `ambiguous_golden`. `criterion` replaces every criterion of the
    golden. With `final=False` more turns may come: golden turns without a turn are left out, and a golden for the whole
    session is not evaluated yet. `kept` is what was made of the run before; since then it may have got more turns, or
    others.
    """
    if golden is None or isinstance(golden, Ambiguous):
        reason = Reason.AMBIGUOUS_GOLDEN if golden is not None else Reason.NO_GOLDEN
        if golden is None and session.ambiguous:
            reason = Reason.SESSION_AMBIGUOUS
        return SessionResult(Verdict(None, Label.NOT_EVALUATED, reason), session, None)
    kept = kept or KeptScores()
    run = _with_golden_tool_names(session, golden, kept) if golden.aliases else session
    expected = expected_session(golden, criterion)
    if expected.as_one:
        kept.put(0, [_score_as_one_turn(expected, run)] if final else [])
    else:
        _score_turns(expected, run, kept, final=final)
    total = kept.sums[-1] if kept.sums else _NOTHING
    verdict = _verdict(total, kept, expected.criterion, final=final)
    return SessionResult(
        verdict if total.forbidden is None else with_forbidden(verdict, total.forbidden),
        run,
        golden,
        tuple(kept.results),
        total.counted,
        total.evaluated,
        MAIN_METRIC,
        expected.digest,
    )


def _with_golden_tool_names(session: Session, golden: Golden, kept: KeptScores) -> Session:
    """Replace aliases of tools by the names they have in the golden."""
    named = kept.named = kept.named or Growing()
    named.update(session.turns, lambda at: with_golden_tool_names(session.turns[at], golden))
    return session if all(map(is_, named.made, session.turns)) else replace(session, turns=tuple(named.made))


def _score_turns(expected: ExpectedSession, session: Session, kept: KeptScores, *, final: bool) -> None:
    """Score the golden's turns in its order, then add the turns that no golden turn is joined with.

    What follows from the first turns, where these are the same as before, is kept.
    """
    turns, keys, told, together = session.turns, expected.keys, kept.told, kept.together
    same = same_start(kept.turns, turns)
    kept.turns = ()  # until all is done: a failure leaves nothing half done
    del told[same:], together[same:]
    all_tell, has_keys = together[-1] if together else NOTHING_TOLD, bool(keys.places)
    for index in range(same, len(turns)):
        one = told_of(turns, index, keys=has_keys)
        all_tell = all_tell.then(keys, index, turns[index], one)
        told.append(one)
        together.append(all_tell)
    joined = join_turns(keys, turns, expected.criterion.turn_join, told, all_tell)
    history = _history(expected, session) if expected.uses_history else None
    partners, unsure = joined.partners, bool(joined.unsure)
    in_line = isinstance(partners, range) and history is None
    start = same if in_line and kept.in_line and kept.unsure is unsure else 0
    unseen = Reason.INCOMPLETE if session.incomplete else None
    ambiguous: set[int | None] = set()
    rows = kept.rows
    del rows[start:]
    for index in range(len(rows), len(partners)):
        partner, score = partners[index], None
        if partner is not None:
            score = _kept_score(kept, expected, index, turns[partner], partner, unseen, history)
            if index in joined.unsure and _may_be_another(expected, index, turns[partner], score, kept):
                ambiguous.add(partner)
                score = None
        rows.append(score)
        if history is not None:
            history.record(index, {} if score is None else score.result.aligned_calls())
    scores = rows[start:]
    if final and (len(rows) < len(expected.turns) or None in scores):
        scores += [None] * (len(expected.turns) - len(rows))
        complete = joined.complete and not ambiguous
        for place, score in enumerate(scores):
            if score is None:
                known = start + place not in joined.unknown
                why = _why_missing(expected.criterion, session, known=known, complete=complete)
                scores[place] = _kept_score(kept, expected, start + place, None, None, why, history)
    left: Sequence[int] = range(max(start, len(partners)), len(turns))
    if not in_line or ambiguous:
        taken = set(partners) - ambiguous
        left = [index for index in range(len(turns)) if index not in taken]
    found = [score for score in scores if score is not None]
    for index in left:
        why_left = Reason.SESSION_AMBIGUOUS if index in ambiguous else Reason.TURN_NOT_EXPECTED
        found.append(_kept_left(kept, turns[index], index, why_left))
    if not start:
        start = same_start(kept.scored, found)
        found = found[start:] if start else found
    kept.put(start, found)
    kept.in_line, kept.unsure, kept.turns = in_line and not ambiguous, unsure, turns


def _kept_score(
    kept: KeptScores,
    expected: ExpectedSession,
    index: int,
    turn: Turn | None,
    turn_index: int | None,
    unseen: Reason | None,
    history: CallHistory | None,
) -> TurnScore:
    """Score a turn, unless that was done before. With a history its score may depend on other turns."""
    if history is not None:
        return _score_turn(expected, index, turn, turn_index, unseen, history)
    known = kept.scores.get(index)
    if known is None or known[0] is not turn or known[1] != turn_index or known[2] is not unseen:
        score = _score_turn(expected, index, turn, turn_index, unseen, history)
        known = kept.scores[index] = (turn, turn_index, unseen, score)
    return known[3]


def _kept_left(kept: KeptScores, turn: Turn, index: int, why: Reason) -> TurnScore:
    known = kept.left.get(index)
    if known is None or known[0] is not turn or known[1] is not why:
        known = kept.left[index] = (turn, why, TurnScore(_left_turn(turn, index, why), counts=False))
    return known[2]


def _score_turn(
    expected: ExpectedSession,
    index: int,
    turn: Turn | None,
    turn_index: int | None,
    unseen: Reason | None,
    history: CallHistory | None,
) -> TurnScore:
    alternatives = expected.alternatives[index]
    if len(alternatives) == 1:
        return score_calls(alternatives[0], turn, turn_index, unseen, None, history)
    return best_alternative([score_calls(calls, turn, turn_index, unseen, None, history) for calls in alternatives])


_NEAR = 20
"""A turn is compared with so many golden turns on each side, so that long goldens cost no more."""


def _may_be_another(expected: ExpectedSession, index: int, turn: Turn, score: TurnScore, kept: KeptScores) -> bool:
    """Whether a turn fails as this turn of the golden, and would not fail as another one near it."""
    if score.result.verdict.label is not Label.FAIL:
        return False
    known = kept.others.get(index)
    if known is None or known[0] is not score:
        known = kept.others[index] = (score, _fits_another(expected, index, turn))
    return known[1]


def _fits_another(expected: ExpectedSession, index: int, turn: Turn) -> bool:
    for other in range(max(0, index - _NEAR), min(len(expected.turns), index + _NEAR + 1)):
        if other != index:
            result = _score_turn(expected, other, turn, None, None, None).result
            if result.verdict.label is not Label.FAIL and (result.calls_expected or not turn.calls):
                return True
    return False


def _score_as_one_turn(expected: ExpectedSession, session: Session) -> TurnScore:
    """Score all calls of a session as one turn, which has the root of the session's last turn."""
    [alternatives] = expected.alternatives
    turn = as_one_turn(session)
    unseen = Reason.INCOMPLETE if session.incomplete else None
    if turn is None:
        unseen = _why_missing(expected.criterion, session, known=True, complete=True)
    elif unseen is None and expected.criterion.turn_join != "index" and _left_out_turns(session):
        unseen = Reason.SESSION_AMBIGUOUS
    history = _history(expected, session) if turn is not None and expected.uses_history else None
    batches = None if turn is None else batches_of(session.turns)
    return best_alternative(
        [score_calls(calls, turn, unseen=unseen, batches=batches, history=history) for calls in alternatives]
    )


def _left_out_turns(session: Session) -> bool:
    """Whether the places of turns show that others were served elsewhere."""
    return any(place not in (None, number) for number, place in enumerate(places_of(session.turns), start=1))


def _history(expected: ExpectedSession, session: Session) -> CallHistory:
    return CallHistory(session.turns, [turn.calls for turn in expected.turns], complete=not session.incomplete)


def _why_missing(criterion: Criterion, session: Session, *, known: bool, complete: bool) -> Reason | None:
    """Return why a missing turn is not evaluated; None if it is a failure."""
    if session.incomplete:
        return Reason.INCOMPLETE
    if not known:
        return Reason.INPUT_MISSING
    if not complete:
        return Reason.SESSION_AMBIGUOUS
    return Reason.GOLDEN_NEVER_SEEN if criterion.missing_turns == "not_evaluated" else None


def _left_turn(turn: Turn, index: int, reason: Reason) -> TurnResult:
    """Return the result of a turn that no golden turn is joined with."""
    verdict = Verdict(None, Label.NOT_EVALUATED, reason)
    return TurnResult(
        verdict,
        unexpected_calls=tuple(
            CallResult(verdict, actual=call, actual_index=place)
            for place, call in enumerate(turn.calls)
            if not call.rejected
        ),
        rejected=tuple(call for call in turn.calls if call.rejected),
        turn=turn,
        turn_index=index,
    )


def _verdict(total: _Sum, kept: KeptScores, criterion: Criterion, *, final: bool) -> Verdict:
    """Return the verdict on the mean of the turns, by what that mean may become once everything is known."""
    if not total.counted:
        return Verdict(None, Label.NOT_EVALUATED, Reason.NOTHING_EXPECTED if final else Reason.INCOMPLETE)
    threshold = criterion.exact_threshold
    lowest = mean_of(total.lowest, total.counted)
    if total.exactly:
        return verdict_of(lowest, threshold)
    label = label_of(ScoreBounds(lowest, mean_of(total.highest, total.counted)), threshold)
    reason = kept.reason() if label is Label.NOT_EVALUATED else None
    return Verdict(mean_of(total.scores, total.evaluated) if total.evaluated else None, label, reason)
