"""What is known of the arguments of a call, and why something is not."""

from __future__ import annotations

from collections.abc import Mapping

from goldspan.scoring.results import Reason
from goldspan.scoring.sessions import Capture, JsonValue, ToolCall

REASONS: Mapping[Capture, Reason] = {
    Capture.NOT_CAPTURED: Reason.ARGUMENTS_NOT_CAPTURED,
    Capture.REDACTED: Reason.ARGUMENTS_REDACTED,
    Capture.TRUNCATED: Reason.ARGUMENTS_TRUNCATED,
    Capture.UNPARSABLE: Reason.ARGUMENTS_UNPARSABLE,
}


def arguments_of(call: ToolCall) -> Mapping[str, JsonValue] | None:
    """Return the arguments of a call, None where they are not known."""
    if call.capture != Capture.CAPTURED:
        return None
    arguments: object = call.arguments
    return call.arguments if isinstance(arguments, dict | Mapping) else None


def why_not_known(call: ToolCall) -> Reason:
    """Say why `arguments_of` has none; captured ones that are no mapping cannot be read."""
    return REASONS[Capture.UNPARSABLE if call.capture == Capture.CAPTURED else call.capture]


def is_hidden(captures: Mapping[str, Capture], name: str) -> bool:
    """Whether the value of an argument is hidden though the call's others are known."""
    return captures.get(name, Capture.CAPTURED) != Capture.CAPTURED


def why_hidden(call: ToolCall) -> Reason | None:
    """Say why the arguments of a call, or the first hidden one of them, are not known; none where all are."""
    return next((REASONS[one] for one in (call.capture, *call.argument_captures.values()) if one in REASONS), None)
