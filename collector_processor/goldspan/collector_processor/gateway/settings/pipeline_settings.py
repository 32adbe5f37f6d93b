"""What may be set about the inside of the gateway: holding, judging, the journal, delivery."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from goldspan.collector_processor.engine.settings import EngineSettings
from goldspan.collector_processor.gateway.deliver.dispatcher import Backoff


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """Every bound of the inside; times in seconds, sizes in bytes."""

    tier: Literal["single", "assemble"] = "single"
    """All there is, or the first of two tiers, which finds the session of each turn and scores nothing."""
    hold: Literal["turn", "off"] = "turn"
    """Tool spans and turn roots wait for their results, or nothing waits and results are events and metrics only."""
    max_held_bytes: int = 64 << 20
    """Spans that wait at once; beyond it those that waited longest leave without their attributes."""
    engine: EngineSettings = field(default_factory=EngineSettings)
    """When turns and runs are judged, and how long and how many of them are kept; `hold_timeout` is there.

    Tenants have equal parts of `max_spans` and of `shelf_bytes`.
    """
    shelf_bytes: int = 64 << 20
    """Encoded spans that are kept for `engine.trace_retention`, should their trace turn out to be of interest."""
    max_tenants: int = 64
    """Different sets of forwarded headers at once; beyond it the least recently active one is judged and dropped."""
    journal: Path | None = None
    """A folder of this gateway's own; none: what was acknowledged is lost with the process."""
    journal_sync: Literal["normal", "full"] = "normal"
    """`normal` survives the end of the process; `full` survives power loss, and waits for the disk at every request."""
    journal_max_bytes: int = 1 << 30
    """What may wait on disk; beyond it requests are answered with busy."""
    max_memory: int = 128 << 20
    """Bodies in memory that wait for delivery. Without a journal, all that may wait."""
    max_backlog: int = 64 << 20
    """Bodies that were accepted and not looked at yet; beyond it requests are answered with busy."""
    deliveries: int = 4
    """Attempts at once."""
    backoff: Backoff = field(default_factory=Backoff)
    """How long a receiver that does not answer is left alone."""
    dead_letters: Path | None = None
    """A folder for what receivers refused for good; none: it is only counted."""
    dead_letter_files: int = 1000
    dead_letter_bytes: int = 256 << 20
