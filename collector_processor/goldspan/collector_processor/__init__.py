"""Scores agents from their telemetry: in their process, in a gateway before the backend, and from recorded files.

The names here are imported when they are first used, so that an agent does not load what only a gateway needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from goldspan.collector_processor.in_process.file_exporter import FileSpanExporter
    from goldspan.collector_processor.in_process.log_record_processor import ToolParameterMatchLogRecordProcessor
    from goldspan.collector_processor.in_process.session_scope import session_scope
    from goldspan.collector_processor.in_process.span_exporter import ToolParameterMatchExporter
    from goldspan.collector_processor.in_process.span_processor import ToolParameterMatchSpanProcessor

__all__ = [
    "FileSpanExporter",
    "ToolParameterMatchExporter",
    "ToolParameterMatchLogRecordProcessor",
    "ToolParameterMatchSpanProcessor",
    "session_scope",
]

_MODULES = {
    "FileSpanExporter": "in_process.file_exporter",
    "ToolParameterMatchExporter": "in_process.span_exporter",
    "ToolParameterMatchLogRecordProcessor": "in_process.log_record_processor",
    "ToolParameterMatchSpanProcessor": "in_process.span_processor",
    "session_scope": "in_process.session_scope",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
