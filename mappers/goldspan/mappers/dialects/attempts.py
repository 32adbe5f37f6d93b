"""Tool spans that tell of no execution: hooks for dialects of frameworks that write one before a person has decided."""

from __future__ import annotations

from dataclasses import replace

from goldspan.mappers.dialects.rules import Attributes
from goldspan.mappers.facts import ToolFacts
from goldspan.mappers.spans import SpanView
from goldspan.scoring.sessions import Capture

_OPENAI_AGENTS = "openai_agents"


def undecided_without_result(span: SpanView, _: Attributes, tool: ToolFacts) -> ToolFacts:
    """Take a call without result or error for one that awaits approval: so the OpenAI Agents SDK ends its span.

    A tool that returns nothing looks the same; its calls are requests then, which count as calls all the same.
    """
    silent = tool.error is None and tool.result.capture is Capture.NOT_CAPTURED
    if silent and tool.arguments.capture is Capture.CAPTURED and span.scope_name.endswith(_OPENAI_AGENTS):
        return replace(tool, executed=False)
    return tool
