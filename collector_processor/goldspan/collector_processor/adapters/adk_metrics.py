# google-adk holds the OpenTelemetry SDK below the newest, so it is not installed where types are checked:
# mypy: disable-error-code="import-not-found, import-untyped, misc, no-any-unimported"
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
"""Custom metrics of Google ADK's evaluation, run on traces as metrics of goldspan.

    goldspan score traces/ --goldens weather.evalset.json --metric adk:my_agent.metrics:polite=0.8

The function gets what ADK passes it: `(eval_metric, actual_invocations, expected_invocations, conversation_scenario)`.
Each turn of a session is an invocation.
https://google.github.io/adk-docs/evaluate/custom_metrics/
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import groupby
from typing import Any

from goldspan.scoring.errors import MetricError
from goldspan.scoring.goldens.golden import ExpectedCall, Golden
from goldspan.scoring.messages import as_text
from goldspan.scoring.metrics.session_metrics import CONTEXT, GOLDEN, checked_metric
from goldspan.scoring.sessions import Capture, Content, Session, ToolCall, Turn, as_one_turn
from goldspan.scoring.verdict import REASON_OF_CAPTURE, MetricScore, Range, Reason, why_calls_unknown

__all__ = ["adk_metric"]

try:
    from google.adk.evaluation.eval_case import IntermediateData, Invocation, InvocationEvent, InvocationEvents
    from google.adk.evaluation.eval_metrics import BaseCriterion, EvalMetric, EvalStatus
    from google.adk.evaluation.evaluator import EvaluationResult
    from google.genai.types import Content as AdkContent
    from google.genai.types import FunctionCall, FunctionResponse, Part
except ImportError as error:
    raise ImportError(
        f"custom metrics of ADK need google-adk with its evaluation ({error}): pip install 'goldspan[adk]'"
    ) from error

_Function = Callable[..., EvaluationResult | Awaitable[EvaluationResult]]


@dataclass(frozen=True, slots=True)
class AdkMetric:
    """A custom metric function of ADK's as a metric of goldspan's.

    A function whose parameter `expected_invocations` may be None also scores sessions without golden.
    """

    function: _Function
    name: str
    description: str
    range: Range
    criterion: Mapping[str, Any]
    needs: frozenset[str]

    def __call__(self, session: Session, golden: Golden | None, /) -> MetricScore | Awaitable[MetricScore]:
        """Call the function with the turns of the session and of the golden as invocations.

        A session whose calls or arguments were not captured is not evaluated: an invocation cannot say so.
        """
        if (unknown := _unknown(session)) is not None:
            return MetricScore(None, reason=unknown)
        whole = as_one_turn(session) if golden is not None and golden.calls is not None else None
        turns = session.turns if whole is None else (whole,)
        expected = None if golden is None else _expected(golden)
        metric = EvalMetric(metric_name=self.name, criterion=BaseCriterion.model_validate(self.criterion))
        answer = self.function(metric, [_actual(turn) for turn in turns], expected, None)
        by_turn = whole is None
        return _waited(answer, by_turn=by_turn) if inspect.isawaitable(answer) else _score(answer, by_turn=by_turn)


def adk_metric(
    function: _Function | str,
    *,
    name: str | None = None,
    range: tuple[float, float] = (0.0, 1.0),  # noqa: A002
    criterion: Mapping[str, Any] | None = None,
) -> AdkMetric:
    """Make a metric of a custom metric function, or of its import path `pkg.module:function`.

    `criterion` is what the function finds in `eval_metric.criterion`; its `threshold` is 1 unless it is given. Raises
    MetricError if there is no such function, or its name cannot be a metric's.
    """
    found = _imported(function) if isinstance(function, str) else function
    about = (inspect.getdoc(found) or "").partition("\n")[0] or "A custom metric of Google ADK."
    own = name or str(getattr(found, "__name__", type(found).__name__))
    settings = {"threshold": 1.0} | dict(criterion or {})
    return checked_metric(AdkMetric(found, own, about, Range(*range), settings, _needs(found)))


def _needs(function: _Function) -> frozenset[str]:
    """Return what a function needs: by its annotation or its default, the third parameter may be None, or not."""
    for expected in list(inspect.signature(function).parameters.values())[2:3]:
        annotation = str(expected.annotation)
        if expected.default is None or "None" in annotation or "Optional" in annotation:
            return frozenset((CONTEXT,))
    return frozenset((CONTEXT, GOLDEN))


def _imported(path: str) -> _Function:
    module, _, attribute = path.partition(":")
    try:
        found: _Function = getattr(import_module(module), attribute)
    except Exception as error:  # a module of the user's may raise anything
        raise MetricError(f"adk:{path}: cannot be imported: {type(error).__name__}: {error}") from error
    if not callable(found) or len(inspect.signature(found).parameters) < 3:
        expected = "(eval_metric, actual_invocations, expected_invocations, conversation_scenario)"
        raise MetricError(f"adk:{path}: found {found!r}, expected a custom metric function of ADK: {expected}")
    return found


def _unknown(session: Session) -> Reason | None:
    """Return why the calls of a session are not known; None if they are."""
    if session.incomplete:
        return Reason.INCOMPLETE
    if reason := next(filter(None, map(why_calls_unknown, session.turns)), None):
        return reason
    unknown = (call.capture for turn in session.turns for call in _made(turn) if call.capture is not Capture.CAPTURED)
    return next((REASON_OF_CAPTURE[capture] for capture in unknown), None)


def _made(turn: Turn) -> list[ToolCall]:
    return [call for call in turn.calls if not call.rejected]


def _actual(turn: Turn) -> Invocation:
    """Return a turn as ADK has it after a run: an event for each model response, and one for what was returned."""
    author = turn.agent or "agent"
    return Invocation(
        invocation_id=turn.turn_id or "",
        user_content=_content("user", turn.user_text),
        final_response=_content("model", turn.answer) if turn.answer.capture is Capture.CAPTURED else None,
        intermediate_data=InvocationEvents(invocation_events=list(_events(_made(turn), author))),
        creation_timestamp=turn.start / 1e9,
        duration=(turn.end - turn.start) / 1e9 if turn.end > turn.start > 0 else None,
    )


def _events(calls: Sequence[ToolCall], author: str) -> Iterator[InvocationEvent]:
    for _, batch in groupby(enumerate(calls), key=lambda one: (one[1].batch, 0 if one[1].batch else one[0])):
        together = [call for _, call in batch]
        asked = [Part(function_call=FunctionCall(id=one.call_id, name=one.name, args=_args(one))) for one in together]
        yield InvocationEvent(author=together[0].agent or author, content=AdkContent(role="model", parts=asked))
        answered = [one for one in together if one.error is not None or one.result.capture is Capture.CAPTURED]
        if answered:
            parts = [Part(function_response=_response(one)) for one in answered]
            yield InvocationEvent(author=together[0].agent or author, content=AdkContent(role="user", parts=parts))


def _args(call: ToolCall) -> dict[str, Any]:
    return dict(call.arguments or {})


def _response(call: ToolCall) -> FunctionResponse:
    value = call.result.value
    returned = value if isinstance(value, dict) else {} if value is None else {"result": value}
    failed = {} if call.error is None else {"error": call.error}
    return FunctionResponse(id=call.call_id, name=call.name, response=returned | failed)


def _expected(golden: Golden) -> list[Invocation]:
    """Return the turns of a golden as ADK has them in an eval set. Matchers are passed on as they are written."""
    if golden.calls is not None:
        return [_invocation("", golden.first_user_text, golden.calls)]
    return [_invocation(turn.turn_id, turn.user, turn.calls) for turn in golden.turns]


def _invocation(turn_id: str | None, user: str | None, calls: Sequence[ExpectedCall]) -> Invocation:
    uses = [FunctionCall(name=call.name, args=dict(call.args)) for call in calls if not call.forbidden]
    return Invocation(
        invocation_id=turn_id or "",
        user_content=AdkContent(role="user", parts=[Part(text=user or "")]),
        intermediate_data=IntermediateData(tool_uses=uses),
    )


def _content(role: str, recorded: Content) -> AdkContent:
    text = as_text(recorded.value) if recorded.capture is Capture.CAPTURED else ""
    return AdkContent(role=role, parts=[Part(text=text)])


async def _waited(answer: Awaitable[EvaluationResult], *, by_turn: bool) -> MetricScore:
    return _score(await answer, by_turn=by_turn)


def _score(result: EvaluationResult, *, by_turn: bool) -> MetricScore:
    """Read what the function returned. Raises TypeError for anything but an evaluation result."""
    if not isinstance(result, EvaluationResult):
        raise TypeError(f"found a {type(result).__name__}, expected an EvaluationResult")
    invocations = result.per_invocation_results if by_turn else ()
    turns = [_one(one.score, one.eval_status, one.rubric_scores) for one in invocations]
    whole = _one(result.overall_score, result.overall_eval_status, result.overall_rubric_scores)
    return MetricScore(whole.score, whole.explanation, whole.reason, turns, detailed=whole.detailed)


def _one(score: float | None, status: EvalStatus, rubrics: Sequence[Any] | None) -> MetricScore:
    """Return a score; of a result with a status alone, 1 or 0. Rationales may hold values."""
    if score is None and status in (EvalStatus.PASSED, EvalStatus.FAILED):
        score = 1.0 if status is EvalStatus.PASSED else 0.0
    said = f"ADK: {status.name}"
    rationales = "; ".join(one.rationale for one in rubrics or () if one.rationale)
    return MetricScore(score, said, None if score is not None else Reason.NOTHING_EXPECTED, detailed=rationales or said)
