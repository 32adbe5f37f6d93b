"""Distributions beside goldspan's own: installed without any package index, and seen by a command line of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

MAIN = "from goldspan.collector_processor.cli import main; main()"


def installed(distribution: Path, folders: pytest.TempPathFactory) -> Path:
    """Build and install what lies in a folder; where it was installed to."""
    source = shutil.copytree(distribution, folders.mktemp("source") / distribution.name)
    site = folders.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*command, "--target", str(site), str(source)], check=True)
    return site


def goldspan(*arguments: str, site: Path | None) -> subprocess.CompletedProcess[str]:
    """Run the command line with what was installed in `site`, and with nothing else beside it."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    if site is not None:
        environment["PYTHONPATH"] = str(site)
    command = [sys.executable, "-c", MAIN, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
