"""A downstream that answers with what no server should send: every attempt ends in time, and every thread lives."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import grpc
import pytest
import trustme
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from prometheus_client.parser import text_string_to_metric_families

from goldspan.collector_processor.gateway.deliver.exporters import open_exporter
from goldspan.collector_processor.gateway.interfaces import Delivered, ExportRequest, Refused, Retry
from goldspan.collector_processor.gateway.settings.sections import Destination
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.collector_processor.serving.field_types import ClientTls
from rigs.downstream import Downstream, grpc_downstream
from rigs.gateway_process import process, settings_for
from rigs.gateway_rig import one_span
from rigs.malformed_http import GOOD, NO_STATUS, OTHER, RETRIED, malformed, raw_downstream
from rigs.waiting import until

TIMEOUT = 0.5
REQUEST = ExportRequest(Signal.TRACES, one_span("x" * 1000).SerializeToString())


@pytest.mark.parametrize("seed", range(4))
def test_an_attempt_has_a_result_whatever_the_answer(seed: int) -> None:
    random = Random(seed)
    with raw_downstream() as downstream:
        exporter = open_exporter(Destination(downstream.endpoint, compression="none", timeout=TIMEOUT))
        for _ in range(100):
            answer = malformed(random, (*RETRIED, *NO_STATUS, *OTHER))
            downstream.answer = lambda answer=answer: answer
            began = time.monotonic()
            result = exporter.deliver(REQUEST)
            assert time.monotonic() - began < TIMEOUT + 1, answer[:300]
            assert isinstance(result, Delivered | Retry | Refused)
            if isinstance(result, Delivered):
                assert answer.startswith((b"HTTP/1.1 20", b"HTTP/1.1 100")), answer[:300]
                assert result.rejected <= len(REQUEST.body)
            else:
                assert len(result.reason) < 300
        downstream.answer = lambda: GOOD
        exporter.deliver(REQUEST)  # perhaps over a connection that the downstream resets
        assert exporter.deliver(REQUEST) == Delivered()
        exporter.close()


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 503 Wait\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 503 Wait\r\nContent-Length: 100\r\n\r\n" + b"x" * 100,
        b"HTTP/1.1 503 Wait\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 100,
        b"HTTP/1.1 100 Continue\r\n\r\n" * 10,
    ],
    ids=["head", "body", "chunks", "continue"],
)
def test_a_byte_at_a_time_does_not_prolong_an_attempt(answer: bytes) -> None:
    with raw_downstream() as downstream:
        downstream.answer, downstream.drip = (lambda: answer), True
        exporter = open_exporter(Destination(downstream.endpoint, compression="none", timeout=TIMEOUT))
        began = time.monotonic()
        assert isinstance(exporter.deliver(REQUEST), Retry)
        assert time.monotonic() - began < TIMEOUT + 0.5
        exporter.close()


def test_a_byte_at_a_time_does_not_prolong_an_attempt_over_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    with raw_downstream(context) as downstream:
        destination = Destination(
            downstream.endpoint, compression="none", timeout=TIMEOUT, tls=ClientTls(ca=tmp_path / "ca.pem")
        )
        exporter = open_exporter(destination)
        assert exporter.deliver(REQUEST) == Delivered()
        slow = b"HTTP/1.1 503 Wait\r\nContent-Length: 100\r\n\r\n" + b"x" * 100
        downstream.answer, downstream.drip = (lambda: slow), True
        began = time.monotonic()
        assert isinstance(exporter.deliver(REQUEST), Retry)
        assert time.monotonic() - began < TIMEOUT + 0.5
        downstream.answer, downstream.drip = (lambda: GOOD), False
        assert exporter.deliver(REQUEST) == Delivered()
        exporter.close()


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_a_handshake_a_byte_at_a_time_does_not_prolong_an_attempt(protocol: str) -> None:
    hello = b"\x16\x03\x03\x40\x00" + bytes(200)
    with trickling(hello) as port:
        exporter = open_exporter(Destination(f"https://localhost:{port}", protocol, timeout=TIMEOUT))
        began = time.monotonic()
        assert isinstance(exporter.deliver(REQUEST), Retry)
        assert time.monotonic() - began < TIMEOUT + 1
        exporter.close()


def test_a_name_that_is_looked_up_for_ever_does_not_prolong_an_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()
    lookups: list[str] = []

    def look_up(host: str, *_: object, **__: object) -> list[object]:
        lookups.append(host)
        answered.wait(20)
        raise socket.gaierror("at last")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    exporter = open_exporter(Destination("http://localhost:1", timeout=TIMEOUT))
    began = time.monotonic()
    results = [exporter.deliver(REQUEST) for _ in range(2)]
    assert time.monotonic() - began < 2 * TIMEOUT + 0.5
    answered.set()
    assert [isinstance(one, Retry) and "not resolved in time" in one.reason for one in results] == [True, True]
    assert lookups == ["localhost"]  # the second attempt waited for the first one's lookup
    exporter.close()


def test_a_response_without_end_is_cut_where_it_comes_in() -> None:
    """Chunk sizes below zero make http.client read to the end: only a bound on the socket stops that."""
    with raw_downstream() as downstream:
        endless = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n" + bytes(50_000_000)
        downstream.answer = lambda: endless
        exporter = open_exporter(Destination(downstream.endpoint, compression="none", timeout=20.0))
        result = exporter.deliver(REQUEST)
        exporter.close()
    assert isinstance(result, Delivered)
    assert "more bytes than may be received" in result.message


def grpc_answers(random: Random) -> Iterator[Callable[[grpc.ServicerContext], bytes]]:
    retry_info = AnyMessage()
    retry_info.Pack(RetryInfo(retry_delay=Duration(seconds=-(2**62), nanos=-(2**31))))
    status = Status(code=8, message="x" * 1000, details=[retry_info]).SerializeToString()
    wrong_type = Status(details=[AnyMessage(type_url=retry_info.type_url, value=b"\xff\xff")]).SerializeToString()
    codes = [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK]

    def fails(details: bytes) -> Callable[[grpc.ServicerContext], bytes]:
        code = random.choice(codes)

        def answer(context: grpc.ServicerContext) -> bytes:
            context.set_trailing_metadata((("grpc-status-details-bin", details), ("x-bin", b"\xff"), ("y", "z")))
            context.abort(code, "\n\x7f" + "é" * 300)

        return answer

    def inflates(context: grpc.ServicerContext) -> bytes:
        context.set_compression(grpc.Compression.Gzip)
        return bytes(3_000_000)

    yield inflates
    yield lambda context: bytes(10_000_000)
    for _ in range(40):
        details = random.choice([status, wrong_type, b"", random.randbytes(50), status[:-3]])
        yield fails(details)
        content = random.choice([random.randbytes(40), b"\x0a" + b"\xff" * 9 + b"\x01", status])
        yield lambda context, content=content: content


def test_an_attempt_over_grpc_has_a_result_whatever_the_answer() -> None:
    with grpc_downstream() as downstream:
        exporter = open_exporter(Destination(downstream.endpoint, "grpc", timeout=5.0))
        for answer in grpc_answers(Random(0)):
            downstream.grpc_answer = answer
            assert isinstance(exporter.deliver(REQUEST), Delivered | Retry | Refused)
        downstream.grpc_answer = lambda context: b""
        assert exporter.deliver(REQUEST) == Delivered()
        exporter.close()


@pytest.mark.parametrize("drip", [b"\x00" * 100, b"HTTP/1.1 400 Bad\r\n\r\n"], ids=["frames", "http1"])
def test_a_byte_at_a_time_does_not_prolong_an_attempt_over_grpc(drip: bytes) -> None:
    with trickling(drip) as port:
        exporter = open_exporter(Destination(f"http://127.0.0.1:{port}", "grpc", timeout=TIMEOUT))
        began = time.monotonic()
        assert isinstance(exporter.deliver(REQUEST), Retry)
        assert time.monotonic() - began < TIMEOUT + 1
        exporter.close()


@contextmanager
def trickling(content: bytes) -> Iterator[int]:
    """Send a byte a tenth of a second to everybody who connects, whatever they say."""

    def trickle(connection: socket.socket) -> None:
        with suppress(OSError), connection:
            for byte in content:
                connection.sendall(bytes([byte]))
                time.sleep(0.1)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=trickle, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        yield int(listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)
        accepting.join()


def test_every_thread_lives_and_everything_arrives_after_hundreds_of_malformed_answers(tmp_path: Path) -> None:
    random = Random(11)
    with raw_downstream() as raw:
        raw.answer = lambda: malformed(random, (*RETRIED, *NO_STATUS))
        settings = settings_for(Downstream(raw.endpoint)).replace(
            "retry: {initial: 100ms}",
            f"compression: none, batch_delay: null, timeout: {TIMEOUT}s, retry: {{initial: 1ms, longest: 2ms}}",
        )
        with process(settings, tmp_path) as running:
            bodies = [one_span(f"span {number}").SerializeToString() for number in range(40)]
            assert {running.post(body) for body in bodies} == {200}
            until(lambda: raw.attempts >= 300, seconds=60)
            assert running.get("/readyz").status == 200
            assert threads_of(running) == {"engine": 1, "release": 1, "delivery": 4, "reload": 1}
            raw.answer = lambda: GOOD
            until(lambda: set(bodies) <= set(raw.accepted), seconds=30)
            assert threads_of(running) == {"engine": 1, "release": 1, "delivery": 4, "reload": 1}
            assert running.end() == 0
    assert running.log[-1]["message"] == "shut down: everything was judged and delivered"
    warnings = [line for line in running.log if line["level"] == "warning"]
    assert [(line["address"], bool(line["error"])) for line in warnings] == [(raw.endpoint, True)]


def threads_of(running: Any) -> dict[str, float]:
    """How many threads run, by name, as `/metrics` says."""
    families = text_string_to_metric_families(running.get("/metrics").data.decode())
    samples = [sample for family in families for sample in family.samples]
    return {one.labels["thread"]: one.value for one in samples if one.name == "goldspan_threads_running"}
