"""Scores as assessments in MLflow: feedback on the span for calls, on the trace for turns and sessions."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TypeGuard, TypeVar
from urllib.parse import quote

from urllib3.util import make_headers

from goldspan.collector_processor.http_client import RETRYABLE_STATUS
from goldspan.collector_processor.retrying_queue import SendResult
from goldspan.collector_processor.sinks.score_exporter import (
    CALL,
    Backend,
    JsonApi,
    Response,
    Score,
    ScoreExporter,
    joined,
)
from goldspan.scoring.json_values import is_dict, is_list

_RETRYABLE = RETRYABLE_STATUS | {404}
"""404: the trace is not known yet."""
_CHANGEABLE: Sequence[str] = ("feedback", "rationale", "metadata")
_Value = TypeVar("_Value")
_MAX_ID = 200
"""Characters of an assessment's id; a longer one is none."""
_REMEMBERED = 10_000
"""Assessments whose ids are in memory, so that a correction replaces them, and traces whose assessments were read."""
_RESULT_ID = "goldspan.result.id"
"""The result's id in the metadata of an assessment."""


class MLflowScores(ScoreExporter):
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
        backend = MLflowBackend(JsonApi(uri, mlflow_headers(token)))
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


class MLflowBackend(Backend):
    """MLflow's REST API, `POST /api/3.0/mlflow/traces/{trace}/assessments`, one request for each score.

    MLflow gives an assessment an id of its own. So the assessments of a trace are read before its first score is
    written: a score that an earlier process wrote is changed, not written again.
    """

    name = "MLflow"

    def __init__(self, api: JsonApi) -> None:
        super().__init__(api)
        self._known: OrderedDict[str, str] = OrderedDict()
        self._read: OrderedDict[str, None] = OrderedDict()

    def send(self, scores: Sequence[Score]) -> SendResult[Score]:
        """Send the scores one by one, so that each is retried alone."""
        return joined(self._write(score).result([score], _RETRYABLE) for score in scores)

    def _write(self, score: Score) -> Response:
        trace = f"tr-{score.trace_id}"
        if score.id not in self._known and trace not in self._read:
            response = self._api.request("GET", f"/api/3.0/mlflow/traces/{trace}")
            if response.status in _RETRYABLE:
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


def _assessment(score: Score, trace: str) -> dict[str, Any]:
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
    return assessment | ({"span_id": score.span_id} if score.level == CALL else {})
