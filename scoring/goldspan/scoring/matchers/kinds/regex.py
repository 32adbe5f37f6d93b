"""`{$regex: "[A-Z]{2}[0-9]+"}`: a string that matches as a whole, by RE2, which takes linear time for any pattern."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from goldspan.scoring.comparison import ONE, ZERO
from goldspan.scoring.json_values import shown
from goldspan.scoring.matchers.matcher import Expected, Matcher, MatcherKind, MatcherReader, Options, ValuePath
from goldspan.scoring.sessions import JsonValue

if TYPE_CHECKING:
    from goldspan.scoring.call_history import EarlierCalls
    from goldspan.scoring.rules import Rule

RE2_IS_MISSING = "`$regex` needs RE2: install goldspan[regex]"
LONGEST_PATTERN = 10_000


@dataclass(frozen=True, slots=True)
class Regex(Matcher):
    """Matches strings that its pattern matches from the first character to the last."""

    pattern: str
    compiled: Any = field(compare=False, repr=False)
    """RE2's own object."""

    def score(self, actual: JsonValue, rule: Rule, earlier: EarlierCalls | None) -> Fraction | None:  # noqa: ARG002
        """Return 1 for a string that matches."""
        if not isinstance(actual, str):
            return ZERO
        try:
            return ONE if self.compiled.fullmatch(actual) else ZERO
        except UnicodeEncodeError:
            return ZERO  # half of a surrogate pair is no text

    def __reduce__(self) -> tuple[Any, ...]:
        """Be pickled by the pattern: RE2's object cannot be."""
        return _compiled, (self.pattern,)


def regex_is_available() -> bool:
    """Whether RE2 is installed; it is not imported to find out."""
    return find_spec("re2") is not None


def _compiled(pattern: str) -> Regex:
    re2 = import_module("re2")
    options = re2.Options()
    options.log_errors = False
    return Regex(pattern, re2.compile(pattern, options))


def _read(value: JsonValue, _: Options, where: ValuePath, reader: MatcherReader) -> Expected:
    inside = (*where, "$regex")
    if not isinstance(value, str):
        reader.mistake(inside, f"found {shown(value)}, expected a regular expression: put it in quotes")
    elif len(value) > LONGEST_PATTERN:
        reader.mistake(inside, f"found {len(value)} characters, expected at most {LONGEST_PATTERN}")
    elif not regex_is_available():
        reader.mistake(inside, RE2_IS_MISSING)
    else:
        try:
            return _compiled(value)
        except Exception as error:  # noqa: BLE001 - RE2 is imported lazily, so its error class is not known here
            why = error.args[0].decode("utf-8", "replace") if error.args and isinstance(error.args[0], bytes) else error
            reader.mistake(inside, f"found {shown(value)}, expected a regular expression of RE2: {why}")
    return None


KINDS = (
    MatcherKind(
        "$regex",
        "a string that this regular expression (RE2) matches as a whole; (?i) in front ignores case",
        _read,
        {"type": "string", "maxLength": LONGEST_PATTERN},
    ),
)
