"""What strangers try, over raw sockets, each with its outcome; docs/gateway.md lists them as a table."""

from __future__ import annotations

import asyncio
import gzip
import json
import resource
import socket
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import grpc
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from goldspan.collector_processor.gateway.interfaces import Busy
from goldspan.collector_processor.serving.http_server import HttpServer, RequestLimits, send_response
from rigs.gateway_rig import LOOPBACK, Gateway, body_of, event_loop, gateway, one_span, post, raw, read_all, status
from rigs.otlp_requests import varint

MEBIBYTE = 1 << 20
LIMITS = RequestLimits(
    max_request_bytes=4 * MEBIBYTE,
    max_concurrent_requests=8,
    max_bytes_in_flight=16 * MEBIBYTE,
    max_connections=50,
    max_header_bytes=8_000,
    read_timeout=1.0,
    idle_timeout=2.0,
    handshake_timeout=1.0,
)
TOKEN = "only-we-know"
BEARER = {"authorization": f"Bearer {TOKEN}"}
SPAN = one_span().SerializeToString()
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


@pytest.fixture(scope="module")
def running() -> Iterator[Gateway]:
    with gateway(limits=LIMITS, tokens=(TOKEN,), forwarded=("x-tenant",)) as running:
        yield running


@pytest.fixture(autouse=True)
def still_serves(running: Gateway) -> Iterator[None]:
    """After each attack an honest client is served, nothing is left in flight, and nothing bad was kept."""
    running.intake.requests.clear()
    yield
    wait_for_requests(running)  # of the attack, whose clients are gone
    assert status(raw(running.http_port, post(SPAN, **BEARER))) == 200
    assert call(running, SPAN) == grpc.StatusCode.OK
    wait_for_requests(running)


def wait_for_requests(running: Gateway) -> None:
    until = time.monotonic() + 5
    while (running.reception.in_flight.requests or running.reception.in_flight.bytes) and time.monotonic() < until:
        time.sleep(0.01)
    assert (running.reception.in_flight.requests, running.reception.in_flight.bytes) == (0, 0)


def call(
    running: Gateway,
    body: bytes,
    *,
    metadata: tuple[tuple[str, str], ...] = (("authorization", f"Bearer {TOKEN}"),),
    compression: grpc.Compression | None = None,
    method: str = EXPORT,
) -> grpc.StatusCode:
    with grpc.insecure_channel(f"127.0.0.1:{running.grpc_port}") as channel:
        export = channel.unary_unary(method, None, None)
        try:
            export(body, timeout=10, metadata=metadata, compression=compression)
        except grpc.RpcError as error:
            return error.code()
    return grpc.StatusCode.OK


def peak_mebibytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# Sizes


def test_an_oversized_body_is_refused_by_what_it_announces(running: Gateway) -> None:
    answer = raw(running.http_port, post(b"", length=5 * MEBIBYTE, **BEARER))
    assert status(answer) == 413


def test_an_oversized_body_that_announces_nothing_is_cut_off(running: Gateway) -> None:
    head = post(b"", transfer_encoding="chunked", **BEARER).replace(b"content-length: 0\r\n", b"")
    with socket.create_connection(("127.0.0.1", running.http_port), timeout=10) as connection:
        connection.sendall(head)
        sent = 0
        try:
            while sent < 64 * MEBIBYTE:
                connection.sendall(b"10000\r\n" + bytes(0x10000) + b"\r\n")
                sent += 0x10000
        except (BrokenPipeError, ConnectionResetError):
            pass
    assert sent < 32 * MEBIBYTE
    assert running.intake.requests == []


def test_an_oversized_message_is_refused(running: Gateway) -> None:
    assert call(running, bytes(5 * MEBIBYTE)) == grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.parametrize(
    ("encoding", "compress"),
    [("gzip", gzip.compress), ("deflate", zlib.compress), ("zstd", zstandard.ZstdCompressor().compress)],
)
def test_a_bomb_is_refused_unopened(running: Gateway, encoding: str, compress: Any) -> None:
    bomb = compress(bytes(256 * MEBIBYTE))
    before = peak_mebibytes()
    answer = raw(running.http_port, post(bomb, content_encoding=encoding, **BEARER))
    assert status(answer) == 413
    assert b"decompresses to more than" in answer
    assert peak_mebibytes() - before < 32


