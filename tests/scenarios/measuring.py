"""Running a scenario with and without goldspan against a real receiver, and counting what arrived: `make scenarios`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from rich.console import Console
from rich.table import Table

from rigs.otlp_receiver import OtlpReceiver, attributes, otlp_receiver

AGENT = Path(__file__).with_name("agent.py")
TESTS = AGENT.parents[1]
DOORS = ("plain", "goldspan")


@dataclass(frozen=True)
class Outcome:
    """What a scenario's process ended, and what of it arrived."""

    ended: int
    spans: int
    twice: int
    """Spans that arrived more than once."""
    scored: int
    events: int
    points: int
    delay: float
    """Longest time in seconds from a span's end to its arrival."""


class Arrivals(list[ExportTraceServiceRequest]):
    """Trace requests, and when each came."""

    def __init__(self) -> None:
        super().__init__()
        self.delay = 0.0

    def append(self, request: ExportTraceServiceRequest) -> None:
        now = time.time_ns()
        for source in request.resource_spans:
            for scope in source.scope_spans:
                for span in scope.spans:
                    self.delay = max(self.delay, (now - span.end_time_unix_nano) / 1e9)
        super().append(request)


def run(scenario: str, door: str, **settings: str) -> Outcome:
    """Run one scenario in a process of its own."""
    with otlp_receiver() as receiver:
        arrivals = Arrivals()
        receiver.requests["/v1/traces"] = arrivals
        process = subprocess.Popen(
            [sys.executable, str(AGENT), scenario, door, receiver.endpoint],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": os.pathsep.join((str(TESTS), os.environ.get("PYTHONPATH", "")))} | settings,
            text=True,
        )
        thaw = threading.Thread(target=_thaw, args=(process,), daemon=True)
        thaw.start()
        said, _ = process.communicate(timeout=3600)
        thaw.join()
        return _outcome(receiver, arrivals, int(said.split()[-1]))


def _thaw(process: subprocess.Popen[str]) -> None:
    """Let a frozen process go on after a second, as often as it freezes."""
    while True:
        found, status = _state(process.pid)
        if not found:
            return
        if status == "T":
            time.sleep(1.0)
            process.send_signal(signal.SIGCONT)
        time.sleep(0.05)


def _state(pid: int) -> tuple[bool, str]:
    try:
        status = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False, ""
    return status != "Z", status


def _outcome(receiver: OtlpReceiver, arrivals: Arrivals, ended: int) -> Outcome:
    spans = receiver.all_spans()
    ids = [span.span_id for span in spans]
    marks = ("tool_parameter_match.score", "tool_parameter_match.turn.score")
    return Outcome(
        ended=ended,
        spans=len(set(ids)),
        twice=len(ids) - len(set(ids)),
        scored=sum(any(mark in attributes(span) for mark in marks) for span in spans),
        events=len(receiver.events()),
        points=_points(receiver),
        delay=arrivals.delay,
    )


def _points(receiver: OtlpReceiver) -> int:
    """The counts of the score histogram; its points are cumulative within one process, told apart by their start."""
    latest: dict[tuple[object, ...], int] = {}
    for request in receiver.requests["/v1/metrics"]:
        for source in request.resource_metrics:
            for scope in source.scope_metrics:
                for metric in scope.metrics:
                    if metric.name == "tool_parameter_match.score":
                        for point in metric.histogram.data_points:
                            said = {key: str(value) for key, value in attributes(point).items()}
                            key = (point.start_time_unix_nano, *sorted(said.items()))
                            latest[key] = max(latest.get(key, 0), point.count)
    return sum(latest.values())


def main() -> None:
    """Print the table."""
    table = Table("scenario", "door", "ended", "spans arrived", "twice", "scored", "events", "points", "longest delay")
    for scenario in _scenarios():
        for door in DOORS:
            one = run(scenario, door)
            row = (one.ended, one.spans, one.twice, one.scored, one.events, one.points, f"{one.delay:.2f} s")
            table.add_row(scenario if door == "plain" else "", door, *map(str, row))
    Console(width=120).print(table)


def _scenarios() -> list[str]:
    from scenarios.agent import SCENARIOS  # noqa: PLC0415 - on the path only now

    return sys.argv[1:] or list(SCENARIOS)


if __name__ == "__main__":
    main()
