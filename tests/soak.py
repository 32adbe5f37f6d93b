"""A gateway killed again and again under load: what it acknowledged arrives, and is scored as a replay scores it.

Clients send by HTTP and by gRPC. The gateway exports by one of them: `python tests/soak.py [KILLS]` tries both.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import IO, Any, cast

import grpc

from goldspan.collector_processor.gateway.interfaces import GRPC_METHODS, ExportRequest
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.scoring.goldens import GoldenIndex, load_goldens
from goldspan.scoring.metrics.session_metrics import WITHOUT_GOLDEN
from goldspan.scoring.run import Scorer, scorer_of
from rigs.downstream import Downstream, grpc_downstream, http_downstream
from rigs.gateway_process import command
from rigs.otlp_containers import as_message
from rigs.pipeline_rig import Said, cut_up, events_in, newest, said_by_replay, spans_in
from rigs.trace_requests import attribute, plain_request, turn_request
from rigs.waiting import until

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


SAMPLE = 0.7
DEFINITIONS = json.dumps([{"name": "look", "parameters": {"type": "object", "description": "where to look " * 20}}])
JUDGED: dict[str, tuple[str, GoldenIndex, Scorer]] = {
    "by goldens": ("goldens: {folder}/goldens.json", load_goldens(GOLDENS), Scorer()),
    "without goldens": ("goldens: []", GoldenIndex(sample=SAMPLE), scorer_of(metrics=WITHOUT_GOLDEN)),
}
"""By what sessions are judged: a line of the settings, and what a replay takes."""
SETTINGS = """
{goldens}
receivers: {{grpc: "127.0.0.1:0", http: "127.0.0.1:0"}}
admin: {{listen: null}}
scoring: {{settle: 200ms, hold_timeout: 2s, run_idle: 2s, sample: {sample}, events: all}}
journal: {{folder: {folder}/journal}}
dead_letters: {{folder: {folder}/dead-letters}}
export: {{endpoint: "{endpoint}", protocol: {protocol}, retry: {{initial: 100ms}}}}
"""

DOWNSTREAMS = {"http/protobuf": http_downstream, "grpc": grpc_downstream}
METHODS = {signal: method for method, signal in GRPC_METHODS.items()}
MOST_AGAIN = 0.01
"""The share of spans that may be sent again."""


@dataclass
class Outcome:
    kills: int
    acknowledged: int
    """Spans."""
    lost: int
    again: int
    """Arrivals of spans that had arrived, and that no client had sent again."""
    by_clients: int
    """Arrivals of spans that a client had sent again, since a kill left it without an answer."""
    said: Said
    wanted: Said
    warnings: list[dict[str, Any]] = field(default_factory=list)
    """What the processes complained of."""


def session_of(number: int, rng: random.Random) -> list[list[ExportRequest]]:
    """The three turns of a session, each as shuffled requests; some sessions are nobody's, some spans are plain."""
    name = f"{'soak' if number % 3 else 'other'}-{number}"
    turns: list[list[ExportRequest]] = []
    for turn in range(3):
        calls: list[tuple[str, Any]] = [("look", {"at": rng.choice([turn, 7])}), ("say", {"what": "so"})]
        spoken = turn_request(name, *calls, turn=turn, user=f"look at {rng.randrange(9)}")
        root, *tools = spoken["resourceSpans"][0]["scopeSpans"][0]["spans"]
        root["attributes"].append(attribute("gen_ai.tool.definitions", DEFINITIONS))
        for tool in tools:
            tool["attributes"].append(attribute("gen_ai.tool.call.result", "a ship at the pier; " * rng.randrange(20)))
        documents = [spoken, plain_request(f"{name}/{turn}")]
        whole = [ExportRequest(Signal.TRACES, as_message(one).SerializeToString()) for one in documents]
        turns.append(cut_up(whole, rng.randrange(1000), 3))
    return turns


class Gateway:
    """`goldspan serve`, and the addresses it listens on now."""

    def __init__(self, folder: Path, endpoint: str, protocol: str, judged: str) -> None:
        self._settings = folder / "goldspan.yaml"
        goldens = JUDGED[judged][0].format(folder=folder)
        text = SETTINGS.format(goldens=goldens, sample=SAMPLE, folder=folder, endpoint=endpoint, protocol=protocol)
        self._settings.write_text(text)
        self.said: list[dict[str, Any]] = []
        self.addresses: dict[str, str] = {}
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(command("--config", str(self._settings)), stderr=subprocess.PIPE, text=True)
        self._reader = threading.Thread(target=self._read, args=(cast("IO[str]", self.process.stderr),))
        self.addresses = {}
        self._reader.start()
        until(lambda: len(self.addresses) == 2 or self.process.poll() is not None, 60.0)
        assert self.process.poll() is None, self.said

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()

    def stop(self) -> None:
        self.process.terminate()
        assert self.process.wait(90) == 0, self.said
        self._reader.join()

    def _read(self, errors: IO[str]) -> None:
        with errors:
            for line in errors:
                said = json.loads(line)
                if said["message"] == "listening":
                    self.addresses = {**self.addresses, said["server"]: said["address"]}
                if said["level"] not in ("debug", "info"):
                    self.said.append(said)


