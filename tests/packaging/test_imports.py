"""What starting costs: each import and each command loads nothing it does not need."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from rigs.repository import ROOT

EXAMPLES = ROOT / "examples"

OTHER_DOORS = (
    "goldspan.collector_processor.cli",
    "goldspan.collector_processor.gateway",
    "goldspan.collector_processor.replay.replay",
    "goldspan.collector_processor.report",
    "goldspan.collector_processor.stream",
)
SERVERS = (
    "aiohttp",
    "asyncio",
    "fastapi",
    "flask",
    "grpc",
    "http.server",
    "httptools",
    "opentelemetry.exporter.otlp.proto.grpc",
    "prometheus_client",
    "socketserver",
    "starlette",
    "uvicorn",
    "uvloop",
    "wsgiref",
)
DATA = ("isal", "numpy", "pandas", "py4j", "pyarrow", "pyspark", "rapidfuzz", "re2", "scipy", "zstandard")
TERMINAL = ("click", "pytest", "rich")
SDK = ("opentelemetry.sdk",)
YAML = ("ruamel", "yaml")
MODELS = ("goldspan.scoring.goldens.golden_file", "goldspan.scoring.presets.preset_registry", "jsonschema_rs")
CRITERIA = ("goldspan.scoring.criterion", "pydantic")
TABLES = ("airportsdata", "babel", "pycountry")
ENGINE = ("goldspan.collector_processor.engine", "goldspan.mappers", "goldspan.scoring.run", "msgspec", "pydantic")
STORED = ("goldspan.collector_processor.replay.stored_traces", "multiprocessing")
FINDER = "goldspan.collector_processor.replay.dialect_proposals"
FILES = ("goldspan.mappers.readers.files", "google.protobuf")
REPORTS = ("goldspan.collector_processor.report", "rich")
REPORT_FILES = tuple(f"{REPORTS[0]}.{page}" for page in ("annotations", "html", "junit", "markdown"))
REPORT_PAGES = ("rich", *REPORT_FILES, *(f"{REPORTS[0]}.{page}" for page in ("model", "terminal")))

AGENT = (*OTHER_DOORS, *SERVERS, *DATA, *TERMINAL, *YAML)
PACKAGE = "from goldspan.collector_processor import"
COMMAND = "from goldspan.collector_processor.cli import main; main({!r}, standalone_mode=False)"
INNER = "from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter as Inner"
MADE = f"{INNER}; {PACKAGE} ToolParameterMatchSpanProcessor as Door"

NOT_LOADED = {
    "import of the processor": (f"{PACKAGE} ToolParameterMatchSpanProcessor, session_scope", (*AGENT, *ENGINE)),
    "import of the exporter": (f"{PACKAGE} ToolParameterMatchExporter", (*AGENT, *ENGINE)),
    "import of the log record processor": (f"{PACKAGE} ToolParameterMatchLogRecordProcessor", (*AGENT, *ENGINE)),
    "processor with goldens": (
        f"{MADE}; Door(Inner(), goldens={str(EXAMPLES / 'goldens.yaml')!r})",
        (*AGENT, *MODELS, *ENGINE, *TABLES, FILES[0]),
    ),
    "processor that sends itself": (
        f"{MADE}; Door('otlp', events='otlp', goldens={str(EXAMPLES / 'goldens.yaml')!r})",
        (*AGENT, *MODELS, *ENGINE, *TABLES, *FILES, "requests", "urllib3"),
    ),
    "processor without goldens, started": (
        f"{MADE}; Door(Inner()).start()",
        (*AGENT, *MODELS, *CRITERIA, *TABLES, FILES[0]),
    ),
    "processor with goldens, started": (
        f"{MADE}; Door(Inner(), goldens={str(EXAMPLES / 'goldens.yaml')!r}).start()",
        (*OTHER_DOORS, *SERVERS, *DATA, *TERMINAL, *MODELS[1:], *TABLES, FILES[0]),
    ),
    "import of scoring": ("import goldspan.scoring", (*AGENT, *ENGINE, *SDK)),
    "import of mappers": ("import goldspan.mappers", (*AGENT, *SDK, *FILES, "msgspec", "pydantic")),
    "import of what reads sessions": ("from goldspan.mappers import read_sessions", (*AGENT, *SDK, *MODELS, *CRITERIA)),
    "goldspan --help": (COMMAND.format(["--help"]), (*SERVERS, *DATA, *REPORTS, *YAML, *ENGINE, *SDK)),
    "goldspan serve --help": (COMMAND.format(["serve", "--help"]), (*SERVERS, *DATA, *REPORTS, *YAML, *SDK)),
    "goldspan score --format json": (
        COMMAND.format(["score", str(EXAMPLES / "traces"), "--format", "json"]),
        (*SERVERS, *DATA, *REPORT_PAGES, *YAML, *SDK, *STORED, FINDER, "goldspan.scoring.presets.preset_registry"),
    ),
    "goldspan score --goldens": (
        COMMAND.format(["score", str(EXAMPLES / "traces"), "--goldens", str(EXAMPLES / "goldens.yaml")]),
        (*SERVERS, *DATA, *REPORT_FILES, "ruamel", *SDK, *STORED, FINDER, *MODELS[1:], "google.protobuf"),
    ),
    "goldspan inspect --format json": (
        COMMAND.format(["inspect", str(EXAMPLES / "traces"), "--format", "json"]),
        (*SERVERS, *DATA, *REPORT_PAGES, *YAML, *SDK, *MODELS, *CRITERIA),
    ),
}
"""A program, and the modules that it must not have loaded when it ends."""

PROBE = """
import json, os, sys
try:
    {program}
