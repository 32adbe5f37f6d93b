"""The settings of the gateway: every section and field, its default and its meaning.

Sections that servers share are in `serving`. `settings_file` reads a file and environment variables into
`GatewaySettings`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from goldspan.collector_processor.engine.trace_machine import EngineSettings
from goldspan.collector_processor.http_client import backoff
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.collector_processor.serving import field_types
from goldspan.collector_processor.serving.http_server import RequestLimits
from goldspan.collector_processor.sinks import LangfuseScores, MLflowScores, PhoenixScores
from goldspan.collector_processor.sinks.score_exporter import ScoreSinks
from goldspan.scoring.metrics.argument_profile import ToolParameterProfile
from goldspan.scoring.metrics.session_metrics import PROFILE_METRIC, ChosenMetric, choose_metrics
from goldspan.scoring.run import Scorer

GRPC_PORT, HTTP_PORT = 4317, 4318


class ReceiverToken(field_types.Secret):
    """A bearer token that clients send, by the place where it is."""

    tenants: Mapping[str, field_types.Texts] = Field(default_factory=dict[str, tuple[str, ...]])
    """Values of forwarded headers that it may send, as in `{x-scope-orgid: team-a}`. A single one need not be sent."""


class Receivers(field_types.Section):
    """Where the gateway receives OTLP, and from whom."""

    grpc: field_types.Address = field_types.ListenAddress("127.0.0.1", GRPC_PORT)
    """Address of the OTLP/gRPC receiver; null turns it off."""
    http: field_types.Address = field_types.ListenAddress("127.0.0.1", HTTP_PORT)
    """Address of the OTLP/HTTP receiver; null turns it off."""
    tls: field_types.ServerTls | None = None
    """Certificate of both receivers; null: no TLS."""
    tokens: tuple[ReceiverToken, ...] = ()
    """Accepted bearer tokens, each `{env: NAME}` or `{file: PATH}`, perhaps with `tenants: {x-scope-orgid: team-a}`."""
    allow_anonymous: bool = False
    """Allow an address beyond loopback without tokens and without client certificates."""
    forward_headers: field_types.HeaderNames = ()
    """Request headers to forward. Their values identify a tenant: data of different tenants is never mixed."""
    trust_scores: bool = True
    """false: attributes, events and metrics under goldspan's names that a client sends are removed and counted."""

    def addresses(self) -> Iterator[tuple[str, field_types.ListenAddress]]:
        """Yield name and address of each receiver that is on."""
        yield from ((name, one) for name, one in (("grpc", self.grpc), ("http", self.http)) if one is not None)

    @model_validator(mode="after")
    def _authenticated_beyond_loopback(self) -> Receivers:
        if not any(self.addresses()):
            raise ValueError("found neither `grpc` nor `http`, expected an address for one of them")
        allowed = self.tokens or self.allow_anonymous or (self.tls is not None and self.tls.client_ca)
        for name, address in self.addresses():
            if not address.is_loopback and not allowed:
                raise ValueError(
                    f"`{name}` listens beyond loopback on {address}, where anybody may send: "
                    "set `tokens`, `tls.client_ca` or `allow_anonymous: true`"
                )
        if self.tokens and "authorization" in self.forward_headers:
            raise ValueError("`forward_headers` has authorization, which with `tokens` holds the gateway's own secret")
        for name in {name for token in self.tokens for name in token.tenants}:
            if name not in self.forward_headers:
                raise ValueError(f"`tokens` have tenants by {name}, expected it in `forward_headers`")
        return self


Protocol = Literal["http/protobuf", "grpc"]
Compression = Literal["gzip", "zstd", "none"]


