"""The admin pages `/healthz`, `/readyz`, `/metrics` and `/coverage`, as an ASGI application.

Here are what `/metrics` says in Prometheus' text format, its names and help texts, and what goldens were covered.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Histogram, Metric, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from goldspan.collector_processor.emit.evaluation import Evaluation, Level
from goldspan.collector_processor.engine.reading_and_holding import SeenSession
from goldspan.collector_processor.serving import http_server
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.json_values import escaped
from goldspan.scoring.lazy_names import texts_beside
from goldspan.scoring.results import TurnResult
from goldspan.scoring.verdict import Label, MetricCall, MetricResult, MetricTurn

Sample = tuple[str, Mapping[str, str], float]
"""One sample of `/metrics`: name, labels, value.

A name that ends in `_total` is a counter. Names that differ only in `_bucket`, `_sum` and `_count` are one histogram,
as in Prometheus' text format. Any other name is a gauge.
"""

CONTENT_TYPE = CONTENT_TYPE_LATEST
"""The content type of the text."""
_TEXTS = texts_beside("goldspan.collector_processor.serving", "metrics_help.toml")
HELP: Mapping[str, str] = _TEXTS["gateway"]
"""The help text of each metric, by name."""
STREAM_HELP: Mapping[str, str] = _TEXTS["stream"] | {name: HELP[name] for name in _TEXTS["shared"]["names"]}
"""The help text of each metric of a worker of `goldspan stream`."""

_BUCKETS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 60.0, 300.0, 3600.0)
"""Seconds: from a fast network, over a retry or two, to a back-end that is down for an hour."""


class DurationHistogram:
    """A histogram of durations. Safe for use from any thread."""

    def __init__(self) -> None:
        self._histogram = Histogram("_", "", buckets=_BUCKETS, registry=None)

    def add(self, seconds: float) -> None:
        """Count one duration."""
        self._histogram.observe(seconds)

    def samples(self, name: str) -> Iterator[Sample]:
        """Yield the samples of the histogram under this name."""
        for metric in self._histogram.collect():
            for sample in metric.samples:
                if sample.name != "__created":
                    yield name + sample.name.removeprefix("_"), sample.labels, sample.value


class MetricsPage(Collector):
    """The samples of all sources, gathered for each request."""

    def __init__(self, *sources: Callable[[], Iterable[Sample]], help_texts: Mapping[str, str] = HELP) -> None:
        self._sources = sources
        self._help = help_texts
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def render(self) -> bytes:
        """Return the page."""
        return generate_latest(self._registry)

    def describe(self) -> Iterator[Metric]:
        """Name no metric, so that registering does not gather samples."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Gather the samples."""
        samples = [sample for source in self._sources for sample in source()]
        histograms = {name.removesuffix("_bucket") for name, _, _ in samples if name.endswith("_bucket")}
        metrics: dict[str, Any] = {}
        for name, labels, value in samples:
            base, kind = _base_and_kind(name, histograms)
            if base not in metrics:
                metrics[base] = Metric(base, self._help.get(name, self._help.get(base, "")), kind)
            metrics[base].add_sample(name, dict(labels), value)
        yield from metrics.values()


def _base_and_kind(name: str, histograms: set[str]) -> tuple[str, str]:
    if name.endswith("_total"):
        return name.removesuffix("_total"), "counter"
    for suffix in ("_bucket", "_sum", "_count"):
        base = name.removesuffix(suffix)
        if base != name and base in histograms:
            return base, "histogram"
    return name, "gauge"


_JSON, _TEXT = "application/json", "text/plain; charset=utf-8"
_NO_TOKEN_NEEDED = frozenset({"/healthz", "/readyz"})  # probes have no tokens, and these pages reveal nothing


