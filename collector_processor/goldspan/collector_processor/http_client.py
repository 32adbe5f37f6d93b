"""HTTP requests, each with one deadline for all of it and a bound on what is received.

urllib3's timeouts are for one operation of a socket: a server that sends a byte a second never exceeds them, and the
lookup of a name has none. Here the deadline covers lookup, connection, TLS handshake, request and response; and bytes
are counted where they come from the socket, so that no header, chunk or trailer can exceed the bound.
"""

from __future__ import annotations

import math
import socket
import ssl
import threading
import time
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

from goldspan.collector_processor.daemon_threads import call_in_forked_children, call_in_thread

MAX_BODY = 64 << 10
"""Bytes of a response body that are read, if a client does not say otherwise. A longer body is cut."""
_MAX_FRAMING = 1 << 20
"""Bytes that one attempt may receive beside a body and a quarter of it: headers, TLS and chunk framing."""
RETRYABLE_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Answers after which the same request may go through later."""
OTLP_RETRYABLE_STATUS = frozenset({429, 502, 503, 504})
"""Those after which OTLP lets a client send it again: https://opentelemetry.io/docs/specs/otlp/#failures-1."""
_MAX_RETRY_AFTER = 100  # characters of a Retry-After that are read; a date has 29


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    """The beginning of the body as it was sent: a `Content-Encoding`, which no request asks for, is not undone."""
    unread: str = ""
    """Why the body could not be read to its end, if so."""


class HttpClient:
    """Sends requests to one server over kept-alive connections. Never retries, follows no redirect, is thread-safe."""

    def __init__(
        self,
        base: str,
        *,
        connections: int = 1,
        ssl_context: ssl.SSLContext | None = None,
        max_body: int = MAX_BODY,
    ) -> None:
        """Take the URL that paths are added to, and how many connections may be open at once.

        `ssl_context` None: servers are verified by the CAs of the system. A body is cut after `max_body` bytes.
        """
        self._base = base.rstrip("/")
        self._max_body = max_body
        context = None
        if self._base.lower().startswith("https:"):
            context = ssl_context or ssl.create_default_context()
            context.sslsocket_class = _TlsSocket
        self._context = context
        self._connections = connections
        self._pool: urllib3.HTTPConnectionPool | None
        self._reset()
        # A forked child opens its own connections: on its parent's, their requests and responses would mix.
        call_in_forked_children(self._reset)

    def request(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str], *, seconds: float
    ) -> HttpResponse:
        """Send a request and read its response, all within `seconds`.

        Raises:
            urllib3.exceptions.HTTPError, OSError, ValueError: there is no response.

        """
        received = self._max_body + self._max_body // 4 + _MAX_FRAMING
        attempt = _Attempt(min(time.monotonic() + seconds, _END.get()), received)
        token = _ATTEMPT.set(attempt)
        try:
            left = attempt.seconds_left()
            pool = self._pool
            if pool is None:
                self._path = urlsplit(self._base).path
                pool = self._pool = self._pools.connection_from_url(self._base)
            response = pool.urlopen(
                method,
                f"/{(self._path + path).lstrip('/')}",
                body=body,
                headers=headers,
                redirect=False,
                preload_content=False,
                timeout=left,
                pool_timeout=left,  # type: ignore[arg-type] # typed as whole seconds; any number will do
            )
            try:
                content, unread = _beginning(response, self._max_body), ""
            except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
                response.close()
                content, unread = b"", describe(error)
            finally:
                response.release_conn()
        finally:
            _ATTEMPT.reset(token)
        return HttpResponse(response.status, response.headers, content, unread)

    def close(self) -> None:
        """Close the connections that no request uses."""
        self._pool = None
        self._pools.clear()

    def _reset(self) -> None:
        """Start without a connection: at first, and in a forked child."""
        self._pools = urllib3.PoolManager(
            maxsize=self._connections, block=True, retries=False, ssl_context=self._context
        )
        pools: dict[str, Any] = {"http": _HttpPool, "https": _HttpsPool}
        self._pools.pool_classes_by_scheme = pools
        self._pool = None
        self._path = ""


@contextmanager
def requests_end_by(end: float) -> Generator[None]:
    """Let no request of this thread take longer than until `end`, by `time.monotonic`, while the block runs."""
    token = _END.set(min(end, _END.get()))
    try:
        yield
    finally:
        _END.reset(token)


def backoff(failures: int, first: float, longest: float, uniform: Callable[[float, float], float]) -> float:
    """Return the pause after so many failures in a row: doubled each time, random within its upper half.

    So several clients of one server do not return at the same moment.
    """
    return min(longest, first * 2.0 ** min(failures - 1, 30)) * uniform(0.5, 1.0)


def describe(error: BaseException) -> str:
    """Return type and message of what made a request fail, without urllib3's wrapping."""
    inner = error.__cause__ or next((one for one in error.args if isinstance(one, BaseException)), None)
    if isinstance(error, urllib3.exceptions.HTTPError) and inner is not None:
        return describe(inner)
    return " ".join(f"{type(error).__name__}: {error}".split())


