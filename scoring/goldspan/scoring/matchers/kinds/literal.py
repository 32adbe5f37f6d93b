"""`{$literal: {$regex: ^a}}`: the value itself, in which nothing is a matcher; and when a value needs that."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from goldspan.scoring.json_values import is_mapping, is_sequence
from goldspan.scoring.matchers.matcher import Expected, MatcherKind, MatcherReader, Options, ValuePath
from goldspan.scoring.sessions import JsonValue

LITERAL = "$literal"


def dollar_keys(value: JsonValue) -> list[str]:
    """Return the keys of an object that begin with `$`; a golden means a matcher by them, rightly or wrongly."""
    keys = cast("Iterable[object]", value) if is_mapping(value) else ()
    return [key for key in keys if isinstance(key, str) and key.startswith("$")]


def escape_literal(value: JsonValue) -> JsonValue:
    """Return what to write in a golden for a value that an argument should have, so that nothing in it is a matcher.

    Every outermost object with a key that begins with `$` is wrapped in `{$literal: ...}`; other values stay as they
    are. The value is JSON, not nested deeper than Python can recurse.
    """
    if is_sequence(value):
        return [escape_literal(item) for item in value]
    if not is_mapping(value):
        return value
    if dollar_keys(value):
        return {LITERAL: value}
    return {key: escape_literal(item) for key, item in value.items()}


def has_dollar_keys(value: JsonValue) -> bool:
    """Whether an object with a key that begins with `$` stands anywhere in a value."""
    if value is None or isinstance(value, (str, int, float)):
        return False
    waiting: list[Any] = [value]
    while waiting:
        item = waiting.pop()
        if is_sequence(item):
            waiting.extend(item)
        elif is_mapping(item):
            if dollar_keys(item):
                return True
            waiting.extend(item.values())
    return False


def _read(value: JsonValue, _: Options, where: ValuePath, reader: MatcherReader) -> Expected:  # noqa: ARG001 - every kind is read alike
    return value


KINDS = (MatcherKind(LITERAL, "exactly this value: nothing in it is a matcher", _read, {}),)
