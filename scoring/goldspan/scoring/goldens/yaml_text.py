"""YAML 1.2 text as JSON values with lines, by the core schema and nothing beyond it.

`2026-12-01`, `12:30`, `NO`, `yes` and `1_000` are text; `012` is the number 12 and `0o14` is too (YAML 1.2, section
10.3.2). Tags, merge keys and keys that are not text have no meaning in JSON and are mistakes. Aliases are allowed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from goldspan.scoring.goldens.json_text import duplicate_key_message
from goldspan.scoring.goldens.json_with_lines import MAX_DEPTH, MAX_VALUES, MistakeCollector, SourcePlace, ValuePath
from goldspan.scoring.json_values import shown
from goldspan.scoring.sessions import JsonValue

if TYPE_CHECKING:
    from collections.abc import Iterator

_WORDS: dict[str, JsonValue] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **{sign + word: float(sign + "inf") for sign in ("", "+", "-") for word in (".inf", ".Inf", ".INF")},
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_INTEGERS = ((re.compile(r"[-+]?[0-9]+"), 10), (re.compile(r"0o[0-7]+"), 8), (re.compile(r"0x[0-9a-fA-F]+"), 16))
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_HALF = re.compile("[\ud800-\udfff]")
_STARTS_OF_NUMBERS = frozenset("+-.0123456789")
_OLD_BREAK = re.compile("[\x85\u2028\u2029]")
"""Line breaks in YAML 1.1 and plain characters in 1.2: a parser of 1.1 turns them into other white space."""


def read_yaml(text: str, notes: MistakeCollector) -> JsonValue:
    """Read one YAML document; an empty one is null.

    Raises Unreadable if it is not YAML, holds a character YAML readers disagree about, is more than one document, is
    nested too deep or grows too large by its aliases.
    """
    # Imported when the first file is read: a process that reads none has no use for it.
    import yaml  # noqa: PLC0415

    if old_break := _OLD_BREAK.search(text):
        code = f"\\u{ord(old_break.group()):04x}"
        message = f'found the character U+{code[2:].upper()}, which YAML readers disagree about: write "{code}"'
        raise notes.unreadable(message, line=text.count("\n", 0, old_break.start()) + 1)
    # libyaml is fast. The parser in Python describes errors alike everywhere, and reads what libyaml refuses: a
    # character that is written as two escapes.
    loaders = (yaml.CSafeLoader, yaml.SafeLoader) if yaml.__with_libyaml__ else (yaml.SafeLoader,)
    for loader in loaders:
        noted = len(notes.mistakes)
        try:
            return _Reader(yaml.parse(text, Loader=loader), notes).document()
        except (yaml.YAMLError, OverflowError, ValueError) as error:  # the last two for escapes of no character
            if loader is yaml.SafeLoader:
                raise _not_yaml(error, notes) from None
            del notes.mistakes[noted:]
    raise AssertionError("the last parser reads or refuses")


def core_value(text: str) -> JsonValue:
    """Read a plain (unquoted) scalar by YAML 1.2's core schema."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _STARTS_OF_NUMBERS:
        return text
    for pattern, base in _INTEGERS:
        if pattern.fullmatch(text):
            return int(text, base)
    return float(text) if _FLOAT.fullmatch(text) else text