@dataclass(frozen=True, slots=True)
class Destination:
    """One endpoint, and how requests are sent to it."""

    endpoint: str
    """A URL. For HTTP `/v1/traces` and so on are added, as exporters do with OTEL_EXPORTER_OTLP_ENDPOINT."""
    protocol: str = "http/protobuf"
    """Or `grpc`."""
    compression: str = "gzip"
    """Or `zstd` (HTTP only), or `none`."""
    timeout: float = 10.0
    """Seconds for one attempt."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    tls: field_types.ClientTls = field(default_factory=field_types.ClientTls)
    connections: int = 8
    """Open at once, over HTTP."""


_BATCH_BYTES = 1 << 20
MAX_RETRY_AFTER_SECONDS = 3600.0
"""A longer Retry-After is cut to this: a wrong header must not stop delivery for days."""


class Backoff(field_types.Section):
    """How long delivery pauses after a failed attempt. A Retry-After from the back-end is used instead."""

    initial: field_types.Seconds = 1.0
    """Pause after the first failure. It doubles after each further failure."""
    longest: field_types.Seconds = 60.0
    """Longest pause, unless the back-end asks for a longer one."""

    def pause(self, failures: int, asked_seconds: float | None, random: Random) -> float:
        """Return how many seconds to pause after so many failures in a row.

        `asked_seconds` is what the back-end asked for, or None. The computed pause is random within its
        upper half, so that several gateways do not return at the same moment.
        """
        if asked_seconds is not None:
            return min(asked_seconds, MAX_RETRY_AFTER_SECONDS)
        return backoff(failures, self.initial, self.longest, random.uniform)


class SignalExport(field_types.Section):
    """Overrides of `export` for one signal."""

    enabled: bool = True
    """false: the signal is received, counted and dropped. For back-ends that do not support it."""
    endpoint: field_types.Endpoint | None = None
    """As in `export`. Here and below, null means the value of `export`."""
    protocol: Protocol | None = None
    """As in `export`."""
    compression: Compression | None = None
    """As in `export`."""
    headers: field_types.HeaderValues | None = None
    """As in `export`, instead of the headers there."""
    timeout: field_types.Seconds | None = None
    """As in `export`."""
    tls: field_types.ClientTls | None = None


class Export(field_types.Section):
    """Where the gateway sends everything: received data with scores added, and its own events and metrics."""

    endpoint: field_types.Endpoint
    """A URL such as https://collector:4318; for HTTP `/v1/traces` and so on are added. `https` is TLS, for gRPC too."""
    protocol: Protocol = "http/protobuf"
    """`http/protobuf` or `grpc`."""
    compression: Compression = "gzip"
    """`gzip` (level 1), `zstd` (HTTP only) or `none`."""
    headers: field_types.HeaderValues = Field(default_factory=dict[str, field_types.SecretText])
    """Headers of every request. A value is text, `{env: NAME}` or `{file: PATH}`."""
    timeout: field_types.Seconds = 10.0
    """Timeout of one attempt."""
    concurrency: field_types.Count = 4
    """Requests sent at once."""
    batch_delay: field_types.Seconds | None = 0.1
    """How long an acknowledged request waits for others: they are worked on together, and leave as one request of at
    most 1 MiB. null: each at once and by itself."""
    retry: Backoff = Backoff()
    tls: field_types.ClientTls = field_types.ClientTls()
    traces: SignalExport = SignalExport()
    logs: SignalExport = SignalExport()
    metrics: SignalExport = SignalExport()

    def destination(self, signal: Signal, environ: Mapping[str, str]) -> Destination | None:
        """Return where a signal is sent, secrets read; None if it is disabled. Raises SettingsError."""
        overrides: SignalExport = getattr(self, signal)
        if not overrides.enabled:
            return None

        def effective(name: str) -> Any:
            value = getattr(overrides, name)
            return getattr(self, name) if value is None else value

        return Destination(
            endpoint=effective("endpoint"),
            protocol=effective("protocol"),
            compression=effective("compression"),
            timeout=effective("timeout"),
            headers={name: field_types.read_secret(value, environ) for name, value in effective("headers").items()},
            tls=effective("tls"),
            connections=self.concurrency,
        )

    def addresses(self) -> dict[Signal, str]:
        """Return the endpoint of each signal that is sent."""
        overrides: dict[Signal, SignalExport] = {signal: getattr(self, signal) for signal in Signal}
        return {signal: one.endpoint or self.endpoint for signal, one in overrides.items() if one.enabled}

    @model_validator(mode="after")
    def _grpc_has_no_zstd(self) -> Export:
        for signal in Signal:
            overrides: SignalExport = getattr(self, signal)
            protocol, compression = overrides.protocol or self.protocol, overrides.compression or self.compression
            if protocol == "grpc" and compression == "zstd":
                raise ValueError("`compression: zstd` is for HTTP: gRPC has gzip and none")
        return self


