# PySpark is not installed where types are checked:
# mypy: disable-error-code="import-not-found, no-any-unimported"
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
"""Traces of a DataFrame or a stream scored by Spark.

    rows -> read_traces -> by trace -> assemble_traces -> by session -> score_sessions -> results

Rows are read where they are. What is shuffled are facts of recognised spans and the places of others, never raw spans,
and each of both times rows are sorted on disk and read as a stream.

Each micro-batch of a stream scores anew the sessions that it has records of. The state are three tables of Parquet, to
each of which a micro-batch adds a folder:

    traces      chunks of records, by trace
    links       the sessions that a trace had parts of, by trace
    sessions    the part that a trace has of a session, by session: the newest stands

A micro-batch that runs again writes its folders again, and reads none of later ones: so it gives the same rows. Every
so often the folders become one, without the traces and sessions that had no new records for the retention.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from goldspan.collector_processor.daemon_threads import MetricWorkers
from goldspan.collector_processor.engine.result_table import COLUMNS
from goldspan.collector_processor.engine.trace_machine import EngineSettings
from goldspan.collector_processor.spark.partitions import (
    KEYED_COLUMNS,
    MAX_SPANS,
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
from goldspan.mappers.readers.span_tables import SpanTableReader, is_span_table
from goldspan.scoring.errors import SettingsError
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.goldens.loading import Source, index_of
from goldspan.scoring.metrics.session_metrics import MetricSource
from goldspan.scoring.run import scorer_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

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
    profile: Any = None,
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
        profile: The file of a profile, what is normal for the agent: `tool_parameter_profile` judges by it.
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
    job = job_of(columns, goldens, metrics, preset, tools, profile, threshold, sample, max_spans)
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
    profile: Any,
    threshold: Decimal | str | None,
    sample: float,
    max_spans: int,
) -> ScoringJob:
    """Return how to score, by the arguments of `score_traces`."""
    if not 0 < sample <= 1:
        raise SettingsError(f"sample: found {sample}, expected a number above 0 and at most 1, such as 0.1")
    if max_spans < 1:
        raise SettingsError(f"max_spans: found {max_spans}, expected 1 or more")
    index = index_of(goldens)
    if threshold is not None:
        index = index.with_threshold(Decimal(threshold))
    has_goldens = goldens is not None
    scorer = scorer_of(
        preset=preset, metrics=metrics, run=MetricWorkers(), has_goldens=has_goldens, tools=tools, profile=profile
    )
    index = scorer.sampled(index, sample)
    return ScoringJob(index, EngineSettings(holds=False, report_unmatched=True, scorer=scorer), max_spans, columns)


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


RETENTION = 24 * 3600.0
"""Seconds without new records after which a trace or a session is forgotten."""
_BUCKETS = 32  # a micro-batch reads the files of those buckets that its traces and sessions are in
_FOLDERS = 16  # after so many micro-batches their folders become one
_BUCKET = f"cast(conv(hex(substr(key, 1, 1)), 16, 10) as int) % {_BUCKETS} as bucket"
_BATCH, _ALL = "part=batch-", "part=all-"  # how folders are named: those of one micro-batch, and those of all up to one
_COLUMNS = f"{KEYED_COLUMNS}, came bigint, at double"


def score_stream(
    df: DataFrame,
    sink: Callable[[DataFrame, int], None],
    state: str,
    goldens: Goldens | None = None,
    metrics: Iterable[MetricSource] | None = None,
    *,
    retention: float = RETENTION,
    column: str | None = None,
    preset: str | Mapping[str, Any] | None = None,
    tools: Any = None,
    profile: Any = None,
    threshold: Decimal | str | None = None,
    sample: float = 1.0,
    max_spans: int = MAX_SPANS,
    clock: Callable[[], float] = time.time,
) -> DataStreamWriter:
    """Return the writer that scores a stream of traces: add a trigger, and start it.

    After each micro-batch the rows are those that `score_traces` gives for everything that came so far.

    Args:
        df: A streaming DataFrame, with the columns that `score_traces` takes.
        sink: Called after each micro-batch with its rows and its number: the table of results with the column `batch`.
            The rows of a session replace all earlier ones; a session that has no results any more has one row, of the
            level `removed`. A micro-batch may come again, with the same rows, after a failure.
        state: A folder for the state and the checkpoint, on a file system that all workers reach. One query uses it.
        goldens: As for `score_traces`.
        metrics: As for `score_traces`.
        retention: Seconds without new records after which a trace or a session is forgotten. What comes later than
            that is scored as if nothing had been before.
        column: As for `score_traces`.
        preset: As for `score_traces`.
        tools: As for `score_traces`.
        profile: As for `score_traces`.
        threshold: As for `score_traces`.
        sample: As for `score_traces`.
        max_spans: As for `score_traces`.
        clock: Gives the time in seconds, for the retention.

    Raises:
        SettingsError: `df` is no stream, it has no such column, or a number is out of its range.
        GoldenFileError: what is wrong with the goldens.
        MetricError: there is no such metric.

    """
    if not df.isStreaming:
        raise SettingsError("found a DataFrame that is no stream; call score_traces, or read with spark.readStream")
    if retention <= 0:
        raise SettingsError(f"retention: found {retention}, expected seconds, more than 0")
    traces, columns = traces_in(df, column)
    run = on_workers(
        df.sparkSession, job_of(columns, goldens, metrics, preset, tools, profile, threshold, sample, max_spans)
    )

    def score(rows: DataFrame, batch: int) -> None:
        session = rows.sparkSession
        chunks, links, sessions = (
            _StateTable(session, f"{state}/{name}", batch, more, one)
            for name, more, one in (
                ("traces", "", ""),
                ("links", "", "key, data"),
                ("sessions", ", trace binary, session binary", "key, trace"),
            )
        )
        now = clock()
        chunks.write(rows.mapInArrow(run(read_traces, numbered=True), KEYED_COLUMNS), now)
        records = chunks.with_keys_of(chunks).unionByName(links.with_keys_of(chunks))
        sessions.write(_grouped_in_order(records).mapInArrow(run(assemble_traces), PART_COLUMNS), now)
        named = sessions.written().where("session is not null")
        links.write(named.selectExpr("trace as key", "0L as position", "session as data"), now)
        parts = _grouped_in_order(sessions.with_keys_of(sessions))
        results = parts.mapInArrow(run(score_sessions), RESULT_COLUMNS)
        sink(results.selectExpr("*", f"{batch}L as batch"), batch)
        for table in (chunks, links, sessions):
            table.tidy(now - retention)

    return traces.writeStream.foreachBatch(score).option("checkpointLocation", f"{state}/checkpoint")


def newest_scores(rows: DataFrame) -> DataFrame:
    """Return the rows that stand among those that `score_stream` gave: of each session those of its newest batch."""
    newest = rows.groupBy("session").agg({"batch": "max"}).withColumnRenamed("max(batch)", "batch")
    standing = rows.join(newest, ["session", "batch"], "left_semi").where(f"level <> '{REMOVED}'")
    return standing.select(rows.columns)


@dataclass(frozen=True)
class _StateTable:
    """A table of state in a micro-batch."""

    session: SparkSession
    path: str
    batch: int
    columns: str  # columns beside those of all tables, as DDL
    one: str  # of the rows that are the same in these columns the newest stands; empty: all rows stand

    def write(self, rows: DataFrame, now: float) -> None:
        self._write(rows.selectExpr("*", f"{self.batch}L as came", f"{now!r}D as at"), f"{_BATCH}{self.batch}")

    def written(self) -> DataFrame:
        return self._read([f"{_BATCH}{self.batch}"])

    def with_keys_of(self, table: _StateTable) -> DataFrame:
        """Return all rows up to this micro-batch with the keys that it wrote to `table`."""
        keys = table.written().select("bucket", "key").distinct()
        buckets = ", ".join(str(row.bucket) for row in keys.select("bucket").distinct().collect())
        rows = self._read(self._whole()).where(f"bucket in ({buckets or 'null'})")
        return rows.join(keys, ["bucket", "key"], "left_semi")

    def tidy(self, oldest: float) -> None:
        """Make one folder of many, without the keys that had no rows since `oldest`; delete what that one replaces."""
        whole = self._whole()
        for name, batch in self._folders().items():
            if batch < self.batch and name not in whole:
                self._files[0].delete(self._files[1].suffix(f"/{name}"), True)  # noqa: FBT003 - with what is in it
        if self.batch % _FOLDERS == _FOLDERS - 1:
            rows = self._read(whole).selectExpr("*", "max(at) over (partition by key) as last")
            rows = rows.where(f"last >= {oldest!r}D")
            if self.one:
                rows = rows.selectExpr("*", f"max(came) over (partition by {self.one}) as newest")
                rows = rows.where("came = newest").drop("newest")
            self._write(rows.drop("last", "bucket"), f"{_ALL}{self.batch}")

    def _read(self, folders: Iterable[str]) -> DataFrame:
        paths = [f"{self.path}/{name}" for name in folders]
        schema = f"{_COLUMNS}{self.columns}, part string, bucket int"
        files = self.session.read.schema(schema).option("basePath", self.path)
        return (files.parquet(*paths) if paths else self.session.createDataFrame([], schema)).drop("part")

    def _write(self, rows: DataFrame, folder: str) -> None:
        rows = rows.selectExpr("*", _BUCKET).repartition("bucket")
        writer = rows.write.mode("overwrite").option("partitionOverwriteMode", "static")
        writer.partitionBy("bucket").parquet(f"{self.path}/{folder}")

    def _whole(self) -> list[str]:
        """Return the folders that hold what came up to this micro-batch, which may run again."""
        folders = self._folders()
        base = max(
            (number for name, number in folders.items() if name.startswith(_ALL) and number < self.batch), default=-1
        )
        later = [name for name, number in folders.items() if name.startswith(_BATCH) and base < number <= self.batch]
        return later if base < 0 else [f"{_ALL}{base}", *later]

    def _folders(self) -> dict[str, int]:
        """Return the names of the folders, each with the number of its micro-batch."""
        files, path = self._files
        names = [status.getPath().getName() for status in files.listStatus(path)] if files.exists(path) else []
        return {name: int(name.rpartition("-")[2]) for name in names if name.startswith((_BATCH, _ALL))}

    @property
    def _files(self) -> tuple[Any, Any]:
        """Return the file system, and the path in it; Spark has no other way to list and to delete."""
        context: Any = self.session.sparkContext
        path = context._jvm.org.apache.hadoop.fs.Path(self.path)  # noqa: SLF001
        return path.getFileSystem(context._jsc.hadoopConfiguration()), path  # noqa: SLF001


def _grouped_in_order(rows: DataFrame) -> DataFrame:
    """Return the same rows with those of one key together, in the order in which they came."""
    return rows.repartition("key").sortWithinPartitions("key", "came", "position").select("key", "data")
