"""The parts of a criterion: number types, base model, error messages, and the rules for arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    StrictBool,
    ValidationError,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel, to_snake
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, ErrorDetails

from goldspan.scoring.comparison import Comparison, comparison
from goldspan.scoring.field_docstrings import describe_fields
from goldspan.scoring.json_values import Steps, is_mapping, shown, steps_of

_T = TypeVar("_T")
_LARGEST_EXPONENT = 1_000


def _as_written(value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ValueError(f"found {shown(value)}, expected a number")  # noqa: TRY004 - pydantic collects ValueErrors
    number = value if isinstance(value, Decimal) else Decimal(value if isinstance(value, int) else str(value))
    if not number.is_finite() or abs(number.adjusted()) > _LARGEST_EXPONENT:
        raise ValueError(f"found {number}, expected a finite number")
    return number


def _only(is_right: Callable[[Decimal], bool], expected: str) -> AfterValidator:
    def checked(value: Decimal) -> Decimal:
        if not is_right(value):
            raise ValueError(f"found {value}, expected {expected}")
        return value

    return AfterValidator(checked)


def _frozen(value: Mapping[str, _T]) -> Mapping[str, _T]:
    return MappingProxyType(dict(value))


FrozenMapping = Annotated[Mapping[str, _T], AfterValidator(_frozen), PlainSerializer(dict)]
"""A read-only mapping by name."""


def nothing() -> Mapping[str, Any]:
    """Return an empty read-only mapping."""
    return MappingProxyType({})


_Number = Annotated[Decimal, BeforeValidator(_as_written), PlainSerializer(float, return_type=float, when_used="json")]
Tolerance = Annotated[
    _Number, _only(lambda value: value >= 0, "0 or more"), WithJsonSchema({"type": "number", "minimum": 0})
]
"""A decimal as written, 0 or more."""
Weight = Annotated[
    _Number, _only(lambda value: value > 0, "more than 0"), WithJsonSchema({"type": "number", "exclusiveMinimum": 0})
]
"""A decimal as written, more than 0."""
Threshold = Annotated[
    _Number,
    _only(lambda value: 0 <= value <= 1, "a number from 0 to 1"),
    WithJsonSchema({"type": "number", "minimum": 0, "maximum": 1}),
]
"""A decimal as written, from 0 to 1."""


def _schema_of_block(schema: dict[str, Any], block: type[BaseModel]) -> None:
    """Add the fields' descriptions, and write defaults as JSON numbers."""
    describe_fields(schema, block)
    for field in schema.get("properties", {}).values():
        if field.get("type") == "number" and "default" in field:
            field["default"] = float(field["default"])


class Block(BaseModel):
    """Base class of frozen models whose fields may be in snake_case or camelCase; unknown fields are rejected."""

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_extra=_schema_of_block)

    @model_validator(mode="before")
    @classmethod
    def _accept_camel_case(cls, value: object) -> object:
        return _in_snake_case(value, cls.model_fields) if is_mapping(value) else value


def _in_snake_case(value: Mapping[Any, Any], fields: Mapping[str, object]) -> dict[Any, Any]:
    """Return the mapping with camelCase names of `fields` changed to snake_case.

    Raises ValueError if a field is present in both spellings.
    """
    named: dict[Any, Any] = {}
    for key, item in value.items():
        snake = to_snake(key) if isinstance(key, str) else key
        field = snake if snake in fields and to_camel(snake) == key else key
        if field in named:
            raise ValueError(f"`{field}` is given twice, also as `{to_camel(field)}`: leave one")
        named[field] = item
    return named


def mistakes(error: ValidationError, fields_at: Mapping[int, Mapping[str, FieldInfo]]) -> tuple[tuple[str, str], ...]:
    """Return path and message of every pydantic error; `fields_at` has the fields of the models by depth."""
    return tuple((".".join(map(str, detail["loc"])), _explained(detail, fields_at)) for detail in error.errors())


def _explained(detail: ErrorDetails, fields_at: Mapping[int, Mapping[str, FieldInfo]]) -> str:
    found, context = shown(detail["input"]), detail.get("ctx", {})
    match detail["type"]:
        case "extra_forbidden":
            return _unknown_field(str(detail["loc"][-1]), fields_at[len(detail["loc"])])
        case "literal_error":
            return f"found {found}, expected {str(context.get('expected')).replace(chr(39), '`')}"
        case "value_error":
            return str(context.get("error"))
        case "mapping_type" | "model_type" | "dict_type":
            return f"found {found}, expected a mapping"
        case "bool_type":
            return f"found {found}, expected true or false"
        case _:
            return f"found {found}: {detail['msg']}"


def _unknown_field(name: str, fields: Mapping[str, FieldInfo]) -> str:
    near = get_close_matches(to_snake(name), fields, n=1)
    if not near:
        return f"unknown field; known are {', '.join(f'`{field}`' for field in fields)}"
    values = " or ".join(f"`{value}`" for value in get_args(fields[near[0]].annotation) if isinstance(value, str))
    return f"unknown field; did you mean `{near[0]}`{f' ({values})' if values else ''}?"


