"""What a span costs in all of `goldspan serve`, beside rotel: an OTLP agent in Rust that takes Python processors.

Needs rotel's wheel, so it has an environment of its own: `make bench-rotel`. Each row is a new process in each round,
in an order shuffled anew, on a core of its own. Requests of 512 spans come over one HTTP connection and leave over HTTP
to a sink that counts them. CPU is that of all threads by the system's account, to a second and a half after the last
request, so that sessions are judged within it. rotel puts requests together before they leave, always compressed; its
processor adds three attributes to the spans of tools and does nothing else.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from random import Random

from benchmarks.gateway_load import NAME, TRACE, Receiver, bodies, goldens, listening
from goldspan.collector_processor.encoded_spans.span_groups import split_request
from goldspan.mappers.readers.compression import GZIP_LEVEL

WARM, REQUESTS, ROUNDS = 40, 300, 5
SETTINGS = """
goldens: {folder}/goldens.json
receivers: {{grpc: null, http: "127.0.0.1:0"}}
admin: {{listen: null}}
scoring: {{hold: {hold}, settle: 250ms, run_idle: 500ms}}
journal: {{enabled: {journal}, folder: {folder}/journal}}
export: {{endpoint: "{endpoint}", compression: {compression}, traces: {{enabled: {sent}}}}}
"""
SERVE = "from goldspan.collector_processor.cli import main; main()"
AT_LEVEL_6 = "import zlib; from goldspan.mappers.readers import compression as own; "
AT_LEVEL_6 += f"own.gzip = lambda body: zlib.compress(body, 6, 31); {SERVE}"
PROCESSOR = """
from rotel_sdk.open_telemetry.common.v1 import KeyValue

def process(resource_spans):
    for scope_spans in resource_spans.scope_spans:
        for span in scope_spans.spans:
            for one in span.attributes:
                if one.key == "gen_ai.operation.name" and one.value.value == "execute_tool":
                    added = (("label", "pass"), ("golden", "s-1"), ("golden_set", "travel@1"))
                    own = [KeyValue.new_string_value("tool_parameter_match." + key, value) for key, value in added]
                    span.attributes = [*span.attributes, *own]
                    break

