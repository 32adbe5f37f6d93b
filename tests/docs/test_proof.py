"""The numbers that README and docs state are those of the last proof."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benchmarks import proof
from rigs.repository import ROOT

RESULTS = json.loads(proof.RESULTS.read_text("utf-8"))
PROOF = (ROOT / "docs/proof.md").read_text("utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MEASURED = re.compile(
    r"\b\d[\d,.]*(?: (?:to|of) \d[\d,.]*)? ?(?:%|times\b|[uµ]s\b|MiB resident|GB of memory|CPU seconds)"
    r"|\b\d[\d,]* of \d[\d,]*\b"
)
"""What looks like a measurement: a share, a ratio, a time, so many of so many."""
RULES = {
    "golden-tools.md": {"2 %"},
    "metrics.md": {"5%", "15 %"},
    "replay.md": {"5 of 100", "30 %"},
    "scale.md": {"27 CPU seconds"},
    "stored-traces.md": {"8 times"},
}
"""Limits and examples, which nobody measured."""
ELSEWHERE = {
    "metrics.md": {"6 of 241", "78 %", "46 %", "10 of 137", "11 of 137", "5 of 241", "2 of 433", "421 of 425"},
    "scale.md": {"1.4 times", "2 times", "2.7 times", "1.5 to 2 times", "2 to 2.7 times", "2.3 GB of memory"},
}
"""What stands with the command that measures it: `make bench ARGS=cost`, `make bench-kafka`, `make test-spark`,
`python -m benchmarks.production`."""


def measurements(page: str) -> set[str]:
    """Return what a page states outside of code."""
    prose = re.sub(r"```.*?```|`[^`]*`", "", page, flags=re.DOTALL)
    return {found[0] for found in MEASURED.finditer(prose)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_number_of_a_page_is_in_the_last_proof(page: Path) -> None:
    stated = measurements(page.read_text("utf-8")) - RULES.get(page.name, set()) - ELSEWHERE.get(page.name, set())
    assert {one for one in stated if one not in PROOF} == set()


def test_the_proof_is_written_from_the_last_results() -> None:
    remake = "run: python -m benchmarks.proof --write"
    assert proof.page(RESULTS) == PROOF, remake
    pictures = proof.images(RESULTS)
    assert pictures == {name: (proof.IMAGES / name).read_text("utf-8") for name in pictures}, remake
    assert proof.readme(RESULTS) in (ROOT / "README.md").read_text("utf-8"), remake


def test_every_section_says_when_it_was_measured() -> None:
    assert RESULTS.keys() <= proof.SECTIONS.keys()
    assert len(re.findall(r"^20\d\d-\d\d-\d\d, \d+ s: `make proof ARGS=", PROOF, re.MULTILINE)) == len(RESULTS)


def test_a_number_that_nobody_measured_is_found() -> None:
    assert measurements("It takes 12 us, 3 of 4 pass, 97.5 % hold, `5 %` and\n```\n7 of 9\n```\n") == {
        "12 us",
        "3 of 4",
        "97.5 %",
    }


@pytest.mark.parametrize(
    ("section", "printed"), [("reading", "no tests ran"), ("durability", "Traceback")], ids=["reading", "durability"]
)
def test_what_did_not_run_is_no_number(monkeypatch: pytest.MonkeyPatch, section: str, printed: str) -> None:
    monkeypatch.setattr(proof, "printed", lambda *_: printed)
    with pytest.raises(RuntimeError, match=printed):
        proof.SECTIONS[section][1](Path())


def test_sections_are_measured_though_another_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fails(data: Path) -> proof.Found:
        raise OSError(str(data))

    def works(data: Path) -> proof.Found:
        return {"ratios": [["measured"], ["x"]]}

    titles = {name: (name, run, "") for name, run in (("reading", fails), ("speed", works))}
    monkeypatch.setattr(proof, "IMAGES", tmp_path)
    for name in ("RESULTS", "PAGE", "README"):
        monkeypatch.setattr(proof, name, tmp_path / name)
    (tmp_path / "README").write_text("", "utf-8")
    monkeypatch.setattr(proof, "SECTIONS", titles)
    monkeypatch.setattr("sys.argv", ["proof"])
    assert proof.main() == 1
    assert "failed: reading" in capsys.readouterr().out
    assert list(json.loads((tmp_path / "RESULTS").read_text("utf-8"))) == ["speed"]
    assert "| x |" in (tmp_path / "PAGE").read_text("utf-8")


def test_badges_of_the_readme_are_pictures_of_the_repository() -> None:
    shown = re.findall(
        r"\[!\[[^\]]*\]\((docs/images/badge-[^)]+)\)\]\(([^)]+)\)", (ROOT / "README.md").read_text("utf-8")
    )
    assert {Path(picture).name for picture, _ in shown} == {
        one for one in proof.images(RESULTS) if one.startswith("badge-")
    }
    assert all((ROOT / path).exists() for pair in shown for path in pair)
