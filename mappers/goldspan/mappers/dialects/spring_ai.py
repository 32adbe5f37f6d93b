"""Spring AI's observations, versions 1.0 to 2.0, as Micrometer writes them to spans.

https://docs.spring.io/spring-ai/reference/observability/index.html . The scope is the application's. Spans of models
never hold messages. The message of a tool that throws is its result, and its span has no error; what a tool returns
is written as JSON, texts too. Model calls of a streamed answer are nested; in 1.x its tools are in traces of their own,
unless Reactor hands the context on.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from goldspan.mappers.dialects import Affixes, DialectTable, Role, Rule, Source
from goldspan.mappers.span_facts import ToolFacts
from goldspan.mappers.spans import Attributes, SpanView

_KIND = "spring.ai.kind"
_RESULT = "spring.ai.tool.call.result"
_JSON = re.compile(r'\s*(?:[{\["\d-]|true|false|null)')  # how it begins: it may be cut off
_LONGEST_ERROR = 200


def _thrown(_: SpanView, attributes: Attributes, tool: ToolFacts) -> ToolFacts:
    """Mark a tool as failed whose result is no JSON: it is the message of what it threw."""
    result = attributes.get(_RESULT)
    if tool.error is not None or not isinstance(result, str) or not result.strip() or _JSON.match(result):
        return tool
    return replace(tool, error=result.strip()[:_LONGEST_ERROR])


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
    result=(Source(_RESULT),),
    tool_hook=_thrown,
    session_keys=("spring.ai.chat.client.conversation.id",),
)
