"""The settings of an engine, and its counters."""

from __future__ import annotations

from dataclasses import dataclass, field

from goldspan.collector_processor.metric_threads import MetricWorkers
from goldspan.mappers.assembly.runs import AssemblySettings
from goldspan.scoring.run import Scorer


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """When results are given and state is dropped; times in seconds of the door's clock."""

    settle: float = 1.0
    """A turn whose root has ended is complete after so long without new records in its trace."""
    hold_timeout: float = 20.0
    """Held spans wait no longer for their turn; a turn waits no longer for a caller in another process."""
    caller_timeout: float = 600.0
    """How long a turn waits for a parent in its own process that was not seen: its agent is still running."""
    run_idle: float = 60.0
    """A run is complete after so long without new records in its session."""
    retention: float = 3600.0
    """The state of a session is dropped after so long without new records."""
    trace_retention: float = 60.0
    """The state of a trace that no golden wants is dropped after so long without new records."""
    tombstone_ttl: float = 86_400.0
    """How long repeats of dropped spans are recognised."""
    max_spans: int = 1_000_000
    """Spans in memory; beyond it the least recently active session is scored as incomplete and dropped."""
    max_content: int | None = None
    """Characters of messages, definitions of tools, results and answers in memory; beyond it as beyond `max_spans`."""
    remote_callers: bool = True
    """The spans of calling processes may arrive here, too; in the agent's own process they never do."""
    holds: bool = True
    """The door holds spans until they are released."""
    include_values: bool = False
    """Explanations hold argument values."""
    emits: bool = True
    """Results are given as evaluations too, which are emitted; otherwise as results of sessions alone."""
    report_unmatched: bool = False
    """Give results of sessions without golden too, for reports: which there were, where and when."""
    scorer: Scorer = field(default_factory=lambda: Scorer(run=MetricWorkers()))
    """How sessions are scored: `tool_parameter_match` or a preset, and additional metrics."""
    assembly: AssemblySettings = field(default_factory=AssemblySettings)


@dataclass(slots=True)
class EngineStats:
    """What an engine has counted."""

    spans: int = 0
    repeated: int = 0
    """Records that came again: same trace and span id, and no newer version."""
    late: int = 0
    """Records of traces and runs that were dropped, so that they can correct nothing."""
    evicted_sessions: int = 0
    sessions_without_golden: int = 0
    held_past_timeout: int = 0
