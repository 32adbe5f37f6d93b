"""Settings of the inside: what waits and for how long, what is kept on disk, how often delivery is tried again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from goldspan.collector_processor.engine.settings import EngineSettings
from goldspan.collector_processor.gateway.deliver.destinations import Destination
from goldspan.collector_processor.gateway.deliver.dispatcher import Backoff
from goldspan.collector_processor.gateway.interfaces import Signal
from goldspan.collector_processor.gateway.receive.limits import Limits
from goldspan.collector_processor.gateway.settings.field_types import (
    Address,
    Count,
    Endpoint,
    HeaderNames,
    HeaderValues,
    ListenAddress,
    Paths,
    Seconds,
    Secret,
    SecretText,
    Section,
    Size,
    Texts,
)
from goldspan.collector_processor.gateway.settings.pipeline_settings import PipelineSettings
from goldspan.collector_processor.gateway.tls import ClientTls, ServerTls
from goldspan.collector_processor.metric_workers import MetricWorkers
from goldspan.collector_processor.sinks import LangfuseScores, MLflowScores, PhoenixScores
from goldspan.collector_processor.sinks.score_exporter import ScoreSinks
from goldspan.mappers.assembly import DEFAULT_SESSION_KEYS, AssemblySettings
from goldspan.scoring.metrics.session_metrics import choose_metrics
from goldspan.scoring.run import scorer_of


def _hold(value: object) -> object:
    """Understand YAML 1.1's `off` and `on`, which some tools write as booleans."""
    return {True: "turn", False: "off"}.get(value, value) if isinstance(value, bool) else value


def _preset(value: str | dict[str, Any] | None) -> str | dict[str, Any] | None:
    scorer_of(preset=value)
    return value


def _metrics(value: tuple[str, ...]) -> tuple[str, ...]:
    choose_metrics(value)
    return value


class Scoring(Section):
    """When turns and sessions are judged, and what waits for that."""

    tier: Literal["single", "assemble"] = "single"
    """`assemble`: the first of two tiers, which stamps the session on every span of a turn and scores nothing."""
    hold: Annotated[Literal["turn", "off"], BeforeValidator(_hold)] = "turn"
    """`turn`: tool spans and turn roots wait for their scores; `off`: nothing waits, scores are events and metrics."""
    hold_timeout: Seconds = 20.0
    """No span waits longer."""
    settle: Seconds = 1.0
    """A turn whose root has ended is judged when nothing new came for it for so long."""
    caller_timeout: Seconds = 600.0
    """How long a turn waits for a parent in its own process that was named and not seen: an agent still running."""
    run_idle: Seconds = 60.0
    """A session is judged as a whole when it was quiet for so long."""
    session_gap: Seconds = 3600.0
    """Between two turns of one session id: the second is the start of another run."""
    retention: Seconds = 3600.0
    """State of a session is dropped when it was quiet for so long."""
    trace_retention: Seconds = 60.0
    """State of a trace in which no golden is interested is dropped when it was quiet for so long."""
    max_spans: Count = 1_000_000
    """Spans known at once; beyond it the least recently active session is judged as incomplete and dropped."""
    max_held_bytes: Size = 64 << 20
    """Spans that wait; beyond it those that waited longest leave without scores."""
    max_tenants: Count = 64
    """Different sets of forwarded headers at once; beyond it the least recently active one is judged and dropped."""
    session_keys: Texts = DEFAULT_SESSION_KEYS
    """Attributes that may hold the session id, the first one that does wins."""
    include_values: bool = False
    """Explanations hold the arguments' values, not only their names."""
    preset: Annotated[str | dict[str, Any] | None, AfterValidator(_preset)] = None
    """Another system's scorer, in the place of `tool_parameter_match`: its name, or a mapping of `name` and options."""
    metrics: Annotated[Texts, AfterValidator(_metrics)] = ()
    """What is judged beside it: names, or import paths (`pkg.module:function`), each with `=THRESHOLD` or without."""
    metric_timeout: Seconds = 10.0
    """A metric of your own may take no longer for one session."""


class JournalSection(Section):
    """What was acknowledged, on disk until it is delivered."""

    enabled: bool = True
    """Without it, what was acknowledged and not yet delivered is lost with the process."""
    folder: Path | None = None
    """A folder of this gateway's own; null: `journal` in the state folder."""
    sync: Literal["normal", "full"] = "normal"
    """`normal` survives the end of the process; `full` survives power loss, and waits for the disk at every request."""
    max_bytes: Size = 1 << 30
    """What may wait on disk; beyond it requests are told to come again."""
    max_memory: Size = 128 << 20
    """Bodies in memory that wait for delivery. Without a journal, all that may wait."""
    max_backlog: Size = 64 << 20
    """Bodies that were acknowledged and not looked at yet; beyond it requests are told to come again."""


class DeadLettersSection(Section):
    """What the receiver downstream refused for good."""

    enabled: bool = True
    """Whether it is kept; it is counted in any case."""
    folder: Path | None = None
    """null: `dead-letters` in the state folder."""
    max_files: Count = 1000
    """Requests that are kept."""
    max_bytes: Size = 256 << 20
    """The oldest make room for the newest."""


class RetrySection(Section):
    """How long a receiver that does not answer is left alone; what it asks for itself comes first."""

    initial: Seconds = 1.0
    """After the first failure; twice as long after each further one."""
    longest: Seconds = 60.0
    """No pause is longer, but where the receiver asks for one."""


