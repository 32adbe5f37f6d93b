"""`goldspan goldens ...` in an empty directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from rigs.command_line import Run, runner


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    return runner(tmp_path, monkeypatch, "goldens")
