"""Score one run of a session against its golden: join its turns with the golden's turns, and score each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, product
from typing import Literal, NamedTuple

from goldspan.scoring.align.alignment import Pair, align
from goldspan.scoring.call_context import CallHistory
from goldspan.scoring.call_match import ScoreBounds
from goldspan.scoring.comparison import ONE
from goldspan.scoring.criterion import Criterion
from goldspan.scoring.goldens.golden import MOST_ALTERNATIVES, Golden, GoldenTurn
from goldspan.scoring.goldens.golden_index import Ambiguous, is_turn_of, user_texts, with_golden_tool_names
from goldspan.scoring.results import CallResult, SessionResult, TurnResult
from goldspan.scoring.sessions import Session, Turn, as_one_turn, batches_of
from goldspan.scoring.turn_score import (
    ExpectedTurn,
    TurnScore,
    best_alternative,
    combine_forbidden,
    expected_turn,
    label_of,
    mean,
    score_calls,
    verdict_of,
    with_forbidden,
)
from goldspan.scoring.verdict import Label, Reason, Verdict

# Join the turns of a session with the turns of its golden.


class JoinedTurns(NamedTuple):
    """For each golden turn, the position of its turn in the session."""

    partners: tuple[int | None, ...]
    unknown: frozenset[int] = frozenset()
    """Golden turns without a partner that may be a remaining turn whose key is unknown."""


def join_turns(
    golden: Sequence[GoldenTurn], turns: Sequence[Turn], how: Literal["auto", "key", "index"]
) -> JoinedTurns:
    """Join by `index`, by `key` (turn id, else user text), or by `auto`.

    `auto` first joins the turns that have a key on both sides. It joins golden turns without a key, and turns whose key
    was not recorded, by their order between the joined turns. Without any key, this is the same as `index`.
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
    remaining = [turn for index, turn in enumerate(turns) if index not in partners]
    unknown = {
        index
        for index, expected in enumerate(golden)
        if partners[index] is None and any(_may_be(expected, turn) for turn in remaining)
    }
    return JoinedTurns(tuple(partners), frozenset(unknown))


def _join_by_key(golden: Sequence[GoldenTurn], turns: Sequence[Turn], partners: list[int | None]) -> None:
    """Join turns that have the golden's keys: as many as possible in order, then the others."""
    for ordered in (True, False):
        rows = [index for index, partner in enumerate(partners) if partner is None and golden[index].has_key]
        columns = [index for index in range(len(turns)) if index not in partners]

        def pair_score(row: int, column: int, rows: list[int] = rows, columns: list[int] = columns) -> Pair | None:
            return Pair(ONE) if is_turn_of(golden[rows[row]], turns[columns[column]]) else None

        alignment = align([""] * len(rows), [""] * len(columns), pair_score, ordered=ordered)
        for row, column in zip(rows, alignment.partners, strict=True):
            partners[row] = None if column is None else columns[column]


def _join_by_order(golden: Sequence[GoldenTurn], turns: Sequence[Turn], partners: list[int | None]) -> None:
    """Join the golden turns between two joined turns with the session's turns between them, unless a key differs."""
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
    """Whether no key shows that these are different turns."""
    if expected.turn_id is not None:
        return turn.turn_id is None
    return expected.user is None or not user_texts(turn.user_text)


# Collect what a golden expects of a session.


class ExpectedSession(NamedTuple):
    """What a golden expects of a session."""

    criterion: Criterion
    turns: tuple[GoldenTurn, ...]
    alternatives: tuple[tuple[ExpectedTurn, ...], ...]
    """For each turn its alternatives, the main one first. With `as_one` there is a single turn."""
    as_one: bool
    """All turns of the session are scored as one turn."""
    uses_history: bool
    """An expected value may depend on the result of an earlier call."""


def expected_session(golden: Golden, override: Criterion | None) -> ExpectedSession:
    """Return what a golden expects; `override` replaces its criteria."""
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
    return ExpectedSession(criterion, turns, alternatives, as_one, uses_history)


def _concatenated(parts: Sequence[ExpectedTurn], criterion: Criterion) -> ExpectedTurn:
    """Concatenate the expected calls of several turns; groups of different turns stay separate."""
    numbers: dict[tuple[int, int], int] = {}
    calls = [
        replace(call.expected, group=numbers.setdefault((index, call.expected.group), len(numbers) + 1))
        if call.expected.group
        else call.expected
        for index, part in enumerate(parts)
        for call in part.calls
    ]
    return ExpectedTurn(calls, criterion, [call.criterion for part in parts for call in part.calls], 0)


