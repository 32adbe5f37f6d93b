"""Spans in, sessions out: `read_sessions` reads files, SDK spans, OTLP messages or objects.

Names are imported when they are first used: an agent reads no files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from goldspan.scoring.names_on_use import names_on_use

if TYPE_CHECKING:
    from goldspan.mappers.session_reader import TelemetryWarning, read_sessions

__all__ = [
    "TelemetryWarning",
    "read_sessions",
]

__getattr__, __dir__ = names_on_use(
    __name__,
    {
        "goldspan.mappers.session_reader": "TelemetryWarning read_sessions",
    },
)
