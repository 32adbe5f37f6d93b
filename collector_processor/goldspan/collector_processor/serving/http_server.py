"""An HTTP/1.1 server for ASGI applications that untrusted clients may reach: uvicorn's protocol, with limits.

uvicorn leaves these limits to a proxy in front of it: the number of connections, their idle time, the time a request
may take to arrive and its response to be read, the size of headers, and the requests that wait on a connection. The
requests and bytes in flight of all receivers, gRPC's too, are counted here.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import socket
import ssl
import threading
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import Enum, auto
from hashlib import sha256
from typing import Annotated, Any, Self

from pydantic import Field
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from goldspan.collector_processor.serving.field_types import Count, ListenAddress, Seconds, Section, ServerTls, Size
from goldspan.scoring.errors import SettingsError


class RequestLimits(Section):
    """Limits of all receivers together, unless a line says otherwise."""

    max_request_bytes: Size = 20 << 20
    """Size of one request body: compressed, decompressed, and from JSON. It may hold one record (span, log record or
    metric) for each 32 bytes of this limit, and one JSON value for each 8."""
    max_decompression_ratio: Annotated[float, Field(ge=1)] = 200.0
    """How many times its compressed size a body may have, once it is larger than 1 MiB."""
    max_concurrent_requests: Count = 64
    """Requests that are not in the journal yet. One more is answered with 503 and Retry-After."""
    max_bytes_in_flight: Size = 256 << 20
    """Bodies of these requests: compressed, decompressed, and from JSON. Beyond it a request is answered likewise."""
    max_connections: Count = 1024
    """Connections of each receiver. Over HTTP a new connection replaces the one that is idle for longest."""
    max_header_bytes: Size = 16 << 10
    """Size of all headers of one request."""
    read_timeout: Seconds = 30.0
    """Time from the first byte of a request to its last."""
    idle_timeout: Seconds = 120.0
    """How long a connection without a request stays open."""
    handshake_timeout: Seconds = 10.0
    """Time for the TLS handshake and for the HTTP/2 preface."""


class LimitReached(Exception):  # noqa: N818 - it becomes a response
    """A limit on concurrent requests or their bytes is reached."""

    def __init__(self, message: str, *, of_tenant: bool = False) -> None:
        super().__init__(message)
        self.of_tenant = of_tenant
        """By one tenant: the others may go on."""


class InFlightRequests:
    """How many requests and bytes are in flight. Used from any thread."""

    def __init__(self, limits: RequestLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self.requests = 0
        self.bytes = 0
        self._by_tenant = Counter[str]()

    def reserve(self, tenant: str = "") -> Reservation:
        """Count one request more. Raises LimitReached."""
        limit = self._limits.max_concurrent_requests
        with self._lock:
            if self.requests >= limit:
                raise LimitReached(f"{self.requests} requests at once")
            if tenant and (own := self._by_tenant[tenant]) >= max(1, limit - self.requests):
                # One tenant takes half of what all others leave at most, so that there is room for each.
                raise LimitReached(f"{own} requests of this tenant at once", of_tenant=True)
            self.requests += 1
            self._by_tenant[tenant] += 1
        return Reservation(self, tenant)

    def change(self, size: int) -> None:
        """Add to the bytes. Raises LimitReached, and then counts nothing."""
        with self._lock:
            if self.bytes + size > self._limits.max_bytes_in_flight:
                raise LimitReached(f"{self.bytes:,} bytes of requests at once")
            self.bytes += size

    def end(self, tenant: str, size: int) -> None:
        """Count a request and its bytes no longer."""
        with self._lock:
            self.requests -= 1
            self.bytes -= size
            self._by_tenant[tenant] -= 1
            if not self._by_tenant[tenant]:
                del self._by_tenant[tenant]


class Reservation:
    """What one request counts for until it is closed. Used by one thread at a time."""

    __slots__ = ("_bytes", "_closed", "_in_flight", "_tenant")

    def __init__(self, in_flight: InFlightRequests, tenant: str) -> None:
        self._in_flight = in_flight
        self._tenant = tenant
        self._bytes = 0
        self._closed = False

    def grow(self, size: int) -> None:
        """Count so many bytes more. Raises LimitReached."""
        if self._closed:
            raise LimitReached("the request was given up")
        self._in_flight.change(size)
        self._bytes += size

    def close(self) -> None:
        """Count the request and its bytes no longer. Safe to call again."""
        if not self._closed:
            self._closed = True
            self._in_flight.end(self._tenant, self._bytes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]

_SCHEME = "bearer "
Allowed = Mapping[str, frozenset[str]]
"""Values of headers that a token may send, by the name of the header; of others it may send any."""


class BearerTokens:
    """The accepted bearer tokens. Without any, every request is accepted."""

    def __init__(self, tokens: Iterable[str] = (), allowed: Sequence[Allowed] = ()) -> None:
        """Accept these tokens; `allowed` has what each of them may send, where they differ."""
        self._allowed = allowed
        self._digests: tuple[bytes, ...] = ()
        self.replace(tokens)

    def replace(self, tokens: Iterable[str]) -> None:
        """Accept these tokens from now on, and no others."""
        # Digests have one length, and a memory dump of them reveals no token.
        self._digests = tuple(sha256(token.encode()).digest() for token in tokens)

    def admit(self, authorization: str | None) -> bool:
        """Tell whether the value of an `authorization` header holds an accepted token."""
        return self.allowed(authorization) is not None

    def allowed(self, authorization: str | None) -> Allowed | None:
        """Return what the token in the value of an `authorization` header may send; None if it is not accepted."""
        if not self._digests:
            return {}
        value = authorization or ""
        token = value[len(_SCHEME) :] if value[: len(_SCHEME)].lower() == _SCHEME else ""
        digest = sha256(token.strip().encode("utf-8", "surrogateescape")).digest()
        # Compares with every token, so that the time does not tell which one was near.
        matches = [hmac.compare_digest(digest, known) for known in self._digests]
        if not any(matches):
            return None
        return self._allowed[matches.index(True)] if self._allowed else {}


async def send_response(send: Send, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
    """Send a whole response."""
    encoded = [(name.encode(), value.encode()) for name, value in headers]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})


def path_of(scope: Mapping[str, Any]) -> str:
    """Return the path as it was sent: what a proxy in front of the gateway compared its rules with."""
    path: bytes = scope["raw_path"]
    return path.decode("latin-1")


def headers_of(scope: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers of a request by lower-case name. Values of a repeated header are joined with commas."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


Application = Callable[[Any, Any, Any], Awaitable[None]]
"""An ASGI application: scope, receive, send."""

_SWEEP_SECONDS = 0.5
_BACKLOG = 1024
_HEADERS_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_END_OF_HEADERS = b"\r\n\r\n"
_VERSIONS = frozenset({"1.0", "1.1"})
_LONGEST_LENGTH = 20
"""Digits of a Content-Length. The parser refuses what does not fit 64 bits."""
_CHUNKED_PART = 2048  # bytes of a chunked body that are parsed at once: the requests that may follow it there are few
_MAX_HELD_BYTES = 32 << 20
"""What all connections together may have received behind a request without a response. Only clients that pipeline
come near it."""
_SEND_BUFFER = 128 << 10
"""The kernel's buffer for each connection: what a client that does not read may cost. By default it grows."""
_NEVER = 1_000_000_000


