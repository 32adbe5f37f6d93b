"""Events that goldspan sends itself: to a receiver that takes them, and to one that does not."""

from __future__ import annotations

import gzip
import os
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsPartialSuccess,
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)

import evaluation_examples as given
from goldspan.collector_processor import ToolParameterMatchExporter
from goldspan.collector_processor.in_process import otlp_events
from goldspan.collector_processor.in_process.otlp_events import OtlpEvents, OtlpReceiver
from goldspan.scoring.errors import SettingsError
from in_process_rig import Inner, Rig, until
from local_http import Quiet, serving
from otlp_receiver import attributes, otlp_receiver
from scripted_agent import PARIS, ROME

MakeRig = Callable[..., Rig]


@dataclass
class Receiver:
    """Takes log records, or does what it is told instead; and what it took."""

    endpoint: str = ""
    mode: str = "accept"
    taken: list[str] = field(default_factory=list[str])
    requests: int = 0
    headers: dict[str, str] = field(default_factory=dict[str, str])
    release: threading.Event = field(default_factory=threading.Event)

    def ids(self) -> Counter[str]:
        return Counter(self.taken)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()

    class Handler(Quiet):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.requests += 1
            found.headers = {key.lower(): value for key, value in self.headers.items()}
            mode = found.mode
            if mode == "hang":
                found.release.wait(30)
            if mode == "reset":
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
            status = int(mode) if mode.isdigit() else 200
            if status == 200:
                if found.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                assert self.path == "/v1/logs"
                scopes = [one.scope_logs for one in ExportLogsServiceRequest.FromString(body).resource_logs]
                records = [record for some in scopes for scope in some for record in scope.log_records]
                found.taken += [attributes(one)["tool_parameter_match.result_id"] for one in records]
            partial = ExportLogsPartialSuccess(rejected_log_records=2) if mode == "partial" else None
            answer = ExportLogsServiceResponse(partial_success=partial).SerializeToString()
            self.send_response(status)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            if mode == "429":
                self.send_header("Retry-After", "0")
            self.end_headers()
            self.wfile.write(answer)

    with serving(Handler) as found.endpoint:
        yield found
        found.release.set()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp_events, "_DELAY", 0.01)
    monkeypatch.setattr(otlp_events, "MIN_BACKOFF", 0.02)
    monkeypatch.setattr(otlp_events, "MAX_BACKOFF", 0.05)


@dataclass
class Sender:
    events: OtlpEvents
    dropped: Counter[str]

    def emit(self, *ids: str) -> None:
        for one in ids:
            self.events.emit(given.evaluation(given.ALIGNED, id=one))


def sender(endpoint: str, **changes: Any) -> Sender:
    dropped: Counter[str] = Counter()
    options: dict[str, Any] = {"timeout": 5.0, **changes}
    return Sender(
        OtlpEvents(OtlpReceiver(f"{endpoint}/v1/logs", **options), lambda count, why: dropped.update({why: count})),
        dropped,
    )


def names(count: int, start: int = 0) -> list[str]:
    return [f"{number:032x}" for number in range(start, start + count)]


def plain(value: Any) -> Any:
    return [*value] if isinstance(value, tuple) else value  # pyright: ignore[reportUnknownVariableType]


def refused_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def test_the_door_sends_the_events_that_a_logger_provider_would_get(make_rig: MakeRig) -> None:
    with otlp_receiver() as received:
        rigs = [make_rig(inner=Inner()), make_rig(inner=Inner(), events=received.endpoint)]
        for rig in rigs:
            rig.turn(calls=[ROME, PARIS])
            assert rig.door.force_flush()
        by_provider, itself = rigs
        assert itself.events() == []

        def said(found: dict[str, Any]) -> list[tuple[str, Any]]:
            other = ("result_id", "run")  # each rig's spans have ids of their own
            return sorted((key, repr(value)) for key, value in found.items() if not key.endswith(other))

        events = [(said({key: plain(value) for key, value in one.attributes.items()})) for one in by_provider.events()]
        assert [said(attributes(one)) for one in received.events()] == events
        assert events
        spans = {span.context.span_id for span in itself.inner.spans if span.context}
        assert {int.from_bytes(one.span_id) for one in received.events()} <= spans


