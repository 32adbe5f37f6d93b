"""Golden sets as YAML that people like to read and every YAML reader takes for the same values.

Sets, goldens, turns and lists of calls stand in blocks; a call stands on one line where it fits. Text that any version
of YAML could take for something else (`NO`, `012`, `12:30`, `1e3`, `~`, dates) is quoted.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from goldspan.scoring.errors import FileError, Mistake
from goldspan.scoring.goldens.documents import MAX_DEPTH, ValuePath
from goldspan.scoring.json_values import is_mapping, is_sequence
from goldspan.scoring.sessions import JsonValue

Comments = Mapping[ValuePath, Sequence[str]]
"""Lines to write above an item of a list or a field, without the `#`."""

WIDTH = 110
"""Columns that a call on one line may take."""
_IN_BLOCKS = frozenset({"goldens", "turns", "calls", "parallel", "any_of"})
"""Fields whose lists stand one item a line, wherever they are not part of arguments."""
_OF_VALUES = frozenset({"args", "criterion", "attribute", "result"})  # fields below which nothing is the format's own
_PLAIN = re.compile(r"\$?[^\W\d_][\w./@+-]*(?: [\w./@+-]+)*")
_OTHER_MEANING = re.compile(r"y|n|yes|no|on|off|true|false|null|none|nan|inf|infinity", re.IGNORECASE)
"""Words that some version of YAML, or some tool around it, does not take for text."""
_LONGEST_KEY = 1000  # YAML takes no more than 1024 characters before the colon, unless `?` announces the key


def yaml_text(document: JsonValue, comments: Comments | None = None, header: Sequence[str] = ()) -> str:
    """Return a document as YAML 1.2 text. Its numbers are finite and its keys are text."""
    writer = _Writer(comments or {})
    lines = [f"# {line}".rstrip() for line in header]
    lines += writer.block(document, 0, ())
    return "\n".join(lines) + "\n"


def yaml_lines(value: JsonValue, indent: int, where: ValuePath) -> list[str]:
    """Return the lines of a value that stands at this place of a golden set, so far in."""
    return list(_Writer().block(value, indent, where))


def on_one_line(value: JsonValue) -> str:
    """Return a value on one line, as it stands in a golden file."""
    if is_mapping(value):
        return "{" + ", ".join(f"{_key(name)} {on_one_line(item)}" for name, item in value.items()) + "}"
    if is_sequence(value):
        return "[" + ", ".join(map(on_one_line, value)) + "]"
    return _scalar(value)


@dataclass(frozen=True, slots=True)
class _Writer:
    comments: Comments = field(default_factory=dict[ValuePath, Sequence[str]])

    def block(self, value: JsonValue, indent: int, where: ValuePath) -> Iterator[str]:
        """Yield the lines of a value that begins on a line of its own."""
        if is_mapping(value) and value:
            for name, item in value.items():
                yield from self._comment(indent, (*where, name))
                yield from self._after(_key(name), item, indent, (*where, name))
        elif is_sequence(value) and value:
            for index, item in enumerate(value):
                if where == ("goldens",) and index:
                    yield ""
                yield from self._comment(indent, (*where, index))
                yield from self._indented(" " * indent + "- ", item, indent, (*where, index))
        else:
            yield " " * indent + on_one_line(value)

    def _comment(self, indent: int, where: ValuePath) -> Iterator[str]:
        return (f"{' ' * indent}# {line}" for line in self.comments.get(where, ()))

    def _after(self, key: str, value: JsonValue, indent: int, where: ValuePath) -> Iterator[str]:
        margin = " " * indent
        if key.startswith("? "):  # too long to be followed by its value
            yield margin + key.removesuffix(" :")
            yield from self._indented(f"{margin}: ", value, indent, where)
        elif (text := _literal(value)) is not None:
            yield from _literal_lines(f"{margin}{key} ", text, indent + 2)
        elif self._fits(value, indent + len(key) + 1, where):
            yield f"{margin}{key} {on_one_line(value)}"
        else:
            yield margin + key
            yield from self.block(value, indent + 2, where)

    def _indented(self, start: str, value: JsonValue, indent: int, where: ValuePath) -> Iterator[str]:
        """Yield the lines of a value whose first one begins behind an indicator of two columns."""
        if (text := _literal(value)) is not None:
            yield from _literal_lines(start, text, indent + 2)
        elif self._fits(value, indent + 2, where):
            yield start + on_one_line(value)
        else:
            first, *more = self.block(value, indent + 2, where)
            yield start + first[indent + 2 :]
            yield from more

    def _fits(self, value: JsonValue, column: int, where: ValuePath) -> bool:
        if not value or not (is_mapping(value) or is_sequence(value)):
            return True
        if not any(step in _OF_VALUES for step in where):
            if not is_mapping(value) or _IN_BLOCKS & value.keys():
                return False
            if any(place[: len(where)] == where and place != where for place in self.comments):
                return False
        return not _holds_literal(value) and column + len(on_one_line(value)) <= WIDTH


def _key(name: str) -> str:
    text = _text(name)
    return f"{text}:" if len(text) <= _LONGEST_KEY else f"? {text} :"


def _scalar(value: JsonValue) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float):
        digits, exponent, power = repr(value).partition("e")
        return digits + (".0" if exponent and "." not in digits else "") + exponent + power
    return json.dumps(value)


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
    if is_mapping(value):
        return any(map(_holds_literal, value.values()))
    if is_sequence(value):
        return any(map(_holds_literal, value))
    return _literal(value) is not None


_MAX_DIGITS = 4_000
_DEEPEST = MAX_DEPTH - 20  # arguments stand some levels deep themselves


def is_json(value: Any, depth: int = 0) -> bool:
    """Whether a golden file can hold the value."""
    if value is None or isinstance(value, bool | str):
        return True
    if isinstance(value, int):
        return value.bit_length() < _MAX_DIGITS * 3
    if isinstance(value, float):
        return math.isfinite(value)
    if depth >= _DEEPEST:
        return False
    if is_mapping(value):
        return all(is_json(item, depth + 1) for item in value.values())
    return is_sequence(value) and all(is_json(item, depth + 1) for item in value)


# Golden files: their names, their formats, and writing them whole or not at all.

RECORDED = ("Recorded by `goldspan goldens record` from one run, which says nothing of the next: record a second one.",)
"""What stands at the top of a file that was recorded from one run of each task."""
_OF_GOLDENS = frozenset(
    {"attribute", "calls", "evalCases", "eval_cases", "first_user_text", "golden_set", "goldens", "session"}
    | {"session_pattern", "turns", "version"}
)
"""Fields at the top of golden sets, of goldens in JSON lines and of ADK's eval sets."""
_OF_OLD_EVAL_SETS = frozenset({"data", "query"})
_ENDS = (".evalset.json", ".test.json", ".otlp.json")


