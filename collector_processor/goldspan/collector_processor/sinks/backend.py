"""What a back-end's API has to offer, and what may come of sending scores to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import urllib3

from goldspan.collector_processor.sinks.score import Score

TIMEOUT = urllib3.Timeout(connect=5.0, read=20.0)
AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses after which the same request may go through later."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a back-end did not take."""

    again: Sequence[Score] = ()
    """May go through later: the back-end is away or busy, or does not know the span yet."""
    refused: Sequence[Score] = ()
    """Would be refused again."""
    reason: str = ""
    """Of the first of them."""


class Backend(Protocol):
    """Sends scores by one back-end's API."""

    @property
    def name(self) -> str:
        """The back-end's name, for messages and counters."""
        ...

    def send(self, scores: Sequence[Score]) -> Answer:
        """Make one attempt for all of them. May raise `urllib3.exceptions.HTTPError`: all are to be sent again."""
        ...


@dataclass(frozen=True, slots=True)
class Response:
    """An HTTP response, its body decoded if it is JSON."""

    status: int
    body: Any

    def part(self, *keys: str) -> Any:
        """Return what stands below these keys in a JSON object, or none."""
        found = self.body
        for key in keys:
            found = cast("dict[str, Any]", found).get(key) if isinstance(found, dict) else None
        return found

    @property
    def reason(self) -> str:
        """Status and the beginning of what was said, in one line."""
        return f"HTTP {self.status} {str(self.body)[:200]}".rstrip().replace("\n", " ")


class JsonApi:
    """JSON over HTTP to one server, over connections that are kept; retries are the caller's."""

    def __init__(self, endpoint: str, headers: Mapping[str, str]) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._headers = {**headers, "User-Agent": "goldspan"}
        self._pool = urllib3.PoolManager(timeout=TIMEOUT, retries=False)

    def request(self, method: str, path: str, body: object) -> Response:
        """Send one request. Raises `urllib3.exceptions.HTTPError` where there is no response."""
        answer = self._pool.request(method, self._endpoint + path, json=body, headers=self._headers)
        try:
            decoded = answer.json()
        except ValueError:
            decoded = answer.data.decode("utf-8", "replace")
        return Response(answer.status, decoded)
