"""The notebook that compares two models: its traces are what its script records, and it shows what its cells make."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest

from goldspan.mappers import read_sessions
from goldspan.scoring import score_sessions
from rigs.repository import ROOT

EXAMPLES = ROOT / "examples"
NOTEBOOK = EXAMPLES / "compare_models.ipynb"
MODELS = ("model-2026-05", "model-2026-11")
NEEDED = ("ipykernel", "matplotlib", "nbclient", "pandas")
MISSING = [name for name in NEEDED if find_spec(name) is None]


def outputs(notebook: dict[str, Any]) -> Iterator[list[tuple[str, str]]]:
    """Yield what each code cell shows: kind and text; of a figure only that there is one."""
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            shown: list[tuple[str, str]] = []
            for output in cell["outputs"]:
                shown += [(output["output_type"], text(output["text"]))] if "text" in output else []
                data = output.get("data", {})
                shown += [(kind, "" if kind == "image/png" else text(data[kind])) for kind in sorted(data)]
            yield shown


def text(lines: str | Sequence[str]) -> str:
    return "".join(lines)


def committed() -> dict[str, Any]:
    return json.loads(NOTEBOOK.read_bytes())


@pytest.mark.parametrize("model", MODELS)
def test_the_script_records_the_same_traces_again(model: str, tmp_path: Path) -> None:
    run_path(str(EXAMPLES / "models/record.py"))["record"](model, tmp_path / "again.jsonl")
    recorded = read_sessions(EXAMPLES / f"models/{model}.jsonl")
    assert len(recorded) > 20
    assert read_sessions(tmp_path / "again.jsonl") == recorded


def test_readers_see_three_figures_and_what_regressed() -> None:
    shown = list(outputs(committed()))
    assert all(shown), "a cell without output: run the notebook before it is committed"
    assert NOTEBOOK.stat().st_size < 200_000
    assert Counter(kind for cell in shown for kind, _ in cell)["image/png"] == 3
    right: list[Counter[tuple[str, str]]] = []
    for model in MODELS:
        result = score_sessions(EXAMPLES / "models/goldens.yaml", read_sessions(EXAMPLES / f"models/{model}.jsonl"))
        rows = result.to_arrow().to_pylist()
        right.append(Counter((row["tool"], row["argument"]) for row in rows if row["outcome"] == "matched"))
    assert [f"{tool}.{argument}" for tool, argument in right[0] - right[1]] == ["refund.currency"]
    assert "perhaps regressed: refund.currency 100 % -> 54.5 %" in " ".join(dict(shown[-1])["stream"].split())


@pytest.mark.filterwarnings("default")  # those of Jupyter
@pytest.mark.skipif(
    bool(MISSING), reason=f"{', '.join(MISSING)} not installed here: `make test-integrations` runs this"
)
def test_the_cells_show_what_is_committed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import nbformat  # noqa: PLC0415
    from nbclient import NotebookClient  # noqa: PLC0415

    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    for cell in notebook.cells:
        cell.pop("outputs", None)
    NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": EXAMPLES}}).execute()
    assert list(outputs(notebook)) == list(outputs(committed()))
