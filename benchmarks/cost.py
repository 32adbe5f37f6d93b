"""CPU and memory for a million spans, of whole processes, behind each door: the table of docs/scale.md.

`python -m benchmarks.cost [WORD...]` measures the rows whose names have one of these words and prints them;
`make bench ARGS=cost` measures all of them and writes the table into the page. Spans are agents' turns, a quarter of
them model calls, a quarter tools, half HTTP; a replay's are mixed with as many others. They leave compressed by gzip.
CPU is that of the process until it is idle, without its start; other load raises it by up to a third.
"""

from __future__ import annotations

import http.client
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks import gateway_load as load
from benchmarks.mixed_traffic import mixed_golden_set, mixed_json_lines, sessions_for
from benchmarks.rotel import cpu, running
from benchmarks.sink import sink
from goldspan.collector_processor.encoded_spans.span_groups import split_request

PAGE = Path(__file__).resolve().parents[1] / "docs/scale.md"
_TABLE = re.compile(r"(?<=<!-- Measured by `make bench ARGS=cost` -->\n)(?:\|.*\n)*")
GOLDSPAN = [sys.executable, "-m", "goldspan.collector_processor.cli"]
SIZES = (10, 50, 512)
"""Spans of a request."""
SETTINGS = """
receivers: {{grpc: null, http: "127.0.0.1:0"}}
admin: {{listen: null}}
journal: {{folder: {folder}/journal}}
export: {{endpoint: "{endpoint}", compression: gzip}}
"""
WHOLE = "no golden, default metrics, whole conversations in which all is well"
JUDGED = {
    "1 session in 60 by a golden": (
        40_000,
        "goldens: {folder}/goldens.json\nscoring: {{settle: 250ms, run_idle: 500ms}}",
    ),
    "no golden, default metrics": (12_000, "scoring: {{settle: 250ms, run_idle: 500ms}}"),
    "the same, every result told": (12_000, "scoring: {{settle: 250ms, run_idle: 500ms, events: all}}"),
    WHOLE: (12_000, "scoring: {{settle: 250ms, run_idle: 500ms}}"),
    "no golden, metrics: []": (40_000, "scoring: {{settle: 250ms, run_idle: 500ms, metrics: []}}"),
}
"""How many spans are sent, and the settings."""
_IDLE = 0.05
"""Seconds of CPU in three seconds."""


class Requests:
    """Requests of one size, again and again with other ids."""

    def __init__(self, size: int, *, whole: bool) -> None:
        load.SPANS, load.WHOLE = size, whole
        load.bodies.cache_clear()
        self._bodies = [(body, sum(len(group.spans) for group in split_request(body) or [])) for body in load.bodies()]
        self._number = 0

    def send(self, connection: http.client.HTTPConnection, spans: int) -> int:
        """Send at least so many spans over one connection, and return how many they were."""
        sent = 0
        while sent < spans:
            turn, at = divmod(self._number, len(self._bodies))
            body, count = self._bodies[at]
            body = body.replace(load.TRACE, turn.to_bytes(8, "big"))
            body = body.replace(load.NAME.encode(), f"s-{turn:08d}".encode())
            while _status(connection, body) == 503:
                time.sleep(0.05)
            sent, self._number = sent + count, self._number + 1
        return sent


def _status(connection: http.client.HTTPConnection, body: bytes) -> int:
    connection.request("POST", "/v1/traces", body, {"content-type": "application/x-protobuf"})
    response = connection.getresponse()
    response.read()
    if response.status not in {200, 503}:
        raise RuntimeError(f"the gateway answered {response.status}")
    return response.status


def of_gateway(size: int, spans: int, settings: str, *, whole: bool) -> tuple[float, float]:
    """Return the seconds of CPU for a million spans, and the MiB at most."""
    requests, receiver = Requests(size, whole=whole), load.Receiver()
    with tempfile.TemporaryDirectory(prefix="goldspan-cost-") as name:
        folder = Path(name)
        (folder / "goldens.json").write_text(json.dumps(load.goldens()))
        (folder / "goldspan.yaml").write_text(
            f"{SETTINGS}{settings}\n".format(folder=folder, endpoint=receiver.endpoint)
        )
        with running([*GOLDSPAN, "serve", "--config", str(folder / "goldspan.yaml")]) as process:
            connection = http.client.HTTPConnection("127.0.0.1", load.listening(process, quiet=True), timeout=60)
            requests.send(connection, spans // 8)
            before = when_idle(process.pid)
            sent = requests.send(connection, spans)
            used = (when_idle(process.pid) - before) * 1e6 / sent
            peak = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())
            return used, int(peak[1]) / 1024 if peak else 0.0


