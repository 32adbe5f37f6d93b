"""Log records joined to the spans they belong to, by span id and by call id (R11).

What a span holds itself is believed first: instrumentations write the same content to both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from goldspan.mappers.facts import NO_CONTEXT, ContextFacts, LogFacts, ModelFacts, Role, SpanFacts, ToolFacts
from goldspan.scoring.sessions import NO_CONTENT, Capture, Content


def with_logs(spans: Mapping[str, SpanFacts], logs: Iterable[LogFacts]) -> dict[str, SpanFacts]:
    """Return the spans of one trace with what its log records add to them."""
    joined = dict(spans)
    by_call_id: dict[str, list[str]] = {}
    for span in spans.values():
        if span.tool is not None and span.tool.call_id:
            by_call_id.setdefault(span.tool.call_id, []).append(span.span_id)
    own = {span.span_id: span.model for span in spans.values() if span.model is not None and span.model.requests}
    for log in sorted(logs, key=lambda log: (log.time, log.identity)):
        target = joined.get(log.span_id)
        if target is not None:
            joined[log.span_id] = _with_log(target, log, speaks=log.span_id not in own)
        for tool in log.tools:
            for span_id in by_call_id.get(tool.call_id or "", ()):
                span = joined[span_id]
                if span.tool is not None:
                    joined[span_id] = replace(span, tool=_filled(span.tool, tool))
    return joined


def session_keys_of(logs: Iterable[LogFacts]) -> list[tuple[tuple[str, str], ...]]:
    """Return the session attributes of log records: the last place where a session is looked for (R6)."""
    return [log.session_keys for log in logs if log.session_keys]


def _with_log(span: SpanFacts, log: LogFacts, *, speaks: bool) -> SpanFacts:
    model = span.model
    if log.model is not None and span.role in (Role.MODEL, None):
        model = _both(span.model or ModelFacts(), log.model, speaks=speaks)
    recognised = span.role is None and model is not None
    return replace(
        span,
        role=Role.MODEL if recognised else span.role,
        dialect=log.dialect if recognised else span.dialect,
        model=model,
        context=_context(span.context, log.context),
        turn_id=span.turn_id or log.turn_id,
    )


def _both(first: ModelFacts, more: ModelFacts, *, speaks: bool) -> ModelFacts:
    """Add a record's requests, unless the span wrote its own; of several answers to one id an error wins."""
    answered = dict(first.answered or {})
    for call_id, failed in (more.answered or {}).items():
        answered[call_id] = answered.get(call_id, False) or failed
    return ModelFacts(
        (*first.requests, *more.requests) if speaks else first.requests,
        answered or None,
        first.new_user_message if more.new_user_message is None else more.new_user_message,
    )


def _filled(tool: ToolFacts, more: ToolFacts) -> ToolFacts:
    return replace(
        tool,
        arguments=_better(tool.arguments, more.arguments),
        argument_captures=tool.argument_captures or more.argument_captures,
        result=_better(tool.result, more.result),
        error=tool.error or more.error,
    )


def _context(mine: ContextFacts, more: ContextFacts) -> ContextFacts:
    if more is NO_CONTEXT:
        return mine
    return ContextFacts(
        _better(mine.user_text, more.user_text),
        _better(mine.answer, more.answer),
        _better(mine.messages, more.messages),
        _better(mine.tool_definitions, more.tool_definitions),
    )


def _better(mine: Content, more: Content) -> Content:
    if mine.capture is Capture.CAPTURED or more is NO_CONTENT:
        return mine
    return more if more.capture is Capture.CAPTURED or mine.capture is Capture.NOT_CAPTURED else mine
