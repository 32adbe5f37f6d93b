"""Which goldens live traffic has covered, and which calls could not be scored: the content of `GET /coverage`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from goldspan.collector_processor.emit.evaluation import Evaluation, Level
from goldspan.collector_processor.engine.sessions_without_golden import SeenSession
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.metric_results import MetricCall, MetricResult, MetricTurn
from goldspan.scoring.verdict import Label

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
            "metrics": {
                name: {"sessions": dict(sessions), "calls_not_evaluated": dict(reasons)}
                for name, (sessions, reasons) in list(self._metrics.items())
            },
        }

    def counts(self) -> tuple[int, int]:
        """Return how many goldens were seen, and how many never."""
        seen = sum((golden.golden_set, golden.key) in self._seen for golden in self.goldens.goldens)
        return seen, len(self.goldens.goldens) - seen
