"""`{$approx: 21.5, tolerance: 0.1}`: a number that is near enough."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from goldspan.scoring.comparison import ZERO, numeric
from goldspan.scoring.json_values import shown
from goldspan.scoring.matchers.matcher import ABSENT, Expected, Matcher, MatcherKind, MatcherReader, Options, ValuePath
from goldspan.scoring.sessions import JsonValue
from goldspan.scoring.type_guards import is_number

if TYPE_CHECKING:
    from goldspan.scoring.call_history import EarlierCalls
    from goldspan.scoring.rules import Rule


@dataclass(frozen=True, slots=True)
class Approx(Matcher):
    """Matches numbers, and strings that hold one, as the strategy `numeric` does; the wider tolerance holds."""

    number: int | float
    tolerance: Fraction | None
    """None, with `relative` too: those of the criterion."""
    relative: Fraction | None

    def score(self, actual: JsonValue, rule: Rule, earlier: EarlierCalls | None) -> Fraction | None:  # noqa: ARG002
        """Return 1 for a number within the tolerance."""
        if actual is ABSENT:
            return ZERO
        absolute, relative = self.tolerance, self.relative
        if absolute is None and relative is None:
            absolute, relative = rule.tolerance, rule.relative_tolerance
        return numeric(self.number, actual, tolerance=absolute or ZERO, relative_tolerance=relative or ZERO)


def _read(value: JsonValue, options: Options, where: ValuePath, reader: MatcherReader) -> Expected:
    if not is_number(value):
        reader.mistake((*where, "$approx"), f"found {shown(value)}, expected a number")
        return None
    limits: dict[str, Fraction] = {}
    for name, limit in options.items():
        if is_number(limit) and limit >= 0:
            limits[name] = Fraction(str(limit))
        else:
            reader.mistake((*where, name), f"found {shown(limit)}, expected a number, 0 or more")
    return Approx(value, limits.get("tolerance"), limits.get("relative"))


_LIMIT = {"type": "number", "minimum": 0}
KINDS = (
    MatcherKind(
        "$approx",
        "a number at most `tolerance` away, or at most the share `relative` of it; by default as the criterion says",
        _read,
        {"type": "number"},
        {"tolerance": _LIMIT, "relative": _LIMIT},
    ),
)
