"""Reads the arguments of a call, and tells whether they are complete (R10).

Absent, elided, redacted, cut off and unparsable are different facts, and none of them is "no arguments".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from goldspan.mappers.dialects.reading.value_parsing import literal, loads
from goldspan.scoring.json_values import is_dict, is_list, is_mapping, is_sequence
from goldspan.scoring.sessions import NO_CONTENT, Capture, Content

# Which recorded values are hidden or cut off (R10): redaction tokens, length limits, marks of truncation.

REDACTION_TOKENS = frozenset(
    {
        "[REDACTED]",  # Strands, LangSmith, the Collector's redaction processor
        "<elided>",  # google-adk log records
        "__REDACTED__",  # OpenInference's TraceConfig
        "[redacted]",
        "<REDACTED>",
        "<redacted>",
        "[Filtered]",  # Sentry
    }
)
"""Texts that replace a hidden value. A dialect may add its own."""

_SCRUBBED = "[Scrubbed due to"
"""How Logfire begins what it hides."""
_CUT_MARKS = ("...", "\N{HORIZONTAL ELLIPSIS}", "[truncated]", "<truncated>", "(truncated)", "[TRUNCATED]")
_LITERALS = ("true", "false", "null", "NaN", "Infinity", "-Infinity")
_SCALARS = frozenset({str, int, float, bool, type(None), bytes})
_MAX_SEARCH_DEPTH = 100
"""How deeply values are searched for what is hidden."""


def is_redacted(text: str, tokens: frozenset[str] = REDACTION_TOKENS) -> bool:
    """Return whether a text is in the place of a value that was hidden."""
    return text in tokens or text.startswith(_SCRUBBED)


def hidden_arguments(arguments: Mapping[str, Any], tokens: frozenset[str]) -> Mapping[str, Capture] | None:
    """Return the arguments that are hidden, by name; none where all are there."""
    if not _any_hidden(arguments.values(), tokens):
        return None
    return {name: Capture.REDACTED for name, value in arguments.items() if _any_hidden((value,), tokens)}


def _any_hidden(values: Iterable[Any], tokens: frozenset[str], depth: int = 0) -> bool:
    for value in values:
        if isinstance(value, str):
            if value in tokens or value.startswith(_SCRUBBED):
                return True
        elif is_dict(value) or is_list(value):
            inside: Iterable[Any] = value.values() if is_dict(value) else value
            if depth <= _MAX_SEARCH_DEPTH and _any_hidden(inside, tokens, depth + 1):
                return True
    return False


def why_unparsable(written: str, text: str, error: Exception, beside: Mapping[str, Any]) -> Capture:
    """Tell JSON that a length limit cut from text that never was JSON, or that a model left unfinished."""
    if text[0] not in '{["':
        return Capture.UNPARSABLE
    if text.endswith(_CUT_MARKS):
        return Capture.TRUNCATED
    if isinstance(error, json.JSONDecodeError) and _ends_early(text, error) and _ends_at_a_limit(written, beside):
        return Capture.TRUNCATED
    return Capture.UNPARSABLE


def _ends_early(text: str, error: json.JSONDecodeError) -> bool:
    """Return whether more text could complete this JSON."""
    rest = text[error.pos :]
    return (
        not rest
        or error.msg.startswith("Unterminated string")
        or (error.msg.startswith("Invalid \\") and len(rest) <= 6)
        or any(literal.startswith(rest) for literal in _LITERALS)
        or rest in {"-", ".", "e", "E", "e+", "e-", "E+", "E-"}
    )


def _ends_at_a_limit(text: str, beside: Mapping[str, Any]) -> bool:
    """Return whether no text of the span is longer, and another text or a usual limit has this length.

    OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT counts characters; other processors count bytes, and drop a character that
    is cut in the middle.
    """
    texts = [value for value in beside.values() if isinstance(value, str)]
    lengths = [len(other) for other in texts]
    if len(text) == max(lengths, default=0) and (lengths.count(len(text)) > 1 or _is_usual_limit(len(text))):
        return True
    limit = max((_size(other) for other in texts), default=0)
    shared = sum(_may_end_at(other, limit) for other in texts) > 1
    return _may_end_at(text, limit) and (shared or _is_usual_limit(limit))


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", errors="replace"))


def _may_end_at(text: str, limit: int) -> bool:
    return limit - (0 if text.isascii() else 3) <= _size(text) <= limit


def _is_usual_limit(length: int) -> bool:
    """Limits are powers of two, or round numbers."""
    for limit in (length, length + 1):
        if limit >= 64 and limit & (limit - 1) == 0:
            return True
    digits = str(length)
    return length >= 100 and len(digits.rstrip("0")) <= 2 and digits.endswith("0")


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
    """Read a result, an answer or messages. They are kept as recorded and decoded on first use."""
    if raw is None:
        return NO_CONTENT
    if isinstance(raw, str):
        hidden = is_redacted(raw, tokens)
        return Content(raw, Capture.REDACTED if hidden else Capture.CAPTURED)
    return Content(plain(raw), Capture.CAPTURED)


def plain(value: Any, depth: int = 0) -> Any:
    """Turn the SDK's tuples and mappings into lists and dicts."""
    below = depth + 1
    if is_mapping(value):
        if depth >= _MAX_DEPTH:
            return None
        items = value.items()
        return {str(key): inner if type(inner) in _SCALARS else plain(inner, below) for key, inner in items}
    if is_sequence(value):
        if depth >= _MAX_DEPTH:
            return None
        return [inner if type(inner) in _SCALARS else plain(inner, below) for inner in value]
    return value


# Wrappings that instrumentations put around arguments. A dialect names the one it uses; nothing is guessed (R2).
#
# Each takes the decoded value and returns its content, or None if the value is not that envelope.


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
