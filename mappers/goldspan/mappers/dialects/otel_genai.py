"""OpenTelemetry's semantic conventions for generative AI, current and as far back as span events.

https://opentelemetry.io/docs/specs/semconv/gen-ai/ . Written natively by Strands, pydantic-ai, Agent Framework,
Semantic Kernel, AutoGen, Vercel AI 7, and by the OpenTelemetry instrumentations of provider SDKs and frameworks.
"""

from __future__ import annotations

from typing import Any

from goldspan.mappers.dialects import Affixes, DialectTable, Role, Rule, Source
from goldspan.mappers.dialects.reading.dialect_table import undecided_without_result
from goldspan.mappers.dialects.reading.model_messages import input_events, output_events, requests_in
from goldspan.mappers.dialects.reading.value_parsing import decoded
from goldspan.scoring.json_values import is_dict, is_list

_OPERATION = "gen_ai.operation.name"
_GEMINI = ("opentelemetry.instrumentation.google_genai", "opentelemetry.instrumentation.vertexai")
"""Gemini's finish reason is `STOP`, with tool calls and without."""
_LITELLM = ("litellm.call_id", "metadata.user_api_key_hash")
_DETAILS = "gen_ai.client.inference.operation.details"


def _only_request(messages: Any) -> Any:
    """Take the arguments out of messages that hold one tool call: Strands repeats an execution's input so."""
    messages = decoded(messages)
    if not is_list(messages):
        return None
    requests = requests_in([{**message, "role": "assistant"} for message in messages if is_dict(message)])
    return requests[0].arguments.value if len(requests) == 1 else None


_AGENTS = frozenset({"invoke_agent", "invoke_workflow", "invoke_graph", "invoke_swarm", "handle_conversation_turn"})

OTEL_GENAI = DialectTable(
    name="otel_genai",
    title="OpenTelemetry GenAI semantic conventions",
    docs="https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/",
    rules=(
        # Agent 365 writes hand-offs of the OpenAI Agents SDK so.
        Rule(Role.TOOL, _OPERATION, frozenset({"execute_tool"}), name_prefix="handoff to ", pseudo=True),
        Rule(Role.TOOL, _OPERATION, frozenset({"execute_tool"})),
        Rule(Role.AGENT, _OPERATION, _AGENTS),
        Rule(Role.AGENT, "workflow.id", name_prefix="workflow.run"),  # those of Agent Framework
        # Anthropic's SDK adds a span of its own, often in a separate trace, and never with content.
        Rule(Role.MODEL, _OPERATION, frozenset({"chat"}), scope="com.anthropic.sdk", no_turn=True),
        Rule(Role.MODEL, _OPERATION, frozenset({"chat", "generate_content"}), scope=_GEMINI, silent=True),
        # LiteLLM writes a model's call on the span of whoever makes it.
        Rule(Role.MODEL, _OPERATION, frozenset({"chat", "generate_content", "text_completion"}), without=_LITELLM),
        Rule(Role.AGENT, _OPERATION, frozenset({"create_agent"}), no_turn=True),
        Rule(Role.MODEL, "gen_ai.request.model", also=("gen_ai.output.messages",), without=(_OPERATION, *_LITELLM)),
        Rule(Role.MODEL, "gen_ai.response.finish_reasons", without=(_OPERATION, *_LITELLM)),
        Rule(Role.TOOL, "gen_ai.tool.name", without=(_OPERATION,), name_prefix="execute_tool "),
        Rule(Role.TOOL, "gen_ai.tool.name", without=(_OPERATION,), also=("gen_ai.tool.call.arguments",)),
        Rule(Role.TOOL, "gen_ai.tool.name", without=(_OPERATION,), also=("gen_ai.tool.call.id",)),
        # Galileo writes attributes when the work is done, so that what failed has none.
        Rule(Role.TOOL, scope="galileo-tracer", parent=True),
    ),
    tool_name=("gen_ai.tool.name",),
    span_name_affixes=Affixes(prefixes=("execute_tool ",)),
    arguments=(
        Source("gen_ai.tool.call.arguments"),
        Source("gen_ai.tool.input"),
        Source("gen_ai.tool.arguments"),
        Source("content", event="gen_ai.tool.message"),
        Source("gen_ai.input.messages", take=_only_request),
        Source("gen_ai.input.messages", event=_DETAILS, take=_only_request),
    ),
    flattened_arguments="gen_ai.tool.call.arguments.",
    call_id=(Source("gen_ai.tool.call.id"), Source("id", event="gen_ai.tool.message")),
    result=(
        Source("gen_ai.tool.call.result"),
        Source("gen_ai.tool.output"),
        Source("gen_ai.tool.message"),
        Source("message", event="gen_ai.choice"),
    ),
    error_flags=(("gen_ai.tool.status", "error"), ("tool.status", "error")),  # the latter is Strands'
    merged_tools=frozenset({"(merged tools)"}),
    output=(
        Source("gen_ai.output.messages"),
        Source("gen_ai.output.messages", event=_DETAILS),
        Source(compute=output_events),
    ),
    input=(
        Source("gen_ai.input.messages"),
        Source("gen_ai.input.messages", event=_DETAILS),
        Source(compute=input_events),
    ),
    tool_definitions=(Source("gen_ai.tool.definitions"), Source("gen_ai.tool.definitions", event=_DETAILS)),
    agent=("gen_ai.agent.name", "gen_ai.workflow.name", "workflow.name"),
    log_scope="",
    tool_hook=undecided_without_result,
)