def name_of(file: str) -> str:
    """Return what to call a golden set that is made of a file, or written to it."""
    name = PurePath(file).name
    for end in _ENDS:
        if name.endswith(end) and name != end:
            return name.removesuffix(end)
    return name.partition(".")[0].strip("-") or "goldens"


def is_golden_file(file: str) -> bool:
    """Whether a file, or any file in a directory, is meant as a golden set and not as traces.

    YAML never holds traces; JSON holds goldens if its first object has a field that only these have.
    """
    path = Path(file)
    if path.is_dir():
        return any(_is_golden_file(one) for one in sorted(path.rglob("*")) if not one.name.startswith("."))
    return _is_golden_file(path)


def _is_golden_file(path: Path) -> bool:
    suffix = path.suffix.lower()
    if suffix not in {".json", ".jsonl"}:
        return suffix in {".yaml", ".yml"}
    try:
        with path.open(encoding="utf-8-sig", errors="replace") as stream:
            first = next((line for line in stream if line.strip()), "")
            try:
                document = json.loads(first)
            except ValueError:  # the first line is no document of its own
                document = json.loads(first + stream.read())
    except (OSError, ValueError, RecursionError):
        return False
    if is_sequence(document) and document:
        return is_mapping(document[0]) and not _OF_OLD_EVAL_SETS.isdisjoint(document[0])
    return is_mapping(document) and not _OF_GOLDENS.isdisjoint(document)


def golden_set_text(
    file: str, document: Mapping[str, JsonValue], comments: Comments | None = None, header: Sequence[str] = ()
) -> str:
    """Return a golden set as the text of a file of this name: YAML, JSON or JSON lines.

    Raises FileError if no golden file has such a name.
    """
    suffix = PurePath(file).suffix.lower()
    if suffix in {".yaml", ".yml"}:
        return yaml_text(document, comments, header)
    if suffix == ".json":
        return _safe(json.dumps(document, ensure_ascii=False, indent=2)) + "\n"
    if suffix == ".jsonl":
        top = {name: value for name, value in document.items() if name != "goldens"}
        return "".join(_safe(json.dumps(line, ensure_ascii=False)) + "\n" for line in (top, *document["goldens"]))
    raise FileError(Mistake(file, "", "expected a file whose name ends in .json, .jsonl, .yaml or .yml"))


def _safe(text: str) -> str:
    """Escape halves of characters, which UTF-8 cannot hold."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
