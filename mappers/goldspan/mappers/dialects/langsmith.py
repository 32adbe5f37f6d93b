"""LangSmith's OpenTelemetry export: the inputs and outputs of runs, as LangChain serialises them.

https://docs.langchain.com/langsmith/trace-with-opentelemetry . `gen_ai.prompt` holds a run's inputs, which of a tool
are its arguments; `langsmith.trace.session_name` is the project, not the session.
"""

from __future__ import annotations

from typing import Any

from goldspan.mappers.dialects import Advice, DialectTable, Role, Rule, Source, at
from goldspan.mappers.dialects.reading.value_parsing import decoded
from goldspan.scoring.json_values import is_mapping, is_sequence

_KIND = "langsmith.span.kind"


def _messages(value: Any) -> Any:
    """Take messages out of a run's inputs: LangChain's constructors nested by prompt, or a provider's own."""
    found = at("messages")(value)
    if not is_sequence(found):
        return None
    nested = (inner for item in found for inner in (item if is_sequence(item) else (item,)))
    return [_message(item) for item in nested]


def _replies(value: Any) -> Any:
    """Take messages out of a run's outputs: LangChain's generations, or a provider's choices or message."""
    found = decoded(value)
    if not is_mapping(found):
        return None
    generations = found.get("generations")
    if is_sequence(generations):
        nested = (inner for item in generations for inner in (item if is_sequence(item) else (item,)))
        return [_message(inner.get("message")) for inner in nested if is_mapping(inner)]
    choices = found.get("choices")
    if is_sequence(choices):
        return [choice.get("message") for choice in choices if is_mapping(choice)]
    return [found]


def _message(item: Any) -> Any:
    """Take a message out of LangChain's constructor of it."""
    if is_mapping(item) and is_mapping(item.get("kwargs")) and "lc" in item:
        return item["kwargs"]
    return item


LANGSMITH = DialectTable(
    name="langsmith",
    title="LangSmith OpenTelemetry export",
    docs="https://docs.langchain.com/langsmith/trace-with-opentelemetry",
    advice=(
        Advice(
            framework="LangSmith",
            language="python",
            arguments="Leave LANGSMITH_HIDE_INPUTS unset.",
            session='Pass config={"metadata": {"session_id": "..."}} or a thread_id to the run.',
            checked="langsmith 0.15.0",
        ),
        Advice(
            framework="LangSmith",
            language="nodejs",
            arguments="Leave LANGSMITH_HIDE_INPUTS unset.",
            session='Pass {metadata: {session_id: "..."}} or a thread_id to the run.',
            checked="langsmith for JavaScript 0.12.0",
        ),
    ),
    rules=(Rule(Role.TOOL, _KIND, frozenset({"tool"})), Rule(Role.MODEL, _KIND, frozenset({"llm"}))),
    tool_name=("gen_ai.tool.name", "langsmith.trace.name"),
    arguments=(Source("gen_ai.prompt"),),
    call_id=(
        Source("gen_ai.tool.call.id"),
        Source("gen_ai.completion", take=at("output", "tool_call_id")),
    ),
    result=(Source("gen_ai.completion"),),
    output=(Source("gen_ai.completion", take=_replies),),
    input=(Source("gen_ai.prompt", take=_messages),),
    tool_definitions=(Source("gen_ai.tool.definitions"),),
    agent=("langsmith.metadata.lc_agent_name",),
)
