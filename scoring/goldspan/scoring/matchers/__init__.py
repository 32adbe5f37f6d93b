"""Values of goldens that match more than themselves: `{$any_of: [...]}`, `{$regex: ...}` and their like."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goldspan.scoring.names_on_use import names_on_use

if TYPE_CHECKING:
    from goldspan.scoring.comparison import ONE, ZERO, ValueRule
    from goldspan.scoring.json_values import shown
    from goldspan.scoring.matchers.matcher import (
        ABSENT,
        Expected,
        Matcher,
        MatcherKind,
        MatcherReader,
        Options,
        ValuePath,
        escape_literal,
        score_of,
    )
    from goldspan.scoring.sessions import EarlierCalls, JsonValue

__all__ = [
    "ABSENT",
    "ONE",
    "ZERO",
    "EarlierCalls",
    "Expected",
    "JsonValue",
    "Matcher",
    "MatcherKind",
    "MatcherReader",
    "Options",
    "ValuePath",
    "ValueRule",
    "escape_literal",
    "score_of",
    "shown",
]

__getattr__, __dir__ = names_on_use(
    __name__,
    {
        "goldspan.scoring.comparison": "ONE ZERO ValueRule",
        "goldspan.scoring.json_values": "shown",
        "goldspan.scoring.matchers.matcher": (
            "ABSENT Expected Matcher MatcherKind MatcherReader Options ValuePath escape_literal score_of"
        ),
        "goldspan.scoring.sessions": "EarlierCalls JsonValue",
    },
)
