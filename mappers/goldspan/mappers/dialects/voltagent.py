"""VoltAgent's own telemetry.

https://voltagent.dev/docs/observability/overview/ . `tool.parameters` is the tool's schema and never its arguments,
which are `input`; older versions write `tool.arguments`. What a model asked for is in no span.
"""

from __future__ import annotations

from goldspan.mappers.dialects import Affixes, DialectTable, Role, Rule, Source
from goldspan.mappers.dialects.reading.dialect_table import error_message_for
from goldspan.mappers.dialects.reading.model_messages import answer_at, user_text_at
from goldspan.mappers.dialects.reading.value_parsing import first_of, plain_text

_SCOPE = "@voltagent/"
_TYPE = "span.type"


VOLTAGENT = DialectTable(
    name="voltagent",
    title="VoltAgent",
    docs="https://voltagent.dev/observability-docs/developer-guide/",
    rules=(
        Rule(Role.TOOL, _TYPE, frozenset({"tool"}), also=("tool.name",), scope=_SCOPE),
        Rule(Role.TOOL, "tool.name", also=("tool.call.id",), without=(_TYPE,), scope=_SCOPE),
        # A Collector's `gen_ai_normalizer` renames `tool.name`.
        Rule(Role.TOOL, _TYPE, frozenset({"tool"}), also=("gen_ai.tool.name",), scope=_SCOPE),
        Rule(Role.TOOL, "tool.call.id", also=("gen_ai.tool.name",), without=(_TYPE,), scope=_SCOPE),
        Rule(Role.MODEL, _TYPE, frozenset({"llm"}), scope=_SCOPE),
        Rule(Role.AGENT, "entity.type", frozenset({"agent"}), without=(_TYPE,), scope=_SCOPE),
        Rule(Role.AGENT, _TYPE, frozenset({"agent", "workflow"}), scope=_SCOPE),
    ),
    tool_name=("tool.name", "gen_ai.tool.name"),
    span_name_affixes=Affixes(prefixes=("tool.execution:",)),
    arguments=(Source("tool.arguments"), Source("input")),
    call_id=(Source("tool.call.id"),),
    result=(Source("tool.result"), Source("output")),
    pseudo_tools=frozenset({"delegate_task"}),
    input=(Source("llm.messages"),),
    user_text=(Source("input", take=first_of(plain_text, user_text_at())),),
    answer=(Source("output", take=first_of(plain_text, answer_at())), Source("output")),
    agent=("entity.name",),
    tool_hook=error_message_for("VoltAgentError"),
    session_keys=("conversation.id", "voltagent.conversation_id"),
)
