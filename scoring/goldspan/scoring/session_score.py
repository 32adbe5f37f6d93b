"""Score one run of a session against its golden: its turns, joined with the golden's turns, then the session."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import islice, product
from operator import is_

from msgspec import Struct
from msgspec.structs import replace

from goldspan.scoring.call_context import CallHistory
from goldspan.scoring.call_match import CallRules, ScoreBounds, mean
from goldspan.scoring.criterion import MAIN_METRIC, Criterion
from goldspan.scoring.goldens.golden import MOST_ALTERNATIVES, Golden, GoldenTurn
from goldspan.scoring.goldens.golden_index import Ambiguous, with_golden_tool_names
from goldspan.scoring.growing import Growing
from goldspan.scoring.results import CallResult, SessionResult, TurnResult
from goldspan.scoring.sessions import Session, Turn, as_one_turn, batches_of
from goldspan.scoring.turn_join import GoldenKeys, TurnTold, golden_keys, join_turns, places_of, told_of
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


class KeptScores:
    """What was made of the turns of one run, for the next time that the run is scored by the same golden."""

    def __init__(self) -> None:
        self.named: Growing[Turn] = Growing()
        """The turns, with the golden's names of tools."""
        self.told: Growing[TurnTold] = Growing()
        self.scores: dict[int, tuple[Turn | None, int | None, Reason | None, TurnScore]] = {}
        """By golden turn, what was joined with it, why calls may be missing, and its score."""
        self.others: dict[int, tuple[TurnScore, bool]] = {}
        """By golden turn, whether the turn with this score may be another one."""
        self.left: dict[int, tuple[Turn, Reason, TurnScore]] = {}
        """By position, the scores of turns that no golden turn is joined with."""


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
    run = _with_golden_tool_names(session, golden, kept) if golden.aliases else session
    expected = expected_session(golden, criterion)
    if expected.as_one:
        turns = [_score_as_one_turn(expected, run)] if final else []
    else:
        turns = _score_turns(expected, run, kept, final=final)
    counted: list[TurnScore] = []
    forbidden: list[Verdict] = []
    evaluated = 0
    for turn in turns:
        if turn.counts:
            counted.append(turn)
            evaluated += turn.result.verdict.exact is not None
        if turn.forbidden is not None:
            forbidden.append(turn.forbidden)
    verdict = _verdict(counted, expected.criterion, final=final)
    return SessionResult(
        with_forbidden(verdict, combine_forbidden(forbidden)) if forbidden else verdict,
        run,
        golden,
        tuple([turn.result for turn in turns]),
        len(counted),
        evaluated,
        MAIN_METRIC,
        expected.digest,
    )


def _with_golden_tool_names(session: Session, golden: Golden, kept: KeptScores | None) -> Session:
    """Replace aliases of tools by the names they have in the golden."""
    named: Growing[Turn] = Growing() if kept is None else kept.named
    named.update(session.turns, lambda at: with_golden_tool_names(session.turns[at], golden))
    return session if all(map(is_, named.made, session.turns)) else replace(session, turns=tuple(named.made))


_NOT_EXPECTED = Reason.TURN_NOT_EXPECTED


