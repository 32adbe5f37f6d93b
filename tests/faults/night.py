"""One bad night of a gateway: a small load, a fault, a kill, a restart; and what is left of it in the morning.

Every night has the same load, and a client sends each request until it is acknowledged. So what has to arrive, and what
the results have to be, is the same every night: the results of a replay.
"""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import re
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import grpc
import urllib3
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from faults.forked_gateway import Gateway, Nursery
from faults.injection import DAMAGE, Fault
from goldspan.collector_processor.gateway.interfaces import GRPC_METHODS, ExportRequest, Headers
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.scoring.goldens import load_goldens
from rigs.downstream import Downstream, HttpAnswer, grpc_downstream, http_downstream
from rigs.operator_acts import ACTS, unmount
from rigs.otlp_containers import as_message
from rigs.pipeline_rig import Said, cut_up, events_in, newest, said_by_replay, spans_in
from rigs.trace_requests import plain_request, request, turn_request

GOLDENS = {
    "format": 1,
    "golden_set": "night",
    "goldens": [
        {
            "session_pattern": "night-*",
            "turns": [
                {"calls": [{"name": "look", "args": {"at": turn}}, {"name": "say", "args": {"what": "so"}}]}
                for turn in range(3)
            ],
        }
    ],
}
SETTINGS = """
goldens: {folder}/goldens.json
watch_files: 200ms
receivers: {{grpc: "127.0.0.1:0", http: "127.0.0.1:0", forward_headers: [x-tenant]}}
admin: {{listen: "127.0.0.1:0"}}
scoring: {{settle: 100ms, hold_timeout: 3s, run_idle: 300ms, trace_retention: 300ms}}
journal: {{folder: {folder}/journal, sync: full, max_memory: 1B}}
dead_letters: {{folder: {folder}/dead-letters}}
export:
  endpoint: "{endpoint}"
  protocol: {protocol}
  timeout: 3s
  retry: {{initial: 50ms, longest: 200ms}}
shutdown_timeout: 6s
"""
FIRST, SECOND = "first", "second"
"""The processes of a night to which a fault can happen: from the start to a kill, and from that to the end."""
PATIENCE = 12.0
"""Seconds until what does not happen counts as not happening."""
_DOWNSTREAMS = {"http/protobuf": http_downstream, "grpc": grpc_downstream}
_METHODS = {signal: method for method, signal in GRPC_METHODS.items()}
DAMAGE_WORDS = re.compile("damaged|set aside|unreadable|cannot be read|left out")
_OURS = {"gen_ai.evaluation.result"}


@dataclass(frozen=True)
class Sent:
    """A request, and how a client sends it."""

    request: ExportRequest
    protocol: str
    """`grpc`, `protobuf`, `gzip` or `json`."""


@cache
def load() -> tuple[list[Sent], list[Sent], list[Sent]]:
    """Before the back-end goes away, while it is away, and after the kill."""
    parts: list[list[ExportRequest]] = [[], [], []]
    late: list[ExportRequest] = []
    for turn in range(3):
        for name, headers in (("night-1", ()), ("night-2", (("x-tenant", "b"),)), ("other-3", ())):
            calls: list[tuple[str, Any]] = [("look", {"at": 7 if name == "night-1" else turn}), ("say", {"what": "so"})]
            documents = [turn_request(name, *calls, turn=turn), plain_request(f"{name}/{turn}")]
            if turn == 0 and name == "night-1":
                last_call = documents[0]["resourceSpans"][0]["scopeSpans"][0]["spans"].pop()
                late.append(_traces(request([last_call]), headers))
            parts[turn] += cut_up([_traces(one, headers) for one in documents], turn + len(name), 3)
        short = turn_request("night-short", ("look", {"at": turn}), ("say", {"what": "so"}), turn=turn)
        for span in short["resourceSpans"][0]["scopeSpans"][0]["spans"]:
            span["traceId"] = span["traceId"][:16]
        parts[turn].append(_traces(short, ()))
        parts[turn] += [
            ExportRequest(Signal.LOGS, _log(f"log {turn}")),
            ExportRequest(Signal.METRICS, _metric(f"metric.{turn}")),
        ]
    parts[2] += late
    ways = ("grpc", "protobuf", "gzip")
    first, second, third = ([Sent(one, ways[at % 3]) for at, one in enumerate(part)] for part in parts)
    return first, second, third


def _traces(document: dict[str, Any], headers: Headers) -> ExportRequest:
    return ExportRequest(Signal.TRACES, as_message(document).SerializeToString(), headers)


