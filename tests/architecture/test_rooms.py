"""Which room may import what: scoring <- mappers <- collector_processor, and nothing that is not declared."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from rigs.repository import ROOT

ROOMS = ("scoring", "mappers", "collector_processor")
"""Each may import the ones before it."""

CLOCKS_AND_CHANCE = {"random", "secrets", "time", "uuid", "zoneinfo"}
CLOCK_READERS = {"now", "today", "utcnow"}
"""Of `datetime`, whose values are pure."""
THE_WORLD = {"asyncio", "http", "logging", "multiprocessing", "socket", "ssl", "subprocess", "threading", "urllib"}
PURE = CLOCKS_AND_CHANCE | THE_WORLD | {"os", "shutil", "tempfile"}
FORBIDDEN = {
    "scoring": PURE | {"click", "google", "opentelemetry", "rich", "ruamel"},
    "mappers": CLOCKS_AND_CHANCE | THE_WORLD | {"click", "rich", "ruamel", "rapidfuzz", "yaml"},
    "collector_processor": set[str](),
}
IMPORT_OF_DISTRIBUTION = {
    "confluent-kafka": "confluent_kafka",
    "grpcio": "grpc",
    "jsonschema-rs": "jsonschema_rs",
    "prometheus-client": "prometheus_client",
    "protobuf": "google",
    "pydantic-ai-slim": "pydantic_ai",
    "pyyaml": "yaml",
    "strands-agents-evals": "strands_evals",
}

LOADED_BY = {"pytest_plugin": "pytest"}
"""Packages that only another program loads, and which may therefore import it."""


class Found(NamedTuple):
    """An import statement."""

    module: str
    line: int
    lazy: bool


def imports(source: str, package: str) -> Iterator[Found]:
    tree = ast.parse(source)
    at_import_time = set[ast.AST]()
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        at_import_time.add(node)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))
    for node in ast.walk(tree):
        lazy = node not in at_import_time
        if isinstance(node, ast.Import):
            yield from (Found(name.name, node.lineno, lazy) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package.rsplit(".", node.level - 1)[0] if node.level else ""
            base = ".".join(filter(None, (start, node.module)))
            if base == "goldspan":
                yield from (Found(f"goldspan.{name.name}", node.lineno, lazy) for name in node.names)
            else:
                yield Found(base, node.lineno, lazy)


def rejected(source: str, room: str, package: str) -> list[str]:
    """Everything wrong with the imports of a module of this room."""
    wrong: list[str] = []
    if "time" in FORBIDDEN[room]:
        reads = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute))
        wrong += [f"line {node.lineno}: {room} reads the clock" for node in reads if node.attr in CLOCK_READERS]
    for module, line, lazy in imports(source, package):
        top, _, rest = module.partition(".")
        if top == "goldspan":
            target = rest.partition(".")[0]
            if target not in ROOMS[: ROOMS.index(room) + 1]:
                wrong.append(f"line {line}: {room} imports {module}")
        elif top in FORBIDDEN[room]:
            wrong.append(f"line {line}: {room} imports {module}, which is not pure")
        elif (
            room == "scoring"
            and top in {"airportsdata", "babel", "jsonschema_rs", "pycountry", "re2", "rapidfuzz", "yaml"}
            and not lazy
        ):
            wrong.append(f"line {line}: {module} is imported eagerly")
        elif top == LOADED_BY.get(package.removeprefix("goldspan.collector_processor.")):
            continue
        elif top not in sys.stdlib_module_names and top not in declared():
            wrong.append(f"line {line}: {module} is not a declared dependency")
    return wrong


@cache
def requirements() -> list[str]:
    """Names of the distributions the base install and the extras ask for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project.get("optional-dependencies", {}).values()
    stated = [*project["dependencies"], *(entry for extra in extras for entry in extra)]
    names = [re.split(r"[\s\[<>=!~;]", entry, maxsplit=1)[0].lower().replace(".", "-") for entry in stated]
    return [name for name in names if name != "goldspan"]  # an extra may ask for another


@cache
def declared() -> set[str]:
    names = requirements()
    tops = {"opentelemetry" if n.startswith("opentelemetry") else IMPORT_OF_DISTRIBUTION.get(n, n) for n in names}
    return tops | {"pydantic_core"}  # the other half of pydantic


def modules(room: str) -> list[Path]:
    return sorted((ROOT / room / "goldspan").rglob("*.py"))


