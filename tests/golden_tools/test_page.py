"""The page about these commands: what it shows them printing is what they print."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from goldspan.collector_processor.cli import main
from goldspan.collector_processor.cli.goldens import goldens
from goldspan.collector_processor.golden_tools.checking import CODES
from rigs.markdown_pages import blocks
from rigs.repository import ROOT

PAGE = (ROOT / "docs/golden-tools.md").read_text("utf-8")
ANSWERS = {"id": "simple_0", "ground_truth": [{"area": {"base": [10]}}]}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "BFCL_v4_simple_python.json").write_text(json.dumps(ANSWERS), "utf-8")
    for block in blocks(PAGE):
        if block.file is not None:
            (tmp_path / block.file).write_text(block.text.partition("\n")[2], "utf-8")
    return tmp_path


def printed(line: str) -> str:
    if not line.startswith("goldspan "):
        return subprocess.run(line, shell=True, check=True, capture_output=True, text=True).stdout
    command, _, file = line.partition(" > ")
    result = CliRunner().invoke(main, shlex.split(command)[1:], catch_exceptions=False)
    assert result.exit_code in {0, 1}, result.output
    if file:
        Path(file).write_text(result.stdout, "utf-8")
    return result.stderr if file else result.output


def test_the_page_shows_what_the_commands_print(folder: Path) -> None:
    shown = ran = 0
    for block in blocks(PAGE):
        if block.language != "console":
            continue
        lines = [line.removeprefix("$ ") for line in block.text.splitlines() if line.startswith("$ ")]
        assert "".join(f"$ {line}\n{printed(line)}" for line in lines) == block.text
        shown += 1
        ran += len(lines)
    assert (shown, ran) == (7, 10)


def test_the_page_shows_what_was_recorded(folder: Path) -> None:
    printed("goldspan goldens record examples/traces --session weather-s* -o weather.yaml")
    recorded = (folder / "weather.yaml").read_text("utf-8")
    assert recorded in {block.text for block in blocks(PAGE) if block.language == "yaml"}


def test_the_page_names_every_command_and_finding() -> None:
    assert [name for name in goldens.commands if f"| `{name}` |" not in PAGE] == []  # type: ignore[attr-defined]
    assert [code for code in CODES if f"| `{code}` |" not in PAGE] == []
