"""The criterion: how expected and actual calls are aligned, compared and aggregated.

Names and defaults follow ADK's `ToolParameterMatchCriterion` as proposed in ADK issue 5643. Every field is
accepted in snake_case and in camelCase; an unknown field or value is an error.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self, TypeVar, get_args

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

from goldspan.scoring.comparison import (
    ONE,
    SIMILARITY_IS_MISSING,
    Strategy,
    ValueRule,
    comparison,
    similarity_is_available,
)
from goldspan.scoring.errors import CriterionError
from goldspan.scoring.field_docstrings import describe_fields
from goldspan.scoring.json_values import Steps, is_mapping, shown, steps_of
from goldspan.scoring.tool_effects import ToolEffect, tool_effect
from goldspan.scoring.verdict import MAIN_METRIC

# The parts of a criterion: number types, base model, messages.

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

    # Agents import this module: what checks a model is built for the first criterion that sets something.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, json_schema_extra=_schema_of_block)

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
        case "tuple_type" | "string_type":
            return f"found {found}, expected {'a list of names' if detail['type'] == 'tuple_type' else 'text'}"
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


class ArgumentRule(Block):
    """How an argument or a part of it is compared; the name of a strategy is short for `{strategy: name}`."""

    strategy: Strategy | None = None
    """None: that of the nearest rule around a part, else `per_arg_strategies`, else `default_strategy`."""
    tolerance: Tolerance | None = None
    """Absolute and inclusive, for `numeric`; None: as around a part, else the criterion's `numeric_tolerance`."""
    relative_tolerance: Tolerance | None = None
    """For `numeric`: a share of the expected number. The wider of the two tolerances holds."""
    weight: Tolerance | None = None
    """How much an argument counts in the mean of its call; None: 1. 0: it is ignored. A part that has a weight counts
    for so much in its argument, the rest of which counts 1."""
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


NO_RULE = ArgumentRule.model_construct()


def place_of(name: str) -> Steps:
    """Return the steps of a rule's name: the argument, then the path in it. Raises ValueError for a wrong pointer."""
    return steps_of(name) if name.startswith("/") else (name,)


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


# The criterion.

_UNWRITTEN_THRESHOLD = Decimal("0.8")
"""The threshold that digests leave out: it was the default once, and a criterion keeps its digest."""

MatchMode = Literal["name_only", "name_and_required_args", "name_and_args"]
"""Which pairs of an expected and an actual call of one name may be aligned."""


class RulesOfTool(dict[str, ValueRule]):
    """The rules for the arguments of a tool, by name; each is resolved on first use."""

    def __init__(self, criterion: Criterion, tool: str) -> None:
        super().__init__()
        self._criterion = criterion
        self.reach_inside = criterion.argument_score == "mean"
        """Whether a rule is for parts of arguments."""
        self._own: dict[str, ArgumentRule] = {}
        self._beneath: dict[str, list[tuple[Steps, ArgumentRule]]] = {}
        given = criterion.tools.get(tool)
        for name, rule in given.args.items() if given else ():
            argument, *way = place_of(name)
            if way:
                self.reach_inside = True
                self._beneath.setdefault(argument, []).append((tuple(way), rule))
            else:
                self._own[argument] = rule

    def __missing__(self, argument: str) -> ValueRule:
        criterion = self._criterion
        around = Around(criterion.strategy_of(argument), Fraction(criterion.numeric_tolerance))
        self[argument] = resolved(
            self._own.get(argument, NO_RULE),
            self._beneath.get(argument, ()),
            around,
            by_leaf=criterion.argument_score == "mean",
        )
        return self[argument]


