"""Claude Code's own spans. Arguments of tools are in its log records alone.

https://docs.claude.com/en/docs/claude-code/monitoring-usage . Whether a tool failed is only on the span of its
execution, inside the span of the call and with the same id; log records say it too, with booleans and numbers as text.
"""

from __future__ import annotations

from msgspec.structs import replace

from goldspan.mappers.dialects import Attributes, DialectTable, Role, Rule, Source, SpanView, ToolFacts
from goldspan.mappers.dialects.reading.dialect_table import first_text
from goldspan.mappers.dialects.reading.value_parsing import identifier, text_at
from goldspan.scoring.json_values import is_dict
from goldspan.scoring.sessions import Capture, Content

_TYPE = "span.type"
_SCOPE = "com.anthropic.claude_code"
_CUT_AT = 512  # characters of a single argument beyond which log records hold only its beginning
_function = text_at("mcp_tool_name")


def _completed(_: SpanView, attributes: Attributes, tool: ToolFacts) -> ToolFacts:
    """Add the MCP tool's name, the error and which arguments were cut off, from the attributes of log records."""
    if name := _function(attributes.get("tool_parameters")):
        tool = replace(tool, name=name)
    if tool.error == "error":
        tool = replace(tool, error=first_text(attributes, ("error_type", "error")) or "error")
    written, size = attributes.get("tool_input"), identifier(attributes.get("tool_input_size_bytes")) or ""
    if isinstance(written, str) and size.isdecimal() and int(size[:18]) > _utf16_length(written):
        return _cut(tool)
    return tool


def _utf16_length(text: str) -> int:
    return len(text.encode("utf-16-le", errors="surrogatepass")) // 2


def _cut(tool: ToolFacts) -> ToolFacts:
    arguments = tool.arguments.raw
    long = (
        {name: Capture.TRUNCATED for name, value in arguments.items() if len(str(value)) >= _CUT_AT}
        if tool.arguments.capture is Capture.CAPTURED and is_dict(arguments)
        else {}
    )
    if long:
        return replace(tool, argument_captures={**(tool.argument_captures or {}), **long})
    return replace(tool, arguments=Content(arguments, Capture.TRUNCATED))


CLAUDE_CODE = DialectTable(
    name="claude_code",
    title="Claude Code",
    docs="https://docs.claude.com/en/docs/claude-code/monitoring-usage",
    rules=(
        Rule(Role.TOOL, _TYPE, frozenset({"tool"}), scope=_SCOPE),
        # Only an inner layer: by itself it is no call.
        Rule(Role.TOOL, _TYPE, frozenset({"tool.execution"}), scope=_SCOPE, pseudo=True),
        Rule(Role.MODEL, _TYPE, frozenset({"llm_request"}), scope=_SCOPE),
        Rule(Role.AGENT, _TYPE, frozenset({"interaction"}), scope=_SCOPE),
    ),
    tool_name=("gen_ai.tool.name", "tool_name"),
    arguments=(Source("tool_input"),),
    call_id=(Source("gen_ai.tool.call.id"), Source("tool_use_id")),
    result=(Source("output", event="tool.output"),),
    error_flags=(("success", "false"),),
    user_text=(Source("user_prompt"),),
    turn_number=(Source("interaction.sequence"),),
    agent=("gen_ai.agent.name",),
    log_scope=_SCOPE,
    tool_log_events=frozenset({"tool_result", "claude_code.tool_result"}),
    tool_hook=_completed,
)
