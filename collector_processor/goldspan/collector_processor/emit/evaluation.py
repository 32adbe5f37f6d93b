"""One result of one metric, and the attributes that it is emitted as: of the evaluated span, and of its event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum

from msgspec import Struct

from goldspan.collector_processor.emit import names
from goldspan.mappers.span_facts import NO_RESOURCE, ResourceFacts
from goldspan.scoring.json_values import pointer_name
from goldspan.scoring.results import ArgumentOutcome, CallResult, SessionResult, TurnResult
from goldspan.scoring.sessions import SpanRef, ToolCall, Turn
from goldspan.scoring.verdict import Label, MetricCall, MetricResult, MetricTurn, MetricVerdict, Range, Reason, Verdict

AttributeValue = str | bool | int | float | tuple[str, ...]
Attributes = dict[str, AttributeValue]

SHARE = Range(0.0, 1.0)
"""The range of most metrics."""


class Level(StrEnum):
    """What an evaluation is about."""

    CALL = "call"
    TURN = "turn"
    SESSION = "session"


class Events(StrEnum):
    """Which results are told by an event."""

    FINDINGS = "findings"
    """Of metrics without golden, those in which something was found; counters count the rest."""
    FAILURES = "failures"
    """The same, and of goldens no call that passes: its span has the score."""
    ALL = "all"

    def tell(self, detail: object, metric: MetricResult | None) -> bool:
        """Say whether an event tells of a call, a turn or a session that was judged by a golden, or by this metric."""
        if self is Events.ALL:
            return True
        if isinstance(detail, CallResult):
            return self is Events.FINDINGS or detail.verdict.label is not Label.PASS
        if metric is None or metric.needs_golden or not isinstance(detail, (MetricCall, MetricTurn, MetricResult)):
            return True
        verdict = detail.verdict
        if verdict.label is Label.FAIL or verdict.reason is Reason.EVALUATOR_ERROR:
            return True
        if verdict.label is None and verdict.score is not None and verdict.score != metric.range[1]:
            return True
        return isinstance(detail, MetricCall) and bool(detail.failures)


Counted = tuple[str, str, str]
"""What a result counts for: an instrument, and up to two values of its attributes; empty for none."""


class DetailDigest(Struct, frozen=True, gc=False):
    """In place of a result's detail when only a digest of the emitted evaluation is still known."""

    digest: str
    """`digest_of` the evaluation that was emitted."""
    tool: str | None = None
    counted: tuple[Counted, ...] = ()
    """What it was counted for, should it be superseded."""


class Evaluation(Struct, frozen=True, gc=False):
    """One result of one metric: everything that span attributes, event and metric point need.

    The same records give the same `id`; a correction has the same `id` and a higher `revision`.
    """

    id: str
    """32 hex digits, a hash of golden set, criterion, session, run, level, turn, call and metric."""
    revision: int
    """From 1. Attributes and metrics carry revision 1 only; higher ones are events."""
    level: Level
    metric: str
    verdict: Verdict | MetricVerdict
    """It has no label if the metric has no threshold."""
    target: SpanRef | None
    """The evaluated span: the turn's root for a missing call, the last turn's root for a session; None without turn."""
    timestamp: int
    """End of the evaluated span, nanoseconds since the epoch."""
    session_id: str
    run: str
    golden: str
    """The golden's session key; empty if the session has none."""
    golden_set: str
    """`name@version`; empty if the session has no golden."""
    criterion: str
    preset: str | None
    detail: CallResult | TurnResult | SessionResult | MetricCall | MetricTurn | MetricResult | DetailDigest
    explanation: str
    """Names and counts of arguments; their values only with `include_values`."""
    turn_index: int | None = None
    """Position of the golden's turn, from 0; of the actual turn if the golden has no turn for it."""
    agent: str | None = None
    resource: ResourceFacts = NO_RESOURCE
    range: Range = SHARE
    """The range of its metric's scores."""
    incomplete: bool = False
    withdrawn: bool = False
    """A correction that withdraws an earlier result: later spans changed its run or turn."""
    has_event: bool = True
    """An event tells of it, or told of an earlier revision. Without one, metrics without golden mark no span either."""
    golden_digest: str = ""
    """Digest of the golden set's content; empty if the session has no golden."""


