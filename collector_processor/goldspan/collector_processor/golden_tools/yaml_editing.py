"""Edits of YAML text in place: what is not edited stays as it was written, comments, quotes, blank lines and all.

The text is parsed for the places of its values, and only those are replaced. What comes out is for the caller to read
again: anchors, tags and unusual layouts can make of an edit something else than was meant.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, cast

from goldspan.collector_processor.golden_tools.writing import on_one_line, yaml_lines
from goldspan.scoring.goldens.documents import ValuePath
from goldspan.scoring.sessions import JsonValue


@dataclass(frozen=True, slots=True)
class SetValue:
    """Put a value in a place: of a key that is not there yet, at the end of its object."""

    path: ValuePath
    value: JsonValue


@dataclass(frozen=True, slots=True)
class RemoveValue:
    """Take away a key or an item."""

    path: ValuePath


@dataclass(frozen=True, slots=True)
class InsertItem:
    """Put an item into a list, before the one that is now at this place or behind the last."""

    path: ValuePath
    """The list, then the index."""
    value: JsonValue


Edit = SetValue | RemoveValue | InsertItem


def edit_document(document: JsonValue, edit: Edit) -> JsonValue:
    """Return the document with this edit. Raises LookupError where there is no such place."""
    edited = copy.deepcopy(document)
    *above, last = edit.path
    around: Any = edited
    for step in above:
        around = around[step]
    match edit:
        case SetValue():
            around[last] = edit.value
        case RemoveValue():
            del around[last]
        case InsertItem():
            around.insert(last, edit.value)
    return edited


def edit_yaml(text: str, edit: Edit) -> str:
    """Return the text with one edit. Raises LookupError where there is no such place."""
    import yaml  # noqa: PLC0415 - takes long to import, and only few commands need it

    return _Editor(text, yaml.compose(text, Loader=yaml.SafeLoader)).edited(edit)


class _Editor:
    """One text and the nodes its parser made of it."""

    def __init__(self, text: str, root: Any) -> None:
        self.text, self.root = text, root

    def edited(self, edit: Edit) -> str:
        *above, last = edit.path
        around = self.node(tuple(above))
        match edit:
            case SetValue():
                return self.set(around, last, edit.value, edit.path)
            case RemoveValue():
                return self.remove(around, last)
            case InsertItem():
                return self.insert(around, last, edit.value, edit.path)

    def node(self, path: ValuePath) -> Any:
        found = self.root
        for step in path:
            found = found.value[step] if found.id == "sequence" else _entry(found, step)[1]
        return found

    def set(self, around: Any, step: str | int, value: JsonValue, path: ValuePath) -> str:
        try:
            old = around.value[step] if around.id == "sequence" else _entry(around, step)[1]
        except LookupError:
            return self.add(around, str(step), value, path)
        start, end = old.start_mark.index, self.end(old)
        if start < end:
            return self.put(start, end, on_one_line(value))
        # Nothing at all stands for null, and the parser puts it where the next thing begins.
        if around.id == "sequence":
            place = self.text.rindex("-", 0, start) + 1
        else:
            place = self.text.index(":", self.end(_entry(around, step)[0])) + 1
        return self.put(place, place, f" {on_one_line(value)}")

    def add(self, around: Any, name: str, value: JsonValue, path: ValuePath) -> str:
        """Add a key to an object, behind its last one."""
        if around.id != "mapping":
            raise LookupError(name)
        pair = on_one_line({name: value})[1:-1]
        if not around.value:
            return self.put(around.start_mark.index, self.end(around), f"{{{pair}}}")
        end = self.end(around.value[-1][1])
        if around.flow_style:
            return self.put(end, end, f", {pair}")
        lines = yaml_lines({name: value}, around.value[0][0].start_mark.column, path[:-1])
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

    def insert(self, around: Any, index: str | int, value: JsonValue, path: ValuePath) -> str:
        if around.id != "sequence" or not isinstance(index, int):
            raise LookupError(index)
        if not around.value:
            return self.put(around.start_mark.index, self.end(around), on_one_line([value]))
        if around.flow_style:
            if index < len(around.value):
                start = around.value[index].start_mark.index
                return self.put(start, start, f"{on_one_line(value)}, ")
            end = self.end(around.value[-1])
            return self.put(end, end, f", {on_one_line(value)}")
        dash = self.text.rindex("-", 0, around.value[0].start_mark.index)
        lines = yaml_lines([value], dash - self.line_start(dash), path[:-1])
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