class _State(Enum):
    IDLE = auto()
    HEADERS = auto()
    BODY = auto()
    RESPONDING = auto()


class HttpServer:
    """Serves one application on one address, in the running event loop."""

    def __init__(
        self, application: Application, listen: ListenAddress, limits: RequestLimits, tls: ServerTls | None = None
    ) -> None:
        self._config = Config(
            application,
            http=HttpToolsProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            log_level="error",  # with warnings a client could flood the log
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=_NEVER,
        )
        self._listen = listen
        self._limits = limits
        self._tls = tls
        self._state = ServerState()
        self._connections = _Connections(limits)
        self._context = None if tls is None else tls.context()
        self._newest_context = self._context
        if self._context is not None:
            self._context.sni_callback = self._use_newest_context
        self._server: asyncio.Server | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self.port = 0

    async def start(self) -> None:
        """Listen. Raises SettingsError if the address cannot be used."""
        self._config.load()
        loop = asyncio.get_running_loop()
        context = self._context
        try:
            self._server = await loop.create_server(
                lambda: _GuardedProtocol(self._config, self._state, self._connections),
                self._listen.host,
                self._listen.port,
                ssl=context,
                ssl_handshake_timeout=None if context is None else self._limits.handshake_timeout,
                backlog=_BACKLOG,
            )
        except OSError as error:
            raise SettingsError(f"cannot listen on {self._listen}: {error.strerror or error}") from None
        for one in self._server.sockets:  # connections inherit it
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        self.port = self._server.sockets[0].getsockname()[1]
        self._sweeping = loop.create_task(self._sweep())

    def reload_certificate(self) -> Callable[[], None]:
        """Read the certificate again. The returned function puts it to use. Raises SettingsError."""
        context = None if self._tls is None else self._tls.context()

        def use() -> None:
            self._newest_context = context

        return use

    def _use_newest_context(self, handshake: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        """Use the certificate that was read last. Called at each handshake, with or without a server name."""
        if self._newest_context is not None:
            handshake.context = self._newest_context

    async def stop(self, grace_seconds: float) -> None:
        """Accept no new connections, let requests in progress end, and close idle connections."""
        if self._server is None:
            return
        self._server.close()
        for connection in list(self._state.connections):
            connection.shutdown()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                while self._state.connections:
                    await asyncio.sleep(0.01)
        self._connections.abort_all()
        if self._sweeping is not None:
            self._sweeping.cancel()

    @property
    def connections(self) -> int:
        """Number of open connections."""
        return len(self._connections)

    @property
    def closed_by_limits(self) -> int:
        """Connections closed so far because they were too many, too slow or idle for too long."""
        return self._connections.closed_by_limits

    async def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            self._connections.close_overdue(loop.time())


class _Connections:
    """All connections of a server, each with the deadline of its current state."""

    def __init__(self, limits: RequestLimits) -> None:
        self.limits = limits
        self.closed_by_limits = 0
        self.held_bytes = 0
        """Bytes received and not yet parsed."""
        self._all: set[_GuardedProtocol] = set()
        self._idle: OrderedDict[_GuardedProtocol, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._all)

    def admit(self, connection: _GuardedProtocol) -> bool:
        """Add a connection. If there are too many, the one that is idle for longest is closed for it."""
        if len(self._all) >= self.limits.max_connections:
            self.closed_by_limits += 1
            if not self._idle:
                return False
            oldest = next(iter(self._idle))
            self.remove(oldest)
            oldest.abort()
        self._all.add(connection)
        return True

    def remove(self, connection: _GuardedProtocol) -> None:
        self._all.discard(connection)
        self._idle.pop(connection, None)

    def idle(self, connection: _GuardedProtocol, *, is_idle: bool) -> None:
        """Record whether a connection waits for its next request."""
        self._idle.pop(connection, None)
        if is_idle and connection in self._all:
            self._idle[connection] = None

    def close_overdue(self, now: float) -> None:
        for connection in [one for one in self._all if one.is_overdue(now)]:
            self.closed_by_limits += 1
            connection.abort()

    def abort_all(self) -> None:
        for connection in list(self._all):
            connection.abort()


class _FlowControl(FlowControl):
    """uvicorn's flow control, which does not read on while something that was read waits to be parsed."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self.held = False

    def resume_reading(self) -> None:
        if not self.held:
            super().resume_reading()


class _GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, one request at a time, with a deadline in each state that waits for the client.

    What follows a request is not parsed before the response to it is complete: uvicorn makes a kilobyte of objects
    of each 25 bytes that a client pipelines. The parser cannot be paused, so it is fed request by request.
    """

    _flow: _FlowControl

    def __init__(self, config: Config, state: ServerState, connections: _Connections) -> None:
        super().__init__(config=config, server_state=state, app_state={})
        self._connections = connections
        self._reading = _State.IDLE
        self._received = b""
        self._parsed = 0  # how much of `_received` was parsed
        self._held_bytes = 0
        self._header_bytes = 0
        """Bytes of the header block, or of a chunked body since its last content: extensions and trailers."""
        self._last_header_bytes = b""
        self._body_left: int | None = None  # bytes of the body to come; None: it is chunked
        self._unread = 0  # bytes of responses that the client had not read when its deadline was set
        self._ended = False  # whether the client has closed its side
        self.deadline = float("inf")
        self.write_deadline = float("inf")
        """When the client must have read what was written."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = self._flow = _FlowControl(transport)
        if not self._connections.admit(self):
            transport.abort()
            return
        self._enter(_State.IDLE)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.remove(self)
        self._hold(0)
        self._received = b""
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._held_bytes:
            data = self._received[self._parsed :] + data
        self._received, self._parsed = data, 0
        self._parse()

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """Keep the connection for the responses to what was received."""
        if self.scheme == "https" or self._reading is not _State.RESPONDING:
            return None
        self._ended = self._flow.held = True
        return True

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.transport.get_write_buffer_size()
        self.write_deadline = self.loop.time() + self._connections.limits.read_timeout

    def is_overdue(self, now: float) -> bool:
        """Tell whether a deadline has passed. A client that reads some of a response gets a new one for the rest."""
        if self.write_deadline < now and (unread := self.transport.get_write_buffer_size()) < self._unread:
            self._unread = unread
            self.write_deadline = now + self._connections.limits.read_timeout
        return min(self.deadline, self.write_deadline) < now

    def resume_writing(self) -> None:
        super().resume_writing()
        self.write_deadline = float("inf")

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._reading is not _State.BODY:  # then it is a trailer, and those are no headers
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        names = [name for name, _ in self.headers]
        encodings = [value.strip().lower() for name, value in self.headers if name == b"transfer-encoding"]
        assert self.parser is not None
        version = self.parser.get_http_version()
        # The parser refuses the other shapes that two servers may read differently.
        if version not in _VERSIONS or b"#" in self.url or names.count(b"host") > 1:
            raise ValueError("not a request of HTTP/1.1")
        if encodings and (version == "1.0" or encodings != [b"chunked"]):
            raise ValueError("transfer-encoding: expected chunked, of HTTP/1.1")
        length = next((value for name, value in self.headers if name == b"content-length"), b"0")
        self._body_left = None if encodings else int(length[:_LONGEST_LENGTH])
        self._header_bytes = 0
        self._reading = _State.BODY
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._header_bytes = 0
        cycle = self.cycle
        if not cycle.body and not cycle.response_complete:
            cycle.body = body  # type: ignore[assignment] # not copied into an array, as uvicorn does
            body = b""
        elif isinstance(cycle.body, bytes):
            cycle.body = bytearray(cycle.body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        assert self.parser is not None
        if self.parser.should_upgrade():
            self.cycle.keep_alive = False  # the parser reads nothing after it
        super().on_message_complete()
        self._enter(_State.IDLE if self.cycle.response_complete else _State.RESPONDING)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # The last part of a chunked body may have held requests too: uvicorn responds to them one by one.
        if self._reading is _State.RESPONDING and self.cycle.response_complete:
            self._enter(_State.IDLE)
            self._parse()

    def shutdown(self) -> None:
        """Close the connection after the response in progress, or after that to the request behind it."""
        if not self._held_bytes:
            super().shutdown()

    def abort(self) -> None:
        self.deadline = self.write_deadline = float("inf")
        self.transport.abort()

    def _parse(self) -> None:
        """Parse what was received, up to the end of the first request without a complete response."""
        data = self._received
        while self._parsed < len(data) and self._reading is not _State.RESPONDING and not self.transport.is_closing():
            if self._reading is _State.IDLE:
                self._header_bytes = 0
                self._last_header_bytes = b""
                self._enter(_State.HEADERS)
            part = data[self._parsed : self._end_of_part(data)]
            self._parsed += len(part)
            in_headers = self._reading is _State.HEADERS
            if in_headers or self._body_left is None:
                self._header_bytes += len(part)
                if self._header_bytes > self._connections.limits.max_header_bytes:
                    self.transport.write(_HEADERS_TOO_LARGE)
                    self.transport.close()
                    return
            else:
                self._body_left -= len(part)
            super().data_received(part)
            if in_headers:
                self._last_header_bytes = (self._last_header_bytes + part)[-3:]
        self._hold(0 if self.transport.is_closing() else len(data) - self._parsed)
        if self._ended and not self._held_bytes and self._reading is not _State.RESPONDING:
            self.transport.close()

    def _end_of_part(self, data: bytes) -> int:
        """Return how far to parse in one go, so that no second request begins in it."""
        at = self._parsed
        if self._reading is _State.BODY:
            return at + (_CHUNKED_PART if self._body_left is None else self._body_left)
        across = (self._last_header_bytes + data[at : at + 3]).find(_END_OF_HEADERS)
        if across >= 0:
            return at + across + len(_END_OF_HEADERS) - len(self._last_header_bytes)
        end = data.find(_END_OF_HEADERS, at)
        return len(data) if end < 0 else end + len(_END_OF_HEADERS)

    def _hold(self, size: int) -> None:
        """Record how much waits to be parsed, and do not read on meanwhile."""
        self._connections.held_bytes += size - self._held_bytes
        self._held_bytes = size
        if size and self._connections.held_bytes > _MAX_HELD_BYTES:
            self._connections.closed_by_limits += 1
            self.abort()
        elif size:
            self._flow.held = True
            self.flow.pause_reading()
        elif self._flow.held and not self._ended:
            self._flow.held = False
            self.flow.resume_reading()

    def _enter(self, state: _State) -> None:
        self._reading = state
        limits, now = self._connections.limits, self.loop.time()
        if state is _State.HEADERS:
            self.deadline = now + limits.read_timeout
        elif state is _State.IDLE:
            self.deadline = now + limits.idle_timeout
        else:
            self.deadline = float("inf")
        self._connections.idle(self, is_idle=state is _State.IDLE)
