"""Scores in Phoenix, MLflow and Langfuse, each by its own API.

Calls are judged on spans, turns on traces, and sessions on sessions, where a platform has them.
"""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeGuard, TypeVar
from urllib.parse import quote, unquote

from urllib3.util import make_headers

from goldspan.collector_processor.http_client import RETRYABLE_STATUS
from goldspan.collector_processor.retrying_queue import SendResult
from goldspan.collector_processor.sinks import score_exporter
from goldspan.scoring.json_values import is_dict, is_list

_RETRYABLE_OR_UNKNOWN = RETRYABLE_STATUS | {404}  # 404: the trace or span is not known yet
_PLACES: Mapping[str, tuple[str, str]] = {
    score_exporter.CALL: ("/v1/span_annotations", "span_id"),
    score_exporter.TURN: ("/v1/trace_annotations", "trace_id"),
    score_exporter.SESSION: ("/v1/session_annotations", "session_id"),
}


class PhoenixScores(score_exporter.ScoreExporter):
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
        backend = PhoenixBackend(score_exporter.JsonApi(endpoint, phoenix_headers(api_key)))
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


class PhoenixBackend(score_exporter.Backend):
    """Phoenix's REST API, `POST /v1/{span,trace,session}_annotations`."""

    name = "Phoenix"

    def send(self, scores: Sequence[score_exporter.Score]) -> SendResult[score_exporter.Score]:
        """Send the scores of each level to its own path.

        With `sync`, Phoenix rejects a whole request that has one unknown span. Without it, Phoenix loses scores of
        unknown spans silently. So the scores of a rejected batch are sent one by one.
        """
        results: list[SendResult[score_exporter.Score]] = []
        for level in _PLACES:
            of_level = [one for one in scores if _level(one) == level]
            if not of_level:
                continue
            answer = self._send_level(level, of_level)
            if len(of_level) > 1 and (answer.retry or answer.rejected):
                results += [self._send_level(level, [one]) for one in of_level]
            else:
                results.append(answer)
        return score_exporter.joined(results)

    def _send_level(self, level: str, scores: Sequence[score_exporter.Score]) -> SendResult[score_exporter.Score]:
        path, key = _PLACES[level]
        response = self._api.request("POST", f"{path}?sync=true", {"data": [_annotation(one, key) for one in scores]})
        return response.result(scores, _RETRYABLE_OR_UNKNOWN)


def _level(score: score_exporter.Score) -> str:
    if score.level == score_exporter.SESSION and score.session is None:
        return score_exporter.TURN
    return score.level if score.level in _PLACES else score_exporter.CALL


def _annotation(score: score_exporter.Score, key: str) -> dict[str, Any]:
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


_CHANGEABLE: Sequence[str] = ("feedback", "rationale", "metadata")
_Value = TypeVar("_Value")
_MAX_ID = 200  # characters of an assessment's id; a longer one is none
_REMEMBERED = 10_000
"""Assessments whose ids are in memory, so that a correction replaces them, and traces whose assessments were read."""
_RESULT_ID = "goldspan.result.id"  # the result's id in the metadata of an assessment


class MLflowScores(score_exporter.ScoreExporter):
    """Writes evaluation events as feedback. A correction replaces the feedback that it corrects."""

    def __init__(
        self,
        tracking_uri: str | None = None,
        *,
        token: str | None = None,
        patience: float = 300.0,
        max_waiting: int = 10_000,
    ) -> None:
        """Send to MLflow.

        Args:
            tracking_uri: Address of the server; None: `MLFLOW_TRACKING_URI`, else `http://localhost:5000`. With
                `MLFLOW_TRACKING_TOKEN`, or `MLFLOW_TRACKING_USERNAME` and `MLFLOW_TRACKING_PASSWORD`, as MLflow.
            token: None: by these variables.
            patience: Seconds to retry while MLflow is unavailable or does not know a trace yet.
            max_waiting: Scores that are queued at most.

        """
        uri = tracking_uri or mlflow_address()
        backend = MLflowBackend(score_exporter.JsonApi(uri, mlflow_headers(token)))
        super().__init__(backend, address=uri, patience=patience, max_waiting=max_waiting)


