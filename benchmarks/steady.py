"""A gateway under steady load for minutes: latency of acknowledgement, memory over time, spans lost.

    python -m benchmarks.steady [SECONDS] [REQUESTS A SECOND]

`goldspan serve` with its journal, gzip in and out, receives four agent sessions a request over HTTP, one of them with a
golden, and sends them on to a receiver that counts spans. Without a rate clients send as fast as they are let at first,
and then half as fast. A clock gives the rate, and does not wait for answers. Clients and receiver use the same cores.
"""

from __future__ import annotations

import gzip
import http.client
import json
import multiprocessing
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from benchmarks.traffic import golden_set, otlp_json_lines, plan_sessions
from goldspan.collector_processor.gateway.contract import Signal
from goldspan.collector_processor.gateway.json_requests import convert
from goldspan.collector_processor.gateway.splitting import take_apart

SESSIONS = 4
CLIENTS = 8
WARMING, MEASURED = 15.0, 10.0
"""Seconds: first what may wait fills up, and only then what is let in is what is done."""
SETTINGS = """
goldens: goldens.json
receivers: {grpc: null, http: "127.0.0.1:0"}
admin: {listen: null}
scoring: {settle: 500ms, run_idle: 5s, retention: 30s}
journal: {folder: journal}
dead_letters: {folder: dead-letters}
"""


class Traffic:
    """Requests that differ in their sessions and traces alone, as fast as bytes can be replaced."""

    def __init__(self) -> None:
        names = [f"session-{number:08}" for number in range(SESSIONS)]
        plans = plan_sessions(names, turns=1)
        [line] = otlp_json_lines(plans, spans_per_request=1 << 20)
        self._template = convert(Signal.TRACES, line.encode()).body
        groups = take_apart(self._template) or []
        traces = {span["traceId"] for span in json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]}
        self._traces = [bytes.fromhex(trace) for trace in sorted(traces)]
        self._names = [name.encode() for name in names]
        self.spans = sum(len(group.spans) for group in groups)
        self.goldens = golden_set(plans)
        self.goldens["goldens"] = [{**self.goldens["goldens"][0], "session_pattern": "session-*00"}]
        del self.goldens["goldens"][0]["session"]

    def __iter__(self) -> Iterator[bytes]:
        number = 0
        while True:
            body = self._template
            for index, name in enumerate(self._names):
                body = body.replace(name, b"session-%06d%02d" % (number % 1_000_000, index))
            for trace in self._traces:
                body = body.replace(trace, os.urandom(16))
            number += 1
            yield gzip.compress(body, 1)


def receive(port: Any, spans: Any) -> None:
    """Count spans until the process is ended."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/v1/traces":
                groups = take_apart(gzip.decompress(body)) or []
                with spans.get_lock():
                    spans.value += sum(len(group.spans) for group in groups)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    port.value = server.server_address[1]
    server.serve_forever()


class Load:
    """Clients on connections of their own, that send what they are given and note how long the answer took."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.work: queue.Queue[tuple[float, bytes] | None] = queue.Queue(4 * CLIENTS)
        self.latencies: list[float] = []
        self.refused = 0
        self._threads = [threading.Thread(target=self._client) for _ in range(CLIENTS)]
        for thread in self._threads:
            thread.start()

    def _client(self) -> None:
        connection = http.client.HTTPConnection(self._address, timeout=60)
        headers = {"content-type": "application/x-protobuf", "content-encoding": "gzip"}
        while (given := self.work.get()) is not None:
            due, body = given
            connection.request("POST", "/v1/traces", body, headers)
            answer = connection.getresponse()
            answer.read()
            if answer.status == 200:
                self.latencies.append(time.perf_counter() - due)
            else:
                self.refused += 1
                time.sleep(0.2)

    def close(self) -> None:
        for _ in self._threads:
            self.work.put(None)
        for thread in self._threads:
            thread.join()


def memory_mebibytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    return int(status.partition("VmRSS:")[2].split()[0]) // 1024


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] * 1000


def main(seconds: float, rate: float) -> None:
    traffic = Traffic()
    bodies = iter(traffic)
    port, spans = multiprocessing.Value("i", 0), multiprocessing.Value("q", 0)
    receiver = multiprocessing.Process(target=receive, args=(port, spans), daemon=True)
    receiver.start()
    while not port.value:
        time.sleep(0.05)
    with tempfile.TemporaryDirectory(prefix="goldspan-steady-") as folder:
        (Path(folder) / "goldens.json").write_text(json.dumps(traffic.goldens))
        (Path(folder) / "goldspan.yaml").write_text(SETTINGS)
        command = [sys.executable, "-m", "goldspan.collector_processor.cli", "serve", "--config", "goldspan.yaml"]
        environ = {**os.environ, "GOLDSPAN_EXPORT_ENDPOINT": f"http://127.0.0.1:{port.value}"}
        gateway = subprocess.Popen(command, cwd=folder, env=environ, stderr=subprocess.PIPE, text=True)
        assert gateway.stderr is not None
        address = next(line["address"] for line in map(json.loads, gateway.stderr) if line["message"] == "listening")
        sent = 0
        if not rate:
            load = Load(address)
            for part in (WARMING, MEASURED):
                before, end = len(load.latencies), time.perf_counter() + part
                while time.perf_counter() < end:
                    load.work.put((time.perf_counter(), next(bodies)))
            rate = (len(load.latencies) - before) / MEASURED / 2
            load.close()
            sent = len(load.latencies)
        print(f"{rate:,.0f} requests/s of {traffic.spans} spans: {rate * traffic.spans:,.0f} spans/s", flush=True)

        load, began, count = Load(address), time.perf_counter(), 0
        shown, since = began, 0
        print("| minute | requests | acknowledged within, p50 ms | p99 ms | memory MiB |\n|---|---|---|---|---|")
        while (now := time.perf_counter()) < began + seconds:
            due = began + count / rate
            time.sleep(max(0.0, due - now))
            load.work.put((due, next(bodies)))
            count += 1
            if now >= shown + 60:
                recent, since, shown = load.latencies[since:], len(load.latencies), now
                p50, p99, memory = percentile(recent, 0.5), percentile(recent, 0.99), memory_mebibytes(gateway.pid)
                print(f"| {(now - began) / 60:.0f} | {count:,} | {p50:.1f} | {p99:.1f} | {memory} |", flush=True)
        load.close()
        sent += len(load.latencies)
        gateway.send_signal(signal.SIGTERM)
        last = gateway.communicate(timeout=120)[1].splitlines()[-1]
        print(f"refused {load.refused} requests; {json.loads(last)['message']}")
        print(f"acknowledged {sent * traffic.spans:,} spans, delivered {spans.value:,}")
    receiver.kill()
    receiver.join()


if __name__ == "__main__":
    main(float((sys.argv[1:] or ["60"])[0]), float((sys.argv[2:] or ["0"])[0]))
