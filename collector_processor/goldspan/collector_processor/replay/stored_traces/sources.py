"""Sources of traces by their URLs, as in `phoenix://default`: each platform's API, page by page.

    Phoenix     GET /v1/projects/{project}/spans, in the order of time
                https://arize.com/docs/phoenix/sdk-api-reference/rest-api/api-reference/spans
    MLflow      POST /api/3.0/mlflow/traces/search and GET batchGet, the traces of an experiment in the order of time
                https://mlflow.org/docs/latest/api_reference/rest-api.html
    Langfuse    GET /api/public/v2/observations; of an older server, its traces
                https://api.reference.langfuse.com
    LangSmith   GET /api/v1/sessions, POST /api/v1/runs/query, the runs of a project in the order of time
                https://docs.langchain.com/langsmith/export-traces
    Logfire     POST /v2/query, SQL over the spans of a project in the order of time
                https://logfire.pydantic.dev/docs/how-to-guides/query-api/
    Tempo       GET /api/search, GET /api/v2/traces/{id}, times in seconds
                https://grafana.com/docs/tempo/latest/api_docs
    Jaeger      GET /api/v3/traces, whose answers are whole traces
                https://www.jaegertracing.io/docs/latest/architecture/apis

The searches of Tempo and Jaeger give so many traces at most, in no order that a next page could go on from. So where a
search gives as many as it may, its window is halved, until all of them fit.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from time import sleep
from urllib.parse import quote, unquote, urlencode

import msgspec
from urllib3.util import make_headers

from goldspan.collector_processor.replay.stored_traces.download import (
    AnswerTooLargeError,
    DownloadError,
    PageRequest,
    Pages,
    Progress,
    StoredTraces,
    TimeWindow,
    download,
    resumable,
    start,
    window_of,
)
from goldspan.collector_processor.sinks import platform_scores

_PHOENIX_SPANS = 250  # in a page; at most 1,000


class _PhoenixSpan(msgspec.Struct, gc=False):
    start_time: datetime | None = None


class _PhoenixAnswer(msgspec.Struct, gc=False):
    data: list[_PhoenixSpan]
    next_cursor: str | None = None


def phoenix(url: str, project: str) -> StoredTraces:
    """Return the source `phoenix://PROJECT`."""
    if not project:
        raise DownloadError(f"{url}: names no project; write phoenix://default, or the name of another project")
    address, headers = platform_scores.phoenix_address(), platform_scores.phoenix_headers()
    return StoredTraces(url, "Phoenix", address, headers, partial(_phoenix_pages, project), sink="phoenix")


def _phoenix_pages(project: str, window: TimeWindow) -> Pages:
    # An older server knows no order and gives the newest first: its cursors lead through all of them as well.
    query = {
        "limit": str(_PHOENIX_SPANS),
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


_MLFLOW_TRACES = 100  # in a page of the search; at most 500
_WITH_SPANS = 10  # traces whose spans are asked for at once


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
    address, headers = platform_scores.mlflow_address(), platform_scores.mlflow_headers()
    if not experiment:
        raise DownloadError(f"{url}: names no experiment; write mlflow://Default, or another name or id")
    if not address.startswith(("http://", "https://")):
        raise DownloadError(
            f"{url}: MLFLOW_TRACKING_URI is {address}; expected the address of an MLflow server, such as "
            "http://localhost:5000 (`mlflow server` starts one for a store)"
        )
    return StoredTraces(url, "MLflow", address, headers, partial(_mlflow_pages, experiment), sink="mlflow")


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
        for first in range(0, len(answer.traces), _WITH_SPANS):
            ids = [("trace_ids", trace.trace_id) for trace in answer.traces[first : first + _WITH_SPANS]]
            yield PageRequest(f"/api/3.0/mlflow/traces/batchGet?{urlencode(ids)}")
        found += len(answer.traces)
        token = answer.next_page_token
        if not token or not answer.traces:
            return found


_OBSERVATIONS = 200  # in a page; at most 1,000
_LANGFUSE_TRACES = 50  # in a page of an older server; at most 100
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


class _LangfuseTraces(msgspec.Struct, gc=False):
    data: list[_Trace]
    meta: _Meta


def langfuse(url: str, project: str) -> StoredTraces:
    """Return the source `langfuse://[PROJECT]`. The keys belong to one project: a name only makes sure of it."""
    missing = [name for name in ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY") if not os.environ.get(name)]
    if missing:
        raise DownloadError(f"{url}: {' and '.join(missing)} not set; a project's settings in Langfuse have its keys")
    address, headers = platform_scores.langfuse_address(), platform_scores.langfuse_headers()
    pages = partial(_langfuse_pages, url, project)
    return StoredTraces(url, "Langfuse", address, headers, pages, sink="langfuse")


def _langfuse_pages(url: str, project: str, window: TimeWindow) -> Pages:
    if project:
        named = yield PageRequest("/api/public/projects", holds_spans=False)
        names = [one.name for one in msgspec.json.decode(named, type=_Projects).data]
        if project not in names:
            raise DownloadError(f"{url}: the keys in LANGFUSE_PUBLIC_KEY are of the project {', '.join(names)}")
    times = {"fromStartTime": _utc(window.since, "milliseconds"), "toStartTime": _utc(window.until, "milliseconds")}
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
    times = {"fromTimestamp": _utc(window.since, "milliseconds"), "toTimestamp": _utc(window.until, "milliseconds")}
    query = {"limit": str(_LANGFUSE_TRACES), "orderBy": "timestamp.asc", "fields": "core"} | times
    found, number, done = 0, 1, 0.0
    while True:
        path = f"/api/public/traces?{urlencode(query | {'page': str(number)})}"
        listed = msgspec.json.decode((yield PageRequest(path, holds_spans=False, done=done)), type=_LangfuseTraces)
        for trace in listed.data:
            if trace.timestamp is not None:
                done = window.share(trace.timestamp)
            # A trace may be deleted in the meantime.
            yield PageRequest(f"/api/public/traces/{quote(trace.id, safe='')}", missing=b"", done=done)
        found += len(listed.data)
        if number >= listed.meta.totalPages or not listed.data:
            return found
        number += 1


def _utc(time: datetime, timespec: str) -> str:
    return time.astimezone(UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


# LangSmith.

_RUNS = 100  # in a page; at most 100
_RUN_FIELDS = (
    "id", "trace_id", "parent_run_id", "run_type", "name", "inputs", "outputs", "extra", "error", "start_time",
    "end_time", "thread_id",
)  # fmt: skip


class _Project(msgspec.Struct, gc=False):
    id: str


class _Run(msgspec.Struct, gc=False):
    start_time: str = ""


class _Cursors(msgspec.Struct, gc=False):
    next: str | None = None


class _LangSmithAnswer(msgspec.Struct, gc=False):
    runs: list[_Run]
    cursors: _Cursors | None = None


def langsmith(url: str, project: str) -> StoredTraces:
    """Return the source `langsmith://PROJECT`."""
    key = os.environ.get("LANGSMITH_API_KEY")
    if not project or not key:
        what = "LANGSMITH_API_KEY is not set" if project else "names no project; write langsmith://default"
        raise DownloadError(f"{url}: {what}")
    headers = {"X-Api-Key": key}
    if workspace := os.environ.get("LANGSMITH_WORKSPACE_ID"):
        headers["X-Tenant-Id"] = workspace
    address = os.environ.get("LANGSMITH_ENDPOINT") or "https://api.smith.langchain.com"
    pages = partial(_langsmith_pages, url, project)
    return StoredTraces(url, "LangSmith", address, headers, pages)


def _langsmith_pages(url: str, project: str, window: TimeWindow) -> Pages:
    named = yield PageRequest(f"/api/v1/sessions?{urlencode({'name': project, 'limit': 1})}", holds_spans=False)
    projects = msgspec.json.decode(named, type=list[_Project])
    if not projects:
        raise DownloadError(f"{url}: LangSmith has no such project")
    query: dict[str, object] = {
        "session": [projects[0].id],
        "start_time": window.since.isoformat(),
        "filter": f'lt(start_time, "{window.until.isoformat()}")',
        "order": "asc",
        "limit": _RUNS,
        "select": list(_RUN_FIELDS),
    }
    found, done = 0, 0.0
    while True:
        body = yield PageRequest("/api/v1/runs/query", json.dumps(query).encode(), done=done)
        answer = msgspec.json.decode(body, type=_LangSmithAnswer)
        found += len(answer.runs)
        if not answer.runs or answer.cursors is None or not answer.cursors.next:
            return found
        query["cursor"] = answer.cursors.next
        done = window.share(read_time(answer.runs[-1].start_time, window.until))


# Logfire.

_RECORDS = 10_000  # rows of one answer, the most it gives
_RECORD_COLUMNS = (
    "trace_id, span_id, parent_span_id, span_name, start_timestamp, end_timestamp, otel_status_code, "
    "otel_status_message, attributes, otel_resource_attributes, otel_scope_name, otel_events, service_name"
)


class _Record(msgspec.Struct, gc=False):
    start_timestamp: str
    trace_id: str
    span_id: str


class _LogfireAnswer(msgspec.Struct, gc=False):
    data: list[_Record]


def logfire(url: str, service: str) -> StoredTraces:
    """Return the source `logfire://[SERVICE]`: spans of the project that the token reads, or of one service in it."""
    token = os.environ.get("LOGFIRE_READ_TOKEN")
    if not token:
        raise DownloadError(f"{url}: LOGFIRE_READ_TOKEN is not set; a project's settings in Logfire make one")
    of_region = "https://logfire-eu.pydantic.dev" if "_eu_" in token else "https://logfire-us.pydantic.dev"
    address = os.environ.get("LOGFIRE_BASE_URL") or of_region
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
    return StoredTraces(url, "Logfire", address, headers, partial(_logfire_pages, service))


def _logfire_pages(service: str, window: TimeWindow) -> Pages:
    found = 0
    for part in _parts(window, 14 * _DAY):  # a query may reach over two weeks at most
        last: _Record | None = None
        while True:
            times = {"min_timestamp": part.since.isoformat(), "max_timestamp": part.until.isoformat()}
            query = {"sql": _logfire_sql(service, part, last), "limit": _RECORDS} | times
            done = window.share(part.since if last is None else read_time(last.start_timestamp, window.until))
            body = yield PageRequest("/v2/query", json.dumps(query).encode(), done=done)
            rows = msgspec.json.decode(body, type=_LogfireAnswer).data
            found += len(rows)
            if len(rows) < _RECORDS:
                break
            last = rows[-1]
    return found


def _logfire_sql(service: str, window: TimeWindow, last: _Record | None) -> str:
    """Return the query for spans after the last one that was read, in the order of time and ids."""
    wanted = [
        "kind = 'span'",
        f"start_timestamp >= '{window.since.isoformat()}'",
        f"start_timestamp < '{window.until.isoformat()}'",
    ]
    if service:
        wanted.append("service_name = '{}'".format(service.replace("'", "''")))
    if last is not None:
        time, trace, span = (f"'{one}'" for one in (last.start_timestamp, last.trace_id, last.span_id))
        wanted.append(
            f"(start_timestamp > {time} OR (start_timestamp = {time} AND "
            f"(trace_id > {trace} OR (trace_id = {trace} AND span_id > {span}))))"
        )
    where, order = " AND ".join(wanted), "start_timestamp, trace_id, span_id"
    return f"SELECT {_RECORD_COLUMNS} FROM records WHERE {where} ORDER BY {order}"


_DAY = timedelta(days=1)  # the longest window of one search: Tempo refuses more than a week, or what its operator chose
_TEMPO_TRACES = 500
_JAEGER_TRACES = 100
_SECOND = timedelta(seconds=1)
_MILLISECOND = timedelta(milliseconds=1)


def _headers(platform: str) -> dict[str, str]:
    """Return headers with the credentials in the platform's variables, a bearer token before a user."""
    if token := os.environ.get(f"{platform}_BEARER_TOKEN"):
        return {"Authorization": f"Bearer {token}"}
    if user := os.environ.get(f"{platform}_USERNAME"):
        return make_headers(basic_auth=f"{user}:{os.environ.get(f'{platform}_PASSWORD', '')}")
    return {}


