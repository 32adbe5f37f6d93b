"""`goldspan stream` as processes, and what is written to and read from its topics."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import urllib3
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from goldspan.collector_processor.gateway.interfaces import ExportRequest
from goldspan.collector_processor.otlp_signals import Signal
from rigs.local_ports import free_port
from rigs.pipeline_rig import EVERYTHING, Said, events_in, newest
from rigs.stream_rig import parts_of

COMMAND = [sys.executable, "-m", "goldspan.collector_processor.cli", "stream"]
QUICK = {"settle": "300ms", "run_idle": "3s", "hold_timeout": "5s", "caller_timeout": "2s"}
"""Results soon. A run ends at a gap beyond `run_idle` in the time of its spans, too: a replay has 60 s."""


@dataclass
class Worker:
    """A worker, which may be killed and started again."""

    folder: Path
    config: Path
    admin: str
    wrapper: Sequence[str] = ()
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> Worker:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("GOLDSPAN_", "OTEL_"))}
        with (self.folder / "log.jsonl").open("ab") as log:
            command = [*self.wrapper, *COMMAND, str(self.config)]
            self.process = subprocess.Popen(command, cwd=self.folder, env=clean, stderr=log, stdout=log)
        return self

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def end(self, number: int = signal.SIGTERM, timeout: float = 60) -> int:
        assert self.process is not None
        if self.running:
            self.process.send_signal(number)
        return self.process.wait(timeout)

    def log(self) -> list[dict[str, Any]]:
        lines = (self.folder / "log.jsonl").read_text("utf-8").splitlines()
        return [json.loads(line) if line.startswith("{") else {"message": line} for line in lines]

    def get(self, path: str) -> tuple[int, str]:
        try:
            answer = urllib3.request("GET", f"http://{self.admin}{path}", retries=False, timeout=5)
        except urllib3.exceptions.HTTPError:
            return 0, ""
        return answer.status, answer.data.decode()

    def ready(self) -> bool:
        return self.get("/readyz")[0] == 200

    def number(self, name: str) -> float:
        """The sum of a metric over its labels."""
        found = 0.0
        for line in self.get("/metrics")[1].splitlines():
            if line.startswith((f"{name} ", f"{name}{{")):
                found += float(line.rpartition(" ")[2])
        return found


@dataclass
class Cluster:
    """Workers of one group on one broker."""

    brokers: str
    folder: Path
    partitions: int = 4
    group: str = "goldspan"
    goldens: dict[str, Any] = field(default_factory=lambda: EVERYTHING)
    scoring: dict[str, Any] = field(default_factory=lambda: dict(QUICK))
    kafka: dict[str, Any] = field(default_factory=dict[str, Any])
    workers: list[Worker] = field(default_factory=list[Worker])

    @property
    def topics(self) -> dict[str, str]:
        names = ("spans", "logs", "notes", "sessions", "scored", "events", "metrics", "dead_letters")
        return {name: f"{self.group}.{name}" for name in names}

    def add(self, state: Path | None = None, wrapper: Sequence[str] = (), **kafka: Any) -> Worker:
        """Start a worker with a state folder of its own."""
        folder = self.folder / f"{self.group}-{len(self.workers)}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "goldens.json").write_text(json.dumps(self.goldens), "utf-8")
        admin = f"127.0.0.1:{free_port()}"
        settings = {
            "goldens": [str(folder / "goldens.json")],
            "kafka": {
                "brokers": self.brokers,
                "group": self.group,
                "partitions": self.partitions,
                "replication": 1,
                "commit_interval": "1s",
                "session_timeout": "6s",
                **self.kafka,
                **kafka,
            },
            "topics": self.topics,
            "scoring": self.scoring,
            "state": {"folder": str(state or folder / "state")},
            "admin": {"listen": admin},
            "watch_files": "500ms",
        }
        config = folder / "stream.yaml"
        config.write_text(json.dumps(settings), "utf-8")  # JSON is YAML
        worker = Worker(folder, config, admin, wrapper).start()
        self.workers.append(worker)
        return worker

    def close(self) -> None:
        for worker in self.workers:
            if worker.running:
                worker.end(signal.SIGKILL)

    # Topics.

    def create_topics(self) -> None:
        """Create the topics that Collectors write to, with the time that each record says."""
        names = [self.topics["spans"], self.topics["logs"]]
        admin = AdminClient({"bootstrap.servers": self.brokers, "log_level": 0})
        for future in admin.create_topics([NewTopic(name, self.partitions, 1) for name in names]).values():
            future.result(30)

    def send(
        self,
        requests: Iterable[ExportRequest],
        repeat: Callable[[], bool] = lambda: False,
        pause: float = 0.0,
        times: Iterator[float] | None = None,
    ) -> int:
        """Write requests as the Collector's exporter does: a record for each trace, keyed by its id."""
        producer = Producer({"bootstrap.servers": self.brokers, "partitioner": "murmur2", "log_level": 0})
        sent = 0
        for request in requests:
            topic = self.topics["spans" if request.signal is Signal.TRACES else "logs"]
            for key, body in parts_of(request):
                for _ in range(2 if repeat() else 1):
                    stamp = {} if times is None else {"timestamp": int(next(times) * 1000)}
                    producer.produce(topic, body, key=key.hex(), **stamp)
                    sent += 1
            producer.poll(0)
            if pause:
                time.sleep(pause)
        assert producer.flush(60) == 0
        return sent

    def read(self, name: str) -> list[Message]:
        """Every record of a topic until now."""
        return list(read_all(self.brokers, self.topics[name]))

    def bodies(self, name: str) -> list[bytes]:
        return [message.value() for message in self.read(name)]

    def said(self) -> Said:
        return newest(events_in(self.bodies("events")), as_written=True)

    def until_said(self, expected: Said, seconds: float) -> float:
        """Wait until the final results are these; return how long it took. Fails with what differs."""
        began = time.monotonic()
        log = TopicLog(self.brokers, self.topics["events"])
        while True:
            said = newest(events_in(log.read()), as_written=True)
            if said == expected:
                return time.monotonic() - began
            if time.monotonic() > began + seconds:
                raise AssertionError(differences(said, expected))
            time.sleep(0.3)


