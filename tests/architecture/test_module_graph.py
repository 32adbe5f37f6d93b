"""The shape of the tree: no import circle, no crumb, no two modules or classes of one name, imports at the top."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable

import pytest

from architecture.module_graph import ROOT, Module, circles_in, graph_of, modules_in

SHORT = 40
DIALECTS = "goldspan.mappers.dialects."
"""Here each dialect has a file, however short."""

MODULES = modules_in(ROOT)
ENTRY_POINTS = (ROOT / "pyproject.toml").read_text("utf-8")


def crumbs(modules: dict[str, Module], entry_points: str = "") -> list[str]:
    """Return short modules that at most one other module imports: they belong into that one."""
    graph = graph_of(modules)
    importers = Counter(target for targets in graph.values() for target in targets)
    return [
        name
        for name in graph
        if len(modules[name].lines) < SHORT
        and importers[name] <= 1
        and not name.endswith("__main__")
        and f'"{name}:' not in entry_points
    ]


def unexplained(modules: dict[str, Module]) -> list[str]:
    """Return imports inside functions that no comment gives a reason for."""
    return [
        f"{name}:{one.line}"
        for name, module in modules.items()
        for one in module.imports
        if one.in_function and not one.comment
    ]


def twice(names: Iterable[str]) -> list[str]:
    return sorted(name for name, count in Counter(names).items() if count > 1)


def module_names(modules: dict[str, Module]) -> list[str]:
    return [name.rpartition(".")[2] for name, module in modules.items() if not module.is_package]


def public_classes(modules: dict[str, Module]) -> list[str]:
    classes = (node for module in modules.values() for node in module.tree.body if isinstance(node, ast.ClassDef))
    return [node.name for node in classes if not node.name.startswith("_")]


def test_no_import_goes_in_a_circle() -> None:
    assert [" -> ".join(circle) for circle in circles_in(graph_of(MODULES))] == []


def test_no_module_is_a_crumb() -> None:
    found = [name for name in crumbs(MODULES, ENTRY_POINTS) if not name.startswith(DIALECTS)]
    assert found == []


def test_no_two_modules_have_one_name() -> None:
    assert twice(module_names(MODULES)) == []


def test_no_two_public_classes_have_one_name() -> None:
    assert twice(public_classes(MODULES)) == []


def test_an_import_inside_a_function_has_its_reason() -> None:
    assert unexplained(MODULES) == []


def made(**sources: str) -> dict[str, Module]:
    """Modules of a package `p` that passes on what is in its module `inside`."""
    package = Module("p", "from p.inside import Thing", is_package=True)
    return {"p": package} | {f"p.{name}": Module(f"p.{name}", source) for name, source in sources.items()}


@pytest.mark.parametrize(
    ("inside", "outside", "circle"),
    [
        ("import p.outside", "import p.inside", True),
        ("from p.outside import f", "from p import inside", True),
        ("if TYPE_CHECKING:\n    from .outside import f", "from p import Thing", True),
        ("from p.outside import f", "def g():\n    from p import inside", False),
        ("from p.outside import f", "import os", False),
    ],
)
def test_a_circle_is_found(inside: str, outside: str, circle: bool) -> None:
    assert bool(circles_in(graph_of(made(inside=inside, outside=outside)))) is circle


@pytest.mark.parametrize(
    ("lines", "importers", "is_crumb"), [(SHORT - 1, 1, True), (SHORT - 1, 0, True), (SHORT, 1, False), (5, 2, False)]
)
def test_a_crumb_is_found(lines: int, importers: int, is_crumb: bool) -> None:
    sources = {f"user{number}": "import p.small\n" + "x = 1\n" * SHORT for number in range(importers)}
    assert (crumbs(made(small="x = 1\n" * lines, **sources)) == ["p.small"]) is is_crumb


@pytest.mark.parametrize(
    ("source", "explained"),
    [
        ("def f():\n    import x", False),
        ("def f():\n    import x  # noqa: PLC0415", False),
        ("def f():\n    import x  # noqa: PLC0415 - an extra", True),
        ("def f():\n    # an extra\n    import x", True),
        ("def f():\n    # extras\n    import x\n    import y", True),
        ("def f():\n    import x  # an extra\n    import y", False),
        ("import x", True),
    ],
)
def test_an_import_without_a_reason_is_found(source: str, explained: bool) -> None:
    assert (unexplained({"p": Module("p", source)}) == []) is explained


def test_namesakes_are_found() -> None:
    sources = {"p.a.x": "class A: ...", "p.b.x": "class _B: ...", "q.y": "class A: ...\nclass _B: ..."}
    modules = {name: Module(name, source) for name, source in sources.items()}
    assert (twice(module_names(modules)), twice(public_classes(modules))) == (["x"], ["A"])
