"""Events and spans that goldspan sends itself: to a receiver that takes them, and to one that does not."""

from __future__ import annotations

import dataclasses
import functools
import gzip
import itertools
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsPartialSuccess,
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.trace import SpanContext

from goldspan.collector_processor import ToolParameterMatchExporter
from goldspan.collector_processor.emit.otlp_encoding import encoded_span, span_source
from goldspan.collector_processor.in_process import otlp_sender
from goldspan.collector_processor.in_process.otlp_receiver import (
    EVENTS,
    SPANS,
    OtlpReceiver,
    RecordKind,
)
from goldspan.collector_processor.in_process.otlp_sender import OtlpEvents, OtlpSender
from goldspan.collector_processor.in_process.otlp_span_exporter import OtlpSpanExporter
from goldspan.collector_processor.retrying_queue import RetryingQueue
from goldspan.collector_processor.sinks import LangfuseScores, score_exporter
from goldspan.collector_processor.sinks.score_exporter import Score
from goldspan.scoring.errors import SettingsError
from rigs import evaluation_examples as given
from rigs.in_process_rig import Inner, MakeRig
from rigs.local_http import Quiet, serving
from rigs.otlp_receiver import attributes, otlp_receiver
from rigs.scripted_agent import PARIS, ROME
from rigs.waiting import until

MAX_SCORES = 10_000


@dataclass
class Receiver:
    """Takes log records and spans, or does what it is told instead; and what it took."""

    endpoint: str = ""
    mode: str = "accept"
    taken: list[str] = field(default_factory=list[str])
    requests: int = 0
    headers: dict[str, str] = field(default_factory=dict[str, str])
    release: threading.Event = field(default_factory=threading.Event)

    def ids(self) -> Counter[str]:
        return Counter(self.taken)


def ids_of_events(body: bytes) -> list[str]:
    scopes = [one.scope_logs for one in ExportLogsServiceRequest.FromString(body).resource_logs]
    records = [record for some in scopes for scope in some for record in scope.log_records]
    return [attributes(one)["tool_parameter_match.result_id"] for one in records]


def names_of_spans(body: bytes) -> list[str]:
    scopes = [one.scope_spans for one in ExportTraceServiceRequest.FromString(body).resource_spans]
    return [span.name for some in scopes for scope in some for span in scope.spans]


def ids_of_scores(body: bytes) -> list[str]:
    return [one["body"]["id"] for one in json.loads(body)["batch"]]


TAKEN = {"/v1/logs": ids_of_events, "/v1/traces": names_of_spans, "/api/public/ingestion": ids_of_scores}
PARTIAL = {
    "/v1/logs": ExportLogsServiceResponse(
        partial_success=ExportLogsPartialSuccess(rejected_log_records=2)
    ).SerializeToString(),
    "/v1/traces": ExportTraceServiceResponse(
        partial_success=ExportTracePartialSuccess(rejected_spans=2)
    ).SerializeToString(),
}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


@contextmanager
def receiving() -> Generator[Receiver]:
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
                found.taken += TAKEN[self.path](body)
            answer = PARTIAL[self.path] if mode == "partial" else b""
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
    monkeypatch.setattr(otlp_sender, "_DELAY", 0.01)
    monkeypatch.setattr(otlp_sender, "MIN_BACKOFF", 0.02)
    monkeypatch.setattr(otlp_sender, "MAX_BACKOFF", 0.05)
    monkeypatch.setattr(score_exporter, "MIN_BACKOFF", 0.02)
    monkeypatch.setattr(score_exporter, "MAX_BACKOFF", 0.05)


def a_span(name: str = "a span", trace_id: int = 1) -> ReadableSpan:
    return ReadableSpan(name, SpanContext(trace_id, 2, is_remote=False), start_time=1, end_time=2)


@dataclass
class Sender:
    """What sends items of one kind by ids, for the laws of all queues."""

    sends: RetryingQueue[Any]
    put: Callable[[str], object]
    dropped: Counter[str]

    def emit(self, *ids: str) -> None:
        for one in ids:
            self.put(one)


