"""What a door may set about the engine, and what the engine counts."""

from __future__ import annotations

from dataclasses import dataclass, field

from goldspan.collector_processor.metric_workers import MetricWorkers
from goldspan.mappers.assembly import AssemblySettings
from goldspan.scoring.run import Scorer


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """When results are handed out and state is dropped; times in seconds of the door's clock."""

    settle: float = 1.0
    """A turn whose root has ended is handed out when nothing new came for it for so long."""
    hold_timeout: float = 20.0
    """Spans wait for their turn no longer than this; so does a turn for a caller in another process."""
    caller_timeout: float = 600.0
    """How long a turn waits for a parent in its own process that was named and not seen: an agent still running."""
    run_idle: float = 60.0
    """A run is judged as a whole when its session was quiet for so long."""
    retention: float = 3600.0
    """State of a session is dropped when it was quiet for so long."""
    trace_retention: float = 60.0
    """State of a trace in which no golden is interested is dropped when it was quiet for so long."""
    tombstone_ttl: float = 86_400.0
    """How long repeats of dropped spans are recognised as such."""
    max_spans: int = 1_000_000
    """Spans kept at once; beyond it the least recently active session is handed out as incomplete and dropped."""
    remote_callers: bool = True
    """Spans of calling processes may arrive here too. In process they never do."""
    holds: bool = True
    """The door holds spans back until they are released."""
    include_values: bool = False
    """Explanations hold argument values."""
    report_unmatched: bool = False
    """Hand out sessions without golden as results too, for reports: that they were, where and when."""
    scorer: Scorer = field(default_factory=lambda: Scorer(run=MetricWorkers()))
    """How sessions are judged: a preset in the place of `tool_parameter_match`, metrics beside it."""
    assembly: AssemblySettings = field(default_factory=AssemblySettings)


@dataclass(slots=True)
class EngineStats:
    """What the engine counted since it was made."""

    spans: int = 0
    repeated: int = 0
    late: int = 0
    evicted_sessions: int = 0
    sessions_without_golden: int = 0
    held_past_timeout: int = 0