def span_attributes(evaluation: Evaluation) -> Attributes:
    """Return the attributes of the evaluated span; none if the result is about no span of its own.

    A missing call, a missing turn, a call that was only requested and a session have no span of their own: they are
    events only. So are corrections, because an exported span cannot be changed.
    """
    if evaluation.revision != 1 or evaluation.withdrawn or evaluation.target is None:
        return {}
    if not evaluation.has_event and not isinstance(evaluation.detail, CallResult):
        return {}
    match evaluation.detail:
        case CallResult(missing=False, actual=ToolCall(span=own)) | MetricCall(call=ToolCall(span=own)):
            keys = names.CALL_VERDICT
        case TurnResult(turn=Turn(root=own)) | MetricTurn(turn=Turn(root=own)):
            keys = names.TURN_VERDICT
        case _:
            return {}
    if own != evaluation.target:
        return {}
    key = names.names_of(evaluation.metric)
    return _verdict(evaluation, keys, key) | _findings(evaluation, key)


def source_attributes(source: ResourceFacts) -> dict[str, str]:
    """Return what is known of the service that was evaluated: the resource of events, and attributes of points."""
    attributes = {
        names.SERVICE_NAME.name: source.service_name,
        names.SERVICE_VERSION.name: source.service_version,
        names.ENVIRONMENT.name: source.environment,
    }
    return {name: value for name, value in attributes.items() if value is not None}


def _known(attributes: Mapping[str, AttributeValue | None]) -> Attributes:
    return {name: value for name, value in attributes.items() if value is not None}


def event_attributes(evaluation: Evaluation) -> Attributes:
    """Return the attributes of the event: semantic conventions, and goldspan's own under the metric's name."""
    verdict, key = evaluation.verdict, names.names_of(evaluation.metric)
    attributes: dict[str, AttributeValue | None] = {
        names.EVALUATION_NAME.name: evaluation.metric,
        names.CONVERSATION_ID.name: evaluation.session_id,
        key[names.RUN]: evaluation.run,
        key[names.CRITERION]: evaluation.criterion,
        key[names.RESULT_ID]: evaluation.id,
        key[names.LEVEL]: str(evaluation.level),
        key[names.REVISION]: evaluation.revision,
        key[names.GOLDEN]: evaluation.golden or None,
        key[names.GOLDEN_SET]: evaluation.golden_set or None,
        key[names.GOLDEN_DIGEST]: evaluation.golden_digest or None,
        key[names.PRESET]: evaluation.preset,
        names.EVALUATION_LABEL.name: None if verdict.label is None else str(verdict.label),
        names.EVALUATION_SCORE.name: verdict.score,
        key[names.REASON]: None if verdict.reason is None else str(verdict.reason),
        names.ERROR_TYPE.name: "evaluator_error" if verdict.reason is Reason.EVALUATOR_ERROR else None,
        names.EVALUATION_EXPLANATION.name: evaluation.explanation or None,
        names.AGENT_NAME.name: evaluation.agent,
        key[names.TURN_INDEX]: evaluation.turn_index,
        key[names.INCOMPLETE]: evaluation.incomplete or None,
        key[names.WITHDRAWN]: evaluation.withdrawn or None,
    }
    return _known(attributes) | attributes_of_detail(evaluation)


def attributes_of_detail(evaluation: Evaluation) -> Attributes:
    """Return the attributes of the event that tell of the detail: what was found, and which call it is."""
    attributes = _findings(evaluation, names.names_of(evaluation.metric))
    if isinstance(evaluation.detail, CallResult | MetricCall):
        attributes |= _tool(evaluation.detail)
    return attributes


def counted_of(evaluation: Evaluation) -> tuple[Counted, ...]:
    """Return what an evaluation counts for: the score or that there is none, and what was found."""
    verdict, detail = evaluation.verdict, evaluation.detail
    if isinstance(detail, DetailDigest):
        return detail.counted
    if verdict.score is not None:
        return (names.SCORES.name, "" if verdict.label is None else str(verdict.label), ""), *_found(detail)
    if verdict.reason is not None and not (isinstance(detail, CallResult) and detail.unexpected):
        return (names.NOT_EVALUATED.name, str(verdict.reason), ""), *_found(detail)
    return tuple(_found(detail))


def _found(detail: object) -> Iterator[Counted]:
    """Yield what is counted of a call or a turn."""
    if isinstance(detail, TurnResult):
        yield from dict.fromkeys((names.DOUBTED_TURNS.name, doubt.code, doubt.dialect) for doubt in detail.doubts)
    elif isinstance(detail, MetricCall):
        for finding in detail.findings:
            if finding.failed:
                name = pointer_name("/".join(finding.path.split("/")[:2])) or names.WHOLE_CALL
                yield names.FAILED_ARGUMENTS.name, name, finding.kind
    elif not isinstance(detail, CallResult):
        return
    elif detail.missing:
        yield names.MISSING.name, "", ""
    elif detail.unexpected:
        yield names.UNEXPECTED_CALLS.name, "", ""
    else:
        for argument in detail.arguments:
            if argument.outcome in (ArgumentOutcome.MISMATCHED, ArgumentOutcome.MISSING):
                yield names.ARGUMENT_MISMATCHES.name, argument.name, ""


