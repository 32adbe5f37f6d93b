"""Metrics: what turns a session and its golden into a score, by name.

`tool_parameter_match` is the main one. Each of the others has a range of its own. Results of different metrics or
criteria are never averaged.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from goldspan.scoring.metric_results import Finding, MetricResult, MetricScore, MetricTurn, MetricVerdict, Range
    from goldspan.scoring.metrics.metric_registry import (
        FunctionMetric,
        Metric,
        MetricAnswer,
        ToolParameterMatch,
        as_metric,
        find_metric,
        import_metric,
        metric,
        metric_names,
        register_metric,
    )

__all__ = [
    "Finding",
    "FunctionMetric",
    "Metric",
    "MetricAnswer",
    "MetricResult",
    "MetricScore",
    "MetricTurn",
    "MetricVerdict",
    "Range",
    "ToolParameterMatch",
    "as_metric",
    "find_metric",
    "import_metric",
    "metric",
    "metric_names",
    "register_metric",
]

_RESULTS = ("Finding", "MetricResult", "MetricScore", "MetricTurn", "MetricVerdict", "Range")


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used (PEP 562): a module of this package does not need the scorer."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "metric_results" if name in _RESULTS else "metrics.metric_registry"
    return getattr(import_module(f"goldspan.scoring.{module}"), name)
