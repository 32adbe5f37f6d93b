"""Public names: what `__all__` lists exists, is in order, documented and in the reference; pages import only that."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from architecture.module_graph import ROOT, Module, modules_in
from rigs.markdown_pages import blocks

PROMISED = {
    "goldspan.scoring": {
        "Criterion",
        "ExpectedCall",
        "ToolCall",
        "load_goldens",
        "score_session",
        "score_sessions",
        "score_turn",
    },
    "goldspan.mappers": {"read_sessions"},
    "goldspan.collector_processor": {
        "ToolParameterMatchExporter",
        "ToolParameterMatchLogRecordProcessor",
        "ToolParameterMatchSpanProcessor",
        "session_scope",
    },
}


MODULES = modules_in(ROOT)


def assigned(node: ast.stmt) -> str | None:
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id
    return None


@cache
def documented_constants() -> set[str]:
    trees = [module.tree for module in MODULES.values()]
    return {
        name
        for tree in trees
        for node, after in zip(tree.body, tree.body[1:], strict=False)
        if (name := assigned(node)) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
    }


def listed_in(module: Module) -> list[str] | None:
    """Return the `__all__` of a module, or None if it has none."""
    values = (node.value for node in module.tree.body if isinstance(node, ast.Assign) and assigned(node) == "__all__")
    return next((ast.literal_eval(value) for value in values), None)


LISTING = {name: listed for name, module in MODULES.items() if (listed := listed_in(module)) is not None}
REFERENCE = re.findall(r"\bapi/([\w.]+)\.md", (ROOT / "mkdocs.yml").read_text("utf-8"))


def imported(module: str) -> Any:
    """Return a module; an adapter is skipped where its framework is missing."""
    return (
        pytest.importorskip(module, exc_type=ImportError) if ".adapters." in module else importlib.import_module(module)
    )


def shown_python() -> Iterator[tuple[str, str]]:
    """Yield what readers copy, by file: the Python of pages, of examples and of the packages that show a plugin."""
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for block in blocks(page.read_text("utf-8")):
            if block.language == "python":
                yield f"{page.name}:{block.line}", block.text
    for path in [*(ROOT / "examples").rglob("*.py"), *(ROOT / "tests").glob("plugin_*/*/*.py")]:
        yield path.name, path.read_text("utf-8")
    for path in (ROOT / "examples").rglob("*.ipynb"):
        for cell in json.loads(path.read_text("utf-8"))["cells"]:
            yield path.name, "".join(cell["source"]) if cell["cell_type"] == "code" else ""


def unlisted(source: str) -> list[str]:
    """Return what a reader's Python imports from goldspan although no page of the reference has it."""
    module = Module("shown", "\n".join(line for line in source.splitlines() if not line.startswith(("%", "!"))))
    found = [one for one in module.imports if one.module.startswith("goldspan.")]
    return [
        f"{one.module}.{one.name}"
        for one in found
        if one.module not in LISTING or one.name not in (None, *LISTING[one.module])
    ]


def test_a_list_of_public_names_has_a_page_in_the_reference_and_no_other_module_has_one() -> None:
    assert sorted(LISTING) == sorted(f"goldspan.{module}" for module in REFERENCE)


def test_what_pages_and_examples_import_is_listed() -> None:
    wrong = {where: names for where, source in shown_python() if "goldspan" in source and (names := unlisted(source))}
    assert wrong == {}


def test_an_import_that_is_not_listed_is_found() -> None:
    assert unlisted("from goldspan.scoring import Turn, turn\nimport goldspan.scoring.run") == [
        "goldspan.scoring.turn",
        "goldspan.scoring.run.None",
    ]


@pytest.mark.parametrize("module", PROMISED)
def test_each_room_offers_what_it_promises(module: str) -> None:
    assert PROMISED[module] <= set(importlib.import_module(module).__all__)


@pytest.mark.parametrize("module", LISTING)
def test_listed_names_are_in_order_and_exist(module: str) -> None:
    loaded = imported(module)
    listed = list(loaded.__all__)
    in_order = sorted(set(listed), key=lambda name: (not name.isupper(), name))
    assert listed == in_order
    assert [name for name in listed if not hasattr(loaded, name)] == []
    assert [name for name in dir(loaded) if name not in listed and name not in vars(loaded)] == []


def says_what_it_means(name: str, value: object) -> bool:
    if inspect.isclass(value):
        return bool(value.__doc__) and not value.__doc__.startswith(f"{name}(")  # what dataclasses write themselves
    if inspect.isroutine(value) or inspect.ismodule(value):
        return bool(inspect.getdoc(value))
    return name in documented_constants()


@pytest.mark.parametrize("module", LISTING)
def test_listed_names_are_documented(module: str) -> None:
    loaded = imported(module)
    assert [name for name in loaded.__all__ if not says_what_it_means(name, getattr(loaded, name))] == []
