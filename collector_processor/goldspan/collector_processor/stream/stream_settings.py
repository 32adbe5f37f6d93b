"""The settings of `goldspan stream`: every section and field, its default and its meaning."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from goldspan.collector_processor.engine.trace_machine import EngineSettings
from goldspan.collector_processor.serving import field_types
from goldspan.scoring.errors import SettingsError
from goldspan.scoring.json_values import is_dict

_OPTION = re.compile(
    r"security\.protocol|sasl\..+|ssl\..+|enable\.ssl\.certificate\.verification|client\.id|client\.rack"
    r"|broker\.address\.(?:ttl|family)|socket\..+|reconnect\.backoff\..+|metadata\.max\.age\.ms"
    r"|connections\.max\.idle\.ms|debug|fetch\..+|queued\..+|compression\.type|linger\.ms|batch\.size|request\.timeout\.ms"
)
"""librdkafka's options that a user may set: the connection and sizes. goldspan sets what its guarantees rest on."""
_ADDRESS = re.compile(r"(?:\[[0-9A-Fa-f:]+\]|[^\s:/@\[\],]+):[0-9]{1,5}")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_GROUP = re.compile(r"[A-Za-z0-9._-]{1,100}")


def _brokers(addresses: tuple[str, ...]) -> tuple[str, ...]:
    if not addresses:
        raise ValueError("found none, expected host:port, such as localhost:9092")
    for address in addresses:
        if not _ADDRESS.fullmatch(address):
            raise ValueError(f"found {address!r}, expected host:port, such as localhost:9092")
    return addresses


def _options(options: Mapping[str, str | field_types.Secret]) -> Mapping[str, str | field_types.Secret]:
    for name in options:
        if not _OPTION.fullmatch(name):
            raise ValueError(
                f"found {name}, expected an option of librdkafka for the connection, such as sasl.username"
            )
    return options


def _topic(name: str) -> str:
    if not _TOPIC.fullmatch(name) or name in {".", ".."}:
        raise ValueError(f"found {name!r}, expected the name of a topic: letters, digits, `.`, `_` and `-`")
    return name


def _group(name: str) -> str:
    if not _GROUP.fullmatch(name):
        raise ValueError(f"found {name!r}, expected the id of a consumer group: letters, digits, `.`, `_` and `-`")
    return name


def _as_text(value: object) -> object:
    """Accept numbers and booleans as options: librdkafka reads text."""
    return {name: _text(one) for name, one in value.items()} if is_dict(value) else field_types.split_pairs(value)


