"""After any micro-batches, the scores that stand are those of a replay of everything."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from conformance.single_records import Document, documents_of
from goldspan.collector_processor.spark import newest_scores, score_stream
from goldspan.scoring.errors import SettingsError
from rigs.recorded_goldens import goldens_of
from rigs.repository import RECORDING_NAMES
from rigs.spark_rows import METRICS, as_json, by_replay, collected, has_ids

pytestmark = pytest.mark.filterwarnings("default")  # PySpark's own


class SinkError(Exception):
    pass


class Stream:
    """A query that reads a file a micro-batch; each run goes on where the one before stopped."""

    def __init__(self, spark: Any, folder: Path, goldens: Any, **options: Any) -> None:
        self.input, self.scores = folder / "input", folder / "scores"
        self.input.mkdir()
        self.given: list[tuple[int, list[str]]] = []
        self._options = {"state": str(folder / "state"), "goldens": goldens, "metrics": METRICS, **options}
        self._spark = spark

    def add(self, *batches: Sequence[Document]) -> None:
        for batch in batches:
            number = len(list(self.input.iterdir()))
            file = self.input / f"{number}.json"
            file.write_text("\n".join(map(as_json, batch)), "utf-8")
            os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))  # Spark reads the oldest first

    def run(self, fails_at: int | None = None) -> None:
        def sink(rows: Any, batch: int) -> None:
            rows = rows.cache()
            self.given.append((batch, sorted(map(repr, rows.collect()))))
            if batch == fails_at:
                raise SinkError
            rows.write.mode("overwrite").parquet(str(self.scores / f"{batch}"))
            rows.unpersist()

        lines = self._spark.readStream.option("maxFilesPerTrigger", 1).text(str(self.input))
        query = score_stream(lines, sink, **self._options).trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()

    def standing(self) -> list[str]:
        rows = self._spark.read.parquet(*map(str, self.scores.iterdir()))
        return collected(newest_scores(rows).drop("batch"))

    def traces_in_state(self, batch: int) -> set[bytes]:
        folder = self.input.parent / f"state/sessions/part=all-{batch}"
        return {bytes(row.trace) for row in self._spark.read.parquet(str(folder)).collect()}


def cut(documents: Sequence[Document], count: int, seed: int) -> list[list[Document]]:
    """Cut into micro-batches anywhere, in any order, some records twice."""
    pick = random.Random(seed)
    records = [*documents, *pick.sample(documents, len(documents) // 5)]
    pick.shuffle(records)
    cuts = sorted(pick.sample(range(1, len(records)), count - 1))
    return [records[start:end] for start, end in zip([0, *cuts], [*cuts, len(records)], strict=True)]


def recorded(names: Sequence[str]) -> list[Document]:
    return [one for name in names for one in documents_of(name) if has_ids(one)]


@pytest.mark.parametrize(("names", "count", "seed"), [(RECORDING_NAMES[::7], 7, 2), (RECORDING_NAMES, 5, 1)])
def test_scores_that_stand_are_those_of_a_replay(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str], count: int, seed: int
) -> None:
    """The sink fails once, and the query starts again from its checkpoint."""
    monkeypatch.setattr("goldspan.collector_processor.spark.scores._FOLDERS", 3)
    documents = recorded(names)
    stream = Stream(spark, tmp_path, goldens_of(*names))
    stream.add(*cut(documents, count, seed))
    with pytest.raises(Exception, match="SinkError"):
        stream.run(fails_at=3)
    stream.run()
    assert [batch for batch, _ in stream.given] == [0, 1, 2, 3, *range(3, count)]
    assert stream.given[3] == stream.given[4]
    assert stream.standing() == by_replay(documents, goldens_of(*names))
    folders = sorted(folder.name for folder in (tmp_path / "state/sessions").iterdir() if "all-" in folder.name)
    assert len(folders) <= 2  # what a folder replaces is deleted


def test_what_is_older_than_the_retention_is_forgotten(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goldspan.collector_processor.spark.scores._FOLDERS", 1)
    times = iter([1000.0, 1030.0, 1090.0, 1100.0])
    first, second = documents_of(RECORDING_NAMES[0]), documents_of(RECORDING_NAMES[1])
    stream = Stream(spark, tmp_path, goldens_of(*RECORDING_NAMES[:2]), retention=60.0, clock=lambda: next(times))
    stream.add(first, second)
    stream.run()
    forgotten = stream.traces_in_state(0)
    stream.add(second, second[:1])
    stream.run()
    left = stream.traces_in_state(3)
    assert forgotten
    assert left
    assert left.isdisjoint(forgotten)
    assert stream.standing() == by_replay([*first, *second], goldens_of(*RECORDING_NAMES[:2]))


@pytest.mark.parametrize(
    ("read", "options", "said"),
    [
        (lambda spark, path: spark.readStream.text(path), {"retention": 0}, "retention: found 0"),
        (lambda spark, path: spark.createDataFrame([], "value string"), {}, "found a DataFrame that is no stream"),
    ],
)
def test_mistakes_are_named(
    spark: Any, tmp_path: Path, read: Callable[[Any, str], Any], options: dict[str, Any], said: str
) -> None:
    with pytest.raises(SettingsError, match=said):
        score_stream(read(spark, str(tmp_path)), lambda rows, batch: None, str(tmp_path / "state"), **options)
