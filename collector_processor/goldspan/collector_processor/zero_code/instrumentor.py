"""What a zero-code set-up needs besides an exporter: sessions on spans as they start, and a good end."""

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Callable

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import Span, SpanProcessor

from goldspan.collector_processor.session_context import stamp_session
from goldspan.collector_processor.zero_code.exporter import doors

_logger = logging.getLogger("goldspan")

SESSION_VARIABLE = "GOLDSPAN_SESSION"
"""The session of every span of this process that no `session_scope` names: for jobs that are one session."""


class GoldspanInstrumentor:
    """Stamps sessions on the spans of the global tracer provider, and flushes at exit before the providers close.

    `opentelemetry-instrument` calls `instrument` once the SDK is set up. It is an instrumentor by its methods alone:
    `BaseInstrumentor` would be a dependency for two lines.
    """

    def instrument(self, **_: object) -> None:
        """Add the processor that stamps, and register what is to be done at exit. Never raises."""
        try:
            add: Callable[[SpanProcessor], None] | None = getattr(
                trace.get_tracer_provider(), "add_span_processor", None
            )
            if add is not None:
                add(SessionStamp(os.environ.get(SESSION_VARIABLE, "").strip() or None))
            atexit.register(finish)
        except Exception:
            _logger.warning("sessions are not stamped", exc_info=True)

    def uninstrument(self, **_: object) -> None:
        """Do nothing at exit; a processor cannot be taken from its provider."""
        atexit.unregister(finish)


class SessionStamp(SpanProcessor):
    """Writes the session of the enclosing `session_scope`, or the given one, on each span as it starts."""

    def __init__(self, session: str | None = None) -> None:
        self._session = session

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Stamp the span, unless it carries a session of goldspan's already."""
        try:
            stamp_session(span, parent_context, self._session)
        except Exception:
            _logger.debug("a session could not be stamped", exc_info=True)


def finish() -> None:
    """Get the last turn's spans, events and points out while the providers are open.

    Exit handlers run last in, first out: this one was registered after those of the providers.
    """
    if not (open_doors := list(doors)):
        return
    try:
        if (flush := getattr(trace.get_tracer_provider(), "force_flush", None)) is not None:
            flush()
    except Exception:
        _logger.debug("the tracer provider could not be flushed", exc_info=True)
    for door in open_doors:
        door.finish()