def _parts(window: TimeWindow, length: timedelta) -> Iterator[TimeWindow]:
    since = window.since
    while since < window.until:
        until = min(since + length, window.until)
        yield TimeWindow(since, until)
        since = until


def _halves(url: str, window: TimeWindow, step: timedelta, most: int, advice: str = "") -> list[TimeWindow]:
    """Return the halves of a window with too many traces for one search, cut at a multiple of `step`, the later first.

    Raises DownloadError if there is no such time inside.
    """
    since, until = window.since, window.until
    middle = since + (until - since) // 2 // step * step
    if middle <= since:
        raise DownloadError(
            f"{url}: there are {most} traces or more between {since} and {until}, and no search gives them all{advice}"
        )
    return [TimeWindow(middle, until), TimeWindow(since, middle)]


# Tempo.


class _Found(msgspec.Struct, gc=False):
    traceID: str  # noqa: N815 - Tempo's name


class _TempoAnswer(msgspec.Struct, gc=False):
    traces: list[_Found] = []


def tempo(url: str, query: str) -> StoredTraces:
    """Return the source `tempo://[SERVICE]`, or `tempo://{ TraceQL }`; without either, every trace."""
    headers = _headers("TEMPO")
    if tenant := os.environ.get("TEMPO_ORG_ID"):
        headers["X-Scope-OrgID"] = tenant
    address = os.environ.get("TEMPO_QUERY_URL") or "http://localhost:3200"
    traceql = query or "{}"
    if not traceql.lstrip().startswith("{"):
        traceql = f"{{ resource.service.name = {json.dumps(query)} }}"
    return StoredTraces(url, "Tempo", address, headers, partial(_tempo_pages, url, traceql))


