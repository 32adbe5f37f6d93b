"""Sections of settings that the gateway and the stream share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator

from goldspan.collector_processor.engine.settings import EngineSettings
from goldspan.collector_processor.metric_threads import MetricWorkers
from goldspan.collector_processor.serving.field_types import (
    Address,
    ListenAddress,
    Seconds,
    Secret,
    Section,
    ServerTls,
    Share,
    Texts,
)
from goldspan.mappers.assembly.runs import AssemblySettings
from goldspan.mappers.assembly.turn_fragments import DEFAULT_SESSION_KEYS
from goldspan.scoring.metrics.metric_registry import WITHOUT_GOLDEN
from goldspan.scoring.metrics.session_metrics import choose_metrics
from goldspan.scoring.run import Scorer, scorer_of
from goldspan.scoring.tool_definitions import load_tools

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
    include_values: bool = False
    """Explanations hold the values of arguments, not only their names."""
    preset: Annotated[str | dict[str, Any] | None, AfterValidator(_preset)] = None
    """Scorer of another system instead of `tool_parameter_match`: its name, or a mapping of `name` and options."""
    metrics: Annotated[Texts | None, AfterValidator(_metrics)] = None
    """Further metrics: names, or import paths (`pkg.module:function`), each with `=THRESHOLD` or without. null: with
    goldens none, without goldens `tool_parameter_schema`, `tool_parameter_grounding` and `tool_call_repetition`."""
    sample: Share = 1.0
    """Share of the sessions without golden that is scored by metrics that need none: the same ones on every machine."""
    tools: Path | None = None
    """A JSON file with the definitions of the agents' tools, in place of those in telemetry; read at the start."""
    metric_timeout: Seconds = 10.0
    """Longest time that a metric of your own may take for one session."""

    def scorer(self, *, has_goldens: bool) -> Scorer:
        """Return what sessions are scored by. Raises FileError if the definitions of tools cannot be read."""
        metrics = self.metrics
        if metrics is None:
            metrics = () if has_goldens else tuple(metric.name for metric in WITHOUT_GOLDEN)
        scorer = scorer_of(preset=self.preset, metrics=metrics, run=MetricWorkers(self.metric_timeout))
        return scorer if self.tools is None else scorer.with_tools(load_tools(self.tools))

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