def test_a_bomb_in_a_message_is_refused_unopened() -> None:
    # The client compresses after it has connected: on a busy machine that takes longer than the other tests may idle.
    limits = LIMITS.model_copy(update={"idle_timeout": 120.0, "read_timeout": 60.0})
    with (
        gateway(limits=limits, tokens=(TOKEN,)) as running,
        grpc.insecure_channel(f"127.0.0.1:{running.grpc_port}") as channel,
    ):
        export = channel.unary_unary(EXPORT, None, None)
        metadata = (("authorization", f"Bearer {TOKEN}"),)
        # The client compresses: what it needs itself is paid here, before the measuring starts.
        for _ in range(2):
            before = peak_mebibytes()
            with pytest.raises(grpc.RpcError) as refused:
                export(bytes(64 * MEBIBYTE), timeout=60, metadata=metadata, compression=grpc.Compression.Gzip)
            assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
            assert "decompresses to more than" in refused.value.details()
    assert peak_mebibytes() - before < 32


@pytest.mark.parametrize(
    ("kind", "small"),
    [
        ("spans", b'{"resourceSpans":[{"scopeSpans":[{"spans":[%b]}]}]}'),
        ("attributes", b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":[%b]}]}]}]}'),
        ("unknown", b'{"resourceSpans":[],"unknown":[%b]}'),
        ("not JSON's", b'{"resourceSpans":[],"unknown":[NaN,%b]}'),
    ],
)
def test_json_of_tiny_values_is_refused_before_objects_are_made_of_it(
    running: Gateway, kind: str, small: bytes
) -> None:
    many = small % b",".join([b"{}"] * (MEBIBYTE))
    before, started = peak_mebibytes(), time.process_time()
    answer = raw(running.http_port, post(many, content_type="application/json", **BEARER))
    assert status(answer) == 413, kind
    assert b"expected at most 524,288 JSON values" in answer
    assert peak_mebibytes() - before < 64
    assert time.process_time() - started < 2


def test_values_in_strings_are_no_values(running: Gateway) -> None:
    text = json.dumps("[" + "{}," * MEBIBYTE + '\\"]')
    document = b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":%b}]}]}]}' % text.encode()
    assert status(raw(running.http_port, post(document, content_type="application/json", **BEARER))) == 200


@pytest.mark.parametrize(
    ("record", "around"),
    [(b"\x12\x00", b"\x12\x0a"), (b"\x92\x00\x00", b"\x12\x0a"), (b"\x12\x00", b"\x0a"), (b"\x0a\x00", b"")],
)
def test_a_request_of_tiny_records_is_refused(running: Gateway, record: bytes, around: bytes) -> None:
    """Spans, also with a tag in two bytes, scopes and resources."""
    records = record * 131_073
    for tag in around:
        records = bytes([tag]) + varint(len(records)) + records
    before = peak_mebibytes()
    answer = raw(running.http_port, post(records, **BEARER))
    assert status(answer) == 413
    assert b"more than 131,072 records" in answer
    assert peak_mebibytes() - before < 32


@pytest.mark.parametrize("acknowledged", [True, False])
@pytest.mark.parametrize("times", [10, 60, 4_000])
def test_metadata_that_unfolds_to_more_than_the_limit_is_refused(
    running: Gateway, times: int, *, acknowledged: bool
) -> None:
    """Each byte refers to a header of 3 kB that was sent once. gRPC has no limit before the client acknowledges it."""

    def frame(kind: int, flags: int, stream: int, content: bytes = b"") -> bytes:
        return len(content).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + content

    def literal(name: bytes, value: bytes, first: int = 0) -> bytes:
        size = bytes([len(value)]) if len(value) < 127 else b"\x7f" + varint(len(value) - 127)
        return bytes([first, len(name)]) + name + size + value

    headers = b"\x83\x86" + literal(b":path", EXPORT.encode()) + literal(b":authority", b"localhost")
    headers += literal(b"te", b"trailers") + literal(b"content-type", b"application/grpc")
    headers += literal(b"authorization", BEARER["authorization"].encode()) + literal(b"x-y", b"z" * 3_000, 0x40)
    headers += b"\xbe" * times
    settings_frame, acknowledgement = frame(4, 0, 0), frame(4, 1, 0)
    before = peak_mebibytes()
    with socket.create_connection(("127.0.0.1", running.grpc_port), timeout=10) as connection:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings_frame)
        if acknowledged:
            connection.recv(65_536)
            connection.sendall(acknowledgement)
        connection.sendall(frame(1, 4, 1, headers) + frame(0, 1, 1, b"\0\0\0\0\0"))
        received = b""
        while b"grpc-status" not in received:
            received += (part := connection.recv(65_536))
            assert part
    assert b"grpc-status\x018" in received
    assert peak_mebibytes() - before < 64


