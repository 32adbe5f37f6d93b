"""The gateway as a server: starts everything, handles signals, reloads files, and shuts down without losing data."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from typing import Protocol

from goldspan.collector_processor.emit.emitters import scope_version
from goldspan.collector_processor.gateway.deliver.exporters import (
    ExporterBySignal,
    open_exporter,
)
from goldspan.collector_processor.gateway.interfaces import Exporter
from goldspan.collector_processor.gateway.pipeline import GatewayPipeline
from goldspan.collector_processor.gateway.receive.http_receiver import HttpReceiver, RequestHandler
from goldspan.collector_processor.gateway.settings.sections import GatewaySettings
from goldspan.collector_processor.gateway.unread_services import Advise
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.collector_processor.serving import process
from goldspan.collector_processor.serving.admin import Admin, MetricsPage, Sample
from goldspan.collector_processor.serving.field_types import ListenAddress, Secret, state_folder
from goldspan.collector_processor.serving.golden_files import GoldenFiles, GoldenReloader
from goldspan.collector_processor.serving.http_server import BearerTokens, HttpServer
from goldspan.scoring.errors import SettingsError
from goldspan.scoring.goldens import GoldenIndex

_logger = logging.getLogger("goldspan.gateway")

_WORKERS = 16  # threads that decompress, convert and hand over requests: while one waits for the disk, others compute
_GRACE_SECONDS = 5.0  # longest time that requests in progress may take at a shutdown

NewPipeline = Callable[[GatewaySettings, Mapping[str, str], Exporter, GoldenIndex], GatewayPipeline]
"""Makes the pipeline."""


class _Listener(Protocol):
    """A server on one address: a receiver or the admin pages."""

    port: int

    async def start(self) -> None: ...

    async def stop(self, grace_seconds: float) -> None: ...

    def reload_certificate(self) -> Callable[[], None]: ...


class GatewayServer:
    """One gateway. Its constructor reads files and secrets; `run` serves until it is stopped.

    Raises, in its constructor: FileError, SettingsError.
    """

    def __init__(self, settings: GatewaySettings, environ: Mapping[str, str], new_pipeline: NewPipeline) -> None:
        self._settings = settings
        self._environ = environ
        self._workers = ThreadPoolExecutor(
            min(_WORKERS, settings.limits.max_concurrent_requests), thread_name_prefix="goldspan-receive"
        )
        tokens = settings.receivers.tokens
        allowed = [{name: frozenset(values) for name, values in token.tenants.items()} for token in tokens]
        self._tokens = BearerTokens(_read(tokens, environ), allowed)
        self._admin_tokens = BearerTokens(_admin_tokens(settings, environ))
        files = GoldenFiles(settings.goldens, settings.criterion, state_folder(environ) / "goldens")
        goldens = files.load_each()
        self._exporter = ExporterBySignal(_open_exporters(settings, environ))
        self._pipeline = new_pipeline(settings, environ, self._exporter, goldens)
        self._golden_files = files
        self._golden_reloader = GoldenReloader(
            files, self._pipeline.reload_goldens, loaded_at=time.time(), now=time.time
        )
        self._refused_credentials = ""
        self._credential_reloader = process.FileReloader(
            process.credential_files(settings), self._reload_credentials, retry=True
        )
        self._file_watch = process.FileWatch(settings.watch_files, check=self._check_files, reload=self._reload_files)
        self._handler = RequestHandler(
            self._pipeline.accept,
            settings.limits,
            self._workers,
            tokens=self._tokens,
            forwarded=settings.receivers.forward_headers,
            tenant_limits=settings.tenant_limits,
            accept_waits=settings.journal.sync == "full",
        )
        self._ready = False
        self._drained = False
        self._stop = asyncio.Event()
        self._receivers = self._make_receivers()
        self._admin = self._make_admin()
        self._listeners = self._receivers | ({} if self._admin is None else {"admin": self._admin})
        self.addresses: dict[str, str] = {}
        """The address of each receiver and of the admin pages, once they listen."""
        _logger.info("golden files loaded", extra={"goldens": len(goldens.goldens)})

    async def run(self, started: Callable[[GatewayServer], object] | None = None) -> bool:
        """Serve until `stop` or a signal. Return whether everything was scored and delivered at the end.

        Raises SettingsError if an address cannot be used.
        """
        loop = asyncio.get_running_loop()
        async with contextlib.AsyncExitStack() as at_end:
            at_end.push_async_callback(self._shut_down)
            at_end.enter_context(_signal_handlers(loop, self.stop, self._file_watch.reload_soon))
            self._file_watch.start()
            for name, listener in self._listeners.items():
                await listener.start()
                self.addresses[name] = self._address(name, listener.port)
                _logger.info("listening", extra={"server": name, "address": self.addresses[name]})
            self._ready = True
            process.notify_systemd("READY=1")
            if started is not None:
                started(self)
            await self._stop.wait()
        return self._drained

    def stop(self) -> None:
        """Begin to shut down. Must be called in the event loop."""
        self._stop.set()

    async def _shut_down(self) -> None:
        self._ready = False
        process.notify_systemd("STOPPING=1")
        timeout = self._settings.shutdown_timeout
        began = time.monotonic()
        _logger.info("shutting down: new requests are refused")
        self._handler.closing = True
        self._file_watch.stop()
        grace = min(_GRACE_SECONDS, timeout)
        await asyncio.gather(*(receiver.stop(grace) for receiver in self._receivers.values()))
        left = max(0.0, timeout - (time.monotonic() - began))
        try:
            self._drained = await asyncio.to_thread(self._pipeline.drain, left)
        except RuntimeError:  # no thread can be started: the admin pages have to wait
            self._drained = self._pipeline.drain(left)
        self._exporter.close()
        if self._admin is not None:
            await self._admin.stop(1.0)
        self._workers.shutdown(wait=False, cancel_futures=True)
        if self._drained:
            _logger.info("shut down: everything was judged and delivered%s", self._pipeline.what_was_refused())
        elif self._settings.journal.enabled:
            _logger.warning("shut down: %s", self._pipeline.what_waits())
        else:
            _logger.error(
                "shut down: %s were in memory only, since the journal is disabled", self._pipeline.what_waits()
            )

    def _make_receivers(self) -> dict[str, _Listener]:
        settings, limits = self._settings.receivers, self._settings.limits
        receivers: dict[str, _Listener] = {}
        if settings.grpc is not None:
            # Imported when needed: gRPC takes 15 MiB of memory.
            from goldspan.collector_processor.gateway.receive.grpc_receiver import GrpcReceiver  # noqa: PLC0415

            receivers["grpc"] = GrpcReceiver(self._handler, settings.grpc, settings.tls)
        if settings.http is not None:
            receivers["http"] = HttpServer(HttpReceiver(self._handler), settings.http, limits, settings.tls)
        return receivers

    def _make_admin(self) -> HttpServer | None:
        settings, files = self._settings.admin, self._golden_files
        if settings.listen is None:
            return None
        application = Admin(
            tokens=self._admin_tokens,
            metrics=MetricsPage(
                self._pipeline.metrics, self._handler.metrics, self._golden_reloader.metrics, self._metrics
            ),
            coverage=lambda: {**self._pipeline.coverage(), "golden_files": files.document()},
            not_ready_reason=self._not_ready_reason,
            warning=files.warning,
        )
        return HttpServer(application, settings.listen, self._settings.limits, settings.tls)

    def _not_ready_reason(self) -> str | None:
        return self._pipeline.not_ready_reason() if self._ready else "starting or shutting down"

    def _address(self, name: str, port: int) -> str:
        settings = self._settings
        listen = settings.admin.listen if name == "admin" else dict(settings.receivers.addresses())[name]
        return str(ListenAddress("" if listen is None else listen.host, port))

    def _metrics(self) -> Iterator[Sample]:
        yield "goldspan_info", {"version": scope_version()}, 1
        yield "goldspan_credentials_refused", {}, int(bool(self._refused_credentials))
        for name, tls in (("receivers", self._settings.receivers.tls), ("admin", self._settings.admin.tls)):
            if tls is not None and (expiry := tls.expiry()) is not None:
                yield "goldspan_certificate_expiry_timestamp_seconds", {"server": name}, expiry
        yield from self._file_watch.metrics()
        http = self._receivers.get("http")
        if isinstance(http, HttpServer):
            yield "goldspan_receiver_connections", {"door": "http"}, http.connections
            yield "goldspan_receiver_connections_turned_away_total", {"door": "http"}, http.closed_by_limits

    def _reload_files(self) -> None:
        self._credential_reloader.check()
        self._golden_reloader.reload()

    def _check_files(self) -> None:
        self._credential_reloader.check()
        self._golden_reloader.check()

    def _reload_credentials(self) -> bool:
        try:
            self._use_new_credentials()
        except SettingsError as error:
            if str(error) != self._refused_credentials:
                _logger.warning("secrets or certificates refused, the loaded ones stay in use: %s", error)
            self._refused_credentials = str(error)
            return False
        self._refused_credentials = ""
        _logger.info("secrets and certificates reloaded")
        return True

    def _use_new_credentials(self) -> None:
        """Reload secrets and certificates, all of them or none. Raises SettingsError."""
        settings, environ = self._settings, self._environ
        tokens, admin_tokens = _read(settings.receivers.tokens, environ), _admin_tokens(settings, environ)
        use_certificates = [listener.reload_certificate() for listener in self._listeners.values()]
        self._exporter.replace(_open_exporters(settings, environ))
        self._tokens.replace(tokens)
        self._admin_tokens.replace(admin_tokens)
        for use in use_certificates:
            use()


def run_gateway(settings: GatewaySettings, environ: Mapping[str, str], advise: Advise | None = None) -> bool:
    """Serve until a signal. Return whether everything was delivered. Raises FileError, SettingsError.

    `advise` says on `/coverage` what helps where nothing of a service is recognised.
    """
    process.raise_open_files()
    process.warn_of_slow_protobuf()

    async def main() -> bool:
        return await GatewayServer(settings, environ, partial(open_pipeline, advise=advise)).run()

    if find_spec("uvloop"):
        import uvloop  # noqa: PLC0415 - not available on every platform

        return uvloop.run(main())
    return asyncio.run(main())


def check_gateway(settings: GatewaySettings, environ: Mapping[str, str]) -> None:
    """Read everything that a gateway reads at its start, and start nothing. Raises FileError with every mistake."""
    receivers, admin = settings.receivers, settings.admin
    secrets = [
        (f"{name}.tokens[{index}]", partial(secret.read, environ))
        for name, section in (("receivers", receivers), ("admin", admin))
        for index, secret in enumerate(section.tokens)
    ]
    certificates = [
        (f"{name}.tls", tls.context) for name, tls in (("receivers", receivers.tls), ("admin", admin.tls)) if tls
    ]
    destinations = [(f"export ({one})", partial(settings.export.destination, one, environ)) for one in Signal]
    process.raise_all(
        ("goldens", GoldenFiles(settings.goldens, settings.criterion).load),
        ("scoring", settings.scorer),
        ("sinks", partial(settings.sinks.feed, environ)),
        *secrets,
        *certificates,
        *destinations,
        ("export", lambda: ExporterBySignal(_open_exporters(settings, environ)).close()),
    )


def open_pipeline(
    settings: GatewaySettings,
    environ: Mapping[str, str],
    exporter: Exporter,
    goldens: GoldenIndex,
    *,
    advise: Advise | None = None,
) -> GatewayPipeline:
    """Make the pipeline, which starts with what the journal holds. Raises FileError, SettingsError."""
    pipeline = settings.pipeline(environ)
    if not settings.goldens:
        metrics = [one.metric.name for one in pipeline.engine.scorer.metrics]
        extra = {"metrics": metrics, "sample": pipeline.sample}
        _logger.info("no golden files: sessions are scored by metrics that need none", extra=extra)
    try:
        return GatewayPipeline(goldens, exporter, pipeline, feed=settings.sinks.feed(environ), advise=advise)
    except OSError as error:
        raise SettingsError(f"journal.folder: {pipeline.journal}: {error.strerror or error}") from None


def _read(secrets: Iterable[Secret], environ: Mapping[str, str]) -> list[str]:
    return [secret.read(environ) for secret in secrets]


def _admin_tokens(settings: GatewaySettings, environ: Mapping[str, str]) -> list[str]:
    """Return the tokens of the admin pages: their own, else beyond loopback those of the receivers."""
    address, own = settings.admin.listen, settings.admin.tokens
    beyond_loopback = address is not None and not address.is_loopback
    return _read(own or (settings.receivers.tokens if beyond_loopback else ()), environ)


def _open_exporters(settings: GatewaySettings, environ: Mapping[str, str]) -> dict[Signal, Exporter | None]:
    """Make an exporter for each enabled signal. Signals with the same destination share one."""
    destinations = {signal: settings.export.destination(signal, environ) for signal in Signal}
    different = {repr(one): one for one in destinations.values()}
    exporters = {key: None if one is None else open_exporter(one) for key, one in different.items()}
    return {signal: exporters[repr(one)] for signal, one in destinations.items()}


@contextlib.contextmanager
def _signal_handlers(
    loop: asyncio.AbstractEventLoop, stop: Callable[[], None], reload: Callable[[], None]
) -> Generator[None]:
    """Handle SIGTERM, SIGINT and SIGHUP while the block runs. Afterwards a second SIGTERM kills the process."""
    handlers = {signal.SIGTERM: stop, signal.SIGINT: stop}
    if hasattr(signal, "SIGHUP"):
        handlers[signal.SIGHUP] = reload
    added: list[signal.Signals] = []
    for number, handler in handlers.items():
        # Fails outside the main thread and on some platforms: there the caller stops the gateway.
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, handler)
            added.append(number)
    try:
        yield
    finally:
        for number in added:
            loop.remove_signal_handler(number)
