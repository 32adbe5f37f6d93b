"""A result as text that says what differs, for a test's failure message. Values are shown: it stays on this machine."""

from __future__ import annotations

from collections.abc import Iterator

from goldspan.scoring.explanation import REASONS, counted, explain_call, explain_session, turn_name
from goldspan.scoring.json_values import shown_name
from goldspan.scoring.results import (
    CallResult,
    Label,
    MetricVerdict,
    Reason,
    RunResult,
    SessionResult,
    TurnResult,
    Verdict,
)

_MOST_SESSIONS = 50


def difference_of(run: RunResult) -> str:
    """Say which sessions passed, and of the others what was wrong with which turn, tool and argument."""
    return "\n".join(_lines(run))


def _lines(run: RunResult) -> Iterator[str]:
    labels = [session.verdict.label for session in run.sessions]
    yield (
        f"{counted(len(labels), 'session')}: {labels.count(Label.PASS)} passed, {labels.count(Label.FAIL)} failed, "
        f"{labels.count(Label.NOT_EVALUATED)} not evaluated"
    )
    if not labels:
        yield "nothing was recognised: no session in what was read"
    interesting = [session for session in run.sessions if _is_interesting(session)]
    for session in interesting[:_MOST_SESSIONS]:
        yield from _session(session)
    if len(interesting) > _MOST_SESSIONS:
        yield f"... and {counted(len(interesting) - _MOST_SESSIONS, 'session')} more"
    for repeat in run.repeats:
        yield f"{_head(repeat.verdict)} golden {shown_name(repeat.golden.key)}: {repeat}"
    for golden in run.never_seen[:_MOST_SESSIONS]:
        yield f"never seen: golden {shown_name(golden.key)}{f' of {golden.golden_set}' if golden.golden_set else ''}"
    if len(run.never_seen) > _MOST_SESSIONS:
        yield f"... and {counted(len(run.never_seen) - _MOST_SESSIONS, 'golden')} more"
    for problem in run.problems[:_MOST_SESSIONS]:
        yield f"problem: {problem}"


def _is_interesting(session: SessionResult) -> bool:
    """Whether there is more to say than that it passed, or that no golden wants it."""
    if session.verdict.reason is Reason.NO_GOLDEN:
        return False
    beside = any(one.verdict.label not in {None, Label.PASS} for one in session.metrics)
    return beside or session.verdict.label is not Label.PASS or any(_has_more(turn) for turn in session.turns)


def _has_more(turn: TurnResult) -> bool:
    verdicts = [turn.verdict, *(call.verdict for call in turn.calls)]
    return bool(turn.unexpected or turn.rejected) or any(map(_said, verdicts))


def _said(verdict: Verdict) -> bool:
    return verdict.label is not Label.PASS and verdict.reason is not Reason.NOTHING_EXPECTED


def _session(result: SessionResult) -> Iterator[str]:
    name = (result.session.id if result.session else "") or (result.golden.key if result.golden else "")
    yield f"{_head(result.verdict)} session {shown_name(name) if name else 'without id'}: {explain_session(result)}"
    for metric in result.metrics:
        verdict = metric.verdict
        if verdict.label is not None and verdict.label is not Label.PASS:
            yield f"  {_head(verdict)} {metric.name}: {verdict.explanation or 'no score'}"
    for turn in result.turns:
        if _has_more(turn):
            yield f"  {_head(turn.verdict)} {turn_name(turn)}{_reason(turn)}"
            if turn.answer is not None and turn.answer.words:
                yield f"    {turn.answer.words}"
            yield from (f"    {line}" for line in _calls(turn))


def _reason(turn: TurnResult) -> str:
    if turn.turn is None:
        return ": never seen"
    return "" if turn.verdict.reason is None else f": {REASONS[turn.verdict.reason]}"


def _calls(turn: TurnResult) -> Iterator[str]:
    for call in turn.calls:
        if _said(call.verdict) or call.extra_arguments:
            yield f"{_head(call.verdict)} {_name(call)}: {explain_call(call, include_values=True)}"
    near = {call.actual_index for call in turn.calls if call.missing}
    for call in turn.unexpected:
        if call.actual_index in near and call.violates is None:
            continue
        head = "extra" if call.violates is None else _head(call.verdict)
        yield f"{head} {_name(call)}: {explain_call(call, include_values=True)}"
    for request in turn.rejected:
        yield f"extra {shown_name(request.name)}: requested, never executed"


def _name(call: CallResult) -> str:
    one = call.expected or call.actual
    return "" if one is None else shown_name(one.name)


def _head(verdict: Verdict | MetricVerdict) -> str:
    if verdict.label is Label.PASS:
        return "pass"
    score = "" if verdict.score is None else f" {verdict.score:.3g}"
    return f"{'FAIL' if verdict.label is Label.FAIL else '????'}{score}"
