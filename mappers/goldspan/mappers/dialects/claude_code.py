"""Claude Code's own spans. Arguments of tools are in its log records alone.

https://docs.claude.com/en/docs/claude-code/monitoring-usage . Whether a tool failed is only on the span of its
execution, inside the span of the call and with the same id.
"""

from __future__ import annotations

from goldspan.mappers.dialects.dialect import Advice
from goldspan.mappers.dialects.rules import Rule
from goldspan.mappers.dialects.sources import Source
from goldspan.mappers.dialects.table import DialectTable
from goldspan.mappers.facts import Role

_TYPE = "span.type"
_SCOPE = "com.anthropic.claude_code"

CLAUDE_CODE = DialectTable(
    name="claude_code",
    title="Claude Code",
    docs="https://docs.claude.com/en/docs/claude-code/monitoring-usage",
    advice=Advice(
        arguments=(
            "Set OTEL_LOG_TOOL_DETAILS=1 and export logs too (OTEL_LOGS_EXPORTER=otlp): arguments are in the log "
            "record claude_code.tool_result."
        ),
        session="Claude Code writes its session id by itself.",
    ),
    rules=(
        Rule(Role.TOOL, _TYPE, frozenset({"tool"}), scope=_SCOPE),
        # Only an inner layer: by itself it is no call.
        Rule(Role.TOOL, _TYPE, frozenset({"tool.execution"}), scope=_SCOPE, pseudo=True),
        Rule(Role.MODEL, _TYPE, frozenset({"llm_request"}), scope=_SCOPE),
        Rule(Role.AGENT, _TYPE, frozenset({"interaction"}), scope=_SCOPE),
    ),
    tool_name=("gen_ai.tool.name", "tool_name"),
    call_id=(Source("gen_ai.tool.call.id"), Source("tool_use_id")),
    result=(Source("output", event="tool.output"),),
    user_text=(Source("user_prompt"),),
    agent=("gen_ai.agent.name",),
)
