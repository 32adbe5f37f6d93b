"""pydantic-ai's own telemetry, versions 2 to 6 of its instrumentation.

https://ai.pydantic.dev/logfire/ . OpenTelemetry's conventions, with an id of each agent run; version 2 has names of its
own for a tool's arguments and result.
"""

from __future__ import annotations

from msgspec.structs import replace

from goldspan.mappers.dialects import Attributes, DialectTable, Role, Rule, Source, SpanView, ToolFacts

_OPERATION = "gen_ai.operation.name"
_RUN = "gen_ai.agent.call.id"


def _attempt(_: SpanView, attributes: Attributes, tool: ToolFacts) -> ToolFacts:
    """Arguments that do not fit the tool's signature are refused: a span is written, and no tool runs."""
    refused = attributes.get("pydantic_ai.tool.failure_stage") == "validation"
    return replace(tool, executed=False, error=tool.error or "validation") if refused else tool


PYDANTIC_AI = DialectTable(
    name="pydantic_ai",
    title="pydantic-ai",
    docs="https://ai.pydantic.dev/logfire/",
    rules=(
        Rule(Role.TOOL, _OPERATION, frozenset({"execute_tool"}), also=(_RUN,)),
        Rule(Role.MODEL, _OPERATION, frozenset({"chat"}), also=(_RUN,)),
        Rule(Role.AGENT, _OPERATION, frozenset({"invoke_agent"}), also=(_RUN,)),
        Rule(Role.TOOL, "gen_ai.tool.name", also=("tool_arguments",)),
        Rule(Role.AGENT, "agent_name", also=("pydantic_ai.all_messages",)),
    ),
    tool_name=("gen_ai.tool.name",),
    arguments=(Source("tool_arguments"),),
    result=(Source("tool_response"),),
    input=(Source("gen_ai.input.messages"), Source("pydantic_ai.all_messages")),
    answer=(Source("final_result"),),
    messages=(Source("pydantic_ai.all_messages"),),
    tool_definitions=(Source("gen_ai.tool.definitions"), Source("model_request_parameters")),
    agent=("gen_ai.agent.name", "agent_name"),
    turn_id=(_RUN,),
    tool_hook=_attempt,
)