MakeSender = Callable[..., Sender]


def sender_of(kind: RecordKind, to: str | OtlpReceiver, **changes: Any) -> Sender:
    """Make what sends records of a kind."""
    dropped: Counter[str] = Counter()
    options: dict[str, Any] = {"timeout": 5.0, **changes}
    receiver = OtlpReceiver(kind.signal.url(to), **options) if isinstance(to, str) else to

    def on_dropped(count: int, why: str) -> None:
        dropped[why] += count

    if kind is EVENTS:
        events = OtlpEvents(receiver, on_dropped)
        return Sender(events, lambda one: events.emit(given.evaluation(given.ALIGNED, id=one)), dropped)
    spans = OtlpSender(kind, receiver, on_dropped)
    return Sender(spans, lambda one: spans.put([(span_source(span := a_span(one)), encoded_span(span))]), dropped)


def score_sender(to: str, timeout: float = 5.0) -> Sender:
    """Make what sends scores."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LANGFUSE_PUBLIC_KEY", "pk")
        sink = LangfuseScores(to, max_waiting=MAX_SCORES)
    api = cast("Any", sink)._backend._api
    real = api._client.request
    api._client.request = lambda *arguments, seconds: real(*arguments, seconds=min(seconds, timeout))
    return Sender(sink._queue, lambda one: sink.put([a_score(one)]), sink._queue.dropped)


def a_score(identity: str) -> Score:
    return Score(identity, "tool_parameter_match", "call", "ab" * 16, "cd" * 8, "s", 1.0, "pass", "", {})


@pytest.fixture(params=[EVENTS, SPANS], ids=lambda one: one.name)
def signal(request: pytest.FixtureRequest) -> RecordKind:
    return request.param


@pytest.fixture
def record_sender(signal: RecordKind) -> MakeSender:
    """Make what sends records of the signal."""
    return functools.partial(sender_of, signal)


@pytest.fixture(params=["events", "spans", "scores"])
def sender(request: pytest.FixtureRequest) -> MakeSender:
    """Make what sends items of any kind: the laws hold for all."""
    makers = {"events": functools.partial(sender_of, EVENTS), "spans": functools.partial(sender_of, SPANS)}
    return makers.get(request.param, score_sender)


NEXT = itertools.count(1_000_000)
STEPS = st.one_of(
    st.tuples(st.just("emit"), st.integers(1, 600)),
    st.tuples(st.just("answer"), st.sampled_from(["accept", "503", "429", "400", "reset"])),
    st.tuples(st.just("flush"), st.sampled_from([0.0, 0.001, 0.05])),
    st.tuples(st.just("wait"), st.sampled_from([0.001, 0.03])),
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
        rigs = [make_rig(inner=Inner(), emit="all"), make_rig(inner=Inner(), emit="all", events=received.endpoint)]
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


def test_the_door_sends_the_spans_that_the_exporter_of_the_sdk_would(make_rig: MakeRig) -> None:
    sent: list[list[tuple[Any, ...]]] = []
    for make in (lambda url: OTLPSpanExporter(f"{url}/v1/traces"), str):
        with otlp_receiver() as received:
            rig = make_rig(inner=make(received.endpoint))
            rig.turn(calls=[ROME, PARIS])
            rig.turn(session="unwanted")
            assert rig.door.force_flush()
        ids = {span.span_id: span.name for span in received.all_spans()}
        sent.append(
            [
                (span.name, span.kind, span.flags, ids.get(span.parent_span_id), attributes(span))
                for span in sorted(received.all_spans(), key=lambda one: one.start_time_unix_nano)
            ]
        )
    by_the_sdk, itself = sent
    assert itself == by_the_sdk
    assert any("tool_parameter_match.score" in span[-1] for span in itself)


def test_a_span_that_cannot_be_encoded_costs_no_other(
    receiver: Receiver, warnings_logged: Callable[[], list[str]]
) -> None:
    reader = InMemoryMetricReader()
    exporter = OtlpSpanExporter(receiver.endpoint, meter_provider=MeterProvider([reader], shutdown_on_exit=False))
    spans = [a_span("a"), a_span("b", trace_id=1 << 128), ReadableSpan("c"), a_span("d")]
    assert exporter.export(spans) is SpanExportResult.SUCCESS
    assert exporter.force_flush()
    exporter.shutdown()
    assert receiver.taken == ["a", "d"]
    assert len(warnings_logged()) == 2
    assert all("1 spans are dropped: they cannot be encoded" in said for said in warnings_logged())
    data: Any = reader.get_metrics_data()
    [counted] = [one for one in data.resource_metrics[0].scope_metrics[0].metrics if "dropped" in one.name]
    assert counted.name == "goldspan.spans.dropped"
    assert [(one.attributes["goldspan.reason"], one.value) for one in counted.data.data_points] == [("failure", 2)]


def test_records_leave_without_a_flush(receiver: Receiver, sender: MakeSender) -> None:
    ours = sender(receiver.endpoint)
    ours.emit(*names(3))
    until(lambda: sum(receiver.ids().values()) == 3)
    ours.sends.close(1)
    assert not ours.dropped


def test_a_full_batch_waits_for_no_others(
    receiver: Receiver, record_sender: MakeSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp_sender, "_DELAY", 60.0)
    monkeypatch.setattr(otlp_sender, "MAX_BATCH", 10)
    ours = record_sender(receiver.endpoint)
    ours.emit(*names(10))
    until(lambda: len(receiver.taken) == 10)
    ours.sends.close(1)


@pytest.mark.parametrize("fault", ["503", "429", "502", "reset"])
def test_what_cannot_be_taken_now_is_sent_again(receiver: Receiver, sender: MakeSender, fault: str) -> None:
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
    ours.sends.close(1)


def test_a_receiver_that_hangs_blocks_nobody_who_emits(receiver: Receiver, sender: MakeSender) -> None:
    receiver.mode = "hang"
    ours = sender(receiver.endpoint)
    ours.emit(*names(1))
    until(lambda: receiver.requests == 1)
    ours.emit(*names(2000, 1))
    assert not receiver.release.is_set()
    assert not ours.sends.flush(0.05)
    receiver.mode = "accept"
    receiver.release.set()
    assert ours.sends.flush(10)
    assert set(receiver.ids()) == set(names(2001))
    ours.sends.close(1)


def test_a_slow_receiver_is_given_up_and_asked_again(receiver: Receiver, sender: MakeSender) -> None:
    receiver.mode = "hang"
    ours = sender(receiver.endpoint, timeout=0.1)
    ours.emit(*names(3))
    until(lambda: receiver.requests >= 2)
    receiver.mode = "accept"
    until(lambda: set(receiver.ids()) == set(names(3)))
    ours.sends.close(1)


@pytest.mark.parametrize("fault", ["400", "401", "413", "500", "302"])
def test_what_is_refused_is_counted_and_not_sent_again(
    receiver: Receiver,
    record_sender: MakeSender,
    fault: str,
    warnings_logged: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(otlp_sender, "_DELAY", 60.0)  # what is sent, a flush sends
    receiver.mode = fault
    ours = record_sender(receiver.endpoint)
    for start in (0, 3):
        ours.emit(*names(3, start))
        assert ours.sends.flush(10)
    assert ours.dropped == {"refused": 6}
    assert receiver.requests == 2
    [warning] = warnings_logged()
    assert f"HTTP {fault}" in warning
    ours.sends.close(1)


def test_what_a_receiver_rejects_of_a_request_is_counted(
    receiver: Receiver, record_sender: MakeSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp_sender, "_DELAY", 60.0)  # one request
    receiver.mode = "partial"
    ours = record_sender(receiver.endpoint)
    ours.emit(*names(5))
    assert ours.sends.flush(10)
    assert ours.dropped == {"refused": 2}
    ours.sends.close(1)


def test_no_more_is_kept_than_fits_and_the_newest_are(
    receiver: Receiver, record_sender: MakeSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp_sender, "MAX_QUEUED_BYTES", 80_000)
    monkeypatch.setattr(otlp_sender, "MAX_BATCH", 10)
    receiver.mode = "503"
    ours = record_sender(receiver.endpoint)
    ours.emit(*names(1000))
    until(lambda: receiver.requests >= 2)
    ours.emit(*names(1000, 1000))
    receiver.mode = "accept"
    assert ours.sends.flush(10)
    lost = ours.dropped["queue_full"]
    assert lost > 1500
    assert len(receiver.ids()) == 2000 - lost
    assert set(names(50, 1950)) <= set(receiver.ids())
    ours.sends.close(1)


def test_what_nobody_took_until_the_end_is_counted(sender: MakeSender) -> None:
    ours = sender(refused_port())
    ours.emit(*names(4))
    ours.sends.close(0.2)
    ours.emit(*names(1))
    assert ours.dropped == {"shutdown": 5}


def test_the_end_waits_for_a_receiver_that_is_away_no_longer_than_a_request_may_take(record_sender: MakeSender) -> None:
    ours = record_sender(refused_port(), timeout=0.3)
    ours.emit(*names(2))
    ending = threading.Thread(target=ours.sends.close, args=(60.0,), daemon=True)
    ending.start()
    ending.join(20)
    assert not ending.is_alive()
    assert ours.dropped == {"shutdown": 2}


@hypothesis.given(steps=st.lists(STEPS, min_size=1, max_size=12), seconds=st.sampled_from([0.0, 0.02, 0.06, 0.2]))
@settings(
    max_examples=settings().max_examples // 8,
    phases=[Phase.generate],  # a hang takes too long to make smaller
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_every_record_is_taken_or_counted_whatever_happens(
    sender: MakeSender, steps: list[tuple[str, Any]], seconds: float
) -> None:
    with receiving() as receiver:
        ours, emitted = sender(receiver.endpoint), list[str]()
        for what, how in steps:
            if what == "emit":
                ours.emit(*(one := names(how, next(NEXT) * 1000)))
                emitted += one
            elif what == "answer":
                receiver.mode = how
            elif what == "flush":
                ours.sends.flush(how)
            else:
                time.sleep(how)
        ending = threading.Thread(target=ours.sends.close, args=(seconds,), daemon=True)
        ending.start()
        ending.join(10)
        assert not ending.is_alive()
        # Both, where a request was taken after its sender had given it up.
        until(lambda: len(set(receiver.taken)) + sum(ours.dropped.values()) >= len(emitted))
        assert set(receiver.taken) <= set(emitted)


def test_a_request_that_outlasts_the_end_is_counted_too(receiver: Receiver, sender: MakeSender) -> None:
    receiver.mode = "hang"
    ours = sender(receiver.endpoint, timeout=1.0)
    ours.emit(*names(1))
    until(lambda: receiver.requests == 1)
    assert not ours.sends.flush(0.01)
    ours.emit(*names(2, 1))
    assert not ours.sends.close(0.05)
    assert ours.dropped == {"shutdown": 2}  # the end does not wait for the request
    until(lambda: ours.dropped == {"shutdown": 3})


def test_the_end_comes_on_a_machine_that_sleeps_too_long(sender: MakeSender, monkeypatch: pytest.MonkeyPatch) -> None:
    def overslept(seconds: float) -> None:
        sleeps.append(seconds)
        assert len(sleeps) < 10, "the end never comes"
        real(seconds + 0.3)

    sleeps: list[float] = []
    real = time.sleep
    monkeypatch.setattr(otlp_sender, "_DELAY", 60.0)
    monkeypatch.setattr(time, "sleep", overslept)
    ours = sender(refused_port())
    ours.emit(*names(4))
    assert not ours.sends.close(0.2)
    assert sleeps
    assert ours.dropped == {"shutdown": 4}


@pytest.mark.parametrize(("what", "dropped"), [("events", 3), ("inner", 4)])
def test_a_door_whose_receiver_is_away_works_on_and_ends_in_time(make_rig: MakeRig, what: str, dropped: int) -> None:
    rig = make_rig(**{what: refused_port()})
    rig.turn()
    assert not rig.door.force_flush(2000)
    if what == "events":
        assert rig.score("execute_tool get_weather 0") is not None
    rig.door.shutdown(500)
    kind = "events" if what == "events" else "spans"
    until(lambda: rig.counted(f"goldspan.{kind}.dropped"))  # a process that stands still counts them when it goes on
    counted = {name: rig.counted(f"goldspan.{name}.dropped") for name in ("events", "spans")}
    assert counted == {"events": {}, "spans": {}, kind: {"shutdown": dropped}}
    assert rig.counted("goldspan.failures") == {}


def test_headers_and_compression_of_the_variables(
    receiver: Receiver, record_sender: MakeSender, signal: RecordKind
) -> None:
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint,
        "OTEL_EXPORTER_OTLP_HEADERS": "x-token=a%20b",
        "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
    }
    ours = record_sender(OtlpReceiver.of(signal, "otlp", environment))
    ours.emit(*names(1))
    assert ours.sends.flush(10)
    assert receiver.taken == names(1)
    assert receiver.headers["x-token"] == "a b"
    assert receiver.headers["content-encoding"] == "gzip"
    assert not ours.dropped
    ours.sends.close(1)


@pytest.mark.parametrize(
    ("chosen", "environment", "found"),
    [
        ("otlp", {}, OtlpReceiver("http://localhost:4318/v1/SIGNAL")),
        ("otlp", {"ENDPOINT": "https://c:1/x/"}, OtlpReceiver("https://c:1/x/v1/SIGNAL")),
        ("otlp", {"SIGNAL_ENDPOINT": "http://c/other"}, OtlpReceiver("http://c/other")),
        ("http://c:2", {"SIGNAL_ENDPOINT": "http://d"}, OtlpReceiver("http://c:2/v1/SIGNAL")),
        ("http://c:2/v1/traces/", {}, OtlpReceiver("http://c:2/v1/SIGNAL")),
        ("http://c:2/v1/SIGNAL", {"SIGNAL_TIMEOUT": "3"}, OtlpReceiver("http://c:2/v1/SIGNAL", timeout=3.0)),
        ("http://c", {"COMPRESSION": "gzip", "SIGNAL_COMPRESSION": "none"}, OtlpReceiver("http://c/v1/SIGNAL")),
    ],
)
def test_where_records_go(chosen: str, environment: dict[str, str], found: OtlpReceiver, signal: RecordKind) -> None:
    found = dataclasses.replace(found, endpoint=found.endpoint.replace("SIGNAL", signal.signal))
    assert OtlpReceiver.of(signal, chosen.replace("SIGNAL", signal.signal), variables(environment, signal)) == found


def variables(environment: dict[str, str], signal: RecordKind) -> dict[str, str]:
    return {
        f"OTEL_EXPORTER_OTLP_{key.replace('SIGNAL', signal.signal.upper())}": one for key, one in environment.items()
    }


@pytest.mark.parametrize(
    ("chosen", "environment", "said"),
    [
        ("otel", {}, 'OPTION: found "otel", expected .* such as http://localhost:4318'),
        ("localhost:4318", {}, 'OPTION: found "localhost:4318", expected'),
        ("http://[::1", {}, "OPTION: found"),
        ("http://localhost:99999", {}, "OPTION: found"),
        ("http://localhost?key=1", {}, "OPTION: found"),
        ("http://u:secret@c", {}, "OPTION: found `@`: .* OTEL_EXPORTER_OTLP_HEADERS takes secrets"),
        ("otlp", {"SIGNAL_ENDPOINT": "localhost:4318"}, '^OTEL_EXPORTER_OTLP_OTLP_ENDPOINT: found "localhost:4318"'),
        ("otlp", {"ENDPOINT": "localhost:4318"}, '^OTEL_EXPORTER_OTLP_ENDPOINT: found "localhost:4318"'),
        ("otlp", {"PROTOCOL": "grpc"}, "OPTION: found the protocol 'grpc' .* expected http/protobuf"),
        ("otlp", {"SIGNAL_COMPRESSION": "br"}, "_OTLP_OTLP_COMPRESSION: found 'br', expected none, gzip or deflate"),
        ("otlp", {"SIGNAL_TIMEOUT": "soon"}, "_OTLP_OTLP_TIMEOUT: found 'soon', expected seconds"),
        ("otlp", {"TIMEOUT": "-1"}, "_OTLP_TIMEOUT: found '-1', expected seconds, more than 0"),
        ("otlp", {"TIMEOUT": "nan"}, "_OTLP_TIMEOUT: found 'nan', expected seconds, more than 0"),
        ("otlp", {"HEADERS": "token=a%0Ab"}, "_OTLP_HEADERS: 'token' has characters that no header can have"),
        ("otlp", {"SIGNAL_CERTIFICATE": "no-such-file"}, r"certificates .*\(no-such-file\)"),
    ],
)
def test_what_cannot_be_used_is_said_at_the_start(
    chosen: str, environment: dict[str, str], said: str, signal: RecordKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables(environment, signal).items():
        monkeypatch.setenv(name, value)
    said = said.replace("OPTION", signal.option).replace("_OTLP_OTLP_", f"_OTLP_{signal.signal.upper()}_")
    with pytest.raises(SettingsError, match=said) as raised:
        door_that_sends(signal, chosen)
    assert "secret@" not in str(raised.value)


def test_the_extra_that_is_missing_is_named(signal: RecordKind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "urllib3", None)
    with pytest.raises(SettingsError, match=rf"{signal.option}: 'otlp' needs urllib3: .*'goldspan\[sinks\]'"):
        door_that_sends(signal, "otlp")


def door_that_sends(signal: RecordKind, chosen: str) -> ToolParameterMatchExporter:
    return (
        ToolParameterMatchExporter(Inner(), events=chosen) if signal is EVENTS else ToolParameterMatchExporter(chosen)
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_sends_its_own_records_only(receiver: Receiver, sender: MakeSender) -> None:
    receiver.mode = "503"
    ours = sender(receiver.endpoint)
    ours.emit(*names(2))
    until(lambda: receiver.requests >= 1)
    if (child := os.fork()) == 0:
        try:
            os._exit(0 if ours.sends.flush(0) else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    receiver.mode = "accept"
    until(lambda: set(receiver.ids()) == set(names(2)))
    ours.sends.close(1)


@pytest.mark.parametrize(
    ("door", "taken"), [("InMemorySpanExporter(), events=TO", 3), ("TO", 4), ("TO, events=TO", 7)], ids=str
)
def test_a_script_that_ends_loses_nothing(receiver: Receiver, door: str, taken: int) -> None:
    script = f"""
import sys
sys.path[:0] = {sys.path!r}
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from goldspan.collector_processor import ToolParameterMatchSpanProcessor
from rigs.scripted_agent import PARIS, golden, golden_set, run_turn
TO = {receiver.endpoint!r}
provider = TracerProvider()
goldens = golden_set(golden("wanted", [PARIS]))
provider.add_span_processor(ToolParameterMatchSpanProcessor({door}, goldens=goldens))
run_turn(provider.get_tracer("agent"), "wanted", [PARIS])
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60, cwd=Path(__file__).parents[1])
    assert len(receiver.taken) == taken
