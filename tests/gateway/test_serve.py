"""`goldspan serve` as a process: started by its command line, used by OpenTelemetry's SDK, stopped by a signal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
import urllib3

from downstream import Downstream, HttpAnswer, http_downstream
from gateway_rig import MESSAGES, one_span
from goldspan.collector_processor.gateway.contract import Signal
from goldspan.collector_processor.gateway.grpc_receiver import METHODS

EXPORT = {signal: method for method, signal in METHODS.items()}
SPAN = one_span("plain").SerializeToString()

GOLDENS = """
golden_set: weather-agent
goldens:
  - session: SESSION
    turns: [{calls: [{name: get_weather, args: {city: Paris}}]}]
"""


@dataclass
class Process:
    """A gateway that listens."""

    process: subprocess.Popen[str]
    addresses: dict[str, str]
    log: list[dict[str, Any]]

    def get(self, path: str) -> Any:
        return urllib3.request("GET", f"http://{self.addresses['admin']}{path}", retries=False, timeout=10)

    def post(self, body: bytes, path: str = "/v1/traces", content_type: str = "application/x-protobuf") -> int:
        url = f"http://{self.addresses['http']}{path}"
        headers = {"content-type": content_type}
        return urllib3.request("POST", url, body=body, headers=headers, retries=False, timeout=10).status

    def call(self, body: bytes) -> bytes:
        with grpc.insecure_channel(self.addresses["grpc"]) as channel:
            return channel.unary_unary(EXPORT[Signal.TRACES], None, None)(body, timeout=10)

    def end(self, number: int = signal.SIGTERM) -> int:
        """Stop it by a signal; what it logged until then is in `log`."""
        self.process.send_signal(number)
        _, text = self.process.communicate(timeout=30)
        self.log += [json.loads(line) for line in text.splitlines()]
        return self.process.returncode


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "goldspan.collector_processor.cli", "serve", *arguments]


@contextmanager
def process(settings: str, folder: Path, **environ: str) -> Iterator[Process]:
    path = folder / "goldspan.yaml"
    path.write_text(settings, "utf-8")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("GOLDSPAN_", "OTEL_"))}
    started = subprocess.Popen(
        command("--config", str(path)),
        cwd=folder,
        env=clean | {"XDG_STATE_HOME": str(folder / "state")} | environ,
        stderr=subprocess.PIPE,
        text=True,
    )
    log: list[dict[str, Any]] = []
    addresses: dict[str, str] = {}
    assert started.stderr is not None
    try:
        while len(addresses) < 3:
            line = started.stderr.readline()
            assert line, f"it ended: {log}"
            log.append(json.loads(line))
            if log[-1]["message"] == "listening":
                addresses[log[-1]["door"]] = log[-1]["address"]
        yield Process(started, addresses, log)
    finally:
        if started.poll() is None:
            started.kill()
            started.communicate()
        started.stderr.close()


@pytest.fixture
def http() -> Iterator[Downstream]:
    with http_downstream() as downstream:
        yield downstream


def settings_for(downstream: Downstream, more: str = "") -> str:
    return (
        "receivers: {grpc: '127.0.0.1:0', http: '127.0.0.1:0'}\n"
        "admin: {listen: '127.0.0.1:0'}\n"
        "scoring: {settle: 200ms, run_idle: 1s}\n"
        f"export: {{endpoint: '{downstream.endpoint}', retry: {{initial: 100ms}}}}\n{more}"
    )


def until(condition: Any, seconds: float = 15) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.05)


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
    with process(settings_for(http), tmp_path) as gateway:
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


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="this system has no SIGHUP")
def test_goldens_are_read_anew_at_a_sighup(http: Downstream, tmp_path: Path) -> None:
    goldens = tmp_path / "goldens.yaml"
    goldens.write_text(GOLDENS.replace("SESSION", "one"))
    settings = settings_for(http, f"goldens: '{goldens}'\nwatch_goldens: null\n")
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
