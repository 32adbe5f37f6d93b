"""Scores in Langfuse, by its batch ingestion API."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from urllib3.util import make_headers

from goldspan.collector_processor.http_client import RETRYABLE_STATUS
from goldspan.collector_processor.retrying_queue import SendResult
from goldspan.collector_processor.sinks.score_exporter import (
    CALL,
    SESSION,
    Backend,
    JsonApi,
    Response,
    Score,
    ScoreExporter,
)
from goldspan.scoring.json_values import is_dict, is_list

_RETRYABLE = frozenset(map(str, RETRYABLE_STATUS))
_MAX_REASON = 200
_CLOUD = "https://cloud.langfuse.com"


class LangfuseScores(ScoreExporter):
    """Writes evaluation events as scores: calls on observations, turns on traces, sessions on sessions.

    The result id is the score's id, so that a correction replaces it. A result without a number, which was not
    evaluated, becomes a categorical score whose name ends in `.label`.
    """

    def __init__(
        self,
        host: str | None = None,
        *,
        public_key: str | None = None,
        secret_key: str | None = None,
        patience: float = 300.0,
        max_waiting: int = 10_000,
    ) -> None:
        """Send to Langfuse.

        Args:
            host: Address of the server; None: `LANGFUSE_BASE_URL` or `LANGFUSE_HOST`, else the European cloud.
            public_key: None: `LANGFUSE_PUBLIC_KEY`.
            secret_key: None: `LANGFUSE_SECRET_KEY`.
            patience: Seconds to retry while Langfuse is unavailable.
            max_waiting: Scores that are queued at most.

        """
        host = host or langfuse_address()
        backend = LangfuseBackend(JsonApi(host, langfuse_headers(public_key, secret_key)))
        super().__init__(backend, address=host, patience=patience, max_waiting=max_waiting)


def langfuse_address() -> str:
    """Return the server's address by `LANGFUSE_BASE_URL` or `LANGFUSE_HOST`, else the European cloud's."""
    return os.environ.get("LANGFUSE_BASE_URL") or os.environ.get("LANGFUSE_HOST") or _CLOUD


def langfuse_headers(public_key: str | None = None, secret_key: str | None = None) -> dict[str, str]:
    """Return the headers of requests, by `LANGFUSE_PUBLIC_KEY` and `LANGFUSE_SECRET_KEY` where a key is None."""
    public = public_key or os.environ.get("LANGFUSE_PUBLIC_KEY", "")
    secret = secret_key or os.environ.get("LANGFUSE_SECRET_KEY", "")
    return make_headers(basic_auth=f"{public}:{secret}")


class LangfuseBackend(Backend):
    """Langfuse's REST API, `POST /api/public/ingestion` with one `score-create` event for each score."""

    name = "Langfuse"

    def send(self, scores: Sequence[Score]) -> SendResult[Score]:
        """Send all scores in one request. Langfuse accepts scores before it knows their trace."""
        sent = {f"{number}-{score.id}": score for number, score in enumerate(scores)}
        now = datetime.now(UTC).isoformat()
        batch = [
            {"id": event_id, "type": "score-create", "timestamp": now, "body": _body(score)}
            for event_id, score in sent.items()
        ]
        response = self._api.request("POST", "/api/public/ingestion", {"batch": batch})
        return _not_accepted(sent, response) if response.status < 300 else response.result(scores)


def _not_accepted(sent: Mapping[str, Score], response: Response) -> SendResult[Score]:
    """Read the errors of a multi-status response: each score has a status of its own."""
    errors = response.part("errors")
    retry: list[Score] = []
    rejected: list[Score] = []
    reason = ""
    for error in errors if is_list(errors) else ():
        score = sent.get(str(error.get("id"))) if is_dict(error) else None
        if score is None:
            continue
        status = str(error.get("status"))
        (retry if status in _RETRYABLE else rejected).append(score)
        reason = reason or f"{status} {error.get('message') or error.get('error')}"[:_MAX_REASON]
    return SendResult(retry, rejected, reason)


def _body(score: Score) -> dict[str, Any]:
    body: dict[str, Any] = {
        "id": score.id,
        "name": score.name if score.value is not None else f"{score.name}.label",
        "value": score.value if score.value is not None else score.label,
        "dataType": "NUMERIC" if score.value is not None else "CATEGORICAL",
        "comment": score.explanation or None,
        "metadata": {**score.metadata, "label": score.label},
    }
    if score.level == SESSION and score.session is not None:
        return body | {"sessionId": score.session}
    if score.level == CALL:
        return body | {"traceId": score.trace_id, "observationId": score.span_id}
    return body | {"traceId": score.trace_id}
