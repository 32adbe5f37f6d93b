"""The admin pages `/healthz`, `/readyz`, `/metrics` and `/coverage`, as an ASGI application; and what was covered."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from goldspan.collector_processor.emit.evaluation import Evaluation, Level
from goldspan.collector_processor.engine.sessions_without_golden import SeenSession
from goldspan.collector_processor.serving.http_server import (
    BearerTokens,
    Receive,
    Send,
    headers_of,
    path_of,
    send_response,
)
from goldspan.collector_processor.serving.prometheus import CONTENT_TYPE, MetricsPage, Sample
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.json_values import escaped
from goldspan.scoring.metric_results import MetricCall, MetricResult, MetricTurn
from goldspan.scoring.results import TurnResult
from goldspan.scoring.verdict import Label

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
            "/coverage": lambda: (200, _JSON, escaped(json.dumps(coverage(), ensure_ascii=False)).encode() + b"\n"),
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


_LISTED = 1000
"""At most so many goldens are listed as seen, and as many as never seen."""


class GoldenCoverage:
    """Counts by golden since the start of the process."""

    def __init__(self, goldens: GoldenIndex) -> None:
        self.goldens = goldens
        self._seen: dict[tuple[str, str], Counter[str]] = {}
        self.reasons = Counter[str]()
        """Calls that were not evaluated against their golden, by reason."""
        self.results = Counter[tuple[str, str, str]]()
        """First results by metric, level and label."""
        self.doubts = Counter[tuple[str, str]]()
        """First results of turns whose reading is in doubt, by dialect and code of the doubt."""
        self._metrics: dict[str, tuple[Counter[str], Counter[str]]] = {}
        """Of each further metric its sessions by label, and the calls that it did not evaluate by reason."""

    def count(self, evaluation: Evaluation) -> None:
        """Count one evaluation; corrections are not counted again."""
        sessions, reasons = Counter[str](), self.reasons
        if evaluation.golden or evaluation.golden_set:
            sessions = self._seen.setdefault((evaluation.golden_set, evaluation.golden), sessions)
        if evaluation.revision != 1 or evaluation.withdrawn:
            return
        if isinstance(evaluation.detail, MetricResult | MetricTurn | MetricCall):
            sessions, reasons = self._metrics.setdefault(evaluation.metric, (Counter(), Counter()))
        label, reason = evaluation.verdict.label, evaluation.verdict.reason
        self.results[evaluation.metric, evaluation.level.value, label.value if label is not None else ""] += 1
        if isinstance(evaluation.detail, TurnResult):
            self.doubts.update((doubt.dialect, doubt.code) for doubt in evaluation.detail.doubts)
        if evaluation.level is Level.SESSION and label is not None:
            sessions[label.value] += 1
        if evaluation.level is Level.CALL and label is Label.NOT_EVALUATED and reason is not None:
            reasons[reason.value] += 1

    def document(self, sessions_without_golden: int, newest: Sequence[SeenSession]) -> Mapping[str, Any]:
        """Return all of it as JSON values; `newest` are the last of the sessions without golden."""
        known = [(golden.golden_set, golden.key) for golden in self.goldens.goldens]
        seen = [key for key in known if key in self._seen]
        never = [key for key in known if key not in self._seen]
        return {
            "goldens": {"total": len(known), "seen": len(seen), "never_seen": len(never)},
            "seen": [
                {"golden_set": name, "golden": golden, "sessions": dict(self._seen[name, golden])}
                for name, golden in seen[:_LISTED]
            ],
            "never_seen": [{"golden_set": name, "golden": golden} for name, golden in never[:_LISTED]],
            "sessions_without_golden": sessions_without_golden,
            "newest_sessions_without_golden": [{"session": one.id, "source": one.source} for one in newest],
            "calls_not_evaluated": dict(self.reasons),
            "doubts": [
                {"dialect": dialect, "doubt": code, "turns": count}
                for (dialect, code), count in sorted(self.doubts.copy().items())
            ],
            "metrics": {
                name: {"sessions": dict(sessions), "calls_not_evaluated": dict(reasons)}
                for name, (sessions, reasons) in list(self._metrics.items())
            },
        }

    def samples(self) -> Iterator[Sample]:
        """Yield the results and the doubts as samples of `/metrics`."""
        for (metric, level, label), count in self.results.copy().items():
            yield "goldspan_results_total", {"metric": metric, "level": level, "label": label}, count
        for (dialect, code), count in self.doubts.copy().items():
            yield "goldspan_doubted_turns_total", {"dialect": dialect, "doubt": code}, count

    def counts(self) -> tuple[int, int]:
        """Return how many goldens were seen, and how many never."""
        seen = sum((golden.golden_set, golden.key) in self._seen for golden in self.goldens.goldens)
        return seen, len(self.goldens.goldens) - seen
