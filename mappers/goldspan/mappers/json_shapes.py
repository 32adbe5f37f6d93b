"""What a value of parsed JSON is, in terms that a type checker follows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Tell JSON objects; keys of parsed JSON are strings."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Tell JSON arrays."""
    return isinstance(value, list)


def is_sequence(value: object) -> TypeGuard[list[Any] | tuple[Any, ...]]:
    """Tell arrays, which the SDK keeps as tuples."""
    return isinstance(value, list | tuple)


def is_mapping(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Tell objects, which the SDK may keep as read-only mappings."""
    return isinstance(value, Mapping)
