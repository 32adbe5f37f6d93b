"""What importing the in-process door costs an agent: nothing it does not need."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

NOT_IN_THE_AGENT = (
    "aiohttp",
    "asyncio",
    "click",
    "fastapi",
    "flask",
    "goldspan.collector_processor.cli",
    "goldspan.collector_processor.gateway",
    "goldspan.collector_processor.replay.replay",
    "goldspan.collector_processor.report",
    "grpc",
    "http.server",
    "httptools",
    "isal",
    "numpy",
    "opentelemetry.exporter.otlp.proto.grpc",
    "pandas",
    "prometheus_client",
    "py4j",
    "pyarrow",
    "pyspark",
    "pytest",
    "rapidfuzz",
    "re2",
    "rich",
    "ruamel",
    "scipy",
    "socketserver",
    "starlette",
    "uvicorn",
    "uvloop",
    "wsgiref",
    "yaml",
)
PROBE = "import sys, json; {statement}; print(json.dumps(sorted(sys.modules)))"


def loaded_by(statement: str) -> set[str]:
    ran = subprocess.run(
        [sys.executable, "-I", "-c", PROBE.format(statement=statement)], check=True, capture_output=True, text=True
    )
    return set(json.loads(ran.stdout))


def unwanted(modules: set[str]) -> set[str]:
    return {m for m in modules if any(m == name or m.startswith(f"{name}.") for name in NOT_IN_THE_AGENT)}


@pytest.mark.parametrize(
    "statement",
    [
        "from goldspan.collector_processor import ToolParameterMatchLogRecordProcessor, session_scope",
        "from goldspan.collector_processor import ToolParameterMatchExporter, session_scope",
    ],
)
def test_the_in_process_door_imports_only_what_it_needs(statement: str) -> None:
    assert unwanted(loaded_by(statement)) == set()


@pytest.mark.parametrize("statement", ["import goldspan.scoring", "import goldspan.mappers"])
def test_the_inner_rooms_import_no_sdk(statement: str) -> None:
    modules = loaded_by(statement)
    assert unwanted(modules) == set()
    assert not any(name.startswith("opentelemetry.sdk") for name in modules)


def test_the_probe_sees_what_is_imported() -> None:
    assert "http.server" in unwanted(loaded_by("import http.server"))
