"""All that a report is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from goldspan.collector_processor.report.totals import Coverage, Judgement
from goldspan.scoring.results import RunResult


@dataclass(frozen=True, slots=True)
class Scored:
    """One run's result with what it means: every report of the run is a pure function of it."""

    result: RunResult
    judgement: Judgement
    coverage: Coverage = Coverage.STRICT
    advice: Mapping[str, str] = field(default_factory=dict[str, str])
    """By dialect, what must be switched on to have arguments captured."""
