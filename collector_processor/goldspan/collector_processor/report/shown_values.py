"""How values are shown: on one line, cut to the room there is, and the innermost places where two of them differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len, set_cell_size

from goldspan.collector_processor.replay.wording import printable
from goldspan.scoring.json_values import is_dict, is_list, plain
from goldspan.scoring.matchers.kinds.literal import dollar_keys
from goldspan.scoring.matchers.matcher import ABSENT, Absence
from goldspan.scoring.matchers.reading import matches
from goldspan.scoring.sessions import JsonValue

_DEEPEST = 12


@dataclass(frozen=True, slots=True)
class ValueDifference:
    """The innermost place where two values part, as in `address.zip` or `stops[2]`."""

    path: str
    expected: JsonValue | Absence
    """`ABSENT` where there is nothing, which is not JSON's null."""
    actual: JsonValue | Absence


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


def differences(expected: JsonValue, actual: JsonValue, *, casefold: bool = False) -> tuple[ValueDifference, ...]:
    """Find the innermost places where two JSON values differ; none where they are equal."""
    return tuple(_differences(expected, actual, "", _DEEPEST, casefold=casefold))


def _differences(expected: Any, actual: Any, path: str, depth: int, *, casefold: bool) -> Iterator[ValueDifference]:
    if depth and is_dict(expected) and is_dict(actual) and not dollar_keys(expected):
        for key in expected | actual:
            inner = f"{path}.{key}" if path else key
            if key not in actual:
                if may_be_absent(expected[key]):
                    continue
                yield ValueDifference(inner, expected[key], ABSENT)
            elif key not in expected:
                yield ValueDifference(inner, ABSENT, actual[key])
            else:
                yield from _differences(expected[key], actual[key], inner, depth - 1, casefold=casefold)
    elif depth and is_list(expected) and is_list(actual) and len(expected) == len(actual):
        for index, (mine, its) in enumerate(zip(expected, actual, strict=True)):
            yield from _differences(mine, its, f"{path}[{index}]", depth - 1, casefold=casefold)
    elif not _same(expected, actual, casefold=casefold):
        yield ValueDifference(path, expected, actual)


def may_be_absent(expected: JsonValue) -> bool:
    """Whether an expected value is a matcher that is satisfied where there is nothing."""
    return bool(dollar_keys(expected)) and matches(expected, ABSENT)


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
