"""AutoGen's runtime messages: arguments that its own `execute_tool` spans do not hold.

A tool's request and its result travel as messages. The runtime writes each into the attribute `message` of a span
`autogen process ...`, in a trace of its own that is linked to the agent's. Both name the call id.
https://microsoft.github.io/autogen/stable/user-guide/agentchat-user-guide/tracing.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from goldspan.mappers.dialects import Advice, Reading, SpanView, ToolFacts
from goldspan.mappers.dialects.reading.protocol import ANY_SCOPE, IN_PROCESS
from goldspan.mappers.dialects.reading.value_parsing import decoded, read_arguments, read_content
from goldspan.mappers.span_facts import LogFacts
from goldspan.scoring.json_values import is_list, is_mapping

_MESSAGE, _OPERATION = "message", "messaging.operation"
_REQUEST, _RESULT = "ToolCallRequestEvent", "ToolCallExecutionEvent"
_DEEPEST = 4  # how deeply an event may be nested: alone, in a group's response, or in its list of inner messages


class AutoGen:
    """Reads the messages of AutoGen's runtime; its agents and tools are written by OpenTelemetry's conventions."""

    name = "autogen"
    title = "AutoGen"
    docs = "https://microsoft.github.io/autogen/stable/user-guide/agentchat-user-guide/tracing.html"
    markers = frozenset({"message_context"})
    advice = Advice(
        framework="AutoGen",
        language="python",
        scopes=("autogen-core", ANY_SCOPE),
        arguments=(
            "AutoGen writes arguments in its runtime's messages only: leave AUTOGEN_DISABLE_RUNTIME_TRACING unset. For "
            "an agent that runs without a team, add openinference-instrumentation-autogen-agentchat."
        ),
        session=IN_PROCESS,
        checked="autogen-core 0.7.5",
    )

    def read(self, span: SpanView) -> Reading | None:
        """Return the calls that a message describes, as notes for the traces that the span links to."""
        text = span.attributes.get(_MESSAGE)
        if span.attributes.get(_OPERATION) != "process" or not isinstance(text, str) or "ToolCall" not in text:
            return None
        tools = tuple(tool for event in _events(decoded(text), 0) for tool in _tools(event, span.attributes))
        if not tools:
            return None
        identity = f"{span.trace_id}/{span.span_id}"
        traces = dict.fromkeys(link.trace_id for link in span.links)
        return Reading(
            notes=tuple(
                LogFacts(trace_id, "", identity, time=span.start, dialect=self.name, tools=tools) for trace_id in traces
            )
        )


AUTOGEN = AutoGen()


def _events(value: object, depth: int) -> Iterator[Mapping[str, Any]]:
    if depth > _DEEPEST:
        return
    if is_mapping(value):
        if value.get("type") in (_REQUEST, _RESULT):
            yield value
        else:
            for inner in value.values():
                yield from _events(inner, depth + 1)
    elif is_list(value):
        for inner in value:
            yield from _events(inner, depth + 1)


def _tools(event: Mapping[str, Any], beside: Mapping[str, Any]) -> Iterator[ToolFacts]:
    content = event.get("content")
    asked = event["type"] == _REQUEST
    for item in content if is_list(content) else ():
        call_id = item.get("id" if asked else "call_id") if is_mapping(item) else None
        if not isinstance(call_id, str) or not call_id:
            continue
        if asked:
            arguments, hidden = read_arguments(item.get("arguments"), beside)
            yield ToolFacts("", arguments, hidden, call_id=call_id)
        else:
            error = "error" if item.get("is_error") is True else None
            yield ToolFacts("", call_id=call_id, result=read_content(item.get("content")), error=error)
