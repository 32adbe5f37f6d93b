"""OpenTelemetry's semantic conventions for generative AI, current and as far back as span events.

https://opentelemetry.io/docs/specs/semconv/gen-ai/ . Written natively by Strands, pydantic-ai, Agent Framework,
Semantic Kernel, AutoGen, Vercel AI 7, and by the OpenTelemetry instrumentations of provider SDKs and frameworks.
"""

from __future__ import annotations

from typing import Any

from goldspan.mappers.dialects import Advice, Affixes, DialectTable, Role, Rule, Source
from goldspan.mappers.dialects.reading.dialect_table import undecided_without_result
from goldspan.mappers.dialects.reading.model_messages import input_events, output_events, requests_in
from goldspan.mappers.dialects.reading.protocol import IN_PROCESS
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


_CONTENT = (
    "Set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY; older versions also need "
    "OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental."
)

_VERBOSE = "Install the feature with content: install(OpenTelemetry) { setVerbose(true) }."

OTEL_GENAI = DialectTable(
    name="otel_genai",
    title="OpenTelemetry GenAI semantic conventions",
    docs="https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/",
    advice=(
        Advice(
            framework="OpenTelemetry",
            language="python",
            scopes=("opentelemetry.instrumentation.genai.*", "opentelemetry.util.genai.*"),
            arguments=_CONTENT,
            session=IN_PROCESS,
            checked="opentelemetry-util-genai 1.3b0",
        ),
        Advice(
            framework="OpenTelemetry for openai-v2",
            language="python",
            scopes=("opentelemetry.instrumentation.openai_v2",),
            arguments=(
                "Set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true and export logs, where arguments are; or "
                "=SPAN_ONLY with OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental."
            ),
            session=IN_PROCESS,
            checked="opentelemetry-instrumentation-openai-v2 2.4b0",
        ),
        Advice(
            framework="OpenTelemetry for google-genai",
            language="python",
            scopes=("opentelemetry.instrumentation.google_genai",),
            arguments=_CONTENT,
            calls=(
                f"{_CONTENT} Only functions that the SDK itself calls have spans; what a model asks for stands in its "
                "recorded answer."
            ),
            session=IN_PROCESS,
            checked="opentelemetry-instrumentation-google-genai 1.3b0",
        ),
        Advice(
            framework="OpenTelemetry for botocore",
            language="python",
            scopes=("opentelemetry.instrumentation.botocore*",),
            arguments=(
                "Set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true and export logs, where messages and "
                "arguments are."
            ),
            session=IN_PROCESS,
            checked="opentelemetry-instrumentation-botocore, its documentation",
        ),
        Advice(
            framework="OpenTelemetry for LangChain",
            language="python",
            scopes=("opentelemetry.instrumentation.genai.langchain",),
            arguments=_CONTENT,
            session='Pass config={"configurable": {"thread_id": "..."}} to the run.',
            checked="opentelemetry-util-genai 1.3b0",
        ),
        Advice(
            framework="OpenTelemetry for OpenAI Agents",
            language="python",
            scopes=("opentelemetry.instrumentation.genai.openai_agents",),
            arguments=_CONTENT,
            session='Give the run a group: RunConfig(group_id="...").',
            checked="opentelemetry-util-genai 1.3b0",
        ),
        Advice(
            framework="Microsoft Agent Framework",
            language="python",
            scopes=("agent_framework",),
            arguments="Set ENABLE_SENSITIVE_DATA=true, or call configure_otel_providers(enable_sensitive_data=True).",
            session=(
                "A service_session_id is written; for an AgentSession(session_id=...), run each turn inside "
                '`with session_scope("..."):` of goldspan.collector_processor.'
            ),
            checked="agent-framework-core 1.23.0",
        ),
        Advice(
            framework="Strands Agents",
            language="python",
            scopes=("strands.telemetry.tracer",),
            arguments="Arguments are written by default: let no span processor or Collector remove them.",
            redacted="Name them in OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_unredacted_attributes=..., or remove it.",
            session='Build the agent with the session: Agent(..., trace_attributes={"session.id": "..."}).',
            checked="strands-agents 1.62.0",
        ),
        Advice(
            framework="Koog",
            language="java",
            scopes=("koog", "ai.koog"),
            arguments=_VERBOSE,
            redacted=_VERBOSE,
            session="Koog writes the id of a run as gen_ai.conversation.id: each agent.run(...) is a session.",
            checked="ai.koog 0.7, its source",
        ),
        Advice(
            framework="Rig",
            scopes=("rig",),
            arguments="Build the agent with .record_content_telemetry(true).",
            session='Run each turn inside a span that names it: info_span!("turn", "gen_ai.conversation.id" = "...").',
            checked="rig-agent 0.44.0",
        ),
        Advice(
            framework="Microsoft.Extensions.AI",
            language="dotnet",
            arguments=(
                "Set EnableSensitiveData: .UseOpenTelemetry(configure: options => options.EnableSensitiveData = true)."
            ),
            session='Set it on the agent\'s span: Activity.Current?.SetTag("gen_ai.conversation.id", "...").',
            checked="Microsoft.Extensions.AI 10.5, its reference",
        ),
    ),
    rules=(
        Rule(Role.TOOL, _OPERATION, frozenset({"execute_tool"})),
        Rule(Role.AGENT, _OPERATION, frozenset({"invoke_agent", "invoke_workflow", "handle_conversation_turn"})),
        # Anthropic's SDK adds a span of its own, often in a separate trace, and never with content.
        Rule(Role.MODEL, _OPERATION, frozenset({"chat"}), scope="com.anthropic.sdk", no_turn=True),
        Rule(Role.MODEL, _OPERATION, frozenset({"chat", "generate_content"}), scope=_GEMINI, silent=True),
        # LiteLLM writes a model's call on the span of whoever makes it.
        Rule(Role.MODEL, _OPERATION, frozenset({"chat", "generate_content", "text_completion"}), without=_LITELLM),
        Rule(Role.AGENT, _OPERATION, frozenset({"create_agent"}), no_turn=True),
        Rule(Role.MODEL, "gen_ai.request.model", also=("gen_ai.output.messages",), without=(_OPERATION, *_LITELLM)),
        Rule(Role.TOOL, "gen_ai.tool.name", without=(_OPERATION,), name_prefix="execute_tool "),
        Rule(Role.TOOL, "gen_ai.tool.name", without=(_OPERATION,), also=("gen_ai.tool.call.arguments",)),
        Rule(Role.TOOL, "gen_ai.tool.name", without=(_OPERATION,), also=("gen_ai.tool.call.id",)),
    ),
    tool_name=("gen_ai.tool.name",),
    span_name_affixes=Affixes(prefixes=("execute_tool ",)),
    arguments=(
        Source("gen_ai.tool.call.arguments"),
        Source("gen_ai.tool.input"),
        Source("content", event="gen_ai.tool.message"),
        Source("gen_ai.input.messages", take=_only_request),
        Source("gen_ai.input.messages", event=_DETAILS, take=_only_request),
    ),
    flattened_arguments="gen_ai.tool.call.arguments.",
    call_id=(Source("gen_ai.tool.call.id"), Source("id", event="gen_ai.tool.message")),
    result=(Source("gen_ai.tool.call.result"), Source("gen_ai.tool.output"), Source("message", event="gen_ai.choice")),
    error_flags=(("gen_ai.tool.status", "error"),),
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
    agent=("gen_ai.agent.name", "gen_ai.workflow.name"),
    log_scope="",
    tool_hook=undecided_without_result,
)
