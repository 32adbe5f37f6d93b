"""Metrics: what turns a session and its golden into a result, by name.

`tool_parameter_match` is built in. A metric has a range of its own, and results of different metrics or criteria are
never averaged.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import NamedTuple, Protocol

from goldspan.scoring.errors import GoldspanError
from goldspan.scoring.goldens.models import Golden
from goldspan.scoring.results import SessionResult
from goldspan.scoring.score import score_session
from goldspan.scoring.sessions import Session


class Range(NamedTuple):
    """The scores a metric can give, both ends included."""

    least: float
    most: float


class Metric(Protocol):
    """Turns one run of a session and its golden into a result."""

    @property
    def name(self) -> str:
        """What its results are called in telemetry and reports, in snake_case."""
        ...

    @property
    def description(self) -> str:
        """One line about what a score says."""
        ...

    @property
    def range(self) -> Range:
        """The scores it can give."""
        ...

    def __call__(self, session: Session, golden: Golden) -> SessionResult:
        """Judge a session. What cannot be judged is not evaluated, with a reason; nothing is raised."""
        ...


class ToolParameterMatch:
    """How well the arguments of tool calls match those that were expected; judged by the golden's criterion."""

    name = "tool_parameter_match"
    description = "The share of expected arguments that were passed as expected, over calls, turns and the session."
    range = Range(0.0, 1.0)

    def __call__(self, session: Session, golden: Golden) -> SessionResult:
        """Judge a session."""
        return score_session(golden, session)


_METRICS: dict[str, Metric] = {}


def register_metric(metric: Metric) -> None:
    """Make a metric known by its name. Raises GoldspanError if another has that name."""
    if _METRICS.setdefault(metric.name, metric) is not metric:
        raise GoldspanError(f"a metric called `{metric.name}` is registered already: give yours another name")


def find_metric(name: str) -> Metric:
    """Return the metric of a name. Raises GoldspanError, with the nearest name, if there is none."""
    if name not in _METRICS:
        near = get_close_matches(name, _METRICS, n=1)
        hint = (
            f"did you mean `{near[0]}`?" if near else f"known are {', '.join(f'`{known}`' for known in metric_names())}"
        )
        raise GoldspanError(f"no metric is called `{name}`; {hint}")
    return _METRICS[name]


def metric_names() -> tuple[str, ...]:
    """Return the names of all metrics, sorted."""
    return tuple(sorted(_METRICS))


register_metric(ToolParameterMatch())
