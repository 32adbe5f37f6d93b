"""Settings of the inside: what waits and for how long, what is kept on disk, how often delivery is tried again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator

from goldspan.collector_processor.engine_settings import EngineSettings
from goldspan.collector_processor.gateway.delivery import Backoff
from goldspan.collector_processor.gateway.pipeline_settings import PipelineSettings
from goldspan.collector_processor.gateway.settings_fields import Count, Seconds, Section, Size, Texts
from goldspan.collector_processor.metric_workers import MetricWorkers
from goldspan.mappers.assembly import DEFAULT_SESSION_KEYS, AssemblySettings
from goldspan.scoring.metrics.judging import choose_metrics
from goldspan.scoring.scorer import scorer_of


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
