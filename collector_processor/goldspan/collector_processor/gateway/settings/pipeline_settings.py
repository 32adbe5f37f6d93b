"""The settings of the pipeline: holding, judging, the journal, delivery, dead letters."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from goldspan.collector_processor.engine.settings import EngineSettings
from goldspan.collector_processor.gateway.deliver.dispatcher import Backoff


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """Every bound of the pipeline; times in seconds, sizes in bytes."""

    tier: Literal["single", "assemble"] = "single"
    """A gateway that scores, or the first of two tiers, which stamps the session on each turn and scores nothing."""
    hold: Literal["turn", "off"] = "turn"
    """Tool spans and turn roots wait for their scores, or no span waits and scores are only events and metrics."""
    max_held_bytes: int = 64 << 20
    """Held spans of all tenants; beyond it those that waited longest are forwarded without scores."""
    engine: EngineSettings = field(default_factory=EngineSettings)
    """When turns and runs are judged, and how long and how many of them are kept.

    Tenants have equal shares of `max_spans` and of `unread_span_bytes`.
    """
    unread_span_bytes: int = 64 << 20
    """Spans that are buffered unread for `engine.trace_retention`: a later span may show that their trace is wanted."""
    max_tenants: int = 64
    """Different sets of forwarded headers at once; beyond it the least recently active one is judged and dropped."""
    journal: Path | None = None
    """A folder that only this gateway uses; None: acknowledged requests are lost with the process."""
    journal_sync: Literal["normal", "full"] = "normal"
    """`normal` survives the end of the process; `full` survives power loss, and waits for the disk at every request."""
    journal_max_bytes: int = 1 << 30
    """Bytes on disk; beyond it requests are answered with busy."""
    max_memory: int = 128 << 20
    """Bodies in memory that wait for delivery. Without a journal, all that may wait."""
    max_backlog: int = 64 << 20
    """Accepted bodies that the engine has not received; beyond it requests are answered with busy."""
    deliveries: int = 4
    """Delivery attempts at once."""
    backoff: Backoff = field(default_factory=Backoff)
    """The pauses between attempts to reach a receiver that does not answer."""
    dead_letters: Path | None = None
    """A folder for requests that receivers refused for good; None: they are only counted."""
    dead_letter_files: int = 1000
    dead_letter_bytes: int = 256 << 20
