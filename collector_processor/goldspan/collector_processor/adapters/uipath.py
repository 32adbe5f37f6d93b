# uipath is not installed where types are checked:
# mypy: disable-error-code="import-not-found, misc, no-any-unimported"
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportUntypedBaseClass=false
"""goldspan's metrics as an evaluator of UiPath, for `uipath eval`.

UiPath loads an evaluator from a file of the project, `evaluations/evaluators/custom/goldspan_evaluator.py`:

    from goldspan.collector_processor.adapters.uipath import GoldspanUiPathEvaluator

https://uipath.github.io/uipath-python/eval/custom_evaluators/
"""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec.structs import replace
from pydantic import Field, PrivateAttr

from goldspan.collector_processor.adapters.session_metric import SessionMetric, session_in
from goldspan.scoring.messages import as_text
from goldspan.scoring.sessions import Capture, Content, Session
from goldspan.scoring.verdict import MAIN_METRIC, Reason

__all__ = ["GoldspanUiPathEvaluator"]

try:
    from uipath.eval.evaluators import BaseEvaluator
    from uipath.eval.evaluators.base_evaluator import (
        BaseEvaluationCriteria,
        BaseEvaluatorConfig,
        BaseEvaluatorJustification,
    )
    from uipath.eval.models import ErrorEvaluationResult, EvaluationResult, NumericEvaluationResult, WorkloadExecution
except ImportError as error:
    raise ImportError(
        f"goldspan.collector_processor.adapters.uipath needs uipath ({error}): pip install 'goldspan[uipath]'"
    ) from error


class GoldspanEvaluationCriteria(BaseEvaluationCriteria):
    """What is expected of one evaluation; nothing for metrics that need no golden."""

    tool_calls: list[Any] | None = None
    """The calls, as `{"name": ..., "args": {...}}`, or a list of such calls for each turn."""


class GoldspanEvaluatorConfig(BaseEvaluatorConfig[GoldspanEvaluationCriteria]):
    """Which metric is scored, and how."""

    name: str = "GoldspanEvaluator"
    metric: str = MAIN_METRIC
    """A name, or an import path `pkg.module:function`."""
    criterion: dict[str, Any] | None = None
    include_values: bool = True
    default_evaluation_criteria: GoldspanEvaluationCriteria | None = Field(default_factory=GoldspanEvaluationCriteria)


class GoldspanJustification(BaseEvaluatorJustification):
    """Why a score is what it is."""

    explanation: str
    turns: list[dict[str, Any]]
    """Score, label and explanation of each turn and its calls."""


class GoldspanUiPathEvaluator(
    BaseEvaluator[GoldspanEvaluationCriteria, GoldspanEvaluatorConfig, GoldspanJustification]
):
    """One metric of goldspan's over the trace of an evaluation. It calls no model, unless the metric is a judge."""

    _metric: SessionMetric = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Find the metric and read the criterion. Raises CriterionError and MetricError."""
        super().model_post_init(context)
        config = self.evaluator_config
        self._metric = SessionMetric(config.metric, criterion=config.criterion, include_values=config.include_values)

    @classmethod
    def get_evaluator_id(cls) -> str:
        """Return the id of this kind of evaluator."""
        return "goldspan"

    async def evaluate(
        self, workload_execution: WorkloadExecution, evaluation_criteria: GoldspanEvaluationCriteria
    ) -> EvaluationResult:
        """Score the trace. The agent's input stands for the user's message where the trace has none.

        Nothing to evaluate scores 1, as UiPath's own evaluators do; what was not captured is an error result.
        """
        session = _session(workload_execution)
        answer = await asyncio.to_thread(self._metric.score, session, evaluation_criteria.tool_calls)
        if answer.score is None and answer.reason is not Reason.NOTHING_EXPECTED:
            return ErrorEvaluationResult(details=answer.explanation)
        calls = [f"{call.name}({as_text(call.arguments)})" for call in session.calls]
        justification = GoldspanJustification(
            expected=as_text(evaluation_criteria.tool_calls) if evaluation_criteria.tool_calls is not None else "",
            actual="; ".join(calls) if self.evaluator_config.include_values else "",
            explanation=answer.explanation,
            turns=answer.details.get("turns", []),
        )
        return NumericEvaluationResult(
            score=1.0 if answer.score is None else answer.score, details=self.validate_justification(justification)
        )


def _session(execution: WorkloadExecution) -> Session:
    """Return the session of an execution, with the agent's input as the first user message."""
    session = session_in(execution.workload_trace)
    if not session.turns or session.turns[0].user_text.capture is Capture.CAPTURED or not execution.agent_input:
        return session
    first = replace(session.turns[0], user_text=Content(as_text(execution.agent_input), Capture.CAPTURED))
    return replace(session, turns=(first, *session.turns[1:]))
