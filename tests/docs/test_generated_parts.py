"""Parts of pages that are made from the code when the site is built: each is made, and its links lead somewhere."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from rigs.markdown_pages import dead_links
from rigs.repository import ROOT

DOCS = ROOT / "docs"
MADE = runpy.run_path(str(DOCS / "generated_parts.py"))
filled, PART = MADE["filled"], MADE["PART"]
PAGES = [path for path in sorted(DOCS.glob("*.md")) if PART.search(path.read_text("utf-8"))]
SLOW = {"dialects.md"}
"""Made of all recordings: tests/conformance/test_dialects_page.py."""


@pytest.mark.parametrize("page", [one for one in PAGES if one.name not in SLOW], ids=lambda page: page.name)
def test_a_page_is_filled_in(page: Path) -> None:
    text = page.read_text("utf-8")
    made = filled(text)
    assert len(made) > len(text)
    assert made.startswith(text.partition("<!--")[0])
    assert PART.search(made) is None
    assert dead_links(made, DOCS) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_reader_of_the_repository_is_told_how_to_get_the_part(page: Path) -> None:
    for part in PART.finditer(page.read_text("utf-8")):
        said = re.search(r"`python (docs/\w+\.py)(?: \w+)?` prints", part[0])
        assert said
        assert said[1] == f"docs/{part[1]}.py"
        assert (ROOT / said[1]).exists()


def test_text_around_a_part_stays() -> None:
    page = "# A\n\nText.\n\n<!-- made by generate_golden_schema.page -->\n*Made,\nwhen built.*\n\nMore.\n"
    before, made, after = re.fullmatch(r"(# A\n\nText.\n\n)(\{.*\}\n)(\nMore.\n)", filled(page), re.DOTALL).groups()
    assert before + after == "# A\n\nText.\n\n\nMore.\n"
    assert '"golden_set"' in made
