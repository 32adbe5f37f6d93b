"""Wrappings that instrumentations put around arguments. A dialect names the one it uses; nothing is guessed (R2).

Each takes the decoded value and returns what is inside, or none where the value is not that envelope.
"""

from __future__ import annotations

from typing import Any

from goldspan.mappers.json_shapes import is_list, is_object


def kwargs_only(value: Any) -> Any:
    """`{"kwargs": {...}}`, as of a bound Python call."""
    return value["kwargs"] if is_object(value) and set(value) == {"kwargs"} and is_object(value["kwargs"]) else None


def args_and_kwargs(value: Any) -> Any:
    """`{"args": [], "kwargs": {...}}`; positional arguments have no names, so that they stay a list."""
    if not is_object(value) or not is_list(value.get("args")) or not is_object(value.get("kwargs")):
        return None
    return [*value["args"], value["kwargs"]] if value["args"] else value["kwargs"]


def name_and_arguments(value: Any) -> Any:
    """`{"tool_name": ..., "arguments": {...}}`, as in an MCP request."""
    if is_object(value) and is_object(value.get("arguments")):
        return value["arguments"]
    return None


def inputs(value: Any) -> Any:
    """`{"input_str": ..., "inputs": {...}}`, as LangChain's callbacks hand a tool run over."""
    return value["inputs"] if is_object(value) and is_object(value.get("inputs")) else None
