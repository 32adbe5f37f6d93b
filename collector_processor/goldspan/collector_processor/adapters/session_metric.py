"""One metric of one execution of an agent: what the evaluators of other systems ask goldspan for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from goldspan.collector_processor.daemon_threads import MetricWorkers
from goldspan.mappers import read_sessions
from goldspan.scoring.api import GivenGolden, GoldenSource, score_session
from goldspan.scoring.criterion import Criterion
from goldspan.scoring.goldens.golden import GoldenIndex
from goldspan.scoring.goldens.loading import load_goldens
from goldspan.scoring.metrics.session_metrics import MetricSource, choose_metric, score_metrics
from goldspan.scoring.results import SessionResult, explain
from goldspan.scoring.sessions import NO_CONTENT, Capture, Content, JsonValue, Session
from goldspan.scoring.verdict import HARMLESS_REASONS, MAIN_METRIC, REASON_TEXT, Finding, Label, MetricResult, Reason

Goldens = GoldenIndex | GoldenSource | None
"""Goldens in any form that `load_goldens` takes; None: each execution comes with what is expected of it."""


class MetricAnswer(NamedTuple):
    """What a metric says of an execution."""

    score: float | None
    """None: not evaluated."""
    label: Label | None
    """None: it has a score and no threshold."""
    explanation: str
    details: dict[str, JsonValue]
    """The turns and calls, as JSON."""
    reason: Reason | None = None
    """Why it was not evaluated."""

    @property
    def passed(self) -> bool:
        """Whether it passed, or has no threshold, or there was nothing to evaluate."""
        return self.label in (Label.PASS, None) or self.reason in HARMLESS_REASONS


class SessionMetric:
    """A metric by name, as the settings of an evaluator give it."""

    def __init__(
        self,
        metric: MetricSource = MAIN_METRIC,
        *,
        criterion: Criterion | Mapping[str, Any] | None = None,
        goldens: Goldens = None,
        include_values: bool = True,
    ) -> None:
        """Find the metric: a name or an import path, each with `=THRESHOLD` or without, or a metric.

        Raises CriterionError, GoldenFileError and MetricError for what is wrong with the settings.
        """
        self._chosen = None if metric == MAIN_METRIC else choose_metric(metric)
        self.name = MAIN_METRIC if self._chosen is None else self._chosen.metric.name
        self._criterion = None if criterion is None else Criterion.parse(criterion)
        self._goldens = goldens if goldens is None or isinstance(goldens, GoldenIndex) else load_goldens(goldens)
        self._include_values = include_values
        self._run = MetricWorkers()

    def score(self, session: Session, expected: GivenGolden | None) -> MetricAnswer:
        """Score a session against what is expected of it, or against its golden.

        What the metric raises is an answer without score. Raises TypeError if `expected` is no golden.
        """
        golden = expected if expected is not None or self._goldens is None else self._goldens.find(session)
        own = score_session(golden, session, self._criterion)
        if self._chosen is None:
            return self._of_main(own)
        results = score_metrics(own, (self._chosen,), override=self._criterion, run=self._run)
        if not results:
            words = f"not evaluated: {REASON_TEXT[Reason.NO_GOLDEN]}"
            return MetricAnswer(None, Label.NOT_EVALUATED, words, {}, Reason.NO_GOLDEN)
        return self._of_metric(next(result for result in results if result.name == self.name))

    def _of_main(self, result: SessionResult) -> MetricAnswer:
        verdict = result.verdict
        details = [
            {
                "score": turn.score,
                "label": turn.label,
                "explanation": explain(turn),
                "calls": [
                    {
                        "tool": call.tool,
                        "score": call.score,
                        "label": call.label,
                        "explanation": explain(call, include_values=self._include_values),
                    }
                    for call in (*turn.calls, *turn.unexpected_calls)
                ],
            }
            for turn in result.turns
        ]
        calls = [call for turn in result.turns for call in (*turn.calls, *turn.unexpected_calls)]
        failed = [call for call in calls if call.label is Label.FAIL]
        wrong = [f"{call.tool}: {explain(call, include_values=self._include_values)}" for call in failed]
        words = "; ".join([explain(result), *wrong])
        return MetricAnswer(verdict.score, verdict.label, words, {"turns": details}, verdict.reason)

    def _of_metric(self, result: MetricResult) -> MetricAnswer:
        verdict = result.verdict
        details = [
            {
                "score": turn.score,
                "label": turn.label,
                "calls": [
                    {
                        "tool": call.call.name,
                        "score": call.score,
                        "label": call.label,
                        "findings": list(map(self._finding, call.failures)),
                    }
                    for call in turn.calls
                ],
            }
            for turn in result.turns
        ]
        words = (verdict.detailed if self._include_values else "") or verdict.explanation
        if not words and verdict.reason is not None:
            words = f"not evaluated: {REASON_TEXT[verdict.reason]}"
        return MetricAnswer(verdict.score, verdict.label, words, {"turns": details}, verdict.reason)

    def _finding(self, finding: Finding) -> dict[str, JsonValue]:
        message = finding.words(include_values=self._include_values)
        return {"path": finding.path, "kind": finding.kind, "message": message}


def content_of(value: object) -> Content:
    """Return what an evaluation system recorded; None is nothing."""
    return NO_CONTENT if value is None else Content(value, Capture.CAPTURED)


def session_in(records: object) -> Session:
    """Return the session of one execution: all turns that are found in its records, in the order of time."""
    sessions = read_sessions(records)
    if len(sessions) == 1:
        return sessions[0]
    turns = sorted((turn for session in sessions for turn in session.turns), key=lambda turn: turn.start)
    return Session(sessions[0].id if sessions else "", tuple(turns))