def test_events_leave_without_a_flush(receiver: Receiver) -> None:
    ours = sender(receiver.endpoint)
    ours.emit(*names(3))
    until(lambda: sum(receiver.ids().values()) == 3)
    ours.events.close(1)
    assert not ours.dropped


@pytest.mark.parametrize("fault", ["503", "429", "502", "reset"])
def test_what_cannot_be_taken_now_is_sent_again(receiver: Receiver, fault: str) -> None:
    receiver.mode = fault
    ours = sender(receiver.endpoint)
    ours.emit(*names(700))
    until(lambda: receiver.requests >= 3)
    ours.emit(*names(5, 700))
    assert not receiver.taken
    receiver.mode = "accept"
    until(lambda: len(receiver.taken) == 705)
    assert set(receiver.ids()) == set(names(705))
    assert not ours.dropped
    ours.events.close(1)


def test_a_receiver_that_hangs_blocks_nobody_who_emits(receiver: Receiver) -> None:
    receiver.mode = "hang"
    ours = sender(receiver.endpoint)
    ours.emit(*names(1))
    until(lambda: receiver.requests == 1)
    ours.emit(*names(2000, 1))
    assert not receiver.release.is_set()
    assert not ours.events.flush(0.05)
    receiver.mode = "accept"
    receiver.release.set()
    assert ours.events.flush(10)
    assert set(receiver.ids()) == set(names(2001))
    ours.events.close(1)


def test_a_slow_receiver_is_given_up_and_asked_again(receiver: Receiver) -> None:
    receiver.mode = "hang"
    ours = sender(receiver.endpoint, timeout=0.1)
    ours.emit(*names(3))
    until(lambda: receiver.requests >= 2)
    receiver.mode = "accept"
    until(lambda: set(receiver.ids()) == set(names(3)))
    ours.events.close(1)


@pytest.mark.parametrize("fault", ["400", "401", "413", "500", "302"])
def test_what_is_refused_is_counted_and_not_sent_again(
    receiver: Receiver, fault: str, warnings_logged: Callable[[], list[str]]
) -> None:
    receiver.mode = fault
    ours = sender(receiver.endpoint)
    for start in (0, 3):
        ours.emit(*names(3, start))
        assert ours.events.flush(10)
    assert ours.dropped == {"refused": 6}
    assert receiver.requests == 2
    [warning] = warnings_logged()
    assert f"HTTP {fault}" in warning
    ours.events.close(1)


def test_what_a_receiver_rejects_of_a_request_is_counted(receiver: Receiver) -> None:
    receiver.mode = "partial"
    ours = sender(receiver.endpoint)
    ours.emit(*names(5))
    assert ours.events.flush(10)
    assert ours.dropped == {"refused": 2}
    ours.events.close(1)


def test_no_more_is_kept_than_fits_and_the_newest_are(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp_events, "MAX_QUEUED_BYTES", 100_000)
    monkeypatch.setattr(otlp_events, "MAX_BATCH", 10)
    receiver.mode = "503"
    ours = sender(receiver.endpoint)
    ours.emit(*names(1000))
    until(lambda: receiver.requests >= 2)
    ours.emit(*names(1000, 1000))
    receiver.mode = "accept"
    assert ours.events.flush(10)
    lost = ours.dropped["queue_full"]
    assert lost > 1500
    assert len(receiver.ids()) == 2000 - lost
    assert set(names(50, 1950)) <= set(receiver.ids())
    ours.events.close(1)


def test_what_nobody_took_until_the_end_is_counted() -> None:
    ours = sender(refused_port())
    ours.emit(*names(4))
    ours.events.close(0.2)
    ours.emit(*names(1))
    assert ours.dropped == {"shutdown": 5}