class Scoring(field_types.SessionScoring):
    """When turns and sessions are scored, and which spans wait for that."""

    max_spans: field_types.Count = 1_000_000
    """Spans in memory. Beyond it the least recently active session is scored as incomplete and dropped."""
    max_held_bytes: field_types.Size = 64 << 20
    """Spans that wait for scores. Beyond it those that waited longest are sent without scores."""
    max_text_bytes: field_types.Size = 256 << 20
    """Messages, results and definitions of tools in memory, where a metric asks for them. Beyond it those of quiet
    sessions are dropped, and what comes for these later is scored as incomplete."""
    max_tenants: field_types.Count = 64
    """Tenants (sets of forwarded headers) in memory. Beyond it the least recently active one is scored and dropped."""

    @model_validator(mode="before")
    @classmethod
    def _has_no_tier(cls, values: object) -> object:
        if isinstance(values, Mapping) and "tier" in values:
            raise ValueError(
                "found `tier`: there are no tiers of gateways any more. Remove it from a gateway that works alone; "
                "where one gateway is not enough, run `goldspan stream` instead of both tiers (docs/scale.md)"
            )
        return values  # pyright: ignore[reportUnknownVariableType]

    judge: Path | None = None
    """A file of options for a model that is asked about each call when its session is over, as for `goldspan score`."""


class TenantLimits(field_types.Section):
    """What each tenant may send. Beyond it this tenant is answered with 429, and no other."""

    requests_per_second: Annotated[float, Field(gt=0)] | None = None
    """Requests a second, on average over ten seconds; null: any number."""
    bytes_per_second: field_types.Size | None = None
    """Bytes of bodies as received, likewise."""
    max_sessions: field_types.Count | None = None
    """Open sessions. Beyond it requests have to wait until sessions were dropped: `scoring.retention`."""


class ProfileSection(field_types.Section):
    """What is normal for the agents' arguments, learnt from the sessions that the gateway sees, by tenant."""

    learn: field_types.Seconds
    """For how long since the first start: `7d`. The profile is written every five minutes, and only written."""
    folder: Path | None = None
    """Where `profile.yaml`, or one file a tenant, is written; null: `profiles` in the state folder."""


class JournalSection(field_types.Section):
    """Acknowledged requests on disk, until they are delivered."""

    enabled: bool = True
    """false: what was acknowledged and not yet delivered is lost when the process ends."""
    folder: Path | None = None
    """A folder that no other gateway uses; null: `journal` in the state folder."""
    sync: Literal["normal", "full"] = "normal"
    """`normal` survives the end of the process. `full` survives power loss, and waits for the disk at every request."""
    max_bytes: field_types.Size = 1 << 30
    """Size on disk. From three quarters of it requests are answered with 503 and Retry-After."""
    max_memory: field_types.Size = 128 << 20
    """Bodies in memory that wait for delivery. Without a journal, all bodies that may wait."""
    max_backlog: field_types.Size = 64 << 20
    """Acknowledged bodies that are not processed yet. Beyond it requests are answered with 503 and Retry-After."""


class DeadLettersSection(field_types.Section):
    """Requests that a back-end refused with a status that is not retryable."""

    enabled: bool = True
    """Keep them in files. They are counted in any case."""
    folder: Path | None = None
    """null: `dead-letters` in the state folder."""
    max_files: field_types.Count = 1000
    """Requests that are kept."""
    max_bytes: field_types.Size = 256 << 20
    """Size of all of them. Beyond it the oldest are removed."""


class PhoenixSink(field_types.Section):
    """Arize Phoenix: annotations of spans, traces and sessions."""

    endpoint: field_types.Endpoint
    """Its web address, such as http://localhost:6006."""
    api_key: field_types.SecretText | None = None
    """null: the variable PHOENIX_API_KEY, if it is set."""


class MLflowSink(field_types.Section):
    """MLflow: feedback on spans and traces."""

    endpoint: field_types.Endpoint
    """The tracking server, such as http://localhost:5000."""
    token: field_types.SecretText | None = None
    """null: the variable MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD."""


