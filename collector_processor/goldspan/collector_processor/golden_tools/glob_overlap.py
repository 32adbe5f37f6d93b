"""Whether two globs can match the same text, and which: what makes two patterns of a golden set ambiguous."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

_ANY = "*"
_EXAMPLES = "x0aZ-_.~1b"
"""Characters tried where a pattern leaves one open."""


def common_text(one: str, other: str) -> str | None:
    """Return some short text that both globs match, or None where there is none."""
    left, right = _tokens(one), _tokens(other)
    # What the rest of both globs has in common, from their ends: places in both, and a text that starts there.
    found: list[list[str | None]] = [[None] * (len(right) + 1) for _ in range(len(left) + 1)]
    found[len(left)][len(right)] = ""
    for first in range(len(left), -1, -1):
        for second in range(len(right), -1, -1):
            if found[first][second] is None:
                found[first][second] = _shortest(_ways(left, right, first, second, found))
    return found[0][0]


def _ways(
    left: Sequence[str], right: Sequence[str], first: int, second: int, found: Sequence[Sequence[str | None]]
) -> list[str]:
    mine = left[first] if first < len(left) else None
    its = right[second] if second < len(right) else None
    ways: list[str | None] = []
    if mine == _ANY:
        ways.append(found[first + 1][second])
        if its is not None and its != _ANY:
            ways.append(_before(_character(its), found[first][second + 1]))
    if its == _ANY:
        ways.append(found[first][second + 1])
        if mine is not None and mine != _ANY:
            ways.append(_before(_character(mine), found[first + 1][second]))
    if mine is not None and its is not None and _ANY not in {mine, its}:
        ways.append(_before(_character(mine, its), found[first + 1][second + 1]))
    return [way for way in ways if way is not None]


def _before(character: str | None, rest: str | None) -> str | None:
    return None if character is None or rest is None else character + rest


def _shortest(texts: Sequence[str]) -> str | None:
    return min(texts, key=lambda text: (len(text), text), default=None)


def _character(*tokens: str) -> str | None:
    """Return a character that all of these match."""
    own = "".join(token for token in tokens) + _EXAMPLES
    return next((one for one in own if all(fnmatchcase(one, token) for token in tokens)), None)


def _tokens(glob: str) -> list[str]:
    """Cut a glob into parts that match one character each, and `*`."""
    tokens: list[str] = []
    place = 0
    while place < len(glob):
        end = place + 1
        if glob[place] == "[":
            # As fnmatch reads it: a bracket right at the start, also behind `!`, is a member.
            close = glob.find("]", place + 2 + (glob[place + 1 : place + 2] == "!"))
            end = close + 1 if close > 0 else end
        token = glob[place:end]
        if not (token == _ANY and tokens and tokens[-1] == _ANY):
            tokens.append(token)
        place = end
    return tokens
