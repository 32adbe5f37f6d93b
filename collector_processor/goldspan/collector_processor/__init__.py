"""Scores agents from their telemetry: in their process, in a gateway before the backend, and from recorded files.

The names here are imported when they are first used, so that an agent does not load what only a gateway needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from goldspan.scoring.names_on_use import names_on_use

if TYPE_CHECKING:
    from goldspan.collector_processor.in_process.file_exporter import FileSpanExporter
    from goldspan.collector_processor.in_process.session_scope import session_scope
    from goldspan.collector_processor.in_process.span_exporter import ToolParameterMatchExporter
    from goldspan.collector_processor.in_process.span_processor import (
        FlushAtShutdown,
        ToolParameterMatchLogRecordProcessor,
        ToolParameterMatchSpanProcessor,
        flush_at_worker_exit,
    )

__all__ = [
    "FileSpanExporter",
    "FlushAtShutdown",
    "ToolParameterMatchExporter",
    "ToolParameterMatchLogRecordProcessor",
    "ToolParameterMatchSpanProcessor",
    "flush_at_worker_exit",
    "session_scope",
]

__getattr__, __dir__ = names_on_use(
    __name__,
    {
        "goldspan.collector_processor.in_process.file_exporter": "FileSpanExporter",
        "goldspan.collector_processor.in_process.session_scope": "session_scope",
        "goldspan.collector_processor.in_process.span_exporter": "ToolParameterMatchExporter",
        "goldspan.collector_processor.in_process.span_processor": (
            "FlushAtShutdown ToolParameterMatchLogRecordProcessor ToolParameterMatchSpanProcessor flush_at_worker_exit"
        ),
    },
)
