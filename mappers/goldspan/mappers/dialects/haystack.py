"""Haystack's own tracing of its agents.

https://docs.haystack.deepset.ai/docs/tracing
"""

from __future__ import annotations

from typing import Any

from goldspan.mappers.dialects.reading.dialect_table import DialectTable
from goldspan.mappers.dialects.reading.messages import last_user_text
from goldspan.mappers.dialects.reading.protocol import Advice
from goldspan.mappers.dialects.reading.recorded_values import at
from goldspan.mappers.dialects.reading.rules import Rule, Source
from goldspan.mappers.facts import Role


def _asked(given: Any) -> Any:
    return last_user_text(at("messages")(given)).value


HAYSTACK = DialectTable(
    name="haystack",
    title="Haystack tracing",
    docs="https://docs.haystack.deepset.ai/docs/tracing",
    advice=Advice(
        arguments="Set HAYSTACK_CONTENT_TRACING_ENABLED=true.",
        session="Haystack has no session: wrap the turn in goldspan's session_scope(...).",
    ),
    rules=(
        Rule(Role.TOOL, "haystack.tool.name"),
        Rule(Role.MODEL, "haystack.agent.step.llm.output"),
        Rule(Role.MODEL, "haystack.agent.step.llm.input"),
        Rule(Role.AGENT, "haystack.agent.max_steps"),
    ),
    tool_name=("haystack.tool.name",),
    arguments=(Source("haystack.agent.step.tool.input"),),
    result=(Source("haystack.agent.step.tool.output"),),
    error_flags=(("haystack.tool.error", True),),
    output=(
        Source("haystack.agent.step.llm.output", take=at("replies")),
        Source("haystack.agent.output", take=at("messages")),
    ),
    input=(Source("haystack.agent.step.llm.input", take=at("messages")),),
    user_text=(Source("haystack.agent.input", take=_asked),),
    tool_definitions=(Source("haystack.agent.tools"),),
)
