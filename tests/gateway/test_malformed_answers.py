"""A downstream that answers with what no server should send: every attempt ends in time, and every thread lives."""

from __future__ import annotations

import gzip
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from prometheus_client.parser import text_string_to_metric_families

from downstream import Downstream, grpc_downstream
from gateway_process import process, settings_for
from gateway_rig import one_span
from goldspan.collector_processor.gateway.deliver.destinations import open_exporter
from goldspan.collector_processor.gateway.interfaces import Delivered, Refused, Request, Retry, Signal
from goldspan.collector_processor.gateway.settings.sections import Destination
from pipeline_rig import until

TIMEOUT = 0.5
REQUEST = Request(Signal.TRACES, one_span("x" * 1000).SerializeToString())
GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

RETRIED = ("HTTP/1.1 503 Service Unavailable", "HTTP/1.1 429", "HTTP/1.0 502 x", "HTTP/1.1 504 " + "y" * 60_000)
NO_STATUS = ("", "\x00\x01\x02", "HTTP/1.1", "HTTP/1.1 -1 x", "HTTP/1.1 " + "9" * 5000, "ICY 200 OK", "x" * 70_000)
OTHER = ("HTTP/1.1 200 OK", "HTTP/1.1 204", "HTTP/1.1 301 x", "HTTP/1.1 400", "HTTP/1.1 500", "HTTP/1.1 999 x")
DATES = [
    f"Sat, 21 Nov {year} {clock} {zone}"
    for year in ("99999999999999999", "123456789012", "9" * 5000, "0", "9999")
    for clock in ("10:00:30", "99:99:99", "1e5:0:0")
    for zone in ("GMT", "+99999999999", "-" + "9" * 5000, "+2460")
]
PAUSES = [
    *DATES[:-12],
    "-1",
    "",
    "soon",
    "٣",
    "1e400",
    "nan",
    "9" * 5000,
    "9" * 101,
    "\x00",
    "Sat,",
    ",",
    "1 2 3 4 5 6",
]
"""Values of Retry-After that ask for no pause that goldspan would keep to."""
NUMBERS = (
    "9" * 5000,
    "9" * 4000,
    '"' + "9" * 5000 + '"',
    "1e400",
    "-1",
    "NaN",
    "true",
    "[[]]",
    "1" + "0" * 4000 + ".0",
)
DEEP = b"[" * 100_000


def json_body(random: Random) -> bytes:
    partial = random.choice(
        [f'{{"rejectedSpans": {random.choice(NUMBERS)}}}', "1", "null", '"x"', '{"errorMessage": 5}']
    )
    return f'{{"partialSuccess": {partial}, "code": {random.choice(NUMBERS)}, "message": [{{}}]}}'.encode()


BODIES: list[Callable[[Random], bytes]] = [
    lambda random: b"",
    lambda random: random.randbytes(random.choice([1, 7, 300, 70_000])),
    json_body,
    lambda random: DEEP,
    lambda random: b"\x0a" + b"\xff" * 9 + b"\x01",
    lambda random: b"\x0a\x0b\x08" + b"\xff" * 9 + b"\x01",  # rejected_spans: -1
    lambda random: gzip.compress(bytes(10_000_000)),
    lambda random: b"x" * 3_000_000,
]
LENGTHS = ("-1", "-" + "9" * 5000, "9" * 5000, "5, 6", "", "x", "0x10", "99999999")
CHUNKS = (
    b"-1\r\n",
    b"ffffffffffffffffffff\r\n",
    b"z\r\n",
    b"9" * 70_000 + b"\r\n",
    b"5\r\nab",
    b"0\r\n" + b"a: b\r\n" * 500,
)
HEADERS = (
    "Content-Type: application/json",
    "Content-Type: application/json; charset=" + "x" * 500,
    "Content-Encoding: gzip",
    "Content-Encoding: br, zstd, gzip",
    "Location: http://127.0.0.1:1/" + "x" * 5000,
    "Connection: upgrade, close",
    "no colon",
    ": empty",
    "X: " + "y" * 70_000,
    "\r\n".join(f"X-{number}: y" for number in range(200)),
)


def malformed(random: Random, statuses: tuple[str, ...]) -> bytes:
    """One answer, of statuses as given and everything else at random."""
    head = [random.choice(statuses)]
    head += random.sample(HEADERS, random.randint(0, 3))
    if random.random() < 0.7:
        head.append(f"Retry-After: {random.choice(PAUSES)}")
    body = random.choice(BODIES)(random)
    framing = random.random()
    if framing < 0.5:
        head.append(f"Content-Length: {len(body)}")
    elif framing < 0.7:
        head.append(f"Content-Length: {random.choice(LENGTHS)}")
    elif framing < 0.9:
        head.append("Transfer-Encoding: chunked")
        body = random.choice(CHUNKS) + body
    begin = b"HTTP/1.1 100 Continue\r\n\r\n" * random.choice([0, 0, 0, 1, 50])
    return begin + "\r\n".join(head).encode("utf-8", "replace") + b"\r\n\r\n" + body