def pipeline_settings(
    scoring: Scoring,
    journal: JournalSection,
    dead_letters: DeadLettersSection,
    retry: RetrySection,
    *,
    deliveries: int,
    environ: Mapping[str, str],
) -> PipelineSettings:
    """Return the same, as the pipeline takes it."""
    state = state_folder(environ)
    return PipelineSettings(
        tier=scoring.tier,
        hold=scoring.hold,
        max_held_bytes=scoring.max_held_bytes,
        engine=EngineSettings(
            settle=scoring.settle,
            hold_timeout=scoring.hold_timeout,
            caller_timeout=scoring.caller_timeout,
            run_idle=scoring.run_idle,
            retention=scoring.retention,
            trace_retention=scoring.trace_retention,
            max_spans=scoring.max_spans,
            include_values=scoring.include_values,
            scorer=scorer_of(preset=scoring.preset, metrics=scoring.metrics, run=MetricWorkers(scoring.metric_timeout)),
            assembly=AssemblySettings(session_keys=scoring.session_keys, session_gap=scoring.session_gap),
        ),
        max_tenants=scoring.max_tenants,
        journal=(journal.folder or state / "journal") if journal.enabled else None,
        journal_sync=journal.sync,
        journal_max_bytes=journal.max_bytes,
        max_memory=journal.max_memory,
        max_backlog=journal.max_backlog,
        deliveries=deliveries,
        backoff=Backoff(retry.initial, retry.longest),
        dead_letters=(dead_letters.folder or state / "dead-letters") if dead_letters.enabled else None,
        dead_letter_files=dead_letters.max_files,
        dead_letter_bytes=dead_letters.max_bytes,
    )


def state_folder(environ: Mapping[str, str]) -> Path:
    """Return where a gateway keeps its state: systemd's folder, else the one of the XDG base directories."""
    if named := environ.get("STATE_DIRECTORY"):
        return Path(named.partition(":")[0])
    home = environ.get("XDG_STATE_HOME")
    return (Path(home) if home else Path.home() / ".local" / "state") / "goldspan"


# Settings of back-ends that get scores by their own APIs, because they read them from nowhere else.


class PhoenixSink(Section):
    """Arize Phoenix: annotations of spans, traces and sessions."""

    endpoint: Endpoint
    """Its web address, such as http://localhost:6006."""
    api_key: SecretText | None = None
    """null: the variable PHOENIX_API_KEY, if there is one."""


class MLflowSink(Section):
    """MLflow: feedback on spans and traces."""

    endpoint: Endpoint
    """The tracking server, such as http://localhost:5000."""
    token: SecretText | None = None
    """null: by the variables MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD."""


class LangfuseSink(Section):
    """Langfuse: scores of observations, traces and sessions."""

    endpoint: Endpoint
    """Its address, such as https://cloud.langfuse.com."""
    public_key: SecretText | None = None
    """null: the variable LANGFUSE_PUBLIC_KEY."""
    secret_key: SecretText | None = None
    """null: the variable LANGFUSE_SECRET_KEY."""


class Sinks(Section):
    """Back-ends that get scores by their own APIs, beside what is exported. Results of all tenants go there."""

    phoenix: PhoenixSink | None = None
    mlflow: MLflowSink | None = None
    langfuse: LangfuseSink | None = None

    def feed(self, environ: Mapping[str, str]) -> ScoreSinks:
        """Return what sends scores to all of them, secrets read. Raises SettingsError."""
        exporters: dict[str, PhoenixScores | MLflowScores | LangfuseScores] = {}
        if (one := self.phoenix) is not None:
            exporters["phoenix"] = PhoenixScores(one.endpoint, api_key=_read(one.api_key, environ))
        if (two := self.mlflow) is not None:
            exporters["mlflow"] = MLflowScores(two.endpoint, token=_read(two.token, environ))
        if (three := self.langfuse) is not None:
            exporters["langfuse"] = LangfuseScores(
                three.endpoint,
                public_key=_read(three.public_key, environ),
                secret_key=_read(three.secret_key, environ),
            )
        return ScoreSinks(exporters)


def _read(secret: str | Secret | None, environ: Mapping[str, str]) -> str | None:
    return secret.read(environ) if isinstance(secret, Secret) else secret


# The settings of the gateway: every option, what it means and its default. Files are read by `settings_file`.

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

    grpc: Address = ListenAddress("127.0.0.1", GRPC_PORT)
    """The address for OTLP/gRPC; null: none."""
    http: Address = ListenAddress("127.0.0.1", HTTP_PORT)
    """The address for OTLP/HTTP; null: none."""
    tls: ServerCertificate | None = None
    """The certificate of both; null: plain text."""
    tokens: tuple[Secret, ...] = ()
    """Bearer tokens, any one of which lets a request in, each `{env: NAME}` or `{file: PATH}`."""
    allow_anonymous: bool = False
    """Listen beyond loopback though neither a token nor a client's certificate is asked for."""
    forward_headers: HeaderNames = ()
    """Request headers that are forwarded. Requests that differ in one of them are never put together."""

    def listens(self) -> Iterator[tuple[str, ListenAddress]]:
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

    listen: Address = ListenAddress("127.0.0.1", ADMIN_PORT)
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
            host = ListenAddress(parts.hostname or "", 1)
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
