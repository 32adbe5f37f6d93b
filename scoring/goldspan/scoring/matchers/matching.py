"""Whether a value matches a golden's value by itself, for those who show both and judge neither."""

from __future__ import annotations

from goldspan.scoring.argument_rules import Rule, Strategy
from goldspan.scoring.comparison import comparison
from goldspan.scoring.matchers.judging import score_of
from goldspan.scoring.matchers.matcher import ABSENT
from goldspan.scoring.matchers.reading import Reader
from goldspan.scoring.sessions import JsonValue

__all__ = ["ABSENT", "matches"]


def matches(value: JsonValue, actual: JsonValue, *, casefold: bool = False) -> bool:
    """Return whether a golden's value, a matcher or plain, matches an actual one, or `ABSENT`, without a criterion.

    What cannot be told, such as where a result is meant, and what is no right matcher, is no match.
    """
    reader = Reader(lambda _where, _message: None)
    expected = reader.read(value, ())
    strategy: Strategy = "casefold_exact" if casefold else "exact"
    return not reader.count and score_of(expected, actual, Rule(strategy, comparison(strategy)), None) == 1