def test_two_tokens_are_no_token(running: Gateway) -> None:
    twice = (("authorization", f"Bearer {TOKEN}"), ("authorization", "Bearer other"))
    for metadata in (twice, twice[::-1]):
        assert call(running, SPAN, metadata=metadata) == grpc.StatusCode.UNAUTHENTICATED


def test_a_bomb_below_the_ceiling_counts_with_what_it_unfolds_to(running: Gateway) -> None:
    many = one_span("x" * 3 * MEBIBYTE).SerializeToString()
    assert status(raw(running.http_port, post(gzip.compress(many), content_encoding="gzip", **BEARER))) == 413
    honest = one_span("x" * 900_000).SerializeToString()
    assert status(raw(running.http_port, post(gzip.compress(honest), content_encoding="gzip", **BEARER))) == 200


@pytest.mark.parametrize("header", ["x" * 9_000, "\r\n".join(["x: y"] * 2_000)])
def test_headers_without_end_are_refused(running: Gateway, header: str) -> None:
    answer = raw(running.http_port, post(SPAN, x_more=header, **BEARER))
    assert status(answer) == 431


def test_a_header_that_never_ends_is_cut_off(running: Gateway) -> None:
    with socket.create_connection(("127.0.0.1", running.http_port), timeout=10) as connection:
        connection.sendall(b"POST /v1/traces HTTP/1.1\r\nx: ")
        try:
            for _ in range(100):
                connection.sendall(b"y" * 10_000)
                time.sleep(0.001)
        except (BrokenPipeError, ConnectionResetError):
            return
        assert status(read_all(connection)) == 431


def test_metadata_without_end_is_refused(running: Gateway) -> None:
    long = (("authorization", f"Bearer {TOKEN}"), ("x-more", "y" * 9_000))
    assert call(running, SPAN, metadata=long) == grpc.StatusCode.RESOURCE_EXHAUSTED


# Slowness and crowds


def test_a_slow_header_is_cut_off(running: Gateway) -> None:
    with socket.create_connection(("127.0.0.1", running.http_port), timeout=10) as connection:
        began = time.monotonic()
        connection.sendall(b"POST /v1/traces HTTP/1.1\r\n")
        assert read_all(connection) == b""
    assert 0.9 < time.monotonic() - began < 8


def test_a_slow_body_is_cut_off_however_it_drips(running: Gateway) -> None:
    with socket.create_connection(("127.0.0.1", running.http_port), timeout=10) as connection:
        began = time.monotonic()
        connection.sendall(post(b"", length=1000, **BEARER))
        try:
            while time.monotonic() - began < 8:
                connection.sendall(b"x")
                time.sleep(0.1)
        except (BrokenPipeError, ConnectionResetError):
            pass
    assert 0.9 < time.monotonic() - began < 8


def test_slow_calls_are_cut_off_and_do_not_keep_others_out(running: Gateway) -> None:
    """More of them than there are worker threads; a fast call is served meanwhile."""

    def dripping() -> Iterator[bytes]:
        time.sleep(20)
        yield SPAN

    with grpc.insecure_channel(f"127.0.0.1:{running.grpc_port}") as channel:
        export = channel.stream_unary(EXPORT, None, None)
        metadata = (("authorization", f"Bearer {TOKEN}"),)
        slow = [export.future(dripping(), timeout=10, metadata=metadata) for _ in range(6)]
        time.sleep(0.2)
        assert call(running, SPAN) == grpc.StatusCode.OK
        codes = {one.code() for one in slow}
    assert codes == {grpc.StatusCode.DEADLINE_EXCEEDED}
    assert all("in time" in one.details() for one in slow)


