"""Edits of YAML text in place: what is not edited stays as it was written, comments, quotes, blank lines and all.

The text is parsed for the places of its values, and only those are replaced. What comes out is for the caller to read
again: anchors, tags and unusual layouts can make of an edit something else than was meant.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from goldspan.collector_processor.golden_tools.differences import NOTHING, CallPlace, Change, Way
from goldspan.collector_processor.golden_tools.writing import in_flow, yaml_lines
from goldspan.scoring.sessions import JsonValue
from goldspan.scoring.type_guards import is_mapping, is_sequence

# Edits of golden files: what has to change in a document so that it expects what was seen.


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
        if is_mapping(item) and "parallel" in item:
            for number, _ in enumerate(item["parallel"]):
                yield (*way, index, "parallel", number)
        else:
            yield (*way, index)


def _at(document: JsonValue, way: Way) -> Any:
    found: Any = document
    for step in way:
        if not (is_mapping(found) or is_sequence(found)):
            raise LookupError(step)
        found = cast("Any", found)[step]
    return found


def edit_yaml(text: str, edit: Edit) -> str:
    """Return the text with one edit. Raises LookupError where there is no such place."""
    from ruamel.yaml import YAML  # noqa: PLC0415 - takes long to import, and only few commands need it

    yaml: Any = YAML(typ="safe", pure=True)
    return _Editor(text, yaml.compose(text)).edited(edit)


class _Editor:
    """One text and the nodes its parser made of it."""

    def __init__(self, text: str, root: Any) -> None:
        self.text, self.root = text, root

    def edited(self, edit: Edit) -> str:
        *above, last = edit.way
        around = self.node(tuple(above))
        match edit:
            case Set():
                return self.set(around, last, edit.value, edit.way)
            case Remove():
                return self.remove(around, last)
            case Insert():
                return self.insert(around, last, edit.value, edit.way)

    def node(self, way: Way) -> Any:
        found = self.root
        for step in way:
            found = found.value[step] if found.id == "sequence" else _entry(found, step)[1]
        return found

    def set(self, around: Any, step: str | int, value: JsonValue, way: Way) -> str:
        try:
            old = around.value[step] if around.id == "sequence" else _entry(around, step)[1]
        except LookupError:
            return self.add(around, str(step), value, way)
        start, end = old.start_mark.index, self.end(old)
        if start < end:
            return self.put(start, end, in_flow(value))
        # Nothing at all stands for null, and the parser puts it where the next thing begins.
        if around.id == "sequence":
            place = self.text.rindex("-", 0, start) + 1
        else:
            place = self.text.index(":", self.end(_entry(around, step)[0])) + 1
        return self.put(place, place, f" {in_flow(value)}")

    def add(self, around: Any, name: str, value: JsonValue, way: Way) -> str:
        """Add a key to an object, behind its last one."""
        if around.id != "mapping":
            raise LookupError(name)
        pair = in_flow({name: value})[1:-1]
        if not around.value:
            return self.put(around.start_mark.index, self.end(around), f"{{{pair}}}")
        end = self.end(around.value[-1][1])
        if around.flow_style:
            return self.put(end, end, f", {pair}")
        lines = yaml_lines({name: value}, around.value[0][0].start_mark.column, way[:-1])
        return self.below(end, lines)

    def remove(self, around: Any, step: str | int) -> str:
        entries: list[tuple[Any, Any]] = [_pair(item) for item in around.value]
        index = step if around.id == "sequence" else around.value.index(_entry(around, step))
        if not isinstance(index, int) or index >= len(entries):
            raise LookupError(step)
        if len(entries) == 1:
            return self.put(around.start_mark.index, self.end(around), "{}" if around.id == "mapping" else "[]")
        first, last = entries[index]
        start, end = first.start_mark.index, self.end(last)
        if around.flow_style:
            if index + 1 < len(entries):
                return self.put(start, entries[index + 1][0].start_mark.index, "")
            return self.put(self.end(entries[index - 1][1]), end, "")
        if around.id == "sequence":
            start = self.text.rindex("-", 0, start)
        line = self.line_start(start)
        if self.text[line:start].strip():  # the first field of an item, behind its dash
            return self.put(start, entries[index + 1][0].start_mark.index, "")
        return self.put(self.above_comments(line, start - line), self.line_end(end), "")

    def insert(self, around: Any, index: str | int, value: JsonValue, way: Way) -> str:
        if around.id != "sequence" or not isinstance(index, int):
            raise LookupError(index)
        if not around.value:
            return self.put(around.start_mark.index, self.end(around), in_flow([value]))
        if around.flow_style:
            if index < len(around.value):
                start = around.value[index].start_mark.index
                return self.put(start, start, f"{in_flow(value)}, ")
            end = self.end(around.value[-1])
            return self.put(end, end, f", {in_flow(value)}")
        dash = self.text.rindex("-", 0, around.value[0].start_mark.index)
        lines = yaml_lines([value], dash - self.line_start(dash), way[:-1])
        if index:
            return self.below(self.end(around.value[index - 1]), lines)
        line = self.line_start(dash)
        if self.text[line:dash].strip():  # a list in a list: there is no line to put it on
            raise LookupError(index)
        start = self.above_comments(line, dash - line)
        return self.put(start, start, "".join(f"{one}\n" for one in lines))

    def end(self, node: Any) -> int:
        """Return where the content of a node ends: before comments, blank lines and what follows."""
        if node.id == "scalar" or node.flow_style or not node.value:
            start, end = int(node.start_mark.index), int(node.end_mark.index)
            return start + len(self.text[start:end].rstrip()) if getattr(node, "style", None) in {"|", ">"} else end
        return self.end(_pair(node.value[-1])[1])

    def put(self, start: int, end: int, replacement: str) -> str:
        return self.text[:start] + replacement + self.text[end:]

    def below(self, end: int, lines: list[str]) -> str:
        """Put lines below the one that ends some content, and below the comment that may follow it there."""
        place = self.line_end(end)
        missing = "" if self.text[:place].endswith("\n") else "\n"
        return self.put(place, place, missing + "".join(f"{line}\n" for line in lines))

    def line_start(self, index: int) -> int:
        return self.text.rfind("\n", 0, index) + 1

    def line_end(self, index: int) -> int:
        """Return where the line of this index ends, its line break included."""
        found = self.text.find("\n", index)
        return len(self.text) if found < 0 else found + 1

    def above_comments(self, line: int, column: int) -> int:
        """Go up over comments that stand right above a line, as far in as what is on it."""
        while line:
            above = self.line_start(line - 1)
            if not self.text[above:line].startswith(" " * column + "#"):
                break
            line = above
        return line


def _pair(item: Any) -> tuple[Any, Any]:
    """Return key and value of an object's entry; an item of a list is both."""
    return cast("tuple[Any, Any]", item) if isinstance(item, tuple) else (item, item)


def _entry(mapping: Any, name: str | int) -> Any:
    if mapping.id == "mapping":
        for pair in mapping.value:
            if pair[0].id == "scalar" and pair[0].value == name:
                return pair
    raise LookupError(name)