def _score_turns(
    expected: ExpectedSession, session: Session, kept: KeptScores | None, *, final: bool
) -> list[TurnScore]:
    """Score the golden's turns in its order, then add the turns that no golden turn is joined with."""
    turns, keys = session.turns, expected.keys
    has_keys = bool(keys.places)
    if kept is None:
        told = [told_of(turns, at, keys=has_keys) for at in range(len(turns))]
    else:
        kept.told.update(turns, lambda at: told_of(turns, at, keys=has_keys))
        told = kept.told.made
    joined = join_turns(keys, turns, expected.criterion.turn_join, told)
    taken = set(joined.partners)
    why_left = {index: _NOT_EXPECTED for index in range(len(turns)) if index not in taken}
    history = _history(expected, session) if expected.uses_history else None
    unseen = Reason.INCOMPLETE if session.incomplete else None
    scores: list[TurnScore | None] = []
    complete = joined.complete
    rows = len(joined.partners)
    while rows and not final and joined.partners[rows - 1] is None:
        rows -= 1
    for index, partner in enumerate(joined.partners[:rows]):
        score = None
        if partner is not None:
            score = _kept_score(kept, expected, index, turns[partner], partner, unseen, history)
            if index in joined.unsure and _may_be_another(expected, index, turns[partner], score, kept):
                why_left[partner], complete, score = Reason.SESSION_AMBIGUOUS, False, None
        scores.append(score)
        if history is not None:
            history.record(index, {} if score is None else score.result.aligned_calls())
    if final and None in scores:
        for index, score in enumerate(scores):
            if score is None:
                why = _why_missing(expected.criterion, session, known=index not in joined.unknown, complete=complete)
                scores[index] = _kept_score(kept, expected, index, None, None, why, history)
    found = [score for score in scores if score is not None]
    if why_left:
        found += [_kept_left(kept, turns[index], index, why_left[index]) for index in sorted(why_left)]
    return found


def _kept_score(
    kept: KeptScores | None,
    expected: ExpectedSession,
    index: int,
    turn: Turn | None,
    turn_index: int | None,
    unseen: Reason | None,
    history: CallHistory | None,
) -> TurnScore:
    """Score a turn, unless that was done before. With a history its score may depend on other turns."""
    if kept is None or history is not None:
        return _score_turn(expected, index, turn, turn_index, unseen, history)
    known = kept.scores.get(index)
    if known is None or known[0] is not turn or known[1] != turn_index or known[2] is not unseen:
        score = _score_turn(expected, index, turn, turn_index, unseen, history)
        known = kept.scores[index] = (turn, turn_index, unseen, score)
    return known[3]


def _kept_left(kept: KeptScores | None, turn: Turn, index: int, why: Reason) -> TurnScore:
    known = None if kept is None else kept.left.get(index)
    if known is None or known[0] is not turn or known[1] is not why:
        known = (turn, why, TurnScore(_left_turn(turn, index, why), counts=False))
        if kept is not None:
            kept.left[index] = known
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


def _may_be_another(
    expected: ExpectedSession, index: int, turn: Turn, score: TurnScore, kept: KeptScores | None
) -> bool:
    """Whether a turn fails as this turn of the golden, and would not fail as another one near it."""
    if score.result.verdict.label is not Label.FAIL:
        return False
    known = None if kept is None else kept.others.get(index)
    if known is None or known[0] is not score:
        known = (score, _fits_another(expected, index, turn))
        if kept is not None:
            kept.others[index] = known
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


def _verdict(turns: Sequence[TurnScore], criterion: Criterion, *, final: bool) -> Verdict:
    """Return the verdict on the mean of the turns, by what that mean may become once everything is known."""
    if not turns:
        return Verdict(None, Label.NOT_EVALUATED, Reason.NOTHING_EXPECTED if final else Reason.INCOMPLETE)
    threshold = criterion.exact_threshold
    lowest = mean([turn.bounds.lowest for turn in turns])
    for turn in turns:
        if not turn.bounds.highest is turn.result.verdict.exact is turn.bounds.lowest:
            break
    else:
        return verdict_of(lowest, threshold)
    label = label_of(ScoreBounds(lowest, mean([turn.bounds.highest for turn in turns])), threshold)
    reason = None
    if label is Label.NOT_EVALUATED:
        reasons = [call.verdict.reason for turn in turns for call in turn.result.calls]
        reasons += [turn.result.verdict.reason for turn in turns]
        reason = next((reason for reason in reasons if reason is not None), Reason.CALLS_NOT_VISIBLE)
    scores = [exact for turn in turns if (exact := turn.result.verdict.exact) is not None]
    return Verdict(mean(scores) if scores else None, label, reason)
