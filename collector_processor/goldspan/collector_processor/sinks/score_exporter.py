"""Sends scores to a back-end from a thread of its own, within limits, with retries.

A back-end is a `Backend`: it sends a batch once, by `JsonApi`, and returns what was not accepted. `ScoreExporter` does
everything else, and `ScoreSinks` passes each result to several of them.
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import LogRecordExporter, LogRecordExportResult
from opentelemetry.trace import format_span_id, format_trace_id

from goldspan.collector_processor.emit import names
from goldspan.collector_processor.emit.evaluation import Evaluation, Level, event_attributes
from goldspan.collector_processor.http_client import RETRYABLE_STATUS, HttpClient
from goldspan.collector_processor.retrying_queue import MAX_SHOWN, QueueLimits, RetryingQueue, SendResult

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


_logger = logging.getLogger("goldspan")

TIMEOUT = 20.0
"""Seconds for one request, with everything."""
MAX_BATCH = 100
"""Scores in one request at most."""
MIN_BACKOFF, MAX_BACKOFF = 1.0, 60.0
"""Seconds before a score is sent again. Doubled each time."""
_MAX_BODY = 1 << 20  # bytes of a response that are read: MLflow's has all assessments of a trace


def joined(results: Iterable[SendResult[Score]]) -> SendResult[Score]:
    """Return the results of several requests as one."""
    results = list(results)
    return SendResult(
        [score for one in results for score in one.retry],
        [score for one in results for score in one.rejected],
        next((one.reason for one in results if one.reason), ""),
    )


@dataclass(frozen=True, slots=True)
class Response:
    """An HTTP response."""

    status: int
    body: Any
    """Decoded if it is JSON, else text. Nothing about its shape is known."""
    text: str = ""
    """The beginning of the body as text, in one line."""

    def part(self, *keys: str) -> Any:
        """Return the value below these keys in a JSON object, or None."""
        found = self.body
        for key in keys:
            found = cast("dict[str, Any]", found).get(key) if isinstance(found, dict) else None
        return found

    @property
    def reason(self) -> str:
        """Status and the beginning of the body, in one line."""
        return f"HTTP {self.status} {self.text}".rstrip()

    def result(self, scores: Sequence[Score], retryable: Container[int] = RETRYABLE_STATUS) -> SendResult[Score]:
        """Return what became of the scores that were sent."""
        if self.status < 300:
            return SendResult()
        if self.status in retryable:
            return SendResult(retry=scores, reason=self.reason)
        return SendResult(rejected=scores, reason=self.reason)


class JsonApi:
    """JSON over HTTP to one server, without retries."""

    def __init__(self, endpoint: str, headers: Mapping[str, str]) -> None:
        self._headers = {**headers, "User-Agent": "goldspan", "Content-Type": "application/json"}
        self._client = HttpClient(endpoint, max_body=_MAX_BODY)

    def request(self, method: str, path: str, body: object = None) -> Response:
        """Send one request. Raises `urllib3.exceptions.HTTPError` or `OSError` if there is no response."""
        content = b"" if body is None else json.dumps(body).encode()
        response = self._client.request(method, path, content, self._headers, seconds=TIMEOUT)
        text = response.body.decode("utf-8", "replace")
        decoded: Any = text
        with contextlib.suppress(ValueError, RecursionError):
            decoded = json.loads(text)
        return Response(response.status, decoded, " ".join(text[:MAX_SHOWN].split()))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


class Backend(ABC):
    """Sends scores by one back-end's API."""

    name: ClassVar[str]
    """The back-end's name in messages."""

    def __init__(self, api: JsonApi) -> None:
        self._api = api

    @abstractmethod
    def send(self, scores: Sequence[Score]) -> SendResult[Score]:
        """Send scores once. May raise `urllib3.exceptions.HTTPError` or `OSError`: then all are sent again."""

    def close(self) -> None:
        """Close connections; nothing is sent any more."""
        self._api.close()


class ScoreExporter(LogRecordExporter):
    """Exports evaluation events as scores of a back-end, and ignores other log records.

    `export` only queues. A score that the back-end does not accept yet is sent again for `patience` seconds; a newer
    result with the same id replaces it. At most `max_waiting` scores are queued; beyond it the oldest is dropped.
    Dropped and rejected scores are counted, and logged once for each reason.
    """

    def __init__(
        self, backend: Backend, *, address: str = "", patience: float = 300.0, max_waiting: int = 10_000
    ) -> None:
        """Send to `backend`, which the log shows with its `address`; `patience` in seconds."""
        self._backend = backend
        self._closed = False
        self._queue = RetryingQueue[Score](
            self._send,
            QueueLimits(
                max_size=max_waiting,
                max_batch=MAX_BATCH,
                first_pause=MIN_BACKOFF,
                longest_pause=MAX_BACKOFF,
                patience=patience,
            ),
            what="scores",
            target=" ".join(filter(None, (backend.name, address))),
            name_of=lambda score: score.id,
            on_closed=backend.close,
        )

    @property
    def delivered(self) -> int:
        """Number of scores that the back-end accepted."""
        return self._queue.delivered

    @property
    def dropped(self) -> int:
        """Number of scores that it did not."""
        return self._queue.dropped.total()

    @property
    def waiting(self) -> int:
        """Number of scores that are neither."""
        return self._queue.size

    def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
        """Queue the scores among these records."""
        if self._closed:
            return LogRecordExportResult.FAILURE
        found: list[Score] = []
        for record in batch:
            try:
                score = score_of(record)
            except Exception:
                _logger.debug("could not read an evaluation event", exc_info=True)
                continue
            if score is not None:
                found.append(score)
        self.put(found)
        return LogRecordExportResult.SUCCESS

    def put(self, scores: Iterable[Score]) -> None:
        """Queue scores, from any thread. After a shutdown they are dropped."""
        self._queue.put(scores)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Send every queued score once, now. Returns whether the queue is empty then."""
        return self._queue.flush(timeout_millis / 1000)

    def shutdown(self, timeout_millis: int = 10_000) -> None:
        """Send what is queued for so long at most, then drop the rest. May be called again."""
        if not self._closed:
            self._closed = True
            self._queue.close(timeout_millis / 1000)

    def _send(self, scores: Sequence[Score]) -> SendResult[Score]:
        result = self._backend.send(scores)
        is_away = len(result.retry) == len(scores) and result.reason.startswith("HTTP 5")
        return replace(result, is_away=is_away)


class ScoreSinks:
    """Passes results that are not log records to several score exporters, by name. Never blocks, never raises."""

    def __init__(self, exporters: Mapping[str, ScoreExporter]) -> None:
        self.exporters = dict(exporters)

    def put(self, evaluations: Iterable[Evaluation]) -> None:
        """Queue the scores of these results."""
        if not self.exporters:
            return
        try:
            scores = [score for evaluation in evaluations if (score := score_from(evaluation)) is not None]
            for exporter in self.exporters.values():
                exporter.put(scores)
        except Exception:
            _logger.warning("could not queue scores for a back-end", exc_info=True)

    def flush_above(self, waiting: int, seconds: float) -> None:
        """Flush the exporters with more than `waiting` queued scores, for callers that may block."""
        for exporter in self.exporters.values():
            if exporter.waiting > waiting:
                exporter.force_flush(int(seconds * 1000))

    def close(self, seconds: float) -> None:
        """Send what is queued for so long at most, then drop the rest."""
        end = time.monotonic() + seconds
        for exporter in self.exporters.values():
            with contextlib.suppress(Exception):
                exporter.shutdown(max(0, int((end - time.monotonic()) * 1000)))
