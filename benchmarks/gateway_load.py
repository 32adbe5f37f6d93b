"""`goldspan serve` under load for minutes: delay of acknowledgements, memory, and whether every span arrives.

`python -m benchmarks.gateway_load [SECONDS]` finds the highest rate of this machine, then sends at half of it. Sender
and receiver run beside the gateway and want a core of their own.
"""

from __future__ import annotations

import base64
import functools
import http.client
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any, cast

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from benchmarks.traffic import golden_set, otlp_json_lines, plan_sessions
from goldspan.collector_processor.encoded_spans.span_groups import split_request

SPANS, SESSIONS, WANTED = 512, 60, 60
WHOLE = False
"""Model calls hold whole conversations, and users say all that tools are called with; else nobody says anything."""
NAME, TRACE = "s-XXXXXXXX", b"\xa7" * 8
"""What is other in each request sent: how session ids and trace ids begin."""
SETTINGS = """
goldens: {folder}/goldens.json
receivers: {{grpc: null, http: "127.0.0.1:0"}}
admin: {{listen: null}}
scoring: {{run_idle: 10s, retention: 60s}}
journal: {{folder: {folder}/journal}}
export: {{endpoint: "{endpoint}", compression: none}}
"""


@functools.cache
def bodies() -> list[bytes]:
    """Return requests of agents' turns, one session in `WANTED` with a golden."""
    sessions = plan_sessions([f"{NAME}-{number}" for number in range(SESSIONS)], content=WHOLE, told=WHOLE)
    found: list[bytes] = []
    for line in otlp_json_lines(sessions, spans_per_request=SPANS):
        document = json.loads(line)
        for span in document["resourceSpans"][0]["scopeSpans"][0]["spans"]:
            trace = TRACE + bytes.fromhex(span["traceId"])[8:]
            span["traceId"] = base64.b64encode(trace).decode()
            for key in ("spanId", "parentSpanId"):
                span[key] = base64.b64encode(bytes.fromhex(span[key])).decode()
        found.append(json_format.ParseDict(document, ExportTraceServiceRequest()).SerializeToString())
    return found


def goldens() -> dict[str, Any]:
    """Return goldens for the sessions that are wanted, whatever their ids begin with."""
    document = golden_set(plan_sessions([f"{NAME}-{number}" for number in range(SESSIONS)])[::WANTED])
    for golden in document["goldens"]:
        golden["session_pattern"] = golden.pop("session").replace(NAME, "s-*")
    return document


class Receiver:
    """Counts what arrives: spans, and the bytes they came in."""

    def __init__(self) -> None:
        self.spans = self.bytes = 0
        lock = threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(handler) -> None:  # noqa: N805 - `self` is the receiver's
                sent = handler.rfile.read(int(handler.headers["Content-Length"]))
                if handler.path.endswith("traces"):
                    body = zlib.decompress(sent, 31) if handler.headers["Content-Encoding"] == "gzip" else sent
                    spans = sum(len(group.spans) for group in split_request(body) or [])
                    with lock:
                        self.spans += spans
                        self.bytes += len(sent)
                handler.send_response(200)
                handler.send_header("Content-Length", "0")
                handler.end_headers()

            def log_message(handler, *_: object) -> None:  # noqa: N805
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()


class Sender:
    """Sends over connections that stay open, each by a thread."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._bodies = [(body, sum(len(group.spans) for group in split_request(body) or [])) for body in bodies()]
        self._lock = threading.Lock()
        self._number = 0
        self.spans = 0
        self.turned_away = 0
        self.delays: list[float] = []

    def send(self, seconds: float, rate: float | None, connections: int = 2) -> float:
        """Send for so long, at so many spans a second or as fast as possible; return the spans a second."""
        began, before = time.monotonic(), self.spans
        threads = [
            threading.Thread(target=self._run, args=(began + seconds, rate and rate / connections))
            for _ in range(connections)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return (self.spans - before) / (time.monotonic() - began)

    def _run(self, end: float, rate: float | None) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        due = time.monotonic()
        while time.monotonic() < end:
            with self._lock:
                self._number += 1
                number = self._number
            body, spans = self._bodies[number % len(self._bodies)]
            body = body.replace(TRACE, number.to_bytes(8, "big")).replace(NAME.encode(), f"s-{number:08d}".encode())
            if rate:
                due += spans / rate
                time.sleep(max(0.0, due - time.monotonic()))
            while True:
                sent = time.monotonic()
                connection.request("POST", "/v1/traces", body, {"content-type": "application/x-protobuf"})
                response = connection.getresponse()
                response.read()
                if response.status == 200:
                    break
                self.turned_away += 1
                time.sleep(0.2)
            with self._lock:
                self.delays.append(time.monotonic() - sent)
                self.spans += spans
        connection.close()


def listening(process: subprocess.Popen[str], *, quiet: bool = False) -> int:
    """Return the port of the gateway, and read on what it says, and print it unless `quiet`."""
    lines = cast("IO[str]", process.stderr)
    for line in lines:
        said = json.loads(line)
        if said["message"] == "listening":
            rest = (None if quiet else print(f"  {one.strip()}") for one in lines)
            threading.Thread(target=list, args=(rest,), daemon=True).start()
            return int(said["address"].rpartition(":")[2])
    raise SystemExit("the gateway ended")


def resident(process: subprocess.Popen[str]) -> float:
    """Return the memory of a process in MiB."""
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def main(seconds: float) -> None:
    """Run it."""
    with tempfile.TemporaryDirectory(prefix="goldspan-load-") as name:
        folder, receiver = Path(name), Receiver()
        (folder / "goldens.json").write_text(json.dumps(goldens()))
        (folder / "goldspan.yaml").write_text(SETTINGS.format(folder=folder, endpoint=receiver.endpoint))
        command = [sys.executable, "-m", "goldspan.collector_processor.cli", "serve", "--config"]
        process = subprocess.Popen([*command, str(folder / "goldspan.yaml")], stderr=subprocess.PIPE, text=True)
        sender = Sender(listening(process))
        sender.send(5, None)
        peak = sender.send(15, None)
        print(f"as fast as this machine sends and receives beside it: {peak:,.0f} spans/s, {sender.turned_away} busy")
        sender.delays.clear()
        memory: list[float] = []
        done = threading.Event()

        def watch() -> None:
            while not done.wait(5):
                memory.append(resident(process))

        threading.Thread(target=watch, daemon=True).start()
        rate = sender.send(seconds, peak / 2)
        done.set()
        cuts = statistics.quantiles(sender.delays, n=1000)
        print(f"half of it for {seconds:.0f} s: {rate:,.0f} spans/s")
        print(f"acknowledged after {cuts[499] * 1e3:.1f} ms (median), {cuts[989] * 1e3:.1f} ms (p99)", end=", ")
        print(f"{max(sender.delays) * 1e3:.0f} ms at most")
        quarters = [memory[len(memory) * part // 4] for part in range(4)] + memory[-1:]
        print(f"resident, each quarter: {', '.join(f'{one:.0f}' for one in quarters)} MiB")
        process.send_signal(signal.SIGTERM)
        print(f"exit {process.wait(120)}; {sender.spans:,} spans acknowledged, {receiver.spans:,} arrived")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 600)
