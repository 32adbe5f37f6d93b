"""The travel example: every kind of expectation in one golden set, through the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from rigs.repository import ROOT

TRAVEL = ROOT / "examples" / "travel"


def score(folder: Path, seed: str) -> tuple[dict[str, Any], dict[str, bytes]]:
    reports = {kind: folder / f"{seed}.{kind}" for kind in ("markdown", "junit")}
    command = ["score", "traces.otlp.json", "--goldens", "goldens.yaml", "--format", "json"]
    command += [word for kind, path in reports.items() for word in ("--report", f"{kind}={path}")]
    done = subprocess.run(
        [sys.executable, "-m", "goldspan.collector_processor.cli", *command],
        cwd=TRAVEL,
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    return json.loads(done.stdout), {kind: path.read_bytes() for kind, path in reports.items()}


def test_it_scores_as_its_goldens_say_in_every_process(tmp_path: Path) -> None:
    document, reports = score(tmp_path, "1")
    found = {one["id"]: (one["score"], one["label"]) for one in document["sessions"]}
    assert found == {
        "3f0c": (1, "fail"),
        "trip-hotel": (0.5, "fail"),
        "trip-nightly-1": (1, "pass"),
        "trip-nightly-2": (0, "fail"),
        "trip-nightly-3": (1, "pass"),
    }
    assert score(tmp_path, "2") == (document, reports)
    page = reports["markdown"].decode()
    assert "forbidden, but called: <code>book_flight</code>" in page
    assert "✓ golden <code>trip-nightly-\\*</code>: 2 of 3 runs passed, 2 of 3 must" in page


def test_what_an_earlier_call_returned_is_read(tmp_path: Path) -> None:
    document, reports = score(tmp_path, "1")
    [booked] = [one for one in document["sessions"] if one["id"] == "3f0c"]
    assert [kind for kind, report in reports.items() if b"depends on a result" in report] == []
    assert booked["turns"][0]["evaluated_calls"] == booked["turns"][0]["expected_calls"] == 3
