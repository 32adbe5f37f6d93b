"""Public names: what `__all__` lists exists, is in order and says what it means."""

from __future__ import annotations

import ast
import importlib
import inspect
from functools import cache

import pytest

from architecture.module_graph import ROOT, modules_in

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


LISTING = [name for name, module in MODULES.items() if any(line.startswith("__all__") for line in module.lines)]


@pytest.mark.parametrize("module", PROMISED)
def test_each_room_offers_what_it_promises(module: str) -> None:
    assert PROMISED[module] <= set(importlib.import_module(module).__all__)


@pytest.mark.parametrize("module", LISTING)
def test_listed_names_are_in_order_and_exist(module: str) -> None:
    loaded = importlib.import_module(module)
    listed = list(loaded.__all__)
    in_order = sorted(set(listed), key=lambda name: (not name.isupper(), name))
    assert listed == in_order
    assert [name for name in listed if not hasattr(loaded, name)] == []


def says_what_it_means(name: str, value: object) -> bool:
    if inspect.isclass(value):
        return bool(value.__doc__) and not value.__doc__.startswith(f"{name}(")  # what dataclasses write themselves
    if inspect.isroutine(value) or inspect.ismodule(value):
        return bool(inspect.getdoc(value))
    return name in documented_constants()


@pytest.mark.parametrize("module", LISTING)
def test_listed_names_are_documented(module: str) -> None:
    loaded = importlib.import_module(module)
    assert [name for name in loaded.__all__ if not says_what_it_means(name, getattr(loaded, name))] == []
