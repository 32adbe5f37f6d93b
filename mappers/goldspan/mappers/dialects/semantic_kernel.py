"""Semantic Kernel: OpenTelemetry's conventions, with a plugin's name before the function's.

https://learn.microsoft.com/semantic-kernel/concepts/enterprise-readiness/observability/ . Neither part of a name may
hold a hyphen, so that the first one parts them.
"""

from __future__ import annotations

from msgspec.structs import replace

from goldspan.mappers.dialects import Attributes, DialectTable, Role, Rule, Source, SpanView, ToolFacts

_OPERATION = "gen_ai.operation.name"
_SCOPE = "semantic_kernel."


def _function(name: str) -> str:
    return name.partition("-")[2] or name


def _without_plugin(_: SpanView, __: Attributes, tool: ToolFacts) -> ToolFacts:
    is_own = tool.name.startswith("Handoff-")  # the plugin of an orchestration
    return replace(tool, name=_function(tool.name), pseudo=tool.pseudo or is_own)


SEMANTIC_KERNEL = DialectTable(
    name="semantic_kernel",
    title="Semantic Kernel",
    docs="https://learn.microsoft.com/semantic-kernel/concepts/enterprise-readiness/observability/",
    rules=(
        Rule(Role.TOOL, _OPERATION, frozenset({"execute_tool"}), scope=_SCOPE),
        Rule(Role.MODEL, _OPERATION, frozenset({"chat", "text_completion"}), scope=_SCOPE),
        Rule(Role.AGENT, _OPERATION, frozenset({"invoke_agent"}), scope=_SCOPE),
    ),
    tool_name=("gen_ai.tool.name",),
    output=(Source("gen_ai.output.messages"),),
    log_scope=_SCOPE,
    request_name=_function,
    tool_hook=_without_plugin,
)
