"""Genkit for JavaScript and Go: actions by subtype, with their input and output as JSON text.

https://genkit.dev/docs/observability/getting-started/ . `generate` nests once for each answer of the model, so that it
is an agent only as a root. A tool that waits for a person, or only asks one, ends with an interrupt.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from goldspan.mappers.dialects import Attributes, DialectTable, Role, Rule, Source, SpanView, ToolFacts, at
from goldspan.mappers.dialects.reading import value_parsing
from goldspan.mappers.dialects.reading.model_messages import answer_at
from goldspan.scoring.json_values import is_mapping

_TYPE, _SUBTYPE, _INPUT, _OUTPUT = "genkit:type", "genkit:metadata:subtype", "genkit:input", "genkit:output"
_INTERRUPTS = ("ToolInterruptError", "ai.toolInterruptError")
"""How the types of the exceptions end by which a tool in JavaScript and in Go asks for a person."""


_SESSION_NAMES = tuple(f"{word}{ending}" for word in ("session", "conversation", "thread") for ending in ("Id", "_id"))


def _session(_: SpanView, attributes: Attributes) -> Any:
    """Take the session id out of a flow's input, if it is called one. A nested flow says nothing of its caller's."""
    given = value_parsing.decoded_dict(attributes.get(_INPUT)) if attributes.get("genkit:isRoot") is True else None
    return value_parsing.first_identifier(given, _SESSION_NAMES) if given is not None else None


def _arguments(given: Any) -> Any:
    """Go writes null for a tool that takes nothing."""
    return {} if given == "null" else given


def _result(_: SpanView, attributes: Attributes) -> Any:
    """Take a tool's result out of what a tool of several parts returns."""
    output = attributes.get(_OUTPUT)
    if attributes.get(_SUBTYPE) != "tool.v2":
        return output
    value = value_parsing.decoded(output)
    return value["output"] if is_mapping(value) and "output" in value else output


def _attempt(span: SpanView, attributes: Attributes, tool: ToolFacts) -> ToolFacts:
    """Name the tool as models do, without a plugin's name, and mark one that was interrupted as not executed."""
    tool = replace(tool, name=tool.name.rpartition("/")[2] or tool.name)
    raised = (event.attributes.get("exception.type") for event in span.events)
    interrupted = any(isinstance(name, str) and name.endswith(_INTERRUPTS) for name in raised)
    if interrupted or "genkit:metadata:interrupt" in attributes:
        return replace(tool, executed=False, error=None)
    return tool


_answer = value_parsing.first_of(value_parsing.plain_text, answer_at("message"))
"""Takes the answer out of a flow's text, or the message that an agent, a prompt or a chat ends with."""

GENKIT = DialectTable(
    name="genkit",
    title="Genkit",
    docs="https://genkit.dev/docs/observability/getting-started/",
    rules=(
        Rule(Role.TOOL, _SUBTYPE, frozenset({"tool", "tool.v2"})),
        # A model that calls a prompt as a tool hands the conversation over to it.
        Rule(Role.TOOL, _SUBTYPE, frozenset({"prompt"}), no_turn=True, pseudo=True),
        Rule(Role.MODEL, _SUBTYPE, frozenset({"model"})),
        Rule(Role.AGENT, _SUBTYPE, frozenset({"flow", "agent", "executable-prompt"})),
        Rule(Role.AGENT, _TYPE, frozenset({"dotprompt"})),
        Rule(Role.AGENT, _TYPE, frozenset({"helper"}), also=("genkit:sessionId",)),
        Rule(Role.AGENT, "genkit:name", frozenset({"generate"}), also=("genkit:isRoot",)),
    ),
    tool_name=("genkit:name",),
    arguments=(Source(_INPUT, take=_arguments),),
    result=(Source(_OUTPUT, compute=_result),),
    error_flags=(("genkit:state", "error"),),
    output=(Source(_OUTPUT),),
    input=(Source(_INPUT, take=at("messages")),),
    user_text=(Source(_INPUT, take=value_parsing.plain_text),),
    answer=(Source(_OUTPUT, take=_answer),),
    tool_definitions=(Source(_INPUT, take=at("tools")),),
    agent=("genkit:name",),
    session_keys=("genkit:metadata:agent:sessionId", "genkit:sessionId"),
    sessions_inside=(Source(_INPUT, compute=_session),),
    tool_hook=_attempt,
)
