"""Verdicts: labels, reasons and scores; and what differs between what was expected and what was made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from enum import StrEnum
from fractions import Fraction
from typing import Literal

from msgspec import Struct

from goldspan.scoring.comparison import instant_of
from goldspan.scoring.json_values import Steps, is_number, shown, shown_name, steps_of, value_at
from goldspan.scoring.sessions import Capture, JsonValue, ToolCall, Turn


class Label(StrEnum):
    """What a verdict says: `pass`, `fail` or `not_evaluated`."""

    PASS = "pass"
    FAIL = "fail"
    NOT_EVALUATED = "not_evaluated"


class Reason(StrEnum):
    """Why something was not evaluated: a closed list."""

    NO_GOLDEN = "no_golden"
    NOTHING_EXPECTED = "nothing_expected"
    ARGUMENTS_NOT_CAPTURED = "arguments_not_captured"
    ARGUMENTS_REDACTED = "arguments_redacted"
    ARGUMENTS_TRUNCATED = "arguments_truncated"
    ARGUMENTS_UNPARSABLE = "arguments_unparsable"
    CALLS_NOT_VISIBLE = "calls_not_visible"
    READING_DOUBTFUL = "reading_doubtful"
    TURN_NOT_EXPECTED = "turn_not_expected"
    GOLDEN_NEVER_SEEN = "golden_never_seen"
    AMBIGUOUS_GOLDEN = "ambiguous_golden"
    SESSION_AMBIGUOUS = "session_ambiguous"
    SAMPLED_OUT = "sampled_out"
    INPUT_MISSING = "input_missing"
    INCOMPLETE = "incomplete"
    EVALUATOR_ERROR = "evaluator_error"


HARMLESS_REASONS = frozenset({Reason.NOTHING_EXPECTED, Reason.NO_GOLDEN})
"""Reasons that are no cause for concern: there was nothing to evaluate."""
CALLS_UNKNOWN = frozenset(
    {
        Reason.CALLS_NOT_VISIBLE,
        Reason.READING_DOUBTFUL,
        Reason.INCOMPLETE,
        Reason.GOLDEN_NEVER_SEEN,
        Reason.INPUT_MISSING,
        Reason.SESSION_AMBIGUOUS,
    }
)
"""Why the calls that are known of a turn are perhaps not all of them."""

Coverage = Literal["strict", "lenient"]
"""`strict`: anything that could not be evaluated prevents a pass. `lenient`: it does not."""


class ExactScore(Struct, frozen=True, gc=False):
    """Base class of verdicts: a score, or none."""

    exact: Fraction | None
    """The exact score; None if nothing was evaluated."""

    @property
    def score(self) -> float | None:
        """The score as a float, or None."""
        if self.exact is None:
            return None
        numerator, denominator = self.exact.as_integer_ratio()
        return numerator / denominator  # what `float` gives, at a third of the cost


class Verdict(ExactScore, frozen=True, gc=False):
    """A score and its label, or the reason why there is no score. Every result has a verdict."""

    label: Label
    reason: Reason | None = None
    """Set only if `label` is `not_evaluated`."""


class Scored(Struct, frozen=True, gc=False):
    """Base class of results: the score, label and reason of the verdict."""

    verdict: Verdict
    """The exact score with its label and reason."""

    @property
    def score(self) -> float | None:
        """The score from 0 to 1; None if nothing was evaluated."""
        return self.verdict.score

    @property
    def label(self) -> Label:
        """`pass`, `fail` or `not_evaluated`."""
        return self.verdict.label

    @property
    def reason(self) -> Reason | None:
        """Why it was not evaluated; set only if `label` is `not_evaluated`."""
        return self.verdict.reason

    @property
    def passed(self) -> bool:
        """Whether the label is `pass`."""
        return self.verdict.label is Label.PASS

    def assert_passed(self) -> None:
        """Raise AssertionError with the readable difference unless it passed."""
        __tracebackhide__ = True  # pytest shows the line of the test
        if not self.passed:
            raise AssertionError(str(self))

    def __repr__(self) -> str:
        return short_repr(self, str(self))


_LONGEST_REPR = 200


def short_repr(value: object, text: str) -> str:
    """Return the type and the first line of a text, short enough for pytest to show it whole."""
    line = text.partition("\n")[0]
    return f"<{type(value).__name__} {line if len(line) <= _LONGEST_REPR else line[:_LONGEST_REPR] + '…'}>"


REASON_TEXT: Mapping[Reason, str] = {
    Reason.NO_GOLDEN: "no golden for this session",
    Reason.NOTHING_EXPECTED: "nothing is expected",
    Reason.ARGUMENTS_NOT_CAPTURED: "arguments not captured",
    Reason.ARGUMENTS_REDACTED: "arguments redacted",
    Reason.ARGUMENTS_TRUNCATED: "arguments cut off by a length limit",
    Reason.ARGUMENTS_UNPARSABLE: "arguments not readable",
    Reason.CALLS_NOT_VISIBLE: "tools may have run, but no span shows their calls",
    Reason.READING_DOUBTFUL: "the telemetry contradicts how it was read",
    Reason.TURN_NOT_EXPECTED: "the golden has no such turn, or session id used again",
    Reason.GOLDEN_NEVER_SEEN: "never seen in these traces",
    Reason.AMBIGUOUS_GOLDEN: "several goldens match this session equally well",
    Reason.SESSION_AMBIGUOUS: "several session ids found, or turns of the session may be elsewhere",
    Reason.SAMPLED_OUT: "its spans were sampled out",
    Reason.INPUT_MISSING: "the spans lack data that scoring needs",
    Reason.INCOMPLETE: "spans are missing",
    Reason.EVALUATOR_ERROR: "the metric raised an error",
}
"""The words for each reason in reports, messages and explanations."""

REASON_OF_CAPTURE: Mapping[Capture, Reason] = {
    Capture.NOT_CAPTURED: Reason.ARGUMENTS_NOT_CAPTURED,
    Capture.REDACTED: Reason.ARGUMENTS_REDACTED,
    Capture.TRUNCATED: Reason.ARGUMENTS_TRUNCATED,
    Capture.UNPARSABLE: Reason.ARGUMENTS_UNPARSABLE,
}


_CAPTURED = Capture.CAPTURED


def why_calls_unknown(turn: Turn) -> Reason | None:
    """Return why the calls that are known of a turn are perhaps not its calls; None if they are."""
    if not turn.calls_visible:
        return Reason.CALLS_NOT_VISIBLE
    return Reason.READING_DOUBTFUL if turn.doubts and turn.is_doubtful else None


def arguments_of(call: ToolCall) -> Mapping[str, JsonValue] | None:
    """Return the arguments of a call; None if they are unknown."""
    if call.capture != _CAPTURED:
        return None
    arguments: object = call.arguments
    return call.arguments if isinstance(arguments, (dict, Mapping)) else None


def why_not_known(call: ToolCall) -> Reason:
    """Return why `arguments_of` returns None. Captured arguments that are not a mapping count as unparsable."""
    return REASON_OF_CAPTURE[Capture.UNPARSABLE if call.capture == Capture.CAPTURED else call.capture]


def is_hidden(captures: Mapping[str, Capture], name: str) -> bool:
    """Whether the value of a single argument is hidden."""
    return captures.get(name, Capture.CAPTURED) != Capture.CAPTURED


def why_hidden(call: ToolCall) -> Reason | None:
    """Return why the arguments of a call, or the first hidden argument, are unknown; None if all are known."""
    return next(
        (
            REASON_OF_CAPTURE[capture]
            for capture in (call.capture, *call.argument_captures.values())
            if capture in REASON_OF_CAPTURE
        ),
        None,
    )


_MAX_PARTS = 3


class DifferenceKind(StrEnum):
    """The kinds of differences, the one that explains most first."""

    FORBIDDEN_CALL = "forbidden_call"
    WRONG_ARGUMENT = "wrong_argument"
    ARGUMENT_NOT_PASSED = "argument_not_passed"
    UNEXPECTED_ARGUMENT = "unexpected_argument"
    OUT_OF_ORDER = "out_of_order"
    TURN_NOT_SEEN = "turn_not_seen"
    TOOL_NOT_CALLED = "tool_not_called"
    TOOL_NOT_EXPECTED = "tool_not_expected"


_WORDS = {
    DifferenceKind.FORBIDDEN_CALL: "forbidden",
    DifferenceKind.WRONG_ARGUMENT: "wrong",
    DifferenceKind.ARGUMENT_NOT_PASSED: "not passed",
    DifferenceKind.UNEXPECTED_ARGUMENT: "not expected",
    DifferenceKind.OUT_OF_ORDER: "called, but out of order",
    DifferenceKind.TURN_NOT_SEEN: "never seen",
    DifferenceKind.TOOL_NOT_CALLED: "not called",
    DifferenceKind.TOOL_NOT_EXPECTED: "not expected",
}
_WEIGHT = {kind: weight for weight, kind in enumerate(DifferenceKind)}


class Difference(Struct, frozen=True, gc=False):
    """One difference: `str(difference)` is `send_email.to (not passed)`."""

    kind: DifferenceKind
    tool: str = ""
    """The tool; empty if a whole turn was never seen."""
    argument: str = ""
    """The argument; empty if the difference is in a call or a turn."""
    lowers_score: bool = True
    """Whether it lowers a score or fails the turn; if not, it is only reported."""
    expected: JsonValue = None
    """The expected value of a wrong argument, as the golden has it."""
    actual: JsonValue = None
    """The value that was passed for it."""
    parts: tuple[str, ...] = ()
    """JSON Pointers to the parts of the value that differ."""
    hint: str = ""
    """What may be the cause, if something suggests it."""
    turn: str = ""
    """The name of the turn, such as `turn 2`."""

    @property
    def name(self) -> str:
        """`tool.argument`, the tool, or the name of the turn."""
        return ".".join(shown_name(name) for name in (self.tool, self.argument) if name) or self.turn

    @property
    def words(self) -> str:
        """What is different, in words, without values: `not passed`."""
        return _WORDS[self.kind]

    def text(self, *, include_values: bool = False) -> str:
        """Return the difference on one line: `convert.unit (wrong)`, or with values `(expected "F", found "K")`."""
        words = self.words
        if self.kind is DifferenceKind.WRONG_ARGUMENT and include_values:
            words = value_differences(self.expected, self.actual, self.parts)
        elif self.parts:
            words += f" at {part_names(self.parts)}"
        return f"{self.name} ({'; '.join(filter(None, (words, self.hint)))})"

    def __str__(self) -> str:
        return self.text(include_values=True)


def heaviest_first(differences: Iterable[Difference]) -> tuple[Difference, ...]:
    """Sort differences: those that lower a score first, then by kind; equal ones keep their order."""
    return tuple(sorted(differences, key=lambda one: (not one.lowers_score, _WEIGHT[one.kind])))


def value_differences(expected: JsonValue, actual: JsonValue, parts: tuple[str, ...]) -> str:
    """Return `expected 2, found 1`; of an object or a list, the same for the first parts that differ."""
    first, more = parts[:_MAX_PARTS], len(parts) - _MAX_PARTS
    try:
        inside = [f"{shown_name(part)}: {_part(expected, actual, steps_of(part))}" for part in first]
    except LookupError:
        inside = []  # the pointer leads into a matcher
    if not inside:
        return _both(expected, actual)
    return "; ".join([*inside, *([f"and {more} more"] if more > 0 else [])])


def part_names(parts: tuple[str, ...]) -> str:
    """Return the names of the first parts that differ."""
    more = len(parts) - _MAX_PARTS
    return ", ".join([*map(shown_name, parts[:_MAX_PARTS]), *([f"and {more} more"] if more > 0 else [])])


def _part(expected: JsonValue, actual: JsonValue, steps: Steps) -> str:
    wanted = value_at(expected, steps)
    try:
        return _both(wanted, value_at(actual, steps))
    except LookupError:
        return f"expected {shown(wanted)}, found nothing"


def _both(expected: JsonValue, actual: JsonValue) -> str:
    text, hint = f"expected {shown(expected)}, found {shown(actual)}", _hint(expected, actual)
    return f"{text}; {hint}" if hint else text


# Two values that differ as JSON may mean the same.

_NEAR = Fraction(1, 1_000_000)
"""The share of the greater number by which numbers differ that a computation has rounded."""


def value_hint(expected: JsonValue, actual: JsonValue, parts: tuple[str, ...] = ()) -> str:
    """Return how a golden could accept a value that seems to mean the same; empty if nothing suggests it."""
    for steps in [steps_of(part) for part in parts] or [()]:
        with suppress(LookupError):
            if hint := _hint(value_at(expected, steps), value_at(actual, steps)):
                return hint
    return ""


def _hint(expected: JsonValue, actual: JsonValue) -> str:
    if is_number(expected) and is_number(actual) and (hint := _near_numbers(expected, actual)):
        return hint
    wanted, found = (
        None if is_number(value) and abs(value) < _UNIX_TIME else instant_of(value) for value in (expected, actual)
    )
    same = wanted is not None and found is not None and not wanted.seconds_from(found) and expected != actual
    return "the same instant: use $datetime" if same else ""


_UNIX_TIME = 10**8
"""Least number that a hint takes for Unix time: in seconds, March 1973."""


def _near_numbers(expected: float, actual: float) -> str:
    wanted, found = (Fraction(str(one)) if isinstance(one, float) else Fraction(one) for one in (expected, actual))
    apart, greater = abs(wanted - found), max(abs(wanted), abs(found))
    if expected == actual or apart > _NEAR * greater or wanted.denominator == found.denominator == 1:
        return ""
    amount = f"{float(apart):.1g}".replace("e-0", "e-")
    return f"differ by {amount}: use a tolerance ($approx)"
