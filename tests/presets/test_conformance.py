"""Every preset gives what its system gave, down to the layout of explanations."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from presets import conformance

WITH_DATA = (
    ("tau2.jsonl.gz", 496),
    ("bfcl-perturb-verdicts.jsonl.gz", 8530),
    ("vectors-langchain-agentevals-0.0.9.jsonl", 56),
    ("vectors-ragas-3e28e9d.jsonl", 14),
)


@pytest.mark.parametrize("path", conformance.files([conformance.VECTORS]), ids=lambda path: path.name.split(".")[0])
def test_recorded_answers(path: Path) -> None:
    rows = conformance.tabulate(conformance.read_cases(path))
    assert {system: row.differing for system, row in rows.items()} == {system: [] for system in rows}
    assert sum(row.cases for row in rows.values()) > 50


@pytest.mark.parametrize(("file", "least"), WITH_DATA, ids=[file.split(".")[0] for file, _ in WITH_DATA])
def test_benchmark_verdicts(file: str, least: int) -> None:
    path = conformance.DATA / file
    if not path.is_file():
        pytest.skip(f"{file} is not beside the repository: the benchmark's data is not part of it")
    rows = conformance.tabulate(conformance.read_cases(path))
    assert [row.differing for row in rows.values()] == [[]]
    assert sum(row.cases for row in rows.values()) >= least


def test_the_command_prints_a_table_and_succeeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert conformance.main([str(conformance.VECTORS / "axion.json.gz")]) == 0
    assert "axion" in capsys.readouterr().out


def test_the_command_says_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(gzip.decompress((conformance.VECTORS / "axion.json.gz").read_bytes()))
    document["vectors"] = document["vectors"][:3]
    document["vectors"][1]["score"] = 0.123
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps(document), "utf-8")
    assert conformance.main([str(wrong)]) == 1
    printed = capsys.readouterr().out
    assert "0.123" in printed
    assert printed.count("instead of") == 1


def test_the_command_fails_where_there_is_nothing_to_compare(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"system": "another"}', "utf-8")
    assert conformance.main([str(tmp_path)]) == 1
