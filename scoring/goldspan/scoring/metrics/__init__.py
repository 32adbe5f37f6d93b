"""Metrics: what turns a session and its golden into a score, by name.

`tool_parameter_match` is the main one. The others stand beside it, each with a range of its own, and results of
different metrics or criteria are never averaged.
"""

from __future__ import annotations

from goldspan.scoring.metrics.metric import FunctionMetric, Metric, MetricAnswer, as_metric, import_metric, metric
from goldspan.scoring.metrics.registry import (
    ToolParameterMatch,
    find_metric,
    metric_names,
    register_metric,
)
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
