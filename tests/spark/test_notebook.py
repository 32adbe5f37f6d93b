"""The cells of the example notebook run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rigs.repository import ROOT

EXAMPLES = ROOT / "examples"


def test_the_cells_run(spark: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed here: `make test-spark` runs this")
    monkeypatch.setenv("MPLBACKEND", "agg")
    cells = json.loads((EXAMPLES / "spark_scores.ipynb").read_text("utf-8"))["cells"]
    names: dict[str, Any] = {}
    for cell in cells:
        assert not cell.get("outputs")
        if cell["cell_type"] == "code":
            code = cell["source"].replace('"travel/', f'"{EXAMPLES}/travel/')  # a kernel starts beside its notebook
            exec(compile(code, "spark_scores.ipynb", "exec"), names)
    assert "fail" in capsys.readouterr().out
    assert len(names["by_version"]) > 1
