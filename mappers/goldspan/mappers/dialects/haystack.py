"""Haystack's own tracing of its agents.

https://docs.haystack.deepset.ai/docs/tracing
"""

from __future__ import annotations

import re
from typing import Any

from goldspan.mappers.dialects import Advice, Attributes, DialectTable, Role, Rule, Source, SpanView, at
from goldspan.mappers.dialects.reading.model_messages import user_text_at
from goldspan.mappers.dialects.reading.protocol import IN_PROCESS
from goldspan.scoring.json_values import is_dict, is_sequence
from goldspan.scoring.recorded_values import literal_at

HAYSTACK = DialectTable(
    name="haystack",
    title="Haystack tracing",
    docs="https://docs.haystack.deepset.ai/docs/tracing",
    advice=Advice(
        framework="Haystack",
        language="python",
        arguments="Set HAYSTACK_CONTENT_TRACING_ENABLED=true.",
        session=IN_PROCESS,
        checked="haystack-ai 3.4.1",
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
    user_text=(Source("haystack.agent.input", take=user_text_at("messages")),),
    tool_definitions=(Source("haystack.agent.tools"),),
)


# OpenInference's instrumentation of Haystack: no spans of tools or models, only an agent's history as Python reprs.
#
# Tool requests that the history has beyond the agent's input belong to this run.

_CALL = re.compile(r"ToolCall\(tool_name='([^']+)', arguments=(?=\{)")
_CALL_ID = re.compile(r", id='([^']+)'")
_ASSISTANT = "ChatMessage(_role=<ChatRole.ASSISTANT"
_TEXT = re.compile(r"TextContent\(text=(['\"])(.*)\1\)", re.DOTALL)
_messages_at = at("messages")


def _new_messages(_: SpanView, attributes: Attributes) -> Any:
    """Return the model's messages that this run added to the history."""
    given, result = _messages_at(attributes.get("input.value")), _messages_at(attributes.get("output.value"))
    if not is_sequence(result):
        return None
    start = 0
    if is_sequence(given) and given:
        start = max((number + 1 for number, message in enumerate(result) if message == given[-1]), default=0)
    texts = (text for text in result[start:] if isinstance(text, str) and text.startswith(_ASSISTANT))
    return [{"role": "assistant", "content": _text_content(text), "tool_calls": list(_calls(text))} for text in texts]


def _calls(text: str) -> Any:
    for found in _CALL.finditer(text):
        arguments, end = literal_at(text, found.end())
        if is_dict(arguments):
            call_id = _CALL_ID.match(text, end)
            yield {"name": found[1], "arguments": arguments, "id": call_id[1] if call_id else None}


def _text_content(text: Any) -> str:
    found = _TEXT.search(text) if isinstance(text, str) else None
    return found[2] if found else ""


def _user_text(given: Any) -> Any:
    return _text_content(at("messages", -1)(given)) or None


OPENINFERENCE_HAYSTACK = DialectTable(
    name="openinference_haystack",
    title="OpenInference for Haystack",
    docs="https://arize-ai.github.io/openinference/",
    advice=Advice(
        framework="OpenInference for Haystack",
        language="python",
        scopes=("openinference.instrumentation.haystack",),
        arguments="Use Haystack's own tracing instead (opentelemetry-haystack): it writes a span for each tool.",
        session='Wrap the turn in `with using_session("..."):` of openinference.instrumentation.',
        checked="openinference-instrumentation 0.1.72",
    ),
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
