"""CPU that `goldspan serve`, as a whole process, takes for a million spans, by size of request and by what is judged.

`python -m benchmarks.gateway_cost [WORD...]` measures the rows whose names have one of these words. Results leave
compressed by gzip. Spans that are sent are agents' turns; times are of the process, so other load changes them little.
"""

from __future__ import annotations

import http.client
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import gateway_load as load
from benchmarks.rotel import cpu, running
from goldspan.collector_processor.encoded_spans.span_groups import split_request

SIZES = (10, 50, 512)
"""Spans of a request."""
SETTINGS = """
receivers: {{grpc: null, http: "127.0.0.1:0"}}
admin: {{listen: null}}
journal: {{folder: {folder}/journal}}
export: {{endpoint: "{endpoint}", compression: gzip}}
"""
JUDGED = {
    "1 session in 60 by a golden": (
        40_000,
        "goldens: {folder}/goldens.json\nscoring: {{settle: 250ms, run_idle: 500ms}}",
    ),
    "no golden, default metrics": (12_000, "scoring: {{settle: 250ms, run_idle: 500ms}}"),
    "the same, every result told": (12_000, "scoring: {{settle: 250ms, run_idle: 500ms, events: all}}"),
    "no golden, metrics: []": (40_000, "scoring: {{settle: 250ms, run_idle: 500ms, metrics: []}}"),
}
"""How many spans are sent, and the settings."""
_IDLE = 0.05
"""Seconds of CPU in three seconds."""


class Requests:
    """Requests of one size, again and again with other ids."""

    def __init__(self, size: int) -> None:
        load.SPANS = size
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


def measure(size: int, spans: int, settings: str) -> float:
    """Return the seconds of CPU for a million spans."""
    requests, receiver = Requests(size), load.Receiver()
    with tempfile.TemporaryDirectory(prefix="goldspan-cost-") as name:
        folder = Path(name)
        (folder / "goldens.json").write_text(json.dumps(load.goldens()))
        (folder / "goldspan.yaml").write_text(
            f"{SETTINGS}{settings}\n".format(folder=folder, endpoint=receiver.endpoint)
        )
        command = [sys.executable, "-m", "goldspan.collector_processor.cli", "serve", "--config"]
        with running([*command, str(folder / "goldspan.yaml")]) as process:
            connection = http.client.HTTPConnection("127.0.0.1", load.listening(process, quiet=True), timeout=60)
            requests.send(connection, spans // 8)
            before = when_idle(process.pid)
            sent = requests.send(connection, spans)
            return (when_idle(process.pid) - before) * 1e6 / sent


def when_idle(process: int) -> float:
    """Return the seconds of CPU that a process has taken once it takes hardly any more: all is judged by then."""
    before, used = -1.0, cpu(process)
    while used - before > _IDLE:
        time.sleep(3)
        before, used = used, cpu(process)
    return used


def main(words: Sequence[str]) -> None:
    """Print a line for each row."""
    print(f"{'s of CPU a million spans, in requests of':42}" + "".join(f"{size:>8}" for size in SIZES))
    for name, (spans, settings) in JUDGED.items():
        if not words or any(word in name for word in words):
            taken = "".join(f"{measure(size, spans, settings):>8.1f}" for size in SIZES)
            print(f"gateway, {name:33}{taken}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
