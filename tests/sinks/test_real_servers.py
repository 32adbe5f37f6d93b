"""Real servers: scores in Phoenix and MLflow, and traces of both and of Jaeger read back, scored and written back."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import format_trace_id

from goldspan.collector_processor import ToolParameterMatchSpanProcessor
from goldspan.collector_processor.cli import main
from goldspan.collector_processor.sinks import MLflowScores, PhoenixScores
from goldspan.collector_processor.sinks.score_exporter import ScoreExporter
from rigs.local_ports import free_port
from rigs.repository import ROOT
from rigs.scripted_agent import CONVERT, PARIS, ROME, golden, golden_set, run_turn

SERVERS = ROOT / ".venvs" / "servers" / "bin"
JAEGER = ROOT / ".collector" / "jaeger"
START = 240.0
"""Seconds that a server may take to come up: Phoenix makes its data base first."""


@pytest.fixture(scope="module")
def phoenix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port, grpc = free_port(), free_port()
    folder = str(tmp_path_factory.mktemp("phoenix"))
    settings = {"PHOENIX_WORKING_DIR": folder, "PHOENIX_PORT": str(port), "PHOENIX_GRPC_PORT": str(grpc)}
    with served(["phoenix", "serve"], port, settings | {"PHOENIX_HOST": "127.0.0.1"}) as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def mlflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = free_port()
    store = f"sqlite:///{tmp_path_factory.mktemp('mlflow')}/mlflow.db"
    command = ["mlflow", "server", "--port", str(port), "--backend-store-uri", store, "--workers", "1"]
    with served(command, port, {}) as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def jaeger() -> Iterator[tuple[str, str]]:
    """The addresses to ask, and to send spans to."""
    ports = {
        name: free_port()
        for name in (
            "query.http-server",
            "query.grpc-server",
            "collector.otlp.http",
            "collector.otlp.grpc",
            "collector.http-server",
            "collector.grpc-server",
            "admin.http",
        )
    }
    command = [str(JAEGER), *(f"--{name}.host-port=127.0.0.1:{port}" for name, port in ports.items())]
    with served(command, ports["query.http-server"], {}) as endpoint:
        yield endpoint, f"http://127.0.0.1:{ports['collector.otlp.http']}"


@contextmanager
def served(command: list[str], port: int, settings: Mapping[str, str]) -> Iterator[str]:
    binary = SERVERS / command[0]
    if not binary.exists():
        pytest.skip(f"no {binary.name} here (make {'jaeger' if binary == JAEGER else 'test-servers'})")
    endpoint = f"http://127.0.0.1:{port}"
    server = subprocess.Popen(
        [binary, *command[1:]], env=os.environ | settings, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        end = time.monotonic() + START
        while not answers(endpoint):
            assert server.poll() is None, "the server ended"
            assert time.monotonic() < end, "the server did not come up"
            time.sleep(0.5)
        yield endpoint
    finally:
        server.terminate()
        server.wait(30)


def answers(endpoint: str) -> bool:
    try:
        with urllib.request.urlopen(endpoint, timeout=2):
            return True
    except OSError:
        return False


def ask(url: str | urllib.request.Request) -> Any:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)


def run_agent(endpoint: str, sink: ScoreExporter, headers: Mapping[str, str]) -> list[str]:
    """Two turns, the second with a wrong city; returns the ids of their traces."""
    resource = Resource({"service.name": "travel"})
    loggers = LoggerProvider(resource=resource, shutdown_on_exit=False)
    loggers.add_log_record_processor(BatchLogRecordProcessor(sink))
    tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
    goldens = golden_set(golden("sess-1", [PARIS], [PARIS, CONVERT]))
    exporter = OTLPSpanExporter(f"{endpoint}/v1/traces", headers=dict(headers))
    tracers.add_span_processor(ToolParameterMatchSpanProcessor(exporter, goldens=goldens, logger_provider=loggers))
    tracer = tracers.get_tracer("agent")
    traces = []
    for calls in ([PARIS], [ROME, CONVERT]):
        with tracer.start_as_current_span("request") as request:
            traces.append(format_trace_id(request.get_span_context().trace_id))
            run_turn(tracer, "sess-1", calls)
    tracers.shutdown()
    loggers.shutdown()
    assert (sink.delivered, sink.dropped) == (6, 0)
    return traces


def test_phoenix_shows_calls_turns_and_the_session(phoenix: str) -> None:
    run_agent(phoenix, PhoenixScores(phoenix), {})
    project = f"{phoenix}/v1/projects/default"
    spans = ask(f"{project}/spans?limit=100")["data"]
    ids = "&".join(f"span_ids={span['context']['span_id']}" for span in spans)
    found = ask(f"{project}/span_annotations?{ids}")["data"]
    names = {span["context"]["span_id"]: span["name"] for span in spans}
    assert sorted((names[one["span_id"]], one["result"]["score"]) for one in found) == [
        ("execute_tool convert 1", 1.0),
        ("execute_tool get_weather 0", 0.5),
        ("execute_tool get_weather 0", 1.0),
    ]
    ids = "&".join(f"trace_ids={trace}" for trace in {span["context"]["trace_id"] for span in spans})
    turns = ask(f"{project}/trace_annotations?{ids}")["data"]
    assert sorted(one["result"]["score"] for one in turns) == [0.75, 1.0]
    [session] = ask(f"{project}/session_annotations?session_ids=sess-1")["data"]
    assert (session["name"], session["result"]["score"]) == ("tool_parameter_match.session", 0.875)


def test_mlflow_shows_calls_turns_and_the_session(mlflow: str) -> None:
    traces = run_agent(mlflow, MLflowScores(mlflow), {"x-mlflow-experiment-id": "0"})
    infos = [ask(f"{mlflow}/api/3.0/mlflow/traces/tr-{trace}")["trace"]["trace_info"] for trace in traces]
    found = [[(one["assessment_name"], one["feedback"]["value"]) for one in info["assessments"]] for info in infos]
    assert sorted(found[0]) == [("tool_parameter_match", 1.0), ("tool_parameter_match.turn", 1.0)]
    assert sorted(found[1]) == [
        ("tool_parameter_match", 0.5),
        ("tool_parameter_match", 1.0),
        ("tool_parameter_match.session", 0.875),
        ("tool_parameter_match.turn", 0.75),
    ]


def travel_goldens(folder: Path) -> Path:
    """The goldens of the agent's session as a file."""
    turns = [{"calls": [{"name": name, "args": args} for name, args in calls]} for calls in ([PARIS], [PARIS, CONVERT])]
    path = folder / "goldens.json"
    path.write_text(
        json.dumps({"golden_set": "travel", "goldens": [{"session": "sess-stored", "turns": turns}]}), "utf-8"
    )
    return path


