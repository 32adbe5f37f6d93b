"""The attributes of an evaluation: those of the evaluated span, and those of its event."""

from __future__ import annotations

from collections.abc import Mapping

from goldspan.collector_processor.emit import names
from goldspan.collector_processor.emit.evaluation import DetailDigest, Evaluation
from goldspan.mappers.span_facts import ResourceFacts
from goldspan.scoring.json_values import pointer_name
from goldspan.scoring.metric_results import MetricCall, MetricResult, MetricTurn
from goldspan.scoring.results import ArgumentOutcome, CallResult, SessionResult, TurnResult
from goldspan.scoring.sessions import ToolCall, Turn

AttributeValue = str | bool | int | float | tuple[str, ...]
Attributes = dict[str, AttributeValue]


def span_attributes(evaluation: Evaluation) -> Attributes:
    """Return the attributes of the evaluated span; none if the result is about no span of its own.

    A missing call, a missing turn, a call that was only requested and a session have no span of their own: they are
    events only. So are corrections, because an exported span cannot be changed.
    """
    if evaluation.revision != 1 or evaluation.withdrawn or evaluation.target is None:
        return {}
    match evaluation.detail:
        case CallResult(missing=False, actual=ToolCall(span=span)) as call if span == evaluation.target:
            return _verdict(evaluation, names.CALL_VERDICT) | _call(evaluation, call)
        case TurnResult(turn=Turn(root=root)) as turn if root == evaluation.target:
            return _verdict(evaluation, names.TURN_VERDICT) | _turn(evaluation.metric, turn)
        case MetricCall(call=ToolCall(span=span)) as call if span == evaluation.target:
            return _verdict(evaluation, names.CALL_VERDICT) | _failed(evaluation.metric, call)
        case MetricTurn(turn=Turn(root=root)) if root == evaluation.target:
            return _verdict(evaluation, names.TURN_VERDICT)
        case _:
            return {}


def source_attributes(source: ResourceFacts) -> dict[str, str]:
    """Return what is known of the service that was evaluated: the resource of events, and attributes of points."""
    attributes = {
        names.SERVICE_NAME.name: source.service_name,
        names.SERVICE_VERSION.name: source.service_version,
        names.ENVIRONMENT.name: source.environment,
    }
    return {name: value for name, value in attributes.items() if value is not None}


def event_attributes(evaluation: Evaluation) -> Attributes:
    """Return the attributes of the event: semantic conventions, and goldspan's own under the metric's name."""
    metric, verdict, detail = evaluation.metric, evaluation.verdict, evaluation.detail
    attributes: Attributes = {
        names.EVALUATION_NAME.name: metric,
        names.CONVERSATION_ID.name: evaluation.session_id,
        names.RESULT_ID.of(metric): evaluation.id,
        names.LEVEL.of(metric): evaluation.level.value,
        names.REVISION.of(metric): evaluation.revision,
        names.RUN.of(metric): evaluation.run,
        names.CRITERION.of(metric): evaluation.criterion,
    }
    reason = None if verdict.reason is None else verdict.reason.value
    standard: dict[str, AttributeValue | None] = {
        names.EVALUATION_LABEL.name: None if verdict.label is None else verdict.label.value,
        names.EVALUATION_SCORE.name: verdict.score,
        names.ERROR_TYPE.name: reason if reason == "evaluator_error" else None,
        names.EVALUATION_EXPLANATION.name: evaluation.explanation or None,
        names.AGENT_NAME.name: evaluation.agent,
    }
    own: tuple[tuple[names.Attribute, AttributeValue | None], ...] = (
        (names.REASON, reason),
        (names.GOLDEN, evaluation.golden or None),
        (names.GOLDEN_SET, evaluation.golden_set or None),
        (names.PRESET, evaluation.preset),
        (names.TURN_INDEX, evaluation.turn_index),
        (names.INCOMPLETE, evaluation.incomplete or None),
        (names.WITHDRAWN, evaluation.withdrawn or None),
    )
    attributes |= _present(standard)
    attributes |= {key.of(metric): value for key, value in own if value is not None}
    match detail:
        case CallResult():
            call_id = None if detail.actual is None or detail.missing else detail.actual.call_id
            attributes |= _call(evaluation, detail)
            attributes |= _present({names.TOOL_NAME.name: tool_name(detail), names.TOOL_CALL_ID.name: call_id})
        case TurnResult():
            attributes |= _turn(metric, detail)
        case SessionResult():
            attributes |= _session(metric, detail)
        case MetricCall(call=call):
            attributes |= _failed(metric, detail)
            attributes |= _present({names.TOOL_NAME.name: call.name, names.TOOL_CALL_ID.name: call.call_id})
        case MetricTurn() | MetricResult() | DetailDigest():
            pass
    return attributes


