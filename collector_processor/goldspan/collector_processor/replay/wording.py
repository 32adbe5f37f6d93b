"""How counts, lists, scores and text from telemetry are written for people, in every report and message."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

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
