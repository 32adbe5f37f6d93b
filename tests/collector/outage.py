"""What arrives from a Collector while goldspan is away, and then the backend behind it.

PYTHONPATH=tests:. python -m collector.outage --seconds 600
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import urllib3

from collector.collecting import BINARY, collecting, healthy
from rigs.downstream import Downstream, Received, grpc_downstream
from rigs.gateway_process import process
from rigs.local_ports import free_port
from rigs.pipeline_rig import spans_in
from rigs.trace_requests import plain_request

UNSAMPLED = "yaml:service::pipelines::traces/scored::processors: [memory_limiter]"
AFTER = 120.0
"""Seconds that what waits may take to arrive, once it can."""


@dataclass
class Outcome:
    """Of one outage: requests that the Collector took, and spans that arrived in the end."""

    away: str
    sent: int
    waited: int
    """Those that had not arrived at the end of the outage."""
    arrived: int
    took: float
    """Seconds from the end of the outage until all were there."""


def send(address: str, name: str, seconds: float, rate: int) -> set[str]:
    """Send requests of one span at a rate; return the names of the spans that were taken."""
    pool = urllib3.PoolManager(retries=False, timeout=10)
    taken: set[str] = set()
    began = time.monotonic()
    for number in range(round(seconds * rate)):
        time.sleep(max(0.0, began + number / rate - time.monotonic()))
        span = f"{name}-{number}"
        body = json.dumps(plain_request(span))
        answer = pool.request(
            "POST", f"http://{address}/v1/traces", body=body, headers={"content-type": "application/json"}
        )
        if answer.status == 200:
            taken.add(span)
    return taken


class Arrived:
    """The spans that a backend has accepted, by name."""

    def __init__(self, backend: Downstream) -> None:
        self._backend = backend
        self._looked_at = 0
        self._unanswered: list[Received] = []
        """Refused for good, or about to be accepted."""
        self._names: set[str] = set()

    def names(self) -> set[str]:
        new = self._backend.received[self._looked_at :]
        self._looked_at += len(new)
        asked = [(one, one.accepted) for one in (*self._unanswered, *new)]
        self._unanswered = [one for one, accepted in asked if not accepted]
        self._names |= {span.name for span in spans_in(one.body for one, accepted in asked if accepted)}
        return self._names


def outage(away: str, address: str, arrived: Arrived, seconds: float, rate: int) -> Iterator[Outcome]:
    """Send while something is away; yield once what waits can leave, which the caller sees to in between."""
    taken = send(address, away, seconds, rate)
    outcome = Outcome(away, len(taken), len(taken - arrived.names()), 0, 0.0)
    yield outcome
    began = time.monotonic()
    while taken - arrived.names() and time.monotonic() < began + AFTER + seconds:
        time.sleep(1.0)
    outcome.arrived, outcome.took = len(taken & arrived.names()), time.monotonic() - began


def refuse(context: grpc.ServicerContext) -> bytes:
    context.abort(grpc.StatusCode.UNAVAILABLE, "away")


@contextmanager
def loop(folder: Path) -> Iterator[tuple[str, Downstream, str]]:
    """A Collector at both ends of a gateway that does not run yet: its address, the backend, the gateway's settings."""
    ports = {name: f"127.0.0.1:{free_port()}" for name in ("grpc", "http", "scored", "goldspan", "health")}
    settings = (
        f"receivers: {{grpc: '{ports['goldspan']}', http: '127.0.0.1:0'}}\n"
        "admin: {listen: '127.0.0.1:0'}\n"
        "scoring: {metrics: []}\n"
        f"export: {{endpoint: 'http://{ports['scored']}', protocol: grpc}}\n"
    )
    with grpc_downstream() as backend:
        variables = {
            "COLLECTOR_GRPC": ports["grpc"],
            "COLLECTOR_HTTP": ports["http"],
            "COLLECTOR_SCORED": ports["scored"],
            "COLLECTOR_HEALTH": ports["health"],
            "COLLECTOR_STORAGE": str(folder / "storage"),
            "GOLDSPAN_ENDPOINT": ports["goldspan"],
            "BACKEND_ENDPOINT": backend.endpoint.removeprefix("http://"),
        }
        config = "collector-to-goldspan.yaml"
        with collecting(BINARY, config, lambda: healthy(ports["health"]), UNSAMPLED, **variables):
            yield ports["http"], backend, settings


def outages(folder: Path, seconds: float, rate: int) -> Iterator[Outcome]:
    """Let goldspan be away, then the backend."""
    with loop(folder) as (address, backend, settings):
        arrived = Arrived(backend)
        first = outage("goldspan", address, arrived, seconds, rate)
        outcome = next(first)
        with process(settings, folder):
            next(first, None)
            yield outcome
            backend.grpc_answer = refuse
            second = outage("backend", address, arrived, seconds, rate)
            outcome = next(second)
            backend.grpc_answer = lambda _: b""
            next(second, None)
            yield outcome


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--rate", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        for one in outages(Path(temporary), options.seconds, options.rate):
            print(one, flush=True)
