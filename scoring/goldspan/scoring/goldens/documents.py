"""A file's text as JSON values that know their line, and the mistakes in them: JSON, JSON lines and YAML 1.2.

A reader returns the values, and notes in the collector where each stands and what is wrong. Of

    goldens:
      - session: s1
        calls: [{name: f, name: g}]

the value is `{"goldens": [{"session": "s1", ...}]}`, the place of `goldens[0].calls[0].name` is line 3, and there is
one mistake: that key appears twice. Whoever checks the values later names them by their path alone.

Mistakes never stop at the first: readers note them and go on. Only text that cannot be read at all, or that would grow
beyond all bounds, ends a file at once (`Unreadable`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path, PurePath
from typing import Any, NamedTuple, cast

from goldspan.scoring.errors import Mistake
from goldspan.scoring.json_values import is_list, is_mapping, shown
from goldspan.scoring.patterns import regex
from goldspan.scoring.sessions import JsonValue

MAX_DEPTH = 100
"""Levels of lists and objects in each other: beyond any tool's arguments, far below Python's recursion limit."""
MAX_VALUES = 1_000_000
"""Values in one file, each use of an alias counted: some lines of YAML aliases can stand for billions."""


ValuePath = tuple[str | int, ...]
"""The way to a value from the top of a document: keys and indexes."""
JsonSchema = dict[str, Any]


class SourcePlace(NamedTuple):
    """The line of a value, counted from 1, and the places of what it holds."""

    line: int
    inner: Mapping[str | int, SourcePlace] = {}


NOWHERE = SourcePlace(0)
"""The place of values that came from no text."""


class Unreadable(Exception):  # noqa: N818 - it ends one file and never leaves this room
    """The text as a whole cannot be used; its one mistake is already noted."""


@dataclass(slots=True)
class MistakeCollector:
    """The mistakes found in one file so far, and where its values stand."""

    file: str
    place: SourcePlace = NOWHERE
    mistakes: list[Mistake] = field(default_factory=list[Mistake])

    def line(self, where: ValuePath) -> int | None:
        """Find the line of the value, else of the nearest value around it."""
        place = self.place
        for step in where:
            if step not in place.inner:
                break
            place = place.inner[step]
        return place.line or None

    def add(self, where: ValuePath, message: str, *, line: int | None = None) -> None:
        """Note a mistake; `line` where it is known better than the place of the value."""
        self.mistakes.append(Mistake(self.file, path_text(where), message, line or self.line(where)))

    def source(self, where: ValuePath) -> str:
        """Name the place for people: `file:line`, or the way to the value where there are no lines."""
        line = self.line(where)
        if line is None:
            return f"{self.file} {path_text(where)}".strip()
        return f"{self.file}:{line}" if where else self.file

    def unreadable(self, message: str, *, where: ValuePath = (), line: int | None = None) -> Unreadable:
        """Note a mistake after which nothing more of the file can be read."""
        self.add(where, message, line=line)
        return Unreadable(message)

    def in_order(self) -> list[Mistake]:
        """List the mistakes from the top of the file to its end."""
        return sorted(self.mistakes, key=lambda mistake: mistake.line or 0)


def path_text(where: ValuePath) -> str:
    """Write a way as people do: `goldens[2].turns[0].calls[1].args`."""
    text = ""
    for step in where:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.isidentifier():
            text += f".{step}" if text else step
        else:
            text += f"[{json.dumps(step, ensure_ascii=False)}]"
    return text


def nearest(name: str, known: Sequence[str]) -> str | None:
    """Find the known name that was probably meant, if one is near; spelling in camelCase is near."""
    by_folded = {one.replace("_", "").casefold(): one for one in known}
    near = get_close_matches(name.replace("_", "").replace("-", "").casefold(), by_folded, n=1)
    return by_folded[near[0]] if near else None


def read_text(path: Path, notes: MistakeCollector) -> str:
    """Read the text of a UTF-8 file, with or without a byte order mark."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise notes.unreadable("there is no such file") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise notes.unreadable("not UTF-8 text: save the file as UTF-8", line=line) from None
    except OSError as error:
        raise notes.unreadable(f"cannot be read: {error.strerror or error}") from None


def json_copy(value: object, notes: MistakeCollector, where: ValuePath = ()) -> JsonValue:
    """Copy values given in code deeply: mappings and tuples of any kind are welcome, anything but JSON is noted."""
    if len(where) > MAX_DEPTH:
        raise notes.unreadable(f"nested more than {MAX_DEPTH} levels deep", where=where[:3])
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Mapping():
            copy: dict[str, Any] = {}
            for name, inner in cast("Mapping[object, object]", value).items():
                if not isinstance(name, str):
                    notes.add(where, f"found the key {shown(name, 40)}, expected text")
                copy[str(name)] = json_copy(inner, notes, (*where, str(name)))
            return copy
        case list() | tuple():
            items = cast("Sequence[object]", value)
            return [json_copy(inner, notes, (*where, index)) for index, inner in enumerate(items)]
        case _:
            notes.add(where, f"found a {type(value).__name__}, expected a JSON value")
            return None


