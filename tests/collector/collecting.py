"""A real Collector as a process."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from rigs.pipeline_rig import until
from rigs.repository import ROOT

CONFIG = ROOT / "config" / "collector"


@contextmanager
def collecting(binary: Path, config: str, ready: Callable[[], bool], **variables: str) -> Generator[None]:
    """Run the Collector by a configuration of `config/collector`; the block begins when it is ready."""
    started = subprocess.Popen(
        [binary, "--config", CONFIG / config],
        env=os.environ | variables,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        until(lambda: ready() or started.poll() is not None, 30)
        assert started.poll() is None, started.stderr and started.stderr.read().decode()
        yield
    finally:
        started.terminate()
        started.communicate(timeout=30)
