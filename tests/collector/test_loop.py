"""Agent -> Collector -> goldspan -> Collector -> file and back-end, each of them the real thing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from collector.collecting import collecting, healthy, records
from goldspan.mappers import read_sessions
from rigs.gateway_process import process
from rigs.local_ports import free_port
from rigs.scripted_agent import PARIS, ROME, run_turn
from rigs.waiting import until

GOLDENS = """
golden_set: weather-agent
version: "3"
goldens:
  - session: sess-1
    turns:
      - calls: [{name: get_weather, args: {city: Paris, unit: celsius}}]
      - calls: [{name: get_weather, args: {city: Paris, unit: celsius}}]
"""


def said(record: Any) -> dict[str, Any]:
    return {one["key"]: next(iter(one["value"].values())) for one in record.get("attributes", [])}


def test_scores_come_back_to_the_collector(collector: Path, tmp_path: Path) -> None:
    (tmp_path / "goldens.yaml").write_text(GOLDENS, "utf-8")
    ports = {name: f"127.0.0.1:{free_port()}" for name in ("agent", "http", "scored", "goldspan", "health", "backend")}
    file = tmp_path / "scored.jsonl"
    variables = {
        "COLLECTOR_GRPC": ports["agent"],
        "COLLECTOR_HTTP": ports["http"],
        "COLLECTOR_SCORED": ports["scored"],
        "COLLECTOR_HEALTH": ports["health"],
        "COLLECTOR_STORAGE": str(tmp_path / "storage"),
        "GOLDSPAN_ENDPOINT": ports["goldspan"],
        "BACKEND_ENDPOINT": ports["backend"],
        "OTLP_FILE": str(file),
    }
    settings = (
        "goldens: goldens.yaml\n"
        f"receivers: {{grpc: '{ports['goldspan']}', http: '127.0.0.1:0'}}\n"
        "admin: {listen: '127.0.0.1:0'}\n"
        "scoring: {settle: 200ms, run_idle: 1s}\n"
        f"export: {{endpoint: 'http://{ports['scored']}', protocol: grpc, retry: {{initial: 100ms}}}}\n"
    )
    with (
        collecting(
            collector, "collector-to-goldspan.yaml", lambda: healthy(ports["health"]), "copy-to-file.yaml", **variables
        ),
        process(settings, tmp_path),
    ):
        provider = TracerProvider(resource=Resource({"service.name": "travel"}), shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"http://{ports['agent']}", insecure=True)))
        run_turn(provider.get_tracer("agent"), "sess-1", [PARIS])
        run_turn(provider.get_tracer("agent"), "sess-1", [ROME])
        provider.shutdown()

        until(lambda: len(records(file, "resourceSpans", "scopeSpans", "spans")) >= 8, 30)
        until(lambda: len(records(file, "resourceLogs", "scopeLogs", "logRecords")) >= 5, 30)

    spans = records(file, "resourceSpans", "scopeSpans", "spans")
    scores = [said(span).get("tool_parameter_match.score") for span in spans if "execute_tool" in span["name"]]
    turns = [said(span).get("tool_parameter_match.turn.score") for span in spans if "invoke_agent" in span["name"]]
    assert (sorted(scores), sorted(turns)) == ([0.5, 1], [0.5, 1])
    events = records(file, "resourceLogs", "scopeLogs", "logRecords")
    levels = sorted(said(event)["tool_parameter_match.level"] for event in events)
    assert levels == ["call", "call", "session", "turn", "turn"]

    [session] = read_sessions([file])
    assert [len(turn.calls) for turn in session.turns] == [1, 1]