def _log(text: str) -> bytes:
    request = ExportLogsServiceRequest()
    request.resource_logs.add().scope_logs.add().log_records.add().body.string_value = text
    return request.SerializeToString()


def _metric(name: str) -> bytes:
    request = ExportMetricsServiceRequest()
    metric = request.resource_metrics.add().scope_metrics.add().metrics.add(name=name)
    metric.gauge.data_points.add(as_int=1)
    return request.SerializeToString()


def items_in(requests: Iterable[tuple[Signal, bytes]]) -> Counter[str]:
    """Spans, log records and metrics of clients, by what makes each of them itself; and what is no request."""
    found = Counter[str]()
    for one in requests:
        try:
            found.update(_items_of(*one))
        except DecodeError:
            found[BROKEN] += 1
    return found


BROKEN = "no request"


def _items_of(signal_: Signal, body: bytes) -> Iterator[str]:
    if signal_ is Signal.TRACES:
        yield from (f"span {span.trace_id.hex()}/{span.span_id.hex()}" for span in spans_in([body]))
    elif signal_ is Signal.LOGS:
        for group in ExportLogsServiceRequest.FromString(body).resource_logs:
            records = (record for scope in group.scope_logs for record in scope.log_records)
            yield from (one.body.string_value for one in records if one.event_name not in _OURS)
    else:
        for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            names = (metric.name for scope in resource.scope_metrics for metric in scope.metrics)
            yield from (name for name in names if name.startswith("metric."))


REFUSED = "metric.refused"
"""The back-end refuses this one."""


@cache
def expected() -> tuple[frozenset[str], Said]:
    """What has to arrive, and the results of a replay."""
    requests = [one.request for part in load() for one in part]
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder, "all.pb")
        archive.write_bytes(b"".join(one.body for one in requests if one.signal is Signal.TRACES))
        said = said_by_replay([archive], load_goldens(GOLDENS))
    return frozenset(items_in((one.signal, one.body) for one in requests)), said


@dataclass
class Morning:
    """What is left of a night."""

    acknowledged: int = 0
    lost: set[str] = field(default_factory=set[str])
    again: int = 0
    """Items that arrived once more than they had to."""
    set_aside: int = 0
    """Items that did not arrive since what was read of the disk was damaged, of which the log has a word."""
    failed: int = 0
    """Calls that failed."""
    starts: int = 0
    threads: list[str] = field(default_factory=list[str])
    """Of goldspan, alive in the morning."""
    findings: list[str] = field(default_factory=list[str])
    log: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    sites: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    """Calls by process and site."""
    seconds: float = 0.0


