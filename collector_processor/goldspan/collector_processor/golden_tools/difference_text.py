"""Changes as text: like `diff` on a terminal, and the same in Markdown for a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import ndiff
from itertools import groupby
from typing import Any, NamedTuple

from goldspan.collector_processor.golden_tools.writing import on_one_line
from goldspan.collector_processor.replay.wording import counted
from goldspan.scoring.json_values import is_mapping, shown, shown_name

_LONGEST_USER = 70
_BACKTICKS = re.compile(r"`{3,}")


class Line(NamedTuple):
    """One line: a blank, `-` or `+`, and what follows it."""

    sign: str
    text: str

    def __str__(self) -> str:
        return f"{self.sign} {self.text}".rstrip()


def change_lines(changes: Iterable[Change]) -> Iterator[Line]:
    """Yield the changes of one golden, under the turns and tools they belong to."""
    for (turn, name), of_turn in groupby(changes, key=lambda change: (change.turn, change.turn_name)):
        margin = ""
        if turn is not None:
            yield Line(" ", f"turn {turn + 1}{f': {shown(name, _LONGEST_USER)}' if name else ''}")
            margin = "  "
        for (tool, place), of_call in groupby(of_turn, key=lambda change: (change.tool, change.place)):
            listed = list(of_call)
            if tool and any(change.field for change in listed):
                number = f", call {place.call + 1}" if place is not None else ""
                yield Line(" ", f"{margin}{shown_name(tool)}{number}")
                inner = margin + "  "
            else:
                inner = margin
            for change in listed:
                yield from _sides(change, inner)


def _sides(change: Change, margin: str) -> Iterator[Line]:
    name = change.field.removeprefix("args.") if change.field.startswith("args.") else change.field
    if isinstance(change.before, str) and isinstance(change.after, str) and "\n" in change.before + change.after:
        yield Line(" ", f"{margin}{name}:")
        for line in ndiff(change.before.split("\n"), change.after.split("\n")):
            if line[0] in "-+ ":
                yield Line(line[0], f"{margin}  {_printable(line[2:])}")
        return
    for sign, side in (("-", change.before), ("+", change.after)):
        if side is not NOTHING:
            for line in _side(change, name, side):
                yield Line(sign, margin + line)


def _side(change: Change, name: str, side: Any) -> Iterator[str]:
    note = f"  # {change.note}" if change.note else ""
    if name:
        yield f"{name}: {on_one_line(side)}{note}"
    elif change.tool:
        yield on_one_line(side) + note
    elif is_mapping(side) and change.turn is None:
        turns = side.get("turns", [])
        calls = sum(len(turn.get("calls", ())) for turn in turns) + len(side.get("calls", ()))
        yield (
            f"golden of {counted(len(turns), 'turn')} and {counted(calls, 'call')}"
            if turns
            else (f"golden of {counted(calls, 'call')}")
        )
    elif is_mapping(side):
        yield f"turn{note}"
        for field in ("calls", "any_of"):
            yield from (f"  {on_one_line(item)}" for item in side.get(field, ()))


def _printable(text: str) -> str:
    return text if text.isprintable() else shown(text, 10_000)


def summary(changes: Sequence[Change]) -> str:
    """Say how much differs."""
    if not changes:
        return "no differences"
    return f"{counted(len(changes), 'difference')} in {counted(len({change.golden for change in changes}), 'golden')}"


def as_text(changes: Sequence[Change], notes: Sequence[str] = ()) -> Iterator[Line]:
    """Yield the lines of a terminal."""
    for golden, source, of_golden in _goldens(changes):
        yield Line(" ", f"{shown_name(golden)}{f' ({source})' if source else ''}")
        yield from (Line(line.sign, f"  {line.text}") for line in change_lines(of_golden))
    yield from (Line("?", note) for note in notes)
    yield Line("=", summary(changes))


def as_markdown(changes: Sequence[Change], notes: Sequence[str] = ()) -> str:
    """Return the same for a comment on a pull request."""
    parts = [f"### Goldens: {summary(changes)}"]
    for golden, source, of_golden in _goldens(changes):
        lines = "\n".join(map(str, change_lines(of_golden)))
        fence = "`" * max((len(found) + 1 for found in _BACKTICKS.findall(lines)), default=3)
        parts.append(f"**{_plain(shown_name(golden))}**{f' ({_plain(source)})' if source else ''}")
        parts.append(f"{fence}diff\n{lines}\n{fence}")
    if notes:
        parts.append("\n".join(f"- {_plain(note)}" for note in notes))
    return "\n\n".join(parts) + "\n"


def _plain(text: str) -> str:
    """Escape what Markdown or HTML would take for markup."""
    return re.sub(r"([\\`*_{}\[\]<>#|~&])", r"\\\1", text)


def _goldens(changes: Sequence[Change]) -> Iterator[tuple[str, str, Iterator[Change]]]:
    for (golden, source), found in groupby(changes, key=lambda change: (change.golden, change.source)):
        yield golden, source, found
