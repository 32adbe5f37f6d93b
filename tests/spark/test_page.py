"""The examples of the page on Spark, on the traces of examples/travel."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from rigs.markdown_pages import blocks
from rigs.repository import ROOT


def example(file: str, folder: Path) -> CodeType:
    """The code of an example, with its folders in this one: Spark's own working directory is another."""
    [block] = [block for block in blocks((ROOT / "docs/spark.md").read_text("utf-8")) if block.file == file]
    text = block.text
    for name in ("traces", "scores", "arriving", "live", "state"):
        text = text.replace(f'"{name}"', repr(str(folder / name)))
    text = text.replace('processingTime="1 minute"', "availableNow=True").replace(
        "\nstanding", "\nquery.awaitTermination()\nstanding"
    )
    return compile(text, "docs/spark.md", "exec")


def test_the_example_runs(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "traces").mkdir()
    shutil.copy(ROOT / "examples/travel/traces.otlp.json", tmp_path / "traces")
    shutil.copy(ROOT / "examples/travel/goldens.yaml", tmp_path)
    page: dict[str, Any] = {}
    exec(example("score.py", tmp_path), page)
    assert page["never_seen"] == []
    sessions = page["scores"].where("level = 'session' and metric = 'tool_parameter_match'")
    assert {row.label for row in sessions.collect()} == {"pass", "fail"}


def test_the_example_of_a_stream_runs(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "arriving").mkdir()
    documents = json.loads((ROOT / "examples/travel/traces.otlp.json").read_text("utf-8"))
    (tmp_path / "arriving/1.json").write_text(json.dumps(documents), "utf-8")
    shutil.copy(ROOT / "examples/travel/goldens.yaml", tmp_path)
    page: dict[str, Any] = {}
    exec(example("stream.py", tmp_path), page)
    sessions = page["standing"].where("level = 'session' and metric = 'tool_parameter_match'")
    assert {row.label for row in sessions.collect()} == {"pass", "fail"}
