"""What settings are made of: types of fields, and the sections that the gateway and the stream share.

Fields are sizes and times with units, addresses, URLs, headers, secrets by their place, and TLS.
"""

from __future__ import annotations

import ipaddress
import re
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    Strict,
    Tag,
    WithJsonSchema,
    model_validator,
)

from goldspan.collector_processor.daemon_threads import MetricWorkers
from goldspan.collector_processor.emit.evaluation import Events
from goldspan.collector_processor.engine.trace_machine import EngineSettings
from goldspan.collector_processor.server_urls import check_url
from goldspan.mappers.assembly.runs import AssemblySettings
from goldspan.mappers.assembly.turn_fragments import DEFAULT_SESSION_KEYS
from goldspan.scoring.errors import SettingsError
from goldspan.scoring.field_docstrings import describe_fields
from goldspan.scoring.json_values import shown
from goldspan.scoring.metrics.session_metrics import choose_metrics
from goldspan.scoring.run import Scorer, scorer_of

_BYTES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
_SECONDS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_NUMBER_AND_UNIT = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]*)")
_HEADER = re.compile(r"[a-z0-9][a-z0-9._-]*")
_OF_ONE_CONNECTION = re.compile(
    r"connection|content-.*|expect|grpc-.*|host|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|.*-bin"
)
"""Headers of one connection or one request, which HTTP and gRPC set themselves."""
_NEVER_FORWARDED = re.compile(f"{_OF_ONE_CONNECTION.pattern}|cookie|user-agent")


