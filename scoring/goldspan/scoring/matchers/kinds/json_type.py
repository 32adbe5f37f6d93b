"""`{$type: integer}`, `{$type: [string, "null"]}`: any value of a type, by the names of JSON Schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction
from typing import TYPE_CHECKING

from goldspan.scoring.comparison import ONE, ZERO
from goldspan.scoring.json_values import shown
from goldspan.scoring.matchers.matcher import ABSENT, Expected, Matcher, MatcherKind, MatcherReader, Options, ValuePath
from goldspan.scoring.sessions import JsonValue
from goldspan.scoring.type_guards import is_mapping, is_number, is_sequence

if TYPE_CHECKING:
    from goldspan.scoring.call_history import EarlierCalls
    from goldspan.scoring.rules import Rule


_TYPES: Mapping[str, Callable[[JsonValue], bool]] = {
    "string": lambda value: isinstance(value, str),
    "number": is_number,
    "integer": lambda value: is_number(value) and value == int(value),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "array": is_sequence,
    "object": is_mapping,
}


@dataclass(frozen=True, slots=True)
class OfType(Matcher):
    """Matches values of these types; 1.0 is an integer, a boolean is no number."""

    types: tuple[str, ...]

    def score(self, actual: JsonValue, rule: Rule, earlier: EarlierCalls | None) -> Fraction | None:  # noqa: ARG002
        """Return 1 for a value of one of the types."""
        return ONE if actual is not ABSENT and any(_TYPES[name](actual) for name in self.types) else ZERO


def _read(value: JsonValue, _: Options, where: ValuePath, reader: MatcherReader) -> Expected:
    names = value if is_sequence(value) else [value]
    if not names:
        reader.mistake((*where, "$type"), f"found an empty list, expected {', '.join(_TYPES)}")
    for name in names:
        if not isinstance(name, str) or name not in _TYPES:
            near = get_close_matches(str(name), _TYPES, n=1)
            hint = f"did you mean `{near[0]}`?" if near else f"expected {', '.join(_TYPES)}"
            if name is None:
                hint = 'expected "null" in quotes'
            reader.mistake((*where, "$type"), f"found {shown(name)}: {hint}")
    return OfType(tuple(map(str, names)))


_NAME = {"enum": list(_TYPES)}
KINDS = (
    MatcherKind(
        "$type",
        "any value of this type, or of one of these types",
        _read,
        {"anyOf": [_NAME, {"type": "array", "minItems": 1, "items": _NAME}]},
    ),
)
