"""Metrics: what turns a session and its golden into a score, by name.

`tool_parameter_match` is the main one. Each of the others has a range of its own. Results of different metrics or
criteria are never averaged.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from goldspan.scoring.metrics.metric import FunctionMetric, Metric, MetricAnswer, as_metric, import_metric, metric
    from goldspan.scoring.metrics.registry import ToolParameterMatch, find_metric, metric_names, register_metric
    from goldspan.scoring.results import MetricResult, MetricScore, MetricTurn, MetricVerdict, Range

__all__ = [
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

_MODULES = {
    "metrics.metric": (
        "FunctionMetric",
        "Metric",
        "MetricAnswer",
        "as_metric",
        "import_metric",
        "metric",
    ),
    "metrics.registry": (
        "ToolParameterMatch",
        "find_metric",
        "metric_names",
        "register_metric",
    ),
    "results": (
        "MetricResult",
        "MetricScore",
        "MetricTurn",
        "MetricVerdict",
        "Range",
    ),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used (PEP 562): declaring a metric does not need the scorer."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"goldspan.scoring.{_MODULE_OF[name]}"), name)
