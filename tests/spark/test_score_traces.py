"""Spark gives the table that a replay gives, row by row, however the input is partitioned and ordered."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conformance.single_records import Document, documents_of
from goldspan.collector_processor.spark import read_problems, score_traces
from goldspan.mappers import read_sessions
from goldspan.scoring.errors import SettingsError
from rigs.drawn_goldens import drawn_goldens, leaving_out
from rigs.more_simulated_agents import inferred_goldens, runs_to_judge
from rigs.recorded_goldens import goldens_of
from rigs.repository import RECORDING_NAMES, RECORDINGS
from rigs.span_tables import clickhouse_row, json_row, spans_of, write_table
from rigs.spark_rows import METRICS, as_json, as_protobuf, by_replay, collected, has_ids

pytestmark = pytest.mark.filterwarnings("default")  # PySpark's own


@pytest.mark.parametrize(("column", "encoded"), [("string", as_json), ("binary", as_protobuf)])
def test_results_are_those_of_a_replay(spark: Any, column: str, encoded: Callable[[Document], str | bytes]) -> None:
    """Every recording at once: in any order, a third of the records twice, in four partitions."""
    documents = [document for name in RECORDING_NAMES for document in documents_of(name)]
    goldens = goldens_of(*RECORDING_NAMES)
    without_ids = [document for document in documents if not has_ids(document)]  # in the order they came (R4)
    others = [document for document in documents if has_ids(document)]
    pick = random.Random(1)
    repeated = pick.sample(others, len(others) // 3)
    rows = [*without_ids, *pick.sample(others + repeated, len(others) + len(repeated))]
    df = spark.createDataFrame(spark.sparkContext.parallelize([(encoded(one),) for one in rows], 4), f"value {column}")
    expected = by_replay(documents, goldens)
    assert len(expected) > 10 * len(RECORDING_NAMES)
    assert collected(score_traces(df, goldens, METRICS)) == expected


@pytest.mark.parametrize("seed", range(6))
def test_a_drawn_golden_is_answered_as_by_a_replay(spark: Any, seed: int) -> None:
    """As by every other door: tests/conformance/test_every_door.py."""
    name = [name for name in RECORDING_NAMES if has_ids(documents_of(name)[0])][seed * 20]
    documents = [leaving_out(one) for one in documents_of(name)]
    goldens = drawn_goldens(seed, read_sessions(documents))
    rows = random.Random(seed).sample(documents, len(documents))
    df = spark.createDataFrame([(as_json(one),) for one in rows], "value string")
    assert collected(score_traces(df, goldens, [])) == by_replay(documents, goldens, [])


def test_inferred_goldens_judge_as_in_a_replay(spark: Any) -> None:
    goldens, documents = inferred_goldens("recruiting"), runs_to_judge("recruiting")
    df = spark.createDataFrame([(as_json(one),) for one in documents], "value string")
    assert collected(score_traces(df, goldens, [])) == by_replay(documents, goldens, [])


@pytest.mark.parametrize("row", [clickhouse_row, json_row])
def test_tables_of_spans_are_read(spark: Any, row: Callable[[Any], dict[str, Any]], tmp_path: Path) -> None:
    spans = [span for name in RECORDING_NAMES[::5] for span in spans_of(RECORDINGS / f"{name}.otlp.json")]
    table = write_table(tmp_path / "spans.parquet", map(row, spans))
    spark.conf.set("spark.sql.legacy.parquet.nanosAsLong", True)
    df = spark.read.parquet(str(table)).withColumn("Team", sql_text("weather"))
    goldens = goldens_of(*RECORDING_NAMES[::5])
    assert collected(score_traces(df, goldens, METRICS)) == by_replay(table, goldens)
    assert read_problems(df).count() == 0


def test_what_cannot_be_read_costs_nothing_beside_it(spark: Any) -> None:
    documents = documents_of(RECORDING_NAMES[0])
    rows = [None, "", "no JSON", '{"resourceSpans": 1}', *map(as_json, documents)]
    df = spark.createDataFrame([(row, "x") for row in rows], "body string, host string")
    goldens = goldens_of(RECORDING_NAMES[0])
    assert collected(score_traces(df, goldens, METRICS, column="body")) == by_replay(documents, goldens)
    problems = read_problems(df, column="body").collect()
    assert sum(row["count"] for row in problems) >= 3
    assert any("no JSON" in row.message or "'no'" in row.message for row in problems)


def test_beyond_a_bound_results_are_incomplete(spark: Any) -> None:
    [name] = [name for name in RECORDING_NAMES if name == "google-adk-v2-batch"] or RECORDING_NAMES[:1]
    df = spark.createDataFrame([(as_json(one),) for one in documents_of(name)], "value string")
    rows = score_traces(df, metrics=METRICS, max_spans=2).collect()
    assert rows
    assert all(row.incomplete for row in rows)


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        ("a string, b string", {}, "found the columns a string, b string; expected a text or binary column of OTLP"),
        ("a int", {"column": "a"}, "'a' is none"),
        ("a string", {"sample": 0}, "sample: found 0"),
        ("a string", {"max_spans": 0}, "max_spans: found 0"),
    ],
)
def test_mistakes_are_named(spark: Any, columns: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(said)):
        score_traces(spark.createDataFrame([], columns), **options)


def test_a_stream_is_refused(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="found a streaming DataFrame"):
        score_traces(spark.readStream.text(str(tmp_path)))


def sql_text(text: str) -> Any:
    return pytest.importorskip("pyspark.sql.functions").lit(text)