def tool_name(call: CallResult | MetricCall) -> str | None:
    """Return the name of the expected tool, else of the called one."""
    if isinstance(call, MetricCall):
        return call.call.name
    if call.expected is not None:
        return call.expected.name
    return None if call.actual is None else call.actual.name


def _verdict(evaluation: Evaluation, keys: tuple[names.Attribute, ...]) -> Attributes:
    verdict = evaluation.verdict
    values: tuple[AttributeValue | None, ...] = (
        verdict.score,
        None if verdict.label is None else verdict.label.value,
        None if verdict.reason is None else verdict.reason.value,
        evaluation.golden or None,
        evaluation.golden_set or None,
        evaluation.preset,
        evaluation.revision,
    )
    return {key.of(evaluation.metric): value for key, value in zip(keys, values, strict=True) if value is not None}


def _present(values: Mapping[str, AttributeValue | None]) -> Attributes:
    return {key: value for key, value in values.items() if value is not None}


def _call(evaluation: Evaluation, call: CallResult) -> Attributes:
    metric = evaluation.metric
    attributes: Attributes = {names.UNEXPECTED.of(metric): call.unexpected}
    if call.expected_index is not None and evaluation.turn_index is not None:
        attributes[names.EXPECTED_CALL.of(metric)] = f"{evaluation.turn_index}.{call.expected_index}"
    lists = (
        (names.MISMATCHED_ARGUMENTS, call.arguments_with(ArgumentOutcome.MISMATCHED)),
        (names.MISSING_ARGUMENTS, call.arguments_with(ArgumentOutcome.MISSING)),
        (names.EXTRA_ARGUMENTS, call.extra_arguments),
    )
    return attributes | {key.of(metric): listed for key, found in lists if (listed := tuple(found))}


def _failed(metric: str, call: MetricCall) -> Attributes:
    key = names.FAILED_ARGUMENTS_OF.get(metric, names.FAILED)
    failed = dict.fromkeys(pointer_name(finding.path) or names.WHOLE_CALL for finding in call.failures)
    return {key.of(metric): tuple(failed)[: names.ARGUMENT_LIMIT]} if failed else {}


def _turn(metric: str, turn: TurnResult) -> Attributes:
    attributes: Attributes = {
        names.TURN_EXPECTED_CALLS.of(metric): turn.calls_expected,
        names.TURN_EVALUATED_CALLS.of(metric): turn.calls_evaluated,
        names.TURN_ALIGNED_CALLS.of(metric): turn.calls_aligned,
        names.TURN_RIGHT_CALLS.of(metric): turn.calls_right,
        names.TURN_MISSING_CALLS.of(metric): turn.calls_missing,
        names.TURN_UNEXPECTED_CALLS.of(metric): len(turn.unexpected_calls),
    }
    lists = (
        (names.TURN_MISSING_TOOLS, [call.tool for call in turn.calls if call.missing]),
        (names.TURN_WRONG_TOOLS, [call.tool for call in turn.calls if call.has_wrong_arguments]),
    )
    return attributes | {
        key.of(metric): tuple(dict.fromkeys(tools))[: names.TOOL_LIMIT] for key, tools in lists if tools
    }


def _session(metric: str, session: SessionResult) -> Attributes:
    return {
        names.SESSION_EXPECTED_TURNS.of(metric): session.turns_expected,
        names.SESSION_EVALUATED_TURNS.of(metric): session.turns_evaluated,
        names.SESSION_EXPECTED_CALLS.of(metric): session.calls_expected,
        names.SESSION_EVALUATED_CALLS.of(metric): session.calls_evaluated,
    }
