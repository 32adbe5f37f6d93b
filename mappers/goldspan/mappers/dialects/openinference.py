"""OpenInference, the conventions of Arize's instrumentations and of UiPath's traces.

https://arize-ai.github.io/openinference/spec/semantic_conventions.html . The arguments of a tool are `input.value`;
`tool.parameters` holds arguments in some instrumentations and the tool's JSON schema in others.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from goldspan.mappers.dialects import Affixes, Attributes, DialectTable, Role, Rule, Source, SpanView
from goldspan.mappers.dialects.reading.dialect_table import undecided_without_result
from goldspan.mappers.dialects.reading.model_messages import (
    flat_messages,
    flat_texts,
    last_answer,
    last_user_text,
    requests_in,
)
from goldspan.mappers.dialects.reading.value_parsing import (
    bound_call,
    decoded,
    decoded_dict,
    describes_parameters,
    only_text,
)
from goldspan.mappers.span_facts import ToolFacts
from goldspan.scoring.json_values import is_dict, is_list

_KIND = "openinference.span.kind"
_SCOPE = "openinference.instrumentation."
_JAVASCRIPT_SCOPE = "@arizeai/openinference-instrumentation-"


def _scopes(library: str) -> tuple[str, str]:
    """Return the scopes of a library's instrumentations for Python and JavaScript."""
    return f"{_SCOPE}{library}", f"{_JAVASCRIPT_SCOPE}{library.replace('_', '-')}"


_BINDING = ("", *_scopes("dspy"), *_scopes("llama_index"), *_scopes("smolagents"))
"""Scopes that write how a tool was called. Phoenix keeps no scope."""
_EVENT = "StopEvent(result="
"""How the repr of a LlamaIndex workflow's end begins; the models' output has the answer in it as text."""


def _unless_schema(parameters: Any) -> Any:
    """Take `tool.parameters` unless it is a schema. An empty object may be either, and is not taken."""
    return None if decoded_dict(parameters) == {} or describes_parameters(parameters) else parameters


_INPUT = "llm.input_messages."
_flat_input = flat_messages(_INPUT)


def _given(span: SpanView, attributes: Attributes) -> Any:
    """Take what a model was given, or a graph of LangChain: of its messages only the first has flat attributes."""
    is_flat = attributes.get(_KIND) == "LLM" and not _lost_results(attributes)
    state = None if is_flat else decoded_dict(attributes.get("input.value"))
    messages = None if state is None else state.get("messages")
    return messages if is_list(messages) and any(map(is_dict, messages)) else _flat_input(span, attributes)


_OUTPUT = "llm.output_messages."
_flat_output = flat_messages(_OUTPUT)


def _said(span: SpanView, attributes: Attributes) -> Any:
    """Take what a model answered: whole, where flat messages lack arguments, as empty ones, or what a provider ran."""
    flat, whole = _flat_output(span, attributes), attributes.get("output.value")
    if flat is None or not isinstance(whole, str):
        return flat
    names, arguments = (
        sum(type(key) is str and key.startswith(_OUTPUT) and key.endswith(end) for key in attributes)
        for end in (".function.name", ".function.arguments")
    )
    if names == arguments and '"mcp_call"' not in whole:
        return flat
    return whole if len(requests_in(whole)) >= len(requests_in(flat)) > 0 or not names else flat


def _lost_results(attributes: Attributes) -> bool:
    """Say whether flat messages have only the call ids of what tools answered, as Bedrock's in JavaScript do."""
    ids = (key for key in attributes if type(key) is str and key.startswith(_INPUT) and key.endswith(".tool_call_id"))
    return any(f"{key.rpartition('.')[0]}.content" not in attributes for key in ids if ".tool_calls." not in key)


def _user_text(given: Any) -> Any:
    """Take the user's text out of an agent's input: plain text, smolagents' task, CrewAI's tasks, DSPy's only field."""
    if not isinstance(given, str) or given[:1] not in {"{", "["}:
        return given
    value = decoded_dict(given)
    if value is None:
        return _first_task(given)
    if isinstance(value.get("task"), str):
        return value["task"]
    if is_dict(value.get("input_args")):
        return only_text(value["input_args"])
    return last_user_text([value.get("new_message")]).value


def _first_task(tasks: str) -> Any:
    value = decoded(tasks)
    if value is None:
        return tasks
    first = value[0] if is_list(value) and value else None
    return first.get("description") if is_dict(first) else None


