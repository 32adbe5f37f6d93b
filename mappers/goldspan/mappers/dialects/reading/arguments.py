"""What a recorded value says of the arguments of a call, and how much of it is to be believed (R10).

Absent, elided, redacted, cut off and unparsable are different facts, and none of them is "no arguments".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from goldspan.mappers.dialects.reading.recorded_values import literal, loads
from goldspan.mappers.dialects.reading.redaction_and_truncation import (
    REDACTION_TOKENS,
    hidden_arguments,
    is_redacted,
    why_unparsable,
)
from goldspan.scoring.sessions import NO_CONTENT, Capture, Content
from goldspan.scoring.type_guards import is_dict, is_list, is_mapping, is_sequence

_MAX_DEPTH = 100

Unwrap = Callable[[Any], Any]
"""Takes the decoded value and returns the arguments inside its envelope, or none where it is no such envelope."""


class Arguments(NamedTuple):
    """What is known of the arguments of one call."""

    content: Content = NO_CONTENT
    """Captured arguments are a dict in `raw`."""
    captures: Mapping[str, Capture] | None = None
    """Single arguments that are hidden, by name."""


NO_ARGUMENTS = Arguments()


def read_arguments(
    raw: object,
    beside: Mapping[str, Any],
    *,
    unwrap: Unwrap | None = None,
    python_repr: bool = False,
    tokens: frozenset[str] = REDACTION_TOKENS,
) -> Arguments:
    """Read arguments from an attribute value: JSON text, JSON in JSON, or an object.

    `beside` are the attributes of the same span: texts of theirs that end at the same length tell a length limit.
    `python_repr` says that the dialect writes Python literals where JSON is expected. Positional arguments have no
    names, so that a list is unparsable.
    """
    value = raw
    for _ in range(3):
        if isinstance(value, bytes):
            value = value.decode("utf-8", errors="replace")
        if not isinstance(value, str):
            break
        text = value.strip()
        if not text:
            return NO_ARGUMENTS
        if is_redacted(text, tokens):
            return Arguments(Content(raw, Capture.REDACTED))
        try:
            value = loads(text)
        except (ValueError, RecursionError) as error:
            evaluated = literal(text) if python_repr else None
            if evaluated is None:
                return Arguments(Content(raw, why_unparsable(value, text, error, beside)))
            value = evaluated
    if value is None:
        return NO_ARGUMENTS
    if unwrap is not None and (inner := unwrap(plain(value))) is not None:
        value = inner
    if not is_mapping(value):
        return Arguments(Content(raw, Capture.UNPARSABLE))
    arguments: dict[str, Any] = value if is_dict(value) and isinstance(raw, str) else plain(value)
    return Arguments(Content(arguments, Capture.CAPTURED), hidden_arguments(arguments, tokens))


def read_content(raw: object, tokens: frozenset[str] = REDACTION_TOKENS) -> Content:
    """Read a result, an answer or messages: kept as written, decoded when asked for."""
    if raw is None:
        return NO_CONTENT
    if isinstance(raw, str):
        hidden = is_redacted(raw, tokens)
        return Content(raw, Capture.REDACTED if hidden else Capture.CAPTURED)
    return Content(plain(raw), Capture.CAPTURED)


def plain(value: Any, depth: int = 0) -> Any:
    """Turn the SDK's tuples and mappings into lists and dicts."""
    if is_mapping(value):
        return {str(key): plain(inner, depth + 1) for key, inner in value.items()} if depth < _MAX_DEPTH else None
    if is_sequence(value):
        return [plain(inner, depth + 1) for inner in value] if depth < _MAX_DEPTH else None
    return value


# Wrappings that instrumentations put around arguments. A dialect names the one it uses; nothing is guessed (R2).
#
# Each takes the decoded value and returns what is inside, or none where the value is not that envelope.


def kwargs_only(value: Any) -> Any:
    """`{"kwargs": {...}}`, as of a bound Python call."""
    return value["kwargs"] if is_dict(value) and set(value) == {"kwargs"} and is_dict(value["kwargs"]) else None


def args_and_kwargs(value: Any) -> Any:
    """`{"args": [], "kwargs": {...}}`; positional arguments have no names, so that they stay a list."""
    if not is_dict(value) or not is_list(value.get("args")) or not is_dict(value.get("kwargs")):
        return None
    return [*value["args"], value["kwargs"]] if value["args"] else value["kwargs"]


def name_and_arguments(value: Any) -> Any:
    """`{"tool_name": ..., "arguments": {...}}`, as in an MCP request."""
    if is_dict(value) and is_dict(value.get("arguments")):
        return value["arguments"]
    return None


def inputs(value: Any) -> Any:
    """`{"input_str": ..., "inputs": {...}}`, as LangChain's callbacks hand a tool run over."""
    return value["inputs"] if is_dict(value) and is_dict(value.get("inputs")) else None
