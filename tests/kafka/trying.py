"""Kafka, two workers and a Collector at both ends, as processes: `make try-kafka` sends recordings through them.

Without a Collector (`make collector` builds one, with Go) the recordings are written to Kafka and read there directly.
"""

from __future__ import annotations

import contextlib
import http.client
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from collector.collecting import BINARY, collecting, healthy, records
from goldspan.collector_processor.gateway.interfaces import ExportRequest
from kafka.broker import broker, why_no_broker
from kafka.stream_workers import Cluster, cluster
from rigs.local_ports import free_port
from rigs.pipeline_rig import bodies_of
from rigs.waiting import until

RECORDINGS = ("google-adk-v2-stream", "openai-agents-openinference-stream", "pydantic-ai-v6")
GOLDENS = {
    "format": 1,
    "golden_set": "try-kafka",
    "goldens": [
        {
            "session_pattern": "*",
            "turns": [{"calls": [{"name": "get_weather", "args": {"city": "Paris", "unit": "celsius"}}]}],
        }
    ],
}


@dataclass
class Collectors:
    """A Collector that writes to Kafka, and one that reads from it into a file."""

    http: str
    file: Path

    def send(self, request: ExportRequest) -> None:
        host, _, port = self.http.rpartition(":")
        with contextlib.closing(http.client.HTTPConnection(host, int(port), timeout=10)) as connection:
            headers = {"content-type": "application/x-protobuf"}
            connection.request("POST", f"/v1/{request.signal.value}", request.body, headers)
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()

    def records(self, *path: str) -> list[dict[str, Any]]:
        """What stands in the file, below these keys of each line."""
        return records(self.file, *path)

    def events(self) -> list[dict[str, Any]]:
        return [_values(one) for one in self.records("resourceLogs", "scopeLogs", "logRecords")]

    def spans(self) -> list[dict[str, Any]]:
        return [_values(one) for one in self.records("resourceSpans", "scopeSpans", "spans")]


def _values(record: dict[str, Any]) -> dict[str, Any]:
    return {one["key"]: next(iter(one["value"].values()), None) for one in record.get("attributes", [])}


@contextlib.contextmanager
def collectors(some: Cluster, folder: Path) -> Iterator[Collectors]:
    """Run both Collectors around the topics of these workers."""
    ports = {name: f"127.0.0.1:{free_port()}" for name in ("grpc", "http", "in", "out", "backend")}
    topics = some.topics
    variables = {
        "KAFKA_BROKERS": some.brokers,
        "KAFKA_SPANS": topics["spans"],
        "KAFKA_LOGS": topics["logs"],
        "KAFKA_SCORED": topics["scored"],
        "KAFKA_EVENTS": topics["events"],
        "KAFKA_METRICS": topics["metrics"],
        "KAFKA_GROUP": f"{some.group}-collector",
        "COLLECTOR_GRPC": ports["grpc"],
        "COLLECTOR_HTTP": ports["http"],
        "COLLECTOR_STORAGE": str(folder / "storage"),
        "BACKEND_ENDPOINT": ports["backend"],
        "OTLP_FILE": str(folder / "scored.jsonl"),
    }

    with contextlib.ExitStack() as stack:
        configs = (("in", ["to-kafka.yaml"]), ("out", ["from-kafka.yaml", "copy-to-file.yaml"]))
        for place, (config, *more) in configs:
            own = {**variables, "COLLECTOR_HEALTH": ports[place], "COPY_OF": "kafka"}
            stack.enter_context(collecting(BINARY, config, lambda port=ports[place]: healthy(port), *more, **own))
        yield Collectors(ports["http"], folder / "scored.jsonl")


def named(request: ExportRequest, number: int) -> ExportRequest:
    """Give each recording a conversation of its own: all were made with one id."""
    return replace(request, body=request.body.replace(b"sess-weather-1", b"sess-weather-%d" % number))


def main() -> int:
    """Send recordings through everything, and print what arrived."""
    if (reason := why_no_broker()) is not None:
        print(reason)
        return 2
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:5.1f} s  {text}", flush=True)

    requests = [named(one, number) for number, name in enumerate(RECORDINGS, 1) for one in bodies_of(name)]
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="goldspan-try-kafka-")))
        one = stack.enter_context(broker())
        say(f"Kafka listens on {one.address}")
        some = stack.enter_context(cluster(one.address, folder, goldens=GOLDENS))
        workers = [some.add(), some.add()]
        until(lambda: all(worker.ready() for worker in workers), 90)
        say("two workers have their partitions: " + ", ".join(f"http://{worker.admin}/metrics" for worker in workers))
        if not BINARY.exists():
            say("no Collector here (`make collector` builds one, with Go): records are written to Kafka directly")
            some.send(requests)
            until(lambda: len(some.bodies("events")) > 8 and some.bodies("metrics"), 60)
            say(f"{len(some.bodies('events'))} requests with events, {len(some.bodies('scored'))} with spans arrived")
            return 0
        ends = stack.enter_context(collectors(some, folder))
        say(f"a Collector takes OTLP on {ends.http}, another one reads what comes back")
        for request in requests:
            ends.send(request)
        say(f"{', '.join(RECORDINGS)}: sent")
        until(lambda: sum(event["tool_parameter_match.level"] == "session" for event in ends.events()) >= 3, 60)
        until(lambda: ends.records("resourceMetrics"), 60)
        newest = {event["tool_parameter_match.result_id"]: event for event in ends.events()}
        final = [event for event in newest.values() if not event.get("tool_parameter_match.withdrawn")]
        levels = Counter(event["tool_parameter_match.level"] for event in final)
        scored = [span for span in ends.spans() if "tool_parameter_match.score" in span]
        say(f"arrived: {len(ends.spans())} spans, {len(scored)} of them tools with scores; results {dict(levels)}")
        for event in final:
            if event["tool_parameter_match.level"] == "turn":
                label, why = event["gen_ai.evaluation.score.label"], event["gen_ai.evaluation.explanation"]
                say(f"  {event['gen_ai.conversation.id']:16} turn {label:14} {why[:70]}")
        for worker in workers:
            worker.end()
        say("both workers ended")
    return 0


if __name__ == "__main__":
    sys.exit(main())