def _tempo_pages(url: str, traceql: str, window: TimeWindow) -> Pages:
    # Tempo counts in seconds: a window has no part of one.
    since, until = (time.replace(microsecond=0) for time in (window.since, window.until))
    waiting = [*_parts(TimeWindow(since, until if until == window.until else until + _SECOND), _DAY)][::-1]
    read = set[str]()
    while waiting:
        part = waiting.pop()
        query = {"q": traceql, "limit": _TEMPO_TRACES, "spss": 1}
        times = {"start": int(part.since.timestamp()), "end": int(part.until.timestamp())}
        path = f"/api/search?{urlencode(query | times)}"
        body = yield PageRequest(path, holds_spans=False, done=window.share(part.since))
        found = [trace.traceID for trace in msgspec.json.decode(body, type=_TempoAnswer).traces]
        if len(found) >= _TEMPO_TRACES:
            waiting += _halves(url, part, _SECOND, _TEMPO_TRACES, "; narrow the traces by tempo://{ TraceQL }")
            continue
        for trace in found:
            if trace not in read:  # one that is in several windows is read once, and whole
                read.add(trace)
                for api in ("/api/v2/traces", "/api/traces"):  # the second of servers before 2.7
                    path = f"{api}/{quote(trace, safe='')}"
                    if (yield PageRequest(path, missing=b"", done=window.share(part.since))):
                        break
    return len(read)


