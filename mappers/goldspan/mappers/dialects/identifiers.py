"""Ids as senders write them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_MAX_DIGITS_BITS = 512


def identifier(value: object) -> str | None:
    """Return an id as text: whole numbers count as ids, blank texts and other types do not."""
    if isinstance(value, str):
        return value if value and not value.isspace() else None
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() <= _MAX_DIGITS_BITS:
        return str(value)
    return None


def first_identifier(attributes: Mapping[str, Any], keys: Iterable[str]) -> str | None:
    """Return the first id that stands under one of these keys."""
    for key in keys:
        if (found := identifier(attributes.get(key))) is not None:
            return found
    return None
