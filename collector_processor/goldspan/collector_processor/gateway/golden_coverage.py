"""Which goldens live traffic has covered, and which calls could not be judged: the content of `GET /coverage`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from goldspan.collector_processor.emit.evaluation import Evaluation, Level
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.verdict import Label

_LISTED = 1000
"""At most so many goldens are listed as seen, and as many as never seen."""


class Coverage:
    """Counts by golden since the start of the process."""

    def __init__(self, goldens: GoldenIndex) -> None:
        self.goldens = goldens
        self._seen: dict[tuple[str, str], Counter[str]] = {}
        self.reasons = Counter[str]()
        """Calls that were not evaluated, by reason."""
        self.results = Counter[tuple[str, str]]()
        """First results by level and label."""

    def count(self, evaluation: Evaluation) -> None:
        """Count one evaluation; corrections are not counted again."""
        key = (evaluation.golden_set, evaluation.golden)
        seen = self._seen.setdefault(key, Counter())
        if evaluation.revision != 1 or evaluation.withdrawn:
            return
        label = evaluation.verdict.label
        self.results[evaluation.level.value, label.value if label is not None else ""] += 1
        if evaluation.level is Level.SESSION and label is not None:
            seen[label.value] += 1
        if evaluation.level is Level.CALL and label is Label.NOT_EVALUATED and evaluation.verdict.reason is not None:
            self.reasons[evaluation.verdict.reason.value] += 1

    def document(self, sessions_without_golden: int) -> Mapping[str, Any]:
        """Return all of it as JSON values."""
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
            "calls_not_evaluated": dict(self.reasons),
        }

    def counts(self) -> tuple[int, int]:
        """Return how many goldens were seen, and how many never."""
        seen = sum((golden.golden_set, golden.key) in self._seen for golden in self.goldens.goldens)
        return seen, len(self.goldens.goldens) - seen