def parse_retry_after(value: str | None, now: datetime) -> float | None:
    """Return the seconds in a Retry-After header, which is a number or a date (RFC 9110, section 10.2.3).

    None if it is neither. A number may be too large for any pause; callers have a bound.
    """
    if value is None:
        return None
    text = value.strip()
    if len(text) > _MAX_RETRY_AFTER:
        return None
    if text.isascii() and text.isdecimal():
        return float(text)
    try:
        at = parsedate_to_datetime(text)
        return max(0.0, ((at if at.tzinfo else at.replace(tzinfo=UTC)) - now).total_seconds())
    except Exception:  # noqa: BLE001 - the parser raises many kinds for years, offsets and texts that are out of range
        return None


def _beginning(response: urllib3.BaseHTTPResponse, most: int) -> bytes:
    """Return the beginning of the body; the connection is kept only if that is all of it."""
    content = response.read(most, decode_content=False)
    if response.read(1, decode_content=False):
        response.close()
    return content


@dataclass(slots=True)
class _Attempt:
    """What one attempt may still use."""

    deadline: float
    bytes_left: float

    def seconds_left(self) -> float:
        if (left := self.deadline - time.monotonic()) <= 0:
            raise TimeoutError("the attempt took too long")
        return left

    def count(self, received: int) -> int:
        self.bytes_left -= received
        if self.bytes_left < 0:
            raise OSError("the response has more bytes than may be received")
        return received


_END: ContextVar[float] = ContextVar("goldspan_requests_end", default=math.inf)
_ATTEMPT: ContextVar[_Attempt] = ContextVar("goldspan_http_attempt")
"""The attempt of this thread. The sockets look it up, since urllib3 and http.client stand between."""


class _Socket(socket.socket):
    """A socket that obeys the attempt of its thread."""

    def recv_into(self, *arguments: Any, **options: Any) -> int:
        attempt = _ATTEMPT.get()
        self.settimeout(attempt.seconds_left())
        return attempt.count(super().recv_into(*arguments, **options))

    def sendall(self, *arguments: Any, **options: Any) -> None:
        self.settimeout(_ATTEMPT.get().seconds_left())  # for all of it
        super().sendall(*arguments, **options)


class _TlsSocket(ssl.SSLSocket):
    """The same with TLS. `sendall` calls `send`."""

    def recv_into(self, *arguments: Any, **options: Any) -> int:
        attempt = _ATTEMPT.get()
        self.settimeout(attempt.seconds_left())
        return attempt.count(super().recv_into(*arguments, **options))

    def send(self, *arguments: Any, **options: Any) -> int:
        self.settimeout(_ATTEMPT.get().seconds_left())
        return super().send(*arguments, **options)


class _HttpConnection(HTTPConnection):
    def _new_conn(self) -> socket.socket:
        return _connect(self)


class _HttpsConnection(HTTPSConnection):
    def _new_conn(self) -> socket.socket:
        return _connect(self)


class _HttpPool(urllib3.HTTPConnectionPool):
    ConnectionCls: Any = _HttpConnection


class _HttpsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls: Any = _HttpsConnection


def _connect(connection: HTTPConnection) -> socket.socket:
    """Connect to the first address of the host that accepts. Raises OSError, the last one."""
    attempt = _ATTEMPT.get()
    failure = OSError(f"no address of {connection.host} was found")
    found = _LOOKUPS.addresses(connection.host, connection.port, attempt.seconds_left())
    for family, kind, protocol, _, address in found:
        opened = _Socket(family, kind, protocol)
        try:
            for option in connection.socket_options or ():
                opened.setsockopt(*option)
            opened.settimeout(attempt.seconds_left())
            opened.connect(address)
            opened.settimeout(attempt.seconds_left())  # for the TLS handshake
        except OSError as error:
            opened.close()
            failure = error
        else:
            return opened
    raise failure


class _Lookups:
    """Lookups of names that run. `getaddrinfo` has no timeout.

    Each runs in a thread, one for each name at most, which is left alone if it hangs; where none can be started, in the
    caller's.
    """

    def __init__(self) -> None:
        self._reset()
        call_in_forked_children(self._reset)

    def addresses(self, host: str, port: int, seconds: float) -> Any:
        """Return what `getaddrinfo` returns. Raises OSError, and TimeoutError after `seconds`."""
        key = (host.strip("[]"), port)

        def look_up() -> Any:
            try:
                return socket.getaddrinfo(*key, type=socket.SOCK_STREAM)
            finally:
                with self._lock:
                    self._running.pop(key, None)

        with self._lock:
            if (future := self._running.get(key)) is None:
                with suppress(RuntimeError):  # no more threads, or the process ends
                    future = self._running[key] = call_in_thread(look_up, "goldspan-dns")
        if future is None:
            return look_up()
        try:
            return future.result(seconds)
        except TimeoutError:
            raise TimeoutError(f"the name {key[0]} was not resolved in time") from None

    def _reset(self) -> None:
        """Start with none: at first, and in a forked child, where neither threads nor a lock that one holds survive."""
        self._lock = threading.Lock()
        self._running: dict[tuple[str, int], Future[Any]] = {}


_LOOKUPS = _Lookups()
