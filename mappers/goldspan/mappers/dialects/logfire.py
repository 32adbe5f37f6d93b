"""Logfire's instrumentations of the OpenAI Agents SDK and of provider SDKs, told by their message templates.

https://logfire.pydantic.dev/docs/integrations/llms/openai/ . Attribute names are those of the template's fields.
"""

from __future__ import annotations

from typing import Any

from goldspan.mappers.dialects import DialectTable, Role, Rule, Source, at
from goldspan.mappers.dialects.reading.value_parsing import Take, decoded
from goldspan.scoring.json_values import is_mapping, is_sequence

_TEMPLATE = "logfire.msg_template"
_INPUT_EVENTS = ("gen_ai.user.message", "gen_ai.system.message", "gen_ai.tool.message", "gen_ai.assistant.message")


def _events_named(*names: str) -> Take:
    def take(events: Any) -> Any:
        found = decoded(events)
        if not is_sequence(found):
            return None
        return [event for event in found if is_mapping(event) and event.get("event.name") in names] or None

    return take


LOGFIRE = DialectTable(
    name="logfire",
    title="Logfire (OpenAI Agents SDK, provider SDKs)",
    docs="https://logfire.pydantic.dev/docs/integrations/llms/openai/",
    rules=(
        Rule(Role.TOOL, _TEMPLATE, frozenset({"Function: {name}"})),
        Rule(Role.AGENT, _TEMPLATE, frozenset({"OpenAI Agents trace: {name}", "Agent run: {name!r}"})),
        Rule(
            Role.MODEL,
            _TEMPLATE,
            frozenset(
                {
                    "Chat completion with {gen_ai.request.model!r}",
                    "Responses API with {gen_ai.request.model!r}",
                    "Chat Completion with {request_data[model]!r}",
                    "Message with {request_data[model]!r}",
                }
            ),
        ),
    ),
    tool_name=("name",),
    arguments=(Source("input"),),
    result=(Source("output"),),
    output=(
        Source("output"),
        Source("response", take=at("output")),
        Source("events", take=_events_named("gen_ai.choice")),
        Source("response_data", take=at("message")),
    ),
    input=(
        Source("input"),
        Source("raw_input"),
        Source("events", take=_events_named(*_INPUT_EVENTS)),
        Source("request_data", take=at("messages")),
    ),
    tool_definitions=(Source("request_data", take=at("tools")),),
    agent=("agent_name",),
    session_keys=("group_id",),
    pseudo_requests=("transfer_to_",),
)
