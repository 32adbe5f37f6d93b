"""`{$literal: {$regex: ^a}}`: the value itself, in which nothing is a matcher, however deep."""

from __future__ import annotations

from goldspan.scoring.matchers.family import Family, Options, Reading, Where
from goldspan.scoring.matchers.matcher import Expected
from goldspan.scoring.sessions import JsonValue


def _read(value: JsonValue, _: Options, where: Where, reader: Reading) -> Expected:  # noqa: ARG001 - a family's reader
    return value


LITERAL = Family("$literal", "exactly this value: nothing in it is a matcher", _read, {})
