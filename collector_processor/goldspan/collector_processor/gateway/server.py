"""The gateway as a process: everything put together, started, watched over and shut down without losing anything."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import Protocol

from goldspan.collector_processor.gateway.admin import Admin
from goldspan.collector_processor.gateway.deliver.destinations import (
    DiscardingExporter,
    ExporterBySignal,
    open_exporter,
)
from goldspan.collector_processor.gateway.interfaces import Exporter, Pipeline, Sample, Signal
from goldspan.collector_processor.gateway.pipeline import GatewayPipeline
from goldspan.collector_processor.gateway.process import (
    notify_systemd,
    raise_open_files,
    warn_of_slow_protobuf,
)
from goldspan.collector_processor.gateway.prometheus import MetricsPage
from goldspan.collector_processor.gateway.receive.auth import BearerTokens
from goldspan.collector_processor.gateway.receive.http_receiver import HttpReceiver
from goldspan.collector_processor.gateway.receive.http_server import HttpServer
from goldspan.collector_processor.gateway.receive.request_handler import RequestHandler
from goldspan.collector_processor.gateway.reload import (
    CredentialReloader,
    GoldenFiles,
    GoldenReloader,
    credential_files,
)
from goldspan.collector_processor.gateway.settings.field_types import Secret
from goldspan.collector_processor.gateway.settings.sections import GatewaySettings
from goldspan.scoring.errors import SettingsError
from goldspan.scoring.goldens import GoldenIndex

_logger = logging.getLogger("goldspan.gateway")

_WORKERS = 16
"""Threads that open, convert and hand over requests: while one waits for the disk, others compute."""
_GRACE_SECONDS = 5.0
"""How long requests that are under way at a shutdown may take."""

NewPipeline = Callable[[GatewaySettings, Mapping[str, str], Exporter, GoldenIndex], Pipeline]
"""Makes the inside of the gateway."""


class _Listener(Protocol):
    port: int

    async def start(self) -> None: ...

    async def stop(self, grace_seconds: float) -> None: ...

    def renew(self) -> Callable[[], None]: ...


class GatewayServer:
    """One gateway. Making it reads files and secrets; `run` serves until it is told to stop.

    Raises, when it is made: FileError, SettingsError.
    """

    def __init__(self, settings: GatewaySettings, environ: Mapping[str, str], new_intake: NewPipeline) -> None:
        self._settings = settings
        self._workers = ThreadPoolExecutor(
            min(_WORKERS, settings.limits.max_concurrent_requests), thread_name_prefix="goldspan-receive"
        )
        self._environ = environ
        self._tokens = BearerTokens(_read(settings.receivers.tokens, environ))
        self._admin_tokens = BearerTokens(_admin_secrets(settings, environ))
        files = GoldenFiles(settings.goldens, settings.criterion)
        goldens = files.load()
        self._outlet = ExporterBySignal(_open_outlets(settings, environ))
        self._intake = new_intake(settings, environ, self._outlet, goldens)
        self._reloader = GoldenReloader(files, self._intake.reload_goldens, loaded_at=time.time(), now=time.time)
        self._reception = RequestHandler(
            self._intake,
            settings.limits,
            self._workers,
            tokens=self._tokens,
            forwarded=settings.receivers.forward_headers,
        )
        self._ready = False
        self._drained = False
        self._stop = asyncio.Event()
        self._receivers = self._make_receivers()
        self._admin = self._make_admin()
        self._renewal = CredentialReloader(tuple(credential_files(settings)), self._renew)
        self.addresses: dict[str, str] = {}
        """Where each receiver and the admin pages can be reached, once it runs."""
        _logger.info("goldens were read", extra={"goldens": len(goldens.goldens)})

    async def run(self, started: Callable[[GatewayServer], object] | None = None) -> bool:
        """Serve until `stop` or a signal; whether everything was judged and delivered at the end.

        Raises SettingsError where an address cannot be used.
        """
        loop = asyncio.get_running_loop()
        async with contextlib.AsyncExitStack() as leaving:
            leaving.push_async_callback(self._shut_down)
            leaving.enter_context(_signals(loop, self.stop, self._reload_soon))
            for name, door in self._doors().items():
                await door.start()
                self.addresses[name] = _address(self._settings, name, door.port)
                _logger.info("listening", extra={"door": name, "address": self.addresses[name]})
            leaving.enter_context(_watching(self._settings.watch_files, self._check_files))
            self._ready = True
            notify_systemd("READY=1")
            if started is not None:
                started(self)
            await self._stop.wait()
        return self._drained

    def stop(self) -> None:
        """Begin to shut down; to be called in the event loop."""
        self._stop.set()

    async def _shut_down(self) -> None:
        self._ready = False
        notify_systemd("STOPPING=1")
        timeout = self._settings.shutdown_timeout
        began = time.monotonic()
        _logger.info("shutting down: no requests are taken any more")
        self._reception.closing = True
        grace = min(_GRACE_SECONDS, timeout)
        await asyncio.gather(*(receiver.stop(grace) for receiver in self._receivers.values()))
        left = max(0.0, timeout - (time.monotonic() - began))
        self._drained = await asyncio.to_thread(self._intake.drain, left)
        self._outlet.close()
        if self._admin is not None:
            await self._admin.stop(1.0)
        self._workers.shutdown(wait=False, cancel_futures=True)
        if self._drained:
            _logger.info("shut down: everything was judged and delivered")
        elif self._settings.journal.enabled:
            _logger.warning("shut down: what could not be delivered in time is in the journal for the next start")
        else:
            _logger.error("shut down: what could not be delivered in time is lost, since there is no journal")

    def _make_receivers(self) -> dict[str, _Listener]:
        said, limits = self._settings.receivers, self._settings.limits
        tls = None if said.tls is None else said.tls.tls()
        made: dict[str, _Listener] = {}
        if said.grpc is not None:
            # Imported when asked for: the library takes 15 MiB.
            from goldspan.collector_processor.gateway.receive.grpc_receiver import GrpcReceiver  # noqa: PLC0415

            made["grpc"] = GrpcReceiver(self._reception, said.grpc, tls)
        if said.http is not None:
            made["http"] = HttpServer(HttpReceiver(self._reception), said.http, limits, tls)
        return made

    def _make_admin(self) -> HttpServer | None:
        said = self._settings.admin
        if said.listen is None:
            return None
        application = Admin(
            tokens=self._admin_tokens,
            exposition=MetricsPage(
                self._intake.metrics, self._reception.metrics, self._reloader.metrics, self._metrics
            ),
            coverage=self._intake.coverage,
            unready=lambda: None if self._ready else "starting or shutting down",
        )
        tls = None if said.tls is None else said.tls.tls()
        return HttpServer(application, said.listen, self._settings.limits, tls)

    def _metrics(self) -> Iterator[Sample]:
        http = self._receivers.get("http")
        if isinstance(http, HttpServer):
            yield "goldspan_receiver_connections", {"door": "http"}, http.connections
            yield "goldspan_receiver_connections_turned_away_total", {"door": "http"}, http.turned_away

    def _reload_soon(self) -> None:
        def reload() -> None:
            self._renewal.check()
            self._reloader.reload()

        asyncio.get_running_loop().run_in_executor(None, reload)

    def _check_files(self) -> None:
        self._renewal.check()
        self._reloader.check()

    def _renew(self) -> None:
        """Read secrets and certificates anew: all of them, or none. Raises SettingsError."""
        settings, environ = self._settings, self._environ
        tokens, admin_tokens = _read(settings.receivers.tokens, environ), _admin_secrets(settings, environ)
        uses = [door.renew() for door in self._doors().values()]
        self._outlet.replace(_open_outlets(settings, environ))
        self._tokens.replace(tokens)
        self._admin_tokens.replace(admin_tokens)
        for use in uses:
            use()

    def _doors(self) -> dict[str, _Listener]:
        return {**self._receivers, **({} if self._admin is None else {"admin": self._admin})}


def run_gateway(settings: GatewaySettings, environ: Mapping[str, str]) -> bool:
    """Serve until a signal says to stop; whether everything was delivered. Raises FileError, SettingsError."""
    raise_open_files()
    warn_of_slow_protobuf()

    async def main() -> bool:
        return await GatewayServer(settings, environ, open_pipeline).run()

    if find_spec("uvloop"):
        import uvloop  # noqa: PLC0415 - not there on every platform

        return uvloop.run(main())
    return asyncio.run(main())


def check_gateway(settings: GatewaySettings, environ: Mapping[str, str]) -> None:
    """Read everything a gateway reads when it starts, and start nothing. Raises FileError, SettingsError."""
    GoldenFiles(settings.goldens, settings.criterion).load()
    settings.sinks.feed(environ)
    for place in (*settings.receivers.tokens, *settings.admin.tokens):
        place.read(environ)
    for certificate in (settings.receivers.tls, settings.admin.tls):
        if certificate is not None:
            certificate.tls().context()
    ExporterBySignal(_open_outlets(settings, environ)).close()


def open_pipeline(
    settings: GatewaySettings, environ: Mapping[str, str], outlet: Exporter, goldens: GoldenIndex
) -> Pipeline:
    """Make the inside, which begins with what the journal holds. Raises SettingsError."""
    inside = settings.pipeline(environ)
    try:
        if inside.journal is not None:
            inside.journal.mkdir(mode=0o700, parents=True, exist_ok=True)
        return GatewayPipeline(goldens, outlet, inside, feed=settings.sinks.feed(environ))
    except OSError as error:
        raise SettingsError(f"journal.folder: {inside.journal}: {error.strerror or error}") from None


def _read(places: Iterable[Secret], environ: Mapping[str, str]) -> list[str]:
    return [place.read(environ) for place in places]


def _admin_secrets(settings: GatewaySettings, environ: Mapping[str, str]) -> list[str]:
    """Return the tokens of the admin pages: their own, or beyond loopback those of senders."""
    listen, own = settings.admin.listen, settings.admin.tokens
    beyond = listen is not None and not listen.is_loopback
    return _read(own or (settings.receivers.tokens if beyond else ()), environ)


def _open_outlets(settings: GatewaySettings, environ: Mapping[str, str]) -> dict[Signal, Exporter]:
    """Make an outlet for each signal; signals that go to the same place share one."""
    made: dict[str, Exporter] = {}
    outlets: dict[Signal, Exporter] = {}
    for one in Signal:
        destination = settings.export.destination(one, environ)
        key = repr(destination)
        if key not in made:
            made[key] = DiscardingExporter() if destination is None else open_exporter(destination)
        outlets[one] = made[key]
    return outlets


def _address(settings: GatewaySettings, name: str, port: int) -> str:
    listen = {
        "grpc": settings.receivers.grpc,
        "http": settings.receivers.http,
        "admin": settings.admin.listen,
    }[name]
    host = "" if listen is None else listen.host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@contextlib.contextmanager
def _signals(loop: asyncio.AbstractEventLoop, stop: Callable[[], None], reload: Callable[[], None]) -> Generator[None]:
    """Listen to signals while the block runs; after it a second SIGTERM kills, as it does others."""
    handlers = {signal.SIGTERM: stop, signal.SIGINT: stop}
    if hasattr(signal, "SIGHUP"):
        handlers[signal.SIGHUP] = reload
    added: list[signal.Signals] = []
    for number, handler in handlers.items():
        # Not in the main thread, or not on this platform: whoever runs us stops us otherwise.
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, handler)
            added.append(number)
    try:
        yield
    finally:
        for number in added:
            loop.remove_signal_handler(number)


@contextlib.contextmanager
def _watching(interval: float | None, check: Callable[[], None]) -> Generator[None]:
    """Check every so often while the block runs."""
    if interval is None:
        yield
        return

    async def watch() -> None:
        while True:
            await asyncio.sleep(interval)
            try:
                await asyncio.to_thread(check)
            except Exception:
                _logger.exception("files could not be looked at")

    watching = asyncio.get_running_loop().create_task(watch())
    try:
        yield
    finally:
        watching.cancel()
