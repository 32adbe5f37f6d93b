"""Langfuse: the observations of a project, by `GET /api/public/v2/observations`; of an older server, by its traces.

https://api.reference.langfuse.com
"""

from __future__ import annotations

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
from goldspan.collector_processor.sinks.platform_scores import langfuse_address, langfuse_headers

_OBSERVATIONS = 200
"""In a page; at most 1,000."""
_TRACES = 50
"""In a page of an older server; at most 100."""
_VARIABLES = (
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


class _Answer(msgspec.Struct, gc=False):
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
    pages = partial(_pages, url, project)
    return StoredTraces(url, "Langfuse", address, headers, _VARIABLES, pages, sink="langfuse")


def _pages(url: str, project: str, window: TimeWindow) -> Pages:
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
        answer = msgspec.json.decode(body, type=_Answer)
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
