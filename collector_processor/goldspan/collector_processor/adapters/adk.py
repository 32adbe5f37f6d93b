# google-adk holds the OpenTelemetry SDK below the newest, so it is not installed where types are checked:
# mypy: disable-error-code="import-not-found, import-untyped, misc"
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportUntypedBaseClass=false
"""`tool_parameter_match` as a metric of Google ADK's evaluation: `adk eval`, the dev server, `AgentEvaluator`.

Importing this module registers the metric by its name for every eval of the process. ADK has no entry points, so import
it in the agent's module. The function `tool_parameter_match` does the same as a custom metric, for `custom_metrics`.

ADK passes invocations, which are scored by the rules for spans. They lack one thing that spans have: whether a call
failed.
https://google.github.io/adk-docs/evaluate/
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from goldspan.collector_processor.adapters.session_metric import content_of
from goldspan.scoring.api import score_session
from goldspan.scoring.criterion import Criterion
from goldspan.scoring.errors import CriterionError
from goldspan.scoring.goldens.benchmarks import HAND_OFFS
from goldspan.scoring.goldens.golden import ExpectedCall, Golden, GoldenTurn
from goldspan.scoring.results import SessionResult, TurnResult, explain
from goldspan.scoring.sessions import Session, ToolCall, Turn
from goldspan.scoring.verdict import Label, Verdict

__all__ = ["tool_parameter_match"]

try:
    from google.adk.evaluation.eval_case import ConversationScenario, Invocation, InvocationEvents, get_all_tool_calls
    from google.adk.evaluation.eval_metrics import (
        BaseCriterion,
        EvalMetric,
        EvalStatus,
        Interval,
        MetricInfo,
        MetricValueInfo,
    )
    from google.adk.evaluation.eval_rubrics import RubricScore
    from google.adk.evaluation.evaluator import EvaluationResult, Evaluator, PerInvocationResult
    from google.adk.evaluation.metric_evaluator_registry import DEFAULT_METRIC_EVALUATOR_REGISTRY
except ImportError as error:
    raise ImportError(
        f"goldspan.collector_processor.adapters.adk needs google-adk with its evaluation ({error}): "
        "pip install 'goldspan[adk]'"
    ) from error

METRIC_NAME = "tool_parameter_match"

_STATUS = {Label.PASS: EvalStatus.PASSED, Label.FAIL: EvalStatus.FAILED, Label.NOT_EVALUATED: EvalStatus.NOT_EVALUATED}
_FIELDS_OF_ADK = frozenset(BaseCriterion.model_fields) - frozenset(Criterion.model_fields)
"""Fields of ADK's criteria that are for ADK's own metrics."""


class ToolParameterMatchEvaluator(Evaluator):
    """ADK makes one for each criterion named `tool_parameter_match`."""

    def __init__(self, eval_metric: EvalMetric) -> None:
        """Read the criterion. Raises CriterionError, which names every unknown field and wrong value."""
        self._criterion = criterion_of(eval_metric)

    def evaluate_invocations(
        self,
        actual_invocations: list[Invocation],
        expected_invocations: list[Invocation] | None = None,
        conversation_scenario: ConversationScenario | None = None,  # noqa: ARG002 - scenarios have no goldens
    ) -> EvaluationResult:
        """Score one eval case, as `tool_parameter_match` does."""
        return _evaluation(actual_invocations, expected_invocations, self._criterion)


def tool_parameter_match(
    eval_metric: EvalMetric,
    actual_invocations: list[Invocation],
    expected_invocations: list[Invocation] | None = None,
    conversation_scenario: ConversationScenario | None = None,  # noqa: ARG001 - scenarios have no goldens
) -> EvaluationResult:
    """Score one eval case, as a custom metric (`custom_metrics`) of any name.

    Each invocation gets the score and the verdict of its turn, or with `scope: session` those of the session. The case
    gets those of the session. The explanations are the `rationale` of rubric scores. An invocation without expected
    calls, and a case without an expected conversation, are not evaluated. Raises CriterionError if the criterion is
    wrong; every unknown field and wrong value is named.
    """
    return _evaluation(actual_invocations, expected_invocations, criterion_of(eval_metric))


def criterion_of(eval_metric: EvalMetric) -> Criterion:
    """Read the criterion of ADK's configuration, with fields in camelCase or snake_case.

    Turns are joined by position, as ADK pairs invocations, unless the criterion has `turn_join: key`. Raises
    CriterionError if it has an unknown field or a wrong value.
    """
    adk_criterion = eval_metric.criterion
    fields: Mapping[str, Any] = {}
    if adk_criterion is not None:
        fields = {
            name: value
            for name, value in adk_criterion.model_dump(exclude_unset=True).items()
            if name not in _FIELDS_OF_ADK
        }
    elif eval_metric.threshold is not None:
        fields = {"threshold": eval_metric.threshold}
    try:
        criterion = Criterion(**fields)
    except CriterionError as error:
        lines = str(error).splitlines()
        message = "\n".join(f"criteria.{eval_metric.metric_name}.{line}" for line in lines)
        raise CriterionError(message, error.mistakes) from None
    return criterion if criterion.turn_join == "key" else criterion.model_copy(update={"turn_join": "index"})


def golden_of(invocations: Iterable[Invocation]) -> Golden:
    """Convert the expected invocations to a golden. Values are literal, as in golden sets imported from eval sets."""
    return Golden(turns=tuple(_golden_turn(invocation) for invocation in invocations))


def session_of(invocations: Iterable[Invocation]) -> Session:
    """Convert invocations to a session. The calls of one event are one parallel batch: one model response."""
    return Session("", tuple(_turn(invocation) for invocation in invocations))


def _evaluation(
    actual: Sequence[Invocation], expected: Sequence[Invocation] | None, criterion: Criterion
) -> EvaluationResult:
    golden = None if expected is None else golden_of(expected)
    result = score_session(golden, session_of(actual), criterion)
    return EvaluationResult(
        overall_score=result.verdict.score,
        overall_eval_status=_STATUS[result.verdict.label],
        overall_rubric_scores=[_rationale("session", result.verdict, explain(result))],
        per_invocation_results=[
            PerInvocationResult(
                actual_invocation=invocation,
                expected_invocation=expected[index] if expected is not None and index < len(expected) else None,
                score=verdict.score,
                eval_status=_STATUS[verdict.label],
                rubric_scores=rationales,
            )
            for index, (invocation, (verdict, rationales)) in enumerate(
                zip(actual, _verdicts_of_invocations(result, len(actual)), strict=True)
            )
        ],
    )


def _verdicts_of_invocations(result: SessionResult, count: int) -> Iterator[tuple[Verdict, list[RubricScore]]]:
    """Yield the verdict and the explanations of each invocation.

    If all turns are scored as one, each has the same verdict: ADK's AgentEvaluator takes their mean.
    """
    turns = {turn.turn_index: turn for turn in result.turns}
    whole = next((turn for turn in result.turns if turn.turn is not None and turn.turn_index is None), None)
    for index in range(count):
        turn = turns.get(index, whole)
        if turn is None:
            yield result.verdict, [_rationale("turn", result.verdict, explain(result))]
        else:
            yield turn.verdict, list(_turn_rationales(turn))


def _turn_rationales(turn: TurnResult) -> Iterator[RubricScore]:
    """Yield explanations of a turn and of each of its calls, with values, which ADK shows too."""
    yield _rationale("turn", turn.verdict, explain(turn))
    for call in (*turn.calls, *turn.unexpected_calls):
        yield _rationale(call.tool, call.verdict, explain(call, include_values=True))


def _rationale(rubric_id: str, verdict: Verdict, explanation: str) -> RubricScore:
    return RubricScore(rubric_id=rubric_id, score=verdict.score, rationale=explanation)


def _golden_turn(invocation: Invocation) -> GoldenTurn:
    calls = (call for batch in _batches(invocation.intermediate_data) for call in batch)
    return GoldenTurn(
        tuple(ExpectedCall(call.name or "", call.args or {}, literal=True) for call in calls),
        user=_user_text(invocation),
    )


def _turn(invocation: Invocation) -> Turn:
    return Turn(
        tuple(
            ToolCall(call.name or "", call.args or {}, call_id=call.id, batch=number if len(batch) > 1 else 0)
            for number, batch in enumerate(_batches(invocation.intermediate_data), start=1)
            for call in batch
        ),
        turn_id=invocation.invocation_id or None,
        user_text=content_of(_user_text(invocation)),
    )


def _batches(data: Any) -> Iterator[list[Any]]:
    """Yield the function calls of each event; without events, each call alone.

    Transfers to other agents are no tool calls, as in spans.
    """
    if isinstance(data, InvocationEvents):
        for event in data.invocation_events:
            yield _tool_calls(InvocationEvents(invocation_events=[event]))
    else:
        for call in _tool_calls(data):
            yield [call]


def _tool_calls(data: Any) -> list[Any]:
    return [call for call in get_all_tool_calls(data) if call.name not in HAND_OFFS]


def _user_text(invocation: Invocation) -> str | None:
    parts = invocation.user_content.parts or []
    return "\n".join(part.text for part in parts if part.text) or None


DEFAULT_METRIC_EVALUATOR_REGISTRY.register_evaluator(
    MetricInfo(
        metric_name=METRIC_NAME,
        description=(
            "Compares the arguments of the agent's tool calls with those of the expected ones: aligned one to one, "
            "compared argument by argument. 1 is a full match. Deterministic, no model is called."
        ),
        metric_value_info=MetricValueInfo(interval=Interval(min_value=0.0, max_value=1.0)),
    ),
    ToolParameterMatchEvaluator,
)
