"""Eino's components, as the callbacks of APMPlus write them; Eino itself writes no spans.

https://www.cloudwego.io/docs/eino/ecosystem_integration/callbacks/callback_apmplus/ . Values are under the names
that OpenLLMetry has for messages, whatever the component. Messages without text, such as requests, are missing from a
model's input; an answer without text is the JSON of all messages.
"""

from __future__ import annotations

from typing import Any

from goldspan.mappers.dialects import DialectTable, Role, Rule, Source
from goldspan.mappers.dialects.reading.model_messages import flat_messages
from goldspan.mappers.dialects.reading.value_parsing import decoded
from goldspan.scoring.json_values import is_dict

_COMPONENT = "runinfo.component"
_GIVEN, _RETURNED = "gen_ai.prompt.0.content", "gen_ai.completion.0.content"


def _arguments(given: Any) -> Any:
    """Take arguments: JSON within JSON, or an object around it where the tool has callbacks of its own."""
    value = decoded(given)
    if is_dict(value):
        return value.get("ArgumentsInJSON", given)
    return given if value is None else value


def _result(returned: Any) -> Any:
    value = decoded(returned)
    return value.get("Response", value) if is_dict(value) else value


def _messages(value: Any) -> Any:
    return value if isinstance(decoded(value), list) else None


EINO = DialectTable(
    name="eino",
    title="Eino",
    docs="https://www.cloudwego.io/docs/eino/ecosystem_integration/callbacks/callback_apmplus/",
    rules=(
        Rule(Role.TOOL, _COMPONENT, frozenset({"Tool"})),
        Rule(Role.MODEL, _COMPONENT, frozenset({"ChatModel"})),
        Rule(Role.AGENT, _COMPONENT, frozenset({"Agent"})),
        Rule(Role.AGENT, "gen_ai.span.kind", frozenset({"workflow"}), also=(_COMPONENT,)),
    ),
    tool_name=("runinfo.name",),
    arguments=(Source(_GIVEN, take=_arguments),),
    result=(Source(_RETURNED, take=_result),),
    output=(
        Source("gen_ai.output", take=_messages),
        Source(_RETURNED, take=_messages),
        Source(compute=flat_messages("gen_ai.completion.")),
    ),
    input=(Source("gen_ai.input", take=_messages), Source(compute=flat_messages("gen_ai.prompt."))),
    session_keys=("gen_ai.session.id",),
)