process_spans = process
"""


Running = tuple[subprocess.Popen[str], int]
"""A process, and the port at which it takes requests."""
Start = Callable[[Path, str], contextlib.AbstractContextManager[Running]]


def goldspan(compression: str = "none", *, code: str = SERVE, off: tuple[str, ...] = ()) -> Start:
    """Return what starts a gateway, with some of `hold`, `journal`, `goldens` and `sent` off."""

    @contextlib.contextmanager
    def start(folder: Path, endpoint: str) -> Iterator[Running]:
        switches = {name: str(name not in off).lower() for name in ("journal", "sent")}
        switches["hold"] = '"off"' if "hold" in off else "turn"
        settings = SETTINGS.format(folder=folder, endpoint=endpoint, compression=compression, **switches)
        (folder / "goldspan.yaml").write_text(settings)
        (folder / "goldens.json").write_text(json.dumps(goldens() | ({"goldens": []} if "goldens" in off else {})))
        with running([sys.executable, "-c", code, "serve", "--config", f"{folder}/goldspan.yaml"]) as process:
            yield process, listening(process, quiet=True)

    return start


def rotel(*, processor: bool = False, sent: bool = True) -> Start:
    """Return what starts rotel."""

    @contextlib.contextmanager
    def start(folder: Path, endpoint: str) -> Iterator[Running]:
        (folder / "processor.py").write_text(PROCESSOR)
        found = find_spec("rotel")
        if found is None or found.origin is None:
            raise SystemExit("rotel is not installed here; run `make bench-rotel`")
        home = Path(found.origin).parent
        own = {"PYTHONHOME": sys.base_prefix, "PYTHONPATH": str(home.parent)}
        own["LD_LIBRARY_PATH"] = str(sysconfig.get_config_var("LIBDIR"))
        with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
            port, grpc_port = one.getsockname()[1], other.getsockname()[1]
        command = [str(home / "rotel-agent"), "start", "--otlp-http-endpoint", f"127.0.0.1:{port}"]
        command += ["--otlp-grpc-endpoint", f"127.0.0.1:{grpc_port}", "--exporter", "otlp" if sent else "blackhole"]
        command += ["--otlp-exporter-protocol", "http", "--otlp-exporter-endpoint", endpoint] if sent else []
        command += ["--otlp-with-trace-processor", f"{folder}/processor.py"] if processor else []
        with running(command, own) as process:
            time.sleep(1.0)
            yield process, port

    return start


def rows() -> dict[str, Start]:
    """Return what is measured."""
    ours = f"gzip {GZIP_LEVEL} by {'isal' if find_spec('isal') else 'zlib'}"
    everything = ("hold", "journal", "goldens")
    return {
        "rotel, Python processor, gzip": rotel(processor=True),
        "rotel, gzip": rotel(),
        "rotel, Python processor, nothing sent": rotel(processor=True, sent=False),
        "rotel, nothing sent: decodes only": rotel(sent=False),
        f"goldspan, {ours}": goldspan("gzip"),
        "goldspan, gzip 6 by zlib": goldspan("gzip", code=AT_LEVEL_6),
        "goldspan, uncompressed": goldspan(),
        "  without holding": goldspan(off=("hold",)),
        "  without journal": goldspan(off=("journal",)),
        "  without goldens": goldspan(off=("goldens",)),
        "  without any of these": goldspan(off=everything),
        f"  without any of these, {ours}": goldspan("gzip", off=everything),
        "  without any of these, nothing sent": goldspan(off=(*everything, "sent")),
        "goldspan, nothing sent": goldspan(off=("sent",)),
    }


def measure(start: Start) -> tuple[float, float, float]:
    """Run one round of one row: spans in a second of CPU, the most memory in MiB, bytes that left for each span."""
    sink = Receiver()
    with tempfile.TemporaryDirectory() as folder, start(Path(folder), sink.endpoint) as (process, port):
        pid, connection = process.pid, http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        warm = send(connection, range(WARM))
        time.sleep(1.5)
        before = cpu(pid)
        spans = send(connection, range(WARM, WARM + REQUESTS))
        time.sleep(1.5)
        used = cpu(pid) - before
        assert sink.spans in (0, warm + spans), f"{warm + spans:,} spans were sent, {sink.spans:,} arrived"
        peak = Path(f"/proc/{pid}/status").read_text().partition("VmHWM:")[2].split()[0]
        return spans / used, int(peak) / 1024, sink.bytes / max(1, sink.spans)


def send(connection: http.client.HTTPConnection, numbers: range) -> int:
    """Send the requests of these numbers, each with sessions of its own; return the spans in them."""
    plans, spans = bodies(), 0
    counts = [sum(len(group.spans) for group in split_request(body) or []) for body in plans]
    for number in numbers:
        turn, plan = divmod(number, len(plans))
        body = plans[plan].replace(TRACE, turn.to_bytes(8, "big")).replace(NAME.encode(), f"s-{turn:08d}".encode())
        status = 503
        while status == 503:
            connection.request("POST", "/v1/traces", body, {"content-type": "application/x-protobuf"})
            response = connection.getresponse()
            response.read()
            status = response.status
            time.sleep(0.05 * (status == 503))
        assert status == 200, status
        spans += counts[plan]
    return spans


def main(rounds: int) -> None:
    """Measure and print."""
    os.sched_setaffinity(0, set(range(1, os.cpu_count() or 1)) or {0})
    taken: dict[str, list[tuple[float, float, float]]] = {name: [] for name in rows()}
    for number in range(rounds):
        for name in Random(number).sample(list(taken), len(taken)):
            taken[name].append(measure(rows()[name]))
    against = [statistics.median(rate for rate, _, _ in taken[name]) for name in list(taken)[:4]]
    print(f"rotel {version('rotel')}, Python {sys.version.split()[0]}; {rounds} rounds of {REQUESTS} requests, medians")
    print("Ratios: to rotel with a processor and gzip; with gzip; with a processor, nothing sent; decoding only.")
    print(f"{'':42}{'spans/CPU s':>12}{'ratios':>24}{'peak MiB':>10}{'bytes out':>11}")
    for name, slices in taken.items():
        rate, peak, sent = (statistics.median(values) for values in zip(*slices, strict=True))
        print(f"{name:42}{rate:12,.0f}{''.join(f'{rate / one:6.2f}' for one in against)}{peak:10.0f}{sent:11,.0f}")


@contextlib.contextmanager
def running(command: list[str], own: dict[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    environ, out = {**os.environ, **(own or {})}, subprocess.DEVNULL
    said = subprocess.PIPE if own is None else out
    with subprocess.Popen(command, stdout=out, stderr=said, text=True, env=environ) as process:
        os.sched_setaffinity(process.pid, {0})  # as of now it has one thread
        try:
            yield process
        finally:
            process.kill()


def cpu(pid: int) -> float:
    """Return the seconds of CPU that all threads of a process took."""
    said = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(said[11]) + int(said[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
