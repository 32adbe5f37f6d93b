"""Builders of span facts, for tests of assembly and of the engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from goldspan.mappers.span_facts import ModelFacts, Role, SpanFacts, ToolFacts, ToolRequest
from goldspan.scoring.sessions import NO_CONTENT, Capture, Content, UserMessages

SECOND = 1_000_000_000


def captured(value: object) -> Content:
    return Content(value, Capture.CAPTURED)


def plain(trace: str, span: str, parent: str = "", start: float = 1, end: float = 2, **more: Any) -> SpanFacts:
    start_ns, end_ns = int(start * SECOND), int(end * SECOND)
    more.setdefault("version", (end_ns, 0, ""))
    return SpanFacts(trace, span, parent, start_ns, end_ns, **more)


def agent(trace: str, span: str, parent: str = "", *, session: str | None = None, **more: Any) -> SpanFacts:
    keys = (("gen_ai.conversation.id", session),) if session else ()
    return plain(trace, span, parent, role=Role.AGENT, dialect="test", session_keys=keys, **more)


def tool(
    trace: str,
    span: str,
    parent: str = "",
    *,
    name: str = "f",
    args: Mapping[str, Any] | None = None,
    session: str | None = None,
    call_id: str | None = None,
    error: str | None = None,
    **more: Any,
) -> SpanFacts:
    arguments = NO_CONTENT if args is None else captured(dict(args))
    facts = ToolFacts(name, arguments, call_id=call_id, error=error, **more.pop("facts", {}))
    keys = (("gen_ai.conversation.id", session),) if session else ()
    return plain(trace, span, parent, role=Role.TOOL, dialect="test", tool=facts, session_keys=keys, **more)


def model(
    trace: str,
    span: str,
    parent: str = "",
    *,
    requests: tuple[tuple[str, Mapping[str, Any] | None, str | None], ...] = (),
    session: str | None = None,
    user: bool | None = None,
    answered: Mapping[str, bool] | None = None,
    unseen: bool = False,
    silent: bool = False,
    user_messages: UserMessages | None = None,
    repeated: tuple[tuple[str, Mapping[str, Any] | None, str | None], ...] = (),
    **more: Any,
) -> SpanFacts:
    asked, again = (
        tuple(
            ToolRequest(name, NO_CONTENT if args is None else captured(dict(args)), call_id)
            for name, args, call_id in some
        )
        for some in (requests, repeated)
    )
    keys = (("gen_ai.conversation.id", session),) if session else ()
    facts = ModelFacts(asked, answered, user, unseen, user_messages, silent, repeated=again)
    return plain(trace, span, parent, role=Role.MODEL, dialect="test", model=facts, session_keys=keys, **more)
