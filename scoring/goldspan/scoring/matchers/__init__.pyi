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
