"""A `gen_ai.evaluation.result` event as a score, in the terms that all back-ends share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.trace import format_span_id, format_trace_id

from goldspan.collector_processor.emit import names
from goldspan.collector_processor.emit.attributes import event_attributes
from goldspan.collector_processor.emit.evaluation import Evaluation, Level

CALL, TURN, SESSION = Level.CALL.value, Level.TURN.value, Level.SESSION.value


@dataclass(frozen=True, slots=True)
class Score:
    """One result. Without a value it was not evaluated: the label says so, the explanation says why."""

    id: str
    """The same for every delivery and correction of one result. Made from level and span if the event has none."""
    name: str
    """The metric's name, with `.turn` or `.session` for these levels, so that averages do not mix levels."""
    level: str
    trace_id: str
    span_id: str
    session: str | None
    value: float | None
    label: str
    explanation: str
    metadata: Mapping[str, str | int | float | bool]
    """The event's other attributes that are single values, such as golden, golden set and tool."""


def score_of(record: ReadableLogRecord) -> Score | None:
    """Read one log record. None if it is no evaluation event, or has no span."""
    event = record.log_record
    if event.event_name != names.EVALUATION_RESULT or not event.trace_id or not event.span_id:
        return None
    trace_id, span_id = format_trace_id(event.trace_id), format_span_id(event.span_id)
    return _score(event.attributes or {}, trace_id, span_id)


def score_from(evaluation: Evaluation) -> Score | None:
    """Read one evaluation, as its event would be read. None if it has no span."""
    target = evaluation.target
    if target is None or not (target.trace_id and target.span_id):
        return None
    return _score(event_attributes(evaluation), target.trace_id, target.span_id)


def _score(attributes: Mapping[str, object], trace_id: str, span_id: str) -> Score | None:
    left = dict(attributes)
    if not isinstance(metric := left.pop(names.EVALUATION_NAME.name, None), str):
        return None
    level = _text(left.get(names.LEVEL.of(metric))) or CALL
    value = left.pop(names.EVALUATION_SCORE.name, None)
    withdrawn = left.get(names.WITHDRAWN.of(metric)) is True
    session = _text(left.get(names.CONVERSATION_ID.name)) or _text(left.get("session.id"))
    return Score(
        id=_text(left.get(names.RESULT_ID.of(metric))) or f"{metric}-{level}-{trace_id}-{span_id}",
        name=metric if level == CALL else f"{metric}.{level}",
        level=level,
        trace_id=trace_id,
        span_id=span_id,
        session=session or None,
        value=None if withdrawn else _number(value),
        label="withdrawn" if withdrawn else _text(left.pop(names.EVALUATION_LABEL.name, None)),
        explanation=_text(left.pop(names.EVALUATION_EXPLANATION.name, None)),
        metadata={key: one for key, one in left.items() if isinstance(one, (str, bool, int, float))},
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
