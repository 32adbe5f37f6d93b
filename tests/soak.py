"""A gateway killed again and again under load: what it acknowledged arrives, and is scored as a replay scores it.

python tests/soak.py [KILLS]
"""

from __future__ import annotations

import http.client
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from goldspan.collector_processor.gateway.contract import Request, Signal
from goldspan.scoring.goldens import load_goldens
from otlp_containers import as_message
from pipeline_rig import Said, cut_up, events_in, newest, said_by_replay, spans_in
from trace_requests import plain_request, turn_request

HERE = Path(__file__).parent
GOLDENS = {
    "format": 1,
    "golden_set": "soak",
    "goldens": [
        {
            "session_pattern": "soak-*",
            "turns": [
                {"calls": [{"name": "look", "args": {"at": turn}}, {"name": "say", "args": {"what": "so"}}]}
                for turn in range(3)
            ],
        }
    ],
}


@dataclass
class Outcome:
    kills: int
    acknowledged: int
    """Spans."""
    lost: int
    delivered: int
    said: Said
    wanted: Said
    processes: list[str] = field(default_factory=list)
    """What the processes wrote to standard error."""


def session_of(number: int, rng: random.Random) -> list[list[Request]]:
    """The three turns of a session, each as shuffled requests; some sessions are nobody's, some spans are plain."""
    name = f"{'soak' if number % 3 else 'other'}-{number}"
    turns: list[list[Request]] = []
    for turn in range(3):
        calls: list[tuple[str, Any]] = [("look", {"at": rng.choice([turn, 7])}), ("say", {"what": "so"})]
        documents = [turn_request(name, *calls, turn=turn), plain_request(f"{name}/{turn}")]
        whole = [Request(Signal.TRACES, as_message(one).SerializeToString()) for one in documents]
        turns.append(cut_up(whole, rng.randrange(1000), 3))
    return turns


class Gateway:
    """The process, and the port it listens on now."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.errors = folder / "errors"
        self.port = 0
        self.start()

    def start(self) -> None:
        with self.errors.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, HERE / "gateway_process.py", self._folder], stdout=subprocess.PIPE, stderr=errors
            )
        self.port = int(cast("IO[bytes]", self.process.stdout).readline() or 0)
        assert self.port, f"exit {self.process.poll()}: {self.errors.read_text()}"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        cast("IO[bytes]", self.process.stdout).close()

    def stop(self) -> None:
        self.process.terminate()
        assert self.process.wait(90) == 0, self.errors.read_text()
        cast("IO[bytes]", self.process.stdout).close()


class Client(threading.Thread):
    """Plays sessions, each request until it is acknowledged."""

    def __init__(self, gateway: Gateway, first: int, step: int, seed: int, pause: float) -> None:
        super().__init__(daemon=True)
        self._gateway = gateway
        self._numbers = range(first, 1_000_000, step)
        self._rng = random.Random(seed)
        self._pause = pause
        self.stopping = threading.Event()
        self.acknowledged: list[Request] = []

    def run(self) -> None:
        for number in self._numbers:
            for requests in session_of(number, self._rng):
                for request in requests:
                    while not self._send(request):
                        time.sleep(0.02)
                    self.acknowledged.append(request)
                time.sleep(self._pause)
            if self.stopping.is_set():
                return

    def _send(self, request: Request) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self._gateway.port, timeout=10)
        try:
            connection.request("POST", f"/v1/{request.signal.value}", request.body)
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


def soak(folder: Path, kills: int, *, clients: int = 4, seed: int = 1, pause: float = 0.3) -> Outcome:
    """Kill a gateway so many times while clients send, then let it come to rest."""
    rng = random.Random(seed)
    (folder / "goldens.json").write_text(json.dumps(GOLDENS))
    gateway = Gateway(folder)
    senders = [Client(gateway, first, clients, seed + first, pause) for first in range(clients)]
    for sender in senders:
        sender.start()
    for _ in range(kills):
        time.sleep(rng.uniform(0.2, 1.5))
        gateway.kill()
        gateway.start()
    for sender in senders:
        sender.stopping.set()
    for sender in senders:
        sender.join(120)
        assert not sender.is_alive()
    time.sleep(4.0)  # longer than a run is waited for
    gateway.stop()
    requests = [request for sender in senders for request in sender.acknowledged]
    archive = folder / "acknowledged.pb"
    archive.write_bytes(b"".join(request.body for request in requests))
    found: dict[str, list[bytes]] = {"traces": [], "logs": [], "metrics": []}
    for path in sorted((folder / "delivered").iterdir()):
        if not path.name.startswith("."):
            found[path.name.partition("-")[0]].append(path.read_bytes())
    sent = {span.span_id for span in spans_in(request.body for request in requests)}
    arrived = [span.span_id for span in spans_in(found["traces"])]
    return Outcome(
        kills=kills,
        acknowledged=len(sent),
        lost=len(sent.difference(arrived)),
        delivered=len(arrived),
        said=newest(events_in(found["logs"])),
        wanted=said_by_replay([archive], load_goldens(GOLDENS)),
        processes=gateway.errors.read_text().splitlines(),
    )


def main(kills: int) -> None:
    with tempfile.TemporaryDirectory(prefix="goldspan-soak-") as folder:
        began = time.monotonic()
        outcome = soak(Path(folder), kills)
        same = outcome.said == outcome.wanted
        print(f"{outcome.kills} kills in {time.monotonic() - began:.0f} s")
        print(f"{outcome.acknowledged} spans acknowledged, {outcome.lost} of them lost")
        print(f"{outcome.delivered - outcome.acknowledged} delivered again")
        how = "equal to" if same else "OTHER THAN"
        print(f"{len(outcome.said)} final results, {how} the {len(outcome.wanted)} of a replay")
        for line in outcome.processes[:20]:
            print(f"  {line}")
        if not same:
            for name in [*outcome.said, *outcome.wanted]:
                if outcome.said.get(name) != outcome.wanted.get(name):
                    print(name, outcome.said.get(name), outcome.wanted.get(name), sep="\n  ")
                    break
        if outcome.lost or not same:
            raise SystemExit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
