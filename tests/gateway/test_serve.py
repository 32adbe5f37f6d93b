"""`goldspan serve` as a process: started by its command line, used by OpenTelemetry's SDK, stopped by a signal."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import grpc
import pytest
import urllib3
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpanExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from goldspan.collector_processor.otlp_signals import Signal
from rigs.downstream import Downstream, HttpAnswer
from rigs.gateway_process import Process, command, process, settings_for
from rigs.gateway_rig import MESSAGES, one_span
from rigs.otlp_receiver import attributes
from rigs.pipeline_rig import events_in
from rigs.waiting import until

SPAN = one_span("plain").SerializeToString()

GOLDENS = """
golden_set: weather-agent
goldens:
  - session: SESSION
    turns: [{calls: [{name: get_weather, args: {city: Paris}}]}]
"""


def delivered(downstream: Downstream) -> list[Any]:
    """The spans that arrived, in the order of their ids."""
    requests = [MESSAGES[one.signal].FromString(one.body) for one in downstream.received if one.signal is Signal.TRACES]
    spans = [
        span
        for request in requests
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    return sorted(spans, key=lambda span: (span.trace_id, span.span_id))


def test_a_request_with_nothing_of_ours_leaves_byte_for_byte(http: Downstream, tmp_path: Path) -> None:
    settings = settings_for(http).replace("retry: {", "batch_delay: null, retry: {")
    with process(settings, tmp_path) as gateway:
        assert gateway.post(SPAN) == 200
        assert gateway.call(SPAN) == b""
        until(lambda: len(http.received) == 2)
        assert [one.body for one in http.received] == [SPAN, SPAN]
        assert gateway.end() == 0
    assert [line["message"] for line in gateway.log][-1].startswith("shut down: everything")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_and_ends_well(http: Downstream, tmp_path: Path, number: int) -> None:
    with process(settings_for(http), tmp_path) as gateway:
        for _ in range(20):
            assert gateway.post(SPAN) == 200
        assert gateway.end(number) == 0
    assert len(delivered(http)) == 20


def test_what_could_not_be_delivered_is_there_after_the_next_start(http: Downstream, tmp_path: Path) -> None:
    http.http_answer = HttpAnswer(503)
    with process(settings_for(http, "shutdown_timeout: 1s\n"), tmp_path) as gateway:
        assert gateway.post(SPAN) == 200
        until(lambda: http.received)
        assert gateway.end() == 0
        assert "journal" in gateway.log[-1]["message"]
    http.received.clear()
    http.http_answer = HttpAnswer()
    with process(settings_for(http), tmp_path) as gateway:
        until(lambda: http.received)
        assert gateway.end() == 0
    assert [one.body for one in http.received] == [SPAN]


def test_what_is_lost_without_a_journal_is_said(http: Downstream, tmp_path: Path) -> None:
    http.http_answer = HttpAnswer(503)
    settings = settings_for(http, "shutdown_timeout: 1s\njournal: {enabled: false}\n")
    with process(settings, tmp_path) as gateway:
        assert gateway.post(SPAN) == 200
        assert gateway.end() == 0
    assert (gateway.log[-1]["level"], "is lost" in gateway.log[-1]["message"]) == ("error", True)


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="this system has no SIGHUP")
def test_goldens_are_read_anew_at_a_sighup(http: Downstream, tmp_path: Path) -> None:
    goldens = tmp_path / "goldens.yaml"
    goldens.write_text(GOLDENS.replace("SESSION", "one"))
    settings = settings_for(http, f"goldens: '{goldens}'\nwatch_files: null\n")
    with process(settings, tmp_path) as gateway:
        goldens.write_text("golden_set: x\ngoldens: []\nwrong: 1\n")
        gateway.process.send_signal(signal.SIGHUP)
        until(lambda: b'reloads_total{outcome="refused"} 1.0' in gateway.get("/metrics").data)
        goldens.write_text(GOLDENS.replace("SESSION", "two"))
        gateway.process.send_signal(signal.SIGHUP)
        until(lambda: "two" in json.dumps(gateway.get("/coverage").json()))
        assert gateway.end() == 0
    refusal = next(line for line in gateway.log if "refused" in line["message"])
    assert "wrong: unknown field" in refusal["mistakes"][0]


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="this system has no SIGHUP")
@pytest.mark.parametrize("after", [0.2, 0.6])
def test_a_reload_of_many_goldens_delays_no_end(after: float, http: Downstream, tmp_path: Path) -> None:
    turns = [{"calls": [{"name": "f", "args": {"x": number}} for number in range(8)]}]
    goldens = {"golden_set": "g", "goldens": [{"session": f"s-{one}", "turns": turns} for one in range(4000)]}
    (tmp_path / "goldens.json").write_text(json.dumps(goldens))
    with process(settings_for(http, f"goldens: '{tmp_path}/goldens.json'\n"), tmp_path) as gateway:
        gateway.process.send_signal(signal.SIGHUP)
        time.sleep(after)
        began = time.monotonic()
        assert gateway.end() == 0, "the interpreter's end aborts while a thread reads goldens"
        assert time.monotonic() - began < 5.0


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes in the file system")
@pytest.mark.parametrize("what", ["golden", "token"])
def test_a_pipe_in_place_of_a_file_stops_neither_reloads_nor_the_end(
    http: Downstream, tmp_path: Path, what: str
) -> None:
    golden, token = tmp_path / "golden.yaml", tmp_path / "token"
    golden.write_text(GOLDENS.replace("SESSION", "one"))
    token.write_text("secret")
    settings = settings_for(http, f"goldens: '{golden}'\nwatch_files: 100ms\n")
    settings = settings.replace("admin: {", f"admin: {{tokens: [{{file: '{token}'}}], ")
    with process(settings, tmp_path) as gateway:
        odd = golden if what == "golden" else token
        odd.unlink()
        os.mkfifo(odd)
        time.sleep(0.5)
        gateway.process.send_signal(signal.SIGHUP)
        time.sleep(0.5)
        odd.unlink()
        odd.write_text(GOLDENS.replace("SESSION", "two") if what == "golden" else "other")
        address = f"http://{gateway.addresses['admin']}/coverage"
        headers = {"authorization": f"Bearer {'secret' if what == 'golden' else 'other'}"}
        expected = b"two" if what == "golden" else b"one"
        until(lambda: expected in urllib3.request("GET", address, headers=headers, retries=False).data)
        odd.unlink()
        os.mkfifo(odd)
        gateway.process.send_signal(signal.SIGHUP)
        began = time.monotonic()
        assert gateway.end() == 0
        assert time.monotonic() - began < 10
    assert any("regular file" in json.dumps(line) for line in gateway.log)


def test_every_line_of_the_log_is_json_and_none_has_a_secret(http: Downstream, tmp_path: Path) -> None:
    more = "log: {level: debug}\n"
    settings = settings_for(http, more).replace("http: '127.0.0.1:0'", "http: '127.0.0.1:0', tokens: [{env: TOKEN}]")
    with process(settings, tmp_path, TOKEN="very-secret") as gateway:
        assert gateway.post(SPAN) == 401
        assert gateway.end() == 0
    assert {"time", "level", "logger", "message"} <= set.intersection(*(set(line) for line in gateway.log))
    assert "very-secret" not in json.dumps(gateway.log)


def run(*arguments: str, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        cwd=folder,
        env=dict(os.environ) | environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_wrong_settings_end_with_every_mistake(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("receivers: {htp: x}\nexport: {endpoint: nowhere}\n")
    ended = run("--config", "s.yaml", folder=tmp_path)
    assert ended.returncode == 2
    assert ended.stderr.splitlines() == [
        "goldspan: s.yaml:1: receivers.htp: unknown field: did you mean `http`?",
        'goldspan: s.yaml:2: export.endpoint: found "nowhere", expected a URL such as http://localhost:4318',
    ]


def test_a_check_reads_everything_and_starts_nothing(tmp_path: Path) -> None:
    ended = run("--check", folder=tmp_path, GOLDSPAN_EXPORT_ENDPOINT="http://localhost:9")
    assert (ended.returncode, ended.stderr) == (0, "")
    (tmp_path / "g.yaml").write_text("golden_set: g\n")
    ended = run("--check", folder=tmp_path, GOLDSPAN_EXPORT_ENDPOINT="http://localhost:9", GOLDSPAN_GOLDENS="g.yaml")
    assert ended.returncode == 2
    assert "g.yaml:1: `goldens` is missing" in ended.stderr


def test_a_check_names_every_mistake_of_all_that_the_settings_name(tmp_path: Path) -> None:
    (tmp_path / "g.yaml").write_text("golden_set: x\ngolden: []\n")
    (tmp_path / "s.yaml").write_text(
        "goldens: g.yaml\n"
        "scoring: {tools: tools.json}\n"
        "export: {endpoint: 'http://localhost:9', headers: {x-key: {env: NO_KEY}}}\n"
        "receivers:\n"
        "  tokens: [{env: NO_TOKEN}, {file: no-token}]\n"
        "  tls: {certificate: no.pem, key: no.key}\n"
    )
    ended = run("--config", "s.yaml", "--check", folder=tmp_path)
    assert ended.returncode == 2
    beginnings = [
        "goldspan: g.yaml:2: golden: unknown field",
        "goldspan: tools.json: cannot be read",
        "goldspan: settings: receivers.tokens[0]: the variable NO_TOKEN ",
        "goldspan: settings: receivers.tokens[1]: the file no-token ",
        "goldspan: settings: receivers.tls: TLS: no.",
        "goldspan: settings: export (traces): the variable NO_KEY ",
    ]
    lines = ended.stderr.splitlines()
    assert len(lines) == len(beginnings)
    assert [line for line, begins in zip(lines, beginnings, strict=True) if not line.startswith(begins)] == []


def test_a_port_that_is_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        (tmp_path / "s.yaml").write_text(
            f"receivers: {{grpc: '{address}', http: '127.0.0.1:0'}}\nexport: {{endpoint: 'http://localhost:9'}}\n"
        )
        ended = run("--config", "s.yaml", folder=tmp_path)
    assert ended.returncode == 2
    assert f"cannot listen on {address}: " in ended.stderr
    assert "does another process listen there?" in ended.stderr
    assert "GRPC_VERBOSITY" not in ended.stderr


def memory_mebibytes(gateway: Process) -> int:
    status = Path(f"/proc/{gateway.process.pid}/status").read_text("ascii")
    return int(status.partition("VmRSS:")[2].split()[0]) // 1024


@pytest.mark.exhaustive
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
@pytest.mark.parametrize("door", ["http", "grpc"])
def test_ten_thousand_connections_keep_nobody_out(http: Downstream, tmp_path: Path, door: str) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 12_000:
        pytest.skip(f"this system lets a process have {hard} open files; the crowd here is 10,000")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    crowd: list[socket.socket] = []
    try:
        with process(settings_for(http, "limits: {handshake_timeout: 1s}\n"), tmp_path) as gateway:
            before = memory_mebibytes(gateway)
            host, _, port = gateway.addresses[door].rpartition(":")
            crowd.extend(socket.create_connection((host, int(port)), timeout=20) for _ in range(10_000))
            assert gateway.post(SPAN) == 200
            until(lambda: served_by_grpc(gateway))
            assert memory_mebibytes(gateway) - before < 200
            assert gateway.end() == 0
    finally:
        for one in crowd:
            one.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def served_by_grpc(gateway: Process) -> bool:
    try:
        return gateway.call(SPAN) == b""
    except grpc.RpcError:
        return False


def agent_turn(provider: TracerProvider) -> None:
    """One turn of an agent that passes one of two arguments wrongly."""
    tracer = provider.get_tracer("agent")
    turn = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "s-1"}
    call = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "get_weather",
        "gen_ai.tool.call.arguments": '{"city": "Paris", "unit": "fahrenheit"}',
    }
    with (
        tracer.start_as_current_span("invoke_agent", attributes=turn),
        tracer.start_as_current_span("plain"),
        tracer.start_as_current_span("execute_tool get_weather", attributes=call),
    ):
        pass


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_an_agents_spans_arrive_with_their_scores(http: Downstream, tmp_path: Path, protocol: str) -> None:
    goldens = GOLDENS.replace("SESSION", "s-1").replace("{city: Paris}", "{city: Paris, unit: celsius}")
    (tmp_path / "g.yaml").write_text(goldens)
    with process(settings_for(http, "goldens: g.yaml\n"), tmp_path) as gateway:
        exporter = (
            GrpcSpanExporter(gateway.addresses["grpc"], insecure=True)
            if protocol == "grpc"
            else HttpSpanExporter(f"http://{gateway.addresses['http']}/v1/traces")
        )
        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(exporter))
        agent_turn(provider)
        provider.shutdown()
        until(lambda: len(delivered(http)) == 3)
        until(lambda: gateway.get("/coverage").json()["goldens"]["seen"] == 1)
        until(lambda: len({event["tool_parameter_match.level"] for event in events(http)}) == 3)
        assert gateway.end() == 0
    spans = {span.name: attributes(span) for span in delivered(http)}
    assert spans["execute_tool get_weather"]["tool_parameter_match.score"] == 0.5
    assert spans["execute_tool get_weather"]["tool_parameter_match.mismatched_arguments"] == ["unit"]
    assert spans["invoke_agent"]["tool_parameter_match.turn.score"] == 0.5
    assert spans["plain"] == {}
    scores = {event["tool_parameter_match.level"]: event["gen_ai.evaluation.score.value"] for event in events(http)}
    assert scores == {"call": 0.5, "turn": 0.5, "session": 0.5}
    assert any(one.signal is Signal.METRICS for one in http.received)


def events(downstream: Downstream) -> list[dict[str, Any]]:
    return events_in(one.body for one in downstream.received if one.signal is Signal.LOGS)
