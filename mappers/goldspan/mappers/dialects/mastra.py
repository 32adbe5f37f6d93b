"""Mastra's exporter for OpenTelemetry: the conventions, and beside them what they have no place for.

https://mastra.ai/docs/observability/tracing/exporters/otel . Tools are written by the conventions. What a model asked
for is on the step around its call; the generation around all steps repeats the requests of each and is not read.
"""

from __future__ import annotations

from goldspan.mappers.dialects import DialectTable, Role, Rule, Source
from goldspan.mappers.dialects.reading.dialect_table import error_message_for
from goldspan.mappers.dialects.reading.model_messages import user_text_at
from goldspan.mappers.dialects.reading.value_parsing import first_of, plain_text, text_at

_TYPE = "mastra.span.type"
_asked = first_of(plain_text, user_text_at())
"""Takes the user's text out of an agent's input: plain text, a message, or messages."""

MASTRA = DialectTable(
    name="mastra",
    title="Mastra",
    docs="https://mastra.ai/docs/observability/tracing/exporters/otel",
    rules=(
        Rule(Role.TOOL, _TYPE, frozenset({"tool_call", "mcp_tool_call"})),
        Rule(Role.MODEL, _TYPE, frozenset({"model_step", "llm_step"})),
        Rule(Role.AGENT, _TYPE, frozenset({"agent_run", "workflow_run"})),
    ),
    tool_name=("gen_ai.tool.name",),
    arguments=(
        Source("mastra.tool_call.input"),
        Source("mastra.mcp_tool_call.input"),
        Source("mastra.input"),
    ),
    result=(
        Source("mastra.tool_call.output"),
        Source("mastra.mcp_tool_call.output"),
        Source("mastra.output"),
    ),
    output=(Source("mastra.model_step.output"),),
    input=(Source("mastra.model_step.input"),),
    user_text=(
        Source("mastra.agent_run.input", take=_asked),
        Source("mastra.workflow_run.input", take=plain_text),
        Source("mastra.input", take=_asked),
    ),
    answer=(
        Source("mastra.agent_run.output", take=first_of(text_at("text"), plain_text)),
        Source("mastra.model_step.output", take=text_at("text")),
    ),
    session_keys=("mastra.metadata.threadId", "mastra.metadata.sessionId"),
    tool_hook=error_message_for("unknown"),
)
