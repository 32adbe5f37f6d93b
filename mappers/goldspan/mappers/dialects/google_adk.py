"""Google's Agent Development Kit, both schemas of its own telemetry.

Schema 2 writes OpenTelemetry's conventions and adds its invocation id; schema 1 (ADK 1.x, and 2.x by
ADK_TELEMETRY_SCHEMA_VERSION_OPT_IN=1) writes content under `gcp.vertex.agent.*`, and `{}` where content is off.
https://google.github.io/adk-docs/observability/
"""

from __future__ import annotations

import re
from typing import Any

from msgspec.structs import replace

from goldspan.mappers.dialects import Affixes, DialectTable, Elision, Rule, Source, at
from goldspan.mappers.dialects.reading.value_parsing import decoded_dict
from goldspan.mappers.span_facts import Role, ToolFacts
from goldspan.mappers.spans import Attributes, SpanView
from goldspan.scoring.json_values import is_dict, is_list

_OPERATION = "gen_ai.operation.name"
_EVENT_ID = "gcp.vertex.agent.event_id"
_RESPONSE = "gcp.vertex.agent.tool_response"
_CONTENTS = '"contents": '
_FAILED = re.compile(r'"status"\s*:\s*"error"')
_LONGEST_ERROR = 200


def _unless_elided(value: Any) -> Any:
    return None if value in ("{}", "<not specified>", "N/A") or value == {} else value


def _contents(request: Any) -> Any:
    """Take the messages out of an `LlmRequest`. The rest is parsed only if the messages are not its last field."""
    if isinstance(request, str) and (start := request.rfind(_CONTENTS)) >= 0:
        text = request[start + len(_CONTENTS) :].rstrip()
        if text.startswith("[") and text.endswith("]}"):
            # Only the outermost object ends so; text of that shape further inside does not parse by itself.
            return text[:-1]
    whole = decoded_dict(request)
    return whole.get("contents") if whole is not None else None


def _declared_tools(request: Any) -> Any:
    whole = decoded_dict(request)
    config = whole.get("config") if whole is not None else None
    return config.get("tools") if is_dict(config) else None


_UNDECIDED = "This tool call requires confirmation, please approve or reject."
_DENIED = "This tool call is rejected."  # what ADK answers in the place of a tool that a person must confirm first


def _outcome(span: SpanView, attributes: Attributes, tool: ToolFacts) -> ToolFacts:
    """Mark a tool that failed by what it returned; say which calls a merged span repeats, in which order."""
    if _OPERATION not in attributes and "gcp.vertex.agent.tool_call_args" not in attributes:
        # ADK for JavaScript writes attributes only once a tool has returned, and nothing of what it threw.
        return replace(tool, error=tool.error or "error")
    if tool.merged:
        return replace(tool, repeats=_answered_calls(attributes.get(_RESPONSE)))
    tool = _attempt(span, attributes, tool)
    for key in ("gen_ai.tool.call.result", _RESPONSE):
        result = attributes.get(key)
        if tool.error is None and isinstance(result, str) and _FAILED.search(result):
            tool = replace(tool, error=_error_in(decoded_dict(result) or {}))
    return tool


def _error_in(response: dict[str, Any]) -> str | None:
    if response.get("status") != "error":
        return None
    said = (response.get(key) for key in ("message", "error_message", "error"))
    return next((text[:_LONGEST_ERROR] for text in said if isinstance(text, str) and text), "error")


def _answered_calls(response: Any) -> tuple[str, ...]:
    event = decoded_dict(response) or {}
    content = event.get("content") or event.get("Content")
    parts = content.get("parts") if is_dict(content) else None
    answers = [
        part.get("functionResponse") or part.get("function_response")
        for part in (parts if is_list(parts) else ())
        if is_dict(part)
    ]
    ids = [answer.get("id") for answer in answers if is_dict(answer)]
    return tuple(call_id for call_id in ids if isinstance(call_id, str) and call_id)


def _attempt(_: SpanView, attributes: Attributes, tool: ToolFacts) -> ToolFacts:
    """Mark a tool that awaits a person's decision, or was denied, as not executed."""
    for key in ("gen_ai.tool.call.result", _RESPONSE, "output.value"):
        result = attributes.get(key)
        if result is not None and (not isinstance(result, str) or _UNDECIDED in result or _DENIED in result):
            said = at("error")(result) or at("response", "error")(result)
            if said in (_UNDECIDED, _DENIED):
                error = (tool.error or "denied") if said == _DENIED else None
                return replace(tool, executed=False, error=error)
    return tool


GOOGLE_ADK = DialectTable(
    name="google_adk",
    title="Google Agent Development Kit",
    docs="https://google.github.io/adk-docs/observability/",
    rules=(
        Rule(Role.TOOL, _OPERATION, frozenset({"execute_tool"}), also=(_EVENT_ID,)),
        Rule(Role.TOOL, "gcp.vertex.agent.tool_call_args"),
        Rule(Role.TOOL, scope="gcp.vertex.agent", name_prefix="execute_tool "),
        # OpenInference's instrumentation writes a model call's attributes over those of the agent it runs in.
        Rule(Role.AGENT, _EVENT_ID, name_prefix="invoke_agent "),
        Rule(Role.MODEL, _OPERATION, frozenset({"generate_content"}), also=("gcp.vertex.agent.invocation_id",)),
        Rule(Role.MODEL, "gcp.vertex.agent.llm_request"),
    ),
    tool_name=("gen_ai.tool.name",),
    span_name_affixes=Affixes(prefixes=("execute_tool ",)),
    arguments=(Source("gcp.vertex.agent.tool_call_args"),),
    elision=Elision(witness=_RESPONSE),
    call_id=(Source("gen_ai.tool_call.id"),),
    result=(Source(_RESPONSE, take=_unless_elided),),
    merged_tools=frozenset({"(merged tools)"}),
    output=(Source("gcp.vertex.agent.llm_response", take=_unless_elided), Source("gen_ai.output.messages")),
    input=(Source("gcp.vertex.agent.llm_request", take=_contents), Source("gen_ai.input.messages")),
    tool_definitions=(
        Source("gcp.vertex.agent.llm_request", take=_declared_tools),
        Source("gen_ai.tool.definitions"),
    ),
    agent=("gen_ai.agent.name",),
    turn_id=("gcp.vertex.agent.invocation_id",),
    log_scope="gcp.vertex.agent",
    tool_hook=_outcome,
)
