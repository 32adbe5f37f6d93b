"""Haystack's own tracing of its agents.

https://docs.haystack.deepset.ai/docs/tracing
"""

from __future__ import annotations

from typing import Any

from goldspan.mappers.dialects import Attributes, DialectTable, Role, Rule, Source, SpanView, at
from goldspan.mappers.dialects.reading.model_messages import last_user_text, user_text_at
from goldspan.scoring.json_values import is_sequence

HAYSTACK = DialectTable(
    name="haystack",
    title="Haystack tracing",
    docs="https://docs.haystack.deepset.ai/docs/tracing",
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
    user_text=(Source("haystack.agent.input", take=user_text_at("messages")),),
    tool_definitions=(Source("haystack.agent.tools"),),
)


# OpenInference's instrumentation of Haystack: no spans of tools or models, only an agent's history as Python reprs.
#
# Tool requests that the history has beyond the agent's input belong to this run.

_ASSISTANT = "ChatMessage(_role=<ChatRole.ASSISTANT"
_messages_at = at("messages")


def _new_messages(_: SpanView, attributes: Attributes) -> Any:
    """Return the model's messages that this run added to the history."""
    given, result = _messages_at(attributes.get("input.value")), _messages_at(attributes.get("output.value"))
    if not is_sequence(result):
        return None
    start = 0
    if is_sequence(given) and given:
        start = max((number + 1 for number, message in enumerate(result) if message == given[-1]), default=0)
    return [text for text in result[start:] if isinstance(text, str) and text.startswith(_ASSISTANT)]


def _user_text(given: Any) -> Any:
    return last_user_text(_messages_at(given)).value


OPENINFERENCE_HAYSTACK = DialectTable(
    name="openinference_haystack",
    title="OpenInference for Haystack",
    docs="https://arize-ai.github.io/openinference/",
    rules=(
        Rule(
            Role.AGENT,
            "openinference.span.kind",
            frozenset({"CHAIN", "AGENT"}),
            scope="openinference.instrumentation.haystack",
            name_suffix="Agent.run",
            hides_calls=True,
            holds_model_output=True,
        ),
    ),
    output=(Source("output.value", compute=_new_messages),),
    user_text=(Source("input.value", take=_user_text),),
)
