"""Sending scores without ever being in the way: from a thread of its own, within bounds, and again where need be."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

import urllib3
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import LogRecordExporter, LogRecordExportResult
from urllib3.exceptions import HTTPError

from goldspan.collector_processor.emit.evaluation import Evaluation
from goldspan.collector_processor.emit.instrumentation import suppressed_instrumentation
from goldspan.collector_processor.sinks.score import Score, score_from, score_of
from goldspan.collector_processor.timer import Timer

# What a back-end's API has to offer, and what may come of sending scores to it.

TIMEOUT = urllib3.Timeout(connect=5.0, read=20.0)
AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses after which the same request may go through later."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a back-end did not take."""

    again: Sequence[Score] = ()
    """May go through later: the back-end is away or busy, or does not know the span yet."""
    refused: Sequence[Score] = ()
    """Would be refused again."""
    reason: str = ""
    """Of the first of them."""


class Backend(Protocol):
    """Sends scores by one back-end's API."""

    @property
    def name(self) -> str:
        """The back-end's name, for messages and counters."""
        ...

    def send(self, scores: Sequence[Score]) -> Answer:
        """Make one attempt for all of them. May raise `urllib3.exceptions.HTTPError`: all are to be sent again."""
        ...


@dataclass(frozen=True, slots=True)
class Response:
    """An HTTP response, its body decoded if it is JSON."""

    status: int
    body: Any

    def part(self, *keys: str) -> Any:
        """Return what stands below these keys in a JSON object, or none."""
        found = self.body
        for key in keys:
            found = cast("dict[str, Any]", found).get(key) if isinstance(found, dict) else None
        return found

    @property
    def reason(self) -> str:
        """Status and the beginning of what was said, in one line."""
        return f"HTTP {self.status} {str(self.body)[:200]}".rstrip().replace("\n", " ")


class JsonApi:
    """JSON over HTTP to one server, over connections that are kept; retries are the caller's."""

    def __init__(self, endpoint: str, headers: Mapping[str, str]) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._headers = {**headers, "User-Agent": "goldspan"}
        self._pool = urllib3.PoolManager(timeout=TIMEOUT, retries=False)

    def request(self, method: str, path: str, body: object) -> Response:
        """Send one request. Raises `urllib3.exceptions.HTTPError` where there is no response."""
        answer = self._pool.request(method, self._endpoint + path, json=body, headers=self._headers)
        try:
            decoded = answer.json()
        except ValueError:
            decoded = answer.data.decode("utf-8", "replace")
        return Response(answer.status, decoded)


_logger = logging.getLogger("goldspan")

