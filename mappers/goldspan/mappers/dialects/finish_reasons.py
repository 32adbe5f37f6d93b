"""Whether a model's answer ended because it asks for tools; instrumentations write that even with content off."""

from __future__ import annotations

from goldspan.mappers.dialects.rules import Attributes
from goldspan.mappers.json_shapes import is_sequence

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