def test_a_door_whose_receiver_is_away_works_on_and_ends_in_time(make_rig: MakeRig) -> None:
    rig = make_rig(events=refused_port())
    rig.turn()
    assert not rig.door.force_flush(2000)
    assert rig.score("execute_tool get_weather 0") is not None
    rig.door.shutdown(500)
    assert rig.counted("goldspan.events.dropped") == {"shutdown": 3}
    assert rig.counted("goldspan.failures") == {}


def test_headers_and_compression_of_the_variables(receiver: Receiver) -> None:
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint,
        "OTEL_EXPORTER_OTLP_HEADERS": "x-token=a%20b",
        "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
    }
    ours = OtlpEvents(OtlpReceiver.of("otlp", environment), lambda count, why: pytest.fail(why))
    ours.emit(given.evaluation(given.ALIGNED))
    assert ours.flush(10)
    assert len(receiver.taken) == 1
    assert receiver.headers["x-token"] == "a b"
    assert receiver.headers["content-encoding"] == "gzip"
    ours.close(1)


LOGS = "OTEL_EXPORTER_OTLP_LOGS_"


@pytest.mark.parametrize(
    ("events", "environment", "found"),
    [
        ("otlp", {}, OtlpReceiver("http://localhost:4318/v1/logs")),
        ("otlp", {"OTEL_EXPORTER_OTLP_ENDPOINT": "https://c:1/x/"}, OtlpReceiver("https://c:1/x/v1/logs")),
        ("otlp", {f"{LOGS}ENDPOINT": "http://c/other"}, OtlpReceiver("http://c/other")),
        ("http://c:2", {f"{LOGS}ENDPOINT": "http://d"}, OtlpReceiver("http://c:2/v1/logs")),
        ("http://c:2/v1/logs", {f"{LOGS}TIMEOUT": "3"}, OtlpReceiver("http://c:2/v1/logs", timeout=3.0)),
        (
            "http://c",
            {"OTEL_EXPORTER_OTLP_COMPRESSION": "gzip", f"{LOGS}COMPRESSION": "none"},
            OtlpReceiver("http://c/v1/logs"),
        ),
    ],
)
def test_where_events_go(events: str, environment: dict[str, str], found: OtlpReceiver) -> None:
    assert OtlpReceiver.of(events, environment) == found


@pytest.mark.parametrize(
    ("events", "environment", "said"),
    [
        ("otel", {}, "events: found 'otel"),
        ("otlp", {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "expected http/protobuf"),
        ("otlp", {f"{LOGS}COMPRESSION": "br"}, "found 'br', expected none, gzip or deflate"),
        ("otlp", {f"{LOGS}TIMEOUT": "soon"}, "found 'soon', expected seconds"),
        ("otlp", {f"{LOGS}CERTIFICATE": "no-such-file"}, "certificates"),
    ],
)
def test_what_cannot_be_used_is_said_at_the_start(
    events: str, environment: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=said):
        ToolParameterMatchExporter(Inner(), events=events)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_sends_its_own_events_only(receiver: Receiver) -> None:
    receiver.mode = "503"
    ours = sender(receiver.endpoint)
    ours.emit(*names(2))
    until(lambda: receiver.requests >= 1)
    if (child := os.fork()) == 0:
        try:
            os._exit(0 if ours.events.flush(0) else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    receiver.mode = "accept"
    until(lambda: set(receiver.ids()) == set(names(2)))
    ours.events.close(1)


def test_a_script_that_ends_loses_no_event(receiver: Receiver) -> None:
    script = f"""
import sys
sys.path[:0] = {sys.path!r}
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from goldspan.collector_processor import ToolParameterMatchSpanProcessor
from scripted_agent import PARIS, golden, golden_set, run_turn
provider = TracerProvider()
goldens = golden_set(golden("wanted", [PARIS]))
provider.add_span_processor(
    ToolParameterMatchSpanProcessor(InMemorySpanExporter(), goldens=goldens, events={receiver.endpoint!r})
)
run_turn(provider.get_tracer("agent"), "wanted", [PARIS])
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60, cwd=Path(__file__).parents[1])
    assert len(receiver.taken) == 3
