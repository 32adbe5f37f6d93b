"""The settings of the pipeline, as `GatewaySettings.pipeline` makes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from goldspan.collector_processor.engine.settings import EngineSettings
from goldspan.collector_processor.gateway.deliver.retry import Backoff


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """What the pipeline holds, stores and sends. Times are in seconds, sizes in bytes.

    Fields without a line of their own mean what they mean in `sections`, under `scoring`, `journal` and `dead_letters`.
    """

    tier: Literal["single", "assemble"] = "single"
    hold: Literal["turn", "off"] = "turn"
    max_held_bytes: int = 64 << 20
    engine: EngineSettings = field(default_factory=EngineSettings)
    """When turns and runs are scored, and how many are kept. Tenants share `max_spans` equally."""
    unread_span_bytes: int = 64 << 20
    """Spans of traces that no golden matches so far, kept for `engine.trace_retention`. Tenants share it equally."""
    max_tenants: int = 64
    journal: Path | None = None
    """A folder that no other gateway uses. None: acknowledged requests are lost when the process ends."""
    journal_sync: Literal["normal", "full"] = "normal"
    journal_max_bytes: int = 1 << 30
    max_memory: int = 128 << 20
    max_backlog: int = 64 << 20
    deliveries: int = 4
    """Requests sent at once."""
    backoff: Backoff = field(default_factory=Backoff)
    dead_letters: Path | None = None
    """A folder for refused requests. None: they are only counted."""
    dead_letter_files: int = 1000
    dead_letter_bytes: int = 256 << 20