class Night:
    """Runs one night in a folder of its own."""

    def __init__(
        self, nursery: Nursery, folder: Path, protocol: str, faults: dict[str, Fault], patience: float = PATIENCE
    ) -> None:
        self._nursery = nursery
        self._patience = patience
        self._folder = folder
        self._protocol = protocol
        self._faults = faults
        self._settings = folder / "goldspan.yaml"
        self._life: str | None = None
        self._tries = 1
        """How often a client sent one request, at most."""
        self._channel: grpc.Channel | None = None
        self._gateway: Gateway
        self._result = Morning()

    def run(self) -> Morning:
        began = time.monotonic()
        with contextlib.ExitStack() as at_end:
            self._downstream: Downstream = at_end.enter_context(_DOWNSTREAMS[self._protocol]())
            at_end.callback(lambda: unmount(self._folder / "journal"))
            at_end.callback(self._end_process)
            self._write_goldens(0)
            endpoint = self._downstream.endpoint
            self._settings.write_text(
                SETTINGS.format(folder=self._folder, endpoint=endpoint, protocol=self._protocol), "utf-8"
            )
            try:
                self._evening()
                self._after_the_kill()
                self._dawn()
            except _NeverError as never:
                self._result.findings.append(str(never))
                self._note_end()
            self._judge()
        self._result.seconds = time.monotonic() - began
        return self._result

    # The phases.

    def _evening(self) -> None:
        """Start; have a request refused; send the first turns; reload; lose the back-end; send; kill."""
        first, second, _ = load()
        self._start(FIRST)
        self._answer(400)
        self._send(Sent(ExportRequest(Signal.METRICS, _metric(REFUSED)), "protobuf"))
        self._wait(lambda: self._downstream.received, 3.0)
        self._answer(503)
        for one in first[:5]:
            self._send(one)
        self._wait(lambda: len(self._downstream.received) > 3, 1.0)
        self._answer(200)
        for one in first[5:]:
            self._send(one)
        self._write_goldens(1)
        self._gateway.send_signal(signal.SIGHUP)
        self._wait(lambda: items_in(self._arrived()).keys() >= _items(first), 2.0)
        self._answer(503)
        self._send_all(second)
        time.sleep(0.4)
        self._end_process()

    def _after_the_kill(self) -> None:
        """Recover, send the last turns and a late span, and come to rest."""
        self._start(SECOND)
        self._answer(200)
        self._send_all(load()[2])
        if (fault := self._faults.get(SECOND)) is not None and fault.begins == "end":
            self._gateway.ask("begin")
            time.sleep(1.0)
        else:
            wanted, said = expected()
            self._wait(lambda: items_in(self._arrived()).keys() >= wanted and self._said() == said, self._patience)
            if not self._wait(lambda: self._ready() == 200, 5.0):
                self._result.findings.append(f"/readyz stays at {self._ready()}")
        threads = self._gateway.ask("threads") or ()
        self._result.threads = sorted(
            name for name in threads if name.startswith("goldspan-") and not name.startswith("goldspan-receive")
        )
        self._gateway.send_signal(signal.SIGTERM)
        if not self._gateway.ended.wait(PATIENCE):
            self._result.findings.append("SIGTERM does not end it")
        self._end_process()

    def _dawn(self) -> None:
        """Start once more without faults, if something is left in the journal."""
        wanted, said = expected()
        if items_in(self._arrived()).keys() >= wanted and self._said() == said:
            return
        if self._told_delivered and not self._is_excused and not items_in(self._arrived()).keys() >= wanted:
            self._result.findings.append("it said that everything was delivered")
        self._start(None)
        self._wait(lambda: items_in(self._arrived()).keys() >= wanted and self._said() == said, self._patience / 2)
        self._end_process()

    def _judge(self) -> None:
        result = self._result
        wanted, said = expected()
        arrived = items_in(self._arrived())
        result.lost = set(wanted - arrived.keys())
        if (most := max(arrived[item] for item in wanted)) > self._tries + result.starts + result.failed:
            result.findings.append(f"something arrived {most} times")
        if arrived[BROKEN]:
            result.findings.append("something was sent that is no request")
        result.again = sum(arrived[item] - 1 for item in wanted if arrived[item])
        letters = list((self._folder / "dead-letters").glob("*.pb"))
        if not letters and not arrived[REFUSED]:
            result.findings.append("the refused request is neither a dead letter nor was it sent again")
        if self._is_excused:
            result.set_aside, result.lost = len(result.lost), set()
            said = self._said()
        if result.lost:
            names = ", ".join(sorted(result.lost)[:4])
            result.findings.append(f"{len(result.lost)} of {len(wanted)} lost: {names}")
        if self._said() != said:
            mine = self._said()
            other = [name for name in {*mine, *said} if mine.get(name) != said.get(name)]
            result.findings.append(
                f"{len(other)} of {len(said)} results are other than those of a replay: {_difference(mine, said)}"
            )

    # The process.

    def _start(self, life: str | None) -> None:
        """Start a process, with the fault of that life; if it does not come to listen, one without."""
        fault = None if life is None else self._faults.get(life)
        self._life = life
        self._gateway = Gateway(self._nursery, self._settings, fault)
        self._result.starts += 1
        if not self._gateway.listens():
            self._note_end()
            if fault is None:
                raise _NeverError(f"does not start: {self._gateway.outcome or self._gateway.complaints[-3:]}")
            self._start(None)

    def _end_process(self) -> None:
        if not self._gateway.ended.is_set():
            self._gateway.ask("sites")
            self._gateway.kill()
        self._note_end()

    def _note_end(self) -> None:
        """Take over what the process said of itself."""
        gateway, result = self._gateway, self._result
        gateway.kill()
        self._close_channel()
        if gateway.log is not None and self._life is not None:
            result.sites.setdefault(self._life, dict(gateway.sites))
        result.failed += gateway.failed
        result.log += gateway.log
        result.findings += [f"thread died: {name}" for name in gateway.dead]
        if len(gateway.addresses) == 3:  # else it did not start, and may say why as it likes
            result.findings += [f"said on standard error: {line}" for line in gateway.complaints[-3:]]
        result.findings += [
            f"logged: {one['message']} {one.get('exception', '')}" for one in gateway.log if _is_unhandled(one)
        ]
        if (gateway.outcome or "").startswith("raised") and len(gateway.addresses) == 3:
            result.findings.append(gateway.outcome)
        gateway.dead.clear()
        gateway.log.clear()

    @property
    def _is_excused(self) -> bool:
        """Whether what was read was damaged, and the log says so."""
        damaged = any(fault.kind in DAMAGE for fault in self._faults.values())
        return damaged and any(
            one["level"] == "warning" and DAMAGE_WORDS.search(one["message"]) for one in self._result.log
        )

    @property
    def _told_delivered(self) -> bool:
        return any(one["message"].endswith("everything was judged and delivered") for one in self._result.log)

    def _close_channel(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    # Clients and the back-end.

    def _send_all(self, part: Sequence[Sent]) -> None:
        """Send requests; halfway an operator may come, whose work is mended in about a second."""
        fault = None if self._life is None else self._faults.get(self._life)
        for at, one in enumerate(part):
            if at == len(part) // 2 and fault is not None and fault.begins == "half":
                ACTS[fault.kind](self._folder / "journal")
                self._result.failed += 1
                time.sleep(2.0)
            self._send(one)

    def _send(self, sent: Sent) -> None:
        """Send until it is acknowledged."""
        end = time.monotonic() + PATIENCE
        tries = 1
        while not self._try(sent):
            tries += 1
            self._tries = max(tries, self._tries)
            if time.monotonic() > end:
                raise _NeverError(f"a {sent.protocol} request is never acknowledged")
            if self._gateway.ended.is_set():
                self._note_end()
                self._start(None)
            time.sleep(0.03)
        self._result.acknowledged += len(items_in([(sent.request.signal, sent.request.body)]))

    def _try(self, sent: Sent) -> bool:
        body, headers = sent.request.body, {"content-type": "application/x-protobuf", **dict(sent.request.headers)}
        if sent.protocol == "grpc":
            if self._channel is None:
                self._channel = grpc.insecure_channel(self._gateway.addresses["grpc"])
            call = self._channel.unary_unary(_METHODS[sent.request.signal])
            try:
                call(body, timeout=3, metadata=sent.request.headers)
            except grpc.RpcError:
                return False
            return True
        if sent.protocol == "gzip":
            body, headers["content-encoding"] = gzip.compress(body, 1), "gzip"
        host, _, port = self._gateway.addresses["http"].rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=3)
        try:
            connection.request("POST", f"/v1/{sent.request.signal}", body, headers)
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _ready(self) -> int | str:
        try:
            url = f"http://{self._gateway.addresses['admin']}/readyz"
            return urllib3.request("GET", url, retries=False, timeout=2).status
        except (urllib3.exceptions.HTTPError, KeyError) as error:
            return type(error).__name__

    def _answer(self, status: int) -> None:
        """What the back-end answers from now on."""
        self._downstream.http_answer = HttpAnswer(status)

        def answer(context: grpc.ServicerContext) -> bytes:
            if status != 200:
                code = grpc.StatusCode.INVALID_ARGUMENT if status == 400 else grpc.StatusCode.UNAVAILABLE
                context.abort(code, "as it was told")
            return b""

        self._downstream.grpc_answer = answer

    def _arrived(self) -> list[tuple[Signal, bytes]]:
        return [(one.signal, one.body) for one in list(self._downstream.received) if one.accepted]

    def _said(self) -> Said:
        logs = (body for signal_, body in self._arrived() if signal_ is Signal.LOGS)
        return newest(
            event for body in logs if not items_in([(Signal.LOGS, body)])[BROKEN] for event in events_in([body])
        )

    def _wait(self, condition: Callable[[], object], seconds: float) -> bool:
        """Wait for a condition; a process that ends meanwhile is started again."""
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                return False
            if self._gateway.ended.is_set():
                self._note_end()
                self._start(None)
            time.sleep(0.02)
        return True

    def _write_goldens(self, version: int) -> None:
        (self._folder / "goldens.json").write_text(json.dumps(GOLDENS, indent=version), "utf-8")


class _NeverError(Exception):
    """What has to happen does not."""


def _items(part: Iterable[Sent]) -> set[str]:
    return set(items_in((one.request.signal, one.request.body) for one in part))


def _difference(mine: Said, said: Said) -> str:
    """The first difference of two sets of results."""
    for name in sorted({*mine, *said}):
        one, other = mine.get(name, {}), said.get(name, {})
        for key in sorted({*one, *other}):
            if one.get(key) != other.get(key):
                return f"{name} {key}: {one.get(key)!r}, expected {other.get(key)!r}"
    return ""


def _is_unhandled(record: dict[str, Any]) -> bool:
    if record["message"].startswith("Invalid encoding on"):
        return False  # gRPC's own words for an address it could not print, when no descriptor is left
    return record["level"] in ("error", "critical") or record["logger"].startswith(("asyncio", "uvicorn"))
