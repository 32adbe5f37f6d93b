"""Scores as annotations in Arize Phoenix: calls on spans, turns on traces, sessions on sessions."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from goldspan.collector_processor.http_client import RETRYABLE_STATUS
from goldspan.collector_processor.retrying_queue import SendResult
from goldspan.collector_processor.sinks.score_exporter import (
    CALL,
    SESSION,
    TURN,
    Backend,
    JsonApi,
    Score,
    ScoreExporter,
    joined,
)

_RETRYABLE = RETRYABLE_STATUS | {404}
"""404: the span is not known yet."""
_PLACES: Mapping[str, tuple[str, str]] = {
    CALL: ("/v1/span_annotations", "span_id"),
    TURN: ("/v1/trace_annotations", "trace_id"),
    SESSION: ("/v1/session_annotations", "session_id"),
}


class PhoenixScores(ScoreExporter):
    """Writes evaluation events as annotations. The result id identifies them, so that a correction replaces them."""

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        api_key: str | None = None,
        patience: float = 300.0,
        max_waiting: int = 10_000,
    ) -> None:
        """Send to Phoenix.

        Args:
            endpoint: Address of the server; None: as `phoenix_address` says.
            api_key: None: `PHOENIX_API_KEY`, if any. Headers in `PHOENIX_CLIENT_HEADERS` are sent too.
            patience: Seconds to retry while Phoenix is unavailable or does not know a span yet.
            max_waiting: Scores that are queued at most.

        """
        endpoint = endpoint or phoenix_address()
        backend = PhoenixBackend(JsonApi(endpoint, phoenix_headers(api_key)))
        super().__init__(backend, address=endpoint, patience=patience, max_waiting=max_waiting)


def phoenix_address() -> str:
    """Return the server's address by the variables of Phoenix's client, the first that is set.

    `PHOENIX_ENDPOINT`, `PHOENIX_COLLECTOR_ENDPOINT`, `PHOENIX_HOST` with `PHOENIX_PORT`, else `http://localhost:6006`.
    """
    environ = os.environ
    if address := environ.get("PHOENIX_ENDPOINT") or environ.get("PHOENIX_COLLECTOR_ENDPOINT"):
        return re.sub("/+v1/traces/*$", "", address.rstrip("/"))
    host = environ.get("PHOENIX_HOST") or "localhost"
    if host.startswith(("http://", "https://")):
        return host.rstrip("/")
    # On the server this is the address that it listens on.
    host = "localhost" if host == "0.0.0.0" else host
    return f"http://{host}" if ":" in host else f"http://{host}:{environ.get('PHOENIX_PORT') or 6006}"


def phoenix_headers(api_key: str | None = None) -> dict[str, str]:
    """Return the headers of requests: those of `PHOENIX_CLIENT_HEADERS` (`NAME=VALUE,...`), and the key."""
    pairs = (one.partition("=") for one in os.environ.get("PHOENIX_CLIENT_HEADERS", "").split(","))
    headers = {unquote(name.strip()): unquote(value.strip()) for name, _, value in pairs if name.strip()}
    key = api_key or os.environ.get("PHOENIX_API_KEY")
    if key and (api_key or "authorization" not in map(str.lower, headers)):
        headers = {name: value for name, value in headers.items() if name.lower() != "authorization"}
        headers["Authorization"] = f"Bearer {key}"
    return headers


class PhoenixBackend(Backend):
    """Phoenix's REST API, `POST /v1/{span,trace,session}_annotations`."""

    name = "Phoenix"

    def send(self, scores: Sequence[Score]) -> SendResult[Score]:
        """Send the scores of each level to its own path.

        With `sync`, Phoenix rejects a whole request that has one unknown span. Without it, Phoenix loses scores of
        unknown spans silently. So the scores of a rejected batch are sent one by one.
        """
        results: list[SendResult[Score]] = []
        for level in _PLACES:
            of_level = [one for one in scores if _level(one) == level]
            if not of_level:
                continue
            answer = self._send_level(level, of_level)
            if len(of_level) > 1 and (answer.retry or answer.rejected):
                results += [self._send_level(level, [one]) for one in of_level]
            else:
                results.append(answer)
        return joined(results)

    def _send_level(self, level: str, scores: Sequence[Score]) -> SendResult[Score]:
        path, key = _PLACES[level]
        response = self._api.request("POST", f"{path}?sync=true", {"data": [_annotation(one, key) for one in scores]})
        return response.result(scores, _RETRYABLE)


def _level(score: Score) -> str:
    if score.level == SESSION and score.session is None:
        return TURN
    return score.level if score.level in _PLACES else CALL


def _annotation(score: Score, key: str) -> dict[str, Any]:
    place = {"span_id": score.span_id, "trace_id": score.trace_id, "session_id": score.session}
    result = {"label": score.label or None, "score": score.value, "explanation": score.explanation or None}
    return {
        key: place[key],
        "name": score.name,
        "annotator_kind": "CODE",
        "identifier": score.id,
        "result": {name: value for name, value in result.items() if value is not None},
        "metadata": dict(score.metadata),
    }
