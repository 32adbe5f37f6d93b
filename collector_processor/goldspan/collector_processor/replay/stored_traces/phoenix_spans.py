"""Phoenix: the spans of a project in the order of time, by `GET /v1/projects/{project}/spans`.

https://arize.com/docs/phoenix/sdk-api-reference/rest-api/api-reference/spans
"""

from __future__ import annotations

from datetime import datetime
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
from goldspan.collector_processor.sinks.platform_scores import phoenix_address, phoenix_headers

_SPANS = 250
"""In a page; at most 1,000."""
_VARIABLES = (
    "PHOENIX_COLLECTOR_ENDPOINT (or PHOENIX_HOST and PHOENIX_PORT) is its address, PHOENIX_API_KEY its key, "
    "PHOENIX_CLIENT_HEADERS further headers"
)


class _Span(msgspec.Struct, gc=False):
    start_time: datetime | None = None


class _Answer(msgspec.Struct, gc=False):
    data: list[_Span]
    next_cursor: str | None = None


def phoenix(url: str, project: str) -> StoredTraces:
    """Return the source `phoenix://PROJECT`."""
    if not project:
        raise DownloadError(f"{url}: names no project; write phoenix://default, or the name of another project")
    address, headers = phoenix_address(), phoenix_headers()
    return StoredTraces(url, "Phoenix", address, headers, _VARIABLES, partial(_pages, project), sink="phoenix")


def _pages(project: str, window: TimeWindow) -> Pages:
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
        answer = msgspec.json.decode(body, type=_Answer)
        found += len(answer.data)
        cursor = answer.next_cursor
        if not cursor:
            return found
        if answer.data and (reached := answer.data[-1].start_time) is not None:
            done = window.share(reached)
