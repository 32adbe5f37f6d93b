"""Golden sets as YAML that people like to read and every YAML reader takes for the same values.

Sets, goldens, turns and lists of calls stand in blocks; a call stands on one line where it fits. Text that any version
of YAML could take for something else (`NO`, `012`, `12:30`, `1e3`, `~`, dates) is quoted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from goldspan.scoring.comparison import is_list, is_object
from goldspan.scoring.sessions import JsonValue

Where = tuple[str | int, ...]
"""The way to a value from the top of a document: keys and indexes."""
Comments = Mapping[Where, Sequence[str]]
"""Lines to write above an item of a list, without the `#`."""

WIDTH = 110
"""Columns that a call on one line may take."""
_IN_BLOCKS = frozenset({"goldens", "turns", "calls", "parallel", "any_of"})
"""Fields whose lists stand one item a line, wherever they are not part of arguments."""
_OF_VALUES = frozenset({"args", "criterion", "attribute", "result"})
"""Fields below which nothing is the format's own."""
_PLAIN = re.compile(r"\$?[^\W\d_][\w./@+-]*(?: [\w./@+-]+)*")
_OTHER_MEANING = re.compile(r"y|n|yes|no|on|off|true|false|null|none|nan|inf|infinity", re.IGNORECASE)
"""Words that some version of YAML, or some tool around it, does not take for text."""
_LONGEST_KEY = 1000
"""YAML takes no more than 1024 characters before the colon, unless `?` announces the key."""


def yaml_text(document: JsonValue, comments: Comments | None = None, header: Sequence[str] = ()) -> str:
    """Return a document as YAML 1.2 text. Its numbers are finite and its keys are text."""
    writer = _Writer(comments or {})
    lines = [f"# {line}".rstrip() for line in header]
    lines += writer.block(document, 0, ())
    return "\n".join(lines) + "\n"


def yaml_lines(value: JsonValue, indent: int, where: Where) -> list[str]:
    """Return the lines of a value that stands at this place of a golden set, so far in."""
    return list(_Writer().block(value, indent, where))


def in_flow(value: JsonValue) -> str:
    """Return a value on one line, as it stands in a golden file."""
    if is_object(value):
        return "{" + ", ".join(f"{_key(name)} {in_flow(item)}" for name, item in value.items()) + "}"
    if is_list(value):
        return "[" + ", ".join(map(in_flow, value)) + "]"
    return _scalar(value)


@dataclass(frozen=True, slots=True)
class _Writer:
    comments: Comments = field(default_factory=dict[Where, Sequence[str]])

    def block(self, value: JsonValue, indent: int, where: Where) -> Iterator[str]:
        """Yield the lines of a value that begins on a line of its own."""
        if is_object(value) and value:
            for name, item in value.items():
                yield from self._after(_key(name), item, indent, (*where, name))
        elif is_list(value) and value:
            for index, item in enumerate(value):
                if where == ("goldens",) and index:
                    yield ""
                for line in self.comments.get((*where, index), ()):
                    yield f"{' ' * indent}# {line}"
                yield from self._item(item, indent, (*where, index))
        else:
            yield " " * indent + in_flow(value)

    def _after(self, key: str, value: JsonValue, indent: int, where: Where) -> Iterator[str]:
        margin = " " * indent
        if key.startswith("? "):  # too long to be followed by its value
            yield margin + key.removesuffix(" :")
            yield from self._indented(f"{margin}: ", value, indent, where)
        elif (text := _literal(value)) is not None:
            yield from _literal_lines(f"{margin}{key} ", text, indent + 2)
        elif self._fits(value, indent + len(key) + 1, where):
            yield f"{margin}{key} {in_flow(value)}"
        else:
            yield margin + key
            yield from self.block(value, indent + 2, where)

    def _item(self, value: JsonValue, indent: int, where: Where) -> Iterator[str]:
        yield from self._indented(" " * indent + "- ", value, indent, where)

    def _indented(self, start: str, value: JsonValue, indent: int, where: Where) -> Iterator[str]:
        """Yield the lines of a value whose first one begins behind an indicator of two columns."""
        if (text := _literal(value)) is not None:
            yield from _literal_lines(start, text, indent + 2)
        elif self._fits(value, indent + 2, where):
            yield start + in_flow(value)
        else:
            first, *more = self.block(value, indent + 2, where)
            yield start + first[indent + 2 :]
            yield from more

    def _fits(self, value: JsonValue, column: int, where: Where) -> bool:
        if not value or not (is_object(value) or is_list(value)):
            return True
        if not any(step in _OF_VALUES for step in where):
            if not is_object(value) or _IN_BLOCKS & value.keys():
                return False
            if any(place[: len(where)] == where and place != where for place in self.comments):
                return False
        return not _holds_literal(value) and column + len(in_flow(value)) <= WIDTH


def _key(name: str) -> str:
    text = _text(name)
    return f"{text}:" if len(text) <= _LONGEST_KEY else f"? {text} :"


def _scalar(value: JsonValue) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float):
        digits, exponent, power = repr(value).partition("e")
        return digits + (".0" if exponent and "." not in digits else "") + exponent + power
    return str(value)


def _text(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.isprintable() and not _OTHER_MEANING.fullmatch(text):
        return text
    return "".join(map(_escaped, json.dumps(text, ensure_ascii=False)))


def _escaped(character: str) -> str:
    if character == " " or (character.isprintable() and character != "\ufeff"):
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _literal(value: JsonValue) -> str | None:
    """Return text that is better read over several lines, where no white space in it could get lost."""
    if not isinstance(value, str) or "\n" not in value.strip("\n"):
        return None
    lines = value.removesuffix("\n").split("\n")
    fine = all(line == line.rstrip() and line.isprintable() and "\ufeff" not in line for line in lines)
    return value if fine and lines[0] and not lines[0].startswith(" ") and lines[-1] else None


def _literal_lines(start: str, text: str, indent: int) -> Iterator[str]:
    yield start + ("|" if text.endswith("\n") else "|-")
    for line in text.removesuffix("\n").split("\n"):
        yield " " * indent + line if line else ""


def _holds_literal(value: JsonValue) -> bool:
    if is_object(value):
        return any(map(_holds_literal, value.values()))
    if is_list(value):
        return any(map(_holds_literal, value))
    return _literal(value) is not None
