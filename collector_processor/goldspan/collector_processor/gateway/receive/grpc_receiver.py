"""The OTLP/gRPC receiver: the export services of the three signals, as raw bytes.

Two things are unusual. Calls are handled as streams of one message, which look the same on the wire as unary calls, so
that token, limits and read timeout are checked before the message is read. And gRPC does not decompress messages,
because it has no limit for that: `compression` does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack
from typing import Any

import grpc
import grpc.aio

from goldspan.collector_processor.gateway.interfaces import (
    GRPC_METHODS,
    Headers,
    OtlpResponse,
    RequestStatus,
    encode_response,
    status_as_protobuf,
)
from goldspan.collector_processor.gateway.receive.http_receiver import ReceivedRequest, RequestHandler, busy
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.collector_processor.serving.field_types import ListenAddress, ServerTls
from goldspan.collector_processor.serving.http_server import LimitReached
from goldspan.scoring.errors import SettingsError

_CODES = {code.value[0]: code for code in grpc.StatusCode}
_DETAILS = "grpc-status-details-bin"
_METADATA_OVERHEAD = 32  # what HTTP/2 counts for a header beside its name and value
_LONGEST_CONNECTION_SECONDS = 600
"""Then a connection is replaced, between two requests: one whose client reads no responses counts as never idle."""

_Messages = AsyncIterator[bytes]
_Context = grpc.aio.ServicerContext[bytes, bytes]
_Method = Callable[[_Messages, _Context], Awaitable[bytes]]


class GrpcReceiver:
    """Receives OTLP/gRPC on one address."""

    def __init__(self, handler: RequestHandler, listen: ListenAddress, tls: ServerTls | None = None) -> None:
        self._handler = handler
        self._listen = listen
        self._tls = tls
        self._server: grpc.aio.Server | None = None
        self._new_certificate: Any = None
        self.port = 0

    async def start(self) -> None:
        """Listen. Raises SettingsError if the address cannot be used."""
        server = grpc.aio.server(options=self._options())
        make: Any = grpc.stream_unary_rpc_method_handler
        for path, signal in GRPC_METHODS.items():
            _, service, method = path.split("/")
            methods = {method: make(self._export_method(signal))}
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
        try:
            if self._tls is None:
                self.port = server.add_insecure_port(str(self._listen))
            else:
                credentials = grpc.dynamic_ssl_server_credentials(
                    _configuration(self._tls), self._next_certificate, self._tls.client_ca is not None
                )
                self.port = server.add_secure_port(str(self._listen), credentials)
        except RuntimeError as error:
            reason = str(error).partition(";")[0]  # gRPC tells more to its own log alone
            message = f"cannot listen on {self._listen}: {reason}: does another process listen there?"
            raise SettingsError(message) from None
        await server.start()
        self._server = server

    async def stop(self, grace_seconds: float) -> None:
        """Accept no new calls, and wait for running ones to end."""
        if self._server is not None:
            await self._server.stop(grace_seconds)

    def reload_certificate(self) -> Callable[[], None]:
        """Read the certificate again. The returned function puts it to use. Raises SettingsError."""
        certificate = None if self._tls is None else _configuration(self._tls)

        def use() -> None:
            self._new_certificate = certificate

        return use

    def _next_certificate(self) -> Any:
        """Return a certificate that gRPC does not have yet, or None. gRPC asks at each handshake."""
        certificate, self._new_certificate = self._new_certificate, None
        return certificate

    def _options(self) -> list[tuple[str, Any]]:
        limits = self._handler.limits
        milliseconds = 1000
        return [
            ("grpc.so_reuseport", 0),
            ("grpc.per_message_decompression", 0),
            ("grpc.max_receive_message_length", limits.max_request_bytes),
            ("grpc.max_metadata_size", limits.max_header_bytes),
            ("grpc.absolute_max_metadata_size", limits.max_header_bytes),
            ("grpc.max_concurrent_streams", limits.max_concurrent_requests),
            ("grpc.max_allowed_incoming_connections", limits.max_connections),
            ("grpc.max_connection_idle_ms", int(limits.idle_timeout * milliseconds)),
            ("grpc.max_connection_age_ms", _LONGEST_CONNECTION_SECONDS * milliseconds),
            ("grpc.max_connection_age_grace_ms", int(limits.read_timeout * milliseconds)),
            # A client that does not answer a ping is gone, or reads nothing.
            ("grpc.keepalive_time_ms", int(limits.idle_timeout * milliseconds)),
            ("grpc.keepalive_timeout_ms", int(limits.read_timeout * milliseconds)),
            ("grpc.http2.settings_timeout", int(limits.handshake_timeout * milliseconds)),
            ("grpc.server_handshake_timeout_ms", int(limits.handshake_timeout * milliseconds)),
            # Clients behind NAT ping. More than one ping in ten seconds is abuse.
            ("grpc.http2.min_ping_interval_without_data_ms", 10 * milliseconds),
        ]

    def _export_method(self, signal: Signal) -> _Method:
        async def export(messages: _Messages, context: _Context) -> bytes:
            request = await self._read(signal, messages, context)
            if isinstance(request, ReceivedRequest):
                response = await self._handler.process(request)
            else:
                response = request
                self._handler.refuse("grpc", signal, response, _names(context), _address(context))
            if response.status is not RequestStatus.OK:
                details = ((_DETAILS, status_as_protobuf(response)),)
                await context.abort(_CODES[response.status.grpc], response.message, details)
            return encode_response(signal, response, as_json=False)

        return export

    def _check(self, context: _Context) -> Headers | OtlpResponse:
        """Return the headers to forward, or why the request is refused. Repeated names are joined, as over HTTP.

        gRPC checks the size only once the client has acknowledged the limit. So it is checked here too, and nothing of
        the metadata is kept while the message is awaited.
        """
        handler = self._handler
        metadata: dict[str, str] = {}
        size = 0
        for name, value in context.invocation_metadata() or ():
            size += len(name) + len(value) + _METADATA_OVERHEAD
            if size > handler.limits.max_header_bytes:
                message = f"metadata: expected at most {handler.limits.max_header_bytes:,} bytes"
                return OtlpResponse(RequestStatus.TOO_LARGE, message)
            if isinstance(value, str):
                metadata[name] = f"{metadata[name]}, {value}" if name in metadata else value
        return handler.admit(metadata)

    async def _read(self, signal: Signal, messages: _Messages, context: _Context) -> ReceivedRequest | OtlpResponse:
        """Check the metadata, then read the message."""
        handler = self._handler
        headers = self._check(context)
        if isinstance(headers, OtlpResponse):
            return headers
        reservation = handler.reserve(headers)
        if isinstance(reservation, OtlpResponse):
            return reservation
        with ExitStack() as on_refusal:
            on_refusal.enter_context(reservation)
            try:
                async with asyncio.timeout(handler.limits.read_timeout):
                    message = await anext(aiter(messages), None)
                if message is None:
                    return OtlpResponse(RequestStatus.MALFORMED, "expected one message, found none")
                reservation.grow(len(message))
            except TimeoutError:
                return OtlpResponse(RequestStatus.TOO_SLOW, "the request did not arrive in time")
            except LimitReached as reason:
                return busy(reason)
            on_refusal.pop_all()
        return ReceivedRequest("grpc", signal, message, None, headers, reservation, _address(context))


def _names(context: _Context) -> dict[str, str]:
    """Return the metadata that is text, of a call that was refused."""
    return {name: value for name, value in context.invocation_metadata() or () if isinstance(value, str)}


def _address(context: _Context) -> str:
    """Return the address of the client, as gRPC's `ipv4:127.0.0.1:4711` has it."""
    return context.peer().partition(":")[2].rpartition(":")[0].strip("[]").replace("%5B", "").replace("%5D", "")


def _configuration(tls: ServerTls) -> Any:
    pem = tls.pem()
    make: Any = grpc.ssl_server_certificate_configuration
    return make([(pem.key, pem.certificate)], pem.ca)