class Admin:
    """Serves the admin pages. An ASGI server calls it."""

    def __init__(
        self,
        *,
        tokens: http_server.BearerTokens,
        metrics: MetricsPage,
        coverage: Callable[[], Mapping[str, Any]],
        not_ready_reason: Callable[[], str | None],
        warning: Callable[[], str | None] = lambda: None,
    ) -> None:
        """Take `not_ready_reason`: why the gateway is not ready for requests; it returns None when it is.

        `warning` tells what is wrong though it is ready.
        """
        self._tokens = tokens
        self._not_ready_reason = not_ready_reason
        self._warning = warning
        self._pages: Mapping[str, Callable[[], tuple[int, str, bytes]]] = {
            "/healthz": lambda: (200, _TEXT, b"ok\n"),
            "/readyz": self._readyz,
            "/metrics": lambda: (200, CONTENT_TYPE, metrics.render()),
            "/coverage": lambda: (200, _JSON, escaped(json.dumps(coverage(), ensure_ascii=False)).encode() + b"\n"),
        }

    async def __call__(self, scope: Mapping[str, Any], _: http_server.Receive, send: http_server.Send) -> None:
        """Respond to one request."""
        path = http_server.path_of(scope)
        page = self._pages.get(path)
        headers = [("cache-control", "no-store")]
        if page is None:
            status, kind, body = 404, _TEXT, f"no such page; there are {', '.join(self._pages)}\n".encode()
        elif scope["method"] not in {"GET", "HEAD"}:
            status, kind, body = 405, _TEXT, b"expected GET\n"
            headers.append(("allow", "GET, HEAD"))
        elif path in _NO_TOKEN_NEEDED:
            status, kind, body = page()
        elif not self._tokens.admit(http_server.headers_of(scope).get("authorization")):
            status, kind, body = 401, _TEXT, b"expected a valid bearer token in `Authorization`\n"
            headers.append(("www-authenticate", "Bearer"))
        else:
            # May wait for locks of the pipeline, so it must not run in the event loop of the receivers.
            status, kind, body = await asyncio.to_thread(page)
        headers += [("content-type", kind), ("content-length", str(len(body)))]
        if status >= 400:
            headers.append(("connection", "close"))
        await http_server.send_response(send, status, headers, b"" if scope["method"] == "HEAD" else body)

    def _readyz(self) -> tuple[int, str, bytes]:
        if (reason := self._not_ready_reason()) is not None:
            return 503, _TEXT, f"{reason}\n".encode()
        warning = self._warning()
        return 200, _TEXT, b"ready\n" if warning is None else f"ready; {warning}\n".encode()


_LISTED = 1000  # at most so many goldens are listed as seen, and as many as never seen


class GoldenCoverage:
    """Counts by golden since the start of the process."""

    def __init__(self, goldens: GoldenIndex) -> None:
        self.goldens = goldens
        self._seen: dict[tuple[str, str], Counter[str]] = {}
        self.reasons = Counter[str]()
        """Calls that were not evaluated against their golden, by reason."""
        self.results = Counter[tuple[str, str, str, str]]()
        """Final results by metric, level, label and tenant."""
        self.doubts = Counter[tuple[str, str]]()
        """Final results of turns whose reading is in doubt, by dialect and code of the doubt."""
        self._metrics: dict[str, tuple[Counter[str], Counter[str]]] = {}
        """Of each further metric its sessions by label, and the calls that it did not evaluate by reason."""

    def see(self, evaluation: Evaluation) -> Counter[str] | None:
        """Note the golden of an evaluation; return its sessions by label."""
        if not (evaluation.golden or evaluation.golden_set):
            return None
        key = evaluation.golden_set, evaluation.golden
        return self._seen.get(key) or self._seen.setdefault(key, Counter())

    def count(self, evaluation: Evaluation, tenant: str = "") -> None:
        """Count a result that is final; corrections are not counted again."""
        sessions, reasons = self.see(evaluation), self.reasons
        if evaluation.revision != 1 or evaluation.withdrawn:
            return
        if isinstance(evaluation.detail, MetricResult | MetricTurn | MetricCall):
            found = self._metrics.get(evaluation.metric)
            sessions, reasons = found or self._metrics.setdefault(evaluation.metric, (Counter(), Counter()))
        label, reason = evaluation.verdict.label, evaluation.verdict.reason
        self.results[evaluation.metric, evaluation.level.value, "" if label is None else label.value, tenant] += 1
        if isinstance(evaluation.detail, TurnResult):
            self.doubts.update({(doubt.dialect, doubt.code) for doubt in evaluation.detail.doubts})
        if evaluation.level is Level.SESSION and label is not None and sessions is not None:
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
        for (metric, level, label, tenant), count in self.results.copy().items():
            labels = {"metric": metric, "level": level, "label": label, **({"tenant": tenant} if tenant else {})}
            yield "goldspan_results_total", labels, count
        for (dialect, code), count in self.doubts.copy().items():
            yield "goldspan_doubted_turns_total", {"dialect": dialect, "doubt": code}, count

    def counts(self) -> tuple[int, int]:
        """Return how many goldens were seen, and how many never."""
        seen = sum((golden.golden_set, golden.key) in self._seen for golden in self.goldens.goldens)
        return seen, len(self.goldens.goldens) - seen
