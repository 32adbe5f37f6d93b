"""MLflow: the traces of an experiment in the order of time, by `POST /api/3.0/mlflow/traces/search` and `batchGet`.

https://mlflow.org/docs/latest/api_reference/rest-api.html
"""

from __future__ import annotations

import json
from functools import partial
from urllib.parse import urlencode

import msgspec

from goldspan.collector_processor.replay.stored_traces.download import (
    DownloadError,
    PageRequest,
    Pages,
    StoredTraces,
    TimeWindow,
)
from goldspan.collector_processor.sinks.platform_scores import mlflow_address, mlflow_headers

_TRACES = 100
"""In a page of the search; at most 500."""
_WITH_SPANS = 10
"""Traces whose spans are asked for at once."""
_VARIABLES = (
    "MLFLOW_TRACKING_URI is its address, MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and "
    "MLFLOW_TRACKING_PASSWORD, its credentials"
)


class _Experiment(msgspec.Struct, gc=False):
    experiment_id: str


class _ExperimentAnswer(msgspec.Struct, gc=False):
    experiment: _Experiment


class _Trace(msgspec.Struct, gc=False):
    trace_id: str


class _SearchAnswer(msgspec.Struct, gc=False):
    traces: list[_Trace] = []
    next_page_token: str = ""


def mlflow(url: str, experiment: str) -> StoredTraces:
    """Return the source `mlflow://EXPERIMENT`, by name or id."""
    address, headers = mlflow_address(), mlflow_headers()
    if not experiment:
        raise DownloadError(f"{url}: names no experiment; write mlflow://Default, or another name or id")
    if not address.startswith(("http://", "https://")):
        raise DownloadError(
            f"{url}: MLFLOW_TRACKING_URI is {address}; expected the address of an MLflow server, such as "
            "http://localhost:5000 (`mlflow server` starts one for a store)"
        )
    return StoredTraces(url, "MLflow", address, headers, _VARIABLES, partial(_pages, experiment), sink="mlflow")


def _pages(experiment: str, window: TimeWindow) -> Pages:
    by_name = f"/api/2.0/mlflow/experiments/get-by-name?{urlencode({'experiment_name': experiment})}"
    named = yield PageRequest(by_name, holds_spans=False, missing=b"" if experiment.isdecimal() else None)
    identity = msgspec.json.decode(named, type=_ExperimentAnswer).experiment.experiment_id if named else experiment
    since, until = (round(time.timestamp() * 1000) for time in (window.since, window.until))
    query = {
        "locations": [{"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": identity}}],
        "filter": f"timestamp_ms >= {since} AND timestamp_ms < {until}",
        "order_by": ["timestamp_ms ASC"],
        "max_results": _TRACES,
    }
    found, token = 0, ""
    while True:
        body = json.dumps(query | ({"page_token": token} if token else {})).encode()
        listed = yield PageRequest("/api/3.0/mlflow/traces/search", body, holds_spans=False)
        answer = msgspec.json.decode(listed, type=_SearchAnswer)
        for start in range(0, len(answer.traces), _WITH_SPANS):
            ids = [("trace_ids", trace.trace_id) for trace in answer.traces[start : start + _WITH_SPANS]]
            yield PageRequest(f"/api/3.0/mlflow/traces/batchGet?{urlencode(ids)}")
        found += len(answer.traces)
        token = answer.next_page_token
        if not token or not answer.traces:
            return found
