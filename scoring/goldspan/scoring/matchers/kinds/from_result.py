"""`{$from_result: {call: create_order, path: /id}}`: a value that an earlier call of the session returned."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from goldspan.scoring.call_context import ExpectedCallPosition
from goldspan.scoring.comparison import ZERO
from goldspan.scoring.json_values import Steps, is_mapping, shown, steps_of, value_at
from goldspan.scoring.matchers.matcher import ABSENT, Expected, Matcher, MatcherKind, MatcherReader, Options, ValuePath
from goldspan.scoring.sessions import Capture, JsonValue

if TYPE_CHECKING:
    from goldspan.scoring.argument_rules import ValueRule
    from goldspan.scoring.call_context import EarlierCalls

_PLACE = re.compile(r"([0-9]{1,6})\.([0-9]{1,6})", re.ASCII)
_EXAMPLE = "expected an object such as {call: create_order, path: /id}"


@dataclass(frozen=True, slots=True)
class FromResult(Matcher):
    """Matches what an earlier call returned, compared by the argument's strategy.

    Of several calls of a tool the best counts. A result that was not captured is unknown, not wrong.
    """

    call: str | ExpectedCallPosition
    path: Steps

    def score(self, actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None) -> Fraction | None:
        """Return how good the value is for what was returned."""
        if actual is ABSENT:
            return ZERO
        if earlier is None:
            return None
        best, known = ZERO, True
        for result in earlier.returned(self.call):
            if result is None or result.capture is not Capture.CAPTURED:
                known = False
                continue
            try:
                score = rule.compare(value_at(result.value, self.path), actual)
            except LookupError:
                continue
            best = max(best, score)
        return best if known or best == 1 else None


def _read(value: JsonValue, _: Options, where: ValuePath, reader: MatcherReader) -> Expected:
    inside = (*where, "$from_result")
    if not is_mapping(value):
        reader.mistake(inside, f"found {shown(value)}, {_EXAMPLE}")
        return None
    for name in value:
        if name not in ("call", "path"):
            reader.mistake((*inside, name), f"unknown field: {_EXAMPLE}")
    call, path = value.get("call"), value.get("path", "")
    if not isinstance(call, str) or not call.strip():
        there = (*inside, "call") if "call" in value else inside
        reader.mistake(there, f"found {shown(call)}, expected a tool's name, or turn.index in quotes such as '0.2'")
        return None
    try:
        steps = steps_of(path) if isinstance(path, str) else None
    except ValueError as error:
        reader.mistake((*inside, "path"), str(error))
        return None
    if steps is None:
        reader.mistake((*inside, "path"), f"found {shown(path)}, expected a JSON Pointer such as /id")
        return None
    hit = _PLACE.fullmatch(call)
    return FromResult((int(hit.group(1)), int(hit.group(2))) if hit else call, steps)


KINDS = (
    MatcherKind(
        "$from_result",
        "what an earlier call returned: `call` is a tool or a call of this golden (turn.index), `path` a JSON Pointer",
        _read,
        {
            "type": "object",
            "properties": {
                "call": {"type": "string", "pattern": "\\S"},
                "path": {"type": "string", "pattern": "^(/|$)"},
            },
            "required": ["call"],
            "additionalProperties": False,
        },
    ),
)
