# strands-agents-evals is not installed where types are checked:
# mypy: disable-error-code="import-not-found, misc, no-any-unimported"
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportUntypedBaseClass=false
"""goldspan's metrics as evaluators of Strands Evals, for its `Experiment`.

    Experiment(cases, evaluators=[GoldspanStrandsEvaluator(), GoldspanStrandsEvaluator("tool_parameter_grounding")])

A task returns a `Session` as trajectory. `goldspan.mappers.read_sessions` reads one, too, without this module.
https://strandsagents.com/latest/documentation/docs/user-guide/evals-sdk/quickstart/
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from goldspan.collector_processor.adapters.session_metric import Goldens, MetricAnswer, SessionMetric, session_in
from goldspan.scoring.api import session_of
from goldspan.scoring.criterion import Criterion
from goldspan.scoring.goldens.golden import ExpectedCall, Golden, GoldenTurn
from goldspan.scoring.json_values import is_mapping
from goldspan.scoring.metrics.session_metrics import MetricSource
from goldspan.scoring.sessions import Session, ToolCall
from goldspan.scoring.verdict import MAIN_METRIC

__all__ = ["GoldspanStrandsEvaluator"]

try:
    from strands_evals.evaluators import Evaluator
    from strands_evals.types.evaluation import NOT_APPLICABLE, EvaluationData, EvaluationOutput
    from strands_evals.types.trace import Session as StrandsSession
except ImportError as error:
    raise ImportError(
        f"goldspan.collector_processor.adapters.strands_evals needs strands-agents-evals ({error}): "
        "pip install 'goldspan[strands-evals]'"
    ) from error


class GoldspanStrandsEvaluator(Evaluator):
    """One metric of goldspan's, named like it in reports. It calls no model, unless the metric is a judge.

    What is expected is the case's `expected_trajectory`: the calls of the whole session, a list of turns, names of
    tools, or a `Session` that is repeated literally. Metrics such as `tool_parameter_grounding` expect nothing.
    """

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

        `goldens` (a golden set, or its file or folder) are for cases without an expected trajectory, found by the id of
        the session. Without `include_values`, reasons name no values of arguments.
        Raises CriterionError, GoldenFileError and MetricError.
        """
        self._metric = SessionMetric(metric, criterion=criterion, goldens=goldens, include_values=include_values)
        super().__init__(name=name or self._metric.name)

    def evaluate(self, evaluation_case: EvaluationData) -> list[EvaluationOutput]:
        """Score the trajectory of a case: one output, with turns and calls in its `metadata`.

        Without a score the label is `not_applicable`. Such a case passes if there was nothing to evaluate, and fails if
        what should be evaluated was not captured.
        """
        trajectory = evaluation_case.actual_trajectory
        if trajectory is None:
            reason = "there is no trajectory: return {'output': ..., 'trajectory': session} from the task"
            return [EvaluationOutput(score=0.0, test_pass=False, reason=reason, label=NOT_APPLICABLE)]
        answer = self._metric.score(_session(trajectory), _expected(evaluation_case.expected_trajectory))
        return [_output(answer)]


def _output(answer: MetricAnswer) -> EvaluationOutput:
    label = "scored" if answer.label is None else answer.label.value
    return EvaluationOutput(
        score=0.0 if answer.score is None else answer.score,
        test_pass=answer.passed,
        reason=answer.explanation,
        label=NOT_APPLICABLE if answer.score is None else label,
        metadata=answer.details,
    )


def _session(trajectory: Any) -> Session:
    """Return a session: of a `Session`, of the tool uses of Strands' extractor, or of anything with spans."""
    if isinstance(trajectory, list) and trajectory and all(is_mapping(one) and "name" in one for one in trajectory):
        return session_of([ToolCall(str(use["name"]), _arguments(use), error=_error(use)) for use in trajectory])
    return session_in(trajectory)


def _expected(trajectory: Any) -> Any:
    """Return a golden in a form that `score_session` takes; None: the case expects nothing."""
    if (recorded := _recorded(trajectory)) is not None:
        turns = session_in(recorded).turns
        return Golden(turns=tuple(GoldenTurn(tuple(_literal(call) for call in turn.calls)) for turn in turns))
    if isinstance(trajectory, list):
        return [ExpectedCall(one) if isinstance(one, str) else one for one in trajectory]
    return trajectory


def _recorded(trajectory: Any) -> StrandsSession | None:
    """Return the session that is to be repeated: itself, alone in a list, or as the pairs that `Case` makes of it."""
    if isinstance(trajectory, list) and len(trajectory) == 1:
        trajectory = trajectory[0]
    elif isinstance(trajectory, list) and trajectory and all(isinstance(one, tuple) for one in trajectory):
        trajectory = StrandsSession.model_validate(dict(trajectory))
    return trajectory if isinstance(trajectory, StrandsSession) else None


def _literal(call: ToolCall) -> ExpectedCall:
    return ExpectedCall(call.name, call.arguments or {}, literal=True)


def _arguments(use: Mapping[str, Any]) -> Mapping[str, Any]:
    given = next((use[name] for name in ("input", "arguments", "args") if is_mapping(use.get(name))), None)
    return {} if given is None else given


def _error(use: Mapping[str, Any]) -> str | None:
    return "error" if use.get("is_error") else None
