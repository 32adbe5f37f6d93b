"""Vercel's AI SDK, versions 4 to 6 and the legacy telemetry of 7; version 7 writes OpenTelemetry's conventions.

https://ai-sdk.dev/docs/ai-sdk-core/telemetry . A model's tool calls name their arguments `args` (4) or `input`, as
text (up to 6) or as an object (7).
"""

from __future__ import annotations

from goldspan.mappers.dialects import DialectTable, Role, Rule, Source
from goldspan.mappers.dialects.reading.model_messages import user_text_at
from goldspan.mappers.dialects.reading.value_parsing import first_of, text_at

_OPERATION = "ai.operationId"


VERCEL_AI = DialectTable(
    name="vercel_ai",
    title="Vercel AI SDK",
    docs="https://ai-sdk.dev/docs/ai-sdk-core/telemetry",
    rules=(
        Rule(Role.TOOL, _OPERATION, frozenset({"ai.toolCall"})),
        Rule(Role.MODEL, _OPERATION, frozenset({"ai.generateText.doGenerate", "ai.streamText.doStream"})),
        Rule(Role.AGENT, _OPERATION, frozenset({"ai.generateText", "ai.streamText"})),
    ),
    tool_name=("ai.toolCall.name",),
    arguments=(Source("ai.toolCall.args"), Source("ai.toolCall.input")),
    call_id=(Source("ai.toolCall.id"),),
    result=(Source("ai.toolCall.result"), Source("ai.toolCall.output")),
    output=(Source("ai.response.toolCalls"),),
    input=(Source("ai.prompt.messages"),),
    user_text=(Source("ai.prompt", take=first_of(text_at("prompt"), user_text_at("messages"))),),
    answer=(Source("ai.response.text"),),
    tool_definitions=(Source("ai.prompt.tools"),),
    agent=("ai.telemetry.functionId",),
)
