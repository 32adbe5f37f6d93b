"""POST over HTTP/1.1 connections that are kept: httptools reads answers, sockets do the rest.

A client that does everything takes some 300 microseconds for one POST, several times what the gateway takes to look
for tool calls in 500 spans. Needed here is one method, without redirects, cookies, proxies or content encodings.
"""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

from httptools import HttpParserError, HttpResponseParser

_CHUNK = 64 << 10


class HttpError(OSError):
    """There was no answer, or none by HTTP."""


@dataclass(slots=True)
class Answer:
    """What a server said; of its content the beginning."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict[str, str])
    """Names in lower case."""
    content: bytes = b""


class HttpClient:
    """Posts to one URL; its connections may be used by several threads, each by one at a time."""

    def __init__(self, url: str, *, timeout: float, context: ssl.SSLContext | None, connections: int) -> None:
        """Wait `timeout` seconds for each step; keep so many connections. A `context` makes it TLS."""
        parts = urlsplit(url)
        self._address = (parts.hostname or "", parts.port or (443 if context else 80))
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._head = f"POST {path} HTTP/1.1\r\nhost: {parts.netloc.rpartition('@')[2]}\r\n"
        self._timeout = timeout
        self._context = context
        self._connections = connections
        self._idle: list[socket.socket] = []  # appending to it and popping from it is atomic
        self._closed = False

    def post(self, body: bytes, headers: Mapping[str, str], longest_answer: int) -> Answer:
        """Send a request and return the answer. Raises OSError; ValueError for a header that is none."""
        lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
        if any(line.count("\r") + line.count("\n") != 2 for line in lines):
            raise ValueError("a header holds the end of a line")
        head = f"{self._head}{''.join(lines)}content-length: {len(body)}\r\n\r\n".encode("latin-1")
        connection = self._connection()
        try:
            _send(connection, head, body)
            exchange = _Exchange(longest_answer)
            while not exchange.complete:
                exchange.feed(connection.recv(_CHUNK))
        except BaseException:
            connection.close()
            raise
        if exchange.keeps and not self._closed and len(self._idle) < self._connections:
            self._idle.append(connection)
        else:
            connection.close()
        return exchange.answer

    def close(self) -> None:
        """Close the connections that are not in use, and keep none from now on."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def _connection(self) -> socket.socket:
        while self._idle:
            connection = self._idle.pop()
            if not _says_something(connection):
                return connection
            connection.close()  # an answer to nothing, or its end
        connection = socket.create_connection(self._address, self._timeout)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._context is not None:
                connection = self._context.wrap_socket(connection, server_hostname=self._address[0])
        except BaseException:
            connection.close()
            raise
        return connection


class _Exchange:
    """One answer on its way in."""

    def __init__(self, longest: int) -> None:
        self.answer = Answer()
        self.complete = False
        self.keeps = False
        self._longest = longest
        self._has_headers = False
        self._parser = HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        """Take what came; nothing is the end of the connection."""
        if not data:
            if not self._has_headers or {"content-length", "transfer-encoding"} & self.answer.headers.keys():
                raise HttpError("the connection was closed before the end of an answer")
            self.complete = True
            return
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            raise HttpError(f"an answer that is no HTTP: {error}") from None

    def on_message_begin(self) -> None:
        self.keeps = False  # also where an answer follows that nobody asked for

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.complete:
            self.answer.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if not self.complete:
            self.answer.status = self._parser.get_status_code()
            self._has_headers = self.answer.status >= 200

    def on_body(self, body: bytes) -> None:
        if not self.complete:
            self.answer.content += body[: self._longest - len(self.answer.content) + 1]
            if len(self.answer.content) > self._longest:  # not worth waiting for the rest
                self.answer.content = self.answer.content[: self._longest]
                self.complete = True

    def on_message_complete(self) -> None:
        if not self._has_headers:  # 100 Continue and the like
            self.answer = Answer()
        elif not self.complete:
            self.keeps = self._parser.should_keep_alive()
            self.complete = True


def _says_something(connection: socket.socket) -> bool:
    """Tell whether something can be read at once, be it the end."""
    if not hasattr(select, "poll"):  # Windows
        return bool(select.select([connection], [], [], 0)[0])
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))


def _send(connection: socket.socket, head: bytes, body: bytes) -> None:
    if isinstance(connection, ssl.SSLSocket):
        connection.sendall(head + body)
        return
    sent = connection.sendmsg([head, body]) if hasattr(connection, "sendmsg") else 0  # Windows has none
    if sent < len(head):
        connection.sendall(head[sent:])
        sent = len(head)
    if (rest := sent - len(head)) < len(body):
        connection.sendall(cast("bytes", memoryview(body)[rest:]))
