"""What a value of unknown type is, said so that type checkers know it too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard


def is_mapping(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Say whether it is an object; that its keys are strings is taken for granted."""
    return isinstance(value, Mapping)


def is_dict(value: object) -> TypeGuard[dict[str, Any]]:
    """Say whether it is a dict itself, for systems that ask."""
    return isinstance(value, dict)


def is_sequence(value: object) -> TypeGuard[list[Any] | tuple[Any, ...]]:
    """Say whether it is a list or a tuple."""
    return isinstance(value, list | tuple)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Say whether it is a list itself, for systems that ask."""
    return isinstance(value, list)


def kind_of(value: object) -> type[object]:
    """Return its exact type."""
    return type(value)