class Criterion(Block):
    """How expected and actual calls are aligned, compared and aggregated.

    `Criterion(ordered=False)`, or `Criterion.parse({"matchMode": "name_only"})` for untyped data. Raises
    CriterionError, which names every unknown field and wrong value.
    """

    match_mode: MatchMode = "name_and_required_args"
    """`name_only`: the same name is enough. `name_and_required_args`: and every expected argument is there.
    `name_and_args`: and no other argument, and every value is a match."""
    default_strategy: Strategy = "exact"
    """How an argument is compared that no rule is about."""
    per_arg_strategies: FrozenMapping[Strategy] = Field(default_factory=nothing)
    """By argument name, whatever the tool."""
    tools: FrozenMapping[ToolRules] = Field(default_factory=nothing)
    """By tool name; beats `per_arg_strategies`."""
    numeric_tolerance: Tolerance = Decimal(0)
    """Absolute and inclusive, for `numeric`."""
    ordered: StrictBool = True
    """Calls are aligned in the order of the golden."""
    parallel_calls: Literal["any_order", "in_order"] = "any_order"
    """Whether order is free among actual calls that were asked for at once."""
    scope: Literal["turn", "session"] = "turn"
    """`session`: the calls of all turns are one list."""
    argument_score: Literal["all", "mean"] = "all"
    """`all`: an object or a list is right as a whole, or wrong. `mean`: it scores the share of its leaves that are
    right; what the expected value does not have counts as wrong leaves."""
    call_score: Literal["mean", "all"] = "mean"
    """`all`: 1 if every argument is a match, else 0."""
    turn_score: Literal["mean", "all"] = "mean"
    """`all`: 1 if every call scores 1, else 0."""
    extra_arguments: Literal["report", "penalize"] = "report"
    """`penalize`: each argument that was not expected counts as a wrong one."""
    extra_calls: Literal["report", "penalize"] = "report"
    """`penalize`: each call that was not expected counts as a wrong one."""
    other_writes: Literal["report", "forbid"] = "report"
    """`forbid`: a call of a tool that writes fails its turn if it was not expected; calls that read may be made."""
    repeated_writes: Literal["fail", "report"] = "fail"
    """`fail`: a call of a tool that writes fails its turn if it was not expected, and repeats one that succeeded."""
    reads: tuple[str, ...] = ()
    """Globs of tools that only read; then all others write whose names do not say that they read."""
    writes: tuple[str, ...] = ()
    """Globs of the tools that write; without `reads` all others read. Without both, names of tools decide."""
    failed_calls: Literal["count", "ignore"] = "count"
    """`ignore`: a call that failed cannot stand for an expected one."""
    rejected_requests: Literal["report", "count"] = "report"
    """`count`: a request that was never executed may stand for an expected call."""
    missing_turns: Literal["zero", "not_evaluated"] = "zero"
    """`zero`: the score of an expected turn that did not happen."""
    turn_join: Literal["auto", "key", "index"] = "auto"
    """How turns find each other: by `key` (turn id, user text), by `index`, or by key where there are keys."""
    equality: Literal["json"] = "json"
    """1 equals 1.0, true does not equal 1, NaN equals nothing, null is not absent."""
    threshold: Threshold = Decimal(1)
    """The least score of a turn or a session that passes; a call passes at 1."""

    if not TYPE_CHECKING:  # checkers know the constructor that pydantic derives from the fields

        def __init__(self, **fields: Any) -> None:
            try:
                super().__init__(**fields)
            except ValidationError as error:
                found = mistakes(
                    error, {1: Criterion.model_fields, 3: ToolRules.model_fields, 5: ArgumentRule.model_fields}
                )
                lines = (f"{path}: {message}" if path else message for path, message in found)
                raise CriterionError("\n".join(lines), found) from None

    @classmethod
    def parse(cls, value: Criterion | Mapping[str, Any] | None) -> Criterion:
        """Return the criterion a mapping describes; None is the default one.

        Besides the fields themselves, the mapping may be `{metric: tool_parameter_match, criterion: ...}` as in ADK
        issue 5643, or ADK's `{criteria: {tool_parameter_match: ...}}`; a number there is the threshold.

        Raises CriterionError, which names every unknown field and wrong value.
        """
        if isinstance(value, Criterion):
            return value
        where, fields, wrong = criterion_in({} if value is None else value)
        found = [(".".join(path), message) for path, message in wrong]
        place = ".".join(where)
        criterion = None
        if not is_mapping(fields):
            found.append((place, f"found {shown(fields)}, expected a mapping of the fields of a criterion"))
        else:
            try:
                criterion = cls(**{str(key): item for key, item in fields.items()})
            except CriterionError as error:
                found += ((".".join(filter(None, (place, path))), message) for path, message in error.mistakes)
        if criterion is None or found:
            lines = (f"{path}: {message}" if path else message for path, message in found)
            raise CriterionError("\n".join(lines), tuple(found))
        return criterion

    @model_validator(mode="after")
    def _can_be_done(self) -> Self:
        for tool, rules in self.tools.items():
            for name, given in rules.args.items():
                strategy = self._strategy_at(rules, name)
                for field in ("tolerance", "relative_tolerance"):
                    if getattr(given, field) is not None and strategy != "numeric":
                        raise ValueError(
                            f"tools.{tool}.args.{name}.{field}: the strategy is `{strategy}`, and only `numeric` "
                            "has a tolerance: add `strategy: numeric`"
                        )
        of_tools = (rule.strategy for rules in self.tools.values() for rule in rules.args.values())
        used = {self.default_strategy, *self.per_arg_strategies.values(), *of_tools}
        if "similarity" in used and not similarity_is_available():
            raise ValueError(SIMILARITY_IS_MISSING)
        return self

    def rules(self, tool: str) -> RulesOfTool:
        """Return the rules for a tool. `tools` overrides `per_arg_strategies`, which overrides `default_strategy`."""
        known = self._rules_of
        if tool not in known:
            known[tool] = RulesOfTool(self, tool)
        return known[tool]

    @cached_property
    def _rules_of(self) -> dict[str, RulesOfTool]:
        return {}

    def effect_of(self, tool: str) -> ToolEffect:
        """Return whether a tool reads or writes, as far as that is known."""
        return tool_effect(tool, self.reads, self.writes)

    def strategy_of(self, argument: str) -> Strategy:
        """Return the strategy for an argument name, for any tool."""
        return self.per_arg_strategies.get(argument) or self.default_strategy

    def _strategy_at(self, rules: ToolRules, name: str) -> Strategy:
        """Return the strategy for an argument or a part: its own, or that of the nearest enclosing rule."""
        by_place: dict[Steps, Strategy | None] = {place_of(key): rule.strategy for key, rule in rules.args.items()}
        place = place_of(name)
        for length in range(len(place), 0, -1):
            if strategy := by_place.get(place[:length]):
                return strategy
        return self.strategy_of(place[0])

    @cached_property
    def digest(self) -> str:
        """12 hex digits that are the same for equal criteria, whatever their spelling."""
        fields = self.model_dump(exclude_defaults=True) | {"threshold": self.threshold}
        if self.threshold == _UNWRITTEN_THRESHOLD:
            del fields["threshold"]
        text = json.dumps(_canonical(fields), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @cached_property
    def exact_threshold(self) -> Fraction:
        """The threshold as a fraction, to compare scores with."""
        return ONE if self.threshold == 1 else Fraction(self.threshold)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:  # noqa: ARG002
        """Return the criterion with some fields replaced; unlike pydantic's own, checked. Raises CriterionError."""
        return type(self)(**{name: getattr(self, name) for name in self.model_fields_set} | dict(update or {}))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return self

    def __reduce__(self) -> tuple[Callable[[Mapping[str, Any]], Criterion], tuple[dict[str, Any]]]:
        return Criterion.parse, (self.model_dump(exclude_unset=True),)

    def __eq__(self, other: object) -> bool:
        return self.digest == other.digest if isinstance(other, Criterion) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)


