"""Metrics: what turns a session and its golden into a score, by name.

`tool_parameter_match` is the main one. Each of the others has a range of its own. Results of different metrics or
criteria are never averaged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from goldspan.scoring.names_on_use import names_on_use

if TYPE_CHECKING:
    from goldspan.scoring.grounding.conversation import Passage
    from goldspan.scoring.metrics.grounding import ToolParameterGrounding, ground_arguments, why
    from goldspan.scoring.metrics.session_metrics import (
        FunctionMetric,
        Metric,
        MetricAnswer,
        as_metric,
        find_metric,
        import_metric,
        metric,
        metric_names,
        register_metric,
    )
    from goldspan.scoring.metrics.trajectory import ToolParameterMatch
    from goldspan.scoring.verdict import Finding, MetricResult, MetricScore, MetricTurn, MetricVerdict, Range

__all__ = [
    "Finding",
    "FunctionMetric",
    "Metric",
    "MetricAnswer",
    "MetricResult",
    "MetricScore",
    "MetricTurn",
    "MetricVerdict",
    "Passage",
    "Range",
    "ToolParameterGrounding",
    "ToolParameterMatch",
    "as_metric",
    "find_metric",
    "ground_arguments",
    "import_metric",
    "metric",
    "metric_names",
    "register_metric",
    "why",
]

__getattr__, __dir__ = names_on_use(
    __name__,
    {
        "goldspan.scoring.grounding.conversation": "Passage",
        "goldspan.scoring.verdict": "Finding MetricResult MetricScore MetricTurn MetricVerdict Range",
        "goldspan.scoring.metrics.grounding": "ToolParameterGrounding ground_arguments why",
        "goldspan.scoring.metrics.session_metrics": (
            "FunctionMetric Metric MetricAnswer as_metric find_metric import_metric metric metric_names register_metric"
        ),
        "goldspan.scoring.metrics.trajectory": "ToolParameterMatch",
    },
)