def mlflow_address() -> str:
    """Return the server's address by `MLFLOW_TRACKING_URI`, else `http://localhost:5000`."""
    return os.environ.get("MLFLOW_TRACKING_URI") or "http://localhost:5000"


def mlflow_headers(token: str | None = None) -> dict[str, str]:
    """Return the headers of requests, by MLflow's variables where there is no token."""
    if token := token or os.environ.get("MLFLOW_TRACKING_TOKEN"):
        return {"Authorization": f"Bearer {token}"}
    if user := os.environ.get("MLFLOW_TRACKING_USERNAME"):
        return make_headers(basic_auth=f"{user}:{os.environ.get('MLFLOW_TRACKING_PASSWORD', '')}")
    return {}


class MLflowBackend(score_exporter.Backend):
    """MLflow's REST API, `POST /api/3.0/mlflow/traces/{trace}/assessments`, one request for each score.

    MLflow gives an assessment an id of its own. So the assessments of a trace are read before its first score is
    written: a score that an earlier process wrote is changed, not written again.
    """

    name = "MLflow"

    def __init__(self, api: score_exporter.JsonApi) -> None:
        super().__init__(api)
        self._known: OrderedDict[str, str] = OrderedDict()
        self._read: OrderedDict[str, None] = OrderedDict()

    def send(self, scores: Sequence[score_exporter.Score]) -> SendResult[score_exporter.Score]:
        """Send the scores one by one, so that each is retried alone."""
        return score_exporter.joined(self._write(score).result([score], _RETRYABLE_OR_UNKNOWN) for score in scores)

    def _write(self, score: score_exporter.Score) -> score_exporter.Response:
        trace = f"tr-{score.trace_id}"
        if score.id not in self._known and trace not in self._read:
            response = self._api.request("GET", f"/api/3.0/mlflow/traces/{trace}")
            if response.status in _RETRYABLE_OR_UNKNOWN:
                return response
            self._remember(response.part("trace", "trace_info", "assessments"))
            _put(self._read, trace, None)
        path = f"/api/3.0/mlflow/traces/{trace}/assessments"
        assessment = _assessment(score, trace)
        if (known := self._known.get(score.id)) is not None:
            changed = {key: assessment[key] for key in _CHANGEABLE} | {"assessment_id": known, "trace_id": trace}
            body = {"assessment": changed, "update_mask": ",".join(_CHANGEABLE)}
            response = self._api.request("PATCH", f"{path}/{quote(known, safe='')}", body)
        else:
            response = self._api.request("POST", path, {"assessment": assessment})
        found = response.part("assessment", "assessment_id")
        if response.status < 300 and _is_id(found):
            _put(self._known, score.id, found)
        return response

    def _remember(self, assessments: object) -> None:
        for one in assessments if is_list(assessments) else ():
            metadata = one.get("metadata") if is_dict(one) else None
            result = metadata.get(_RESULT_ID) if is_dict(metadata) else None
            if _is_id(result) and _is_id(found := one.get("assessment_id")):
                _put(self._known, result, found)


