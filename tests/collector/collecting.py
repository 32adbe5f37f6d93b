"""A real Collector as a process."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rigs.local_ports import free_port
from rigs.repository import ROOT
from rigs.waiting import until

BINARY = ROOT / ".collector/otelcol-goldspan"
CONFIG = ROOT / "config/collector"


@contextmanager
def collecting(binary: Path, config: str, ready: Callable[[], bool], *more: str, **variables: str) -> Generator[None]:
    """Run the Collector by configurations of `config/collector`, or others; the block begins when it is ready."""
    named = [word for one in (config, *more) for word in ("--config", one if one.startswith("yaml:") else CONFIG / one)]
    with tempfile.TemporaryFile() as log:  # a pipe that nobody reads would stop it
        started = subprocess.Popen(
            [binary, *named],
            env=os.environ | {"COLLECTOR_METRICS_PORT": str(free_port())} | variables,
            stdout=subprocess.DEVNULL,
            stderr=log,
        )
        try:
            until(lambda: ready() or started.poll() is not None, 30)
            log.seek(0)
            assert started.poll() is None, log.read().decode()
            yield
        finally:
            started.terminate()
            started.wait(timeout=30)


def healthy(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}", timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def records(file: Path, *path: str) -> list[Any]:
    """What stands in a file of the Collector's, below these keys of each line that is written to its end."""
    text = file.read_text("utf-8") if file.exists() else ""
    found = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
    for key in path:
        found = [inner for one in found for inner in one.get(key, [])]
    return found
