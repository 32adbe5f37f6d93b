"""What a span costs in `goldspan stream` beside `goldspan serve`, and what the state of sessions costs.

`make bench-kafka` sends the same requests to a gateway and, over a real Kafka, to one worker and to two. What counts is
the CPU time of the processes, so other work on the machine matters little. Then it opens sessions, kills the worker,
removes its state, and sees how long another one takes to read it from the changelog. ARGS= is the number of sessions,
0 for none.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from benchmarks.gateway_load import NAME, SETTINGS, TRACE, Receiver, bodies, goldens
from benchmarks.rotel import cpu
from goldspan.collector_processor.encoded_spans.span_groups import split_request
from goldspan.collector_processor.gateway.interfaces import ExportRequest
from goldspan.collector_processor.otlp_signals import Signal
from kafka.broker import Broker, broker, why_no_broker
from kafka.stream_workers import Cluster, Worker, cluster, read_all
from rigs.otlp_containers import as_message
from rigs.stream_rig import parts_of
from rigs.trace_requests import turn_request
from rigs.waiting import until

REQUESTS = 300
SESSIONS = 50_000


def requests(count: int = REQUESTS) -> Iterator[bytes]:
    """Yield requests of agents' turns, all of other sessions and traces."""
    known = bodies()
    for number in range(count):
        body = known[number % len(known)]
        yield body.replace(TRACE, number.to_bytes(8, "big")).replace(NAME.encode(), f"s-{number:08d}".encode())


def spans_of(body: bytes) -> int:
    """Return how many spans a request has."""
    return sum(len(group.spans) for group in split_request(body) or [])


