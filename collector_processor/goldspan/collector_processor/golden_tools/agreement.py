"""One golden from several recordings of what should be the same session: what they agree on, and where they do not.

Nothing is left out to make them agree. Arguments that differ become `$any_of` of the values that were seen, turns that
called other tools become alternatives, calls that only some recordings have become optional: and each is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from goldspan.collector_processor.golden_tools.seen import Group, SeenCall, SeenTurn
from goldspan.collector_processor.golden_tools.yaml_writing import Comments, Where
from goldspan.scoring.comparison import equal, is_object
from goldspan.scoring.goldens.models import MOST_ALTERNATIVES
from goldspan.scoring.matchers.escaping import dollar_keys
from goldspan.scoring.rendering import shown, shown_name
from goldspan.scoring.sessions import Capture, JsonValue

ABSENT: JsonValue = {"$absent": True}
_T = TypeVar("_T")


class Agreed(NamedTuple):
    """Part of a golden file, lines to write above values in it, and what the recordings disagree about."""

    value: JsonValue
    comments: Comments
    disagreements: Sequence[str]


def agree_on_golden(recordings: Sequence[Sequence[SeenTurn]]) -> Agreed:
    """Return `turns`, or `any_of` for the whole session where recordings differ in the number of their turns."""
    counts = [len(turns) for turns in recordings]
    if len(set(counts)) == 1:
        turns = [agree_on_turn([turns[index] for turns in recordings]) for index in range(counts[0])]
        said = [f"turn {number}: {text}" for number, turn in enumerate(turns, 1) for text in turn.disagreements]
        return Agreed({"turns": [turn.value for turn in turns]}, _under("turns", turns), said)
    flat = [SeenTurn(None, tuple(group for turn in turns for group in turn.groups)) for turns in recordings]
    whole = agree_on_turn(flat)
    lengths = " and ".join(map(str, sorted(set(counts))))
    said = [f"recorded with {lengths} turns: written as calls of the whole session", *whole.disagreements]
    return Agreed(whole.value, whole.comments, said)


def agree_on_turn(recordings: Sequence[SeenTurn]) -> Agreed:
    """Return one turn of a golden."""
    fields: dict[str, JsonValue] = {}
    said: list[str] = []
    users = _distinct(" ".join(turn.user.split()) for turn in recordings if turn.user is not None)
    if len(users) == 1 and all(turn.user is not None for turn in recordings):
        fields["user"] = next(turn.user for turn in recordings)
    elif len(users) > 1:
        said.append(f"the user's text differs ({', '.join(shown(text, 40) for text in users)}): left out")
    shapes = _distinct(_shape(turn.groups) for turn in recordings)
    called = [shape for shape in shapes if shape]
    if not called:
        return Agreed(fields, {}, said)
    lists = [agree_on_calls([turn.groups for turn in recordings if _shape(turn.groups) == one]) for one in called]
    said += [text for one in lists for text in one.disagreements]
    if len(lists) == 1:
        calls = lists[0].value
        if len(called) < len(shapes):
            said.append("called nothing in some recordings: its calls are optional")
            calls = list(_optional(calls))
        comments = {("calls", *where): lines for where, lines in lists[0].comments.items()}
        return Agreed({**fields, "calls": calls}, comments, said)
    if len(called) < len(shapes) or len(lists) > MOST_ALTERNATIVES:
        # An alternative without calls would always do, so that there can be none: what is left is to need none.
        said.append(f"{len(shapes)} different lists of calls: one after the other, all optional")
        merged = [call for one in lists for call in _optional(one.value)]
        return Agreed({**fields, "calls": merged}, {}, said)
    said.append(f"{len(lists)} different lists of calls: written as alternatives")
    return Agreed({**fields, "any_of": [one.value for one in lists]}, _under("any_of", lists), said)


def agree_on_calls(recordings: Sequence[tuple[Group, ...]]) -> Agreed:
    """Return the list of calls of recordings that called the same tools, group by group."""
    items: list[Agreed] = []
    for groups in zip(*recordings, strict=True):
        first = groups[0]
        partners = [_in_order_of(first, group) for group in groups]
        calls = [agree_on_call([group[index] for group in partners]) for index in range(len(first))]
        if len(calls) == 1:
            items += calls
            continue
        said = [text for call in calls for text in call.disagreements]
        items.append(Agreed({"parallel": [call.value for call in calls]}, _under("parallel", calls), said))
    comments = {(index, *where): lines for index, one in enumerate(items) for where, lines in one.comments.items()}
    return Agreed([item.value for item in items], comments, [text for item in items for text in item.disagreements])


def agree_on_call(recordings: Sequence[SeenCall]) -> Agreed:
    """Return one expected call."""
    name = recordings[0].name
    known = [call for call in recordings if call.args is not None]
    if not known:
        states = _distinct(_WORDS[call.capture] for call in recordings)
        return Agreed({"name": name}, {(): [f"arguments {' or '.join(states)} when this was recorded"]}, [])
    args: dict[str, JsonValue] = {}
    comments: list[str] = []
    said: list[str] = []
    for argument in dict.fromkeys(key for call in known for key in (*(call.args or {}), *call.unknown)):
        values = [call.args[argument] for call in known if call.args is not None and argument in call.args]
        hidden = [call.unknown[argument] for call in known if argument in call.unknown]
        if not values:
            comments.append(f"{shown_name(argument)}: {' or '.join(_distinct(hidden))} when this was recorded")
            continue
        value, differing = _agree_on_value(values, (argument,))
        said += [f"{shown_name(name)}: {text}" for text in differing]
        if len(values) + len(hidden) < len(known):
            said.append(f"{shown_name(name)}: {shown_name(argument)} was left out in some recordings")
            value = {"$any_of": [*choices(value), ABSENT]}
        args[argument] = value
    return Agreed({"name": name, "args": args} if args else {"name": name}, {(): comments} if comments else {}, said)


_WORDS = {
    Capture.CAPTURED: "not captured",
    Capture.NOT_CAPTURED: "not captured",
    Capture.REDACTED: "redacted",
    Capture.TRUNCATED: "cut off",
    Capture.UNPARSABLE: "not readable",
}


def _agree_on_value(values: Sequence[JsonValue], way: tuple[str, ...]) -> tuple[JsonValue, list[str]]:
    """Return one expected value for those seen, differing as deep inside as they do."""
    seen = any_of(values)
    if len(seen) == 1:
        return seen[0], []
    if all(is_object(value) and not dollar_keys(value) and value.keys() == seen[0].keys() for value in seen):
        said: list[str] = []
        merged: dict[str, JsonValue] = {}
        for key in seen[0]:
            merged[key], differing = _agree_on_value([value[key] for value in values], (*way, key))
            said += differing
        return merged, said
    return {"$any_of": seen}, [f"{'.'.join(map(shown_name, way))} was {' and '.join(shown(one, 40) for one in seen)}"]


def any_of(values: Iterable[JsonValue]) -> list[JsonValue]:
    """Return the values that differ as JSON, in the order they came."""
    seen: list[JsonValue] = []
    for value in values:
        if not any(equal(one, value) for one in seen):
            seen.append(value)
    return seen


def choices(value: JsonValue) -> list[JsonValue]:
    """Return what an expected value chooses from; another one than `$any_of` is its only choice."""
    return list(value["$any_of"]) if is_object(value) and "$any_of" in value else [value]


def _in_order_of(first: Group, group: Group) -> list[SeenCall]:
    """Put the calls of a group, whose order means nothing, beside those of another that they resemble most."""
    left = list(group)
    ordered: list[SeenCall] = []
    for call in first:
        partner = max((one for one in left if one.name == call.name), key=lambda one: _likeness(call, one))
        left.remove(partner)
        ordered.append(partner)
    return ordered


def _likeness(one: SeenCall, other: SeenCall) -> int:
    args, others = one.args or {}, other.args or {}
    return sum(name in others and equal(value, others[name]) for name, value in args.items())


def _shape(groups: Sequence[Group]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(sorted(call.name for call in group)) for group in groups)


def _optional(calls: list[Any]) -> Iterator[JsonValue]:
    for call in calls:
        yield {"parallel": list(_optional(call["parallel"]))} if "parallel" in call else {**call, "optional": True}


def _under(field: str, parts: Sequence[Agreed]) -> dict[Where, Sequence[str]]:
    return {(field, index, *where): lines for index, part in enumerate(parts) for where, lines in part.comments.items()}


def _distinct(values: Iterable[_T]) -> list[_T]:
    return list(dict.fromkeys(values))