def run_plain_agent(endpoint: str, headers: Mapping[str, str]) -> None:
    """The same two turns without scores."""
    tracers = TracerProvider(resource=Resource({"service.name": "travel"}), shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{endpoint}/v1/traces", headers=dict(headers))))
    for calls in ([PARIS], [ROME, CONVERT]):
        with tracers.get_tracer("agent").start_as_current_span("request"):
            run_turn(tracers.get_tracer("agent"), "sess-stored", calls)
    tracers.shutdown()


def scored(source: str, goldens: Path, *options: str) -> float | None:
    """The score of the session among stored traces; None if there is none yet."""
    command = ["score", source, "--goldens", str(goldens), "--since", "1h", "--format", "json", *options]
    result = CliRunner().invoke(main, command)
    assert result.exit_code in (1, 2), result.output
    found = json.loads(result.stdout)["sessions"] if result.stdout else []
    return found[0]["score"] if found else None


def wait_for(score: float, source: str, goldens: Path) -> None:
    """Score until the platform has taken all spans in."""
    end = time.monotonic() + 60
    while (found := scored(source, goldens)) != score:
        assert time.monotonic() < end, found
        time.sleep(1)


def test_traces_of_phoenix_are_scored_and_the_scores_written_once(
    phoenix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PHOENIX_COLLECTOR_ENDPOINT", phoenix)
    run_plain_agent(phoenix, {"x-project-name": "stored"})
    goldens = travel_goldens(tmp_path)
    wait_for(0.875, "phoenix://stored", goldens)
    for _ in range(2):
        assert scored("phoenix://stored", goldens, "--write-back") == 0.875
    project = f"{phoenix}/v1/projects/stored"
    spans = ask(f"{project}/spans?limit=100")["data"]
    ids = "&".join(f"span_ids={span['context']['span_id']}" for span in spans)
    found = ask(f"{project}/span_annotations?{ids}")["data"]
    assert sorted(one["result"]["score"] for one in found) == [0.5, 1.0, 1.0]
    [session] = ask(f"{project}/session_annotations?session_ids=sess-stored")["data"]
    assert session["result"]["score"] == 0.875


def test_traces_of_mlflow_are_scored_and_the_scores_written_once(
    mlflow: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", mlflow)
    create = urllib.request.Request(
        f"{mlflow}/api/2.0/mlflow/experiments/create", b'{"name": "stored"}', {"Content-Type": "application/json"}
    )
    run_plain_agent(mlflow, {"x-mlflow-experiment-id": ask(create)["experiment_id"]})
    goldens = travel_goldens(tmp_path)
    wait_for(0.875, "mlflow://stored", goldens)
    for _ in range(2):
        assert scored("mlflow://stored", goldens, "--write-back") == 0.875
    levels = [name.removeprefix("tool_parameter_match") for name in mlflow_assessments(mlflow, "stored")]
    assert sorted(levels) == ["", "", "", ".session", ".turn", ".turn"]


def mlflow_assessments(mlflow: str, experiment: str) -> list[str]:
    named = ask(f"{mlflow}/api/2.0/mlflow/experiments/get-by-name?experiment_name={experiment}")["experiment"]
    location = {"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": named["experiment_id"]}}
    search = urllib.request.Request(
        f"{mlflow}/api/3.0/mlflow/traces/search",
        json.dumps({"locations": [location], "max_results": 100}).encode(),
        {"Content-Type": "application/json"},
    )
    return [one["assessment_name"] for trace in ask(search)["traces"] for one in trace["assessments"]]


def test_traces_of_jaeger_are_scored(jaeger: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAEGER_QUERY_URL", jaeger[0])
    run_plain_agent(jaeger[1], {})
    wait_for(0.875, "jaeger://travel", travel_goldens(tmp_path))
