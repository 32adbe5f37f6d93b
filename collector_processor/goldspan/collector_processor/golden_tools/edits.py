"""Edits of golden files: what has to change in a document so that it expects what was seen."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from goldspan.collector_processor.golden_tools.changes import NOTHING, CallPlace, Change, Way
from goldspan.scoring.comparison import is_list, is_object
from goldspan.scoring.sessions import JsonValue


@dataclass(frozen=True, slots=True)
class Set:
    """Put a value in a place: of a key that is not there yet, at the end of its object."""

    way: Way
    value: JsonValue


@dataclass(frozen=True, slots=True)
class Remove:
    """Take away a key or an item."""

    way: Way


@dataclass(frozen=True, slots=True)
class Insert:
    """Put an item into a list, before the one that is now at this place or behind the last."""

    way: Way
    """The list, then the index."""
    value: JsonValue


Edit = Set | Remove | Insert


def apply(document: JsonValue, edit: Edit) -> JsonValue:
    """Return the document with this edit. Raises LookupError where there is no such place."""
    edited = copy.deepcopy(document)
    *above, last = edit.way
    around: Any = edited
    for step in above:
        around = around[step]
    match edit:
        case Set():
            around[last] = edit.value
        case Remove():
            del around[last]
        case Insert():
            around.insert(last, edit.value)
    return edited


def edits_for(document: JsonValue, golden: int, changes: Sequence[Change]) -> Iterator[tuple[Edit, JsonValue]]:
    """Yield the edits that make one golden expect what was seen, each with the document that it leaves.

    `golden` is the golden's position in the document. Changes of single values come first, then lists of calls from
    their ends, so that every place is still what it was when its edit comes.
    """
    top: Way = ("goldens", golden)
    values = [change for change in changes if change.place is not None and change.way]
    calls = [change for change in changes if change.place is not None and not change.way]
    for change in values:
        if change.place is not None:
            way = (*call_way(document, top, change.place), *change.way)
            gone = change.after is NOTHING
            if gone and way[-2] == "args" and len(_at(document, way[:-1])) == 1:
                way = way[:-1]
            edit: Edit = Remove(way) if gone else Set(way, change.after)
            document = apply(document, edit)
            yield edit, document
    calls.reverse()
    for change in sorted(calls, key=_from_the_end):
        for step in _edits_of_call(document, top, change):
            document = apply(document, step)
            yield step, document
    for change in changes:
        if not change.tool and change.turn is not None and change.before is NOTHING:
            added = Insert((*top, "turns", len(_at(document, (*top, "turns")))), change.after)
            document = apply(document, added)
            yield added, document


def _from_the_end(change: Change) -> tuple[int, int, int]:
    """Order changes of calls from the last one; behind one call, what is put there before it is removed."""
    if change.place is None:
        return 0, 0, 0
    return -(change.place.turn or 0), -change.place.call, int(change.before is not NOTHING)


def _edits_of_call(document: JsonValue, top: Way, change: Change) -> Iterator[Edit]:
    if change.place is None:
        return
    if change.before is not NOTHING:
        yield from _removed(document, call_way(document, top, change.place))
        return
    lists = _lists(document, top, change.place)
    if change.place.call < 0 or not lists:
        around = top if change.place.turn is None else (*top, "turns", change.place.turn)
        if lists:
            yield Insert((*lists[0], 0), change.after)
        else:
            yield Set((*around, "calls"), [change.after])
        return
    way = call_way(document, top, change.place)
    if "parallel" in way:
        way = way[: way.index("parallel")]
    if isinstance(index := way[-1], int):
        yield Insert((*way[:-1], index + 1), change.after)


def _removed(document: JsonValue, way: Way) -> Iterator[Edit]:
    """Remove a call, and what is empty then."""
    around = _at(document, way[:-1])
    if len(around) > 1:
        yield Remove(way)
    elif way[-2] == "parallel":
        yield from _removed(document, way[:-2])
    elif "turns" in way:
        yield Remove(way[:-1])
    else:
        yield Set(way[:-1], [])


def call_way(document: JsonValue, top: Way, place: CallPlace) -> Way:
    """Return the way to a call by its number. Raises LookupError where there is none."""
    ways = [way for calls in _lists(document, top, place) for way in _calls(document, calls)]
    return ways[place.call]


def _lists(document: JsonValue, top: Way, place: CallPlace) -> list[Way]:
    """Return the ways to the lists in which the call with this number is counted."""
    golden = _at(document, top)
    around = [top] if place.turn is None else [(*top, "turns", place.turn)]
    if place.turn is None and "turns" in golden:
        around = [(*top, "turns", index) for index in range(len(golden["turns"]))]
    found: list[Way] = []
    for way in around:
        fields = _at(document, way)
        if "any_of" in fields:
            found.append((*way, "any_of", place.alternative or 0))
        elif "calls" in fields:
            found.append((*way, "calls"))
    return found


def _calls(document: JsonValue, way: Way) -> Iterator[Way]:
    for index, item in enumerate(_at(document, way)):
        if is_object(item) and "parallel" in item:
            for number, _ in enumerate(item["parallel"]):
                yield (*way, index, "parallel", number)
        else:
            yield (*way, index)


def _at(document: JsonValue, way: Way) -> Any:
    found: Any = document
    for step in way:
        if not (is_object(found) or is_list(found)):
            raise LookupError(step)
        found = cast("Any", found)[step]
    return found
