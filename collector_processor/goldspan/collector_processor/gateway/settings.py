"""The settings of the gateway: every option, what it means and its default. Files are read by `settings_file`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from goldspan.collector_processor.gateway.contract import Signal
from goldspan.collector_processor.gateway.limits import Limits
from goldspan.collector_processor.gateway.listening import Listen
from goldspan.collector_processor.gateway.outlets import Destination
from goldspan.collector_processor.gateway.pipeline_settings import PipelineSettings
from goldspan.collector_processor.gateway.settings_fields import (
    Address,
    Count,
    Endpoint,
    HeaderNames,
    HeaderValues,
    Paths,
    Seconds,
    Secret,
    SecretText,
    Section,
)
from goldspan.collector_processor.gateway.settings_inside import (
    DeadLettersSection,
    JournalSection,
    RetrySection,
    Scoring,
    pipeline_settings,
)
from goldspan.collector_processor.gateway.settings_sinks import Sinks
from goldspan.collector_processor.gateway.tls import ClientTls, ServerTls

GRPC_PORT, HTTP_PORT, ADMIN_PORT = 4317, 4318, 4319


class ServerCertificate(Section):
    """Who the gateway is, and whom it lets in by certificate."""

    certificate: Path
    """The certificate and those of the authorities between, as PEM."""
    key: Path
    """Its private key, as PEM."""
    client_ca: Path | None = None
    """The authority of clients, as PEM: only who shows a certificate of it is let in."""

    def tls(self) -> ServerTls:
        """Return the same, for servers."""
        return ServerTls(self.certificate, self.key, self.client_ca)


class Receivers(Section):
    """Where OTLP comes in, and from whom."""

    grpc: Address = Listen("127.0.0.1", GRPC_PORT)
    """The address for OTLP/gRPC; null: none."""
    http: Address = Listen("127.0.0.1", HTTP_PORT)
    """The address for OTLP/HTTP; null: none."""
    tls: ServerCertificate | None = None
    """The certificate of both; null: plain text."""
    tokens: tuple[Secret, ...] = ()
    """Bearer tokens, any one of which lets a request in, each `{env: NAME}` or `{file: PATH}`."""
    allow_anonymous: bool = False
    """Listen beyond loopback though neither a token nor a client's certificate is asked for."""
    forward_headers: HeaderNames = ()
    """Request headers that are forwarded. Requests that differ in one of them are never put together."""

    def listens(self) -> Iterator[tuple[str, Listen]]:
        """Yield the receivers that are on."""
        yield from ((name, one) for name, one in (("grpc", self.grpc), ("http", self.http)) if one is not None)

    @model_validator(mode="after")
    def _closed_to_strangers(self) -> Receivers:
        if not any(self.listens()):
            raise ValueError("found neither `grpc` nor `http`, expected an address for one of them")
        known = self.tokens or self.allow_anonymous or (self.tls is not None and self.tls.client_ca)
        for name, listen in self.listens():
            if not listen.is_loopback and not known:
                raise ValueError(
                    f"`{name}` listens beyond loopback on {listen}, where anybody may send: "
                    "set `tokens`, `tls.client_ca` or `allow_anonymous: true`"
                )
        if self.tokens and "authorization" in self.forward_headers:
            raise ValueError("`forward_headers` has authorization, which with `tokens` holds the gateway's own secret")
        return self


class ClientCertificate(Section):
    """Whom the gateway trusts downstream, and who it says it is."""

    ca: Path | None = None
    """Authorities to trust instead of the system's, as PEM."""
    certificate: Path | None = None
    """A certificate to show, as PEM."""
    key: Path | None = None
    """Its private key, as PEM."""

    @model_validator(mode="after")
    def _both_or_none(self) -> ClientCertificate:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("expected `certificate` and `key` together")
        return self


Protocol = Literal["http/protobuf", "grpc"]
Compression = Literal["gzip", "zstd", "none"]


class SignalExport(Section):
    """What is other for one signal."""

    enabled: bool = True
    """Whether it is sent at all; false, for back-ends that do not know the signal: taken in, counted and dropped."""
    endpoint: Endpoint | None = None
    """As in `export`; null, here and in the lines below: what is said there."""
    protocol: Protocol | None = None
    """As in `export`."""
    compression: Compression | None = None
    """As in `export`."""
    headers: HeaderValues | None = None
    """As in `export`, in the place of the headers there."""
    timeout: Seconds | None = None
    """As in `export`."""
    tls: ClientCertificate | None = None


