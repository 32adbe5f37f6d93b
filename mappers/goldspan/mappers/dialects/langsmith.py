"""LangSmith's OpenTelemetry export: the inputs and outputs of runs, as LangChain serialises them.

https://docs.langchain.com/langsmith/trace-with-opentelemetry . `gen_ai.prompt` holds a run's inputs, which of a tool
are its arguments; `langsmith.trace.session_name` is the project, not the session.
"""

from __future__ import annotations

from goldspan.mappers.dialects import DialectTable, Role, Rule, Source, at

_KIND = "langsmith.span.kind"
_CALL_ID = at("args", 1, "toolCallId")


def _arguments(value: object) -> object:
    """Take a tool's input out of `{"args": [input, options]}`: Vercel's AI SDK runs its tools with both."""
    return value if _CALL_ID(value) is None else at("args", 0)(value)


LANGSMITH = DialectTable(
    name="langsmith",
    title="LangSmith OpenTelemetry export",
    docs="https://docs.langchain.com/langsmith/trace-with-opentelemetry",
    rules=(Rule(Role.TOOL, _KIND, frozenset({"tool"})), Rule(Role.MODEL, _KIND, frozenset({"llm"}))),
    tool_name=("gen_ai.tool.name", "langsmith.trace.name"),
    arguments=(Source("gen_ai.prompt", take=_arguments),),
    call_id=(Source("gen_ai.prompt", take=_CALL_ID),),
    result=(Source("gen_ai.completion"),),
    output=(Source("gen_ai.completion"),),
    input=(Source("gen_ai.prompt", take=at("messages")),),
    agent=("langsmith.metadata.lc_agent_name",),
)
