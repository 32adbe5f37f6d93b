"""OTLP over gRPC in: the export services of the three signals, as raw bytes.

Two things are done other than usual. Calls are taken as streams of one message, which are the same on the wire as unary
ones, so that token, room and reading time are looked at before the message is. And messages are not unpacked by gRPC,
which knows no bound for that, but by `compression`, which does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import ExitStack
from typing import Any

import grpc
import grpc.aio

from goldspan.collector_processor.gateway import otlp_responses
from goldspan.collector_processor.gateway.interfaces import Headers, Signal
from goldspan.collector_processor.gateway.otlp_responses import OtlpResponse, RequestStatus
from goldspan.collector_processor.gateway.receive.limits import LimitReached, Reservation
from goldspan.collector_processor.gateway.receive.request_handler import RequestHandler, busy
from goldspan.collector_processor.gateway.settings.field_types import ListenAddress
from goldspan.collector_processor.gateway.tls import ServerTls
from goldspan.scoring.errors import SettingsError

METHODS = {
    "/opentelemetry.proto.collector.trace.v1.TraceService/Export": Signal.TRACES,
    "/opentelemetry.proto.collector.logs.v1.LogsService/Export": Signal.LOGS,
    "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export": Signal.METRICS,
}
"""The method of each signal's service."""

_CODES = {code.value[0]: code for code in grpc.StatusCode}
_DETAILS = "grpc-status-details-bin"

_Messages = AsyncIterator[bytes]
_Context = grpc.aio.ServicerContext[bytes, bytes]
_Handler = Callable[[_Messages, _Context], Awaitable[bytes]]


class GrpcReceiver:
    """Serves OTLP/gRPC on one address."""

    protocol = "grpc"

    def __init__(self, reception: RequestHandler, listen: ListenAddress, tls: ServerTls | None = None) -> None:
        self._reception = reception
        self._listen = listen
        self._tls = tls
        self._server: grpc.aio.Server | None = None
        self._renewed: Any = None
        self.port = 0

    async def start(self) -> None:
        """Listen. Raises SettingsError where the address cannot be used."""
        server = grpc.aio.server(options=self._options())
        server.add_generic_rpc_handlers((_Service({path: self._handler(one) for path, one in METHODS.items()}),))
        try:
            if self._tls is None:
                self.port = server.add_insecure_port(self._listen.address)
            else:
                credentials = grpc.dynamic_ssl_server_credentials(
                    _configuration(self._tls), self._next_certificate, self._tls.client_ca is not None
                )
                self.port = server.add_secure_port(self._listen.address, credentials)
        except RuntimeError as error:
            raise SettingsError(f"cannot listen on {self._listen.address}: {error}") from None
        await server.start()
        self._server = server

    async def stop(self, grace_seconds: float) -> None:
        """Take no new calls, and give those that run some time to end."""
        if self._server is not None:
            await self._server.stop(grace_seconds)

    def renew(self) -> Callable[[], None]:
        """Read the certificate anew; what is returned puts it to use. Raises SettingsError."""
        renewed = None if self._tls is None else _configuration(self._tls)

        def use() -> None:
            self._renewed = renewed

        return use

    def _next_certificate(self) -> Any:
        """Hand gRPC, which asks at each handshake, a certificate it does not have yet."""
        renewed, self._renewed = self._renewed, None
        return renewed

    def _options(self) -> list[tuple[str, Any]]:
        limits = self._reception.limits
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
            ("grpc.server_handshake_timeout_ms", int(limits.handshake_timeout * milliseconds)),
            # Clients behind address translation ping; more often than every ten seconds is an attack.
            ("grpc.http2.min_ping_interval_without_data_ms", 10 * milliseconds),
        ]

    def _handler(self, signal: Signal) -> _Handler:
        async def export(messages: _Messages, context: _Context) -> bytes:
            answer = await self._export(signal, messages, context)
            if answer.outcome is not RequestStatus.OK:
                await _abort(context, answer)
            return otlp_responses.response_body(signal, answer, as_json=False)

        return export

    async def _export(self, signal: Signal, messages: _Messages, context: _Context) -> OtlpResponse:
        received = await self._read(messages, context)
        if isinstance(received, OtlpResponse):
            self._reception.count(self.protocol, signal, received)
            return received
        message, headers, place = received
        return await self._reception.receive(self.protocol, signal, message, None, headers, place)

    async def _read(self, messages: _Messages, context: _Context) -> tuple[bytes, Headers, Reservation] | OtlpResponse:
        """Look at what a call begins with, and only then at its message."""
        reception = self._reception
        metadata = [(name, value) for name, value in context.invocation_metadata() or () if isinstance(value, str)]
        authorization = next((value for name, value in metadata if name == "authorization"), None)
        if not reception.tokens.admit(authorization):
            return OtlpResponse(RequestStatus.UNAUTHENTICATED, "expected a valid bearer token in `authorization`")
        headers = reception.headers(metadata)
        if isinstance(headers, OtlpResponse):
            return headers
        place = reception.enter()
        if isinstance(place, OtlpResponse):
            return place
        with ExitStack() as leaving:
            leaving.enter_context(place)
            try:
                async with asyncio.timeout(reception.limits.read_timeout):
                    message = await anext(aiter(messages), None)
                if message is None:
                    return OtlpResponse(RequestStatus.MALFORMED, "expected one message, found none")
                place.grow(len(message))
            except TimeoutError:
                return OtlpResponse(RequestStatus.TOO_SLOW, "the request did not arrive in time")
            except LimitReached as reason:
                return busy(reason)
            leaving.pop_all()
        return message, headers, place


class _Service(grpc.GenericRpcHandler):
    """The methods, for gRPC to find."""

    def __init__(self, handlers: Mapping[str, _Handler]) -> None:
        make: Any = grpc.stream_unary_rpc_method_handler
        self._handlers = {path: make(one) for path, one in handlers.items()}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        return self._handlers.get(handler_call_details.method)


def _configuration(tls: ServerTls) -> Any:
    pem = tls.pem()
    return grpc.ssl_server_certificate_configuration([(pem.key, pem.certificate)], pem.client_ca)


async def _abort(context: _Context, answer: OtlpResponse) -> None:
    details = ((_DETAILS, otlp_responses.status_details(answer)),)
    await context.abort(_CODES[answer.outcome.grpc], answer.message, details)