def criterion_in(document: object) -> tuple[Steps, object, tuple[tuple[Steps, str], ...]]:
    """Return the way to the criterion in a document of any form, the criterion, and the document's own mistakes.

    A number stands for the threshold, null for the default. The criterion itself is not checked.
    """
    if is_mapping(document) and "criteria" in document:
        metrics = document["criteria"]
        if is_mapping(metrics) and MAIN_METRIC in metrics:
            return ("criteria", MAIN_METRIC), _whole(metrics[MAIN_METRIC]), ()
        message = f"found {shown(metrics)}, expected an object with {MAIN_METRIC}"
        return ("criteria",), {}, ((("criteria",), message),)
    if is_mapping(document) and "metric" in document:
        unknown = [str(name) for name in document if name not in ("metric", "criterion")]
        wrong: list[tuple[Steps, str]] = [
            ((name,), "unknown field: only `criterion` goes with `metric`") for name in unknown
        ]
        if document["metric"] != MAIN_METRIC:
            wrong.insert(0, (("metric",), f"found {shown(document['metric'])}, expected {MAIN_METRIC}"))
        return ("criterion",), _whole(document.get("criterion")), tuple(wrong)
    return (), document, ()


def _whole(criterion: object) -> object:
    """Return a criterion that may be its threshold alone, or null."""
    if criterion is None:
        return {}
    is_number = isinstance(criterion, int | float) and not isinstance(criterion, bool)
    return {"threshold": criterion} if is_number else criterion


def _canonical(value: object) -> object:
    if isinstance(value, Decimal):
        return str(Fraction(value))
    if is_mapping(value):
        return {key: _canonical(item) for key, item in value.items()}
    return value


DEFAULT = Criterion.model_construct()
"""The criterion without any setting."""