def _not_yaml(error: Any, notes: MistakeCollector) -> Exception:
    """Put the parser's message on one line; some errors know their place."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:
        return notes.unreadable(f"not YAML: {' '.join(str(error).split())}")
    what = " ".join(part for part in (error.context, error.problem) if part)
    return notes.unreadable(f"not YAML: {what}, column {mark.column + 1}", line=mark.line + 1)


class _Reader:
    """Builds values from the parser's events: PyYAML's own constructors know more types than JSON, by YAML 1.1."""

    def __init__(self, events: Iterator[Any], notes: MistakeCollector) -> None:
        self.events = events
        self.notes = notes
        self.anchors: dict[str, tuple[JsonValue, SourcePlace, int] | None] = {}
        """The value of each anchor, and how many values it holds; None while it is being read."""
        self.values = 0

    def document(self) -> JsonValue:
        self._next()  # start of stream
        start = self._next()
        if type(start).__name__ == "StreamEndEvent":
            return None
        if start.version not in {None, (1, 2)}:
            self.notes.add(
                (), "found a %YAML directive of another version, expected YAML 1.2", line=start.end_mark.line + 1
            )
        value, self.notes.place = self.node(self._next(), ())
        self._next()  # end of document
        if type(after := self._next()).__name__ != "StreamEndEvent":
            raise self.notes.unreadable("found a second document, expected one in a file", line=_line(after))
        return value

    def node(self, event: Any, where: ValuePath) -> tuple[JsonValue, SourcePlace]:
        if type(event).__name__ == "AliasEvent":
            return self.alias(event, where)
        if len(where) > MAX_DEPTH:
            raise self.notes.unreadable(f"nested more than {MAX_DEPTH} levels deep", line=_line(event))
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        before = self.values
        self.count(event, 1)
        if event.tag is not None:
            message = f"found the tag {event.tag}, expected plain JSON types: leave it out; quote what is text"
            self.notes.add(where, message, line=_line(event))
        if type(event).__name__ == "ScalarEvent":
            value, place = self.scalar(event, where), SourcePlace(_line(event))
        elif type(event).__name__ == "SequenceStartEvent":
            value, place = self.sequence(event, where)
        else:
            value, place = self.mapping(event, where)
        if event.anchor is not None:
            self.anchors[event.anchor] = (value, place, self.values - before)
        return value, place

    def alias(self, event: Any, where: ValuePath) -> tuple[JsonValue, SourcePlace]:
        target = self.anchors.get(event.anchor)
        if target is None:
            what = "is inside the value it names" if event.anchor in self.anchors else "names no anchor above"
            raise self.notes.unreadable(f"the alias *{event.anchor} {what}", where=where, line=_line(event))
        value, place, size = target
        self.count(event, size)
        return value, place._replace(line=_line(event))

    def count(self, event: Any, size: int) -> None:
        self.values += size
        if self.values > MAX_VALUES:
            message = f"holds more than {MAX_VALUES} values, aliases counted: split the file"
            raise self.notes.unreadable(message, line=_line(event))

    def scalar(self, event: Any, where: ValuePath) -> JsonValue:
        text = _whole_characters(event.value)
        if event.style:
            return text
        try:
            return core_value(text)
        except ValueError as error:  # an integer with thousands of digits
            self.notes.add(where, f"found a number that cannot be used ({error})", line=_line(event))
            return None

    def sequence(self, start: Any, where: ValuePath) -> tuple[JsonValue, SourcePlace]:
        items: list[JsonValue] = []
        inner: dict[str | int, SourcePlace] = {}
        while type(event := self._next()).__name__ != "SequenceEndEvent":
            index = len(items)
            item, inner[index] = self.node(event, (*where, index))
            items.append(item)
        return items, SourcePlace(_line(start), inner)

    def mapping(self, start: Any, where: ValuePath) -> tuple[JsonValue, SourcePlace]:
        fields: dict[str, JsonValue] = {}
        inner: dict[str | int, SourcePlace] = {}
        while type(event := self._next()).__name__ != "MappingEndEvent":
            name = self.key(event, where)
            value, place = self.node(self._next(), where if name is None else (*where, name))
            if name is None:
                continue
            if name in inner:
                self.notes.add((*where, name), duplicate_key_message(inner[name].line), line=_line(event))
            inner[name] = place._replace(line=_line(event))
            fields[name] = value
        return fields, SourcePlace(_line(start), inner)

    def key(self, event: Any, where: ValuePath) -> str | None:
        value, _ = self.node(event, where)
        if isinstance(value, str) and (value != "<<" or event.style):
            return value
        if value == "<<":
            advice = "found a merge key (<<), which YAML 1.2 does not have: write the fields out"
        else:
            advice = f"found the key {shown(value, 40)}, expected text: put it in quotes"
        self.notes.add(where, advice, line=_line(event))
        return None

    def _next(self) -> Any:
        return next(self.events)


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _whole_characters(text: str) -> str:
    r"""Join the halves of characters written as two escapes, `"\ud83d\ude00"`, as JSON means them."""
    if text.isascii() or not _HALF.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
