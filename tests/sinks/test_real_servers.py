"""Scores in a real Phoenix and a real MLflow, asked for by the APIs that their pages use."""

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
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import format_trace_id

from goldspan.collector_processor import ToolParameterMatchSpanProcessor
from goldspan.collector_processor.sinks import MLflowScores, PhoenixScores
from goldspan.collector_processor.sinks.score_exporter import ScoreExporter
from local_ports import free_port
from scripted_agent import CONVERT, PARIS, ROME, golden, golden_set, run_turn

SERVERS = Path(__file__).parents[2] / ".venvs" / "servers" / "bin"
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


@contextmanager
def served(command: list[str], port: int, settings: Mapping[str, str]) -> Iterator[str]:
    binary = SERVERS / command[0]
    if not binary.exists():
        pytest.skip(f"no {command[0]} here (make test-servers)")
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


def ask(url: str) -> Any:
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
