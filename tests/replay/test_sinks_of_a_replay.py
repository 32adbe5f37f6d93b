"""`goldspan score --sink`: results as scores of back-ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from rigs.command_line import Run
from rigs.score_backend import score_backend
from rigs.trace_requests import turn_request, write_lines


def test_results_become_scores_of_every_back_end(run: Run, goldens: Path, tmp_path: Path) -> None:
    source = write_lines(
        tmp_path / "traces.jsonl", turn_request("sess-1", ("get_weather", {"city": "Paris", "days": 4}))
    )
    with score_backend() as server:
        sinks = [part for kind in ("phoenix", "mlflow", "langfuse") for part in ("--sink", f"{kind}={server.endpoint}")]
        result = run("score", source, "--goldens", goldens, *sinks)
    assert (result.exit_code, result.stderr) == (1, "")
    [body] = server.bodies("/v1/span_annotations")
    assert body["data"][0]["result"]["score"] == 0.5
    events = [event for body in server.bodies("/api/public/ingestion") for event in body["batch"]]
    assert {event["body"].get("sessionId") for event in events} == {None, "sess-1"}
    assert len([path for _, path, *_ in server.requests if path.endswith("/assessments")]) == 3


def test_more_scores_than_may_wait_all_arrive(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goldspan.collector_processor.replay.sending._MOST_WAITING", 10)
    goldens = tmp_path / "many.json"
    turn = '{"calls": [{"name": "f", "args": {"x": 1}}]}'
    goldens.write_text(f'{{"golden_set": "g", "goldens": [{{"session_pattern": "*", "turns": [{turn}]}}]}}')
    source = write_lines(tmp_path / "t.jsonl", *(turn_request(f"s-{n}", ("f", {"x": 1})) for n in range(60)))
    with score_backend() as server:
        result = run("score", source, "--goldens", goldens, "--sink", f"langfuse={server.endpoint}")
    assert (result.exit_code, result.stderr) == (0, "")
    ids = [event["body"]["id"] for body in server.bodies("/api/public/ingestion") for event in body["batch"]]
    assert len(set(ids)) == len(ids) == 180


def test_a_back_end_that_refuses_is_said_after_the_result(run: Run, goldens: Path, tmp_path: Path) -> None:
    source = write_lines(
        tmp_path / "traces.jsonl", turn_request("sess-1", ("get_weather", {"city": "Paris", "days": 4}))
    )
    with score_backend() as server:
        server.answer = lambda path, body: (400, {})
        result = run("score", source, "--goldens", goldens, "--sink", f"mlflow={server.endpoint}")
    assert result.exit_code == 2
    assert f"mlflow at {server.endpoint} did not take 3 of 3 scores" in result.stderr


@pytest.mark.parametrize("sink", ["phoenix", "phoenix=localhost:6006", "nobody=http://localhost"])
def test_a_sink_is_a_kind_and_an_address(run: Run, goldens: Path, sink: str) -> None:
    result = run("score", "-", "--goldens", goldens, "--sink", sink)
    assert result.exit_code == 2
    assert "expected KIND=URL, as in phoenix=http://localhost:6006" in " ".join(result.stderr.split())
