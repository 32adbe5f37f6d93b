"""`{$any_of: [Paris, "Paris, France"]}`: the best of several expected values counts."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from goldspan.scoring.comparison import ZERO
from goldspan.scoring.json_values import shown
from goldspan.scoring.matchers.matcher import VALUE, Expected, Matcher, MatcherKind, MatcherReader, Options, ValuePath
from goldspan.scoring.matchers.value_score import score_of
from goldspan.scoring.sessions import JsonValue
from goldspan.scoring.type_guards import is_sequence

if TYPE_CHECKING:
    from goldspan.scoring.call_history import EarlierCalls
    from goldspan.scoring.rules import Rule


@dataclass(frozen=True, slots=True)
class AnyOf(Matcher):
    """Matches what one of its values matches."""

    values: tuple[Expected, ...]

    @property
    def may_be_absent(self) -> bool:
        """Whether one of its values may."""
        return any(isinstance(value, Matcher) and value.may_be_absent for value in self.values)

    def score(self, actual: JsonValue, rule: Rule, earlier: EarlierCalls | None) -> Fraction | None:
        """Return the best score; none where nothing is right and something is not known."""
        best, known = ZERO, True
        for value in self.values:
            score = score_of(value, actual, rule, earlier)
            if score is None:
                known = False
            elif score > best:
                best = score
        return best if known or best == 1 else None


def _read(value: JsonValue, _: Options, where: ValuePath, reader: MatcherReader) -> Expected:
    inside = (*where, "$any_of")
    if not is_sequence(value) or not value:
        reader.mistake(inside, f"found {shown(value)}, expected a list of at least one value")
        return None
    return AnyOf(tuple(reader.read(one, (*inside, index)) for index, one in enumerate(value)))


KINDS = (
    MatcherKind(
        "$any_of",
        "one of these values",
        _read,
        {"type": "array", "minItems": 1, "items": VALUE},
    ),
)
