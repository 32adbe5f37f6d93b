"""What a span says by its content alone, with no instrumentation named: a reading is held against it.

Names of tools and arguments, ids and digests, so that it is small and travels with the span's facts. It is filled from
the shape of values, in `dialects/reading/evidence_reading.py`, and never by a dialect's table, whose mistakes it is to
show.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct

from goldspan.scoring.json_values import is_dict, is_mapping, is_sequence

_encode = msgspec.json.Encoder(order="sorted").encode
_DIGEST = 8
_DEEPEST = 32


class RequestEvidence(Struct, frozen=True, gc=False, omit_defaults=True):
    """A tool call that a model's output asks for."""

    name: str
    call_id: str | None = None
    arguments: str = ""
    """The digest of the arguments; `""` where they are not recorded as an object."""
    names: tuple[str, ...] = ()
    """The names of the arguments."""
    response: int = 0
    """Requests of one span with the same number are of one response of the model."""


class ResultEvidence(Struct, frozen=True, gc=False, omit_defaults=True):
    """A tool's result as the next model call was shown it."""

    call_id: str | None = None
    name: str | None = None
    failed: bool | None = None
    """It is marked as an error, or its text names one; none where that is not known."""


class SpanEvidence(Struct, frozen=True, gc=False, omit_defaults=True):
    """What the values of one span say."""

    requests: tuple[RequestEvidence, ...] = ()
    """In its output."""
    results: tuple[ResultEvidence, ...] = ()
    """In its input, after the model's last message there."""
    continues: bool | None = None
    """Its input ends with results of tools rather than with a user's message; none where it holds neither."""
    users: tuple[str, ...] | None = None
    """Digests of the user's messages in its input, in order; none unless it ends with one and is recorded whole."""
    arguments: tuple[str, ...] = ()
    """Digests of the objects that stand where a tool's arguments do, the outer ones first."""
    failed: bool | None = None
    """What the span itself holds as a tool's result is or names an error; none where that is not known."""
    names_error: bool = False
    """An attribute or event of its own names an error, whatever its status is."""
    sessions: tuple[tuple[str, str], ...] = ()
    """Attributes that hold the id of a session or a conversation by their names, with the id."""


NO_EVIDENCE = SpanEvidence()


def value_digest(value: Any) -> str:
    """Return a digest that is the same for equal values: without nulls, whole numbers by value."""
    try:
        content = _encode(_canonical(value, _DEEPEST))
    except (TypeError, ValueError, OverflowError, RecursionError):  # a lone surrogate, an object of the sender's own
        content = repr(value).encode(errors="replace")
    return blake2b(content, digest_size=_DIGEST).hexdigest()


_AS_THEY_ARE = frozenset({str, int, bool})


def _canonical(value: Any, depth: int) -> Any:
    if type(value) in _AS_THEY_ARE:
        return value
    if is_dict(value) and _AS_THEY_ARE.issuperset(map(type, value.values())):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if not depth:
        return None
    if is_mapping(value):
        return {key: _canonical(inner, depth - 1) for key, inner in value.items() if inner is not None}
    return [_canonical(inner, depth - 1) for inner in value] if is_sequence(value) else value