def test_idle_connections_are_closed(running: Gateway) -> None:
    with socket.create_connection(("127.0.0.1", running.http_port), timeout=10) as connection:
        assert read_all(connection) == b""


def test_a_crowd_of_idle_connections_keeps_nobody_out(running: Gateway) -> None:
    crowd = [socket.create_connection(("127.0.0.1", running.http_port), timeout=10) for _ in range(200)]
    try:
        assert status(raw(running.http_port, post(SPAN, **BEARER))) == 200
        assert running.http.connections <= LIMITS.max_connections
    finally:
        for one in crowd:
            one.close()


def test_a_crowd_of_slow_requests_is_gone_after_the_time_to_read(running: Gateway) -> None:
    crowd = [socket.create_connection(("127.0.0.1", running.http_port), timeout=10) for _ in range(100)]
    for one in crowd:
        try:
            one.sendall(b"POST /v1/traces HTTP/1.1\r\n")
        except OSError:
            continue
    time.sleep(LIMITS.read_timeout + 1)
    assert status(raw(running.http_port, post(SPAN, **BEARER))) == 200
    for one in crowd:
        one.close()


def test_a_crowd_of_grpc_connections_is_bounded(running: Gateway) -> None:
    crowd = [socket.create_connection(("127.0.0.1", running.grpc_port), timeout=10) for _ in range(200)]
    try:
        time.sleep(LIMITS.handshake_timeout + 0.5)
        assert call(running, SPAN) == grpc.StatusCode.OK
    finally:
        for one in crowd:
            one.close()


def test_more_requests_than_there_is_room_for_are_told_to_come_again(running: Gateway) -> None:
    running.intake.open.clear()
    crowd = [socket.create_connection(("127.0.0.1", running.http_port), timeout=10) for _ in range(12)]
    for one in crowd:
        one.sendall(post(SPAN, **BEARER))
    time.sleep(0.3)
    assert call(running, SPAN) == grpc.StatusCode.UNAVAILABLE
    running.intake.open.set()
    answers = [read_all(one) for one in crowd]
    for one in crowd:
        one.close()
    assert sorted(map(status, answers)) == [200] * 8 + [503] * 4
    assert all(b"retry-after: 1\r\n" in one for one in answers if status(one) == 503)
    assert len(running.intake.requests) == 8


def test_bytes_in_flight_are_bounded_as_well(running: Gateway) -> None:
    big = one_span("x" * (3 * MEBIBYTE)).SerializeToString()
    running.intake.open.clear()
    crowd = [socket.create_connection(("127.0.0.1", running.http_port), timeout=10) for _ in range(7)]
    for one in crowd:
        one.sendall(post(big, **BEARER))
    time.sleep(0.3)
    running.intake.open.set()
    answers = [status(read_all(one)) for one in crowd]
    for one in crowd:
        one.close()
    assert answers.count(200) == 5
    assert answers.count(503) == 2


# What is no request


@pytest.mark.parametrize("body", [b"\xff\xff\xff", b"\x0a\x05ab", SPAN[:-3], b"{}"])
def test_bad_protobuf_is_refused(running: Gateway, body: bytes) -> None:
    assert status(raw(running.http_port, post(body, **BEARER))) == 400
    assert call(running, body) == grpc.StatusCode.INVALID_ARGUMENT
    assert running.intake.requests == []


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"nonsense", b'{"resourceSpans": 1}', b"[" * 100_000, b"\xff"])
def test_bad_json_is_refused_in_json(running: Gateway, body: bytes) -> None:
    answer = raw(running.http_port, post(body, **BEARER, content_type="application/json"))
    assert status(answer) == 400
    assert json.loads(body_of(answer))["code"] == 3
    assert running.intake.requests == []


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd"])
def test_bodies_that_are_not_what_they_say_are_refused(running: Gateway, encoding: str) -> None:
    assert status(raw(running.http_port, post(b"no such thing", content_encoding=encoding, **BEARER))) == 400


