"""One run of a session scored against its golden."""

from __future__ import annotations

from collections.abc import Sequence

from goldspan.scoring.call_history import CallHistory
from goldspan.scoring.call_match import ScoreBounds
from goldspan.scoring.criterion import Criterion
from goldspan.scoring.expected_turn import ExpectedSession, ExpectedTurn, expected_session
from goldspan.scoring.goldens.golden import Golden
from goldspan.scoring.goldens.golden_index import Ambiguous, with_golden_tool_names
from goldspan.scoring.results import CallResult, SessionResult, TurnResult
from goldspan.scoring.sessions import Session, Turn, as_one_turn, batches_of
from goldspan.scoring.turn_score import (
    TurnScore,
    all_kept,
    best_of,
    label_of,
    mean,
    score_calls,
    verdict_of,
    with_forbidden,
)
from goldspan.scoring.verdict import Label, Reason, Verdict


def score_run(
    golden: Golden | Ambiguous | None, session: Session, criterion: Criterion | None = None, *, final: bool = True
) -> SessionResult:
    """Score one run of a session against its golden, which is what `GoldenIndex.find` returns.

    No golden gives the reason `no_golden`, several give `ambiguous_golden`. `criterion` replaces every criterion of the
    golden. With `final=False` more turns may come: golden turns without a turn are left out, and a golden for the whole
    session is not evaluated yet.
    """
    if golden is None or isinstance(golden, Ambiguous):
        reason = Reason.AMBIGUOUS_GOLDEN if golden is not None else Reason.NO_GOLDEN
        if golden is None and session.ambiguous:
            reason = Reason.SESSION_AMBIGUOUS
        return SessionResult(Verdict(None, Label.NOT_EVALUATED, reason), session, None)
    run = with_golden_tool_names(session, golden)
    expected = expected_session(golden, criterion)
    if expected.as_one:
        scored = [_whole_session(expected, run)] if final else []
    else:
        scored = _turns(expected, run, final=final)
    turns: list[TurnResult] = []
    counted: list[TurnScore] = []
    kept: list[Verdict] = []
    evaluated = 0
    for turn in scored:
        turns.append(turn.result)
        if turn.counts:
            counted.append(turn)
            evaluated += turn.result.verdict.exact is not None
        if turn.kept is not None:
            kept.append(turn.kept)
    verdict = _verdict(counted, expected.criterion, final=final)
    return SessionResult(
        with_forbidden(verdict, all_kept(kept)) if kept else verdict,
        run,
        golden,
        tuple(turns),
        turns_expected=len(counted),
        turns_evaluated=evaluated,
        criterion=expected.criterion.digest,
    )


def _turns(golden: ExpectedSession, session: Session, *, final: bool) -> list[TurnScore]:
    """Score the golden's turns in its order, then list the turns it does not have."""
    turns, scored = session.turns, list[TurnScore]()
    joined = golden.joined(turns)
    partners = joined.partners
    history = _history(golden, session)
    unseen = Reason.INCOMPLETE if session.incomplete else None
    for index, (choices, partner) in enumerate(zip(golden.choices, partners, strict=True)):
        if partner is None and not final:
            continue
        turn, why = None, unseen
        if partner is None:
            why = _why_missing(golden.criterion, session, known=index not in joined.unknown)
        else:
            turn = turns[partner]
        if len(choices) == 1:
            best = score_calls(choices[0], turn, turn_index=partner, unseen=why, history=history)
        else:
            best = best_of(
                [score_calls(wanted, turn, turn_index=partner, unseen=why, history=history) for wanted in choices]
            )
        if history is not None:
            history.record(index, best.result.aligned_calls())
        scored.append(best)
    if len(turns) > len(partners) or None in partners:
        scored += [
            TurnScore(_not_expected(turn, index), counts=False)
            for index, turn in enumerate(turns)
            if index not in partners
        ]
    return scored


def _whole_session(golden: ExpectedSession, session: Session) -> TurnScore:
    """Score all calls of a session as one turn; it ends with the session's last turn and stands at its root."""
    [choices] = golden.choices
    return best_of([_as_one_turn(wanted, session, golden.criterion, _history(golden, session)) for wanted in choices])


def _history(golden: ExpectedSession, session: Session) -> CallHistory | None:
    if not golden.asks_history:
        return None
    return CallHistory(session.turns, [turn.calls for turn in golden.turns], complete=not session.incomplete)


def _as_one_turn(wanted: ExpectedTurn, session: Session, judging: Criterion, history: CallHistory | None) -> TurnScore:
    whole = as_one_turn(session)
    if whole is None:
        return score_calls(wanted, None, unseen=_why_missing(judging, session, known=True))
    unseen = Reason.INCOMPLETE if session.incomplete else None
    return score_calls(wanted, whole, unseen=unseen, batches=batches_of(session.turns), history=history)


def _why_missing(judging: Criterion, session: Session, *, known: bool) -> Reason | None:
    """Say why a turn that did not come is not simply wrong, if it is not."""
    if session.incomplete:
        return Reason.INCOMPLETE
    if not known:
        return Reason.INPUT_MISSING
    return Reason.GOLDEN_NEVER_SEEN if judging.missing_turns == "not_evaluated" else None


def _not_expected(turn: Turn, index: int) -> TurnResult:
    verdict = Verdict(None, Label.NOT_EVALUATED, Reason.TURN_NOT_EXPECTED)
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


def _verdict(counted: Sequence[TurnScore], judging: Criterion, *, final: bool) -> Verdict:
    if not counted:
        reason = Reason.NOTHING_EXPECTED if final else Reason.INCOMPLETE
        return Verdict(None, Label.NOT_EVALUATED, reason)
    if all(turn.bounds.most is turn.result.verdict.exact is turn.bounds.least for turn in counted):
        return verdict_of(mean([turn.bounds.least for turn in counted]), judging.exact_threshold)
    bounds = ScoreBounds(mean([turn.bounds.least for turn in counted]), mean([turn.bounds.most for turn in counted]))
    label = label_of(bounds, judging.exact_threshold)
    scores = [exact for turn in counted if (exact := turn.result.verdict.exact) is not None]
    why = None
    if label is Label.NOT_EVALUATED:
        reasons = [call.verdict.reason for turn in counted for call in turn.result.calls]
        reasons += [turn.result.verdict.reason for turn in counted]
        why = next((one for one in reasons if one is not None), Reason.CALLS_NOT_VISIBLE)
    return Verdict(mean(scores) if scores else None, label, why)
