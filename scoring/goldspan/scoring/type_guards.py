"""What a value of unknown type is, for the code and for type checkers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, TypeGuard

_NO_MAPPING = (str, int, float, bytes, list, tuple, type(None))
_NO_SEQUENCE = (str, int, float, bytes, dict, type(None))
# Abstract classes take long to check, so common types are checked first.


def is_mapping(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Return whether a value is an object: a dict, or a mapping such as the read-only ones of the SDK."""
    return isinstance(value, dict) or (not isinstance(value, _NO_MAPPING) and isinstance(value, Mapping))


def is_dict(value: object) -> TypeGuard[dict[str, Any]]:
    """Return whether a value is a dict; string keys are assumed."""
    return isinstance(value, dict)


def is_sequence(value: object) -> TypeGuard[Sequence[Any]]:
    """Return whether a value is an array: a list, a tuple or another sequence, but no text."""
    return isinstance(value, list | tuple) or (not isinstance(value, _NO_SEQUENCE) and isinstance(value, Sequence))


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Return whether a value is a list; a tuple is not."""
    return isinstance(value, list)


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value is a JSON number; booleans, NaN and infinities are not."""
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and (isinstance(value, int) or isfinite(value))
    )
