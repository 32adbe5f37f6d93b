# PySpark is not installed where types are checked:
# pyright: reportUnknownVariableType=false
"""Scores traces on Apache Spark: a DataFrame or a stream of traces in, results out. Needs the extra `spark`."""

from __future__ import annotations

from goldspan.collector_processor.spark.scores import newest_scores, read_problems, score_stream, score_traces

__all__ = ["newest_scores", "read_problems", "score_stream", "score_traces"]