_LONGEST = 60


def found(value: JsonValue) -> str:
    """Say what was found where something else was expected."""
    return f"found {shown(value, _LONGEST)}"


def check_finite(value: JsonValue, where: ValuePath, note: Callable[[ValuePath, str], None]) -> None:
    """Note every number that JSON cannot write, at any depth."""
    if is_list(value):
        for index, item in enumerate(value):
            check_finite(item, (*where, index), note)
    elif is_mapping(value):
        for name, item in value.items():
            check_finite(item, (*where, name), note)
    elif isinstance(value, float) and not math.isfinite(value):
        note(where, f"{found(value)}, expected a JSON value: quote it if it is text")


# JSON: `json` reads the values, a second look finds their lines and duplicate keys.

_TOKEN = regex(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\]]|[^\s{}\[\],:"]++')

_Token = tuple[str, int]  # text and line


def read_json(text: str, notes: MistakeCollector) -> JsonValue:
    """Read one JSON document. `NaN` and `Infinity`, which Python writes, are read: they may stand where nobody looks.

    Raises Unreadable if it is not JSON, or nested too deep.
    """
    value, notes.place = read_value(text, notes)
    return value


def read_value(
    text: str, notes: MistakeCollector, where: ValuePath = (), line: int = 1
) -> tuple[JsonValue, SourcePlace]:
    """Read JSON text that begins on a line of the file, and stands at a place in its document.

    Raises Unreadable if it is not JSON, or nested too deep.
    """
    at = line if where else None
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        message = f"not JSON: {error.msg}, column {error.colno}"
        raise notes.unreadable(message, where=where, line=error.lineno + line - 1) from None
    except RecursionError:
        raise notes.unreadable(f"nested more than {MAX_DEPTH} levels deep", where=where, line=at) from None
    except ValueError as error:  # an integer with thousands of digits
        raise notes.unreadable(f"not usable: {error}", where=where, line=at) from None
    tokens = _tokens(text, line)
    return value, _place(next(tokens), tokens, where, notes)


def _tokens(text: str, line: int) -> Iterator[_Token]:
    seen = 0
    for found in _TOKEN.finditer(text):
        start = found.start()
        line += text.count("\n", seen, start)
        seen = start
        yield found.group(), line


def _place(
    token: _Token, tokens: Iterator[_Token], where: ValuePath, notes: MistakeCollector, of: int = 0
) -> SourcePlace:
    """Find the places in the value that begins with the token; `of` is the line of its key, if it has one."""
    opening, line = token
    if opening not in {"[", "{"}:
        return SourcePlace(of or line)
    if len(where) > MAX_DEPTH:
        raise notes.unreadable(f"nested more than {MAX_DEPTH} levels deep", line=line)
    inner: dict[str | int, SourcePlace] = {}
    if opening == "[":
        while (item := next(tokens))[0] != "]":
            inner[len(inner)] = _place(item, tokens, (*where, len(inner)), notes)
    else:
        while (key := next(tokens))[0] != "}":
            text, key_line = key
            name: str = json.loads(text) if "\\" in text else text[1:-1]
            if name in inner:
                notes.add((*where, name), duplicate_key_message(inner[name].line), line=key_line)
            inner[name] = _place(next(tokens), tokens, (*where, name), notes, key_line)
    return SourcePlace(of or line, inner)


def duplicate_key_message(line: int) -> str:
    """Return the message for a key that is already on `line`."""
    return f"this key appears twice in one object (first on line {line}): remove one of them"


_OF_A_SET = frozenset({"golden_set", "format", "version"})


def read_json_lines(text: str, notes: MistakeCollector) -> JsonValue:
    """Read one golden set; without a line that names it, it is called like the file."""
    lines = text.split("\n")
    first = next((index for index, line in enumerate(lines) if line.strip()), 0)
    header, places = _header(lines[first], notes, first + 1)
    goldens, place = read_lines(lines, notes, ("goldens",), first + bool(header))
    notes.place = SourcePlace(1, {**places, "goldens": place})
    return {"golden_set": PurePath(notes.file).stem, **header, "goldens": goldens}


def read_lines(
    lines: Sequence[str], notes: MistakeCollector, above: ValuePath = (), first: int = 0
) -> tuple[list[JsonValue], SourcePlace]:
    """Read a list of which each line, from the first on, is an item; one that cannot be read hides no other."""
    items: list[JsonValue] = []
    places: dict[str | int, SourcePlace] = {}
    for number, line in enumerate(lines[first:], start=first + 1):
        if line.strip():
            with suppress(Unreadable):
                value, places[len(items)] = read_value(line, notes, (*above, len(items)), number)
                items.append(value)
    return items, SourcePlace(1, places)


def _header(
    line: str, notes: MistakeCollector, number: int
) -> tuple[Mapping[str, JsonValue], Mapping[Any, SourcePlace]]:
    """Return the fields of a set, which no golden has, if a line has some; else nothing."""
    own = MistakeCollector(notes.file)
    with suppress(Unreadable):
        value, place = read_value(line, own, (), number)
        if is_mapping(value) and _OF_A_SET & value.keys() and "goldens" not in value:
            notes.mistakes += own.mistakes
            return value, place.inner
    return {}, {}


# YAML 1.2, by the core schema and nothing beyond it: `2026-12-01`, `12:30`, `NO`, `yes` and `1_000` are text; `012` is
# the number 12 and `0o14` is too (YAML 1.2, section 10.3.2). Tags, merge keys and keys that are not text have no
# meaning in JSON and are mistakes. Aliases are allowed.

_WORDS: dict[str, JsonValue] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **{sign + word: float(sign + "inf") for sign in ("", "+", "-") for word in (".inf", ".Inf", ".INF")},
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_INTEGERS = ((regex(r"[-+]?[0-9]+"), 10), (regex(r"0o[0-7]+"), 8), (regex(r"0x[0-9a-fA-F]+"), 16))
_FLOAT = regex(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_HALF = regex("[\ud800-\udfff]")
_STARTS_OF_NUMBERS = frozenset("+-.0123456789")
_OLD_BREAK = regex("[\x85\u2028\u2029]")
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
        next(self.events)  # start of stream
        start = next(self.events)
        if type(start).__name__ == "StreamEndEvent":
            return None
        if start.version not in {None, (1, 2)}:
            self.notes.add(
                (), "found a %YAML directive of another version, expected YAML 1.2", line=start.end_mark.line + 1
            )
        value, self.notes.place = self.node(next(self.events), ())
        next(self.events)  # end of document
        if type(after := next(self.events)).__name__ != "StreamEndEvent":
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
        text: str = event.value
        if not text.isascii() and _HALF.search(text):
            # Halves of characters written as two escapes, `"\ud83d\ude00"`, are joined, as JSON means them.
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
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
        while type(event := next(self.events)).__name__ != "SequenceEndEvent":
            index = len(items)
            item, inner[index] = self.node(event, (*where, index))
            items.append(item)
        return items, SourcePlace(_line(start), inner)

    def mapping(self, start: Any, where: ValuePath) -> tuple[JsonValue, SourcePlace]:
        fields: dict[str, JsonValue] = {}
        inner: dict[str | int, SourcePlace] = {}
        while type(event := next(self.events)).__name__ != "MappingEndEvent":
            name = self.key(event, where)
            value, place = self.node(next(self.events), where if name is None else (*where, name))
            if name is None:
                continue
            if name in inner:
                self.notes.add((*where, name), duplicate_key_message(inner[name].line), line=_line(event))
            inner[name] = place._replace(line=_line(event))
            fields[name] = value
        return fields, SourcePlace(_line(start), inner)

    def key(self, event: Any, where: ValuePath) -> str | None:
        value, _ = self.node(event, (*where, "?"))  # a key may be a mapping with such keys, and so on
        if isinstance(value, str) and (value != "<<" or event.style):
            return value
        if value == "<<":
            advice = "found a merge key (<<), which YAML 1.2 does not have: write the fields out"
        else:
            advice = f"found the key {shown(value, 40)}, expected text: put it in quotes"
        self.notes.add(where, advice, line=_line(event))
        return None


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


READERS = {".json": read_json, ".jsonl": read_json_lines, ".yaml": read_yaml, ".yml": read_yaml}
"""What reads a golden file, by the end of its name."""


def read_document(path: Path, notes: MistakeCollector, text: str | None = None) -> JsonValue:
    """Read the document of a file by the end of its name; with `text`, as if that stood in it.

    Raises Unreadable if the file as a whole is of no use.
    """
    read = READERS.get(path.suffix.lower())
    if read is None:
        raise notes.unreadable(f"expected a file whose name ends in {', '.join(sorted(READERS))}")
    return read(regular_text(path, notes) if text is None else text, notes)


def regular_text(path: Path, notes: MistakeCollector) -> str:
    """Read the text of a regular file. Raises Unreadable."""
    with suppress(OSError):
        if path.exists() and not path.is_file():  # reading may never end, or give something else each time
            raise notes.unreadable("found a pipe, a device or a folder, expected a regular file")
    return read_text(path, notes)
