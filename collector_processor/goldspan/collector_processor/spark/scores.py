# PySpark is not installed where types are checked:
# mypy: disable-error-code="import-not-found, no-any-unimported"
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
"""Traces of a DataFrame scored by Spark.

    rows -> read_traces -> by trace -> assemble_traces -> by session -> score_sessions -> results

Rows are read where they are. What is shuffled are facts of recognised spans and the places of others, never raw spans,
and each of both times rows are sorted on disk and read as a stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from goldspan.collector_processor.engine.result_table import COLUMNS
from goldspan.collector_processor.engine.settings import EngineSettings
from goldspan.collector_processor.metric_threads import MetricWorkers
from goldspan.collector_processor.spark.partitions import (
    KEYED_COLUMNS,
    PART_COLUMNS,
    PROBLEM_COLUMNS,
    REMOVED,
    ScoringJob,
    assemble_traces,
    job_in,
    problems_of,
    read_traces,
    score_sessions,
)
from goldspan.collector_processor.spark.work_by_key import MAX_SPANS
from goldspan.mappers.readers.span_tables import SpanTableReader, is_span_table
from goldspan.scoring.errors import SettingsError
from goldspan.scoring.goldens import GoldenIndex, GoldenSet, load_goldens
from goldspan.scoring.goldens.loading import Source
from goldspan.scoring.metrics.metric_registry import WITHOUT_GOLDEN
from goldspan.scoring.metrics.session_metrics import MetricSource
from goldspan.scoring.run import scorer_of
from goldspan.scoring.tool_definitions import load_tools

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Goldens = Source | Iterable[Source] | GoldenIndex

_KINDS = {str: "string", int: "int", float: "double", bool: "boolean", datetime: "timestamp"}
RESULT_COLUMNS = ", ".join(
    f"{name} {_KINDS[kind]}{'' if nullable else ' not null'}" for name, (kind, nullable) in COLUMNS.items()
)
"""The table of results as Spark's DDL."""


def score_traces(
    df: DataFrame,
    goldens: Goldens | None = None,
    metrics: Iterable[MetricSource] | None = None,
    *,
    column: str | None = None,
    preset: str | Mapping[str, Any] | None = None,
    tools: Any = None,
    threshold: Decimal | str | None = None,
    sample: float = 1.0,
    max_spans: int = MAX_SPANS,
) -> DataFrame:
    """Return the results of the traces in a DataFrame, as `goldspan score` does: one row a score.

    Args:
        df: A table with a span a row, told by its columns. Or a column of OTLP, text or binary, with any number of
            spans or log records a row: a line of the Collector's file exporter, an `ExportTraceServiceRequest`, a file.
        goldens: Golden files, folders, mappings, or what `load_goldens` returns. They are read here, on the driver, and
            each worker gets them once. None: metrics that need no golden score every session.
        metrics: Additional metrics, by name or as objects; what they import must be installed on the workers.
        column: The column of OTLP, where there are several columns.
        preset: Score as another system does: its name, or a mapping of `name` and its options.
        tools: The definitions of the agent's tools, a file or a mapping, in place of those in the traces.
        threshold: The least score that passes, in place of what the golden sets say.
        sample: The share of the sessions without golden that is scored, above 0 and at most 1.
        max_spans: Records of one trace, and spans of one session, that are kept. Beyond it results are `incomplete`.

    Raises:
        SettingsError: `df` is a stream, it has no such column, or a number is out of its range.
        GoldenFileError: what is wrong with the goldens.
        MetricError: there is no such metric.

    """
    if df.isStreaming:
        # A micro-batch holds parts of traces and of sessions: its scores would be wrong.
        raise SettingsError("found a streaming DataFrame, whose micro-batches cut sessions; call score_stream")
    traces, columns = traces_in(df, column)
    job = job_of(columns, goldens, metrics, preset, tools, threshold, sample, max_spans)
    run = on_workers(df.sparkSession, job)
    chunks = traces.mapInArrow(run(read_traces, numbered=True), KEYED_COLUMNS)
    parts = _grouped(chunks).mapInArrow(run(assemble_traces), PART_COLUMNS).select("key", "position", "data")
    return _grouped(parts).mapInArrow(run(score_sessions), RESULT_COLUMNS).where(f"level <> '{REMOVED}'")


