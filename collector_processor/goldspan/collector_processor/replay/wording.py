"""How counts, lists, scores, values and text from telemetry are written for people, in every report and message."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from rich.cells import cell_len, set_cell_size

from goldspan.scoring.json_values import is_dict, is_list, plain
from goldspan.scoring.matchers import matcher
from goldspan.scoring.matchers.kinds.literal import dollar_keys
from goldspan.scoring.matchers.reading import matches
from goldspan.scoring.sessions import JsonValue

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


# How values are shown: on one line, cut to the room there is, and the innermost places where two of them differ.

_DEEPEST = 12


class Absent:
    """Stands where one side of a difference has nothing; not JSON's null."""


ABSENT = Absent()


@dataclass(frozen=True, slots=True)
class Difference:
    """The innermost place where two values part, as in `address.zip` or `stops[2]`."""

    path: str
    expected: JsonValue | Absent
    actual: JsonValue | Absent


def one_line(value: JsonValue) -> str:
    """Write the value as JSON on one line."""
    return printable(json.dumps(plain(value), ensure_ascii=False))


def arguments_text(arguments: Mapping[str, JsonValue]) -> str:
    """Write arguments as in `city="Paris", days=3`."""
    return ", ".join(f"{printable(name)}={one_line(value)}" for name, value in arguments.items())


def shorten(text: str, width: int) -> str:
    """Cut the text to `width` cells; a cut is shown by an ellipsis."""
    # Four bytes are the most a cell can take, so that no more than needed of a huge text is measured.
    text = text[: width * 4 + 1]
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(width - 1, 0)).rstrip() + "…"


def contrast(expected: str, actual: str, width: int) -> tuple[str, str]:
    """Cut two long texts to `width` cells so that the first difference between them stays visible."""
    if cell_len(expected[: width + 1]) <= width and cell_len(actual[: width + 1]) <= width:
        return expected, actual
    parts = next((at for at, (e, a) in enumerate(zip(expected, actual, strict=False)) if e != a), None)
    if parts is None:
        parts = min(len(expected), len(actual))
    start = parts - width // 3
    if start <= 0:
        return shorten(expected, width), shorten(actual, width)
    return shorten("…" + expected[start:], width), shorten("…" + actual[start:], width)


def differences(expected: JsonValue, actual: JsonValue, *, casefold: bool = False) -> tuple[Difference, ...]:
    """Find the innermost places where two JSON values differ; none where they are equal."""
    return tuple(_differences(expected, actual, "", _DEEPEST, casefold=casefold))


def _differences(expected: Any, actual: Any, path: str, depth: int, *, casefold: bool) -> Iterator[Difference]:
    if depth and is_dict(expected) and is_dict(actual) and not dollar_keys(expected):
        for key in expected | actual:
            inner = f"{path}.{key}" if path else key
            if key not in actual:
                if may_be_absent(expected[key]):
                    continue
                yield Difference(inner, expected[key], ABSENT)
            elif key not in expected:
                yield Difference(inner, ABSENT, actual[key])
            else:
                yield from _differences(expected[key], actual[key], inner, depth - 1, casefold=casefold)
    elif depth and is_list(expected) and is_list(actual) and len(expected) == len(actual):
        for index, (mine, its) in enumerate(zip(expected, actual, strict=True)):
            yield from _differences(mine, its, f"{path}[{index}]", depth - 1, casefold=casefold)
    elif not _same(expected, actual, casefold=casefold):
        yield Difference(path, expected, actual)


def may_be_absent(expected: JsonValue) -> bool:
    """Whether an expected value is a matcher that is satisfied where there is nothing."""
    return bool(dollar_keys(expected)) and matches(expected, matcher.ABSENT)


def _same(expected: Any, actual: Any, *, casefold: bool) -> bool:
    for value, other in ((expected, actual), (actual, expected)):
        if dollar_keys(value) and matches(value, other, casefold=casefold):
            return True
    if casefold and isinstance(expected, str) and isinstance(actual, str):
        return expected.casefold() == actual.casefold()
    try:
        return isinstance(expected, bool) == isinstance(actual, bool) and bool(expected == actual)
    except RecursionError:
        return False
