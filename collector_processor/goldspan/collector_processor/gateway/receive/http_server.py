"""An HTTP/1.1 server for ASGI applications that untrusted clients may reach: uvicorn's protocol, with limits.

uvicorn leaves these limits to a proxy in front of it: the number of connections, their idle time, the time a request
may take to arrive, and the size of its headers.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from goldspan.collector_processor.gateway.receive.limits import Limits
from goldspan.collector_processor.gateway.settings.field_types import ListenAddress
from goldspan.collector_processor.gateway.tls import ServerTls
from goldspan.scoring.errors import SettingsError

Application = Callable[[Any, Any, Any], Awaitable[None]]
"""An ASGI application: scope, receive, send."""

_SWEEP_SECONDS = 0.5
_BACKLOG = 1024
_HEADERS_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_NEVER = 1_000_000_000


class _State(Enum):
    IDLE = auto()
    HEADERS = auto()
    BODY = auto()
    RESPONDING = auto()


class HttpServer:
    """Serves one application on one address, in the running event loop."""

    def __init__(
        self, application: Application, listen: ListenAddress, limits: Limits, tls: ServerTls | None = None
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
        self.port = self._server.sockets[0].getsockname()[1]
        self._sweeping = loop.create_task(self._sweep())

    def reload_certificate(self) -> Callable[[], None]:
        """Read the certificate again. The returned function puts it to use. Raises SettingsError."""
        if self._tls is None or self._context is None:
            return lambda: None
        self._tls.context()
        tls, context = self._tls, self._context
        # New handshakes use it. A client CA that is no longer named stays trusted until the next start.
        return lambda: tls.load_into(context)

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

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.closed_by_limits = 0
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
        for connection in [one for one in self._all if one.deadline < now]:
            self.closed_by_limits += 1
            connection.abort()

    def abort_all(self) -> None:
        for connection in list(self._all):
            connection.abort()


class _GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, with a deadline in each state that waits for the client."""

    def __init__(self, config: Config, state: ServerState, connections: _Connections) -> None:
        super().__init__(config=config, server_state=state, app_state={})
        self._connections = connections
        self._reading = _State.IDLE
        self._header_bytes = 0
        self.deadline = float("inf")

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if not self._connections.admit(self):
            transport.abort()
            return
        self._enter(_State.IDLE)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._reading is _State.IDLE:
            self._enter(_State.HEADERS)
        super().data_received(data)
        if self._reading is _State.HEADERS:
            self._header_bytes += len(data)
            if self._header_bytes > self._connections.limits.max_header_bytes and not self.transport.is_closing():
                self.transport.write(_HEADERS_TOO_LARGE)
                self.transport.close()

    def on_headers_complete(self) -> None:
        self._header_bytes = 0
        if self._reading is _State.HEADERS:  # else the request before it has no response yet
            self._reading = _State.BODY
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        cycle = self.cycle
        if cycle.body or cycle.response_complete:
            super().on_body(body)
            return
        cycle.body = body  # type: ignore[assignment] # not copied into an array, as uvicorn does
        if len(body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._enter(_State.RESPONDING)

    def on_response_complete(self) -> None:
        pipelined = bool(self.pipeline)
        super().on_response_complete()
        if not pipelined:
            self._enter(_State.IDLE)
        elif self.cycle.more_body:
            self._enter(_State.BODY)

    def abort(self) -> None:
        """Close the connection without a response."""
        self.deadline = float("inf")
        self.transport.abort()

    def _enter(self, state: _State) -> None:
        self._reading = state
        limits, now = self._connections.limits, asyncio.get_running_loop().time()
        if state in {_State.HEADERS, _State.BODY}:
            self.deadline = now + limits.read_timeout
        elif state is _State.IDLE:
            self.deadline = now + limits.idle_timeout
        else:
            self.deadline = float("inf")
        self._connections.idle(self, is_idle=state is _State.IDLE)
