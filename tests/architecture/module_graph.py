"""The modules of goldspan and what imports what, as their source says it.

An import under TYPE_CHECKING counts, since a reader follows it too. A name that a package passes on counts as imported
from the module that defines it. Imports inside functions are listed apart.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("scoring", "mappers", "collector_processor")


@dataclass(frozen=True)
class Import:
    """One name in an import statement, and the comment on or above the statement."""

    module: str
    name: str | None
    line: int
    in_function: bool
    comment: str


class Module:
    """One file of source; it is parsed when its tree or imports are first asked for."""

    def __init__(self, name: str, source: str, *, is_package: bool = False) -> None:
        self.name = name
        self.is_package = is_package
        self.lines = source.splitlines()
        self._source = source

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self._source)

    @cached_property
    def imports(self) -> list[Import]:
        return list(self._imports(self.tree, in_function=False))

    def _imports(self, parent: ast.AST, *, in_function: bool) -> Iterator[Import]:
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, ast.expr):
                continue
            if isinstance(node, ast.Import):
                pairs: list[tuple[str, str | None]] = [(alias.name, None) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                pairs = [(self._absolute(node), alias.name) for alias in node.names]
            else:
                inside = in_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                yield from self._imports(node, in_function=inside)
                continue
            comment = self._comment(node.lineno, node.end_lineno or node.lineno)
            for module, name in pairs:
                yield Import(module, name, node.lineno, in_function, comment)

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = self.name.split(".")
        kept = parts[: len(parts) - node.level + self.is_package]
        return ".".join([*kept, *filter(None, [node.module])])

    def _comment(self, first: int, last: int) -> str:
        """What is said about the lines of a statement, without what only tells a linter to be quiet."""
        start = first - 1
        while start > 0 and self.lines[start - 1].lstrip().startswith(("import ", "from ")):
            start -= 1  # what is said above imports is said of each
        top = start
        while top > 0 and self.lines[top - 1].lstrip().startswith("#"):
            top -= 1
        lines = [*self.lines[top:start], *self.lines[first - 1 : last]]
        said = [line.partition("#")[2] for line in lines if "#" in line]
        words = [text.partition(" - ")[2] if text.lstrip().startswith("noqa") else text for text in said]
        return " ".join(filter(None, (text.strip() for text in words)))


def modules_in(root: Path) -> dict[str, Module]:
    found: dict[str, Module] = {}
    for room in ROOMS:
        for path in sorted((root / room / "goldspan").rglob("*.py")):
            parts = path.relative_to(root / room).with_suffix("").parts
            is_package = parts[-1] == "__init__"
            name = ".".join(parts[:-1] if is_package else parts)
            stub = path.with_suffix(".pyi")  # of a package that imports its names when they are used
            source = stub if stub.exists() else path
            found[name] = Module(name, source.read_text("utf-8"), is_package=is_package)
    return found


def defined_in(modules: Mapping[str, Module], module: str, name: str | None) -> str | None:
    """Return the module of ours that an import means, or None."""
    seen = set[str]()
    while module not in seen:
        seen.add(module)
        if name is not None and f"{module}.{name}" in modules:
            return f"{module}.{name}"
        if module not in modules:
            return None
        if not modules[module].is_package or name is None:
            return module
        passed_on = next((one for one in modules[module].imports if one.name == name), None)
        if passed_on is None:
            return module
        module = passed_on.module
    return module


def graph_of(modules: Mapping[str, Module]) -> dict[str, set[str]]:
    """Return what each module imports when it is imported, or would for a type checker; packages import nothing."""
    graph = {name: set[str]() for name, module in modules.items() if not module.is_package}
    for name in graph:
        targets = (defined_in(modules, one.module, one.name) for one in modules[name].imports if not one.in_function)
        graph[name] = {target for target in targets if target in graph and target != name}
    return graph


def circles_in(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Return circles, one after another: each is cut at one import, and the next is sought."""
    left = {name: set(targets) for name, targets in graph.items()}
    found: list[list[str]] = []
    while True:
        try:
            TopologicalSorter(left).prepare()
        except CycleError as error:
            circle: list[str] = list(reversed(error.args[1]))
            found.append(circle)
            left[circle[0]].discard(circle[1])
        else:
            return found
