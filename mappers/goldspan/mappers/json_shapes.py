"""What a value of parsed JSON is, in terms that a type checker follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

_NO_MAPPING = (str, int, float, bytes, list, tuple, type(None))
_NO_SEQUENCE = (str, int, float, bytes, dict, type(None))


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Tell JSON objects; keys of parsed JSON are strings."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Tell JSON arrays."""
    return isinstance(value, list)


def is_sequence(value: object) -> TypeGuard[Sequence[Any]]:
    """Tell arrays, which the SDK keeps as tuples; texts are none."""
    # Abstract classes are slow to ask: what is common is told before.
    return isinstance(value, list | tuple) or (not isinstance(value, _NO_SEQUENCE) and isinstance(value, Sequence))


def is_mapping(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Tell objects, which the SDK may keep as read-only mappings."""
    return isinstance(value, dict) or (not isinstance(value, _NO_MAPPING) and isinstance(value, Mapping))
