"""Phoenix, MLflow and Langfuse: what a project stores, page by page.

Phoenix     GET /v1/projects/{project}/spans, in the order of time
            https://arize.com/docs/phoenix/sdk-api-reference/rest-api/api-reference/spans
MLflow      POST /api/3.0/mlflow/traces/search and GET batchGet, the traces of an experiment in the order of time
            https://mlflow.org/docs/latest/api_reference/rest-api.html
Langfuse    GET /api/public/v2/observations; of an older server, its traces
            https://api.reference.langfuse.com
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from functools import partial
from urllib.parse import quote, urlencode

import msgspec

from goldspan.collector_processor.replay.stored_traces.download import (
    DownloadError,
    PageRequest,
    Pages,
    StoredTraces,
    TimeWindow,
)
from goldspan.collector_processor.sinks.platform_scores import (
    langfuse_address,
    langfuse_headers,
    mlflow_address,
    mlflow_headers,
    phoenix_address,
    phoenix_headers,
)

_SPANS = 250
"""In a page; at most 1,000."""
_PHOENIX_VARIABLES = (
    "PHOENIX_COLLECTOR_ENDPOINT (or PHOENIX_HOST and PHOENIX_PORT) is its address, PHOENIX_API_KEY its key, "
    "PHOENIX_CLIENT_HEADERS further headers"
)


class _PhoenixSpan(msgspec.Struct, gc=False):
    start_time: datetime | None = None


class _PhoenixAnswer(msgspec.Struct, gc=False):
    data: list[_PhoenixSpan]
    next_cursor: str | None = None


def phoenix(url: str, project: str) -> StoredTraces:
    """Return the source `phoenix://PROJECT`."""
    if not project:
        raise DownloadError(f"{url}: names no project; write phoenix://default, or the name of another project")
    address, headers = phoenix_address(), phoenix_headers()
    return StoredTraces(
        url, "Phoenix", address, headers, _PHOENIX_VARIABLES, partial(_phoenix_pages, project), sink="phoenix"
    )


def _phoenix_pages(project: str, window: TimeWindow) -> Pages:
    # An older server knows no order and gives the newest first: its cursors lead through all of them as well.
    query = {
        "limit": str(_SPANS),
        "sort": "start_time",
        "order": "asc",
        "start_time": window.since.isoformat(),
        "end_time": window.until.isoformat(),
    }
    found, done = 0, 0.0
    cursor: str | None = None
    while True:
        asked = urlencode(query | ({"cursor": cursor} if cursor else {}))
        body = yield PageRequest(f"/v1/projects/{quote(project, safe='')}/spans?{asked}", done=done)
        answer = msgspec.json.decode(body, type=_PhoenixAnswer)
        found += len(answer.data)
        cursor = answer.next_cursor
        if not cursor:
            return found
        if answer.data and (reached := answer.data[-1].start_time) is not None:
            done = window.share(reached)


_MLFLOW_TRACES = 100
"""In a page of the search; at most 500."""
_WITH_SPANS = 10
"""Traces whose spans are asked for at once."""
_MLFLOW_VARIABLES = (
    "MLFLOW_TRACKING_URI is its address, MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and "
    "MLFLOW_TRACKING_PASSWORD, its credentials"
)


class _Experiment(msgspec.Struct, gc=False):
    experiment_id: str


class _ExperimentAnswer(msgspec.Struct, gc=False):
    experiment: _Experiment


class _MLflowTrace(msgspec.Struct, gc=False):
    trace_id: str


class _SearchAnswer(msgspec.Struct, gc=False):
    traces: list[_MLflowTrace] = []
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
    return StoredTraces(
        url, "MLflow", address, headers, _MLFLOW_VARIABLES, partial(_mlflow_pages, experiment), sink="mlflow"
    )


def _mlflow_pages(experiment: str, window: TimeWindow) -> Pages:
    by_name = f"/api/2.0/mlflow/experiments/get-by-name?{urlencode({'experiment_name': experiment})}"
    named = yield PageRequest(by_name, holds_spans=False, missing=b"" if experiment.isdecimal() else None)
    identity = msgspec.json.decode(named, type=_ExperimentAnswer).experiment.experiment_id if named else experiment
    since, until = (round(time.timestamp() * 1000) for time in (window.since, window.until))
    query = {
        "locations": [{"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": identity}}],
        "filter": f"timestamp_ms >= {since} AND timestamp_ms < {until}",
        "order_by": ["timestamp_ms ASC"],
        "max_results": _MLFLOW_TRACES,
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


_OBSERVATIONS = 200
"""In a page; at most 1,000."""
_TRACES = 50
"""In a page of an older server; at most 100."""
_LANGFUSE_VARIABLES = (
    "LANGFUSE_BASE_URL (or LANGFUSE_HOST) is its address, LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY are the keys "
    "of a project"
)
_FIELDS = {
    "fields": "core,basic,io,metadata,trace_context",
    "expandMetadata": "attributes,resourceAttributes,scope",  # others are cut after 200 characters
}


class _Named(msgspec.Struct, gc=False):
    name: str = ""


class _Projects(msgspec.Struct, gc=False):
    data: list[_Named]


class _Observation(msgspec.Struct, gc=False):
    startTime: datetime | None = None  # noqa: N815 - Langfuse's name


class _Meta(msgspec.Struct, gc=False):
    cursor: str | None = None
    totalPages: int = 0  # noqa: N815 - Langfuse's name


class _LangfuseAnswer(msgspec.Struct, gc=False):
    data: list[_Observation]
    meta: _Meta = msgspec.field(default_factory=_Meta)


class _Trace(msgspec.Struct, gc=False):
    id: str
    timestamp: datetime | None = None


class _Traces(msgspec.Struct, gc=False):
    data: list[_Trace]
    meta: _Meta


def langfuse(url: str, project: str) -> StoredTraces:
    """Return the source `langfuse://[PROJECT]`. The keys belong to one project: a name only makes sure of it."""
    missing = [name for name in ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY") if not os.environ.get(name)]
    if missing:
        raise DownloadError(f"{url}: {' and '.join(missing)} not set; a project's settings in Langfuse have its keys")
    address, headers = langfuse_address(), langfuse_headers()
    pages = partial(_langfuse_pages, url, project)
    return StoredTraces(url, "Langfuse", address, headers, _LANGFUSE_VARIABLES, pages, sink="langfuse")


def _langfuse_pages(url: str, project: str, window: TimeWindow) -> Pages:
    if project:
        named = yield PageRequest("/api/public/projects", holds_spans=False)
        names = [one.name for one in msgspec.json.decode(named, type=_Projects).data]
        if project not in names:
            raise DownloadError(f"{url}: the keys in LANGFUSE_PUBLIC_KEY are of the project {', '.join(names)}")
    times = {"fromStartTime": _time(window.since), "toStartTime": _time(window.until)}
    query = {"limit": str(_OBSERVATIONS)} | _FIELDS | times
    found, done = 0, 0.0
    cursor: str | None = None
    while True:
        asked = urlencode(query | ({"cursor": cursor} if cursor else {}))
        body = yield PageRequest(f"/api/public/v2/observations?{asked}", missing=None if found else b"", done=done)
        if not body:
            return (yield from _traces(window))
        answer = msgspec.json.decode(body, type=_LangfuseAnswer)
        found += len(answer.data)
        cursor = answer.meta.cursor
        if not cursor or not answer.data:
            return found
        if (reached := answer.data[-1].startTime) is not None:  # the newest come first
            done = 1 - window.share(reached)


def _traces(window: TimeWindow) -> Pages:
    """Read traces one by one: servers before version 4 give observations without their session otherwise."""
    times = {"fromTimestamp": _time(window.since), "toTimestamp": _time(window.until)}
    query = {"limit": str(_TRACES), "orderBy": "timestamp.asc", "fields": "core"} | times
    found, number, done = 0, 1, 0.0
    while True:
        path = f"/api/public/traces?{urlencode(query | {'page': str(number)})}"
        listed = msgspec.json.decode((yield PageRequest(path, holds_spans=False, done=done)), type=_Traces)
        for trace in listed.data:
            if trace.timestamp is not None:
                done = window.share(trace.timestamp)
            # A trace may be deleted in the meantime.
            yield PageRequest(f"/api/public/traces/{quote(trace.id, safe='')}", missing=b"", done=done)
        found += len(listed.data)
        if number >= listed.meta.totalPages or not listed.data:
            return found
        number += 1


def _time(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
