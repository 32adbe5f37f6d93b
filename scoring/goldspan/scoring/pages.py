"""The page of lines on which a report is written, and how labels, scores, counts and text from telemetry stand on it.

Every report, and `str()` of every result, is made of these. A page knows its width and the styles of its parts, and
no terminal: who prints it gives the styles their colours.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from fractions import Fraction
from unicodedata import category, east_asian_width

from goldspan.scoring.verdict import Label

WORST_FIRST = (Label.FAIL, Label.NOT_EVALUATED, Label.PASS)
LABEL_WORDS = {Label.PASS: "passed", Label.FAIL: "failed", Label.NOT_EVALUATED: "not evaluated"}

RIGHT, WRONG, UNKNOWN, UNEXPECTED, REJECTED, INFORMS = "✓", "✗", "?", "+", "!", "·"
MARKS = {Label.PASS: RIGHT, Label.FAIL: WRONG, Label.NOT_EVALUATED: UNKNOWN, None: INFORMS}
"""The mark of a label; a metric without a threshold has no label, and only informs."""
STYLES = {RIGHT: "green", WRONG: "red", UNKNOWN: "yellow", UNEXPECTED: "magenta", REJECTED: "magenta", INFORMS: "dim"}
NO_SCORE = "-"


def printable(text: str) -> str:
    """Return the text without anything that could move the cursor, colour the screen or turn the reading direction."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


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


def score_text(score: Fraction | float | None) -> str:
    """Two decimals in four cells; 1.00 and 0.00 only where it is exactly that."""
    if score is None:
        return f"{NO_SCORE:^4}"
    if 0 < score < Fraction(1, 100):
        return "0.01"
    if Fraction(99, 100) < score < 1:
        return "0.99"
    return f"{float(score):4.2f}"


def number_text(score: Fraction | float | None) -> str:
    """Two decimals, or as many digits as it takes; the score of a metric may be any number."""
    if score is None:
        return NO_SCORE
    short = f"{float(score):.2f}"
    return short if Fraction(short) == score or 0.01 <= float(score) <= 0.99 else f"{float(score):.4g}"


# Text in the cells of a terminal: most characters take one, those of East Asia two, accents none.


def cells(text: str) -> int:
    """Return how many cells of a terminal a text takes."""
    return len(text) if text.isascii() else sum(map(_cells_of, text))


def _cells_of(char: str) -> int:
    kind = category(char)
    if kind in {"Mn", "Me"}:
        return int(char == "\ufe0f")  # makes an emoji of the sign before it
    return 2 if kind == "Cn" or east_asian_width(char) in {"W", "F"} else 1


def shorten(text: str, width: int) -> str:
    """Cut the text to `width` cells; a cut is shown by an ellipsis."""
    # Of a huge text no more is measured than could be shown, with accents.
    text = text[: width * 4 + 1]
    if cells(text) <= width:
        return text
    room = width - 1
    for at, char in enumerate(text):
        room -= _cells_of(char)
        if room < 0:
            return text[:at].rstrip() + "…"
    return text


def contrast(expected: str, actual: str, width: int) -> tuple[str, str]:
    """Cut two long texts to `width` cells so that the first difference between them stays visible."""
    if cells(expected[: width + 1]) <= width and cells(actual[: width + 1]) <= width:
        return expected, actual
    start = common_beginning(expected, actual) - width // 3
    if start <= 0:
        return shorten(expected, width), shorten(actual, width)
    return shorten("…" + expected[start:], width), shorten("…" + actual[start:], width)


def common_beginning(first: Sequence[str], second: Sequence[str]) -> int:
    """Return how many characters two texts begin with that are the same."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((index for index, (one, other) in pairs if one != other), min(len(first), len(second)))


Part = str | tuple[str, str]
"""Text, or text and its style."""


def text_of(part: Part) -> str:
    """Return the text of a part, without anything that cannot be printed."""
    return printable(part if isinstance(part, str) else part[0])


class Page:
    """Lines in the making; `width` is what values are cut to, never what ids are cut at."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.lines: list[tuple[Part, ...]] = []

    def line(self, *parts: Part, indent: int = 0) -> None:
        """Add a line of these parts."""
        self.lines.append((" " * indent, *parts))

    def blank(self) -> None:
        """Add an empty line, unless the page is empty or has just had one."""
        if self.lines and plain_line(self.lines[-1]):
            self.lines.append(())

    def paragraph(self, text: str, *, indent: int = 0, label: str | tuple[Part, ...] = "", style: str = "") -> None:
        """Add text that wraps at spaces only; what follows the first line hangs under it."""
        head = ((label, "bold"),) if isinstance(label, str) else label
        width = cells_of(head)
        room = max(self.width - indent - width, 24)
        lines = textwrap.wrap(printable(text), room, break_long_words=False, break_on_hyphens=False)
        self.line(*head, (lines[0] if lines else "", style), indent=indent)
        for line in lines[1:]:
            self.line((line, style), indent=indent + width)

    def __str__(self) -> str:
        """Return every line without style, as it looks in a pipe."""
        return "\n".join(map(plain_line, self.lines))


def plain_line(parts: Iterable[Part]) -> str:
    """Return a line without style."""
    return "".join(map(text_of, parts)).rstrip()


def cells_of(parts: Iterable[Part]) -> int:
    """Return how many cells parts of a line take."""
    return sum(cells(text_of(part)) for part in parts)