# Jaeger.


def jaeger(url: str, service: str) -> StoredTraces:
    """Return the source `jaeger://SERVICE`."""
    if not service:
        raise DownloadError(f"{url}: names no service, which Jaeger's search needs; write jaeger://SERVICE")
    address = os.environ.get("JAEGER_QUERY_URL") or "http://localhost:16686"
    pages = partial(_jaeger_pages, url, service)
    return StoredTraces(url, "Jaeger", address, _headers("JAEGER"), pages)


class _Span(msgspec.Struct, gc=False):
    traceId: str = ""  # noqa: N815 - OTLP's name


class _Scope(msgspec.Struct, gc=False):
    spans: list[_Span] = []


class _Resource(msgspec.Struct, gc=False):
    scopeSpans: list[_Scope] = []  # noqa: N815 - OTLP's name


class _Traces(msgspec.Struct, gc=False):
    resourceSpans: list[_Resource] = []  # noqa: N815 - OTLP's name


class _JaegerAnswer(msgspec.Struct, gc=False):
    result: _Traces


def _jaeger_pages(url: str, service: str, window: TimeWindow) -> Pages:
    waiting = [*_parts(window, _DAY)][::-1]
    count = 0
    while waiting:
        part = waiting.pop()
        query = {
            "query.service_name": service,
            "query.start_time_min": _utc(part.since, "microseconds"),
            "query.start_time_max": _utc(part.until, "microseconds"),
            "query.num_traces": _JAEGER_TRACES,
            "query.search_depth": _JAEGER_TRACES,  # the same since Jaeger 2
        }
        page = PageRequest(
            f"/api/v3/traces?{urlencode(query)}", missing=b"No traces found", done=window.share(part.since)
        )
        try:
            body = yield page
        except AnswerTooLargeError:
            found = _JAEGER_TRACES
        else:
            answer = msgspec.json.decode(body, type=_JaegerAnswer).result if body else _Traces()
            scopes = (scope for resource in answer.resourceSpans for scope in resource.scopeSpans)
            found = len({span.traceId for scope in scopes for span in scope.spans})
        if found >= _JAEGER_TRACES:
            waiting += _halves(url, part, _MILLISECOND, _JAEGER_TRACES)
        count += found
    return count