def _answer(result: Any) -> Any:
    """Take the answer out of an agent's output: plain text, CrewAI's raw one, DSPy's last field, ADK's last event."""
    value = decoded_dict(result)
    if value is None:
        return None if result == "null" or (isinstance(result, str) and result.startswith(_EVENT)) else result
    if is_dict(value.get("trajectory")):
        return list(value.values())[-1]
    return value.get("raw") or last_answer(value).value


def _outcome(span: SpanView, attributes: Attributes, tool: ToolFacts) -> ToolFacts:
    """Mark hand-offs of the OpenAI Agents SDK for JavaScript, which have a tool's name, too (R5)."""
    if span.name.startswith("handoff to ") and tool.name.startswith("handoff_to_"):
        return replace(tool, pseudo=True)
    # BeeAI for TypeScript writes a span for each event of a tool, and its name as that of a class.
    if isinstance(event := attributes.get("target"), str) and event.startswith("tool."):
        return replace(tool, named=False, merged=not event.endswith((".success", ".error")))
    return undecided_without_result(span, attributes, tool)


OPENINFERENCE = DialectTable(
    name="openinference",
    title="OpenInference",
    docs="https://arize-ai.github.io/openinference/spec/semantic_conventions.html",
    rules=(
        Rule(Role.TOOL, _KIND, frozenset({"TOOL"}), name_prefix="handoff to ", without=("tool.name",), pseudo=True),
        Rule(Role.TOOL, _KIND, frozenset({"TOOL"})),
        # LangChain: whatever has "agent" in its name is of kind AGENT, tools too.
        Rule(Role.TOOL, _KIND, frozenset({"AGENT"}), also=("tool.name",)),
        # So are the hooks of its middleware.
        Rule(Role.AGENT, _KIND, frozenset({"AGENT"}), name_suffix=".before_agent", no_turn=True),
        Rule(Role.AGENT, _KIND, frozenset({"AGENT"}), name_suffix=".after_agent", no_turn=True),
        Rule(Role.MODEL, _KIND, frozenset({"LLM"})),
        # Phoenix gives spans of OpenTelemetry's conventions a kind, too.
        Rule(Role.AGENT, "gen_ai.operation.name", frozenset({"create_agent"}), also=(_KIND,), no_turn=True),
        Rule(Role.AGENT, _KIND, frozenset({"AGENT"})),
        # A crew's kick-off runs one agent after the other, an ADK invocation all of its agents.
        Rule(Role.AGENT, _KIND, frozenset({"CHAIN"}), also=("crew_key",)),
        Rule(Role.AGENT, _KIND, frozenset({"CHAIN"}), also=("user.id", "session.id"), name_prefix="invocation ["),
        # In these frameworks a chain span covers a whole turn. Phoenix keeps no scope, so names must do.
        Rule(Role.AGENT, _KIND, frozenset({"CHAIN"}), scope=_scopes("llama_index"), name_suffix=".run"),
        Rule(Role.AGENT, _KIND, frozenset({"CHAIN"}), name_suffix="Agent.run"),
        Rule(Role.AGENT, _KIND, frozenset({"CHAIN"}), name_suffix="AgentWorkflow.run"),
        Rule(Role.AGENT, _KIND, frozenset({"CHAIN"}), name_suffix=".run_stream"),
        Rule(Role.AGENT, _KIND, frozenset({"CHAIN"}), name_suffix="ReAct.forward"),
        Rule(Role.TOOL, "tool.name", also=("input.value",), without=(_KIND,)),
    ),
    tool_name=("tool.name",),
    span_name_affixes=Affixes(
        prefixes=("execute_tool ",), suffixes=(".run", ".__call__", ".acall", ".call", ".invoke", ".ainvoke")
    ),
    arguments=(
        Source("input.value", unwrap_by_scope=dict.fromkeys(_BINDING, bound_call)),
        Source("tool.parameters", take=_unless_schema),
    ),
    call_id=(
        Source("tool.call_id"),
        Source("tool.id"),
        Source("tool_call.id"),
    ),
    result=(Source("output.value"),),
    pseudo_tools=frozenset({"final_answer", "finish"}),
    pseudo_requests=("transfer_to_",),
    # The Collector's `gen_ai_normalizer` makes one text of the flat messages.
    output=(Source(compute=_said), Source("gen_ai.output.messages")),
    input=(Source(compute=_given), Source("gen_ai.input.messages")),
    user_text=(Source("crew_tasks", take=_user_text), Source("input.value", take=_user_text)),
    answer=(Source("output.value", take=_answer),),
    tool_definitions=(Source(compute=flat_texts("llm.tools.", ".tool.json_schema")),),
    agent=("agent.name", "gen_ai.agent.name"),
    tool_hook=_outcome,
)
