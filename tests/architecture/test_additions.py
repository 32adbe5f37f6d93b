"""What belongs to a dialect and to a matcher of goldspan beside its code; a failure names the file to write."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from goldspan.mappers.installed_dialects import built_in_dialects
from goldspan.scoring.matchers.kinds import matcher_kinds
from rigs.repository import ROOT

TITLES = {dialect.name: getattr(dialect, "title", dialect.name) for dialect in built_in_dialects()}


class Belonging(NamedTuple):
    """What a file has for each dialect, or each matcher."""

    path: str
    what: str
    texts: tuple[str, ...]
    """One of these stands in the file, with the name and the title put in."""


OF_A_DIALECT = (Belonging("CHANGELOG.md", "its line", ("`{name}`", "{title}")),)
OF_A_MATCHER = (
    Belonging("tests/scoring/test_matchers.py", "its row of ROWS", ('"{name}"',)),
    Belonging("docs/goldens.md", "its description", ("{name}",)),
    Belonging("config/golden-set.schema.json", "its schema, by docs/generate_golden_schema.py", ('"{name}"',)),
    Belonging("CHANGELOG.md", "its line", ("`{name}`",)),
)


def missing(belongings: tuple[Belonging, ...], name: str, title: str = "") -> list[str]:
    """Return what is still to write: where, and what."""
    texts = {path: (ROOT / path).read_text("utf-8") for path, _, _ in belongings}
    return [
        f"{path}: {what}"
        for path, what, wanted in belongings
        if not any(text.format(name=name, title=title) in texts[path] for text in wanted)
    ]


def missing_recordings(name: str) -> list[str]:
    folder = f"tests/fixtures/dialects/{name}"
    return [] if any((ROOT / folder).glob("*.facts.json")) else [f"{folder}/NAME.facts.json: a recording"]


@pytest.mark.parametrize("name", TITLES)
def test_a_dialect_has_its_recording_and_line_in_the_changelog(name: str) -> None:
    assert missing_recordings(name) + missing(OF_A_DIALECT, name, TITLES[name]) == []


@pytest.mark.parametrize("name", matcher_kinds())
def test_a_matcher_has_its_row_page_schema_and_line_in_the_changelog(name: str) -> None:
    assert missing(OF_A_MATCHER, name) == []


def test_a_failure_says_which_file_to_write() -> None:
    assert [*missing_recordings("hovercraft"), *missing(OF_A_DIALECT, "hovercraft", "Hovercraft")] == [
        "tests/fixtures/dialects/hovercraft/NAME.facts.json: a recording",
        "CHANGELOG.md: its line",
    ]
    assert len(missing(OF_A_MATCHER, "$hovercraft")) == len(OF_A_MATCHER)