def _is_id(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and 0 < len(value) <= _MAX_ID


def _put(remembered: OrderedDict[str, _Value], key: str, value: _Value) -> None:
    remembered[key] = value
    if len(remembered) > _REMEMBERED:
        remembered.popitem(last=False)


def _assessment(score: score_exporter.Score, trace: str) -> dict[str, Any]:
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    assessment: dict[str, Any] = {
        "assessment_name": score.name,
        "trace_id": trace,
        "source": {"source_type": "CODE", "source_id": "goldspan"},
        "create_time": now,
        "last_update_time": now,
        "feedback": {"value": score.value if score.value is not None else score.label},
        "rationale": score.explanation,
        "metadata": {
            **{key: str(value) for key, value in score.metadata.items()},
            "label": score.label,
            _RESULT_ID: score.id,
        },
        "valid": True,
    }
    return assessment | ({"span_id": score.span_id} if score.level == score_exporter.CALL else {})


_RETRYABLE_WORDS = frozenset(map(str, RETRYABLE_STATUS))
_MAX_REASON = 200
_CLOUD = "https://cloud.langfuse.com"


class LangfuseScores(score_exporter.ScoreExporter):
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
        backend = LangfuseBackend(score_exporter.JsonApi(host, langfuse_headers(public_key, secret_key)))
        super().__init__(backend, address=host, patience=patience, max_waiting=max_waiting)


def langfuse_address() -> str:
    """Return the server's address by `LANGFUSE_BASE_URL` or `LANGFUSE_HOST`, else the European cloud's."""
    return os.environ.get("LANGFUSE_BASE_URL") or os.environ.get("LANGFUSE_HOST") or _CLOUD


def langfuse_headers(public_key: str | None = None, secret_key: str | None = None) -> dict[str, str]:
    """Return the headers of requests, by `LANGFUSE_PUBLIC_KEY` and `LANGFUSE_SECRET_KEY` where a key is None."""
    public = public_key or os.environ.get("LANGFUSE_PUBLIC_KEY", "")
    secret = secret_key or os.environ.get("LANGFUSE_SECRET_KEY", "")
    return make_headers(basic_auth=f"{public}:{secret}")


class LangfuseBackend(score_exporter.Backend):
    """Langfuse's REST API, `POST /api/public/ingestion` with one `score-create` event for each score."""

    name = "Langfuse"

    def send(self, scores: Sequence[score_exporter.Score]) -> SendResult[score_exporter.Score]:
        """Send all scores in one request. Langfuse accepts scores before it knows their trace."""
        sent = {f"{number}-{score.id}": score for number, score in enumerate(scores)}
        now = datetime.now(UTC).isoformat()
        batch = [
            {"id": event_id, "type": "score-create", "timestamp": now, "body": _body(score)}
            for event_id, score in sent.items()
        ]
        response = self._api.request("POST", "/api/public/ingestion", {"batch": batch})
        return _not_accepted(sent, response) if response.status < 300 else response.result(scores)


def _not_accepted(
    sent: Mapping[str, score_exporter.Score], response: score_exporter.Response
) -> SendResult[score_exporter.Score]:
    """Read the errors of a multi-status response: each score has a status of its own."""
    errors = response.part("errors")
    retry: list[score_exporter.Score] = []
    rejected: list[score_exporter.Score] = []
    reason = ""
    for error in errors if is_list(errors) else ():
        score = sent.get(str(error.get("id"))) if is_dict(error) else None
        if score is None:
            continue
        status = str(error.get("status"))
        (retry if status in _RETRYABLE_WORDS else rejected).append(score)
        reason = reason or f"{status} {error.get('message') or error.get('error')}"[:_MAX_REASON]
    return SendResult(retry, rejected, reason)


def _body(score: score_exporter.Score) -> dict[str, Any]:
    body: dict[str, Any] = {
        "id": score.id,
        "name": score.name if score.value is not None else f"{score.name}.label",
        "value": score.value if score.value is not None else score.label,
        "dataType": "NUMERIC" if score.value is not None else "CATEGORICAL",
        "comment": score.explanation or None,
        "metadata": {**score.metadata, "label": score.label},
    }
    if score.level == score_exporter.SESSION and score.session is not None:
        return body | {"sessionId": score.session}
    if score.level == score_exporter.CALL:
        return body | {"traceId": score.trace_id, "observationId": score.span_id}
    return body | {"traceId": score.trace_id}