def tool_name(call: object) -> str | None:
    """Return the name of the expected tool, else of the called one; None if it is no call."""
    if isinstance(call, MetricCall):
        return call.call.name
    if isinstance(call, DetailDigest):
        return call.tool
    if not isinstance(call, CallResult):
        return None
    if call.expected is not None:
        return call.expected.name
    return None if call.actual is None else call.actual.name


def _verdict(evaluation: Evaluation, keys: tuple[names.Attribute, ...], key: names.MetricNames) -> Attributes:
    verdict = evaluation.verdict
    values: tuple[AttributeValue | None, ...] = (
        verdict.score,
        None if verdict.label is None else str(verdict.label),
        None if verdict.reason is None else str(verdict.reason),
        evaluation.golden or None,
        evaluation.golden_set or None,
        evaluation.preset,
        evaluation.revision,
    )
    return {key[one]: value for one, value in zip(keys, values, strict=True) if value is not None}


def _findings(evaluation: Evaluation, key: names.MetricNames) -> Attributes:
    """Return what was found in a call, a turn or a session, beside the verdict."""
    detail = evaluation.detail
    if isinstance(detail, CallResult):
        return _call(evaluation, detail, key)
    if isinstance(detail, MetricCall):
        return _failed(evaluation.metric, detail, key)
    if isinstance(detail, TurnResult):
        return _turn(detail, key)
    return _session(detail, key) if isinstance(detail, SessionResult) else {}


def _call(evaluation: Evaluation, call: CallResult, key: names.MetricNames) -> Attributes:
    attributes: Attributes = {key[names.UNEXPECTED]: call.unexpected}
    if call.expected_index is not None and evaluation.turn_index is not None:
        attributes[key[names.EXPECTED_CALL]] = f"{evaluation.turn_index}.{call.expected_index}"
    lists = (
        (names.MISMATCHED_ARGUMENTS, call.arguments_with(ArgumentOutcome.MISMATCHED)),
        (names.MISSING_ARGUMENTS, call.arguments_with(ArgumentOutcome.MISSING)),
        (names.EXTRA_ARGUMENTS, tuple(call.extra_arguments)),
    )
    return attributes | {key[one]: arguments for one, arguments in lists if arguments}


def _tool(result: CallResult | MetricCall) -> Attributes:
    """Return the tool's name, and the ids of the call that was made."""
    call = result.call if isinstance(result, MetricCall) else None if result.missing else result.actual
    return _known(
        {
            names.TOOL_NAME.name: tool_name(result),
            names.TOOL_CALL_ID.name: None if call is None else call.call_id,
            names.RESPONSE_ID.name: None if call is None else call.response_id,
        }
    )


def _failed(metric: str, call: MetricCall, key: names.MetricNames) -> Attributes:
    if not (paths := [one.path for one in call.findings if one.failed]):
        return {}
    failed = dict.fromkeys(pointer_name(path) or names.WHOLE_CALL for path in paths)
    attribute = names.FAILED_ARGUMENTS_OF.get(metric, names.FAILED)
    return {key[attribute]: tuple(failed)[: names.ARGUMENT_LIMIT]}


def _turn(turn: TurnResult, key: names.MetricNames) -> Attributes:
    attributes: Attributes = {
        key[names.TURN_EXPECTED_CALLS]: turn.calls_expected,
        key[names.TURN_EVALUATED_CALLS]: turn.calls_evaluated,
        key[names.TURN_ALIGNED_CALLS]: turn.calls_aligned,
        key[names.TURN_RIGHT_CALLS]: turn.calls_right,
        key[names.TURN_MISSING_CALLS]: turn.calls_missing,
        key[names.TURN_UNEXPECTED_CALLS]: len(turn.unexpected_calls),
    }
    lists = (
        (names.TURN_MISSING_TOOLS, [call.tool for call in turn.calls if call.missing]),
        (names.TURN_WRONG_TOOLS, [call.tool for call in turn.calls if call.has_wrong_arguments]),
    )
    if turn.doubts:
        attributes[key[names.TURN_DOUBTS]] = tuple(dict.fromkeys(doubt.code for doubt in turn.doubts))
    return attributes | {key[one]: tuple(dict.fromkeys(tools))[: names.TOOL_LIMIT] for one, tools in lists if tools}


def _session(session: SessionResult, key: names.MetricNames) -> Attributes:
    return {
        key[names.SESSION_EXPECTED_TURNS]: session.turns_expected,
        key[names.SESSION_EVALUATED_TURNS]: session.turns_evaluated,
        key[names.SESSION_EXPECTED_CALLS]: session.calls_expected,
        key[names.SESSION_EVALUATED_CALLS]: session.calls_evaluated,
    }
