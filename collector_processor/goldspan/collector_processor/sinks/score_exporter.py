"""Sends scores to a back-end from a thread of its own, within limits, with retries.

A back-end is a `Backend`: it sends a batch once, by `JsonApi`, and returns what was not accepted. `ScoreExporter` does
everything else, and `ScoreSinks` passes each result to several of them.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import threading
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import LogRecordExporter, LogRecordExportResult
from opentelemetry.trace import format_span_id, format_trace_id
from urllib3.exceptions import HTTPError

from goldspan.collector_processor.emit import names
from goldspan.collector_processor.emit.attributes import event_attributes
from goldspan.collector_processor.emit.emitters import suppressed_instrumentation
from goldspan.collector_processor.emit.evaluation import Evaluation, Level
from goldspan.collector_processor.export_outage import ExportOutage
from goldspan.collector_processor.http_client import RETRYABLE_STATUS, HttpClient, describe, requests_end_by
from goldspan.collector_processor.timer import Timer, call_in_forked_children

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
_MAX_REASONS = 20
"""Reasons that are logged at most."""
_MAX_REASON_LENGTH = 60
_MAX_BODY = 1 << 20
"""Bytes of a response that are read: MLflow's has all assessments of a trace."""
_MAX_TEXT = 200
"""Characters of a response that are logged."""


@dataclass(frozen=True, slots=True)
class SendResult:
    """The scores that a back-end did not accept."""

    retry: Sequence[Score] = ()
    """The back-end is unavailable, or does not know the span yet."""
    rejected: Sequence[Score] = ()
    """The back-end would reject them again."""
    reason: str = ""
    """Of the first of them."""


def joined(results: Iterable[SendResult]) -> SendResult:
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

    def result(self, scores: Sequence[Score], retryable: Container[int] = RETRYABLE_STATUS) -> SendResult:
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
        return Response(response.status, decoded, " ".join(text[:_MAX_TEXT].split()))

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
    def send(self, scores: Sequence[Score]) -> SendResult:
        """Send scores once. May raise `urllib3.exceptions.HTTPError` or `OSError`: then all are sent again."""

    def close(self) -> None:
        """Close connections; nothing is sent any more."""
        self._api.close()


@dataclass(frozen=True, slots=True)
class _QueuedScore:
    score: Score
    since: float
    due: float
    attempts: int = 0


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
        self._target = " ".join(filter(None, (backend.name, address)))
        self._patience = patience
        self._max_waiting = max_waiting
        self._closed = False
        self.delivered = 0
        self.dropped = 0
        self._reset()
        # A forked child starts empty: its parent sends the parent's scores, and locks and threads do not survive.
        call_in_forked_children(self._reset)

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
        now = time.monotonic()
        for score in scores:
            if self._closed:
                self._drop([score], "the process ended")
            else:
                self._enqueue(_QueuedScore(score, now, now))
        if self._queue and not self._closed:
            self._timer.set_at_latest(now)

    @property
    def waiting(self) -> int:
        """Number of scores that are not delivered yet."""
        return len(self._queue)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Send every queued score once, now. Returns whether the queue is empty then."""
        end = time.monotonic() + timeout_millis / 1000
        if self._sending.acquire(timeout=max(0.0, timeout_millis / 1000)):
            try:
                self._send_all(end=end)
            finally:
                self._sending.release()
        return not self._queue

    def shutdown(self, timeout_millis: int = 10_000) -> None:
        """Send what is queued for so long at most, then drop the rest. May be called again."""
        if self._closed:
            return
        self._closed = True
        end = time.monotonic() + timeout_millis / 1000
        while not self.force_flush(max(0, int((end - time.monotonic()) * 1000))):
            pause = min(MIN_BACKOFF, end - time.monotonic())
            if pause <= 0:
                break
            time.sleep(pause)
        self._timer.set(None)
        with self._lock:
            left = [queued.score for queued in self._queue.values()]
            self._queue.clear()
        self._drop(left, "the process ended")
        self._backend.close()

    def _on_timer(self) -> None:
        with self._sending:
            self._send_all(due=time.monotonic())
        with self._lock:
            due = min((queued.due for queued in self._queue.values()), default=None)
        self._timer.set(None if self._closed else due)

    def _send_all(self, *, due: float = math.inf, end: float = math.inf) -> None:
        """Send what is due by then, in batches that begin before `end`."""
        with self._lock:
            scores = [queued for queued in self._queue.values() if queued.due <= due]
        for start in range(0, len(scores), MAX_BATCH):
            if time.monotonic() >= end:
                return
            with requests_end_by(end):
                self._send(scores[start : start + MAX_BATCH])

    def _send(self, batch: Sequence[_QueuedScore]) -> None:
        """Send scores once, and keep those to retry in the queue. Never raises."""
        scores = [queued.score for queued in batch]
        away = False
        try:
            with suppressed_instrumentation():
                result = self._backend.send(scores)
        except (HTTPError, OSError) as error:
            away = True
            result = SendResult(retry=scores, reason=describe(error)[:_MAX_TEXT])
        except Exception as error:  # noqa: BLE001 - an unexpected response must not stop the thread
            result = SendResult(rejected=scores, reason=f"{type(error).__name__}: {error}")
        now = time.monotonic()
        retry = {score.id for score in result.retry}
        rejected = {score.id for score in result.rejected}
        expired: list[Score] = []
        with self._lock:
            for queued in batch:
                if self._queue.get(queued.score.id) is not queued:
                    continue  # a newer result has replaced it, or the queue was full
                if queued.score.id not in retry:
                    del self._queue[queued.score.id]
                    self.delivered += queued.score.id not in rejected
                elif now - queued.since >= self._patience:
                    del self._queue[queued.score.id]
                    expired.append(queued.score)
                else:
                    wait = min(MIN_BACKOFF * 2**queued.attempts, MAX_BACKOFF)
                    self._queue[queued.score.id] = replace(queued, due=now + wait, attempts=queued.attempts + 1)
        if away or (len(retry) == len(scores) and result.reason.startswith("HTTP 5")):
            self._outage.failed(len(scores), result.reason)
        else:
            self._outage.succeeded()
        self._drop(result.rejected, result.reason)
        self._drop(expired, result.reason)

    def _enqueue(self, queued: _QueuedScore) -> None:
        dropped: list[Score] = []
        with self._lock:
            self._queue[queued.score.id] = queued
            while len(self._queue) > self._max_waiting:
                dropped.append(self._queue.popitem(last=False)[1].score)
        self._drop(dropped, f"more than {self._max_waiting} scores wait")

    def _drop(self, scores: Sequence[Score], reason: str) -> None:
        if not scores:
            return
        self.dropped += len(scores)
        kind = reason[:_MAX_REASON_LENGTH]
        if kind not in self._logged_reasons and len(self._logged_reasons) < _MAX_REASONS:
            self._logged_reasons.add(kind)
            _logger.warning(
                "%s did not accept %d scores, %s the first: %s; later ones with this reason are counted only",
                self._backend.name,
                len(scores),
                scores[0].id,
                reason,
            )

    def _reset(self) -> None:
        """Start with an empty queue: at first, and in a forked child."""
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._queue: OrderedDict[str, _QueuedScore] = OrderedDict()
        self._logged_reasons: set[str] = set()
        self._outage = ExportOutage(self._target, "scores", "sent again")
        self._timer = Timer(self._on_timer, f"goldspan-{self._backend.name}")


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
