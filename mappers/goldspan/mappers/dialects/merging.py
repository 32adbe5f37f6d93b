"""Several dialects on one span: the first that recognises the role speaks, the others fill what it lacks (R1, R4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from goldspan.mappers.dialects.dialect import Reading
from goldspan.mappers.facts import ContextFacts, ModelFacts, ToolFacts, best_of
from goldspan.mappers.quick import quick_constructor
from goldspan.scoring.sessions import NO_CONTENT, Content

_tool_facts = quick_constructor(ToolFacts)
_reading = quick_constructor(Reading)
_NOTHING = Reading()

SessionKeys = tuple[tuple[str, str], ...]


def merged(readings: Sequence[tuple[str, Reading]], *, content: bool) -> tuple[str, Reading, SessionKeys, str | None]:
    """Return the dialect's name, one reading made of all, every dialect's own session keys, and the turn id.

    Without `content` results are left out.
    """
    if len(readings) == 1:
        name, only = readings[0]
        result = only if content or only.tool is None else _with(only, only.tool, NO_CONTENT)
        return (name if only.role is not None else ""), result, only.session_keys, only.turn_id
    session_keys = tuple(dict.fromkeys(pair for _, reading in readings for pair in reading.session_keys))
    turn_id = next((reading.turn_id for _, reading in readings if reading.turn_id), None)
    name, first = next((pair for pair in readings if pair[1].role is not None), ("", _NOTHING))
    same = [reading for _, reading in readings if reading.role is not None and reading.role is first.role]
    if len(same) < 2:
        result = first if content or first.tool is None else _with(first, first.tool, NO_CONTENT)
        return name, result, session_keys, turn_id
    user_text = best_of([reading.user_text for reading in same])
    whole = Reading(
        first.role,
        next((reading.agent for reading in same if reading.agent), None),
        _tool([reading.tool for reading in same if reading.tool is not None], content=content),
        _model([reading.model for reading in same if reading.model is not None]),
        user_text,
        _context([reading.context for reading in same if reading.context is not None], user_text),
        no_turn=first.no_turn,
        hides_calls=any(reading.hides_calls for reading in same),
    )
    return name, whole, session_keys, turn_id


def _with(reading: Reading, tool: ToolFacts, result: Content) -> Reading:
    tool = _tool_facts(
        tool.name,
        tool.arguments,
        tool.argument_captures,
        tool.call_id,
        result,
        tool.error,
        tool.pseudo,
        tool.merged,
        executed=tool.executed,
    )
    return _reading(reading.role, reading.agent, tool, no_turn=reading.no_turn)


def _tool(tools: Sequence[ToolFacts], *, content: bool) -> ToolFacts | None:
    if not tools:
        return None
    arguments = best_of([tool.arguments for tool in tools])
    return _tool_facts(
        tools[0].name,
        arguments,
        next((tool.argument_captures for tool in tools if tool.arguments is arguments), None),
        next((tool.call_id for tool in tools if tool.call_id), None),
        best_of([tool.result for tool in tools]) if content else NO_CONTENT,
        next((tool.error for tool in tools if tool.error), None),
        any(tool.pseudo for tool in tools),
        any(tool.merged for tool in tools),
        executed=all(tool.executed for tool in tools),
    )


def _model(models: Sequence[ModelFacts]) -> ModelFacts | None:
    if len(models) < 2:
        return models[0] if models else None
    requests = next((model.requests for model in models if model.requests), ())
    return ModelFacts(
        requests,
        next((model.answered for model in models if model.answered), None),
        next((model.new_user_message for model in models if model.new_user_message is not None), None),
        not requests and any(model.unseen_requests for model in models),
    )


def _context(readers: Sequence[Callable[[], ContextFacts]], user_text: Content) -> Callable[[], ContextFacts] | None:
    def read() -> ContextFacts:
        found = [reader() for reader in readers]
        return ContextFacts(
            user_text,
            best_of([one.answer for one in found]),
            best_of([one.messages for one in found]),
            best_of([one.tool_definitions for one in found]),
        )

    return read if readers else None