_PLATFORMS: Mapping[str, Callable[[str, str], StoredTraces]] = {
    "phoenix": phoenix,
    "langfuse": langfuse,
    "mlflow": mlflow,
    "langsmith": langsmith,
    "logfire": logfire,
    "tempo": tempo,
    "jaeger": jaeger,
}
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def stored_traces(url: str) -> StoredTraces:
    """Return the source that a URL names, with what the environment says of its platform. Raises `DownloadError`."""
    platform, _, named = url.partition("://")
    return _PLATFORMS[platform](url, unquote(named.strip("/")))


@dataclass(frozen=True, slots=True)
class Downloads:
    """Which stored traces are read, and where to."""

    since: str = "7d"
    """A time, as `read_time` takes it."""
    until: str = ""
    """The same; empty: now."""
    folder: Path | None = None
    """Where answers are kept; None: in a temporary directory."""
    sleep: Callable[[float], object] = sleep

    def read(
        self, url: str, temporary: Path, now: datetime, on_page: Callable[[Progress], object] = lambda _: None
    ) -> Path:
        """Read the traces of a source and return the folder with them.

        Raises DownloadError if they cannot be read, or there are none.
        """
        source = stored_traces(url)
        window = TimeWindow(read_time(self.since, now), read_time(self.until, now) if self.until else now)
        if window.since >= window.until:
            raise DownloadError(f"--since {self.since} is not before --until {self.until or 'now'}")
        kept = self.folder or temporary
        folder = resumable(kept, url, self.since, self.until)
        if folder is None:
            named = re.sub(r"[^A-Za-z0-9._-]+", "-", url).strip("-")[:60]
            folder = kept / f"{named}-{now.astimezone(UTC):%Y%m%dT%H%M%S%fZ}"
            try:
                start(folder, url, self.since, self.until, window)
            except OSError as error:
                raise DownloadError(f"{folder} cannot be made: {error.strerror or error}") from None
        found = download(source, folder, on_page, self.sleep)
        if not found:
            read = window_of(folder)
            raise DownloadError(
                f"{url}: {source.platform} at {source.address} has no traces from {read.since:%Y-%m-%d %H:%M} to "
                f"{read.until:%Y-%m-%d %H:%M} UTC; --since and --until choose another time"
            )
        return folder


def read_time(written: str, now: datetime) -> datetime:
    """Read a time: so long before `now`, as in 90m, 24h or 7d; or a date or time of ISO 8601, in UTC without a zone.

    Raises ValueError if it is neither.
    """
    if age := re.fullmatch(r"(\d{1,6})([smhdw])", written.strip()):
        return now - timedelta(seconds=int(age[1]) * _UNITS[age[2]])
    read = datetime.fromisoformat(written.strip())
    return read if read.tzinfo else read.replace(tzinfo=UTC)
