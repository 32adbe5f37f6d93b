"""A doubt is said wherever people look: inspect, doctor, reports, and coverage and metrics of the gateway."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from goldspan.collector_processor.serving.admin import GoldenCoverage
from goldspan.scoring import GoldenIndex
from rigs import evaluation_examples as given
from rigs.command_line import Run
from rigs.published_schemas import INSPECT_SCHEMA, SCORE_SCHEMA
from rigs.trace_requests import turn_request, write_lines

GOLDENS = """\
format: 1
golden_set: g
goldens:
  - session: sess-1
    turns:
      - calls: [{name: get_weather, args: {city: Paris}}]
"""


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """A call within another, of another name and with the same arguments: a wrapper's span, perhaps."""
    arguments = {"city": "Paris"}
    request = turn_request("sess-1", ("get_weather", arguments), ("run_tool", arguments), user="Weather in Paris?")
    _, outer, inner = request["resourceSpans"][0]["scopeSpans"][0]["spans"]
    inner["parentSpanId"] = outer["spanId"]
    outer["attributes"].append({"key": "gen_ai.tool.call.result", "value": {"stringValue": "21.5"}})
    return write_lines(tmp_path / "traces.jsonl", request)


@pytest.fixture
def goldens(tmp_path: Path) -> Path:
    path = tmp_path / "goldens.yaml"
    path.write_text(GOLDENS, "utf-8")
    return path


def test_inspect_and_doctor_say_both_sides(traces: Path, run: Run) -> None:
    text = run("inspect", traces)
    assert "in doubt (calls): get_weather, run_tool were read as separate calls" in text.stdout
    assert "calls in doubt in 1 of 1 turns" in text.stdout
    assert "Nothing is missing" not in text.stdout
    document = json.loads(run("inspect", traces, "--format", "json").stdout_bytes)
    INSPECT_SCHEMA.validate(document)
    [doubt] = document["sessions"][0]["turns"][0]["doubts"]
    assert (doubt["code"], doubt["fact"], doubt["names"]) == ("read_twice", "calls", ["get_weather", "run_tool"])
    doctor = run("doctor", traces)
    assert doctor.exit_code == 1
    assert "calls in doubt" in doctor.stdout


def test_reports_say_why_nothing_was_judged(traces: Path, goldens: Path, tmp_path: Path, run: Run) -> None:
    files = {name: tmp_path / f"report.{name}" for name in ("html", "junit", "markdown", "json")}
    reports = [part for name, path in files.items() for part in ("--report", f"{name}={path}")]
    result = run("score", traces, "--goldens", goldens, *reports)
    assert result.exit_code == 1
    assert "the telemetry contradicts how it was read" in result.stdout
    for path in files.values():
        assert "in doubt" in path.read_text("utf-8") or path == files["json"]
    document = json.loads(files["json"].read_text("utf-8"))
    SCORE_SCHEMA.validate(document)
    [turn] = document["sessions"][0]["turns"]
    assert (turn["label"], turn["reason"]) == ("not_evaluated", "reading_doubtful")
    assert [doubt["code"] for doubt in turn["doubts"]] == ["read_twice"]


def test_lenient_coverage_accepts_it(traces: Path, goldens: Path, run: Run) -> None:
    assert run("score", traces, "--goldens", goldens, "--coverage", "lenient").exit_code == 0


def test_the_gateway_counts_doubts_by_dialect() -> None:
    coverage = GoldenCoverage(GoldenIndex(()))
    coverage.count(given.evaluation(given.TURN))
    coverage.count(given.evaluation(given.TURN, revision=2))
    assert coverage.document(0, ())["doubts"] == [{"dialect": "", "doubt": "result_is_error", "turns": 1}]
    assert ("goldspan_doubted_turns_total", {"dialect": "", "doubt": "result_is_error"}, 1) in coverage.samples()
