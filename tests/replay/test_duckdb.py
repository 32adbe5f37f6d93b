"""The recipe of the page about tables, by DuckDB itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rigs.command_line import Run
from rigs.markdown_pages import blocks
from rigs.repository import ROOT
from rigs.span_tables import clickhouse_row, json_row, spans_of, write_table
from rigs.trace_requests import attribute, turn_request, write_lines

duckdb = pytest.importorskip("duckdb", reason="needs duckdb: pip install duckdb")
pytest.importorskip("pyarrow", reason="needs pyarrow, the extra `parquet`")

RIGHT, WRONG = {"city": "Paris", "days": 3}, {"city": "Paris", "days": 5}


def statement(start: str) -> str:
    page = (ROOT / "docs/tables.md").read_text("utf-8")
    [text] = [one.text for one in blocks(page) if one.language == "sql" and one.text.startswith(f"-- {start}")]
    return text


@pytest.mark.parametrize("row", [clickhouse_row, json_row])
def test_the_recipe(row: Any, run: Run, goldens: Path, tmp_path: Path) -> None:
    lines = [turn_request("sess-1", ("get_weather", WRONG)), turn_request("sess-2", ("get_weather", RIGHT))]
    for line in lines:
        line["resourceSpans"][0]["resource"] = {"attributes": [attribute("service.name", "shop")]}
    traces = write_lines(tmp_path / "traces.jsonl", *lines)
    spans = spans_of(traces)
    (tmp_path / "lake/day=1").mkdir(parents=True)
    (tmp_path / "lake/day=2").mkdir()
    write_table(tmp_path / "lake/day=1/a.parquet", map(row, spans[::2]))
    write_table(tmp_path / "lake/day=2/b.parquet", map(row, spans[1::2]))
    (tmp_path / "orders.csv").write_text("session,amount\nsess-1,30\nsess-2,12\n")
    duckdb.sql(statement("choose.sql"))
    answer = run(
        "score", "spans.parquet", "--goldens", goldens, "--output", "results.parquet", "--format", "json", "--jobs", 2
    )
    direct = run("score", traces, "--goldens", goldens, "--format", "json")
    assert json.loads(answer.stdout_bytes) == json.loads(direct.stdout_bytes)
    assert answer.exit_code == direct.exit_code == 1
    assert duckdb.sql(statement("join.sql")).fetchall() == [("get_weather", 1, 30)]
    worst = duckdb.sql(statement("Which arguments")).fetchall()
    assert worst == [(None, "get_weather", "days", "mismatched", 1)]
