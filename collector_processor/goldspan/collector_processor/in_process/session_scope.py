"""`session_scope`: names the session of the spans inside a block, for frameworks that write no session id."""

from __future__ import annotations

from contextvars import Token
from types import TracebackType
from typing import ClassVar

from opentelemetry.context import Context, attach, create_key, detach, get_value, set_value
from opentelemetry.sdk.trace import Span

from goldspan.collector_processor.emit.names import SESSION_ID

_KEY = create_key("goldspan-session")


class session_scope:  # noqa: N801 - it is used like a function: `with session_scope("checkout-17"):`
    """A block whose spans belong to one session: each gets the attribute `goldspan.session.id` when it starts.

    The id is in OpenTelemetry's context. It follows `await`, asyncio tasks and everything else that propagates the
    context. `ToolParameterMatchSpanProcessor` sets the attribute. A span that starts with a `goldspan.session.id` keeps
    it. Scopes nest, and the innermost one counts. A value that is no string is converted to one.
    """

    ever_opened: ClassVar[bool] = False
    """Whether this process has opened a scope. If not, the start of a span need not look for one."""

    def __init__(self, session_id: str) -> None:
        self._session_id = str(session_id)
        self._tokens: list[Token[Context]] = []

    def __enter__(self) -> str:
        """Open the scope and return the session id."""
        session_scope.ever_opened = True
        self._tokens.append(attach(set_value(_KEY, self._session_id)))
        return self._session_id

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the scope. Exceptions pass through."""
        detach(self._tokens.pop())


def scoped_session(parent: Context | None = None) -> str | None:
    """Return the session of the enclosing scope: that of `parent`, else that of the running code."""
    session = get_value(_KEY, parent)
    if session is None and parent is not None:
        session = get_value(_KEY)
    return session if isinstance(session, str) else None


def stamp_session(span: Span, parent: Context | None = None, default: str | None = None) -> None:
    """Set the session of the enclosing scope, or `default`, on a span that starts and has no session of goldspan's."""
    session = (scoped_session(parent) if session_scope.ever_opened else None) or default
    if session is not None and SESSION_ID not in (span.attributes or {}):
        span.set_attribute(SESSION_ID, session)
