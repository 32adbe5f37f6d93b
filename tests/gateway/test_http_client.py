"""The client that posts what leaves, against servers that say every single byte."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from goldspan.collector_processor.gateway.http_client import Answer, HttpClient, HttpError

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Server:
    """Gives prepared answers, several to a connection; `None` closes it."""

    def __init__(self, *connections: Sequence[bytes | None]) -> None:
        self.requests: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1/traces?a=b"
        self._connections = connections
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        for answers in self._connections:
            connection, _ = self._listener.accept()
            with connection:
                for answer in answers:
                    if answer is None:
                        break
                    self.requests.append(_request(connection))
                    connection.sendall(answer)
        self._listener.close()


def _request(connection: socket.socket) -> bytes:
    got = b""
    while b"\r\n\r\n" not in got:
        got += connection.recv(1 << 16)
    head, _, body = got.partition(b"\r\n\r\n")
    size = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    while len(body) < size:
        body += connection.recv(1 << 16)
    assert len(body) == size
    return head + b"\r\n\r\n" + body


@contextmanager
def client_of(server: Server) -> Iterator[HttpClient]:
    client = HttpClient(server.url, timeout=5.0, context=None, connections=2)
    try:
        yield client
    finally:
        client.close()
        server.thread.join(5.0)


def test_a_request_is_written_as_it_should_be_and_its_connection_used_again() -> None:
    server = Server([OK, OK])
    with client_of(server) as client:
        assert client.post(b"x" * 3_000_000, {"x-tenant": "a"}, 10).content == b"ok"
        assert client.post(b"", {}, 10) == Answer(200, {"content-length": "2"}, b"ok")
    first, second = server.requests
    host = server.url.removeprefix("http://").partition("/")[0]
    head, _, body = first.partition(b"\r\n\r\n")
    expected = ["POST /v1/traces?a=b HTTP/1.1", f"host: {host}", "x-tenant: a", "content-length: 3000000"]
    assert head.decode().split("\r\n") == expected
    assert body == b"x" * 3_000_000
    assert second.endswith(b"content-length: 0\r\n\r\n")


@pytest.mark.parametrize(
    ("answer", "status", "content"),
    [
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\n\r\n", 200, b"abc"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, 200, b"ok"),
        (b"HTTP/1.1 503 Busy\r\n\r\nuntil the end", 503, b"until the "),
        (b"HTTP/1.0 200 OK\r\n\r\nold", 200, b"old"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\n" + b"z" * 30, 200, b"z" * 10),
        (OK + b"HTTP/1.1 400 What\r\nContent-Length: 1\r\n\r\n!", 200, b"ok"),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", 200, b"ok"),
    ],
    ids=["chunked", "continue", "until-the-end", "1.0", "no-content", "long", "two-answers", "close"],
)
def test_any_form_of_an_answer_is_read_and_the_next_request_gets_its_own(
    answer: bytes, status: int, content: bytes
) -> None:
    server = Server([answer], [OK])
    with client_of(server) as client:
        got = client.post(b"1", {}, 10)
        assert (got.status, got.content) == (status, content)
        threading.Event().wait(0.1)  # until the server has closed
        assert client.post(b"2", {}, 10) == Answer(200, {"content-length": "2"}, b"ok")
    assert [one[-1:] for one in server.requests] == [b"1", b"2"]


@pytest.mark.parametrize(
    "answer",
    [b"", b"HTTP/1.1 200 OK\r\nContent-Le", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok", b"220 mail\r\n"],
    ids=["nothing", "half-a-header", "half-a-body", "another-protocol"],
)
def test_an_answer_that_breaks_off_or_is_none_is_an_error(answer: bytes) -> None:
    with client_of(Server([answer, None])) as client, pytest.raises(HttpError):
        client.post(b"1", {}, 10)


def test_a_connection_that_was_closed_meanwhile_is_not_used() -> None:
    server = Server([OK, None], [OK])
    with client_of(server) as client:
        client.post(b"1", {}, 10)
        threading.Event().wait(0.1)
        assert client.post(b"2", {}, 10).content == b"ok"


def test_a_header_cannot_end_its_line() -> None:
    client = HttpClient("http://127.0.0.1:9", timeout=1.0, context=None, connections=1)
    with pytest.raises(ValueError, match="end of a line"):
        client.post(b"", {"x-tenant": "a\r\nx-other: b"}, 10)