def read_problems(df: DataFrame, *, column: str | None = None) -> DataFrame:
    """Return what cannot be read in the traces of a DataFrame: each kind of problem and how often it is there.

    `score_traces` leaves out what cannot be read, and scores everything beside it.
    """
    traces, columns = traces_in(df, column)
    job = ScoringJob(GoldenIndex(), EngineSettings(), MAX_SPANS, columns)
    found = traces.mapInArrow(on_workers(df.sparkSession, job)(problems_of), PROBLEM_COLUMNS)
    return found.groupBy("code", "message").sum("count").withColumnRenamed("sum(count)", "count")


def traces_in(df: DataFrame, column: str | None) -> tuple[DataFrame, tuple[str, ...]]:
    """Return the column of OTLP; or the columns of a table of spans, with their names."""
    if column is None and is_span_table(df.columns):
        kinds = dict(df.dtypes)
        columns: dict[str, str] = {}
        for name in SpanTableReader(df.columns, lambda _: None).columns:
            unsigned = kinds[name].startswith("decimal")  # how Spark reads Parquet's unsigned integers
            # `mapInArrow` takes dots for fields of structs.
            columns[name.replace(".", "")] = f"cast(`{name}` as bigint)" if unsigned else f"`{name}`"
        return df.selectExpr(*(f"{value} as {name}" for name, value in columns.items())), tuple(columns)
    fitting = [name for name, kind in df.dtypes if kind in {"string", "binary"}]
    if column is None and len(df.columns) == 1 and fitting:
        column = fitting[0]
    if column is None or column not in fitting:
        columns_found = ", ".join(f"{name} {kind}" for name, kind in df.dtypes)
        wanted = "name it with `column=`" if column is None else f"{column!r} is none"
        raise SettingsError(
            f"found the columns {columns_found}; expected a text or binary column of OTLP, {wanted}, or a table of "
            "spans with TraceId, SpanId, Timestamp and SpanAttributes"
        )
    return df.select(f"`{column}`"), ()


def job_of(
    columns: tuple[str, ...],
    goldens: Goldens | None,
    metrics: Iterable[MetricSource] | None,
    preset: str | Mapping[str, Any] | None,
    tools: Any,
    threshold: Decimal | str | None,
    sample: float,
    max_spans: int,
) -> ScoringJob:
    """Return how to score, by the arguments of `score_traces`."""
    if not 0 < sample <= 1:
        raise SettingsError(f"sample: found {sample}, expected a number above 0 and at most 1, such as 0.1")
    if max_spans < 1:
        raise SettingsError(f"max_spans: found {max_spans}, expected 1 or more")
    index = _index(goldens, threshold)
    if metrics is None:
        metrics = WITHOUT_GOLDEN if goldens is None else ()
    scorer = scorer_of(preset=preset, metrics=metrics, run=MetricWorkers())
    if tools is not None:
        scorer = scorer.with_tools(load_tools(tools))
    if scorer.scores_every_session:
        index = index.with_sample(sample)
    return ScoringJob(index, EngineSettings(holds=False, report_unmatched=True, scorer=scorer), max_spans, columns)


def _index(goldens: Goldens | None, threshold: Decimal | str | None) -> GoldenIndex:
    if goldens is None:
        return GoldenIndex()
    if isinstance(goldens, GoldenIndex):
        index = goldens
    else:
        one = isinstance(goldens, str | Path | Mapping | GoldenSet)
        index = load_goldens(*cast("Iterable[Source]", (goldens,) if one else goldens))
    return index if threshold is None else index.with_threshold(Decimal(threshold))


def _grouped(rows: DataFrame) -> DataFrame:
    """Return the same rows with those of one key together; Spark joins partitions that are small."""
    return rows.repartition("key").sortWithinPartitions("key", "position")


def on_workers(session: SparkSession, job: ScoringJob) -> Callable[..., Any]:
    """Return what makes a function of `partitions` one for `mapInArrow`; all of them share one copy of the job."""
    from pyspark import TaskContext, cloudpickle  # noqa: PLC0415 - an extra

    pickled: Any = cloudpickle.dumps(job)  # as Spark pickles functions: metrics may be those of a notebook
    context = getattr(session, "sparkContext", None)  # Spark Connect has none, and sends the job with each function
    shared = None
    if context is not None:
        shared, pickled = context.broadcast(pickled), None

    def on_worker(function: Callable[..., Iterator[Any]], *, numbered: bool = False) -> Any:
        def run(batches: Iterator[Any]) -> Iterator[Any]:
            one = job_in(pickled if shared is None else shared.value)
            if not numbered:
                return function(batches, one)
            task = TaskContext.get()
            return function(batches, one, 0 if task is None else task.partitionId())

        return run

    return on_worker
