"""An expected call and its criterion, worked out once: what is asked of each argument.

Most calls are *plain*: each argument is a JSON value that is right or wrong as a whole, and extra ones cost nothing.
What such a call is worth in the place of another is a number of points, an integer.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

from goldspan.scoring.argument_rules import Rule
from goldspan.scoring.comparison import ONE, SCALARS, Comparison
from goldspan.scoring.criterion import Criterion
from goldspan.scoring.goldens.models import ExpectedCall
from goldspan.scoring.matchers.judging import has_parts
from goldspan.scoring.matchers.matcher import Expected
from goldspan.scoring.matchers.presence import Ignore
from goldspan.scoring.sessions import JsonValue

NOT_ALIGNED = -1
"""In the place of points: the call may not stand for the expected one."""

_RIGHT_OR_WRONG = frozenset({"exact", "casefold_exact", "numeric", "contains"})


class Argument(NamedTuple):
    """An expected argument that counts."""

    name: str
    value: Expected
    rule: Rule
    special: bool
    """It is more than plain JSON to be compared as a whole."""


class _Check(NamedTuple):
    name: str
    value: JsonValue
    kind: type | None
    """That of a scalar compared exactly: actual values of this type need no more than `==`, and others of a scalar's
    type that are not even `==` differ."""
    compare: Comparison
    points: int
    needed: bool
    """A call without it may not be aligned."""


class LeftOutError(Exception):
    """An argument was left out, and its tool may declare a default for it."""


class PlainCall:
    """An expected call that is plain."""

    __slots__ = ("_by_values", "_checks", "all_or_nothing", "total")

    def __init__(self, arguments: list[Argument], criterion: Criterion, total: int) -> None:
        self.total = total
        """The points of a call that is right."""
        self.all_or_nothing = criterion.call_score == "all"
        self._by_values = criterion.match_mode == "name_and_args"
        by_keys = criterion.match_mode == "name_and_required_args"
        self._checks = tuple(
            _Check(
                name,
                value,
                type(value) if rule.strategy == "exact" and type(value) in SCALARS else None,
                rule.compare,
                int(rule.points),
                self._by_values or (by_keys and rule.required),
            )
            for name, value, rule, _ in arguments
        )

    def points(self, actual: Mapping[str, JsonValue], *, defaults: bool) -> int:
        """Return what the arguments of a call of the same name are worth, or `NOT_ALIGNED`.

        Raises LeftOutError where that depends on a default, if `defaults` says that there may be some.
        """
        points = 0
        for name, value, kind, compare, worth, needed in self._checks:
            if name in actual:
                found = actual[name]
                if type(found) is kind:
                    if found == value:
                        points += worth
                elif (kind is None or type(found) not in SCALARS or found == value) and compare(value, found) is ONE:
                    points += worth
            elif defaults:
                raise LeftOutError
            elif needed:
                return NOT_ALIGNED
        if self._by_values and (points < self.total or len(actual) > len(self._checks)):
            return NOT_ALIGNED
        return points


class CompiledCall(NamedTuple):
    """What is asked of each argument that counts, what they are worth together, and the same as a plain call."""

    arguments: list[Argument]
    total: int | Fraction
    plain: PlainCall | None


def compiled_call(expected: ExpectedCall, criterion: Criterion) -> CompiledCall:
    """Return what an expected call asks for under a criterion."""
    return expected.kept(criterion, _compiled)


def _compiled(expected: ExpectedCall, criterion: Criterion) -> CompiledCall:
    rules = criterion.rules(expected.name)
    as_a_whole = expected.values is expected.args and not rules.reach_inside
    arguments = [
        Argument(name, value, rule := rules[name], not as_a_whole and has_parts(value, rule))
        for name, value in expected.values.items()
        if not isinstance(value, Ignore)
    ]
    total = sum([one.rule.points for one in arguments])
    plain = (
        isinstance(total, int)
        and len(arguments) == len(expected.args)
        and criterion.extra_arguments == "report"
        and not any(one.special or one.rule.needed or one.rule.strategy not in _RIGHT_OR_WRONG for one in arguments)
    )
    return CompiledCall(arguments, total, PlainCall(arguments, criterion, int(total)) if plain else None)
