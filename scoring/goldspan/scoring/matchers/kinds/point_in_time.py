"""`{$datetime: "2026-03-01T09:00:00Z", tolerance: 60s}`: the same point in time, however it is written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from goldspan.scoring.comparison import ONE, ZERO
from goldspan.scoring.instants import Instant, instant_of
from goldspan.scoring.json_values import is_number, shown
from goldspan.scoring.matchers.matcher import ABSENT, Expected, Matcher, MatcherKind, MatcherReader, Options, ValuePath
from goldspan.scoring.sessions import JsonValue

if TYPE_CHECKING:
    from goldspan.scoring.argument_rules import ValueRule
    from goldspan.scoring.call_context import EarlierCalls

_DURATION = r"[0-9]{1,9}(\.[0-9]{1,9})?\s*(ms|s|m|h|d)"
_UNITS = {"ms": Fraction(1, 1_000), "s": Fraction(1), "m": Fraction(60), "h": Fraction(3_600), "d": Fraction(86_400)}


@dataclass(frozen=True, slots=True)
class DateTime(Matcher):
    """Matches instants at most a tolerance away."""

    instant: Instant
    tolerance: Fraction
    """In seconds, inclusive."""

    def score(self, actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None) -> Fraction | None:  # noqa: ARG002
        """Return 1 for an instant within the tolerance."""
        found = None if actual is ABSENT else instant_of(actual)
        return ONE if found is not None and found.seconds_from(self.instant) <= self.tolerance else ZERO


def _read(value: JsonValue, options: Options, where: ValuePath, reader: MatcherReader) -> Expected:
    instant, tolerance = instant_of(value), _seconds(options.get("tolerance", 0))
    if instant is None:
        expected = 'ISO 8601 such as "2026-03-01T09:00:00Z", or Unix time'
        reader.mistake((*where, "$datetime"), f"found {shown(value)}, expected {expected}")
    if tolerance is None:
        expected = "seconds, as a number or as 500ms, 60s, 5m, 1h, 1d"
        reader.mistake((*where, "tolerance"), f"found {shown(options['tolerance'])}, expected {expected}")
    return None if instant is None or tolerance is None else DateTime(instant, tolerance)


def _seconds(value: JsonValue) -> Fraction | None:
    if is_number(value):
        return Fraction(str(value)) if value >= 0 else None
    hit = re.fullmatch(_DURATION, value.strip(), re.ASCII) if isinstance(value, str) else None
    return (
        Fraction(value.strip().removesuffix(hit[2]).rstrip()) * _UNITS[hit[2]]
        if hit and isinstance(value, str)
        else None
    )


KINDS = (
    MatcherKind(
        "$datetime",
        "the same instant: ISO 8601 text or Unix time, at most `tolerance` away (seconds, or text such as 5m)",
        _read,
        {"type": ["string", "number"]},
        {
            "tolerance": {
                "anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": rf"^\s*{_DURATION}\s*$"}]
            }
        },
    ),
)