def _text(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


Options = Annotated[Mapping[str, field_types.SecretText], BeforeValidator(_as_text), AfterValidator(_options)]
"""Options of librdkafka, by name."""
TopicName = Annotated[str, AfterValidator(_topic)]
"""The name of a topic."""


class Kafka(field_types.Section):
    """The broker, and how this worker uses it."""

    brokers: Annotated[field_types.Texts, AfterValidator(_brokers)]
    """Addresses of brokers, such as `localhost:9092`."""
    group: Annotated[str, AfterValidator(_group)] = "goldspan"
    """The consumer group: workers with one group share the partitions. A new one begins at the oldest records.
    Changelogs are named after it."""
    options: Options = Field(default_factory=dict[str, field_types.SecretText])
    """Options of librdkafka for TLS, SASL and sizes, such as `security.protocol`. Secrets are `{env: NAME}` or
    `{file: PATH}`."""
    guarantee: Literal["at-least-once", "exactly-once"] = "at-least-once"
    """`at-least-once`: after a failure some results come again, under the same ids. `exactly-once`: by transactions."""
    commit_interval: field_types.Seconds = 5.0
    """How often state, outputs and offsets are committed."""
    session_timeout: field_types.Seconds = 15.0
    """A worker that is silent for so long has died, and others take its partitions over."""
    broker_timeout: field_types.Seconds = 120.0
    """A worker that reaches no broker for so long starts anew."""
    partitions: field_types.Count = 12
    """Partitions of topics that do not exist yet. It limits the number of workers, and cannot be changed later."""
    replication: Annotated[int, Field(ge=-1)] = -1
    """Copies of the topics that are created; -1: as the broker is set up."""
    max_message: field_types.Size = 16 << 20
    """Largest record that is written, also to the changelogs."""
    max_waiting: field_types.Count = 20_000
    """Records of sessions that wait in a partition. Beyond it the partition's spans and logs are paused."""


class Topics(field_types.Section):
    """The topics. Those that do not exist are created, all with the same number of partitions."""

    spans: TopicName = "otlp_spans"
    """Read: OTLP traces, keyed by trace id."""
    logs: TopicName = "otlp_logs"
    """Read: OTLP logs, keyed by trace id. Agents may write the content of calls as log records."""
    notes: TopicName = "goldspan.notes"
    """Between traces: content for spans of another trace."""
    sessions: TopicName = "goldspan.sessions"
    """Between the stages: parts of turns, keyed by session id."""
    scored: TopicName = "goldspan.spans"
    """Written: all spans as OTLP traces, with scores."""
    events: TopicName = "goldspan.events"
    """Written: one event for each result, as OTLP logs."""
    metrics: TopicName = "goldspan.metrics"
    """Written: metric points, as OTLP metrics."""
    dead_letters: TopicName = "goldspan.dead_letters"
    """Written: records that could not be read. Their headers say where they came from, and why."""

    def read(self) -> tuple[str, ...]:
        """Return the names of the topics that workers read, which need the same number of partitions."""
        return self.spans, self.logs, self.notes, self.sessions

    def written(self) -> tuple[str, ...]:
        """Return the names of the topics with results."""
        return self.scored, self.events, self.metrics, self.dead_letters

    @model_validator(mode="after")
    def _each_once(self) -> Topics:
        again = [name for name, count in Counter((*self.read(), *self.written())).items() if count > 1]
        if again:
            raise ValueError(f"found {again[0]} twice, expected a topic of its own for each")
        return self


class StateSection(field_types.Section):
    """Open traces and sessions, on disk. Their changelog topics are the copy that counts."""

    folder: Path | None = None
    """A folder that no other worker uses; null: `stream` in the state folder."""
    max_trace_spans: field_types.Count = 20_000
    """Spans and log records of a trace. Results of a trace with more are incomplete."""
    max_session_spans: field_types.Count = 100_000
    """Spans of a session. Results of a session with more are incomplete."""
    cache: field_types.Size = 64 << 20
    """Memory of each partition for sessions, and again for spans of traces that no golden matches so far."""


class StreamSettings(field_types.Section):
    """Top-level settings."""

    goldens: field_types.Paths = ()
    """Golden files and folders, the same for all workers. Without any, sessions are scored by `scoring.metrics`."""
    criterion: Path | None = None
    """The criterion that golden sets inherit."""
    watch_files: field_types.Seconds | None = 5.0
    """How often goldens are checked for changes; null: reload only on SIGHUP."""
    trust_scores: bool = True
    """false: attributes and events under goldspan's names that come with spans and logs are removed and counted."""
    kafka: Kafka
    topics: Topics = Topics()
    scoring: field_types.SessionScoring = field_types.SessionScoring()
    state: StateSection = StateSection()
    admin: field_types.AdminSection = field_types.AdminSection()
    log: field_types.Log = field_types.Log()

    def engine(self) -> EngineSettings:
        """Return when sessions are scored, and by what. Raises FileError if the definitions of tools cannot be read."""
        return self.scoring.engine(self.scoring.scorer(has_goldens=bool(self.goldens)))

    def folder(self, environ: Mapping[str, str]) -> Path:
        """Return the folder of the state."""
        return self.state.folder or field_types.state_folder(environ) / "stream"

    def options(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the options for librdkafka with brokers, secrets read. Raises SettingsError."""
        try:
            options = {name: field_types.read_secret(value, environ) for name, value in self.kafka.options.items()}
        except SettingsError as error:
            raise SettingsError(f"kafka.options: {error}") from None
        return {"bootstrap.servers": ",".join(self.kafka.brokers), **options}

    @model_validator(mode="after")
    def _admin_has_tokens_beyond_loopback(self) -> StreamSettings:
        address = self.admin.listen
        if address is not None and not address.is_loopback and not self.admin.tokens:
            raise ValueError(f"`admin` listens beyond loopback on {address}: set `admin.tokens` for /metrics")
        return self
