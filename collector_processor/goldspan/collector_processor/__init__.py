"""goldspan's doors to the world: inside the agent's process, in front of a backend, and over recorded files.

Names are loaded when they are first used, so that one door does not import what another needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from goldspan.collector_processor.exporter import ToolParameterMatchExporter
    from goldspan.collector_processor.log_processor import ToolParameterMatchLogRecordProcessor
    from goldspan.collector_processor.processor import ToolParameterMatchSpanProcessor
    from goldspan.collector_processor.session_context import session_scope

__all__ = [
    "ToolParameterMatchExporter",
    "ToolParameterMatchLogRecordProcessor",
    "ToolParameterMatchSpanProcessor",
    "session_scope",
]

_HOMES = {
    "ToolParameterMatchExporter": "exporter",
    "ToolParameterMatchLogRecordProcessor": "log_processor",
    "ToolParameterMatchSpanProcessor": "processor",
    "session_scope": "session_context",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
