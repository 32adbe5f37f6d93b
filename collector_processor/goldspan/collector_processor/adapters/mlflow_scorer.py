# mlflow is not installed where types are checked:
# mypy: disable-error-code="import-not-found, misc, no-any-unimported"
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportUntypedBaseClass=false
"""goldspan's metrics as scorers of MLflow, for `mlflow.genai.evaluate`.

    mlflow.genai.evaluate(data=traces, scorers=[GoldspanScorer(), GoldspanScorer("tool_parameter_grounding=0.9")])

What is expected of a trace are its `expectations["expected_tool_calls"]`, as for MLflow's own `ToolCallCorrectness`.
https://mlflow.org/docs/latest/genai/eval-monitor/scorers/custom/
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, TracesData
from pydantic import PrivateAttr

from goldspan.collector_processor.adapters.session_metric import Goldens, MetricAnswer, SessionMetric, session_in
from goldspan.scoring.criterion import Criterion
from goldspan.scoring.metrics.session_metrics import MetricSource
from goldspan.scoring.sessions import Session
from goldspan.scoring.verdict import HARMLESS_REASONS, MAIN_METRIC

__all__ = ["GoldspanScorer"]

try:
    from mlflow.entities import AssessmentSource, Feedback, Trace
    from mlflow.genai.scorers import Scorer
except ImportError as error:
    raise ImportError(
        f"goldspan.collector_processor.adapters.mlflow_scorer needs mlflow ({error}): pip install 'goldspan[mlflow]'"
    ) from error

_SESSION = "mlflow.trace.session"
_EXPECTED = "expected_tool_calls"
_SOURCE = AssessmentSource(source_type="CODE", source_id="goldspan")


class GoldspanScorer(Scorer):
    """One metric of goldspan's. It calls no model, unless the metric is a judge."""

    _metric: SessionMetric = PrivateAttr()

    def __init__(
        self,
        metric: MetricSource = MAIN_METRIC,
        *,
        criterion: Criterion | Mapping[str, Any] | None = None,
        goldens: Goldens = None,
        include_values: bool = True,
        name: str | None = None,
    ) -> None:
        """Choose a metric: a name or an import path, each with `=THRESHOLD` or without, or a function.

        `goldens` (a golden set, or its file or folder) are for traces without expectations, found by the id of the
        session. Without `include_values`, rationales name no values of arguments.
        Raises CriterionError, GoldenFileError and MetricError.
        """
        chosen = SessionMetric(metric, criterion=criterion, goldens=goldens, include_values=include_values)
        super().__init__(name=name or chosen.name)
        self._metric = chosen

    def __call__(self, *, trace: Trace, expectations: Mapping[str, Any] | None = None) -> list[Feedback]:
        """Score a trace as one session: one feedback; none where there was nothing to evaluate.

        A feedback has the score as its value, the label in its metadata, and an error where what should be evaluated
        was not captured.
        """
        answer = self._metric.score(session_of(trace), (expectations or {}).get(_EXPECTED))
        if answer.reason in HARMLESS_REASONS:
            return []
        return [self._feedback(answer)]

    def _feedback(self, answer: MetricAnswer) -> Feedback:
        label = {} if answer.label is None else {"label": answer.label.value}
        error = answer.explanation if answer.score is None else None
        return Feedback(
            name=self.name,
            value=answer.score,
            error=error,
            source=_SOURCE,
            rationale=answer.explanation,
            metadata=label,
        )


def session_of(trace: Trace) -> Session:
    """Return what happened in a trace, with the session that MLflow names."""
    spans = [span.to_otel_proto() for span in trace.data.spans]
    session = session_in(TracesData(resource_spans=[ResourceSpans(scope_spans=[ScopeSpans(spans=spans)])]))
    named = (trace.info.trace_metadata or {}).get(_SESSION)
    return session if named is None else replace(session, id=named)
