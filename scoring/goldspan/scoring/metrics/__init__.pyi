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
