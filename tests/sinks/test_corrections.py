"""The views of config/views: of many events, corrected and withdrawn, they have the results that hold."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from goldspan.collector_processor.emit.evaluation import Events
from goldspan.collector_processor.engine.trace_machine import EngineSettings
from goldspan.collector_processor.stream.stage_interface import Logs, StreamContext
from rigs.markdown_pages import blocks
from rigs.pipeline_rig import bodies_of, cut_up, everything, newest
from rigs.repository import ROOT
from rigs.stream_rig import Stream

RECORDINGS = ("strands-default", "langchain-langsmith", "google-adk-v2-default")
VIEWS = ROOT / "config/views"
CLICKHOUSE, OF_FILES = [(VIEWS / f"{name}.sql").read_text("utf-8") for name in ("clickhouse", "duckdb")]
[QUESTION] = [one.text for one in blocks((ROOT / "docs/corrections.md").read_text("utf-8")) if one.language == "sql"]
COLUMNS = "result_id, label, score, golden_digest"
TABLE = """
CREATE TABLE otel_logs (
    Timestamp DateTime64(9), TraceId String, SpanId String, ServiceName LowCardinality(String),
    LogAttributes Map(LowCardinality(String), String)
) ENGINE = MergeTree() ORDER BY (ServiceName, Timestamp)
"""
"""What the view asks of the table that the Collector's exporter makes."""
Holding = dict[str, tuple[str, float | None, str]]
"""Label, score and golden version of each result that holds, by its id."""


@cache
def stream() -> Stream:
    """Conversations whose spans come in pieces, minutes apart."""
    found = Stream(StreamContext.of(everything(), EngineSettings(events=Events.ALL)), seed=1, faults=0)
    found.run(found.put(cut_up([one for name in RECORDINGS for one in bodies_of(name)], 1, 3), step=60))
    return found


def holding() -> Holding:
    score, digest = "gen_ai.evaluation.score.value", "tool_parameter_match.golden_digest"
    return {
        name: (event["gen_ai.evaluation.score.label"], event.get(score), event[digest])
        for name, event in newest(stream().events()).items()
    }


def test_there_is_something_to_choose_from() -> None:
    events = stream().events()
    withdrawn = [one for one in events if one.get("tool_parameter_match.withdrawn")]
    assert len(events) > 3 * len(holding())
    assert withdrawn
    assert max(one["tool_parameter_match.revision"] for one in events) > 2
    assert len({label for label, _, _ in holding().values()}) > 1


def test_duckdb_has_the_results_that_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    duckdb = pytest.importorskip("duckdb")
    monkeypatch.chdir(tmp_path)
    requests = map(ExportLogsServiceRequest.FromString, stream().of(Logs))
    # As the Collector writes it: ids as hex digits.
    with Path("events.jsonl").open("w", encoding="utf-8") as file:
        for request in requests:
            document = json_format.MessageToDict(request)
            for one in document["resourceLogs"]:
                for record in (record for scope in one["scopeLogs"] for record in scope["logRecords"]):
                    record |= {"traceId": "", "spanId": ""}
            file.write(json.dumps(document) + "\n")
    with duckdb.connect() as connection:
        connection.execute(OF_FILES)
        rows = connection.execute(f"SELECT {COLUMNS} FROM tool_parameter_match").fetchall()
        assert {name: tuple(values) for name, *values in rows} == holding()
        assert len(rows) == len(holding())
        assert connection.execute(QUESTION).fetchall()


def test_clickhouse_has_the_results_that_hold() -> None:
    session: Any = pytest.importorskip("chdb.session", reason="no ClickHouse: pip install chdb, 540 MB").Session()
    session.query(TABLE)
    rows = [
        {
            "Timestamp": one["time"] / 1e9,
            "TraceId": one["context"].partition("/")[0],
            "LogAttributes": {name: _as_text(value) for name, value in one.items() if "." in name},
        }
        for one in stream().events()
    ]
    session.query("INSERT INTO otel_logs FORMAT JSONEachRow " + "\n".join(map(json.dumps, rows)))
    session.query(CLICKHOUSE)
    answer = str(session.query(f"SELECT {COLUMNS} FROM tool_parameter_match", "JSONCompactEachRow"))
    found = [json.loads(line) for line in answer.splitlines()]
    assert {name: tuple(values) for name, *values in found} == holding()
    assert len(found) == len(holding())


def _as_text(value: object) -> str:
    """An attribute as the Collector writes it into a map of texts."""
    return value if isinstance(value, str) else json.dumps(value)
