"""Sends scores to Phoenix, MLflow and Langfuse, which do not read them from spans, events or metrics.

Each class is an exporter of log records: put it behind a `BatchLogRecordProcessor`. It reads `gen_ai.evaluation.result`
events, goldspan's or others, and writes scores by the back-end's own API. Needs the extra `sinks`.
"""

from __future__ import annotations

from goldspan.collector_processor.sinks.platform_scores import LangfuseScores, MLflowScores, PhoenixScores

__all__ = ["LangfuseScores", "MLflowScores", "PhoenixScores"]
