"""OpenLLMetry: Traceloop's SDK decorators and instrumentations of frameworks and provider SDKs.

https://www.traceloop.com/docs/openllmetry . Newer ones write OpenTelemetry's conventions beside `traceloop.*`; older
ones flatten a model's messages under `gen_ai.prompt.` and `gen_ai.completion.`.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec.structs import replace

from goldspan.mappers.dialects import Affixes, DialectTable, Rule, Source, at
from goldspan.mappers.dialects.reading import value_parsing
from goldspan.mappers.dialects.reading.dialect_table import undecided_without_result
from goldspan.mappers.dialects.reading.model_messages import flat_messages
from goldspan.mappers.span_facts import Role, ToolFacts
from goldspan.mappers.spans import Attributes, SpanView
from goldspan.scoring.json_values import is_dict, is_list, literal_at
from goldspan.scoring.messages import result_of

_KIND = "traceloop.span.kind"
_LITELLM = ("litellm.call_id", "metadata.user_api_key_hash")  # LiteLLM borrows some attributes for spans of its own
_HISTORY = re.compile(r"\bmessages=(?=\[)")
_LANGCHAIN_JS = "@traceloop/instrumentation-langchain"


def _first_argument(value: Any) -> Any:
    """Take the arguments out of `{"args": ["{...}"]}`; the first argument is JSON text, an object, or a `tool_call`."""
    first = value_parsing.decoded_dict(at("args", 0)(value))
    if first is None:
        return value.get("args") if is_dict(value) else None  # text by itself has no name
    return first["args"] if first.get("type") == "tool_call" and is_dict(first.get("args")) else first


def _one_object(value: Any) -> Any:
    """As `bound_call`, where `kwargs` is the only argument of a function in JavaScript: also null, or a list."""
    if is_dict(value) and value.get("args") == [] and "kwargs" in value and not is_dict(value["kwargs"]):
        return {} if value["kwargs"] is None else [value["kwargs"]]
    return value_parsing.bound_call(value)


_ENVELOPES: dict[str, value_parsing.Unwrap] = {
    "": value_parsing.bound_call,  # Phoenix keeps no scope
    "traceloop.tracer": value_parsing.bound_call,
    "opentelemetry.instrumentation.llamaindex": value_parsing.bound_call,
    "opentelemetry.instrumentation.langchain": value_parsing.bound_call,
    "@traceloop/node-server-sdk": _one_object,
    _LANGCHAIN_JS: _first_argument,
}


def _named_by_message(attributes: Attributes, tool: ToolFacts) -> ToolFacts:
    """Take a LangChain.js tool's name from its result: the span has the name of the tool's class."""
    message = result_of(attributes.get("traceloop.entity.output"))
    given = at("args", 0)(attributes.get("traceloop.entity.input"))
    call_id = tool.call_id or value_parsing.identifier(at("id")(given))
    name = (message.name if message else "") or at("name")(given)
    if call_id and isinstance(name, str) and name:
        return replace(tool, name=name, call_id=call_id)
    return replace(tool, named=False, call_id=call_id)


def _outcome(span: SpanView, attributes: Attributes, tool: ToolFacts) -> ToolFacts:
    """Agno's failed calls end with status OK; only the repr of their result shows the failure."""
    output = attributes.get("traceloop.entity.output")
    if span.scope_name == _LANGCHAIN_JS and "gen_ai.tool.name" not in attributes:
        return _named_by_message(attributes, tool)
    if tool.error is None and isinstance(output, str) and output.startswith("status='failure'"):
        return replace(tool, error="failure")
    return undecided_without_result(span, attributes, tool)


def _first_message(value: Any) -> Any:
    """Take the user's text out of LangGraph's input, whose messages are pairs of role and text."""
    return value_parsing.text_at("inputs", "messages", -1, 1)(value)


def _crew_history(outputs: Any) -> Any:
    """Take the messages of all tasks out of the repr of their outputs."""
    if not isinstance(outputs, str):
        return None
    histories = (literal_at(outputs, found.end())[0] for found in _HISTORY.finditer(outputs))
    return [message for history in histories if is_list(history) for message in history] or None


OPENLLMETRY = DialectTable(
    name="openllmetry",
    title="OpenLLMetry (Traceloop)",
    docs="https://www.traceloop.com/docs/openllmetry/tracing/annotations",
    rules=(
        Rule(Role.TOOL, _KIND, frozenset({"tool"})),
        Rule(Role.TOOL, "gen_ai.operation.name", frozenset({"execute_tool"}), also=(_KIND,), scope=_LANGCHAIN_JS),
        # LlamaIndex marks its tool runs as tasks.
        Rule(Role.TOOL, "tool.arguments", scope="opentelemetry.instrumentation.llamaindex"),
        # CrewAI: what its crews call is neither in spans of tools nor of models, only in the history of their tasks.
        Rule(Role.AGENT, "crewai.crew.tasks", hides_calls=True, holds_model_output=True),
        Rule(Role.AGENT, _KIND, frozenset({"agent", "workflow"})),
        Rule(Role.MODEL, "llm.request.type", frozenset({"chat", "completion"}), without=_LITELLM),
        Rule(
            Role.MODEL,
            "gen_ai.request.model",
            also=("gen_ai.prompt.0.role",),
            without=(_KIND, "runinfo.component", *_LITELLM),
        ),
        # Of a Converse call this writer has no more than the provider and the model's name.
        Rule(Role.MODEL, "gen_ai.request.model", scope="@traceloop/instrumentation-bedrock", silent=True),
    ),
    tool_name=("gen_ai.tool.name", "tool.name", "traceloop.entity.name"),
    name_affixes=Affixes(suffixes=(".tool",)),
    span_name_affixes=Affixes(prefixes=("execute_tool ",), suffixes=(".tool",)),
    arguments=(
        Source("gen_ai.tool.call.arguments", unwrap_by_scope=_ENVELOPES),
        Source("tool.arguments"),
        Source("traceloop.entity.input", unwrap_by_scope=_ENVELOPES),
    ),
    call_id=(
        Source("gen_ai.tool.call.id"),
        Source("gen_ai.tool.call.arguments", take=value_parsing.text_at("kwargs", "tool_call_id")),
        Source("traceloop.entity.output", take=value_parsing.text_at("tool_id")),
    ),
    result=(
        Source("gen_ai.tool.call.result"),
        Source("traceloop.entity.output"),
    ),
    output=(
        Source("gen_ai.output.messages"),
        Source(compute=flat_messages("gen_ai.completion.")),
        Source(compute=flat_messages("llm.completions.")),  # as the package for Go writes them, and older ones did
        Source("crewai.crew.tasks_output", take=_crew_history),
    ),
    input=(
        Source("gen_ai.input.messages"),
        Source(compute=flat_messages("gen_ai.prompt.")),
        Source(compute=flat_messages("llm.prompts.")),
    ),
    user_text=(
        Source("traceloop.entity.input", take=value_parsing.first_of(value_parsing.only_text, _first_message)),
        Source("crewai.crew.tasks", take=value_parsing.text_at(0, "description")),
    ),
    answer=(
        Source("traceloop.entity.output", take=value_parsing.plain_text),
        Source("crewai.crew.result", take=value_parsing.plain_text),
    ),
    tool_definitions=(Source("gen_ai.tool.definitions"), Source("llm.request.functions", take=at())),
    agent=("gen_ai.agent.name",),
    tool_hook=_outcome,
)
