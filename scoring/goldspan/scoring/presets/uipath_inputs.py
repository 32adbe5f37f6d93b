"""What UiPath's tool-call evaluators read: criteria, checked by pydantic as they check them, and attributes of spans.

The models bear UiPath's names because their `repr` and their validation errors are part of what is reproduced.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from goldspan.scoring.presets.calls import plain_call
from goldspan.scoring.presets.shapes import is_dict, is_mapping

_DISALLOWED = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME = 64


class ToolCall(BaseModel):
    """UiPath's tool call; an expected one must state its arguments."""

    name: str
    args: dict[str, Any]
    id: str | None = None


class ToolOutput(BaseModel):
    """UiPath's tool output."""

    name: str
    output: str
    id: str | None = None


class EvaluationCriteria(BaseModel):
    """The ancestor of the four kinds of criteria."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class ToolCallArgsEvaluationCriteria(EvaluationCriteria):
    """Calls with their arguments."""

    tool_calls: list[ToolCall]


class ToolCallOrderEvaluationCriteria(EvaluationCriteria):
    """Names or ids in order."""

    tool_calls_order: list[str]


class ToolCallCountEvaluationCriteria(EvaluationCriteria):
    """For each name or id an operator and a number."""

    tool_calls_count: dict[str, tuple[str, int]]


class ToolCallOutputEvaluationCriteria(EvaluationCriteria):
    """Outputs by tool."""

    tool_outputs: list[ToolOutput]


def sanitized(name: str) -> str:
    """Reduce a tool name to what UiPath compares: white space to `_`, letters, digits, `_` and `-`, 64 characters."""
    return _DISALLOWED.sub("", "_".join(name.split()))[:_LONGEST_NAME]


def key_matches(name: str, tool_id: str | None, expected: str) -> bool:
    """Say whether a call is the one a criterion names: by id alone where the call has one, else by sanitised name."""
    if tool_id is not None:
        return expected == tool_id
    return sanitized(expected) == sanitized(name)


def tool_spans(actual: Sequence[object]) -> list[Mapping[str, Any]]:
    """List the attributes of what UiPath takes for tool calls, in the order given.

    Read are spans (anything with `attributes`), and calls as if they were spans. Spans without a `tool.name` and
    synthesized ones are no tool calls.

    Raises:
        TypeError: something is neither.

    """
    found = [_attributes(one) for one in actual]
    return [attrs for attrs in found if attrs and not attrs.get("tool.synthesized") and attrs.get("tool.name")]


def read_call(attrs: Mapping[str, Any], *, with_args: bool) -> ToolCall:
    """Read the call of a span.

    Raises:
        ValidationError: an argument has a name that is no string.

    """
    args = _parse_args(attrs.get("input.value", {})) if with_args else {}
    return ToolCall(name=str(attrs["tool.name"]), args=args, id=_tool_id(attrs))


def read_output(attrs: Mapping[str, Any]) -> ToolOutput:
    """Read the output of a span: of a JSON object its `content` alone, anything else as text."""
    output = _content(attrs.get("output.value", ""))
    return ToolOutput(name=str(attrs["tool.name"]), output=str(output) if output else "", id=_tool_id(attrs))


def _attributes(one: object) -> Mapping[str, Any]:
    attributes = one.get("attributes") if is_mapping(one) else getattr(one, "attributes", None)
    if is_mapping(attributes):
        return attributes
    call = plain_call(one)
    return {
        "tool.name": call.get("name"),
        "tool.id": call.get("id"),
        "input.value": call.get("args"),
        "output.value": call.get("output", ""),
    }


def _tool_id(attrs: Mapping[str, Any]) -> str | None:
    tool_id = attrs.get("tool.id")
    return None if tool_id is None else str(tool_id)


def _parse_args(value: object) -> dict[Any, Any]:
    """JSON, else a Python literal; whatever is no object counts as no arguments."""
    if isinstance(value, str):
        try:
            value = _literal(value)
        except (SyntaxError, ValueError):
            return {}
    return value if is_dict(value) else {}


def _literal(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return ast.literal_eval(text)


def _content(output: object) -> object:
    if isinstance(output, str):
        try:
            parsed = json.loads(output)
        except ValueError:
            return output
        return parsed.get("content", "") if is_dict(parsed) else output
    return output.get("content", "") if is_dict(output) else str(output)