class LangfuseSink(field_types.Section):
    """Langfuse: scores of observations, traces and sessions."""

    endpoint: field_types.Endpoint
    """Its address, such as https://cloud.langfuse.com."""
    public_key: field_types.SecretText | None = None
    """null: the variable LANGFUSE_PUBLIC_KEY."""
    secret_key: field_types.SecretText | None = None
    """null: the variable LANGFUSE_SECRET_KEY."""


class Sinks(field_types.Section):
    """Back-ends that receive scores through their own APIs, besides the export. Results of all tenants go there."""

    phoenix: PhoenixSink | None = None
    mlflow: MLflowSink | None = None
    langfuse: LangfuseSink | None = None

    def feed(self, environ: Mapping[str, str]) -> ScoreSinks:
        """Return what sends scores to all of them, secrets read. Raises SettingsError."""

        def read(value: str | field_types.Secret | None) -> str | None:
            return None if value is None else field_types.read_secret(value, environ)

        exporters: dict[str, PhoenixScores | MLflowScores | LangfuseScores] = {}
        if (phoenix := self.phoenix) is not None:
            exporters["phoenix"] = PhoenixScores(phoenix.endpoint, api_key=read(phoenix.api_key))
        if (mlflow := self.mlflow) is not None:
            exporters["mlflow"] = MLflowScores(mlflow.endpoint, token=read(mlflow.token))
        if (langfuse := self.langfuse) is not None:
            exporters["langfuse"] = LangfuseScores(
                langfuse.endpoint, public_key=read(langfuse.public_key), secret_key=read(langfuse.secret_key)
            )
        return ScoreSinks(exporters)


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """The settings of the pipeline, as `GatewaySettings.pipeline` makes them. Times are in seconds, sizes in bytes.

    Fields without a line of their own mean the same as in `Receivers`, `Scoring`, `JournalSection` and
    `DeadLettersSection`.
    """

    hold: Literal["turn", "off"] = "turn"
    max_held_bytes: int = 64 << 20
    sample: float = 1.0
    engine: EngineSettings = field(default_factory=EngineSettings)
    """When turns and runs are scored, and how many are kept. Tenants share `max_spans` equally."""
    unread_span_bytes: int = 64 << 20
    """Spans of traces that no golden matches so far, kept for `engine.trace_retention`. Tenants share it equally."""
    max_text_bytes: int = 256 << 20
    """Messages, results and definitions of tools in memory. Tenants share it equally."""
    max_tenants: int = 64
    trust_scores: bool = True
    name_limit: int = 200
    max_sessions: int | None = None
    """Open sessions of one tenant."""
    journal: Path | None = None
    """A folder that no other gateway uses. None: acknowledged requests are lost when the process ends."""
    journal_sync: Literal["normal", "full"] = "normal"
    journal_max_bytes: int = 1 << 30
    max_memory: int = 128 << 20
    max_backlog: int = 64 << 20
    deliveries: int = 4
    """Requests sent at once."""
    batch_delay: float = 0.0
    """Seconds that an acknowledged request waits for others to be worked on and sent with; 0: each by itself."""
    backoff: Backoff = field(default_factory=Backoff)
    addresses: Mapping[Signal, str] = field(default_factory=dict[Signal, str])
    """Where each signal is sent, for the log."""
    dead_letters: Path | None = None
    """A folder for refused requests. None: they are only counted."""
    dead_letter_files: int = 1000
    dead_letter_bytes: int = 256 << 20
    profiles: Path | None = None
    """A folder for profiles that are learnt. None: none are."""
    learn_profiles: float = 0.0

    @property
    def batch_bytes(self) -> int:
        """Bytes of the requests that leave together."""
        return _BATCH_BYTES if self.batch_delay else 0