# Score the turns, then the session.


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
        turns = [_score_as_one_turn(expected, run)] if final else []
    else:
        turns = _score_turns(expected, run, final=final)
    counted = [turn for turn in turns if turn.counts]
    verdict = _verdict(counted, expected.criterion, final=final)
    return SessionResult(
        with_forbidden(verdict, combine_forbidden(turn.forbidden for turn in turns)),
        run,
        golden,
        tuple(turn.result for turn in turns),
        turns_expected=len(counted),
        turns_evaluated=sum(turn.result.verdict.exact is not None for turn in counted),
        criterion=expected.criterion.digest,
    )


def _score_turns(expected: ExpectedSession, session: Session, *, final: bool) -> list[TurnScore]:
    """Score the golden's turns in its order, then add the turns that the golden does not have."""
    turns, scores = session.turns, list[TurnScore]()
    joined = join_turns(expected.turns, turns, expected.criterion.turn_join)
    history = _history(expected, session)
    for index, (alternatives, partner) in enumerate(zip(expected.alternatives, joined.partners, strict=True)):
        if partner is None and not final:
            continue
        turn, unseen = None, Reason.INCOMPLETE if session.incomplete else None
        if partner is None:
            unseen = _why_missing(expected.criterion, session, known=index not in joined.unknown)
        else:
            turn = turns[partner]
        score = best_alternative(
            [score_calls(calls, turn, turn_index=partner, unseen=unseen, history=history) for calls in alternatives]
        )
        if history is not None:
            history.record(index, score.result.aligned_calls())
        scores.append(score)
    joined_turns = set(joined.partners)
    scores += [
        TurnScore(_unexpected_turn(turn, index), counts=False)
        for index, turn in enumerate(turns)
        if index not in joined_turns
    ]
    return scores


def _score_as_one_turn(expected: ExpectedSession, session: Session) -> TurnScore:
    """Score all calls of a session as one turn, which has the root of the session's last turn."""
    [alternatives] = expected.alternatives
    turn = as_one_turn(session)
    unseen = Reason.INCOMPLETE if session.incomplete else None
    if turn is None:
        unseen = _why_missing(expected.criterion, session, known=True)
    history = None if turn is None else _history(expected, session)
    batches = None if turn is None else batches_of(session.turns)
    return best_alternative(
        [score_calls(calls, turn, unseen=unseen, batches=batches, history=history) for calls in alternatives]
    )


def _history(expected: ExpectedSession, session: Session) -> CallHistory | None:
    if not expected.uses_history:
        return None
    return CallHistory(session.turns, [turn.calls for turn in expected.turns], complete=not session.incomplete)


def _why_missing(criterion: Criterion, session: Session, *, known: bool) -> Reason | None:
    """Return why a missing turn is not evaluated; None if it is a failure."""
    if session.incomplete:
        return Reason.INCOMPLETE
    if not known:
        return Reason.INPUT_MISSING
    return Reason.GOLDEN_NEVER_SEEN if criterion.missing_turns == "not_evaluated" else None


def _unexpected_turn(turn: Turn, index: int) -> TurnResult:
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


def _verdict(turns: Sequence[TurnScore], criterion: Criterion, *, final: bool) -> Verdict:
    """Return the verdict on the mean of the turns, by what that mean may become once everything is known."""
    if not turns:
        return Verdict(None, Label.NOT_EVALUATED, Reason.NOTHING_EXPECTED if final else Reason.INCOMPLETE)
    threshold = criterion.exact_threshold
    lowest = mean([turn.bounds.lowest for turn in turns])
    if all(turn.bounds.highest is turn.result.verdict.exact is turn.bounds.lowest for turn in turns):
        return verdict_of(lowest, threshold)
    label = label_of(ScoreBounds(lowest, mean([turn.bounds.highest for turn in turns])), threshold)
    reason = None
    if label is Label.NOT_EVALUATED:
        reasons = [call.verdict.reason for turn in turns for call in turn.result.calls]
        reasons += [turn.result.verdict.reason for turn in turns]
        reason = next((reason for reason in reasons if reason is not None), Reason.CALLS_NOT_VISIBLE)
    scores = [exact for turn in turns if (exact := turn.result.verdict.exact) is not None]
    return Verdict(mean(scores) if scores else None, label, reason)
