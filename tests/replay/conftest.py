"""A small golden set, and the command line in an empty directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from rigs.command_line import Run, runner

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


@pytest.fixture
def goldens(tmp_path: Path) -> Path:
    path = tmp_path / "goldens.yaml"
    path.write_text(GOLDENS, "utf-8")
    return path


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    return runner(tmp_path, monkeypatch)
