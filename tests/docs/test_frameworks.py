"""The lines that docs/frameworks.md shows are those of the scripts which `make try` runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from recordings.record import dependencies, header, node_packages
from rigs.markdown_pages import blocks
from rigs.repository import ROOT

FOLDER = ROOT / "tests" / "frameworks"
PAGE = (ROOT / "docs" / "frameworks.md").read_text("utf-8")
SCRIPTS = sorted(FOLDER.glob("try_*.py"))
MARK = re.compile(r"<!-- (\S+) -->")
EXPORT = re.compile(r"export (\w+)=(\S+)")
ELSEWHERE = {"OTEL_EXPORTER_OTLP_ENDPOINT"}
"""What the program that runs the scripts sets for all of them."""


def shown() -> Iterator[tuple[str, str]]:
    """Every block of code that comes from a script: the script's name and the lines."""
    lines = PAGE.splitlines()
    for block in blocks(PAGE):
        if block.language in {"py", "js"}:
            named = MARK.fullmatch(lines[block.line - 3])
            assert named, f"line {block.line}: the block does not say which script it is from"
            yield named[1], block.text


def section(name: str) -> str:
    """What the page says from one heading, where a script is named, to the next."""
    found = [part for part in re.split(r"^## ", PAGE, flags=re.MULTILINE) if f"<!-- {name} -->" in part]
    assert len(found) == 1, f"{name} should be named in one section, is in {len(found)}"
    return found[0]


def missing(lines: Iterable[str], script: str) -> list[str]:
    """Lines that the script does not have, in this order."""
    rest = iter([line.strip() for line in script.splitlines()])
    return [line for line in lines if line.strip() and line.strip() not in rest]


@pytest.mark.parametrize(("name", "text"), list(shown()))
def test_the_lines_are_those_of_the_script(name: str, text: str) -> None:
    assert missing(text.splitlines(), (FOLDER / name).read_text("utf-8")) == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_is_shown_with_its_versions_and_variables(script: Path) -> None:
    said = section(script.name)
    versions = [pin.split("==") for pin in dependencies(script) if "==" in pin] + [*node_packages(script).items()]
    untold = [f"`{name}` {version}" for name, version in versions if f"`{name}` {version}" not in said]
    assert versions
    assert untold == []


def test_the_variables_are_set_when_the_scripts_run() -> None:
    stated = {
        (name, value)
        for script in SCRIPTS
        for name, value in header(script).get("tool", {}).get("try", {}).get("environment", {}).items()
    }
    told = {one for block in blocks(PAGE) if block.language == "sh" for one in EXPORT.findall(block.text)}
    assert {one for one in told if one[0] not in ELSEWHERE} <= stated


def test_the_golden_is_the_one_that_is_tried() -> None:
    [golden] = [block.text for block in blocks(PAGE) if block.language == "yaml"]
    tried = (FOLDER / "trying.py").read_text("utf-8").replace("{{", "{").replace("}}", "}")
    tried = tried.replace("{scenario.SESSION}", "sess-weather-1")
    assert missing(golden.splitlines()[1:], tried) == []


def test_a_line_that_is_not_there_is_found() -> None:
    assert missing(["a", "", "  c", "d"], "a\nb\n    c\n") == ["d"]
    assert missing(["c", "a"], "a\nb\nc\n") == ["a"]