def package_of(path: Path, room: str) -> str:
    return ".".join(path.relative_to(ROOT / room).parts[:-1])


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_what_it_may(room: str) -> None:
    found = {
        str(path.relative_to(ROOT)): wrong
        for path in modules(room)
        if (wrong := rejected(path.read_text("utf-8"), room, package_of(path, room)))
    }
    assert modules(room)
    assert found == {}


COLLECTOR = ROOT / "collector_processor/goldspan/collector_processor"
LAYERS = (
    {"daemon_threads"},
    {
        "compression",
        "export_outage",
        "otlp_signals",
        "server_urls",
        "atomic_files",
    },
    {"http_client", "otlp_messages"},
    {"emit"},
    {"retrying_queue"},
    {"engine", "judge", "sinks"},
    {"encoded_spans", "serving"},
    {"in_process", "gateway", "replay", "spark"},
    {"stream"},
    {"golden_tools", "report"},
    {"cli", "adapters", "pytest_plugin"},
)
"""Packages and loose modules of `collector_processor`: each imports itself and earlier rows, never its own row."""


def layer_of(name: str) -> int:
    return next(index for index, names in enumerate(LAYERS) if name in names)


def wrong_order(source: str, name: str) -> list[str]:
    """The imports of `collector_processor.<name>` that point upwards or sideways."""
    found = [one.module.split(".") for one in imports(source, f"goldspan.collector_processor.{name}")]
    targets = {parts[2] for parts in found if parts[:2] == ["goldspan", "collector_processor"] and len(parts) > 2}
    return sorted(one for one in targets - {name} if layer_of(one) >= layer_of(name))


def test_the_packages_of_the_collector_processor_import_one_way() -> None:
    sources = [path for path in COLLECTOR.rglob("*.py") if path != COLLECTOR / "__init__.py"]
    names = {path: path.relative_to(COLLECTOR).with_suffix("").parts[0] for path in sources}
    wrong = {str(path): wrong_order(path.read_text("utf-8"), name) for path, name in names.items()}
    assert sources
    assert {path: names for path, names in wrong.items() if names} == {}


@pytest.mark.parametrize(
    ("name", "target"), [("emit", "engine.engine"), ("engine", "gateway.tenant"), ("gateway", "cli.serve")]
)
def test_an_import_against_the_order_is_found(name: str, target: str) -> None:
    source = f"from goldspan.collector_processor.{target} import anything"
    assert wrong_order(source, name) == [target.partition(".")[0]]


ENGINE = sorted((COLLECTOR / "engine").rglob("*.py"))


@pytest.mark.parametrize("path", ENGINE, ids=lambda path: path.name)
def test_the_engine_reads_no_clock_file_variable_or_network(path: Path) -> None:
    package = package_of(path, "collector_processor")
    tops = {found.module.partition(".")[0] for found in imports(path.read_text("utf-8"), package)}
    assert tops & (PURE | {"io", "opentelemetry", "pathlib", "sys"}) == set()


def test_there_is_an_engine_to_look_at() -> None:
    assert ENGINE


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("scoring", "from goldspan.mappers import read_sessions"),
        ("scoring", "from goldspan import mappers"),
        ("scoring", "def f():\n    import goldspan.collector_processor.cli"),
        ("scoring", "from ...mappers.facts import Role"),
        ("mappers", "from goldspan.collector_processor.emit.evaluation import Level"),
        ("scoring", "import opentelemetry.sdk.trace"),
        ("scoring", "from time import time_ns"),
        ("scoring", "import os.path"),
        ("scoring", "import yaml"),
        ("scoring", "def f():\n    import ruamel.yaml"),
        ("mappers", "import random"),
        ("collector_processor", "import flask"),
        ("collector_processor", "import pytest"),
    ],
)
def test_a_wrong_import_is_found(room: str, source: str) -> None:
    assert rejected(source, room, f"goldspan.{room}.goldens")


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("scoring", "import decimal\nfrom goldspan.scoring.errors import Mistake\nimport pydantic"),
        ("scoring", "def f():\n    from yaml import parse"),
        ("scoring", "from ..errors import Mistake"),
        ("mappers", "from goldspan.scoring import Session\nfrom google.protobuf import message"),
        ("collector_processor", "import time, click\nfrom goldspan.mappers.span_facts import Role"),
    ],
)
def test_a_right_import_is_not(room: str, source: str) -> None:
    assert rejected(source, room, f"goldspan.{room}.goldens") == []


def test_each_dependency_has_its_line_in_the_architecture_page() -> None:
    page = (ROOT / "docs/architecture.md").read_text("utf-8").lower().replace(".", "-")
    assert [name for name in requirements() if f"| `{name}`" not in page] == []
