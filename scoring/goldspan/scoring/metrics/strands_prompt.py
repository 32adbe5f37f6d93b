"""What `ToolParameterAccuracyEvaluator` of Strands Evals 1.7 asks a model, word for word.

The system prompt and the description of the answer are texts of `strands-agents-evals` 1.7.0, Copyright Amazon.com,
Inc. or its affiliates, Apache License 2.0. Scores of one judge can be compared only if both ask the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from goldspan.scoring.json_values import is_mapping, is_sequence
from goldspan.scoring.messages import as_text
from goldspan.scoring.sessions import NO_CONTENT, Capture, Content, Session, ToolCall, Turn
from goldspan.scoring.tool_definitions import ToolDefinition, of_agent, tools_in
from goldspan.scoring.verdict import arguments_of

STRANDS_SYSTEM_PROMPT = """\
You are an objective judge evaluating if an AI assistant's tool-call parameters faithfully use information from the \
preceding context.

## Evaluation Question:
Is the Agent faithfully filling in parameter values using only information provided by the User or retrieved from \
prior API results, without hallucinating or fabricating its own values?

## IMPORTANT: Focus ONLY on parameter faithfulness
- Do NOT evaluate whether this is the correct tool-call to take
- Do NOT evaluate whether this tool-call will successfully fulfill the user's request
- Do NOT evaluate whether a different tool-call would be more appropriate
- ONLY evaluate whether the parameters used come from the preceding context

## Parameter Faithfulness Guidelines:

1. Parameter value sources:
   - Values should come from the preceding context (user statements or API results)
   - Use common sense for implicit values (e.g., reasonable date ranges when context clearly suggests them)
   - Values should not be completely fabricated or hallucinated without any basis

2. Optional parameters:
   - Omitting optional parameters is acceptable, even if including them might provide more specific results
   - If optional parameters are omitted, determine if they were necessary for the user's goals

3. Parameter format faithfulness:
   - Parameter values should match the expected format in the API schema
   - Data types should be correct (strings, integers, etc.)

4. Parameter order is irrelevant and should not affect your evaluation

## Analysis Steps:
For each parameter in the tool-call (including omitted optional ones):
1. Trace the source of the parameter value in the preceding context
2. Verify the parameter follows the correct format according to the schema
3. Apply common sense for reasonable default values or implicit information
4. Flag only clearly fabricated values with no basis in the preceding context

## Output Format:
Begin with a parameter-by-parameter analysis of how each value relates to the preceding context.
Then, provide your final judgment using EXACTLY ONE of these responses:
- Yes (All parameters are faithful to both preceding context and schema)
- No (One or more parameters are unfaithful to the preceding context or schema)"""

STRANDS_TOOL = ToolDefinition(
    "ToolParameterAccuracyRating",
    "IMPORTANT: This StructuredOutputTool should only be invoked as the last and final tool before returning the "
    "completed result to the caller. <description>Structured output for tool parameter accuracy evaluation."
    "</description>",
    {
        "type": "object",
        "properties": {
            "reasoning": {
                "description": "Step by step reasoning to derive the final score",
                "title": "Reasoning",
                "type": "string",
            },
            "score": {
                "description": "Score should be one of 'Yes' or 'No'",
                "enum": ["Yes", "No"],
                "title": "ToolParameterAccuracyScore",
                "type": "string",
            },
        },
        "title": "ToolParameterAccuracyRating",
        "description": "Structured output for tool parameter accuracy evaluation.",
        "required": ["reasoning", "score"],
    },
)
_NO_TOOLS = (
    "No tool list could be resolved for this agent. "
    "Evaluate the tool call based on the user's request and conversation context."
)


def strands_prompts(session: Session, tools: Mapping[str, Mapping[str, Any]] | None = None) -> list[list[str]]:
    """Return the prompt for each call of each turn.

    Before a call are: earlier turns, and of its own turn the user's message and the calls that had ended when it began.
    `tools` are the schemas of all tools by name, in place of those that telemetry declares.
    """
    history: list[str] = []
    given = None if tools is None else [ToolDefinition(name, "", schema) for name, schema in tools.items()]
    available: Sequence[ToolDefinition] = ()
    found: list[list[str]] = []
    for turn in session.turns:
        available = list(tools_in(turn.tool_definitions.value)) or available
        if user := _text(turn.user_text):
            history.append(f"User: {user}")
        found.append(
            [
                _prompt(
                    call,
                    _in_force(call, turn, available) if given is None else given,
                    [*history, *_lines_before(index, turn.calls)],
                )
                for index, call in enumerate(turn.calls)
            ]
        )
        history += [line for call in turn.calls if not call.rejected for line in _lines(call)]
        if answer := _text(turn.answer):
            history.append(f"Assistant: {answer}")
    return found


def _prompt(call: ToolCall, tools: Sequence[ToolDefinition], history: Sequence[str]) -> str:
    listed = "\n".join(line for tool in tools for line in _tool_lines(tool)) or _NO_TOOLS
    parts = [f"## Available tool-calls\n{listed}"]
    if history:
        parts.append("\n".join(["## Previous conversation history", *history]))
    parts.append(f"## Target tool-call to evaluate\n{_call_text(call)}")
    return "\n\n".join(parts)


def _in_force(call: ToolCall, turn: Turn, otherwise: Sequence[ToolDefinition]) -> Sequence[ToolDefinition]:
    """Return the tools that the model which requested a call was given, or those recorded for the call's agent."""
    own = turn.tool_definitions if call.tool_definitions == NO_CONTENT else call.tool_definitions
    return list(tools_in(of_agent(own.value, call.agent))) or otherwise


def _lines_before(index: int, calls: Sequence[ToolCall]) -> Iterator[str]:
    start = calls[index].start
    for at, call in enumerate(calls):
        end = max(call.start, call.end)
        if at != index and not call.rejected and (end < start or (end == start and at < index)):
            yield from _lines(call)


def _lines(call: ToolCall) -> tuple[str, str]:
    return _call_text(call), f"Tool result: {_text(call.result)}"


def _call_text(call: ToolCall) -> str:
    return f"Tool call: {call.name}({dict(arguments_of(call) or {})})"


def _text(content: Content) -> str:
    if content.capture is not Capture.CAPTURED:
        return ""
    return content.raw if isinstance(content.raw, str) else as_text(content.value)


def _tool_lines(tool: ToolDefinition) -> Iterator[str]:
    yield f"- {tool.name}: {tool.description or 'No description'}"
    properties = (tool.schema or {}).get("properties")
    if not is_mapping(properties) or not properties:
        return
    required = (tool.schema or {}).get("required")
    yield "  Parameters:"
    for name, schema in properties.items():
        about: Mapping[str, Any] = schema if is_mapping(schema) else {}
        mark = " (required)" if is_sequence(required) and name in required else ""
        yield f"    - {name} ({about.get('type', 'any')}{mark}): {about.get('description', '')}"