# A rule is for a whole argument (`unit`) or, with a JSON Pointer, for a part of it (`/address/zip`). The most specific
# rule applies: the part's own rule, then the rule of the nearest enclosing part, then the rule of the argument.

Strategy = Literal["exact", "casefold_exact", "numeric", "contains", "similarity"]
"""How an expected value is compared with an actual value."""


class ArgumentRule(Block):
    """How an argument or a part of it is compared; the name of a strategy is short for `{strategy: name}`."""

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
    """How the arguments of a tool are compared."""

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
    """Return the steps of a rule's name: the argument, then the path in it. Raises ValueError for a wrong pointer."""
    return steps_of(name) if name.startswith("/") else (name,)


class ValueRule(NamedTuple):
    """The resolved rule for an argument or a part of it."""

    strategy: Strategy
    compare: Comparison
    weight: Fraction = Fraction(1)
    points: int | Fraction = 1
    """The weight, as an int if it is integral, since ints are faster to add."""
    required: bool = True
    tolerance: Fraction = Fraction(0)
    relative_tolerance: Fraction = Fraction(0)
    parts: Mapping[str, ValueRule] = {}
    """Rules for parts, by key or index; also for the parts that enclose them."""
    counts: bool = False
    """Whether a part has its own weight."""
    by_leaf: bool = False
    """Whether the criterion's `argument_score` is `mean`, so that every leaf counts separately."""
    needed: tuple[Steps, ...] = ()
    """Paths of the required parts: a call without them may not be aligned."""

    def by(self, strategy: Strategy) -> ValueRule:
        """Return the rule with another strategy, and without rules for parts."""
        if strategy == self.strategy and not (self.parts or self.counts):
            return self
        compare = comparison(strategy, tolerance=self.tolerance, relative_tolerance=self.relative_tolerance)
        return self._replace(strategy=strategy, compare=compare, parts={}, counts=False, needed=())

    def inside(self) -> ValueRule:
        """Return the rule for parts without their own rule: `numeric` and `similarity` become `exact`."""
        return self.by("exact" if self.strategy in ("numeric", "similarity") else self.strategy)

    def element(self) -> ValueRule:
        """Return the rule for elements to be found in a list: they are compared for equality, under `contains` too."""
        return self.by("casefold_exact" if self.strategy == "casefold_exact" else "exact")


class Around(NamedTuple):
    """The strategy and tolerances of the nearest enclosing rule, or of the criterion."""

    strategy: Strategy
    tolerance: Fraction
    relative_tolerance: Fraction = Fraction(0)

    def within(self, rule: ArgumentRule) -> Around:
        """Return these values with those of a more specific rule."""
        tolerance, relative = rule.tolerance, rule.relative_tolerance
        return Around(
            rule.strategy or self.strategy,
            self.tolerance if tolerance is None else Fraction(tolerance),
            self.relative_tolerance if relative is None else Fraction(relative),
        )


Beneath = Sequence[tuple[Steps, ArgumentRule]]
"""Rules for parts, each with the remaining path to its part."""


def resolved(own: ArgumentRule, beneath: Beneath, around: Around, *, by_leaf: bool = False) -> ValueRule:
    """Resolve the rules for an argument and its parts."""
    rule = _resolved(own, beneath, around.within(own), by_leaf=by_leaf)
    needed = tuple(way for way, one in beneath if one.required)
    return rule._replace(required=own.required is not False, needed=needed, counts=False)


def _resolved(own: ArgumentRule, beneath: Beneath, inherited: Around, *, by_leaf: bool) -> ValueRule:
    weight = Fraction(1 if own.weight is None else own.weight)
    return ValueRule(
        inherited.strategy,
        comparison(inherited.strategy, tolerance=inherited.tolerance, relative_tolerance=inherited.relative_tolerance),
        weight,
        weight.numerator if weight.denominator == 1 else weight,
        tolerance=inherited.tolerance,
        relative_tolerance=inherited.relative_tolerance,
        parts={
            step: _part([(way[1:], rule) for way, rule in beneath if way[0] == step], inherited, by_leaf=by_leaf)
            for step in dict.fromkeys(way[0] for way, _ in beneath)
        },
        counts=own.weight is not None,
        by_leaf=by_leaf,
    )


def _part(rules: Beneath, around: Around, *, by_leaf: bool) -> ValueRule:
    own = next((rule for way, rule in rules if not way), None)
    deeper = [(way, rule) for way, rule in rules if way]
    if own is not None:
        return _resolved(own, deeper, around.within(own), by_leaf=by_leaf)
    enclosing = _resolved(NO_RULE, deeper, around, by_leaf=by_leaf)
    return enclosing.inside()._replace(parts=enclosing.parts)
