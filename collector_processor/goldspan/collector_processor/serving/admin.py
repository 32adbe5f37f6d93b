"""The admin pages `/healthz`, `/readyz`, `/metrics` and `/coverage`, as an ASGI application."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

from goldspan.collector_processor.serving.http_requests import (
    BearerTokens,
    Receive,
    Send,
    headers_of,
    path_of,
    send_response,
)
from goldspan.collector_processor.serving.prometheus import CONTENT_TYPE, MetricsPage

_JSON, _TEXT = "application/json", "text/plain; charset=utf-8"
_NO_TOKEN_NEEDED = frozenset({"/healthz", "/readyz"})
"""Probes have no tokens, and these pages reveal nothing."""


class Admin:
    """Serves the admin pages. An ASGI server calls it."""

    def __init__(
        self,
        *,
        tokens: BearerTokens,
        metrics: MetricsPage,
        coverage: Callable[[], Mapping[str, Any]],
        not_ready_reason: Callable[[], str | None],
    ) -> None:
        """Take `not_ready_reason`: why the gateway is not ready for requests; it returns None when it is."""
        self._tokens = tokens
        self._not_ready_reason = not_ready_reason
        self._pages: Mapping[str, Callable[[], tuple[int, str, bytes]]] = {
            "/healthz": lambda: (200, _TEXT, b"ok\n"),
            "/readyz": self._readyz,
            "/metrics": lambda: (200, CONTENT_TYPE, metrics.render()),
            "/coverage": lambda: (200, _JSON, json.dumps(coverage(), ensure_ascii=False).encode() + b"\n"),
        }

    async def __call__(self, scope: Mapping[str, Any], _: Receive, send: Send) -> None:
        """Respond to one request."""
        path = path_of(scope)
        page = self._pages.get(path)
        headers = [("cache-control", "no-store")]
        if page is None:
            status, kind, body = 404, _TEXT, f"no such page; there are {', '.join(self._pages)}\n".encode()
        elif scope["method"] not in {"GET", "HEAD"}:
            status, kind, body = 405, _TEXT, b"expected GET\n"
            headers.append(("allow", "GET, HEAD"))
        elif path in _NO_TOKEN_NEEDED:
            status, kind, body = page()
        elif not self._tokens.admit(headers_of(scope).get("authorization")):
            status, kind, body = 401, _TEXT, b"expected a valid bearer token in `Authorization`\n"
            headers.append(("www-authenticate", "Bearer"))
        else:
            # May wait for locks of the pipeline, so it must not run in the event loop of the receivers.
            status, kind, body = await asyncio.to_thread(page)
        headers += [("content-type", kind), ("content-length", str(len(body)))]
        if status >= 400:
            headers.append(("connection", "close"))
        await send_response(send, status, headers, b"" if scope["method"] == "HEAD" else body)

    def _readyz(self) -> tuple[int, str, bytes]:
        reason = self._not_ready_reason()
        return (200, _TEXT, b"ready\n") if reason is None else (503, _TEXT, f"{reason}\n".encode())