BATCH = 100
"""Scores of one request at most."""
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0
"""Seconds before a score is sent again; doubled each time."""
_REASONS = 20
"""Different reasons that are logged at most."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    score: Score
    since: float
    due: float
    attempts: int = 0


class ScoreExporter(LogRecordExporter):
    """Exports evaluation events as scores of a back-end. Other records are none of its business and pass by.

    `export` only queues. A score that the back-end does not take yet, because it is away or has not seen the span, is
    tried again for `patience` seconds; a newer result of the same id takes its place. At most `max_waiting` scores
    wait; beyond that the oldest is dropped. What is dropped or refused is counted, and said once for each reason.
    """

    def __init__(self, backend: Backend, *, patience: float = 300.0, max_waiting: int = 10_000) -> None:
        """Send to `backend`; `patience` in seconds."""
        self._backend = backend
        self._patience = patience
        self._max_waiting = max_waiting
        self._closed = False
        self.delivered = 0
        self.dropped = 0
        self._start_over()
        if hasattr(os, "register_at_fork"):
            # A child leaves its parent's scores to the parent, and its locks and threads with them.
            again = weakref.WeakMethod(self._start_over)
            os.register_at_fork(after_in_child=lambda: (start_over := again()) and start_over())

    def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
        """Queue the scores among these records."""
        if self._closed:
            return LogRecordExportResult.FAILURE
        found: list[Score] = []
        for record in batch:
            try:
                score = score_of(record)
            except Exception:
                _logger.debug("an evaluation event could not be read", exc_info=True)
                continue
            if score is not None:
                found.append(score)
        self.put(found)
        return LogRecordExportResult.SUCCESS

    def put(self, scores: Iterable[Score]) -> None:
        """Queue scores, from any thread; after a shutdown they are dropped."""
        now = time.monotonic()
        for score in scores:
            if self._closed:
                self._drop([score], "the process ended")
            else:
                self._keep(_Waiting(score, now, now))
        if self._waiting and not self._closed:
            self._alarm.set_at_latest(now)

    @property
    def waiting(self) -> int:
        """Scores that are not delivered yet."""
        return len(self._waiting)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Try everything that waits once more, now; whether nothing waits any longer."""
        end = time.monotonic() + timeout_millis / 1000
        if self._sending.acquire(timeout=max(0.0, timeout_millis / 1000)):
            try:
                self._send_all(end)
            finally:
                self._sending.release()
        return not self._waiting

    def shutdown(self, timeout_millis: int = 10_000) -> None:
        """Keep trying for a while, then give up what is left. May be called again."""
        if self._closed:
            return
        self._closed = True
        end = time.monotonic() + timeout_millis / 1000
        while not self.force_flush(max(0, int((end - time.monotonic()) * 1000))):
            pause = min(FIRST_WAIT, end - time.monotonic())
            if pause <= 0:
                break
            time.sleep(pause)
        self._alarm.set(None)
        with self._lock:
            left = [one.score for one in self._waiting.values()]
            self._waiting.clear()
        self._drop(left, "the process ended")

    def _ring(self) -> None:
        with self._sending:
            self._send_due(time.monotonic())
        with self._lock:
            due = min((one.due for one in self._waiting.values()), default=None)
        self._alarm.set(None if self._closed else due)

    def _send_all(self, end: float) -> None:
        with self._lock:
            everything = list(self._waiting.values())
        for start in range(0, len(everything), BATCH):
            if time.monotonic() >= end:
                return
            self._send(everything[start : start + BATCH])

    def _send_due(self, now: float) -> None:
        with self._lock:
            due = [one for one in self._waiting.values() if one.due <= now]
        for start in range(0, len(due), BATCH):
            self._send(due[start : start + BATCH])

    def _send(self, batch: Sequence[_Waiting]) -> None:
        """Send these, and keep what has to go again. Never raises."""
        scores = [one.score for one in batch]
        try:
            with suppressed_instrumentation():
                answer = self._backend.send(scores)
        except HTTPError as error:
            answer = Answer(again=scores, reason=str(error))
        except Exception as error:  # noqa: BLE001 - whatever a back-end answers, the agent goes on
            answer = Answer(refused=scores, reason=f"{type(error).__name__}: {error}")
        now = time.monotonic()
        again = {score.id for score in answer.again}
        refused = {score.id for score in answer.refused}
        given_up: list[Score] = []
        with self._lock:
            for one in batch:
                if self._waiting.get(one.score.id) is not one:
                    continue  # meanwhile a newer result took its place, or too many came
                if one.score.id not in again:
                    del self._waiting[one.score.id]
                    self.delivered += one.score.id not in refused
                elif now - one.since >= self._patience:
                    del self._waiting[one.score.id]
                    given_up.append(one.score)
                else:
                    wait = min(FIRST_WAIT * 2**one.attempts, LONGEST_WAIT)
                    self._waiting[one.score.id] = replace(one, due=now + wait, attempts=one.attempts + 1)
        self._drop(answer.refused, answer.reason)
        self._drop(given_up, answer.reason)

    def _keep(self, waiting: _Waiting) -> None:
        dropped: list[Score] = []
        with self._lock:
            self._waiting[waiting.score.id] = waiting
            while len(self._waiting) > self._max_waiting:
                dropped.append(self._waiting.popitem(last=False)[1].score)
        self._drop(dropped, f"more than {self._max_waiting} scores wait")

    def _drop(self, scores: Sequence[Score], reason: str) -> None:
        if not scores:
            return
        self.dropped += len(scores)
        kind = reason[:60]
        if kind not in self._said and len(self._said) < _REASONS:
            self._said.add(kind)
            _logger.warning(
                "%s does not have %d scores, %s the first: %s; later ones for this reason are counted only",
                self._backend.name,
                len(scores),
                scores[0].id,
                reason,
            )

    def _start_over(self) -> None:
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._waiting: OrderedDict[str, _Waiting] = OrderedDict()
        self._said: set[str] = set()
        self._alarm = Timer(self._ring, f"goldspan-{self._backend.name}")


# Results of a door that makes no log records of them, given to back-ends as scores.


class Feed:
    """Gives each result to several exporters of scores, by name. Never blocks, never raises."""

    def __init__(self, exporters: Mapping[str, ScoreExporter]) -> None:
        self.exporters = dict(exporters)

    def take(self, evaluations: Iterable[Evaluation]) -> None:
        """Queue the scores of these results."""
        if not self.exporters:
            return
        try:
            scores = [score for evaluation in evaluations if (score := score_from(evaluation)) is not None]
            for exporter in self.exporters.values():
                exporter.put(scores)
        except Exception:
            _logger.warning("results could not be given to back-ends as scores", exc_info=True)

    def make_room(self, waiting: int, seconds: float) -> None:
        """Send what waits wherever it is more than this: for doors that may wait themselves."""
        for exporter in self.exporters.values():
            if exporter.waiting > waiting:
                exporter.force_flush(int(seconds * 1000))

    def close(self, seconds: float) -> None:
        """Keep trying for so long at most, then give up what is left."""
        end = time.monotonic() + seconds
        for exporter in self.exporters.values():
            with contextlib.suppress(Exception):
                exporter.shutdown(max(0, int((end - time.monotonic()) * 1000)))
