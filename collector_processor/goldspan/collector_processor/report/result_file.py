"""The table of results as a file: Parquet, or an Arrow file, by its suffix. Needs the extra `parquet`."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import IO, Any

from goldspan.collector_processor.engine.result_table import ResultRow, arrow_batch, arrow_schema

SUFFIXES = (".parquet", ".arrow")
_ROWS_A_GROUP = 50_000
"""Rows that are in memory at once, and in one row group of the file."""


def write_results(path: Path, rows: Iterable[ResultRow]) -> int:
    """Write rows to a file with one of `SUFFIXES`, some at a time; return how many.

    The file has another name until it is whole. Raises OSError, and SettingsError without the extra `parquet`.
    """
    schema = arrow_schema()
    written, rows = 0, iter(rows)
    unfinished = path.with_name(f".{path.name}.part")
    try:
        with unfinished.open("wb") as file, _writer(file, path.suffix, schema) as writer:
            while group := list(islice(rows, _ROWS_A_GROUP)):
                writer.write_batch(arrow_batch(group))
                written += len(group)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return written


def _writer(file: IO[bytes], suffix: str, schema: Any) -> Any:
    if suffix == ".parquet":
        return import_module("pyarrow.parquet").ParquetWriter(file, schema, compression="zstd")
    return import_module("pyarrow").ipc.new_file(file, schema)
