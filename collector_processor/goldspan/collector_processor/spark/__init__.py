# pyright: reportUnknownVariableType=false - PySpark is not installed where types are checked
"""Scores traces on Apache Spark: a DataFrame of traces in, a DataFrame of results out. Needs the extra `spark`."""

from __future__ import annotations

from goldspan.collector_processor.spark.scores import read_problems, score_traces

__all__ = ["read_problems", "score_traces"]
