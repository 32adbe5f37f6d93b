"""Whether a call failed, and why (R12)."""

from __future__ import annotations

from msgspec.structs import replace

from goldspan.mappers.facts import ToolFacts
from goldspan.mappers.spans import STATUS_ERROR, Attributes, SpanView
from goldspan.scoring.json_values import is_sequence
from goldspan.scoring.sessions import Capture

_MAX_ERROR = 200
_TRACEBACK = "Traceback (most recent call last)"


def error_of(span: SpanView, attributes: Attributes, flags: tuple[tuple[str, object], ...] = ()) -> str | None:
    """Return why the span failed: `error.type`, else the status message, else an exception's type (R12)."""
    error_type = attributes.get("error.type")
    named = error_type if isinstance(error_type, str) and error_type else None
    if span.status_code != STATUS_ERROR:
        if named is not None or any(_is_flag(attributes.get(key), value) for key, value in flags):
            return named or "error"
        return None
    if named is not None:
        return named
    if message := span.status_message.strip():
        return message.partition(_TRACEBACK)[0].partition("\n")[0].strip()[:_MAX_ERROR] or "error"
    for event in span.events:
        raised = event.attributes.get("exception.type")
        if isinstance(raised, str) and raised:
            return raised
    return "error"


def _is_flag(found: object, expected: object) -> bool:
    return type(found) is type(expected) and found == expected


# Tool spans that tell of no execution: hooks for dialects of frameworks that write one before a person has decided.

_OPENAI_AGENTS = "openai_agents"


def undecided_without_result(span: SpanView, _: Attributes, tool: ToolFacts) -> ToolFacts:
    """Take a call without result or error for one that awaits approval: so the OpenAI Agents SDK ends its span.

    A tool that returns nothing looks the same; its calls are requests then, which count as calls all the same.
    """
    silent = tool.error is None and tool.result.capture is Capture.NOT_CAPTURED
    if silent and tool.arguments.capture is Capture.CAPTURED and span.scope_name.endswith(_OPENAI_AGENTS):
        return replace(tool, executed=False)
    return tool


# Whether a model's answer ended because it asks for tools; instrumentations write that even with content off.

_KEYS = (
    *("gen_ai.response.finish_reasons", "gen_ai.response.finish_reason", "llm.finish_reason"),
    *("ai.response.finishReason", "gen_ai.completion.0.finish_reason"),
)
_ASKING = ("tool_call", "tool_use", "tool-call", "function_call")


def asked_for_tools(attributes: Attributes) -> bool:
    """Say whether a finish reason tells of requests for tools, written as a text, a list or JSON text of one."""
    for key in _KEYS:
        reason = attributes.get(key)
        for text in reason if is_sequence(reason) else (reason,):
            if isinstance(text, str) and any(word in text.lower() for word in _ASKING):
                return True
    return False
