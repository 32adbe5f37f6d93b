"""Langfuse's Python SDK: observations by type, inputs as the decorated function was called.

https://langfuse.com/docs/observability/sdk/instrumentation
"""

from __future__ import annotations

from goldspan.mappers.dialects import DialectTable, Role, Rule, Source
from goldspan.mappers.dialects.reading.value_parsing import bound_call, only_text, plain_text

_TYPE = "langfuse.observation.type"

LANGFUSE = DialectTable(
    name="langfuse",
    title="Langfuse SDK",
    docs="https://langfuse.com/docs/observability/sdk/instrumentation",
    rules=(
        Rule(Role.TOOL, _TYPE, frozenset({"tool"})),
        Rule(Role.MODEL, _TYPE, frozenset({"generation"})),
        Rule(Role.AGENT, _TYPE, frozenset({"agent"})),
    ),
    arguments=(Source("langfuse.observation.input", unwrap=bound_call),),
    result=(Source("langfuse.observation.output"),),
    error_flags=(("langfuse.observation.level", "ERROR"),),
    output=(Source("langfuse.observation.output"),),
    input=(Source("langfuse.observation.input"),),
    user_text=(Source("langfuse.observation.input", take=only_text),),
    answer=(Source("langfuse.observation.output", take=plain_text),),
    sessions_inside=(Source("langfuse.observation.metadata.langfuse_session_id", take=plain_text),),
)
