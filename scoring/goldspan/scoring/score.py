"""Scores: of a turn, of a session against its golden, and of many sessions against many goldens.

Nothing here reads a clock, a file or the network, except that goldens may be given to `score_sessions` by their path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goldspan.scoring.api import (
    ActualCalls,
    ExpectedCalls,
    GivenGolden,
    GivenSession,
    actual_turn,
    expected_calls,
    golden_of,
    session_of,
)
from goldspan.scoring.call_history import CallHistory
from goldspan.scoring.call_match import ScoreBounds
from goldspan.scoring.criterion import DEFAULT, Criterion
from goldspan.scoring.expected_turn import ExpectedSession, ExpectedTurn, expected_session, expected_turn
from goldspan.scoring.goldens.golden import Golden, GoldenSet
from goldspan.scoring.goldens.golden_index import Ambiguous, GoldenIndex, split_runs, with_golden_tool_names
from goldspan.scoring.results import CallResult, Label, Reason, RunResult, SessionResult, TurnResult, Verdict
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
from goldspan.scoring.type_guards import is_mapping

if TYPE_CHECKING:
    from goldspan.scoring.metrics.session_metrics import MetricSource

GoldenSource = GoldenSet | str | Path | Mapping[str, Any]
"""A golden set, a file or a directory of them, or a mapping that looks like a file."""


def score_turn(
    expected: ExpectedCalls, actual: ActualCalls, criterion: Criterion | Mapping[str, Any] | None = None
) -> TurnResult:
    """Score what one turn called against what it should have called.

    Calls are values or plain mappings: `{"name": "get_weather", "args": {"city": "Paris"}}`. `criterion` replaces what
    expected calls have as their own; without it those hold, else the default one.

    Raises:
        CriterionError: `criterion` is wrong.
        MatcherError: an expected value is a wrong matcher.
        TypeError: something given is no call.

    """
    override = _override(criterion)
    wanted, turn = expected_turn(expected_calls(expected), override or DEFAULT, override), actual_turn(actual)
    history = CallHistory([turn], [wanted.calls]) if wanted.asks_history else None
    return score_calls(wanted, turn, turn_index=0, history=history).result


def score_session(
    golden: GivenGolden | Ambiguous | None,
    session: GivenSession,
    criterion: Criterion | Mapping[str, Any] | None = None,
    *,
    final: bool = True,
) -> SessionResult:
    """Score one run of a session against its golden.

    A golden is a value, a list of turns (each a list of calls), or one list of calls for the whole session. What
    `GoldenIndex.find` returns is understood: None gives the reason `no_golden`, several goldens `ambiguous_golden`.
    `criterion` replaces every criterion the golden has. `final=False` says that more turns may come: golden turns
    without a turn are then left out, and a golden for the whole session is not judged yet.

    Raises:
        CriterionError: `criterion` is wrong.
        TypeError: something given is no golden or no session.

    """
    override, run = _override(criterion), session_of(session)
    if golden is None or isinstance(golden, Ambiguous):
        reason = Reason.AMBIGUOUS_GOLDEN if golden is not None else Reason.NO_GOLDEN
        if golden is None and run.ambiguous:
            reason = Reason.SESSION_AMBIGUOUS
        return SessionResult(Verdict(None, Label.NOT_EVALUATED, reason), run, None)
    wanted = golden_of(golden)
    run = with_golden_tool_names(run, wanted)
    expected = expected_session(wanted, override)
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
        wanted,
        tuple(turns),
        expected=len(counted),
        evaluated=evaluated,
        criterion=expected.criterion.digest,
    )


def score_sessions(
    sessions: Session | Iterable[Session],
    goldens: GoldenIndex | GoldenSource | Iterable[GoldenSource],
    criterion: Criterion | Mapping[str, Any] | None = None,
    *,
    preset: str | Mapping[str, Any] | None = None,
    metrics: Iterable[MetricSource] = (),
) -> RunResult:
    """Score sessions against the goldens they belong to, by session id or pattern.

    `goldens` is a file or a directory, a golden set or a mapping that looks like one, several of these, or what
    `load_goldens` returns. `criterion` replaces every criterion the goldens have. A session that goes through its
    golden again is scored as another run.

    `preset` scores as another system does: its name, or a mapping of `name` and its options. `metrics` stand beside the
    main one: names, import paths (`pkg.module:function`) or functions of a session and its golden.

    Raises:
        GoldenFileError: the goldens are wrong; every mistake is named.
        CriterionError: `criterion` or `preset` is wrong.
        MetricError: there is no such metric.

    """
    from goldspan.scoring.run import scorer_of  # noqa: PLC0415 - written in terms of this module

    scorer, index = scorer_of(_override(criterion), preset, metrics), _index(goldens)
    results: list[SessionResult] = []
    for session in [sessions] if isinstance(sessions, Session) else sessions:
        golden = index.find(session)
        runs = split_runs(session, golden) if isinstance(golden, Golden) else [session]
        results += [scorer.score(golden, run) for run in runs]
    return RunResult(
        tuple(sorted(results, key=lambda result: result.golden is None)),
        index.never_seen(result.golden for result in results if result.golden is not None),
        golden_sets={one.label: one.digest for one in index.sets},
    )


def _override(criterion: Criterion | Mapping[str, Any] | None) -> Criterion | None:
    return None if criterion is None else Criterion.parse(criterion)


def _index(goldens: GoldenIndex | GoldenSource | Iterable[GoldenSource]) -> GoldenIndex:
    if isinstance(goldens, GoldenIndex):
        return goldens
    from goldspan.scoring.goldens.loading import load_goldens  # noqa: PLC0415 - brings the parsers of golden files

    return load_goldens(*([goldens] if isinstance(goldens, GoldenSet | str | Path) or is_mapping(goldens) else goldens))


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
        unexpected=tuple(
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
