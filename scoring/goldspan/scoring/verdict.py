"""A verdict: a score with its label, or the reason why there is no score."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from fractions import Fraction
from typing import Literal

from msgspec import Struct

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
