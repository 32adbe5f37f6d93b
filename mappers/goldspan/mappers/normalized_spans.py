"""Spans that a Collector renamed on the way, seen under the names that their instrumentation wrote.

The Collector's `gen_ai_normalizer` gives attributes of OpenInference and OpenLLMetry the names of OpenTelemetry's
conventions. With `remove_originals`, the kind of a span, the name of its tool and some content are gone from where
their dialect looks; scope, span name and whatever has no new name stay. Without, chains and tasks are called agents.
So each span gets its own names back before any dialect reads it.
https://github.com/open-telemetry/opentelemetry-collector-contrib/tree/main/processor/genainormalizerprocessor
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from goldspan.mappers.dialects.reading.model_messages import LazyMessages
from goldspan.mappers.dialects.reading.value_parsing import decoded
from goldspan.mappers.spans import Attributes, DecodedSpan, SpanView
from goldspan.scoring.json_values import is_dict, is_list

_OPERATION = "gen_ai.operation.name"
_TOOL_NAME = "gen_ai.tool.name"
_AGENT_NAME, _AGENT_ID = "gen_ai.agent.name", "gen_ai.agent.id"
_INPUT, _OUTPUT = "gen_ai.input.messages", "gen_ai.output.messages"


def may_be_renamed(keys: frozenset[str], scope: str) -> bool:
    """Say whether `with_original_names` may change a span with this scope that has, of `RENAMING_KEYS`, these keys."""
    return not keys.isdisjoint((_OPERATION, _TOOL_NAME)) and (
        not keys.isdisjoint(RENAMING_KEYS - {_OPERATION, _TOOL_NAME})
        or scope.startswith((*_OPENINFERENCE_SCOPES, *_OPENLLMETRY_SCOPES))
    )


def with_original_names(span: SpanView) -> SpanView:
    """Return the span with the names that its instrumentation wrote; the span itself if nothing was renamed."""
    attributes = span.attributes
    operation = attributes.get(_OPERATION)
    if operation is None and _TOOL_NAME not in attributes:
        return span
    if _OPENINFERENCE_KIND in attributes:
        restored = _without_additions(attributes, operation)
    elif isinstance(kind := attributes.get(_OPENLLMETRY_KIND), str):
        restored = _of_entity(attributes, kind, operation)
    elif span.scope_name.startswith(_OPENINFERENCE_SCOPES) or any(key in attributes for key in _OPENINFERENCE_REST):
        restored = _of_openinference(attributes)
    else:
        kind = _kind_of_entity(span, attributes, operation)
        restored = None if kind is None else _of_entity(attributes, kind, operation)
    return span if restored is None else _with_attributes(span, restored)


def _without(attributes: Attributes, name: str) -> dict[str, Any]:
    return {key: value for key, value in attributes.items() if key != name}


def _with_attributes(span: SpanView, attributes: Attributes) -> SpanView:
    held: dict[str, Any] = {name: getattr(span, name) for name in DecodedSpan.__struct_fields__}
    held["attributes"] = attributes
    return DecodedSpan(**held)


# OpenInference. The new names stay beside the original ones: an agent framework may have written them itself, on a
# span that OpenInference only adds to.

_OPENINFERENCE_KIND = "openinference.span.kind"
_OPENINFERENCE_SCOPES = ("openinference.instrumentation.", "@arizeai/openinference-")
_OPENINFERENCE_REST = ("input.value", "output.value")  # attributes of OpenInference that have no new name
_OPENINFERENCE_KINDS = {
    "chat": "LLM",
    "execute_tool": "TOOL",
    "invoke_agent": "AGENT",
    "text_completion": "PROMPT",
    "embeddings": "EMBEDDING",
    "retrieval": "RETRIEVER",
}
_OPENINFERENCE_NAMES = {
    _TOOL_NAME: "tool.name",
    "gen_ai.tool.call.arguments": "tool_call.function.arguments",
    "gen_ai.tool.call.id": "tool_call.id",
    _AGENT_NAME: "agent.name",
}
_LEAF = re.compile(r"llm\.(in|out)put_messages\.(\d+)\.message\.(.+)")
_TEXT = re.compile(r"content|contents\.\d+\.message_content\.text")


def _without_additions(attributes: Attributes, operation: object) -> dict[str, Any] | None:
    """Take away what the processor added to a span with its own kind: a chain is no agent, and flat messages count."""
    is_chain = (attributes[_OPENINFERENCE_KIND], operation) == ("CHAIN", "invoke_agent")
    if not is_chain and _INPUT not in attributes:
        return None
    restored = _without(attributes, _OPERATION) if is_chain else dict(attributes)
    if _INPUT in attributes:
        restored[_INPUT] = _not_whole(attributes[_INPUT])
    return restored


def _not_whole(messages: Any) -> Any:
    """Mark rebuilt messages: their numbers are gone, which showed whether the first ones were recorded."""
    found = decoded(messages)
    return LazyMessages(found, _message, whole=False) if is_list(found) else messages


def _message(held: Any) -> Mapping[str, Any]:
    return held if is_dict(held) else {}


def _of_openinference(attributes: Attributes) -> dict[str, Any]:
    restored: dict[str, Any] = dict(attributes)
    for new, name in _OPENINFERENCE_NAMES.items():
        if new in attributes and name not in attributes:
            restored[name] = attributes[new]
    operation = attributes.get(_OPERATION)
    if isinstance(operation, str):
        restored[_OPENINFERENCE_KIND] = _OPENINFERENCE_KINDS.get(operation, operation)
    may_be_chain = operation == "invoke_agent" and _AGENT_NAME not in attributes
    for side, new in (("in", _INPUT), ("out", _OUTPUT)):
        if new in attributes or may_be_chain:
            _restore_messages(restored, attributes, side, new, may_be_chain=may_be_chain)
    if _INPUT in restored:
        restored[_INPUT] = _not_whole(restored[_INPUT])
    return restored


def _restore_messages(
    restored: dict[str, Any], attributes: Attributes, side: str, new: str, *, may_be_chain: bool
) -> None:
    """Take the leaves of messages away that are left; what stands in them goes to the messages that were made of them.

    What runs inside an agent repeats the agent's first messages as its input: messages of a chain are none.
    """
    leaves = {key: found for key in attributes if (found := _LEAF.fullmatch(key)) and found[1] == side}
    for key in leaves:
        del restored[key]
    if may_be_chain:
        restored.pop(new, None)
    elif leaves:
        restored[new] = _with_texts(attributes, new, leaves)


def _with_texts(attributes: Attributes, new: str, leaves: Mapping[str, re.Match[str]]) -> Any:
    """Return rebuilt messages with the texts beside tool calls, which are left out of them."""
    messages = decoded(attributes[new])
    if not is_list(messages):
        return attributes[new]
    for key, found in leaves.items():
        number, text = int(found[2]), {"type": "text", "content": attributes[key]}
        message = messages[number] if number < len(messages) else None
        parts = message.get("parts") if is_dict(message) else None
        if text["content"] and _TEXT.fullmatch(found[3]) and is_list(parts) and text not in parts:
            parts.append(text)
    return messages


# OpenLLMetry. The name, input and output of an entity became those of an agent and its messages.

_OPENLLMETRY_KIND = "traceloop.span.kind"
_OPENLLMETRY_SCOPES = ("traceloop.", "respan.", "@traceloop/", "opentelemetry.instrumentation.")
_OPENLLMETRY_REST = "traceloop.workflow.name"
_OPENLLMETRY_KINDS = {"execute_tool": "tool", "invoke_agent": "agent", "invoke_workflow": "workflow"}
_ENTITY = "traceloop.entity.name"
_OPENLLMETRY_NAMES = {_INPUT: "traceloop.entity.input", _OUTPUT: "traceloop.entity.output"}


def _kind_of_entity(span: SpanView, attributes: Attributes, operation: object) -> str | None:
    """Return the kind that an entity of Traceloop had, as its span's name ends with it; none for any other span.

    OpenTelemetry's own instrumentations have the same scopes. But Traceloop's tools have no name but the one that
    became the agent's; the input and output of its agents and workflows are no lists of messages.
    """
    if not isinstance(operation, str) or operation not in _OPENLLMETRY_KINDS:
        return None
    if not span.scope_name.startswith(_OPENLLMETRY_SCOPES) and _OPENLLMETRY_REST not in attributes:
        return None
    if span.name.endswith(".task"):
        return "task"
    if (
        span.name.endswith(".workflow")
        or (operation == "execute_tool" and attributes.get(_TOOL_NAME) in (None, attributes.get(_AGENT_NAME)))
        or any(_is_no_list(attributes.get(key)) for key in (_INPUT, _OUTPUT))
    ):
        return _OPENLLMETRY_KINDS[operation]
    return None


def _is_no_list(content: object) -> bool:
    """Say whether this is the input or output of an entity, where messages would be a list."""
    return isinstance(content, str) and not content.lstrip().startswith("[")


def _of_entity(attributes: Attributes, kind: str, operation: object) -> dict[str, Any] | None:
    """Give an entity its kind, input, output and name back: a task is no agent, a tool's name is no agent's."""
    renamed = {
        new: name
        for new, name in _OPENLLMETRY_NAMES.items()
        if name not in attributes and (kind == "tool" or _is_no_list(attributes.get(new))) and new in attributes
    }
    agent = attributes.get(_AGENT_NAME)
    is_agent = kind == "agent" or _AGENT_ID in attributes
    if not is_agent and agent is not None and attributes.get(_ENTITY, agent) == agent:
        renamed[_AGENT_NAME] = _ENTITY
    by_processor = _OPENLLMETRY_KIND not in attributes or (kind, operation) == ("task", "invoke_agent")
    if not renamed and not by_processor:
        return None
    restored = {renamed.get(key, key): value for key, value in attributes.items()}
    return {**(_without(restored, _OPERATION) if by_processor else restored), _OPENLLMETRY_KIND: kind}


RENAMING_KEYS = frozenset(
    {
        *(_OPERATION, _TOOL_NAME, _OPENINFERENCE_KIND, *_OPENINFERENCE_REST),
        *(_OPENLLMETRY_KIND, _OPENLLMETRY_REST),
    }
)
"""Attributes, and kinds of them, that tell whether names may have been changed."""
