"""Native scores for back-ends that do not read them from spans, events or metrics: Phoenix, MLflow, Langfuse.

Each is an exporter of log records, so that it stands where any other would, behind a `BatchLogRecordProcessor`: it
reads `gen_ai.evaluation.result` events, goldspan's or anybody's, and writes scores by the back-end's own API. Needs the
extra `sinks`.
"""

from __future__ import annotations

from goldspan.collector_processor.sinks.langfuse import LangfuseScores
from goldspan.collector_processor.sinks.mlflow import MLflowScores
from goldspan.collector_processor.sinks.phoenix import PhoenixScores

__all__ = ["LangfuseScores", "MLflowScores", "PhoenixScores"]
