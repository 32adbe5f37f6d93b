"""OpenTelemetry's SDKs and exporters for JavaScript, Java and Go as clients of `goldspan serve`.

`make test-javascript`, `make test-java` and `make test-go` install what each needs.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from goldspan.collector_processor.otlp_signals import Signal
from rigs.downstream import http_downstream
from rigs.gateway_process import process, settings_for
from rigs.gateway_rig import gateway
from rigs.otlp_containers import requests_of
from rigs.otlp_receiver import attributes
from rigs.pipeline_rig import (
    EVERYTHING,
    as_message,
    events_in,
    everything,
    newest,
    said_by_replay,
    spans_in,
)
from rigs.repository import RECORDING_NAMES, RECORDINGS, ROOT

PROGRAMS = ROOT / "tests" / "exporters"
INSTALLED = ROOT / ".venvs"


def javascript(program: str, folder: Path) -> list[str]:
    """A program of Node's, copied to where its packages are beside it."""
    packages = INSTALLED / "javascript" / "node_modules"
    if not (shutil.which("node") and packages.is_dir()):
        pytest.skip("no packages for JavaScript here: `make test-javascript` installs them (needs node and npm)")
    (folder / "node_modules").symlink_to(packages)
    shutil.copytree(PROGRAMS / "javascript", folder, dirs_exist_ok=True)
    return ["node", str(folder / program)]


def java(folder: Path) -> list[str]:
    packages = INSTALLED / "java" / "packages"
    if not (shutil.which("java") and packages.is_dir()):
        pytest.skip("no packages for Java here: `make test-java` installs them (needs Java 17 or newer and mvn)")
    return ["java", "-cp", f"{packages}/*", str(PROGRAMS / "java" / "Replay.java")]


def go(folder: Path) -> list[str]:
    program = INSTALLED / "go" / "replay"
    if not program.exists():
        pytest.skip("no program of Go's here: `make test-go` builds it (needs go)")
    return [str(program)]


LANGUAGES: dict[str, tuple[Callable[[Path], list[str]], tuple[str, ...]]] = {
    "javascript": (lambda folder: javascript("replay.js", folder), ("js-", "vercel-ai-")),
    "java": (java, ("java-",)),
    "go": (go, ("go-",)),
}
"""The program that writes recorded spans again, and how the recordings of its language are named."""


@pytest.mark.parametrize(
    ("language", "protocol"),
    [(language, protocol) for language in LANGUAGES for protocol in ("grpc", "http/protobuf")]
    + [("javascript", "http/json")],
)
def test_what_an_sdk_sends_is_scored_as_by_a_replay(language: str, protocol: str, tmp_path: Path) -> None:
    client, prefixes = LANGUAGES[language]
    (tmp_path / "client").mkdir()
    command = client(tmp_path / "client")
    names = [name for name in RECORDING_NAMES if name.startswith(prefixes)]
    files = [RECORDINGS / f"{name}.otlp.json" for name in names]
    (tmp_path / "goldens.json").write_text(json.dumps(EVERYTHING))
    # Runs end where those of a replay do, and everything is said before the process ends.
    more = "goldens: goldens.json\njournal: {enabled: false}\n"
    with http_downstream() as http, process(settings_for(http, more, run_idle="60s"), tmp_path) as serving:
        door = "grpc" if protocol == "grpc" else "http"
        url = f"http://{serving.addresses[door]}" + ("" if protocol == "grpc" else "/v1/traces")
        ran = subprocess.run(
            [*command, protocol, url, *map(str, files)], capture_output=True, text=True, check=False, timeout=120
        )
        assert ran.returncode == 0, ran.stderr
        assert serving.end() == 0
    bodies = {signal: [one.body for one in http.received if one.signal is signal] for signal in Signal}
    recorded = [as_message(one).SerializeToString() for name in names for one in requests_of(name)]
    assert {span.span_id: span.name for span in spans_in(bodies[Signal.TRACES])} == {
        span.span_id: span.name for span in spans_in(recorded)
    }
    replayed = said_by_replay(files, everything())
    assert len(replayed) > 5
    assert newest(events_in(bodies[Signal.LOGS])) == replayed


def test_every_kind_of_value_is_understood_from_each_exporter_for_javascript(tmp_path: Path) -> None:
    command = javascript("each_exporter.js", tmp_path)
    with gateway() as running:
        doors = (f"127.0.0.1:{running.http_port}", f"127.0.0.1:{running.grpc_port}")
        ran = subprocess.run([*command, *doors], capture_output=True, text=True, check=False, timeout=60)
        assert ran.returncode == 0, ran.stderr
        messages = running.intake.messages(Signal.TRACES)
    spans = [message.resource_spans[0].scope_spans[0].spans[0] for message in messages]
    assert [span.name for span in spans] == ["json", "json gzip", "protobuf", "grpc"]
    for span in spans:
        assert attributes(span) == {"integer": 5, "double": 1.5, "text": "ü", "list": ["x", "y"], "flag": True}
        assert attributes(span.events[0]) == {"large": 2**53 - 1}
        assert (len(span.trace_id), len(span.span_id)) == (16, 8)
        assert span.start_time_unix_nano > 1.7e18