def differences(said: Said, expected: Said) -> str:
    missing, more = expected.keys() - said.keys(), said.keys() - expected.keys()
    wrong = [name for name in expected.keys() & said.keys() if said[name] != expected[name]]
    first = [(said[name], expected[name]) for name in wrong[:1]]
    return (
        f"of {len(expected)} results {len(missing)} are missing, {len(wrong)} differ, {len(more)} are too many; "
        f"missing {[expected[name] for name in sorted(missing)[:2]]}; differing {first}; "
        f"too many {[said[name] for name in sorted(more)[:2]]}"
    )


class TopicLog:
    """What a topic has, read on from call to call."""

    def __init__(self, brokers: str, topic: str) -> None:
        self._brokers, self._topic = brokers, topic
        self._next: dict[int, int] = {}
        self.values: list[bytes] = []

    def read(self) -> list[bytes]:
        for message in read_all(self._brokers, self._topic, self._next):
            self._next[message.partition()] = message.offset() + 1
            self.values.append(message.value())
        return self.values


def read_all(brokers: str, topic: str, since: dict[int, int] | None = None) -> Iterator[Message]:
    """Read committed records of a topic from given offsets to the ends."""
    settings = {"bootstrap.servers": brokers, "group.id": "reader", "enable.partition.eof": True, "log_level": 0}
    consumer = Consumer({**settings, "enable.auto.commit": False, "auto.offset.reset": "earliest"})
    with contextlib.closing(consumer):
        known = consumer.list_topics(topic, timeout=20).topics[topic]
        if known.error is not None:
            return
        starts = [TopicPartition(topic, number, (since or {}).get(number, 0)) for number in known.partitions]
        consumer.assign(starts)
        open_ends = set(known.partitions)
        while open_ends:
            message = consumer.poll(10)
            if message is None:
                return
            if (error := message.error()) is None:
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                open_ends.discard(message.partition())
            else:
                raise AssertionError(error)


@contextlib.contextmanager
def cluster(brokers: str, folder: Path, **more: Any) -> Iterator[Cluster]:
    one = Cluster(brokers, folder, **more)
    try:
        yield one
    finally:
        one.close()


class Background:
    """Runs a function in a thread; `join` raises what it raised."""

    def __init__(self, function: Callable[[], object]) -> None:
        self._error: BaseException | None = None

        def run() -> None:
            try:
                function()
            except BaseException as error:  # noqa: BLE001 - it is raised by `join`
                self._error = error

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def join(self) -> None:
        self._thread.join()
        if self._error is not None:
            raise self._error
