"""The command line in an empty directory, as in a pipe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from goldspan.collector_processor.cli import main

Run = Callable[..., Result]


def runner(folder: Path, monkeypatch: pytest.MonkeyPatch, *command: str) -> Run:
    """Make `folder` the working directory; what is returned runs `goldspan`, or one command of it."""
    monkeypatch.chdir(folder)
    for name in ("FORCE_COLOR", "NO_COLOR", "COLUMNS", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: object, stdin: str | bytes | None = None) -> Result:
        return CliRunner().invoke(main, [*command, *map(str, arguments)], input=stdin, catch_exceptions=False)

    return run
