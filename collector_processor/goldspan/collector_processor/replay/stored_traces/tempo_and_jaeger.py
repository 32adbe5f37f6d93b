"""Grafana Tempo and Jaeger: traces by search, in windows of time.

Their searches give so many traces at most, in no order that a next page could go on from. So where a search gives as
many as it may, its window is halved, until all of them fit.

    Tempo     GET /api/search, GET /api/v2/traces/{id}, times in seconds
              https://grafana.com/docs/tempo/latest/api_docs
    Jaeger    GET /api/v3/traces, whose answers are whole traces
              https://www.jaegertracing.io/docs/latest/architecture/apis
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from urllib.parse import quote, urlencode

import msgspec
from urllib3.util import make_headers

from goldspan.collector_processor.replay.stored_traces.download import (
    AnswerTooLargeError,
    DownloadError,
    PageRequest,
    Pages,
    StoredTraces,
    TimeWindow,
)

_DAY = timedelta(days=1)
"""The longest window of one search: Tempo refuses more than a week, or what its operator chose."""
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


def _variables(platform: str) -> str:
    return (
        f"{platform}_QUERY_URL is its address, {platform}_BEARER_TOKEN, or {platform}_USERNAME and "
        f"{platform}_PASSWORD, its credentials"
    )


def _days(window: TimeWindow) -> Iterator[TimeWindow]:
    since = window.since
    while since < window.until:
        until = min(since + _DAY, window.until)
        yield TimeWindow(since, until)
        since = until


def _halves(window: TimeWindow, step: timedelta) -> list[TimeWindow]:
    """Return the halves of a window, cut at a multiple of `step`; none if it has no such time inside."""
    middle = window.since + (window.until - window.since) // 2 // step * step
    return [TimeWindow(window.since, middle), TimeWindow(middle, window.until)] if middle > window.since else []


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
    variables = f"{_variables('TEMPO')}, TEMPO_ORG_ID its tenant"
    address = os.environ.get("TEMPO_QUERY_URL") or "http://localhost:3200"
    traceql = query or "{}"
    if not traceql.lstrip().startswith("{"):
        traceql = f"{{ resource.service.name = {json.dumps(query)} }}"
    return StoredTraces(url, "Tempo", address, headers, variables, partial(_tempo_pages, url, traceql))


def _tempo_pages(url: str, traceql: str, window: TimeWindow) -> Pages:
    # Tempo counts in seconds: a window has no part of one.
    since, until = (time.replace(microsecond=0) for time in (window.since, window.until))
    waiting = [*_days(TimeWindow(since, until if until == window.until else until + _SECOND))][::-1]
    read = set[str]()
    while waiting:
        part = waiting.pop()
        query = {"q": traceql, "limit": _TEMPO_TRACES, "spss": 1}
        times = {"start": int(part.since.timestamp()), "end": int(part.until.timestamp())}
        path = f"/api/search?{urlencode(query | times)}"
        body = yield PageRequest(path, holds_spans=False, done=window.share(part.since))
        found = [trace.traceID for trace in msgspec.json.decode(body, type=_TempoAnswer).traces]
        if len(found) >= _TEMPO_TRACES:
            halves = _halves(part, _SECOND)
            if not halves:
                raise DownloadError(
                    f"{url}: {_too_dense(part, _TEMPO_TRACES)}; narrow the traces by tempo://{{ TraceQL }}"
                )
            waiting += halves[::-1]
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
    return StoredTraces(url, "Jaeger", address, _headers("JAEGER"), _variables("JAEGER"), pages)


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
    waiting = [*_days(window)][::-1]
    count = 0
    while waiting:
        part = waiting.pop()
        query = {
            "query.service_name": service,
            "query.start_time_min": _time(part.since),
            "query.start_time_max": _time(part.until),
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
            halves = _halves(part, _MILLISECOND)
            if not halves:
                raise DownloadError(f"{url}: {_too_dense(part, _JAEGER_TRACES)}")
            waiting += halves[::-1]
        count += found
    return count


def _too_dense(window: TimeWindow, most: int) -> str:
    return f"there are {most} traces or more between {window.since} and {window.until}, and no search gives them all"


def _time(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