def test_a_compressed_body_cut_off_is_refused(running: Gateway) -> None:
    for encoding, compress in {"gzip": gzip.compress, "zstd": zstandard.ZstdCompressor().compress}.items():
        cut = compress(SPAN)[:-6]
        assert status(raw(running.http_port, post(cut, content_encoding=encoding, **BEARER))) == 400


@pytest.mark.parametrize(
    "request_text",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET\r\n\r\n",
        b"POST /v1/traces HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/traces HTTP/1.1\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_what_is_not_http_is_refused(running: Gateway, request_text: bytes) -> None:
    assert status(raw(running.http_port, request_text)) in {400, 401, 404, 405, 415}


@pytest.mark.parametrize("metadata", [{"content_type": "text/plain"}, {"content_encoding": "br"}])
def test_unknown_encodings_are_refused(running: Gateway, metadata: dict[str, str]) -> None:
    assert status(raw(running.http_port, post(SPAN, **BEARER, **metadata))) == 415


# Who it is, and where they go


@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer ", "Bearer wrong", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", "Bearer ü"],
)
def test_a_wrong_token_opens_nothing(running: Gateway, authorization: str | None) -> None:
    given = {} if authorization is None else {"authorization": authorization}
    # The body is not even read: this one never comes.
    content = post(b"", length=1000, **given).replace("ü".encode(), b"\xfc")
    answer = raw(running.http_port, content)
    assert status(answer) == 401
    assert b"www-authenticate: Bearer" in answer
    assert TOKEN.encode() not in answer
    if authorization is None or authorization.isascii():
        metadata = () if authorization is None else (("authorization", authorization),)
        assert call(running, SPAN, metadata=metadata) == grpc.StatusCode.UNAUTHENTICATED
    assert running.intake.requests == []


@pytest.mark.parametrize(
    "path",
    ["/", "/v1/traces/../../etc/passwd", "/v1/..%2f..%2fetc%2fpasswd", "/v1/traces%00", "/metrics", "//v1/traces"],
)
def test_other_paths_lead_nowhere(running: Gateway, path: str) -> None:
    assert status(raw(running.http_port, post(SPAN, path, **BEARER))) == 404
    assert call(running, SPAN, method=f"/{path}") == grpc.StatusCode.UNIMPLEMENTED


def test_a_tenant_named_like_a_path_stays_a_header(running: Gateway) -> None:
    assert status(raw(running.http_port, post(SPAN, **BEARER, x_tenant="../../etc/passwd"))) == 200
    assert running.intake.requests[0].headers == (("x-tenant", "../../etc/passwd"),)


def test_a_tenant_that_cannot_be_forwarded_is_refused(running: Gateway) -> None:
    content = post(SPAN, **BEARER, x_tenant="?").replace(b"x-tenant: ?", b"x-tenant: \xfc")
    assert status(raw(running.http_port, content)) == 400


@pytest.mark.parametrize(
    "path", ["/v1%2ftraces", "/v1%2Ftraces", "/%761/traces", "/v1/traces%2f", "/v1/traces/", "/v1//traces"]
)
def test_a_path_is_compared_as_it_was_sent(running: Gateway, path: str) -> None:
    assert status(raw(running.http_port, post(SPAN, path, **BEARER))) == 404


def test_absolute_targets_and_queries_are_served(running: Gateway) -> None:
    for path in ("http://gateway.example:4318/v1/traces", "/v1/traces?a=b"):
        assert status(raw(running.http_port, post(SPAN, path, **BEARER))) == 200


@pytest.mark.parametrize("trailer", [f"authorization: Bearer {TOKEN}", "x-tenant: other", "content-encoding: gzip"])
def test_trailers_are_no_headers(running: Gateway, trailer: str) -> None:
    head = post(b"", transfer_encoding="chunked", **({} if "Bearer" in trailer else BEARER))
    head = head.replace(b"content-length: 0\r\n", b"")
    chunked = b"%x\r\n%b\r\n0\r\n%b\r\n\r\n" % (len(SPAN), SPAN, trailer.encode())
    assert status(raw(running.http_port, head + chunked)) == (401 if "Bearer" in trailer else 200)
    assert [one.headers for one in running.intake.requests] == ([] if "Bearer" in trailer else [()])


