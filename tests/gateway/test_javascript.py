"""OpenTelemetry's exporters for JavaScript as clients; they write OTLP/JSON unless told otherwise."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from gateway_rig import gateway
from goldspan.collector_processor.gateway.interfaces import Signal
from otlp_receiver import attributes

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ROOT / ".venvs" / "javascript" / "node_modules"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client beside its packages."""
    if not (shutil.which("node") and PACKAGES.is_dir()):
        pytest.skip("no packages for JavaScript here: `make test-javascript` installs them (needs node and npm)")
    folder = tmp_path_factory.mktemp("javascript")
    (folder / "node_modules").symlink_to(PACKAGES)
    shutil.copytree(ROOT / "tests" / "javascript", folder, dirs_exist_ok=True)
    return folder / "client.js"


def test_each_exporter_is_understood(client: Path) -> None:
    with gateway() as running:
        doors = (f"127.0.0.1:{running.http_port}", f"127.0.0.1:{running.grpc_port}")
        ran = subprocess.run(["node", str(client), *doors], capture_output=True, text=True, check=False, timeout=60)
        assert ran.returncode == 0, ran.stderr
        messages = running.intake.messages(Signal.TRACES)
    spans = [message.resource_spans[0].scope_spans[0].spans[0] for message in messages]
    assert [span.name for span in spans] == ["json", "json gzip", "protobuf", "grpc"]
    for span in spans:
        assert attributes(span) == {"integer": 5, "double": 1.5, "text": "ü", "list": ["x", "y"], "flag": True}
        assert attributes(span.events[0]) == {"large": 2**53 - 1}
        assert (len(span.trace_id), len(span.span_id)) == (16, 8)
        assert span.start_time_unix_nano > 1.7e18
