"""How readers report what they could not use."""

from __future__ import annotations

from collections.abc import Callable

from goldspan.scoring.errors import Problem

OnProblem = Callable[[Problem], object]
"""Called once for each problem. The return value is ignored."""

BAD_JSON = "bad_json"
"""A line or a document is not JSON, or ends too early."""
BAD_SPAN = "bad_span"
"""A value that should be a span is not, or part of a span has a wrong type."""
BAD_RECORD = "bad_record"
"""A value is not a span and cannot hold spans."""
BAD_PROTOBUF = "bad_protobuf"
"""A message of a protobuf file is broken or cut off."""
BAD_STREAM = "bad_stream"
"""A file cannot be read, or decompressed, to its end."""
NO_RECORD = "no_record"
"""A file of a directory looks like a trace file and holds no span."""


def describe(value: object) -> str:
    """Describe a value for messages: its JSON type, and the value of a short text."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    if isinstance(value, int | float):
        return f"a number of type {type(value).__name__}"
    if isinstance(value, str):
        return f"the string {value!r}" if len(value) <= 40 else f"a string of {len(value)} characters"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    return f"a {type(value).__name__}"