def test_trailers_without_end_are_cut_off(running: Gateway) -> None:
    head = post(b"", transfer_encoding="chunked", **BEARER).replace(b"content-length: 0\r\n", b"")
    for endless in (b"0\r\nx: ", b"1;x="):
        with socket.create_connection(("127.0.0.1", running.http_port), timeout=10) as connection:
            connection.sendall(head + endless)
            sent = 0
            with suppress(BrokenPipeError, ConnectionResetError):
                while sent < 64 * MEBIBYTE:
                    connection.sendall(b"y" * 10_000)
                    sent += 10_000
            assert sent < 32 * MEBIBYTE


@pytest.mark.parametrize(
    "lines",
    [
        "content-length: {n}\r\ncontent-length: {n}",
        "content-length: {n}\r\ncontent-length: 1",
        "content-length: {n}, {n}",
        "content-length: +{n}",
        "content-length : {n}",
        "content-length: {n}\r\ntransfer-encoding: chunked",
        "transfer-encoding: chunked\r\ncontent-length: {n}",
        "transfer-encoding: gzip, chunked",
        "transfer-encoding: chunked\r\ntransfer-encoding: chunked",
        "transfer-encoding: identity",
        "transfer-encoding: xchunked",
        "x-folded: a\r\n b\r\ncontent-length: {n}",
        "host: other\r\ncontent-length: {n}",
        "content-length: {n}\n",
    ],
)
def test_requests_that_two_servers_may_read_differently_are_refused(running: Gateway, lines: str) -> None:
    head = f"POST /v1/traces HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\n"
    head += "content-type: application/x-protobuf\r\n" + lines.format(n=len(SPAN)) + "\r\n\r\n"
    assert status(raw(running.http_port, head.encode() + SPAN)) == 400
    assert running.intake.requests == []


@pytest.mark.parametrize(("version", "code"), [("1.0", 200), ("2.0", 400), ("0.9", 400)])
def test_only_versions_1_are_spoken(running: Gateway, version: str, code: int) -> None:
    content = post(SPAN, **BEARER).replace(b"HTTP/1.1", f"HTTP/{version}".encode())
    assert status(raw(running.http_port, content)) == code


def test_chunks_are_of_version_1_1(running: Gateway) -> None:
    content = post(b"0\r\n\r\n", transfer_encoding="chunked", **BEARER).replace(b"content-length: 5\r\n", b"")
    assert status(raw(running.http_port, content.replace(b"HTTP/1.1", b"HTTP/1.0"))) == 400


# Requests one after another


@pytest.mark.parametrize("size", [1, 7, 1000, 1 << 20])
def test_pipelined_requests_are_answered_in_order_however_they_arrive(running: Gateway, size: int) -> None:
    chunked = post(b"", transfer_encoding="chunked", close=False, **BEARER).replace(b"content-length: 0\r\n", b"")
    kinds = [
        (200, post(SPAN, close=False, **BEARER)),
        (400, post(b"\xff\r\n\r\n", close=False, **BEARER)),
        (200, chunked + b"%x\r\n%b\r\n0\r\nx-y: z\r\n\r\n" % (len(SPAN), SPAN)),
    ]
    wanted = kinds * 10 + [(200, post(SPAN, **BEARER))]
    content = b"".join(request for _, request in wanted)
    with socket.create_connection(("127.0.0.1", running.http_port), timeout=10) as connection:
        for at in range(0, len(content), size):
            connection.sendall(content[at : at + size])
        connection.shutdown(socket.SHUT_WR)
        answers = read_all(connection)
    assert [int(one[:3]) for one in answers.split(b"HTTP/1.1 ")[1:]] == [code for code, _ in wanted]