def when_idle(process: int) -> float:
    """Return the seconds of CPU that a process has taken once it takes hardly any more: all is judged by then."""
    before, used = -1.0, cpu(process)
    while used - before > _IDLE:
        time.sleep(3)
        before, used = used, cpu(process)
    return used


IN_PROCESS = {
    "BatchSpanProcessor, the SDK's exporter": "BatchSpanProcessor(OTLPSpanExporter(url + '/v1/traces'))",
    "goldspan's exporter, no session judged": "ToolParameterMatchSpanProcessor(url, events=url, sample=1e-9)",
    "goldspan's exporter, a tenth of the sessions": "ToolParameterMatchSpanProcessor(url, events=url, sample=0.1)",
    "goldspan's exporter, every session": "ToolParameterMatchSpanProcessor(url, events=url)",
    "the SDK's exporter, every session": "ToolParameterMatchSpanProcessor(OTLPSpanExporter(url + '/v1/traces'))",
}
"""What spans are given to; sessions are judged by the metrics that need no golden."""
AGENT = """
import logging, resource, sys
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from benchmarks.traffic import SCOPE, plan_sessions, play
from goldspan.collector_processor import ToolParameterMatchSpanProcessor
logging.disable()
url, spans = sys.argv[1], 0
provider = TracerProvider(shutdown_on_exit=False)
{processor}
tracer = provider.get_tracer(SCOPE)
def run(first, last):
    spans = 0
    for at in range(first, last):
        for session in plan_sessions([f"s-{{at}}-{{number}}" for number in range(12)], seed=at, content=True):
            spans += len(session)
            for turn in session.turns:
                play(tracer, turn)
        provider.force_flush()
    return spans
def used():
    taken = resource.getrusage(resource.RUSAGE_SELF)
    return taken.ru_utime + taken.ru_stime
run(0, 2)
before = used()
spans = run(2, 27)
provider.shutdown()
print((used() - before) * 1e6 / spans, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def of_agent(processor: str, url: str) -> tuple[float, float]:
    """Return the seconds of CPU that an agent's process takes for a million spans, and its MiB at most."""
    added = f"provider.add_span_processor({processor})" if processor else ""
    command = [sys.executable, "-c", AGENT.format(processor=added), url]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    return float(said[0]), float(said[1])


def of_replay(spans: int, *options: str) -> tuple[float, float]:
    """Return the seconds of CPU that `goldspan score` takes for a million spans, and its MiB at most."""

    def taken(many: int) -> tuple[float, int]:
        traces = folder / "traces.jsonl"
        sessions = sessions_for(many)
        count = 0
        with traces.open("w") as file:
            for line in mixed_json_lines(sessions):
                count += line.count('"spanId"')
                file.write(line + "\n")
        (folder / "goldens.json").write_text(json.dumps(mixed_golden_set(sessions)))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [*GOLDSPAN, "score", str(traces), *(one.format(folder=folder) for one in options)]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, count

    with tempfile.TemporaryDirectory(prefix="goldspan-cost-") as name:
        folder = Path(name)
        (few, least), (many, most) = taken(1000), taken(spans)
    return (many - few) * 1e6 / (most - least), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


def rows(words: Sequence[str]) -> Iterator[str]:
    """Yield the rows of the table whose names have one of these words; all without words."""

    def wanted(name: str) -> bool:
        return not words or any(word in name for word in words)

    yield "| door | what is judged | CPU seconds for a million spans | MiB at most |"
    yield "|---|---|---|---|"
    for name, (spans, settings) in JUDGED.items():
        if wanted(f"goldspan serve {name}"):
            measured = [of_gateway(size, spans, settings, whole=name == WHOLE) for size in SIZES]
            seconds = " / ".join(f"{one:.0f}" for one, _ in measured)
            yield f"| `goldspan serve`, requests of 10 / 50 / 512 spans | {name} | {seconds} | {measured[-1][1]:.0f} |"
    with sink() as url:
        plain, _ = of_agent("", url) if wanted("in process") else (0.0, 0.0)
        for name, processor in IN_PROCESS.items():
            if wanted(f"in process {name}"):
                used, peak = of_agent(processor, url)
                yield f"| in process | {name} | {used - plain:.0f} | {peak:.0f} |"
    for name, options in {
        "1 session in 10 by a golden": ("--goldens", "{folder}/goldens.json"),
        "every session, no golden": (),
    }.items():
        if wanted(f"goldspan score {name}"):
            used, peak = of_replay(60_000, *options)
            yield f"| `goldspan score` | {name} | {used:.0f} | {peak:.0f} |"


def main(words: Sequence[str], *, write: bool = False) -> None:
    """Print the table, and write it into the page."""
    lines: list[str] = []
    for line in rows(words):
        print(line, flush=True)
        lines.append(f"{line}\n")
    if write:
        PAGE.write_text(_TABLE.sub(lambda _: "".join(lines), PAGE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