class Section(BaseModel):
    """A section of the settings: frozen, without unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_extra=describe_fields)


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """A host and a port to listen on. Port 0 means any free port."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `host:port` or `[::1]:port`. Raises ValueError with what was expected."""
        host, colon, port = text.strip().rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        number = int(port) if port.isascii() and port.isdecimal() and len(port) <= 5 else -1
        if not colon or not host or not 0 <= number <= 65_535:
            raise ValueError("expected host:port, such as 127.0.0.1:4318")
        return cls(host, number)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def overlaps(self, other: ListenAddress) -> bool:
        """Whether both want one port of one host. Names of hosts are not looked up, except localhost."""
        hosts = {"127.0.0.1" if one.host == "localhost" else one.host for one in (self, other)}
        return (
            bool(self.port) and self.port == other.port and (len(hosts) == 1 or not hosts.isdisjoint({"0.0.0.0", "::"}))
        )

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _with_unit(value: object, units: Mapping[str, float], expected: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        number = float(value)
    else:
        match = _NUMBER_AND_UNIT.fullmatch(value.strip()) if isinstance(value, str) else None
        if match is None or match[2].lower() not in units:
            raise ValueError(f"found {shown(value)}, expected {expected}")
        number = float(match[1]) * units[match[2].lower()]
    if not 0 < number < float("inf"):
        raise ValueError(f"found {shown(value)}, expected more than 0")
    return number


def _size(value: object) -> int:
    return max(1, int(_with_unit(value, _BYTES, "bytes, as a number or as 20MiB")))


def _seconds(value: object) -> float:
    return _with_unit(value, _SECONDS, "seconds, as a number or as 500ms, 30s, 5m, 1h")


def _address(value: object) -> object:
    if value is None or isinstance(value, ListenAddress) or value == "":
        return value or None
    try:
        return ListenAddress.parse(str(value))
    except ValueError as error:
        raise ValueError(f"found {shown(value)}, {error}") from None


def _url(value: object) -> str:
    return check_url(value, "a URL such as http://localhost:4318", "`headers` take secrets")


def _forwarded_header(value: object) -> object:
    name = value.strip().lower() if isinstance(value, str) else ""
    if not _HEADER.fullmatch(name):
        raise ValueError(f"found {shown(value)}, expected the name of a header, such as x-scope-orgid")
    if _NEVER_FORWARDED.fullmatch(name):
        raise ValueError(f"found {shown(value)}: this header belongs to one connection and is never forwarded")
    return name


def _split_commas(value: object) -> object:
    """Accept `a,b` or one value for a list, as environment variables need it."""
    return [one.strip() for one in value.split(",") if one.strip()] if isinstance(value, str) else value


def split_pairs(value: object) -> object:
    """Accept `name=value,name=value` for a mapping, as in OTEL_EXPORTER_OTLP_HEADERS."""
    if not isinstance(value, str):
        return value
    pairs = [pair.partition("=") for pair in value.split(",") if pair.strip()]
    if any(not (name.strip() and equals) for name, equals, _ in pairs):
        raise ValueError("expected name=value pairs with commas between")
    return {name.strip(): text.strip() for name, _, text in pairs}


def _share(value: float) -> float:
    if not 0 < value <= 1:
        raise ValueError(f"found {value:g}, expected a number above 0 and at most 1, such as 0.1")
    return value


Size = Annotated[int, BeforeValidator(_size), WithJsonSchema({"type": ["integer", "string"]})]
"""Bytes: a number, or a number with a unit, as in `20MiB`."""
Seconds = Annotated[float, BeforeValidator(_seconds), WithJsonSchema({"type": ["number", "string"]})]
"""Seconds: a number, or a number with a unit, as in `5m`."""
Count = Annotated[int, Field(ge=1)]
"""1 or more."""
Share = Annotated[
    float, AfterValidator(_share), WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": 1})
]
"""A part of a whole: above 0 and at most 1."""
Address = Annotated[
    ListenAddress | None,
    BeforeValidator(_address),
    PlainSerializer(lambda address: address and str(address)),
    WithJsonSchema({"type": ["string", "null"]}),
]
"""`host:port`, or null."""
Endpoint = Annotated[str, BeforeValidator(_url)]
"""An HTTP URL."""
_ONE_OR_MORE = WithJsonSchema({"type": ["array", "string"], "items": {"type": "string"}})
HeaderNames = Annotated[
    tuple[Annotated[str, BeforeValidator(_forwarded_header)], ...], BeforeValidator(_split_commas), _ONE_OR_MORE
]
"""Names of headers to forward, in lower case: a list, or text with commas."""
Texts = Annotated[tuple[str, ...], BeforeValidator(_split_commas), _ONE_OR_MORE]
"""A list of texts, or text with commas."""
Paths = Annotated[tuple[Path, ...], BeforeValidator(_split_commas), _ONE_OR_MORE]
"""A list of files or folders, or one of them."""


class Secret(Section):
    """A secret, by the place where it is. The settings never hold or print its value."""

    env: str | None = None
    """The environment variable that holds it."""
    file: Path | None = None
    """The file that holds it, and nothing else."""

    @model_validator(mode="after")
    def _one_place(self) -> Secret:
        if (self.env is None) == (self.file is None):
            raise ValueError("expected one of `env`, the name of a variable, and `file`")
        return self

    def read(self, environ: Mapping[str, str]) -> str:
        """Return the secret. Raises SettingsError, which names the place and never the value."""
        if self.env is not None:
            place, text = f"the variable {self.env}", environ.get(self.env, "")
        else:
            path = self.file or Path()
            place = f"the file {path}"
            try:
                if path.exists() and not path.is_file():
                    raise SettingsError(f"{place} is a pipe, a device or a folder, expected a regular file")
                text = path.read_text("utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise SettingsError(f"{place} cannot be read: {getattr(error, 'strerror', None) or error}") from None
        text = text.strip()
        if not text.isascii() or not text.isprintable() or not text:
            raise SettingsError(f"{place} holds no secret: expected one line of printable ASCII")
        return text


def read_secret(value: str | Secret, environ: Mapping[str, str]) -> str:
    """Return a value that is either text or the place of a secret. Raises SettingsError."""
    return value.read(environ) if isinstance(value, Secret) else value


def _valid_headers(headers: Mapping[str, str | Secret]) -> Mapping[str, str | Secret]:
    for name, value in headers.items():
        if not _HEADER.fullmatch(name.lower()):
            raise ValueError(f"found {shown(name)}, expected the name of a header, such as x-api-key")
        if _OF_ONE_CONNECTION.fullmatch(name.lower()):
            raise ValueError(f"found {shown(name)}: HTTP and gRPC set this header themselves, for each request")
        if name.lower() in {one.lower() for one in headers if one != name}:
            raise ValueError(f"found {shown(name)} twice, expected each header once")
        if isinstance(value, str) and not (value.isascii() and value.isprintable()):
            raise ValueError(f"the value of {name} has characters that no header can have, expected printable ASCII")
    return headers


def _text_or_place(value: Any) -> str:
    return "place" if isinstance(value, Mapping | Secret) else "text"


SecretText = Annotated[
    Annotated[str, Strict(), Tag("text")] | Annotated[Secret, Tag("place")], Discriminator(_text_or_place)
]
"""Text, or the place of a secret."""
HeaderValues = Annotated[Mapping[str, SecretText], BeforeValidator(split_pairs), AfterValidator(_valid_headers)]
"""Headers to send, by name."""


_ATTEMPTS = 3
_END = "-----END CERTIFICATE-----"
_TIME = rb"(?:\x17\x0d(\d{12})|\x18\x0f(\d{14}))Z"
_VALIDITY = re.compile(_TIME.replace(b"(\\d", b"(?:\\d") + _TIME)
"""When an X.509 certificate begins and ends: two times, each as UTCTime or GeneralizedTime (RFC 5280, 4.1.2.5)."""


@dataclass(frozen=True, slots=True)
class Pem:
    """The content of PEM files, as gRPC takes it."""

    ca: bytes | None
    key: bytes | None
    certificate: bytes | None


class ServerTls(Section):
    """The certificate of the server, and whether clients need one."""

    certificate: Path
    """The certificate chain, as PEM."""
    key: Path
    """The private key, as PEM."""
    client_ca: Path | None = None
    """The CA of client certificates, as PEM. With it, clients must present a certificate of this CA (mTLS)."""

    def context(self) -> ssl.SSLContext:
        """Make the context of an HTTP server. Raises SettingsError."""
        return self._load()[0]

    def pem(self) -> Pem:
        """Read the files for a gRPC server. Raises SettingsError."""
        return self._load()[1]  # gRPC does not report a key that does not match its certificate

    def expiry(self) -> float | None:
        """Return when the certificate on the disk ends, in seconds since the epoch; None if that cannot be read."""
        try:
            encoded = ssl.PEM_cert_to_DER_cert(self.certificate.read_text("ascii").partition("-----END")[0] + _END)
        except (OSError, ValueError):
            return None
        found = _VALIDITY.search(encoded)
        if found is None:
            return None
        short, long = found.groups()
        text = long or (b"20" if short < b"50" else b"19") + short
        return datetime.strptime(text.decode(), "%Y%m%d%H%M%S").replace(tzinfo=UTC).timestamp()

    def _load(self) -> tuple[ssl.SSLContext, Pem]:
        """Return the files as a context and as bytes, both of the same content, in which key and certificate match.

        Whoever renews a certificate replaces one file after the other, perhaps while they are read.
        """
        for _ in range(_ATTEMPTS):
            pem = self._read_files()
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            try:
                context.load_cert_chain(self.certificate, self.key)
                if self.client_ca is not None:
                    context.load_verify_locations(self.client_ca)
                    context.verify_mode = ssl.CERT_REQUIRED
            except (OSError, ssl.SSLError) as error:
                raise SettingsError(f"TLS: {self.certificate}, {self.key}, {self.client_ca}: {error}") from None
            if self._read_files() == pem:
                return context, pem
        raise SettingsError(f"TLS: {self.certificate}, {self.key}, {self.client_ca}: they change while they are read")

    def _read_files(self) -> Pem:
        return Pem(_read(self.client_ca), _read(self.key), _read(self.certificate))


class ClientTls(Section):
    """The CA to trust, and the client certificate."""

    ca: Path | None = None
    """CA certificates to trust instead of the system's, as PEM."""
    certificate: Path | None = None
    """The client certificate to present (mTLS), as PEM."""
    key: Path | None = None
    """Its private key, as PEM."""

    def context(self) -> ssl.SSLContext:
        """Make the context of an HTTP client. Raises SettingsError."""
        _check(self.ca, self.certificate, self.key)
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            raise SettingsError(f"TLS: {self.ca}, {self.certificate}, {self.key}: {error}") from None
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context

    def pem(self) -> Pem:
        """Read the files for a gRPC client. Raises SettingsError."""
        self.context()
        return Pem(_read(self.ca), _read(self.key), _read(self.certificate))

    @model_validator(mode="after")
    def _both_or_none(self) -> ClientTls:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("expected `certificate` and `key` together")
        return self


def _check(*paths: Path | None) -> None:
    """Raise SettingsError for what is no file: reading a pipe may never end."""
    for path in filter(None, paths):
        with suppress(OSError):
            if path.exists() and not path.is_file():
                raise SettingsError(f"TLS: {path} is a pipe, a device or a folder, expected a regular file")


def _read(path: Path | None) -> bytes | None:
    try:
        return None if path is None else path.read_bytes()
    except OSError as error:
        raise SettingsError(f"TLS: {path}: {error.strerror or error}") from None


ADMIN_PORT = 4319


class AdminSection(Section):
    """Health, metrics and coverage, on an address of their own."""

    listen: Address = ListenAddress("127.0.0.1", ADMIN_PORT)
    """Address of `/healthz`, `/readyz`, `/metrics` and `/coverage`; null turns them off."""
    tokens: tuple[Secret, ...] = ()
    """Bearer tokens for `/metrics` and `/coverage`; none: those of `receivers`. Required beyond loopback."""
    tls: ServerTls | None = None
    """Certificate of the admin pages; null: no TLS."""


def _hold(value: object) -> object:
    """Accept YAML 1.1's `off` and `on`, which some tools write as booleans."""
    return {True: "turn", False: "off"}.get(value, value) if isinstance(value, bool) else value


def _preset(value: str | dict[str, Any] | None) -> str | dict[str, Any] | None:
    scorer_of(preset=value)
    return value


def _metrics(value: tuple[str, ...] | None) -> tuple[str, ...] | None:
    choose_metrics(value or ())
    return value


class SessionScoring(Section):
    """When turns and sessions are scored, and by what."""

    hold: Annotated[Literal["turn", "off"], BeforeValidator(_hold)] = "turn"
    """`turn`: tool spans and turn roots wait for their scores. `off`: no span waits, scores are events and metrics."""
    hold_timeout: Seconds = 20.0
    """Longest time that a span waits."""
    settle: Seconds = 1.0
    """A turn whose root span has ended is scored when it received no new span for this long."""
    caller_timeout: Seconds = 600.0
    """How long a turn waits for a parent span of the same process that was not received yet: an agent still running."""
    run_idle: Seconds = 60.0
    """A session without new spans for this long is scored as a whole. If it was complete, later turns are a new run."""
    session_gap: Seconds = 3600.0
    """Two turns of one session id that are further apart belong to different runs."""
    retention: Seconds = 3600.0
    """The state of a session is dropped when it received no new span for this long."""
    trace_retention: Seconds = 60.0
    """The state of a trace that no golden matches is dropped when it received no new span for this long."""
    session_keys: Texts = DEFAULT_SESSION_KEYS
    """Attributes that may hold the session id. The first one found is used."""
    name_limit: Count = 200
    """Names of tools, of arguments and of agents of each service that become attributes of metrics. Of more, those that
    occur most are shown and the others are `_other`; `/coverage` of the gateway lists them."""
    include_values: bool = False
    """Explanations hold the values of arguments, not only their names."""
    events: Literal["findings", "failures", "all"] = "findings"
    """Which results are told by an event: `findings`, all of goldens, and of metrics without golden those in which
    something was found; `failures`, of goldens no call that passes either; `all`."""
    preset: Annotated[str | dict[str, Any] | None, AfterValidator(_preset)] = None
    """Scorer of another system instead of `tool_parameter_match`: its name, or a mapping of `name` and options."""
    metrics: Annotated[Texts | None, AfterValidator(_metrics)] = None
    """Further metrics: names, or import paths (`pkg.module:function`), each with `=THRESHOLD` or without. null: with
    goldens none, without goldens `tool_parameter_schema`, `tool_parameter_grounding` and `tool_call_repetition`."""
    sample: Share = 1.0
    """Share of the sessions without golden that is scored by metrics that need none: the same ones on every machine."""
    tools: Path | None = None
    """A JSON file with the definitions of the agents' tools, in place of those in telemetry; read at the start."""
    profile: Path | None = None
    """The file of a profile, what is normal for the agents, by which `tool_parameter_profile` judges; read at the
    start."""
    metric_timeout: Seconds = 10.0
    """Longest time that a metric of your own may take for one session."""

    def scorer(self, *, has_goldens: bool) -> Scorer:
        """Return what sessions are scored by. Raises FileError if the definitions of tools or the profile are wrong."""
        run = MetricWorkers(self.metric_timeout)
        return scorer_of(
            preset=self.preset,
            metrics=self.metrics,
            run=run,
            has_goldens=has_goldens,
            tools=self.tools,
            profile=self.profile,
        )

    def engine(self, scorer: Scorer) -> EngineSettings:
        """Return the settings of an engine that scores with this scorer."""
        return EngineSettings(
            settle=self.settle,
            hold_timeout=self.hold_timeout,
            caller_timeout=self.caller_timeout,
            run_idle=self.run_idle,
            retention=self.retention,
            trace_retention=self.trace_retention,
            include_values=self.include_values,
            events=Events(self.events),
            scorer=scorer,
            assembly=AssemblySettings(
                session_keys=self.session_keys, session_gap=self.session_gap, run_idle=self.run_idle
            ),
        )


class Log(Section):
    """The gateway's log, on standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """`debug`, `info`, `warning` or `error`."""
    format: Literal["json", "text"] = "json"
    """`json`: one object per line. `text`: for people."""


def state_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of the gateway's state: systemd's, else the one of the XDG base directories."""
    if folder := environ.get("STATE_DIRECTORY"):
        return Path(folder.partition(":")[0])
    home = environ.get("XDG_STATE_HOME")
    return (Path(home) if home else Path.home() / ".local" / "state") / "goldspan"