class Export(Section):
    """Where everything leaves to: what came in, enriched, with events and metrics of its own."""

    endpoint: Endpoint
    """A URL such as https://collector:4318; for HTTP `/v1/traces` and so on are added. `https` is TLS, for gRPC too."""
    protocol: Protocol = "http/protobuf"
    """`http/protobuf` or `grpc`."""
    compression: Compression = "gzip"
    """gzip at level 1, or zstd, over HTTP alone."""
    headers: HeaderValues = Field(default_factory=dict[str, SecretText])
    """Sent with every request; a value is text or `{env: NAME}` or `{file: PATH}`."""
    timeout: Seconds = 10.0
    """For one attempt."""
    concurrency: Count = 4
    """Attempts at once."""
    retry: RetrySection = RetrySection()
    tls: ClientCertificate = ClientCertificate()
    traces: SignalExport = SignalExport()
    logs: SignalExport = SignalExport()
    metrics: SignalExport = SignalExport()

    def destination(self, signal: Signal, environ: Mapping[str, str]) -> Destination | None:
        """Return where a signal is sent to, secrets read; none: it is dropped. Raises SettingsError."""
        own: SignalExport = getattr(self, signal)
        if not own.enabled:
            return None
        said = {
            name: getattr(self, name) for name in ("endpoint", "protocol", "compression", "headers", "timeout", "tls")
        }
        said |= {name: value for name in said if (value := getattr(own, name)) is not None}
        tls: ClientCertificate = said.pop("tls")
        headers = {
            name: value.read(environ) if isinstance(value, Secret) else value
            for name, value in said.pop("headers").items()
        }
        return Destination(
            **said,
            headers=headers,
            tls=ClientTls(tls.ca, tls.certificate, tls.key),
            connections=self.concurrency,
        )

    @model_validator(mode="after")
    def _compression_fits(self) -> Export:
        for signal in Signal:
            own: SignalExport = getattr(self, signal)
            if (own.protocol or self.protocol) == "grpc" and (own.compression or self.compression) == "zstd":
                raise ValueError("`compression: zstd` is for HTTP: gRPC has gzip and none")
        return self


class Admin(Section):
    """Health, metrics and coverage, on an address of their own."""

    listen: Address = Listen("127.0.0.1", ADMIN_PORT)
    """The address of `/healthz`, `/readyz`, `/metrics` and `/coverage`; null: none."""
    tokens: tuple[Secret, ...] = ()
    """Bearer tokens for `/metrics` and `/coverage`; none: those of `receivers`. Needed beyond loopback."""
    tls: ServerCertificate | None = None
    """The certificate; null: plain text."""


class Log(Section):
    """What the gateway says of itself, on standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """`debug`, `info`, `warning` or `error`."""
    format: Literal["json", "text"] = "json"
    """`json`: an object on each line; `text`, for people."""


class GatewaySettings(Section):
    """Everything there is to set."""

    goldens: Paths = ()
    """Golden files and folders; without any, everything is forwarded and nothing scored."""
    criterion: Path | None = None
    """The criterion that golden sets inherit."""
    watch_files: Seconds | None = 5.0
    """How often goldens, secrets and certificates are looked at for changes; null: only at a SIGHUP."""
    receivers: Receivers = Receivers()
    export: Export
    admin: Admin = Admin()
    limits: Limits = Limits()
    scoring: Scoring = Scoring()
    journal: JournalSection = JournalSection()
    dead_letters: DeadLettersSection = DeadLettersSection()
    sinks: Sinks = Sinks()
    log: Log = Log()
    shutdown_timeout: Seconds = 30.0
    """How long a shutdown may take to judge and deliver what is there; what stays is in the journal."""

    def pipeline(self, environ: Mapping[str, str]) -> PipelineSettings:
        """Return what the inside needs to know."""
        return pipeline_settings(
            self.scoring,
            self.journal,
            self.dead_letters,
            self.export.retry,
            deliveries=self.export.concurrency,
            environ=environ,
        )

    @model_validator(mode="after")
    def _no_loop(self) -> GatewaySettings:
        own = {listen.port: listen for _, listen in self.receivers.listens()}
        for signal in Signal:
            said: SignalExport = getattr(self.export, signal)
            parts = urlsplit(said.endpoint or self.export.endpoint)
            listen = own.get(parts.port or (443 if parts.scheme == "https" else 80))
            host = Listen(parts.hostname or "", 1)
            if listen is not None and listen.port and (host.is_loopback or host.host == listen.host):
                raise ValueError(
                    f"`export` leads back to this gateway, which listens on {listen}: name the next receiver"
                )
        return self

    @model_validator(mode="after")
    def _admin_is_closed(self) -> GatewaySettings:
        listen = self.admin.listen
        if listen is not None and not listen.is_loopback and not (self.admin.tokens or self.receivers.tokens):
            raise ValueError(
                f"`admin` listens beyond loopback on {listen}: set `admin.tokens` for /metrics and /coverage"
            )
        return self
