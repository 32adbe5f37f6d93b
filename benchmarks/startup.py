"""What starting costs: fresh processes beside one that imports the SDK and its OTLP/HTTP exporter.

Modules are compiled before (the warm-up round), as after an installation. A process that makes an exporter or a
processor ends without shutting it down.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness import Comparison, Subject, compare

ROOT = Path(__file__).resolve().parents[1]
GOLDSPAN = str(Path(sysconfig.get_path("scripts")) / "goldspan")
SCORE = ("score", "examples/traces", "--goldens", "examples/goldens.yaml")

SDK = """
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
"""
DOOR = "from goldspan.collector_processor import ToolParameterMatchSpanProcessor\n"
MADE = "import os\n{door}(OTLPSpanExporter(){options})\nos._exit(0)\n"


def _python(program: str) -> tuple[str, ...]:
    return sys.executable, "-c", program


PROGRAMS = {
    "goldspan --help": (GOLDSPAN, "--help"),
    "goldspan serve --help": (GOLDSPAN, "serve", "--help"),
    "goldspan inspect, four traces": (GOLDSPAN, "inspect", "examples/traces"),
    "goldspan score, four traces": (GOLDSPAN, *SCORE),
    "import of the in-process door": _python(SDK + DOOR),
    "BatchSpanProcessor made": _python(SDK + MADE.format(door="BatchSpanProcessor", options="")),
    "the door made, no goldens": _python(SDK + DOOR + MADE.format(door="ToolParameterMatchSpanProcessor", options="")),
    "the door that sends itself made, a golden file": _python(
        "import os\nfrom opentelemetry.sdk.trace import TracerProvider\n"
        + DOOR
        + "ToolParameterMatchSpanProcessor('otlp', events='otlp', goldens='examples/goldens.yaml')\nos._exit(0)\n"
    ),
    "the door made, a golden file": _python(
        SDK + DOOR + MADE.format(door="ToolParameterMatchSpanProcessor", options=", goldens='examples/goldens.yaml'")
    ),
}


def run() -> Iterator[Comparison]:
    """Compare whole processes by the CPU time of all of their threads."""
    import_sdk = _python(SDK)
    yield compare(
        "Starting",
        item="process",
        items=1,
        reference=_process("import of the SDK and its OTLP/HTTP exporter", import_sdk),
        control=_process("the same", import_sdk),
        candidates=[_process(name, command) for name, command in PROGRAMS.items()],
        clock=_children_cpu,
        rounds=10,
    )


def _process(name: str, command: tuple[str, ...]) -> Subject:
    # Without bytecode each process would compile goldspan anew, which an installed one never does.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def start() -> None:
        ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        if ran.returncode not in (0, 1):  # 1: `goldspan score` found what the example is about
            raise RuntimeError(f"{' '.join(command)}: exit code {ran.returncode}\n{ran.stderr}")

    return Subject(name, start)


def _children_cpu() -> int:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return int((used.ru_utime + used.ru_stime) * 1e9)