class RawDownstream:
    """Reads requests over TCP and answers with bytes."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.answer: Callable[[], bytes] = lambda: GOOD
        self.drip = False
        """Send one byte a tenth of a second."""
        self.attempts = 0
        self.accepted: list[bytes] = []
        """Bodies whose request was answered well."""


@contextmanager
def raw_downstream() -> Iterator[RawDownstream]:
    def serve(connection: socket.socket, random: Random) -> None:
        with connection, connection.makefile("rb") as file, suppress(OSError):
            while file.readline():
                length = 0
                while (line := file.readline()) not in (b"\r\n", b""):
                    name, _, value = line.partition(b":")
                    length = int(value) if name.lower() == b"content-length" else length
                body = file.read(length)
                downstream.attempts += 1
                answer = downstream.answer()
                if answer == GOOD:
                    downstream.accepted.append(body)
                if downstream.drip:
                    for byte in answer:
                        connection.sendall(bytes([byte]))
                        time.sleep(0.1)
                connection.sendall(answer)
                if answer != GOOD:
                    if random.random() < 0.2:  # a reset
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection = listener.accept()[0]
                threading.Thread(target=serve, args=(connection, Random(downstream.attempts)), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0), backlog=200) as listener:
        downstream = RawDownstream(f"http://127.0.0.1:{listener.getsockname()[1]}")
        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        yield downstream
        listener.shutdown(socket.SHUT_RDWR)
        accepting.join()


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


def test_a_response_without_end_is_cut_where_it_comes_in() -> None:
    """Chunk sizes below zero make http.client read to the end: only a bound on the socket stops that."""
    with raw_downstream() as downstream:
        endless = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n" + bytes(50_000_000)
        downstream.answer = lambda: endless
        exporter = open_exporter(Destination(downstream.endpoint, compression="none", timeout=20.0))
        result = exporter.deliver(REQUEST)
        exporter.close()
    assert isinstance(result, Delivered)
    assert "more than 1,048,576 bytes" in result.message


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
    def trickle(listener: socket.socket) -> None:
        with suppress(OSError), listener.accept()[0] as connection:
            for byte in drip:
                connection.sendall(bytes([byte]))
                time.sleep(0.1)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=trickle, args=(listener,), daemon=True).start()
        exporter = open_exporter(Destination(f"http://127.0.0.1:{listener.getsockname()[1]}", "grpc", timeout=TIMEOUT))
        began = time.monotonic()
        assert isinstance(exporter.deliver(REQUEST), Retry)
        assert time.monotonic() - began < TIMEOUT + 1
        exporter.close()


def test_every_thread_lives_and_everything_arrives_after_hundreds_of_malformed_answers(tmp_path: Path) -> None:
    random = Random(11)
    with raw_downstream() as raw:
        raw.answer = lambda: malformed(random, (*RETRIED, *NO_STATUS))
        settings = settings_for(Downstream(raw.endpoint)).replace(
            "retry: {initial: 100ms}", f"compression: none, timeout: {TIMEOUT}s, retry: {{initial: 1ms, longest: 2ms}}"
        )
        with process(settings, tmp_path) as running:
            bodies = [one_span(f"span {number}").SerializeToString() for number in range(40)]
            assert {running.post(body) for body in bodies} == {200}
            until(lambda: raw.attempts >= 300, seconds=60)
            assert running.get("/readyz").status == 200
            assert threads_of(running) == {"engine": 1, "delivery": 4, "reload": 1}
            raw.answer = lambda: GOOD
            until(lambda: set(bodies) <= set(raw.accepted), seconds=30)
            assert threads_of(running) == {"engine": 1, "delivery": 4, "reload": 1}
            assert running.end() == 0
    assert running.log[-1]["message"] == "shut down: everything was judged and delivered"
    warnings = [line for line in running.log if line["level"] == "warning"]
    assert [(line["address"], bool(line["error"])) for line in warnings] == [(raw.endpoint, True)]


def threads_of(running: Any) -> dict[str, float]:
    """How many threads run, by name, as `/metrics` says."""
    families = text_string_to_metric_families(running.get("/metrics").data.decode())
    samples = [sample for family in families for sample in family.samples]
    return {one.labels["thread"]: one.value for one in samples if one.name == "goldspan_threads_running"}
