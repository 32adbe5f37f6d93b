"""What a value of unknown type is, for the code and for type checkers."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, TypeGuard


def is_mapping(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Return whether a value is a mapping, such as a JSON object; string keys are assumed."""
    return isinstance(value, dict | Mapping)


def is_dict(value: object) -> TypeGuard[dict[str, Any]]:
    """Return whether a value is a dict; string keys are assumed."""
    return isinstance(value, dict)


def is_sequence(value: object) -> TypeGuard[list[Any] | tuple[Any, ...]]:
    """Return whether a value is a list or a tuple, such as a JSON array."""
    return isinstance(value, list | tuple)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Return whether a value is a list; a tuple is not."""
    return isinstance(value, list)


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value is a JSON number; booleans, NaN and infinities are not."""
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and (isinstance(value, int) or isfinite(value))
    )
