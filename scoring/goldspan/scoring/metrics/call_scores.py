"""Scores of single calls put together to the score of a session, for metrics that judge one call after another."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from goldspan.scoring.comparison import share
from goldspan.scoring.json_values import counted, pointer_name
from goldspan.scoring.metric_results import Finding, MetricScore
from goldspan.scoring.sessions import ToolCall
from goldspan.scoring.verdict import REASON_TEXT, Reason

_SHOWN = 3
"""So many findings are in an explanation."""


class CallScore(Struct, frozen=True, gc=False):
    """How a metric judges one call: so many of its parts are right, of so many judged."""

    call: ToolCall
    right: int = 0
    judged: int = 0
    findings: tuple[Finding, ...] = ()
    reason: Reason | None = None
    """Why nothing was judged."""


def score_of_calls(turns: Sequence[Sequence[CallScore]], unit: str) -> MetricScore:
    """Return the score of a session: right parts / judged parts, over all calls. `unit` names a part: `argument`."""
    pooled = _score([call for turn in turns for call in turn], unit)
    return MetricScore(
        pooled.score,
        pooled.explanation,
        pooled.reason,
        [_with_calls(_score(turn, unit), [_score([call], unit) for call in turn]) for turn in turns],
        detailed=pooled.detailed,
    )


def _with_calls(turn: MetricScore, calls: Sequence[MetricScore]) -> MetricScore:
    return MetricScore(turn.score, turn.explanation, turn.reason, calls=calls, detailed=turn.detailed)


def _score(calls: Sequence[CallScore], unit: str) -> MetricScore:
    right, judged = sum([call.right for call in calls]), sum([call.judged for call in calls])
    findings = calls[0].findings if len(calls) == 1 else ()
    if not judged:
        reasons = [call.reason for call in calls if call.reason is not None]
        reason = next((one for one in reasons if one is not Reason.NOTHING_EXPECTED), Reason.NOTHING_EXPECTED)
        words = REASON_TEXT[reason] if reasons and reason is not Reason.NOTHING_EXPECTED else ""
        return MetricScore(None, words, reason, findings=findings)
    head = f"{right} of {counted(judged, unit)}"
    wrong = [(call.call, finding) for call in calls for finding in call.findings if finding.failed]
    words = _explained(head, wrong, include_values=False) if wrong else head
    detailed = _explained(head, wrong, include_values=True) if wrong else head
    return MetricScore(share(right, judged), words, findings=findings, detailed=detailed)


def _explained(head: str, wrong: Sequence[tuple[ToolCall, Finding]], *, include_values: bool) -> str:
    first = [f"{_place(call, one)}: {one.words(include_values=include_values)}" for call, one in wrong[:_SHOWN]]
    more = f"; and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
    return f"{head}; {'; '.join(first)}{more}"


def _place(call: ToolCall, finding: Finding) -> str:
    return f"{call.name}.{pointer_name(finding.path)}" if finding.path else call.name