def test_what_a_client_pipelines_and_does_not_read_is_bounded(running: Gateway) -> None:
    """Requests are parsed one at a time, so the memory stays that of the bytes; then the client is cut off."""
    request = b"GET /v1/traces?x HTTP/1.1\r\n\r\n"
    good = post(SPAN, close=False, **BEARER)
    running.intake.open.clear()
    before = peak_mebibytes()
    crowd = [socket.create_connection(("127.0.0.1", running.http_port), timeout=10) for _ in range(8)]
    for one in crowd:
        one.setblocking(False)
        with suppress(BlockingIOError, ConnectionError):
            one.send(good)
            for _ in range(100):
                one.send(request * 10_000)
    time.sleep(0.3)
    assert peak_mebibytes() - before < 64
    running.intake.open.set()
    for one in crowd:
        one.close()


@pytest.mark.parametrize(("pause", "cut_off"), [(None, True), (0.1, False)])
def test_a_client_that_does_not_read_is_cut_off_and_a_slow_one_is_not(pause: float | None, cut_off: bool) -> None:
    size = 2 * MEBIBYTE

    async def large_page(_scope: Any, _receive: Any, send: Any) -> None:
        await send_response(send, 200, [("content-length", str(size))], bytes(size))

    with event_loop() as loop:
        server = HttpServer(large_page, LOOPBACK, LIMITS)
        asyncio.run_coroutine_threadsafe(server.start(), loop).result(10)
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nconnection: close\r\n\r\n")
            until = time.monotonic() + 20
            while server.closed_by_limits == 0 and pause is None and time.monotonic() < until:
                time.sleep(0.05)
            received = 0
            with suppress(ConnectionResetError):
                while part := connection.recv(1 << 17):
                    received += len(part)
                    time.sleep(pause or 0)
        assert server.closed_by_limits == cut_off
        assert (received < size) == cut_off
        asyncio.run_coroutine_threadsafe(server.stop(1), loop).result(10)


def test_other_methods_are_refused(running: Gateway) -> None:
    content = post(SPAN, **BEARER).replace(b"POST", b"PUT")
    assert status(raw(running.http_port, content)) == 405


def test_a_busy_journal_is_told_in_the_terms_of_each_protocol(running: Gateway) -> None:
    accepted = running.intake.receipt
    running.intake.receipt = Busy(2.5, "the journal is full")
    try:
        answer = raw(running.http_port, post(SPAN, **BEARER))
        with (
            grpc.insecure_channel(f"127.0.0.1:{running.grpc_port}") as channel,
            pytest.raises(grpc.RpcError) as refused,
        ):
            channel.unary_unary(EXPORT, None, None)(SPAN, metadata=(("authorization", f"Bearer {TOKEN}"),), timeout=5)
    finally:
        running.intake.receipt = accepted
    assert status(answer) == 503
    assert b"retry-after: 3\r\n" in answer
    assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
    assert "grpc-status-details-bin" in dict(refused.value.trailing_metadata())


_HEAD = b"POST /v1/traces HTTP/1.1\r\n"
_fragments = st.lists(
    st.sampled_from(
        [
            _HEAD,
            b"host: x\r\n",
            b"content-type: application/json\r\n",
            b"content-length: 3\r\n",
            b"content-length: 99999999999999999999\r\n",
            b"transfer-encoding: chunked\r\n",
            b"expect: 100-continue\r\n",
            b"connection: upgrade\r\nupgrade: h2c\r\n",
            f"authorization: Bearer {TOKEN}\r\n".encode(),
            b"content-encoding: gzip\r\n",
            b"\r\n",
            b"{}",
            b"3\r\n{} \r\n0\r\n\r\n",
            b"ffffffffffffffff\r\n",
            SPAN,
        ]
    )
    | st.binary(max_size=40),
    max_size=12,
).map(b"".join)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=_fragments)
@pytest.mark.parametrize("door", ["http", "grpc"])
def test_whatever_bytes_come_the_doors_stay_open(running: Gateway, door: str, content: bytes) -> None:
    port = running.http_port if door == "http" else running.grpc_port
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        try:
            connection.sendall(content)
            connection.shutdown(socket.SHUT_WR)
            read_all(connection)
        except OSError:
            pass  # closed while we were still sending
    assert running.reception.in_flight.requests <= LIMITS.max_concurrent_requests
