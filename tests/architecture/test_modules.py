"""The shape of modules: typed, in a namespace without a package of its own."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from rigs.repository import ROOT

ROOMS = ("scoring", "mappers", "collector_processor")
CODE = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
VAGUE = {"base", "common", "helpers", "misc", "util", "utils"}


def names(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


def test_no_module_is_named_after_nothing() -> None:
    assert names([path for path in CODE if path.stem.strip("_") in VAGUE]) == []


def test_every_module_postpones_annotations_and_says_what_it_is() -> None:
    def complete(path: Path) -> bool:
        tree = ast.parse(path.read_text("utf-8"))
        starts = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
        empty = not tree.body
        return empty or (bool(starts) and ast.get_docstring(tree) is not None)

    assert names([path for path in CODE if not complete(path)]) == []


@pytest.mark.parametrize("room", ROOMS)
def test_the_namespace_has_no_package_of_its_own(room: str) -> None:
    assert [path.name for path in (ROOT / room).iterdir() if path.name != "__pycache__"] == ["goldspan"]
    contents = {path.name for path in (ROOT / room / "goldspan").iterdir()} - {"__pycache__"}
    assert contents == {room}
    assert (ROOT / room / "goldspan" / room / "py.typed").is_file()