@contextlib.contextmanager
def gateway(folder: Path, endpoint: str) -> Iterator[tuple[int, int]]:
    """Run a gateway; give its process and its port."""
    (folder / "goldspan.yaml").write_text(SETTINGS.format(folder=folder, endpoint=endpoint))
    (folder / "goldens.json").write_text(json.dumps(goldens()))
    command = [sys.executable, "-m", "goldspan.collector_processor.cli", "serve", "--config", f"{folder}/goldspan.yaml"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if '"listening"' in line:
                yield process.pid, int(json.loads(line)["address"].rpartition(":")[2])
                break
        process.kill()


def by_gateway(bodies_sent: list[bytes]) -> float:
    """Return the CPU seconds of a gateway for these requests."""
    sink = Receiver()
    spans = sum(map(spans_of, bodies_sent))
    with tempfile.TemporaryDirectory() as name, gateway(Path(name), sink.endpoint) as (pid, port):
        before = cpu(pid)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        for body in bodies_sent:
            while True:
                connection.request("POST", "/v1/traces", body, {"content-type": "application/x-protobuf"})
                answer = connection.getresponse()
                answer.read()
                if answer.status == 200:
                    break
                time.sleep(0.1)
        until(lambda: sink.spans >= spans, 300)
        return cpu(pid) - before


def started(some: Cluster, workers: int) -> list[Worker]:
    """Start workers and wait until each has partitions."""
    own = [some.add() for _ in range(workers)]
    until(lambda: all(worker.ready() and worker.number("goldspan_stream_partitions") for worker in own), 180)
    return own


def caught_up(own: list[Worker], topic: str, records: int) -> bool:
    """Tell whether all records of a topic were read, and nothing waits."""
    time.sleep(0.5)  # the answer costs the workers time, too
    read = sum(
        float(line.rpartition(" ")[2])
        for worker in own
        for line in worker.get("/metrics")[1].splitlines()
        if line.startswith("goldspan_stream_read_records_total") and f'"{topic}"' in line
    )
    return read >= records and not any(worker.number("goldspan_stream_lag_records") for worker in own)


def by_workers(one: Broker, folder: Path, bodies_sent: list[bytes], workers: int) -> tuple[float, float]:
    """Return the CPU seconds of these workers for these requests, and how long they took."""
    scoring = {"run_idle": "10s", "retention": "60s"}
    more: dict[str, Any] = {"goldens": goldens(), "scoring": scoring, "kafka": {"commit_interval": "5s"}}
    with cluster(one.address, folder, group=f"bench-{workers}", **more) as some:
        own = started(some, workers)
        pids = [worker.process.pid for worker in own if worker.process is not None]
        before, began = sum(map(cpu, pids)), time.monotonic()
        records = some.send(ExportRequest(Signal.TRACES, body) for body in bodies_sent)
        until(lambda: caught_up(own, some.topics["spans"], records), 600)
        time.sleep(2)
        return sum(map(cpu, pids)) - before, time.monotonic() - began


def state(one: Broker, folder: Path, sessions: int) -> None:
    """Print what open sessions cost, and how long it takes to recover them."""
    everything: dict[str, Any] = {"kafka": {"commit_interval": "2s"}, "scoring": {"retention": "6h", "run_idle": "1h"}}
    with cluster(one.address, folder, group="bench-state", **everything) as some:
        [worker] = started(some, 1)
        producer = Producer({"bootstrap.servers": one.address, "partitioner": "murmur2"})
        for number in range(sessions):
            document = turn_request(f"open-{number}", ("get_weather", {"city": "Paris", "unit": "celsius"}))
            request = ExportRequest(Signal.TRACES, as_message(document).SerializeToString())
            for key, body in parts_of(request):
                producer.produce(some.topics["spans"], body, key=key.hex())
            producer.poll(0)
        producer.flush(120)
        until(lambda: worker.number("goldspan_stream_open_sessions") >= sessions, 900)
        until(lambda: not worker.number("goldspan_stream_lag_records"), 120)
        time.sleep(5)
        resident = worker.number("process_resident_memory_bytes")
        worker.end(signal.SIGKILL)
        disk = sum(path.stat().st_size for path in worker.folder.rglob("state/**/*") if path.is_file())
        rows: dict[bytes, int] = {}
        for stage in ("spans", "sessions"):
            topic = f"changelog__{some.group}--{some.topics[stage]}--default"
            for message in read_all(one.address, topic):
                rows[stage.encode() + (message.key() or b"")] = len(message.value() or b"")
        traces = sum(size for key, size in rows.items() if key.startswith(b"spans"))
        rest = sum(rows.values()) - traces
        print(f"{sessions:,} open sessions of one turn: {rest / sessions:,.0f} bytes of rows a session in the second")
        print(
            f"  stage, {traces / sessions:,.0f} in the first; {disk / 2**20:,.0f} MiB on disk; the worker had", end=" "
        )
        print(f"{resident / 2**20:,.0f} MiB of memory")
        began = time.monotonic()
        [other] = started(some, 1)
        until(lambda: other.number("goldspan_stream_open_sessions") >= sessions, 600)
        took = other.number("goldspan_stream_recovery_seconds_total")
        print(
            f"  recovered from the changelog in {took:,.1f} s, ready {time.monotonic() - began:,.1f} s after its start"
        )


def main(sessions: int) -> None:
    """Measure everything once."""
    if (reason := why_no_broker()) is not None:
        raise SystemExit(reason)
    sent = list(requests())
    spans = sum(map(spans_of, sent))
    with tempfile.TemporaryDirectory(prefix="goldspan-bench-kafka-") as name, broker(Path(name) / "kafka") as one:
        print(f"{spans:,} spans of agents' turns, 1 session of 60 with a golden; load {os.getloadavg()[0]:.1f}")
        base = by_gateway(sent)
        print(f"gateway    {1e6 * base / spans:6.0f} us a span    {spans / base:8,.0f} spans a second of CPU")
        for workers in (1, 2):
            used, took = by_workers(one, Path(name), sent, workers)
            ratio = used / base
            print(f"{workers} worker{'s'[: workers - 1]:1}  {1e6 * used / spans:6.0f} us a span", end=" ")
            print(f"   {spans / used:8,.0f} spans a second of CPU    {ratio:.2f} x the gateway, {took:.0f} s")
        if sessions:
            state(one, Path(name), sessions)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else SESSIONS)