except SystemExit:
    pass
print("", *sorted(sys.modules), sep="\\n", file=sys.stderr, flush=True)
os._exit(0)
"""


def loaded_by(program: str) -> set[str]:
    ran = subprocess.run(
        [sys.executable, "-I", "-c", PROBE.format(program=program)], check=True, capture_output=True, text=True
    )
    return set(ran.stderr.splitlines())


def unwanted(modules: set[str], unneeded: tuple[str, ...]) -> set[str]:
    return {m for m in modules if any(m == name or m.startswith(f"{name}.") for name in unneeded)}


@pytest.mark.parametrize("case", NOT_LOADED)
def test_nothing_is_loaded_that_is_not_needed(case: str) -> None:
    program, unneeded = NOT_LOADED[case]
    modules = loaded_by(program)
    assert "goldspan" in modules
    assert unwanted(modules, unneeded) == set()


TURN = """
import json, sys
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from goldspan.collector_processor import ToolParameterMatchSpanProcessor

provider = TracerProvider()
door = ToolParameterMatchSpanProcessor(InMemorySpanExporter(), **json.loads(sys.argv[1]))
provider.add_span_processor(door)
tracer = provider.get_tracer("agent")
door.start()
before = set(sys.modules)
with tracer.start_as_current_span("invoke_agent", attributes={"gen_ai.operation.name": "invoke_agent"}):
    called = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f", "gen_ai.tool.call.arguments": "{}"}
    tracer.start_span("execute_tool f", attributes=called).end()
ended = set(sys.modules) - before
door.force_flush()
print(json.dumps([sorted(ended), sorted(set(sys.modules) - before - ended)]))
"""


@pytest.mark.parametrize("options", [{}, {"goldens": str(EXAMPLES / "goldens.yaml")}], ids=["alone", "goldens"])
def test_the_start_loads_what_scoring_takes(options: dict[str, str]) -> None:
    """Neither the end of a span nor the first turn that is scored has to wait for modules of goldspan."""
    ran = subprocess.run(
        [sys.executable, "-I", "-c", TURN, json.dumps(options)], check=True, capture_output=True, text=True
    )
    ended, scored = json.loads(ran.stdout)
    assert ended == []
    assert [name for name in scored if name.startswith("goldspan")] == []


@pytest.mark.parametrize(("call", "frozen"), [("main()", True), ("main(sys.argv[1:])", False)])
def test_only_the_process_of_a_command_line_is_frozen(call: str, frozen: bool) -> None:
    program = f"import gc, sys; from goldspan.collector_processor.cli import main\ntry: {call}\nexcept SystemExit: pass"
    program += "\nprint(gc.get_freeze_count() > 0, file=sys.stderr)"
    command = [sys.executable, "-I", "-c", program, "dialects"]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    assert ran.stderr.split() == [str(frozen)]


def test_the_probe_sees_what_is_imported() -> None:
    assert "http.server" in unwanted(loaded_by("import goldspan, http.server"), AGENT)
