"""State that the last release wrote, in `tests/fixtures/last_release`; run in its tree, this module writes it anew.

PYTHONPATH=tests python -m rigs.last_release
"""

from __future__ import annotations

import gzip
import json
import shutil
import signal
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from goldspan.collector_processor.emit.evaluation import Events
from goldspan.collector_processor.engine.trace_machine import EngineSettings
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.collector_processor.stream.stage_interface import Logs, StreamContext
from rigs.downstream import Downstream, HttpAnswer, http_downstream
from rigs.gateway_process import Process, process
from rigs.pipeline_rig import bodies_of, everything
from rigs.repository import ROOT
from rigs.stream_rig import Partition, Record, Stream
from rigs.trace_requests import turn_request
from rigs.waiting import until

FOLDER = ROOT / "tests/fixtures/last_release"
GATEWAY, STREAM = FOLDER / "gateway.tar.gz", FOLDER / "stream.json.gz"
GOLDENS = """
golden_set: weather-agent
goldens:
  - session: trip
    turns:
      - calls: [{name: get_weather, args: {city: Paris}}]
      - calls: [{name: get_weather, args: {city: Rome}}]
      - calls: [{name: get_weather, args: {city: Oslo}}]
"""
TURNS = [
    turn_request("trip", ("get_weather", {"city": city}), turn=n) for n, city in enumerate(("Paris", "Bonn", "Oslo"))
]
RECORDINGS = ("google-adk-v2-default", "strands-default", "raw-openai-otel-genai")
SEED = 7


def settings_of(downstream: Downstream, run_idle: str = "1h") -> str:
    return (
        "goldens: goldens.yaml\n"
        "receivers: {grpc: '127.0.0.1:0', http: '127.0.0.1:0'}\n"
        "admin: {listen: '127.0.0.1:0'}\n"
        "journal: {max_bytes: 4MiB}\n"
        f"scoring: {{settle: 200ms, run_idle: {run_idle}}}\n"
        f"export: {{endpoint: '{downstream.endpoint}', retry: {{initial: 100ms}}}}\n"
    )


def send(gateway: Process, turn: int) -> None:
    assert gateway.post(json.dumps(TURNS[turn]).encode(), content_type="application/json") == 200


def write_gateway(folder: Path) -> None:
    """Let a gateway be killed after one turn was delivered and another one was acknowledged only."""
    (folder / "goldens.yaml").write_text(GOLDENS, "utf-8")
    with http_downstream() as downstream, process(settings_of(downstream), folder) as gateway:
        send(gateway, 0)
        until(lambda: {one.signal for one in downstream.received} >= {Signal.TRACES, Signal.LOGS}, 20)
        downstream.http_answer = HttpAnswer(503)
        send(gateway, 1)
        until(lambda: any(not one.accepted for one in downstream.received), 20)
        gateway.end(signal.SIGKILL)
    with tarfile.open(GATEWAY, "w:gz") as archive:
        for path in sorted((folder / "state").rglob("*")):
            if path.is_file():
                archive.add(path, path.relative_to(folder))


def restored_gateway(folder: Path) -> None:
    """Put the state of that gateway into a folder."""
    with tarfile.open(GATEWAY) as archive:
        archive.extractall(folder, filter="data")


def stream() -> Stream:
    """A stream without faults, with all records of the recordings in its topics."""
    found = Stream(StreamContext.of(everything(), EngineSettings(events=Events.ALL)), SEED, faults=0)
    found.put([one for name in RECORDINGS for one in bodies_of(name)])
    return found


def write_stream() -> None:
    """Let workers read half of what is in the topics, and keep their state and what they wrote for each other."""
    half = stream()
    for partitions in (half.first, half.second):
        for partition in partitions:
            for _ in range((len(partition.records) + 1) // 2):
                half.read(partition)
            partition.commit()
    content = {
        "first": [_as_json(one) for one in half.first],
        "second": [_as_json(one) for one in half.second],
        "outputs": [[one.key.hex(), one.body.hex()] for one in half.outputs if isinstance(one, Logs)],
    }
    STREAM.write_bytes(gzip.compress(json.dumps(content).encode(), mtime=0))


def _as_json(partition: Partition) -> Mapping[str, Any]:
    return {
        "next": partition.next,
        "state": {key.hex(): value.hex() for key, value in sorted(partition.committed.items())},
        "records": [[one.kind, one.time, one.body.hex(), one.key.hex()] for one in partition.records],
    }


def restored_stream() -> Stream:
    """Return the stream of the last release, for workers of this tree to go on with."""
    content = json.loads(gzip.decompress(STREAM.read_bytes()))
    found = stream()
    for stage in ("first", "second"):
        for partition, kept in zip(getattr(found, stage), content[stage], strict=True):
            partition.records = list(_records(kept["records"]))
            partition.committed = {bytes.fromhex(key): bytes.fromhex(value) for key, value in kept["state"].items()}
            partition.committed_next = kept["next"]
            partition.restart()
    found.outputs += [Logs(bytes.fromhex(key), bytes.fromhex(body)) for key, body in content["outputs"]]
    return found


def _records(rows: list[list[Any]]) -> Iterator[Record]:
    for kind, time, body, key in rows:
        yield Record(kind, time, bytes.fromhex(body), bytes.fromhex(key))


if __name__ == "__main__":
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as temporary:
        write_gateway(Path(temporary))
    write_stream()
