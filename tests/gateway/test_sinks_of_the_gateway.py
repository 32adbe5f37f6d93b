"""Results of the gateway as native scores of back-ends, against servers that answer as the real ones do."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from goldspan.collector_processor.gateway.interfaces import Accepted, ExportRequest
from goldspan.collector_processor.gateway.pipeline import GatewayPipeline
from goldspan.collector_processor.gateway.settings.sections import PipelineSettings
from goldspan.collector_processor.gateway.settings.settings_file import load_settings
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.collector_processor.retrying_queue import SendResult
from goldspan.collector_processor.sinks.score_exporter import Score, ScoreExporter, ScoreSinks
from goldspan.scoring.errors import FileError
from goldspan.scoring.goldens import GoldenIndex, load_goldens
from rigs.downstream import http_downstream
from rigs.gateway_process import process, settings_for
from rigs.otlp_containers import as_message
from rigs.pipeline_rig import QUICK, Downstream
from rigs.score_backend import score_backend
from rigs.trace_requests import turn_request
from rigs.waiting import until

GOLDENS: dict[str, Any] = {
    "format": 1,
    "golden_set": "g",
    "goldens": [{"session": "wanted", "turns": [{"calls": [{"name": "get_weather", "args": {"city": "Paris"}}]}]}],
}
SINKS = """
goldens: goldens.yaml
sinks:
  phoenix: {{endpoint: '{endpoint}', api_key: {{env: PHOENIX_KEY}}}}
  mlflow: {{endpoint: '{endpoint}', token: {{env: MLFLOW_KEY}}}}
  langfuse: {{endpoint: '{endpoint}', public_key: pk, secret_key: {{env: LANGFUSE_KEY}}}}
"""


def turn() -> ExportRequest:
    document = turn_request("wanted", ("get_weather", {"city": "Lyon"}))
    return ExportRequest(Signal.TRACES, as_message(document).SerializeToString())


def index() -> GoldenIndex:
    return load_goldens(GOLDENS)


class Slow:
    """A back-end that takes its time, or raises."""

    name = "Slow"

    def __init__(self, seconds: float = 0.0, error: Exception | None = None) -> None:
        self.seconds, self.error = seconds, error
        self.sent: list[Score] = []

    def send(self, scores: Sequence[Score]) -> SendResult[Score]:
        time.sleep(self.seconds)
        if self.error is not None:
            raise self.error
        self.sent += scores
        return SendResult()

    def close(self) -> None:
        """Nothing is open."""


def test_every_back_end_gets_the_scores_of_a_running_gateway(tmp_path: Path) -> None:
    (tmp_path / "goldens.yaml").write_text(
        "golden_set: g\ngoldens: [{session: wanted, turns: [{calls: [{name: get_weather, args: {city: Paris}}]}]}]\n"
    )
    keys = {"PHOENIX_KEY": "p", "MLFLOW_KEY": "m", "LANGFUSE_KEY": "sk"}
    with score_backend() as server, http_downstream() as http:
        server.answer = lambda path, body: (200, {"assessment": {"assessment_id": "a-1"}})
        settings = settings_for(http, SINKS.format(endpoint=server.endpoint))
        with process(settings, tmp_path, **keys) as gateway:
            assert gateway.post(turn().body) == 200
            until(lambda: b'outcome="delivered",sink="langfuse"} 3.0' in gateway.get("/metrics").data)
            until(lambda: b'outcome="delivered",sink="phoenix"} 3.0' in gateway.get("/metrics").data)
            until(lambda: b'outcome="delivered",sink="mlflow"} 3.0' in gateway.get("/metrics").data)
            assert gateway.end() == 0
    for level in ("span", "trace", "session"):
        [body] = server.bodies(f"/v1/{level}_annotations")
        assert body["data"][0]["result"]["score"] == 0.0
    scores = [event["body"] for body in server.bodies("/api/public/ingestion") for event in body["batch"]]
    assert {one["name"] for one in scores} == {f"tool_parameter_match{level}" for level in ("", ".turn", ".session")}
    feedback = [body["assessment"] for _, path, body, _ in server.requests if "/assessments" in path]
    assert {one["feedback"]["value"] for one in feedback} == {0.0}
    said = {
        path.split("/")[1]: headers.get("Authorization", headers.get("authorization"))
        for _, path, _, headers in server.requests
        if path.startswith(("/v1", "/api/3.0"))
    }
    assert said == {"v1": "Bearer p", "api": "Bearer m"}


@pytest.mark.parametrize("backend", [Slow(seconds=2.0), Slow(error=KeyError("broken"))], ids=["slow", "broken"])
def test_a_back_end_never_delays_what_passes(backend: Slow) -> None:
    downstream = Downstream()
    exporter = ScoreExporter(backend, patience=0.0)
    pipeline = GatewayPipeline(index(), downstream, PipelineSettings(engine=QUICK), feed=ScoreSinks({"slow": exporter}))
    assert pipeline.accept(turn()) == Accepted()
    began = time.monotonic()
    until(lambda: len(downstream.spans()) == 2 and len(downstream.events()) == 3)
    assert time.monotonic() - began < 1.9
    assert pipeline.drain(20.0)
    assert (exporter.delivered, exporter.dropped) == ((3, 0) if backend.error is None else (0, 3))
    counted = {
        (name, labels.get("outcome")): value
        for name, labels, value in pipeline.metrics()
        if labels.get("sink") == "slow"
    }
    assert counted["goldspan_sink_scores_total", "delivered"] == exporter.delivered
    assert counted["goldspan_sink_scores_total", "dropped"] == exporter.dropped
    assert counted["goldspan_sink_waiting_scores", None] == 0
    assert not pipeline.failures


def test_what_is_wrong_with_a_sink_names_the_field_and_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "goldspan.yaml"
    path.write_text(
        "export: {endpoint: 'http://a:1'}\nsinks: {phoenix: {endpoint: nowhere, api_key: [hunter2]}, lang: {}}\n"
    )
    with pytest.raises(FileError) as caught:
        load_settings(path, {})
    text = str(caught.value)
    assert "sinks.phoenix.endpoint" in text
    assert "did you mean `langfuse`" in text
    assert "hunter2" not in text


def test_a_sink_may_be_a_variable() -> None:
    environ = {"GOLDSPAN_EXPORT_ENDPOINT": "http://a:1", "GOLDSPAN_SINKS_MLFLOW_ENDPOINT": "http://localhost:5000"}
    settings = load_settings(None, environ)
    assert settings.sinks.mlflow is not None
    assert settings.sinks.mlflow.endpoint == "http://localhost:5000"
    feed = settings.sinks.feed(environ)
    assert list(feed.exporters) == ["mlflow"]
    feed.close(0.0)
