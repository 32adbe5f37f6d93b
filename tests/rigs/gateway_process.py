"""`goldspan serve` as a process, with everything on free ports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import grpc
import urllib3

from goldspan.collector_processor.gateway.interfaces import GRPC_METHODS
from goldspan.collector_processor.otlp_signals import Signal
from rigs.downstream import Downstream

EXPORT = {signal: method for method, signal in GRPC_METHODS.items()}


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

    def call(self, body: bytes, signal: Signal = Signal.TRACES) -> bytes:
        return self.channel.unary_unary(EXPORT[signal], None, None)(body, timeout=10)

    @cached_property
    def channel(self) -> grpc.Channel:
        return grpc.insecure_channel(self.addresses["grpc"])

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
                addresses[log[-1]["server"]] = log[-1]["address"]
        yield Process(started, addresses, log)
    finally:
        if started.poll() is None:
            started.kill()
            started.communicate()
        started.stderr.close()


def settings_for(downstream: Downstream, more: str = "", run_idle: str = "1s") -> str:
    return (
        "receivers: {grpc: '127.0.0.1:0', http: '127.0.0.1:0'}\n"
        "admin: {listen: '127.0.0.1:0'}\n"
        f"scoring: {{settle: 200ms, run_idle: {run_idle}}}\n"
        f"export: {{endpoint: '{downstream.endpoint}', retry: {{initial: 100ms}}}}\n{more}"
    )
