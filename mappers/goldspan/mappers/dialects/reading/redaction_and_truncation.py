"""Which recorded values are hidden or cut off (R10): redaction tokens, length limits, marks of truncation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from goldspan.scoring.json_values import is_dict, is_list
from goldspan.scoring.sessions import Capture

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
"""Texts that stand where a value was hidden; a dialect may add its own."""

_SCRUBBED = "[Scrubbed due to"
"""How Logfire begins what it hides."""
_CUT_MARKS = ("...", "\N{HORIZONTAL ELLIPSIS}", "[truncated]", "<truncated>", "(truncated)", "[TRUNCATED]")
_LITERALS = ("true", "false", "null", "NaN", "Infinity", "-Infinity")
_MAX_DEPTH = 100
"""How deeply values are searched for what is hidden."""


def is_redacted(text: str, tokens: frozenset[str] = REDACTION_TOKENS) -> bool:
    """Return whether a text is in the place of a value that was hidden."""
    return text in tokens or text.startswith(_SCRUBBED)


def hidden_arguments(arguments: Mapping[str, Any], tokens: frozenset[str]) -> Mapping[str, Capture] | None:
    """Return the arguments that are hidden, by name; none where all are there."""
    hidden: dict[str, Capture] = {}
    for name, value in arguments.items():
        if _holds_token(value, tokens):
            hidden[name] = Capture.REDACTED
    return hidden or None


def _holds_token(value: Any, tokens: frozenset[str], depth: int = 0) -> bool:
    if isinstance(value, str):
        return is_redacted(value, tokens)
    if depth > _MAX_DEPTH:
        return False
    if is_dict(value):
        return any(_holds_token(inner, tokens, depth + 1) for inner in value.values())
    return is_list(value) and any(_holds_token(inner, tokens, depth + 1) for inner in value)


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
    """Say whether more text could have made this JSON."""
    rest = text[error.pos :]
    return (
        not rest
        or error.msg.startswith("Unterminated string")
        or (error.msg.startswith("Invalid \\") and len(rest) <= 6)
        or any(literal.startswith(rest) for literal in _LITERALS)
        or rest in {"-", ".", "e", "E", "e+", "e-", "E+", "E-"}
    )


def _ends_at_a_limit(text: str, beside: Mapping[str, Any]) -> bool:
    """Say whether no text of the span is longer, and the length is that of another one or a usual limit.

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
