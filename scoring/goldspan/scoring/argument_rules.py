"""Rules for arguments: what a criterion says of one tool's arguments and of parts of them, and what then holds.

A rule is for a whole argument (`unit`) or, by a JSON Pointer, for a part of one (`/address/zip`). The more specific
one wins: a part's own rule, then that of the nearest part around it, then that of its argument.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Literal, NamedTuple, get_args

from pydantic import Field, GetJsonSchemaHandler, StrictBool, field_validator, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from goldspan.scoring.comparison import Comparison, comparison
from goldspan.scoring.criterion_fields import Block, FrozenMapping, Tolerance, Weight, nothing
from goldspan.scoring.pointers import Steps, steps_of
from goldspan.scoring.rendering import shown

Strategy = Literal["exact", "casefold_exact", "numeric", "contains", "similarity"]
"""How an expected value is compared with an actual one."""


class ArgumentRule(Block):
    """How one argument of one tool, or a part of it, is judged; a strategy's name alone is `{strategy: name}`."""

    strategy: Strategy | None = None
    """None: that of the nearest rule around a part, else `per_arg_strategies`, else `default_strategy`."""
    tolerance: Tolerance | None = None
    """Absolute and inclusive, for `numeric`; None: as around a part, else the criterion's `numeric_tolerance`."""
    relative_tolerance: Tolerance | None = None
    """For `numeric`: a share of the expected number. The wider of the two tolerances holds."""
    weight: Weight | None = None
    """How much an argument counts in the mean of its call; None: 1. A part that has a weight counts for so much in its
    argument, the rest of which counts 1."""
    required: StrictBool | None = None
    """Whether `match_mode: name_and_required_args` asks for it. None: for arguments, not for parts of them."""

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: object) -> object:
        return {"strategy": value} if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [{"enum": list(get_args(Strategy))}, handler(schema)]}


class ToolRules(Block):
    """How the arguments of one tool are judged."""

    args: FrozenMapping[ArgumentRule] = Field(default_factory=nothing)
    """By argument name, or by the JSON Pointer of a part: `/address/zip`, `/stops/0`."""

    @field_validator("args")
    @classmethod
    def _paths_can_be_read(cls, value: Mapping[str, ArgumentRule]) -> Mapping[str, ArgumentRule]:
        written: dict[Steps, str] = {}
        for name in value:
            other = written.setdefault(place_of(name), name)
            if other != name:
                raise ValueError(f"{shown(other)} and {shown(name)} are one argument: leave one of them")
        return value


NO_RULE = ArgumentRule()


def place_of(name: str) -> Steps:
    """Return the argument and the way into it that a rule is for. Raises ValueError for what is no JSON Pointer."""
    return steps_of(name) if name.startswith("/") else (name,)


class Rule(NamedTuple):
    """What holds for one argument of one tool, or for a part of it, once the criterion is resolved."""

    strategy: Strategy
    compare: Comparison
    weight: Fraction = Fraction(1)
    points: int | Fraction = 1
    """The weight, as an integer where it is one: sums of these are quick."""
    required: bool = True
    tolerance: Fraction = Fraction(0)
    relative_tolerance: Fraction = Fraction(0)
    parts: Mapping[str, Rule] = {}
    """By key or index: rules for parts, and for what lies on the way to them."""
    counts: bool = False
    """Of a part: it has a weight of its own."""
    by_leaf: bool = False
    """The criterion's `argument_score` is `mean`: every part counts by itself."""
    needed: tuple[Steps, ...] = ()
    """The ways to parts without which a call may not be aligned."""

    def by(self, strategy: Strategy) -> Rule:
        """Return the same for another strategy, for all parts alike."""
        if strategy == self.strategy and not (self.parts or self.counts):
            return self
        compare = comparison(strategy, tolerance=self.tolerance, relative_tolerance=self.relative_tolerance)
        return self._replace(strategy=strategy, compare=compare, parts={}, counts=False, needed=())

    def inside(self) -> Rule:
        """Return what holds for parts without a rule of their own: numbers and texts in a value compare exactly."""
        return self.by("exact" if self.strategy in ("numeric", "similarity") else self.strategy)

    def element(self) -> Rule:
        """Return what holds for elements of a list that are looked for in another: equality, under `contains` too."""
        return self.by("casefold_exact" if self.strategy == "casefold_exact" else "exact")


class Around(NamedTuple):
    """What the nearest rule around says, or the criterion where there is none."""

    strategy: Strategy
    tolerance: Fraction
    relative_tolerance: Fraction = Fraction(0)

    def within(self, rule: ArgumentRule) -> Around:
        """Return what a rule makes of it."""
        tolerance, relative = rule.tolerance, rule.relative_tolerance
        return Around(
            rule.strategy or self.strategy,
            self.tolerance if tolerance is None else Fraction(tolerance),
            self.relative_tolerance if relative is None else Fraction(relative),
        )


Beneath = Sequence[tuple[Steps, ArgumentRule]]
"""Rules for parts, each with the way that is left to go to its part."""


def resolved(own: ArgumentRule, beneath: Beneath, around: Around, *, by_leaf: bool = False) -> Rule:
    """Resolve the rule for an argument, and those for its parts."""
    rule = _resolved(own, beneath, around.within(own), by_leaf=by_leaf)
    needed = tuple(way for way, one in beneath if one.required)
    return rule._replace(required=own.required is not False, needed=needed, counts=False)


def _resolved(own: ArgumentRule, beneath: Beneath, said: Around, *, by_leaf: bool) -> Rule:
    weight = Fraction(1 if own.weight is None else own.weight)
    return Rule(
        said.strategy,
        comparison(said.strategy, tolerance=said.tolerance, relative_tolerance=said.relative_tolerance),
        weight,
        weight.numerator if weight.denominator == 1 else weight,
        tolerance=said.tolerance,
        relative_tolerance=said.relative_tolerance,
        parts={
            step: _part([(way[1:], rule) for way, rule in beneath if way[0] == step], said, by_leaf=by_leaf)
            for step in dict.fromkeys(way[0] for way, _ in beneath)
        },
        counts=own.weight is not None,
        by_leaf=by_leaf,
    )


def _part(rules: Beneath, around: Around, *, by_leaf: bool) -> Rule:
    own = next((rule for way, rule in rules if not way), None)
    deeper = [(way, rule) for way, rule in rules if way]
    if own is not None:
        return _resolved(own, deeper, around.within(own), by_leaf=by_leaf)
    on_the_way = _resolved(NO_RULE, deeper, around, by_leaf=by_leaf)
    return on_the_way.inside()._replace(parts=on_the_way.parts)
