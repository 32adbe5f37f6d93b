"""The texts for language models have every page of the site, without what only the scripts that fill pages read."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from rigs.repository import ROOT

MADE = runpy.run_path(str(ROOT / "docs/llms.py"))
PAGES, INDEX, FULL = MADE["pages"](), MADE["index"](), MADE["full"](str)


def test_every_page_that_is_written_is_listed() -> None:
    assert {name for _, name, _ in PAGES} == {path.name for path in (ROOT / "docs").glob("*.md")}


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_a_page_is_there_with_its_title_its_first_sentence_and_its_text(page: Path) -> None:
    title = next(line for line in page.read_text("utf-8").splitlines() if line.startswith("# ")).removeprefix("# ")
    [line] = [line for line in INDEX.splitlines() if f"]({page.stem}.html): " in line]
    assert line.startswith(f"- [{title}](")
    assert line.rpartition(": ")[2] not in {".", ""}
    assert f"<!-- {page.name} -->\n\n# {title}\n" in FULL


def test_only_the_names_of_pages_stand_in_comments() -> None:
    assert FULL.count("<!--") == len(PAGES)
