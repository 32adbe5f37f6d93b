"""What an exporter sends, and what it makes of each answer by the OTLP specification."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from goldspan.collector_processor.gateway.deliver.exporters import ExporterBySignal, open_exporter
from goldspan.collector_processor.gateway.interfaces import (
    RESPONSE_MESSAGES,
    Delivered,
    Exporter,
    ExportRequest,
    Refused,
    Retry,
)
from goldspan.collector_processor.gateway.settings.sections import Destination
from goldspan.collector_processor.http_client import parse_retry_after
from goldspan.collector_processor.otlp_signals import Signal
from rigs.downstream import Downstream, HttpAnswer, grpc_downstream, http_downstream
from rigs.gateway_rig import one_span

REQUEST = ExportRequest(Signal.TRACES, one_span("x" * 1000).SerializeToString(), (("x-tenant", "a"),))
OWN = {"Authorization": "Bearer downstream"}


@pytest.fixture(scope="module")
def http() -> Iterator[Downstream]:
    with http_downstream() as downstream:
        yield downstream


@pytest.fixture(scope="module")
def over_grpc() -> Iterator[Downstream]:
    with grpc_downstream() as downstream:
        yield downstream


def exporter_to(downstream: Downstream, protocol: str, **options: object) -> Exporter:
    downstream.received.clear()
    downstream.http_answer = HttpAnswer()
    downstream.grpc_answer = lambda context: b""
    return open_exporter(Destination(downstream.endpoint, protocol, headers=OWN, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize("signal", list(Signal))
@pytest.mark.parametrize(
    ("protocol", "compression"),
    [
        ("grpc", "gzip"),
        ("grpc", "none"),
        ("http/protobuf", "gzip"),
        ("http/protobuf", "zstd"),
        ("http/protobuf", "none"),
    ],
)
def test_a_request_arrives_as_it_is(
    http: Downstream, over_grpc: Downstream, protocol: str, compression: str, signal: Signal
) -> None:
    downstream = over_grpc if protocol == "grpc" else http
    exporter = exporter_to(downstream, protocol, compression=compression)
    request = ExportRequest(signal, REQUEST.body if signal is Signal.TRACES else b"", REQUEST.headers)
    assert exporter.deliver(request) == Delivered()
    exporter.close()
    [received] = downstream.received
    assert (received.signal, received.body) == (signal, request.body)
    assert received.headers["x-tenant"] == "a"
    assert received.headers["authorization"] == "Bearer downstream"


def test_own_headers_win_over_forwarded_ones(http: Downstream, over_grpc: Downstream) -> None:
    for downstream, protocol in ((http, "http/protobuf"), (over_grpc, "grpc")):
        exporter = exporter_to(downstream, protocol)
        exporter.deliver(ExportRequest(Signal.LOGS, b"", (("authorization", "Bearer client"),)))
        exporter.close()
        assert downstream.received[0].headers["authorization"] == "Bearer downstream"


def status_of(message: str, *, after: float | None = None) -> Status:
    status = Status(code=8, message=message)
    if after is not None:
        detail = AnyMessage()
        detail.Pack(RetryInfo(retry_delay=Duration(seconds=int(after), nanos=int(after % 1 * 1e9))))
        status.details.append(detail)
    return status


@pytest.mark.parametrize(
    ("answer", "meaning"),
    [
        (HttpAnswer(200), Delivered()),
        (HttpAnswer(202), Delivered()),
        (HttpAnswer(200, body=b"\xff\xff"), Delivered()),
        (HttpAnswer(200, {"content-type": "application/json"}, b"{"), Delivered()),
        (HttpAnswer(200, {"content-type": "application/json"}, b'{"partialSuccess": 1}'), Delivered()),
        (
            HttpAnswer(
                200,
                {"content-type": "application/json"},
                b'{"partialSuccess": {"rejectedSpans": "2", "errorMessage": "too old"}}',
            ),
            Delivered(2, "too old"),
        ),
        (HttpAnswer(429, {"Retry-After": "7"}), Retry(7.0, "HTTP 429")),
        (HttpAnswer(502), Retry(None, "HTTP 502")),
        (HttpAnswer(503, {"Retry-After": "soon"}, b"down for tea"), Retry(None, "HTTP 503: down for tea")),
        (HttpAnswer(504), Retry(None, "HTTP 504")),
        (HttpAnswer(400, body=status_of("bad span").SerializeToString()), Refused("HTTP 400: bad span")),
        (
            HttpAnswer(401, {"content-type": "application/json"}, b'{"code": 16, "message": "who?"}'),
            Refused("HTTP 401: who?"),
        ),
        (HttpAnswer(404), Refused("HTTP 404")),
        (HttpAnswer(413, body=b"x" * 100_000), Refused(f"HTTP 413: {'x' * 200}")),
        (HttpAnswer(500), Refused("HTTP 500")),
        (HttpAnswer(301, {"Location": "http://127.0.0.1:1/"}), Refused("HTTP 301")),
    ],
    ids=lambda value: f"{value.status}-{len(value.body)}" if isinstance(value, HttpAnswer) else "",
)
def test_what_an_http_answer_means(http: Downstream, answer: HttpAnswer, meaning: object) -> None:
    exporter = exporter_to(http, "http/protobuf")
    http.http_answer = answer
    assert exporter.deliver(REQUEST) == meaning
    exporter.close()
    assert len(http.received) == 1


@pytest.mark.parametrize(
    ("signal", "field"),
    [
        (Signal.TRACES, "rejected_spans"),
        (Signal.LOGS, "rejected_log_records"),
        (Signal.METRICS, "rejected_data_points"),
    ],
)
def test_a_partial_success_is_no_failure(http: Downstream, over_grpc: Downstream, signal: Signal, field: str) -> None:
    message = RESPONSE_MESSAGES[signal]()
    setattr(message.partial_success, field, 3)
    message.partial_success.error_message = "too late"
    for downstream, protocol in ((http, "http/protobuf"), (over_grpc, "grpc")):
        exporter = exporter_to(downstream, protocol)
        downstream.http_answer = HttpAnswer(
            200, {"content-type": "application/x-protobuf"}, message.SerializeToString()
        )
        downstream.grpc_answer = lambda context: message.SerializeToString()
        assert exporter.deliver(ExportRequest(signal, REQUEST.body)) == Delivered(3, "too late")
        exporter.close()


GRPC_RETRYABLE = {"CANCELLED", "DEADLINE_EXCEEDED", "ABORTED", "OUT_OF_RANGE", "UNAVAILABLE", "DATA_LOSS"}


@pytest.mark.parametrize("code", [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK])
@pytest.mark.parametrize("after", [None, 1.5])
def test_what_a_grpc_status_means(over_grpc: Downstream, code: grpc.StatusCode, after: float | None) -> None:
    def abort(context: grpc.ServicerContext) -> bytes:
        context.set_trailing_metadata((("grpc-status-details-bin", status_of("x", after=after).SerializeToString()),))
        context.abort(code, "so it is")

    exporter = exporter_to(over_grpc, "grpc")
    over_grpc.grpc_answer = abort
    answer = exporter.deliver(REQUEST)
    exporter.close()
    retryable = code.name in GRPC_RETRYABLE or (code.name == "RESOURCE_EXHAUSTED" and after is not None)
    reason = f"gRPC {code.name}: so it is"
    assert answer == (Retry(after, reason) if retryable else Refused(reason))


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("0", 0),
        (" 120 ", 120),
        ("Sat, 21 Nov 2026 10:00:30 GMT", 30),
        ("Sat, 21 Nov 2026 09:00:00 GMT", 0),
        ("-1", None),
        ("٣", None),
        ("tomorrow", None),
    ],
)
def test_retry_after_is_a_number_or_a_date(value: str | None, seconds: float | None) -> None:
    assert parse_retry_after(value, datetime(2026, 11, 21, 10, tzinfo=UTC)) == seconds


def closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_nobody_there_is_worth_another_try(protocol: str) -> None:
    exporter = open_exporter(Destination(f"http://127.0.0.1:{closed_port()}", protocol, timeout=2))
    assert isinstance(exporter.deliver(REQUEST), Retry)
    exporter.close()
    assert isinstance(exporter.deliver(REQUEST), Retry)


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_somebody_who_never_answers_is_given_up_in_time(protocol: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        exporter = open_exporter(Destination(f"http://127.0.0.1:{silent.getsockname()[1]}", protocol, timeout=0.5))
        began = time.monotonic()
        assert isinstance(exporter.deliver(REQUEST), Retry)
        exporter.close()
    assert time.monotonic() - began < 5


def test_connections_are_kept_and_shared(http: Downstream) -> None:
    exporter = exporter_to(http, "http/protobuf")
    http.connections = 0
    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(exporter.deliver, [REQUEST] * 40)) == {Delivered()}
    exporter.close()
    assert http.connections <= 4


def test_each_signal_may_go_elsewhere(http: Downstream, over_grpc: Downstream) -> None:
    first, second = exporter_to(http, "http/protobuf"), exporter_to(over_grpc, "grpc")
    exporter = ExporterBySignal({Signal.TRACES: first, Signal.LOGS: second, Signal.METRICS: second})
    for signal in Signal:
        exporter.deliver(ExportRequest(signal, b""))
    exporter.close()
    assert [one.signal for one in http.received] == [Signal.TRACES]
    assert [one.signal for one in over_grpc.received] == [Signal.LOGS, Signal.METRICS]


@pytest.mark.parametrize("path", ["", "/", "/v1/traces"])
def test_an_endpoint_may_be_written_as_for_exporters(http: Downstream, path: str) -> None:
    http.received.clear()
    exporter = open_exporter(Destination(http.endpoint + path))
    assert exporter.deliver(ExportRequest(Signal.LOGS, b"")) == Delivered()
    exporter.close()
    assert http.received[0].signal is Signal.LOGS
