"""Whether a call failed, and why (R12)."""

from __future__ import annotations

from goldspan.mappers.dialects.rules import Attributes
from goldspan.mappers.spans import STATUS_ERROR, SpanView

_MAX_ERROR = 200
_TRACEBACK = "Traceback (most recent call last)"


def error_of(span: SpanView, attributes: Attributes, flags: tuple[tuple[str, object], ...] = ()) -> str | None:
    """Return why the span failed: `error.type`, else the status message, else an exception's type (R12)."""
    error_type = attributes.get("error.type")
    named = error_type if isinstance(error_type, str) and error_type else None
    if span.status_code != STATUS_ERROR:
        if named is not None or any(_is_flag(attributes.get(key), value) for key, value in flags):
            return named or "error"
        return None
    if named is not None:
        return named
    if message := span.status_message.strip():
        return message.partition(_TRACEBACK)[0].partition("\n")[0].strip()[:_MAX_ERROR] or "error"
    for event in span.events:
        raised = event.attributes.get("exception.type")
        if isinstance(raised, str) and raised:
            return raised
    return "error"


def _is_flag(found: object, expected: object) -> bool:
    return type(found) is type(expected) and found == expected
