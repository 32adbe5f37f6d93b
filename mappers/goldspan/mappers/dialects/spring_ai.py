"""Spring AI's observations, versions 1.0 to 2.0, as Micrometer writes them to spans.

https://docs.spring.io/spring-ai/reference/observability/index.html . The scope is the application's. Spans of models
never hold messages. The message of a tool that throws is its result, and its span has no error. Model calls of a
streamed answer are nested; in 1.x its tools are in traces of their own, unless Reactor hands the context on.
"""

from __future__ import annotations

from goldspan.mappers.dialects import Affixes, DialectTable, Role, Rule, Source

_KIND = "spring.ai.kind"

SPRING_AI = DialectTable(
    name="spring_ai",
    title="Spring AI",
    docs="https://docs.spring.io/spring-ai/reference/observability/index.html",
    rules=(
        Rule(Role.TOOL, _KIND, frozenset({"tool_call"})),
        Rule(Role.AGENT, _KIND, frozenset({"chat_client"})),
        Rule(
            Role.MODEL,
            "gen_ai.operation.name",
            frozenset({"chat"}),
            also=("spring.ai.model.request.tool.names",),
            without_output=True,
        ),
    ),
    tool_name=("spring.ai.tool.definition.name",),
    span_name_affixes=Affixes(prefixes=("tool_call ", "execute_tool ")),
    arguments=(Source("spring.ai.tool.call.arguments"),),
    call_id=(Source("spring.ai.tool.call.id"),),
    result=(Source("spring.ai.tool.call.result"),),
    session_keys=("spring.ai.chat.client.conversation.id",),
)
