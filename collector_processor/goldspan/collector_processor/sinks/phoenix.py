"""Scores as annotations of Arize Phoenix: on spans for calls, on traces for turns, on sessions."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from goldspan.collector_processor.sinks.score import CALL, SESSION, TURN, Score
from goldspan.collector_processor.sinks.score_exporter import AGAIN, Answer, JsonApi, ScoreExporter

_UNKNOWN = 404
_PLACES: Mapping[str, tuple[str, str]] = {
    CALL: ("/v1/span_annotations", "span_id"),
    TURN: ("/v1/trace_annotations", "trace_id"),
    SESSION: ("/v1/session_annotations", "session_id"),
}


class PhoenixScores(ScoreExporter):
    """Writes evaluation events as annotations, identified by the result's id, so that a correction replaces them."""

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
            endpoint: Its web address; None: `PHOENIX_COLLECTOR_ENDPOINT`, else `http://localhost:6006`.
            api_key: None: `PHOENIX_API_KEY`, if any.
            patience: Seconds to try for, where Phoenix is away or does not know a span yet.
            max_waiting: Scores that wait at once.

        """
        endpoint = endpoint or os.environ.get("PHOENIX_COLLECTOR_ENDPOINT") or "http://localhost:6006"
        key = api_key or os.environ.get("PHOENIX_API_KEY")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        super().__init__(PhoenixBackend(JsonApi(endpoint, headers)), patience=patience, max_waiting=max_waiting)


class PhoenixBackend:
    """Phoenix' REST API, `POST /v1/{span,trace,session}_annotations`."""

    name = "Phoenix"

    def __init__(self, api: JsonApi) -> None:
        self._api = api

    def send(self, scores: Sequence[Score]) -> Answer:
        """Send each level by its own path.

        A request with `sync` is refused as a whole if it names one unknown span, and without it unknown spans are lost
        silently: where a batch is refused, its scores go one by one.
        """
        again: list[Score] = []
        refused: list[Score] = []
        reason = ""
        for level in _PLACES:
            of_level = [one for one in scores if _level(one) == level]
            answer = self._send_level(level, of_level) if of_level else Answer()
            if len(of_level) > 1 and (answer.again or answer.refused):
                answers = [self._send_level(level, [one]) for one in of_level]
            else:
                answers = [answer]
            for one in answers:
                again += one.again
                refused += one.refused
                reason = reason or one.reason
        return Answer(again, refused, reason)

    def _send_level(self, level: str, scores: Sequence[Score]) -> Answer:
        path, key = _PLACES[level]
        response = self._api.request("POST", f"{path}?sync=true", {"data": [_annotation(one, key) for one in scores]})
        if response.status < 300:
            return Answer()
        if response.status == _UNKNOWN or response.status in AGAIN:
            return Answer(again=scores, reason=response.reason)
        return Answer(refused=scores, reason=response.reason)


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
