"""`/healthz`, `/readyz`, `/metrics` and `/coverage`, as an ASGI application."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

from goldspan.collector_processor.gateway.prometheus import CONTENT_TYPE, MetricsPage
from goldspan.collector_processor.gateway.receive.auth import BearerTokens
from goldspan.collector_processor.gateway.receive.http_receiver import Receive, Send, headers_of, send_response

_JSON, _TEXT = "application/json", "text/plain; charset=utf-8"
_OPEN = frozenset({"/healthz", "/readyz"})
"""What tells no more than that somebody is there: probes have no tokens."""


class Admin:
    """Answers operators; to be called by an ASGI server."""

    def __init__(
        self,
        *,
        tokens: BearerTokens,
        exposition: MetricsPage,
        coverage: Callable[[], Mapping[str, Any]],
        unready: Callable[[], str | None],
    ) -> None:
        """Take `unready`: why nothing should be sent here now, None: it should."""
        self._tokens = tokens
        self._exposition = exposition
        self._coverage = coverage
        self._unready = unready
        self._pages: Mapping[str, Callable[[], tuple[int, str, bytes]]] = {
            "/healthz": lambda: (200, _TEXT, b"ok\n"),
            "/readyz": self._readyz,
            "/metrics": lambda: (200, CONTENT_TYPE, self._exposition.text()),
            "/coverage": lambda: (200, _JSON, json.dumps(self._coverage(), ensure_ascii=False).encode() + b"\n"),
        }

    async def __call__(self, scope: Mapping[str, Any], _: Receive, send: Send) -> None:
        """Answer one request."""
        path = scope["path"]
        page = self._pages.get(path)
        headers = [("cache-control", "no-store")]
        if page is None:
            status, kind, body = 404, _TEXT, f"no such page; there are {', '.join(self._pages)}\n".encode()
        elif scope["method"] not in {"GET", "HEAD"}:
            status, kind, body = 405, _TEXT, b"expected GET\n"
            headers.append(("allow", "GET, HEAD"))
        elif path not in _OPEN and not self._tokens.admit(headers_of(scope).get("authorization")):
            status, kind, body = 401, _TEXT, b"expected a valid bearer token in `Authorization`\n"
            headers.append(("www-authenticate", "Bearer"))
        elif path in _OPEN:
            status, kind, body = page()
        else:
            # Gathering may wait for locks of the pipeline: receivers go on meanwhile.
            status, kind, body = await asyncio.to_thread(page)
        headers += [("content-type", kind), ("content-length", str(len(body)))]
        if status >= 400:
            headers.append(("connection", "close"))
        await send_response(send, status, headers, b"" if scope["method"] == "HEAD" else body)

    def _readyz(self) -> tuple[int, str, bytes]:
        reason = self._unready()
        return (200, _TEXT, b"ready\n") if reason is None else (503, _TEXT, f"{reason}\n".encode())
