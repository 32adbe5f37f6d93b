"""What the blocks of a criterion are made of: numbers as written, two spellings of a name, errors that help."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from difflib import get_close_matches
from types import MappingProxyType
from typing import Annotated, Any, TypeGuard, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel, to_snake
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from goldspan.scoring.rendering import shown

_T = TypeVar("_T")
_LARGEST_EXPONENT = 1_000


def _as_written(value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ValueError(f"found {shown(value)}, expected a number")  # noqa: TRY004 - pydantic collects ValueErrors
    number = value if isinstance(value, Decimal) else Decimal(value if isinstance(value, int) else str(value))
    if not number.is_finite() or abs(number.adjusted()) > _LARGEST_EXPONENT:
        raise ValueError(f"found {number}, expected a finite number")
    return number


def _at_least_zero(value: Decimal) -> Decimal:
    if value < 0:
        raise ValueError(f"found {value}, expected 0 or more")
    return value


def _above_zero(value: Decimal) -> Decimal:
    if value <= 0:
        raise ValueError(f"found {value}, expected more than 0")
    return value


def _share(value: Decimal) -> Decimal:
    if not 0 <= value <= 1:
        raise ValueError(f"found {value}, expected a number from 0 to 1")
    return value


def _frozen(value: Mapping[str, _T]) -> Mapping[str, _T]:
    return MappingProxyType(dict(value))


FrozenMapping = Annotated[Mapping[str, _T], AfterValidator(_frozen), PlainSerializer(dict)]
"""A mapping by name that nobody changes."""


def nothing() -> Mapping[str, Any]:
    """Return an empty one."""
    return MappingProxyType({})


_Number = PlainSerializer(float, return_type=float, when_used="json")
Tolerance = Annotated[
    Decimal,
    AfterValidator(_at_least_zero),
    BeforeValidator(_as_written),
    _Number,
    WithJsonSchema({"type": "number", "minimum": 0}),
]
"""A decimal as written, 0 or more."""
Weight = Annotated[
    Decimal,
    AfterValidator(_above_zero),
    BeforeValidator(_as_written),
    _Number,
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0}),
]
"""A decimal as written, more than 0."""
Threshold = Annotated[
    Decimal,
    AfterValidator(_share),
    BeforeValidator(_as_written),
    _Number,
    WithJsonSchema({"type": "number", "minimum": 0, "maximum": 1}),
]
"""A decimal as written, from 0 to 1."""


def _with_numbers_for_defaults(schema: dict[str, Any]) -> None:
    for field in schema.get("properties", {}).values():
        if field.get("type") == "number" and "default" in field:
            field["default"] = float(field["default"])


class Block(BaseModel):
    """A frozen mapping of known fields, each in snake_case or camelCase."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, json_schema_extra=_with_numbers_for_defaults
    )

    @model_validator(mode="before")
    @classmethod
    def _accept_camel_case(cls, value: object) -> object:
        return _in_snake_case(value, cls.model_fields) if is_mapping(value) else value


def is_mapping(value: object) -> TypeGuard[Mapping[Any, Any]]:
    """Whether a value is a mapping, for type checkers too."""
    return isinstance(value, Mapping)


def _in_snake_case(value: Mapping[Any, Any], fields: Mapping[str, object]) -> dict[Any, Any]:
    """Return the mapping with those keys in snake_case that are camelCase names of `fields`.

    Raises ValueError if a field is there in both spellings.
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
    """Return path and message of everything pydantic found; `fields_at` knows the fields of the blocks by depth."""
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
