"""What differs between two golden sets, or between a golden set and traces: one change for each thing that differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from goldspan.scoring.comparison import equal, is_list, is_object
from goldspan.scoring.goldens.models import ExpectedCall, Golden, GoldenTurn
from goldspan.scoring.matchers import escape_literal
from goldspan.scoring.matchers.escaping import dollar_keys
from goldspan.scoring.sessions import JsonValue

Way = tuple[str | int, ...]
"""The way into a value: keys and indexes."""


class _Nothing:
    """The side of a change that is not there."""

    def __repr__(self) -> str:
        return "NOTHING"


NOTHING: Final = _Nothing()
"""Stands where one side has nothing at all, which is not null."""


class CallPlace(NamedTuple):
    """A call in a golden file: its turn, the alternative it stands in, and its number there."""

    turn: int | None
    """None: in the list of the whole session."""
    alternative: int | None
    """None: there is only one list."""
    call: int


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that differs. `before` is the golden's side; what stands there is written as in a golden file."""

    golden: str
    """Session id, pattern, or what else the golden is joined by."""
    source: str
    """File and line of the golden; empty where it is not there."""
    turn: int | None
    """From 0; None where the golden or the whole session is meant."""
    turn_name: str
    """What the user said, where that is known."""
    tool: str
    """Empty where a turn or a golden is meant."""
    field: str
    """`args.city`, `optional`, `criterion.threshold`; empty where a whole call, turn or golden is meant."""
    before: Any
    after: Any
    place: CallPlace | None = None
    """Where the call stands in the golden, or after which call it belongs: then `before` is nothing. -1: before all."""
    way: Way = ()
    """The way to the value in the call, for changes of arguments."""
    note: str = ""
    """Why, in a word, where the sides do not say so."""
    argument: tuple[Any, Any] = (NOTHING, NOTHING)
    """The whole argument on both sides, where only a part of one differs."""

    def to_json(self) -> dict[str, JsonValue]:
        """Return the change as JSON; a side that is not there is left out."""
        sides = {"before": self.before, "after": self.after}
        return {
            "golden": self.golden,
            "source": self.source,
            "turn": self.turn,
            "tool": self.tool or None,
            "field": self.field or None,
            **{name: value for name, value in sides.items() if value is not NOTHING},
        }


def call_document(call: ExpectedCall) -> dict[str, JsonValue]:
    """Return an expected call as a golden file writes it."""
    document: dict[str, JsonValue] = {"name": call.name}
    if call.args:
        document["args"] = {name: escape_literal(value) if call.literal else value for name, value in call.args.items()}
    document |= {name: True for name in ("optional", "forbidden") if getattr(call, name)}
    if call.result is not None:
        document["result"] = call.result
    return document


def calls_document(calls: Sequence[ExpectedCall]) -> list[JsonValue]:
    """Return expected calls as a golden file writes them, groups of free order together."""
    items: list[JsonValue] = []
    group = 0
    for call in calls:
        if call.group and call.group == group:
            items[-1]["parallel"].append(call_document(call))
        else:
            items.append({"parallel": [call_document(call)]} if call.group else call_document(call))
        group = call.group
    return items


def turn_document(turn: GoldenTurn) -> dict[str, JsonValue]:
    """Return a golden's turn as a golden file writes it."""
    document: dict[str, JsonValue] = {}
    if turn.user is not None:
        document["user"] = turn.user
    if turn.turn_id is not None:
        document["turn_id"] = turn.turn_id
    return document | lists_document(turn.calls, turn.alternatives)


def lists_document(
    calls: Sequence[ExpectedCall], alternatives: Sequence[Sequence[ExpectedCall]]
) -> dict[str, JsonValue]:
    """Return a list of calls, or the alternatives, under the name of its field."""
    if alternatives:
        return {"any_of": [calls_document(one) for one in (calls, *alternatives)]}
    return {"calls": calls_document(calls)} if calls else {}


def golden_document(golden: Golden) -> dict[str, JsonValue]:
    """Return a golden as a golden file writes it, without its criterion."""
    document: dict[str, JsonValue] = {}
    if golden.session is not None:
        document["session"] = golden.session
    if golden.session_pattern is not None:
        document["session_pattern"] = golden.session_pattern
    if golden.attribute:
        document["attribute"] = dict(golden.attribute)
    if golden.first_user_text is not None:
        document["first_user_text"] = golden.first_user_text
    if golden.calls is not None:
        return {**document, **(lists_document(golden.calls, golden.alternatives) or {"calls": []})}
    return {**document, "turns": [turn_document(turn) for turn in golden.turns]}


def differing_parts(before: JsonValue, after: JsonValue, way: Way = ()) -> Iterator[tuple[Way, Any, Any]]:
    """Yield the smallest parts of two values that differ; a matcher is one part."""
    if dollar_keys(before) or dollar_keys(after):
        if before != after:
            yield way, before, after
    elif is_object(before) and is_object(after):
        yield from _differing_fields(before, after, way)
    elif is_list(before) and is_list(after) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from differing_parts(one, other, (*way, index))
    elif not equal(before, after):
        yield way, before, after


def argument_changes(before: Mapping[str, JsonValue], after: Mapping[str, JsonValue]) -> Iterator[tuple[Way, Any, Any]]:
    """Yield the smallest parts in which the arguments of two calls differ."""
    return _differing_fields(before, after, ("args",))


def _differing_fields(before: Mapping[Any, Any], after: Mapping[Any, Any], way: Way) -> Iterator[tuple[Way, Any, Any]]:
    for name in dict.fromkeys((*before, *after)):
        one, other = before.get(name, NOTHING), after.get(name, NOTHING)
        if one is NOTHING or other is NOTHING:
            yield (*way, name), one, other
        else:
            yield from differing_parts(one, other, (*way, name))
