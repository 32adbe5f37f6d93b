"""The Collector configurations of `config/collector`, held against a real Collector's own validation."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from rigs.repository import ROOT

EXAMPLES = sorted((ROOT / "config" / "collector").glob("*.yaml"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_collector_takes_it(example: Path, collector: Path, tmp_path: Path) -> None:
    folders = {"COLLECTOR_STORAGE": str(tmp_path / "storage"), "OTLP_FILE": str(tmp_path / "scored.jsonl")}
    done = subprocess.run(
        [collector, "validate", "--config", example],
        check=False,
        env=os.environ | folders,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_collector_refuses_what_is_wrong(collector: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(EXAMPLES[0].read_text("utf-8").replace("receivers: [otlp]", "receivers: [nobody]"), "utf-8")
    done = subprocess.run([collector, "validate", "--config", wrong], check=False, capture_output=True, text=True)
    assert done.returncode != 0
    assert "nobody" in done.stderr
