"""A small golden set, and traces for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from goldspan.collector_processor.cli import main

GOLDENS = """
format: 1
golden_set: weather
version: "1"
goldens:
  - session: sess-1
    turns:
      - calls:
          - {name: get_weather, args: {city: Paris, days: 3}}
"""

Run = Callable[..., Result]


@pytest.fixture
def goldens(tmp_path: Path) -> Path:
    path = tmp_path / "goldens.yaml"
    path.write_text(GOLDENS, "utf-8")
    return path


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command line in an empty directory, as in a pipe."""
    monkeypatch.chdir(tmp_path)
    for name in ("FORCE_COLOR", "NO_COLOR", "COLUMNS", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)

    def invoke(*arguments: object, stdin: bytes | None = None) -> Result:
        return CliRunner().invoke(main, [str(argument) for argument in arguments], input=stdin, catch_exceptions=False)

    return invoke
