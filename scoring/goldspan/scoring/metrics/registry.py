"""Metrics by name: goldspan's own, those of installed packages, and those that code registered.

A package offers metrics in the entry-point group `goldspan.metrics`. One is imported when its name is asked for.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points

from goldspan.scoring.errors import MetricError
from goldspan.scoring.goldens.golden import MAIN_METRIC, Golden
from goldspan.scoring.metrics.metric import Metric, MetricFunction, as_metric
from goldspan.scoring.metrics.trajectory import TRAJECTORY_METRICS
from goldspan.scoring.results import Range, SessionResult
from goldspan.scoring.score import score_session
from goldspan.scoring.sessions import Session

ENTRY_POINT_GROUP = "goldspan.metrics"


class ToolParameterMatch:
    """How well the arguments of tool calls match those that were expected; judged by the golden's criterion."""

    name = MAIN_METRIC
    description = "The share of expected arguments that were passed as expected, over calls, turns and the session."
    range = Range(0.0, 1.0)

    def __call__(self, session: Session, golden: Golden) -> SessionResult:
        """Judge a session."""
        return score_session(golden, session)


BUILT_IN_METRICS: dict[str, Metric] = {one.name: one for one in (ToolParameterMatch(), *TRAJECTORY_METRICS)}
"""goldspan's own metrics by name."""

_METRICS: dict[str, Metric] = dict(BUILT_IN_METRICS)


def register_metric(metric: Metric | MetricFunction) -> Metric:
    """Make a metric known by its name, for goldens and `find_metric`; it is returned, so that this decorates functions.

    Raises:
        MetricError: another has that name, or it is no metric.

    """
    one = as_metric(metric)
    known = _METRICS.setdefault(one.name, one)
    if known is not one and known != one:
        raise MetricError(f"a metric called `{one.name}` is registered already: give yours another name")
    return known


def find_metric(name: str) -> Metric:
    """Return the metric of a name.

    Raises:
        MetricError: there is none (the message has the nearest name), or its package cannot be imported.

    """
    if name in _METRICS:
        return _METRICS[name]
    offered = _offered()
    if name not in offered:
        raise MetricError(f"no metric is called `{name}`; {nearest_metric(name)}")
    try:
        found = as_metric(offered[name].load())
    except Exception as error:  # a package may raise anything
        raise MetricError(f"metric `{name}` of {offered[name].value} cannot be loaded: {error}") from error
    if found.name != name:
        raise MetricError(f"{offered[name].value} is called `{found.name}`, and its entry point `{name}`")
    return _METRICS.setdefault(name, found)


def metric_names() -> tuple[str, ...]:
    """Return the names of all metrics, sorted; none is imported for this."""
    return tuple(sorted({*_METRICS, *_offered()}))


def nearest_metric(name: str) -> str:
    """Ask whether the nearest metric was meant, or list those there are."""
    known = metric_names()
    near = get_close_matches(name, known, n=1)
    return f"did you mean `{near[0]}`?" if near else f"known are {', '.join(f'`{one}`' for one in known)}"


def _offered() -> dict[str, EntryPoint]:
    return {one.name: one for one in entry_points(group=ENTRY_POINT_GROUP)}
