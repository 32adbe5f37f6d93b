"""The table of results: its columns, its rows, and the file that `--output` writes."""

from __future__ import annotations

import json
import re
import runpy
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from goldspan.collector_processor.cli.score import write_results
from goldspan.collector_processor.engine import result_table
from goldspan.collector_processor.engine.result_table import COLUMNS, ResultRow, arrow_batch, arrow_schema, run_rows
from goldspan.mappers import read_sessions
from goldspan.scoring import score_sessions
from goldspan.scoring.run import ScoringResult
from goldspan.scoring.sessions import Session, Turn
from rigs.command_line import Run
from rigs.repository import ROOT
from rigs.scored_sessions import EVERYTHING, NOTHING, ODD, UNKNOWN, session, turn, verdict
from rigs.trace_requests import turn_request, write_lines

TYPES = {str: "text", int: "int", float: "float", bool: "bool", datetime: "timestamp"}
RIGHT, WRONG = {"city": "Paris", "days": 3}, {"city": "Paris", "days": 5, "unit": "C"}

COLUMN_ROW = re.compile(r"^\| `(\w+)` \| (\w+) \|", re.MULTILINE)

pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow, the extra `parquet`")
parquet = pytest.importorskip("pyarrow.parquet")


def read(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
    return rows


def test_the_page_names_every_column_and_its_type() -> None:
    shown = COLUMN_ROW.findall(runpy.run_path(str(ROOT / "docs/generate_columns.py"))["page"]())
    assert shown == [(name, TYPES[kind]) for name, (kind, _) in COLUMNS.items()]


@pytest.mark.parametrize("run", [EVERYTHING, ODD, NOTHING], ids=["everything", "odd", "nothing"])
def test_every_row_has_the_types_of_its_columns(run: ScoringResult) -> None:
    rows = list(run_rows(run))
    batch = arrow_batch(rows)
    batch.validate(full=True)
    assert batch.schema == arrow_schema()
    assert [ResultRow(**row) for row in batch.to_pylist()] == rows


def test_a_session_that_metrics_judge_without_golden_has_their_rows_alone() -> None:
    sessions = read_sessions([turn_request("a", ("get_weather", RIGHT), user="Paris, 3 days")])
    judged, alone = (score_sessions(None, sessions, metrics=names) for names in (["tool_parameter_grounding"], []))
    assert {row.metric for row in run_rows(judged)} == {"tool_parameter_grounding"}
    assert [row.reason for row in run_rows(alone) if row.metric == "tool_parameter_match"] == ["no_golden"]
    page = judged._repr_html_()
    assert "no golden" not in page
    assert page.count("<tr>") == 1 + 1


def test_each_level_has_its_rows() -> None:
    rows = list(run_rows(EVERYTHING))
    sessions = [row for row in rows if row.level == "session"]
    assert [(row.session, row.label, row.reason) for row in sessions] == [
        ("sess-weather-1", "fail", None),
        (UNKNOWN.session.id if UNKNOWN.session else "", "not_evaluated", "arguments_not_captured"),
        ("sess-good", "pass", None),
        ("sess-other", "not_evaluated", "no_golden"),
        (None, "not_evaluated", "golden_never_seen"),
    ]
    of_turn = [row for row in rows if row.session == "sess-weather-1" and row.turn == 0]
    assert [(row.tool, row.outcome) for row in of_turn if row.level == "call"] == [
        ("get_weather", "aligned"),
        ("get_weather", "aligned"),
        ("convert", "missing"),
        ("lookup", "unexpected"),
    ]
    arguments = [row for row in of_turn if row.level == "argument"]
    assert [(row.argument, row.score, row.label, row.outcome) for row in arguments] == [
        ("city", 1.0, "pass", "matched"),
        ("days", 1.0, "pass", "matched"),
        ("city", 1.0, "pass", "matched"),
        ("days", 0.0, "fail", "mismatched"),
        ("locale", None, None, "extra"),
        ("value", 0.0, "fail", "mismatched"),
        ("to_unit", 1.0, "pass", "matched"),
    ]


def test_an_argument_that_is_not_known_says_why() -> None:
    rows = [row for row in run_rows(ODD) if row.outcome == "unknown"]
    assert [(row.tool, row.argument, row.reason) for row in rows] == [
        ("i", "x", "arguments_redacted"),
        ("j", "token", "arguments_redacted"),
    ]


def test_values_of_arguments_are_in_no_row() -> None:
    text = repr(list(run_rows(EVERYTHING)))
    assert not [value for value in ("Paris", "Lyon", "rue de Rivoli", "Dear Sir") if value in text]


def test_text_that_is_no_unicode_is_written() -> None:
    result = session("sess-\ud800", verdict(1), turn(0, verdict(1)))
    rows = list(run_rows(ScoringResult((result,))))
    assert {row["session"] for row in arrow_batch(rows).to_pylist()} == {"sess-\\ud800"}


@pytest.mark.parametrize("ended", [0, 1, 2**62, 2**64 - 1, 2**80])
def test_any_time_is_written(ended: int) -> None:
    result = replace(session("s", verdict(1)), session=Session("s", turns=(Turn(end=ended),)))
    arrow_batch(list(run_rows(ScoringResult((result,))))).validate(full=True)


def test_a_file_has_the_rows_of_the_document(run: Run, goldens: Path, tmp_path: Path) -> None:
    lines = [turn_request("sess-1", ("get_weather", WRONG), ("f", {})), turn_request("sess-2", ("f", {}))]
    traces = write_lines(tmp_path / "traces.jsonl", *lines)
    answer = run("score", traces, "--goldens", goldens, "--output", "results.parquet", "--format", "json")
    document = json.loads(answer.stdout_bytes)
    rows = read(tmp_path / "results.parquet")
    [judged, other] = [row for row in rows if row["level"] == "session"]
    assert [judged["score"], other["reason"]] == [document["sessions"][0]["score"], "no_golden"]
    assert [row["argument"] for row in rows if row["level"] == "argument"] == ["city", "days", "unit"]
    [call] = [row for row in rows if row["level"] == "call" and row["outcome"] == "aligned"]
    span = document["sessions"][0]["turns"][0]["calls"][0]["actual"]["span"]
    assert (call["trace_id"], call["span_id"]) == (span["trace_id"], span["span_id"])
    assert call["agent"] == "weather_agent"
    assert call["ended"].isoformat() == "2027-01-15T08:00:02+00:00"


def test_without_goldens_calls_and_findings_have_their_spans(run: Run, tmp_path: Path) -> None:
    write_lines(tmp_path / "traces.jsonl", turn_request("sess-1", ("f", {"x": "nowhere-123"}), user="hello"))
    run("score", "traces.jsonl", "--output", "results.parquet")
    rows = [row for row in read(tmp_path / "results.parquet") if row["metric"] == "tool_parameter_grounding"]
    assert [row["level"] for row in rows] == ["call", "argument", "turn", "session"]
    assert [(row["argument"], row["label"], row["outcome"]) for row in rows[1:2]] == [("x", "fail", "none")]
    assert all(row["trace_id"] and row["span_id"] and row["result_id"] for row in rows)
    assert rows[0]["span_id"] == rows[1]["span_id"] != rows[2]["span_id"] == rows[3]["span_id"]


def test_rows_are_written_in_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goldspan.collector_processor.cli.score._ROWS_A_GROUP", 7)
    rows = list(run_rows(EVERYTHING))
    assert write_results(tmp_path / "results.parquet", iter(rows)) == len(rows)
    written = parquet.ParquetFile(tmp_path / "results.parquet")
    assert written.metadata.num_row_groups == -(-len(rows) // 7)
    assert [ResultRow(**row) for row in written.read().to_pylist()] == rows


def test_an_arrow_file_has_the_same_rows(tmp_path: Path) -> None:
    rows = list(run_rows(EVERYTHING))
    write_results(tmp_path / "results.arrow", rows)
    written = pyarrow.ipc.open_file(tmp_path / "results.arrow").read_all()
    assert [ResultRow(**row) for row in written.to_pylist()] == rows


@pytest.mark.parametrize("goldens", [ROOT / "examples/goldens.yaml", None], ids=["goldens", "no goldens"])
def test_a_result_in_memory_gives_the_rows_of_the_file(run: Run, goldens: Path | None, tmp_path: Path) -> None:
    traces = ROOT / "examples/traces"
    run("score", traces, *(["--goldens", goldens] if goldens else ["--fail-on", "any"]), "--output", "results.parquet")
    result = score_sessions(goldens, read_sessions(traces))
    table = result.to_arrow()
    assert table.schema == arrow_schema()
    assert table.num_rows > 50
    assert table.to_pylist() == read(tmp_path / "results.parquet")
    own = [row for session in result.sessions for row in session.to_arrow().to_pylist()]
    assert own == table.to_pylist()[: len(own)]


@pytest.mark.parametrize(
    ("method", "missing", "extra"),
    [("to_arrow", "pyarrow", "parquet"), ("to_pandas", "pandas", "pandas"), ("to_pandas", "pyarrow", "pandas")],
)
def test_a_missing_extra_is_named(method: str, missing: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_table, "find_spec", lambda name: None if name == missing else object())
    with pytest.raises(ImportError, match=rf"needs {missing}: pip install 'goldspan\[{extra}\]'"):
        getattr(EVERYTHING, method)()


def test_pandas_keeps_positions_as_integers() -> None:
    pytest.importorskip("pandas", reason="needs pandas, the extra `pandas`")
    frame = EVERYTHING.to_pandas()
    assert list(frame.columns) == list(COLUMNS)
    assert len(frame) == EVERYTHING.to_arrow().num_rows
    assert str(frame["turn"].dtype) == "Int32"


def test_a_file_that_cannot_be_written_is_named(run: Run, tmp_path: Path) -> None:
    write_lines(tmp_path / "traces.jsonl", turn_request("sess-1"))
    answer = run("score", "traces.jsonl", "--output", "nowhere/results.parquet")
    assert (answer.exit_code, answer.stderr.splitlines()[-1]) == (
        2,
        "goldspan: nowhere/results.parquet: cannot be written: No such file or directory",
    )


def test_another_suffix_is_refused(run: Run, tmp_path: Path) -> None:
    write_lines(tmp_path / "traces.jsonl", turn_request("sess-1"))
    answer = run("score", "traces.jsonl", "--output", "results.xlsx")
    assert answer.exit_code == 2
    assert "expected a name that ends with .parquet or .arrow" in answer.stderr
