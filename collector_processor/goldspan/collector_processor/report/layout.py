"""A page of lines for a terminal, a pipe or a log: marks, scores, and text that wraps without breaking a word."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from fractions import Fraction

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from goldspan.scoring.results import Label

GOOD, BAD, UNKNOWN, EXTRA, REFUSED = "✓", "✗", "?", "+", "!"
MARKS = {Label.PASS: GOOD, Label.FAIL: BAD, Label.NOT_EVALUATED: UNKNOWN}
STYLES = {GOOD: "green", BAD: "red", UNKNOWN: "yellow", EXTRA: "magenta", REFUSED: "magenta"}
NO_SCORE = "-"

_ASCII = str.maketrans({GOOD: "P", BAD: "F", "…": "...", "·": "-", "─": "-", "┌": "/", "│": "|", "└": "\\"})
_PIPED_WIDTH = 100

Part = str | tuple[str, str]
"""Text, or text and its style."""


class Page:
    """Lines in the making; `width` is what values are shortened to, never what ids are cut at."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.lines: list[Text] = []

    def line(self, *parts: Part, indent: int = 0) -> None:
        """Add a line of these parts."""
        self.lines.append(Text.assemble(" " * indent, *parts))

    def blank(self) -> None:
        """Add an empty line, unless the page is empty or has just had one."""
        if self.lines and self.lines[-1].plain:
            self.lines.append(Text())

    def paragraph(self, text: str, *, indent: int = 0, label: str | tuple[Part, ...] = "", style: str = "") -> None:
        """Add text that wraps at spaces only; what follows the first line hangs under it."""
        head = ((label, "bold"),) if isinstance(label, str) else label
        width = sum(cell_len(part if isinstance(part, str) else part[0]) for part in head)
        room = max(self.width - indent - width, 24)
        lines = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False)
        self.line(*head, (lines[0] if lines else "", style), indent=indent)
        for line in lines[1:]:
            self.line((line, style), indent=indent + width)

    def __str__(self) -> str:
        """Return every line without style, as it looks in a pipe."""
        return "\n".join(line.plain.rstrip() for line in self.lines)


def page_width(console: Console) -> int:
    """Return the terminal's width; where there is none, what a log has room for and a person can still read."""
    return console.width if console.is_terminal else _PIPED_WIDTH


def print_page(console: Console, page: Page) -> None:
    """Print the lines as they are: long ids run over instead of being broken."""
    encodes_all = console.encoding.lower().startswith("utf")
    for line in page.lines:
        line.rstrip()
        if encodes_all:
            console.print(line, soft_wrap=True)
        else:
            console.print(line.plain.translate(_ASCII), soft_wrap=True, markup=False, highlight=False)


def score_text(score: Fraction | float | None) -> str:
    """Two decimals in four cells; 1.00 and 0.00 only where it is exactly that."""
    if score is None:
        return f"{NO_SCORE:^4}"
    if 0 < score < Fraction(1, 100):
        return "0.01"
    if Fraction(99, 100) < score < 1:
        return "0.99"
    return f"{float(score):4.2f}"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """`1 session`, `2 sessions`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def listed(names: Iterable[str], limit: int = 6) -> str:
    """Join names as in `a, b x2 and 3 more`: in order of appearance, repeats counted."""
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    texts = [name if count == 1 else f"{name} x{count}" for name, count in counts.items()]
    if len(texts) <= limit + 1:
        return ", ".join(texts)
    return f"{', '.join(texts[:limit])} and {len(texts) - limit} more"
