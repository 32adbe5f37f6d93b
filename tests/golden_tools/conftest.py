"""The command line in an empty directory, and golden files and traces to give to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from goldspan.collector_processor.cli import main

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `goldspan goldens ...` in an empty directory, as in a pipe."""
    monkeypatch.chdir(tmp_path)
    for name in ("FORCE_COLOR", "NO_COLOR", "COLUMNS", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)

    def invoke(*arguments: object, stdin: str | None = None) -> Result:
        command = ["goldens", *map(str, arguments)]
        return CliRunner().invoke(main, command, input=stdin, catch_exceptions=False)

    return invoke
