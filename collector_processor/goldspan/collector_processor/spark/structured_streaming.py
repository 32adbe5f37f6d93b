# PySpark is not installed where types are checked:
# mypy: disable-error-code="import-not-found, no-any-unimported"
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
"""Traces of a stream scored by Spark: each micro-batch scores anew the sessions that it has records of.

    micro-batch -> chunks -> traces -> their parts -> sessions -> results -> sink

The state are three tables of Parquet, to each of which a micro-batch adds a folder:

    traces      chunks of records, by trace
    links       the sessions that a trace had parts of, by trace
    sessions    the part that a trace has of a session, by session: the newest stands

A micro-batch that runs again writes its folders again, and reads none of later ones: so it gives the same rows. Every
so often the folders become one, without the traces and sessions that had no new records for the retention.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from goldspan.collector_processor.spark.partitions import (
    KEYED_COLUMNS,
    PART_COLUMNS,
    REMOVED,
    assemble_traces,
    read_traces,
    score_sessions,
)
from goldspan.collector_processor.spark.scores import RESULT_COLUMNS, Goldens, job_of, on_workers, traces_in
from goldspan.collector_processor.spark.work_by_key import MAX_SPANS
from goldspan.scoring.errors import SettingsError
from goldspan.scoring.metrics.session_metrics import MetricSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

RETENTION = 24 * 3600.0
"""Seconds without new records after which a trace or a session is forgotten."""
_BUCKETS = 32
"""A micro-batch reads the files of those buckets that its traces and sessions are in."""
_FOLDERS = 16
"""After so many micro-batches their folders become one."""
_BUCKET = f"cast(conv(hex(substr(key, 1, 1)), 16, 10) as int) % {_BUCKETS} as bucket"
_BATCH, _ALL = "part=batch-", "part=all-"
"""How folders are named: those of one micro-batch, and those of all up to one."""
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
    run = on_workers(df.sparkSession, job_of(columns, goldens, metrics, preset, tools, threshold, sample, max_spans))

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
        sessions.write(_grouped(records).mapInArrow(run(assemble_traces), PART_COLUMNS), now)
        named = sessions.written().where("session is not null")
        links.write(named.selectExpr("trace as key", "0L as position", "session as data"), now)
        parts = _grouped(sessions.with_keys_of(sessions))
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
    columns: str
    """Columns beside those of all tables, as DDL."""
    one: str
    """Of the rows that are the same in these columns the newest stands; empty: all rows stand."""

    def write(self, rows: DataFrame, now: float) -> None:
        """Write the rows of this micro-batch, those of an earlier attempt are replaced."""
        self._write(rows.selectExpr("*", f"{self.batch}L as came", f"{now!r}D as at"), f"{_BATCH}{self.batch}")

    def written(self) -> DataFrame:
        """Return the rows of this micro-batch."""
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


def _grouped(rows: DataFrame) -> DataFrame:
    """Return the same rows with those of one key together, in the order in which they came."""
    return rows.repartition("key").sortWithinPartitions("key", "came", "position").select("key", "data")
