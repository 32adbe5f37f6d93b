"""Spans in, sessions out: `read_sessions` reads files, SDK spans, OTLP messages or objects.

Names are imported when they are first used: an agent reads no files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from goldspan.mappers.session_reader import TelemetryWarning, read_sessions

__all__ = ["TelemetryWarning", "read_sessions"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from goldspan.mappers import session_reader  # noqa: PLC0415 - see above

    return getattr(session_reader, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
