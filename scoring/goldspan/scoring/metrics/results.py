"""What metrics beside the main one found: values that stand beside a session's result and never in its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from goldspan.scoring.results import Label, Reason
from goldspan.scoring.sessions import Turn


class Range(NamedTuple):
    """The scores a metric can give, both ends included."""

    least: float
    most: float


@dataclass(frozen=True, slots=True)
class MetricScore:
    """What a metric says of a session, or of one turn of it: `MetricScore(0.5, "one of two tools is known")`."""

    score: float | Fraction | None
    """Within the metric's range; None: not evaluated."""
    explanation: str = ""
    """One line for people. It reaches telemetry only where a door includes values."""
    reason: Reason | None = None
    """Why there is no score; `nothing_expected` unless said otherwise."""
    turns: Sequence[float | Fraction | MetricScore | None] = ()
    """One for each turn of the session, in its order; or none at all."""


@dataclass(frozen=True, slots=True)
class MetricVerdict:
    """A score of a metric, and what it means where a threshold was given."""

    exact: Fraction | None
    label: Label | None = None
    """`not_evaluated` exactly where there is no score; None where no threshold says what passes."""
    reason: Reason | None = None
    """Set exactly where `label` is `not_evaluated`."""
    explanation: str = ""

    @property
    def score(self) -> float | None:
        """The score as a float, or none."""
        return None if self.exact is None else float(self.exact)


@dataclass(frozen=True, slots=True)
class MetricTurn:
    """One turn as a metric judged it."""

    verdict: MetricVerdict
    turn: Turn | None = None
    """None for a turn of the golden that never came."""
    turn_index: int | None = None
    """Position among the run's turns, from 0; none also where all turns were judged as one."""
    expected_index: int | None = None
    """Position among the golden's turns, from 0."""


@dataclass(frozen=True, slots=True)
class MetricResult:
    """One run of a session as a metric beside the main one judged it."""

    name: str
    description: str
    range: Range
    verdict: MetricVerdict
    turns: tuple[MetricTurn, ...] = ()
    """None at all where the metric judges sessions only."""
    threshold: Fraction | None = None
    """The least score that passes; None: the metric only informs, and fails nothing."""