class Client(threading.Thread):
    """Plays sessions, each request until it is acknowledged; by gRPC, or by HTTP."""

    def __init__(self, gateway: Gateway, first: int, step: int, seed: int, pause: float) -> None:
        super().__init__(daemon=True)
        self._gateway = gateway
        self._send = self._call if first % 2 else self._post
        self._numbers = range(first, 1_000_000, step)
        self._rng = random.Random(seed)
        self._pause = pause
        self.stopping = threading.Event()
        self.acknowledged: list[ExportRequest] = []
        self.sent_again: list[ExportRequest] = []

    def run(self) -> None:
        for number in self._numbers:
            for requests in session_of(number, self._rng):
                for request in requests:
                    while not self._send(request):
                        if self.sent_again[-1:] != [request]:
                            self.sent_again.append(request)
                        time.sleep(0.02)
                    self.acknowledged.append(request)
                time.sleep(self._pause)
            if self.stopping.is_set():
                return

    def _call(self, request: ExportRequest) -> bool:
        address = self._gateway.addresses.get("grpc")
        if address is None:
            return False
        with grpc.insecure_channel(address) as channel:
            try:
                channel.unary_unary(METHODS[request.signal])(request.body, timeout=10)
            except grpc.RpcError:
                return False
            return True

    def _post(self, request: ExportRequest) -> bool:
        address = self._gateway.addresses.get("http")
        if address is None:
            return False
        connection = http.client.HTTPConnection(address, timeout=10)
        try:
            kind = {"content-type": "application/x-protobuf"}
            connection.request("POST", f"/v1/{request.signal.value}", request.body, kind)
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


def soak(
    folder: Path,
    kills: int,
    protocol: str = "http/protobuf",
    *,
    judged: str = "by goldens",
    clients: int = 4,
    seed: int = 1,
    pause: float = 0.3,
) -> Outcome:
    """Kill a gateway so many times while clients send, then let it come to rest; it exports by `protocol`."""
    rng = random.Random(seed)
    (folder / "goldens.json").write_text(json.dumps(GOLDENS))
    with DOWNSTREAMS[protocol]() as downstream:
        gateway = Gateway(folder, downstream.endpoint, protocol, judged)
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
        requests = [request for sender in senders for request in sender.acknowledged]
        archive = folder / "acknowledged.pb"
        archive.write_bytes(b"".join(request.body for request in requests))
        _, goldens, scorer = JUDGED[judged]
        wanted = said_by_replay([archive], goldens, scorer)
        with contextlib.suppress(AssertionError):  # then the outcome tells what is missing
            until(lambda: said_in(downstream) == wanted, 20.0)
        gateway.stop()
    sent = {span.span_id for span in spans_in(request.body for request in requests)}
    by_clients = {span.span_id for sender in senders for span in spans_in(one.body for one in sender.sent_again)}
    arrived = Counter(
        span.span_id for span in spans_in(one.body for one in downstream.received if one.signal is Signal.TRACES)
    )
    return Outcome(
        kills=kills,
        acknowledged=len(sent),
        lost=len(sent.difference(arrived)),
        again=sum(count - 1 - (name in by_clients) for name, count in arrived.items() if count > 1),
        by_clients=sum(name in by_clients for name, count in arrived.items() if count > 1),
        said=said_in(downstream),
        wanted=wanted,
        warnings=gateway.said,
    )


def said_in(downstream: Downstream) -> Said:
    return newest(events_in(one.body for one in list(downstream.received) if one.signal is Signal.LOGS))


def main(kills: int) -> None:
    bad = False
    for protocol, judged in product(DOWNSTREAMS, JUDGED):
        with tempfile.TemporaryDirectory(prefix="goldspan-soak-") as folder:
            began = time.monotonic()
            outcome = soak(Path(folder), kills, protocol, judged=judged)
            bad |= told(outcome, f"{protocol}, {judged}", time.monotonic() - began)
    raise SystemExit(bad)


def told(outcome: Outcome, protocol: str, seconds: float) -> bool:
    """Print an outcome; return whether something is wrong with it."""
    same = outcome.said == outcome.wanted
    share = outcome.again / outcome.acknowledged
    print(f"{protocol}: {outcome.kills} kills in {seconds:.0f} s")
    print(f"{outcome.acknowledged:,} spans acknowledged, {outcome.lost} of them lost")
    print(f"{outcome.again} sent again ({share:.1%}); {outcome.by_clients} more since clients sent them again")
    how = "equal to" if same else "OTHER THAN"
    print(f"{len(outcome.said):,} final results, {how} the {len(outcome.wanted):,} of a replay")
    for said in outcome.warnings[:20]:
        print(f"  {said}")
    if not same:
        for name in [*outcome.said, *outcome.wanted]:
            if outcome.said.get(name) != outcome.wanted.get(name):
                print(name, outcome.said.get(name), outcome.wanted.get(name), sep="\n  ")
                break
    return bool(outcome.lost) or not same or share > MOST_AGAIN


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
