"""Naming the session of what runs inside a block, for frameworks that do not write a session id on their spans."""

from __future__ import annotations

from contextvars import Token
from types import TracebackType
from typing import ClassVar

from opentelemetry.context import Context, attach, create_key, detach, get_value, set_value
from opentelemetry.sdk.trace import Span

from goldspan.collector_processor.emit.names import SESSION_ID

_KEY = create_key("goldspan-session")


class session_scope:  # noqa: N801 - it is used like a function: `with session_scope("checkout-17"):`
    """A block whose spans belong to one session: they are stamped with `goldspan.session.id` as they start.

    The id travels in OpenTelemetry's context, so it follows `await`, asyncio tasks and whatever else the context is
    propagated to. `ToolParameterMatchSpanProcessor` does the stamping; a span that was started with a session id of
    goldspan's keeps it. Scopes nest, and the inner one counts. What is no string is written as one.
    """

    ever_opened: ClassVar[bool] = False
    """Whether any scope was opened in this process: without one, starting a span need not look for it."""

    def __init__(self, session_id: str) -> None:
        self._session_id = str(session_id)
        self._tokens: list[Token[Context]] = []

    def __enter__(self) -> str:
        """Open the scope; gives the session id back."""
        session_scope.ever_opened = True
        self._tokens.append(attach(set_value(_KEY, self._session_id)))
        return self._session_id

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the scope; what was raised inside goes on."""
        detach(self._tokens.pop())


def scoped_session(parent: Context | None = None) -> str | None:
    """Return the session of the enclosing scope: that of `parent`, else that of the code that runs."""
    session = get_value(_KEY, parent)
    if session is None and parent is not None:
        session = get_value(_KEY)
    return session if isinstance(session, str) else None


def stamp_session(span: Span, parent: Context | None = None, otherwise: str | None = None) -> None:
    """Write the session of the enclosing scope, or `otherwise`, on a span that starts; one it carries already stays."""
    session = (scoped_session(parent) if session_scope.ever_opened else None) or otherwise
    if session is not None and SESSION_ID not in (span.attributes or {}):
        span.set_attribute(SESSION_ID, session)
