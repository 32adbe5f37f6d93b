"""The example of the page on Spark, on the traces of examples/travel."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from markdown_pages import blocks

ROOT = Path(__file__).parents[2]


def test_the_example_runs(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "traces").mkdir()
    shutil.copy(ROOT / "examples/travel/traces.otlp.json", tmp_path / "traces")
    shutil.copy(ROOT / "examples/travel/goldens.yaml", tmp_path)
    [example] = [block for block in blocks((ROOT / "docs/spark.md").read_text("utf-8")) if block.file == "score.py"]
    page: dict[str, Any] = {}
    text = example.text
    for folder in ("traces", "scores"):  # Spark's own working directory is another
        text = text.replace(f'"{folder}"', repr(str(tmp_path / folder)))
    exec(compile(text, "docs/spark.md", "exec"), page)
    assert page["never_seen"] == []
    sessions = page["scores"].where("level = 'session' and metric = 'tool_parameter_match'")
    assert {row.label for row in sessions.collect()} == {"pass", "fail"}
