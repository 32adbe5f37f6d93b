"""Sessions as golden files can say them: turns of groups of calls, with arguments that mean nothing but themselves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from goldspan.collector_processor.inspection import user_text
from goldspan.scoring.comparison import is_list, is_object
from goldspan.scoring.goldens.documents import MAX_DEPTH
from goldspan.scoring.matchers import escape_literal
from goldspan.scoring.matchers.escaping import LITERAL
from goldspan.scoring.sessions import Capture, JsonValue, Session, ToolCall, Turn

PRESENT: JsonValue = {"$present": True}
"""What stands for a value that is not to be written: the argument is there, whatever its value."""
_MAX_DIGITS = 4_000
_DEEPEST = MAX_DEPTH - 20
"""Arguments stand some levels deep themselves."""
_NOT_JSON = "not a value that JSON can hold"


@dataclass(frozen=True, slots=True)
class SeenCall:
    """One call: what a golden should expect of it, and what is not known."""

    name: str
    args: Mapping[str, JsonValue] | None
    """As a golden writes them: what looks like a matcher is escaped. None where none were captured."""
    unknown: Mapping[str, str] = field(default_factory=dict[str, str])
    """Arguments that were passed, but cannot be written, and why."""
    capture: Capture = Capture.CAPTURED
    failed: bool = False


Group = tuple[SeenCall, ...]
"""Calls that were asked for at once; most groups are of one call."""


@dataclass(frozen=True, slots=True)
class SeenTurn:
    """One turn."""

    user: str | None
    groups: tuple[Group, ...]
    visible: bool = True

    @property
    def calls(self) -> Iterator[SeenCall]:
        """Every call, in order."""
        return (call for group in self.groups for call in group)


def seen_turns(session: Session, redact: frozenset[str] = frozenset()) -> tuple[SeenTurn, ...]:
    """Return the turns of a session without refused requests; arguments in `redact` are only said to be present."""
    return tuple(seen_turn(turn, redact) for turn in session.turns)


def seen_turn(turn: Turn, redact: frozenset[str] = frozenset()) -> SeenTurn:
    """Return one turn: see `seen_turns`."""
    groups: list[list[SeenCall]] = []
    batch = 0
    for call in turn.calls:
        if call.rejected:
            continue
        if not (batch and call.batch == batch):
            groups.append([])
        batch = call.batch
        groups[-1].append(seen_call(call, redact))
    text = user_text(turn.user_text)
    return SeenTurn(text if text and text.strip() else None, tuple(map(tuple, groups)), turn.calls_visible)


def seen_call(call: ToolCall, redact: frozenset[str] = frozenset()) -> SeenCall:
    """Return one call: see `seen_turns`."""
    failed = call.error is not None
    if call.capture is not Capture.CAPTURED or call.arguments is None:
        return SeenCall(call.name, None, capture=call.capture, failed=failed)
    args: dict[str, JsonValue] = {}
    unknown: dict[str, str] = {}
    for name, value in call.arguments.items():
        if name in redact:
            args[name] = PRESENT
        elif name in call.argument_captures:
            unknown[name] = call.argument_captures[name].value.replace("_", " ")
        elif not _is_json(value):
            unknown[name] = _NOT_JSON
        else:
            args[name] = _without(escape_literal(value), redact)
    return SeenCall(call.name, args, unknown, failed=failed)


def _without(value: JsonValue, redact: frozenset[str]) -> JsonValue:
    """Replace what is not to be written, however deep; nothing can be replaced within what is literal."""
    if not redact:
        return value
    if is_list(value):
        return [_without(item, redact) for item in value]
    if not is_object(value):
        return value
    if LITERAL in value:
        return PRESENT if _mentions(value, redact) else value
    return {name: PRESENT if name in redact else _without(item, redact) for name, item in value.items()}


def _mentions(value: JsonValue, names: frozenset[str]) -> bool:
    if is_list(value):
        return any(_mentions(item, names) for item in value)
    return is_object(value) and (not names.isdisjoint(value) or any(_mentions(item, names) for item in value.values()))


def _is_json(value: Any, depth: int = 0) -> bool:
    """Whether a golden file can hold the value."""
    if value is None or isinstance(value, bool | str):
        return True
    if isinstance(value, int):
        return value.bit_length() < _MAX_DIGITS * 3
    if isinstance(value, float):
        return math.isfinite(value)
    if depth >= _DEEPEST:
        return False
    if is_object(value):
        return all(_is_json(item, depth + 1) for item in value.values())
    return is_list(value) and all(_is_json(item, depth + 1) for item in value)
