"""Langfuse's Python SDK: observations by type, inputs as the decorated function was called.

https://langfuse.com/docs/observability/sdk/instrumentation
"""

from __future__ import annotations

from goldspan.mappers.dialects import Advice, DialectTable, Role, Rule, Source
from goldspan.mappers.dialects.reading.value_parsing import args_and_kwargs, only_text, plain_text

_TYPE = "langfuse.observation.type"

LANGFUSE = DialectTable(
    name="langfuse",
    title="Langfuse SDK",
    docs="https://langfuse.com/docs/observability/sdk/instrumentation",
    advice=(
        Advice(
            framework="Langfuse",
            language="python",
            arguments='Use @observe(as_type="tool") with capture_input=True, the default.',
            unparsable="Call the tool with named arguments: positional ones have no names in the span.",
            session='Run the turn inside `with propagate_attributes(session_id="..."):`.',
            checked="langfuse 5.0.4",
        ),
        Advice(
            framework="Langfuse",
            language="nodejs",
            arguments='Use observe(fn, {asType: "tool"}) with captureInput: true, the default.',
            unparsable="Give the tool's function one object: positional arguments have no names in the span.",
            session='Run the turn inside propagateAttributes({sessionId: "..."}, async () => ...).',
            checked="@langfuse/tracing 5.11.1",
        ),
    ),
    rules=(
        Rule(Role.TOOL, _TYPE, frozenset({"tool"})),
        Rule(Role.MODEL, _TYPE, frozenset({"generation"})),
        Rule(Role.AGENT, _TYPE, frozenset({"agent"})),
    ),
    arguments=(Source("langfuse.observation.input", unwrap=args_and_kwargs),),
    result=(Source("langfuse.observation.output"),),
    error_flags=(("langfuse.observation.level", "ERROR"),),
    output=(Source("langfuse.observation.output"),),
    input=(Source("langfuse.observation.input"),),
    user_text=(Source("langfuse.observation.input", take=only_text),),
    answer=(Source("langfuse.observation.output", take=plain_text),),
)