class GatewaySettings(field_types.Section):
    """Top-level settings."""

    goldens: field_types.Paths = ()
    """Golden files and folders. Without any, sessions are scored by metrics that need no golden: `scoring.metrics`."""
    criterion: Path | None = None
    """The criterion that golden sets inherit."""
    watch_files: field_types.Seconds | None = 5.0
    """How often goldens, secrets and certificates are checked for changes; null: reload only on SIGHUP."""
    receivers: Receivers = Receivers()
    export: Export
    admin: field_types.AdminSection = field_types.AdminSection()
    limits: RequestLimits = RequestLimits()
    tenant_limits: TenantLimits = TenantLimits()
    scoring: Scoring = Scoring()
    profile: ProfileSection | None = None
    journal: JournalSection = JournalSection()
    dead_letters: DeadLettersSection = DeadLettersSection()
    sinks: Sinks = Sinks()
    log: field_types.Log = field_types.Log()
    shutdown_timeout: field_types.Seconds = 30.0
    """Longest time that a shutdown scores and delivers what is left. The rest stays in the journal."""

    def scorer(self) -> Scorer:
        """Return what sessions are scored by.

        Raises FileError if the definitions of tools or the options of the judge cannot be read, SettingsError if the
        judge cannot be used.
        """
        scoring = self.scoring
        scorer = scoring.scorer(has_goldens=bool(self.goldens))
        if self.profile is not None and not any(one.metric.name == PROFILE_METRIC for one in scorer.metrics):
            # It judges nothing, and says that messages and results are to be read.
            scorer = replace(scorer, metrics=(*scorer.metrics, ChosenMetric(ToolParameterProfile())))
        if scoring.judge is not None:
            # Imported when asked for: most gateways ask no model.
            from goldspan.collector_processor.judge.judging import Judge  # noqa: PLC0415

            scorer = replace(scorer, later=choose_metrics([Judge.from_file(scoring.judge)]))
        return scorer

    def pipeline(self, environ: Mapping[str, str]) -> PipelineSettings:
        """Return the settings of the pipeline. Raises FileError and SettingsError as `scorer` does."""
        state = field_types.state_folder(environ)
        scoring, journal, dead_letters = self.scoring, self.journal, self.dead_letters
        return PipelineSettings(
            hold=scoring.hold,
            sample=scoring.sample,
            max_held_bytes=scoring.max_held_bytes,
            engine=replace(scoring.engine(self.scorer()), max_spans=scoring.max_spans),
            max_text_bytes=scoring.max_text_bytes,
            max_tenants=scoring.max_tenants,
            trust_scores=self.receivers.trust_scores,
            name_limit=scoring.name_limit,
            max_sessions=self.tenant_limits.max_sessions,
            journal=(journal.folder or state / "journal") if journal.enabled else None,
            journal_sync=journal.sync,
            journal_max_bytes=journal.max_bytes,
            max_memory=journal.max_memory,
            max_backlog=journal.max_backlog,
            deliveries=self.export.concurrency,
            batch_delay=self.export.batch_delay or 0.0,
            backoff=self.export.retry,
            addresses=self.export.addresses(),
            dead_letters=(dead_letters.folder or state / "dead-letters") if dead_letters.enabled else None,
            dead_letter_files=dead_letters.max_files,
            dead_letter_bytes=dead_letters.max_bytes,
            profiles=None if self.profile is None else self.profile.folder or state / "profiles",
            learn_profiles=0.0 if self.profile is None else self.profile.learn,
        )

    @model_validator(mode="after")
    def _no_loop(self) -> GatewaySettings:
        own = {address.port: address for _, address in self.receivers.addresses()}
        for signal in Signal:
            overrides: SignalExport = getattr(self.export, signal)
            parts = urlsplit(overrides.endpoint or self.export.endpoint)
            address = own.get(parts.port or (443 if parts.scheme == "https" else 80))
            target = field_types.ListenAddress(parts.hostname or "", 1)
            if address is not None and address.port and (target.is_loopback or target.host == address.host):
                raise ValueError(
                    f"`export` leads back to this gateway, which listens on {address}: name the next receiver"
                )
        return self

    @model_validator(mode="after")
    def _each_address_once(self) -> GatewaySettings:
        addresses = dict(self.receivers.addresses())
        if self.admin.listen is not None:
            addresses["admin"] = self.admin.listen
        for (name, one), (other, two) in combinations(addresses.items(), 2):
            if one.overlaps(two):
                raise ValueError(f"`{name}` and `{other}` both listen on port {one.port}: give each a port of its own")
        return self

    @model_validator(mode="after")
    def _admin_has_tokens_beyond_loopback(self) -> GatewaySettings:
        address = self.admin.listen
        if address is not None and not address.is_loopback and not (self.admin.tokens or self.receivers.tokens):
            raise ValueError(
                f"`admin` listens beyond loopback on {address}: set `admin.tokens` for /metrics and /coverage"
            )
        return self
