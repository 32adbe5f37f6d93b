"""A verdict: the score, its label, and the reason where there is no score."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from fractions import Fraction
from typing import Literal

from msgspec import Struct

from goldspan.scoring.sessions import Capture, JsonValue, ToolCall


class Label(StrEnum):
    """The one vocabulary of verdicts."""

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
    TURN_NOT_EXPECTED = "turn_not_expected"
    GOLDEN_NEVER_SEEN = "golden_never_seen"
    AMBIGUOUS_GOLDEN = "ambiguous_golden"
    SESSION_AMBIGUOUS = "session_ambiguous"
    SAMPLED_OUT = "sampled_out"
    INPUT_MISSING = "input_missing"
    INCOMPLETE = "incomplete"
    EVALUATOR_ERROR = "evaluator_error"


HARMLESS_REASONS = frozenset({Reason.NOTHING_EXPECTED, Reason.NO_GOLDEN})
"""Reasons that leave nothing to be desired."""

Coverage = Literal["strict", "lenient"]
"""Whether something that could not be evaluated stands in the way of passing."""


class Verdict(Struct, frozen=True, gc=False):
    """A score, what it means, and why there is none. Every result has these."""

    exact: Fraction | None
    """The score before rounding, or none where nothing was evaluated."""
    label: Label
    reason: Reason | None = None
    """Set exactly where `label` is `not_evaluated`."""

    @property
    def score(self) -> float | None:
        """The score as a float, or none."""
        return None if self.exact is None else float(self.exact)


class Scored(Struct, frozen=True, gc=False):
    """A base for results: score, label and reason of their verdict, and whether they passed."""

    verdict: Verdict
    """The exact score with its label and reason."""

    @property
    def score(self) -> float | None:
        """The score from 0 to 1, or none where nothing was evaluated."""
        return self.verdict.score

    @property
    def label(self) -> Label:
        """`pass`, `fail` or `not_evaluated`."""
        return self.verdict.label

    @property
    def reason(self) -> Reason | None:
        """Why it was not evaluated; set exactly where `label` is `not_evaluated`."""
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


def short_repr(value: object, text: str) -> str:
    """Return the type and the first line of a text, short enough for pytest to show it whole."""
    line = text.partition("\n")[0]
    return f"<{type(value).__name__} {line if len(line) <= _LONGEST_REPR else line[:_LONGEST_REPR] + '…'}>"


_LONGEST_REPR = 200


REASON_TEXT: Mapping[Reason, str] = {
    Reason.NO_GOLDEN: "no golden for this session",
    Reason.NOTHING_EXPECTED: "nothing is expected",
    Reason.ARGUMENTS_NOT_CAPTURED: "arguments not captured",
    Reason.ARGUMENTS_REDACTED: "arguments redacted",
    Reason.ARGUMENTS_TRUNCATED: "arguments cut off by a length limit",
    Reason.ARGUMENTS_UNPARSABLE: "arguments not readable",
    Reason.CALLS_NOT_VISIBLE: "tools ran, but no span shows their calls",
    Reason.TURN_NOT_EXPECTED: "the golden has no such turn",
    Reason.GOLDEN_NEVER_SEEN: "never seen in these traces",
    Reason.AMBIGUOUS_GOLDEN: "several goldens match this session equally well",
    Reason.SESSION_AMBIGUOUS: "several session ids found where one was expected",
    Reason.SAMPLED_OUT: "its spans were sampled out",
    Reason.INPUT_MISSING: "the spans lack data that scoring needs",
    Reason.INCOMPLETE: "spans are missing",
    Reason.EVALUATOR_ERROR: "the metric raised an error",
}
"""What each reason means, in every report, message and explanation."""

REASON_OF_CAPTURE: Mapping[Capture, Reason] = {
    Capture.NOT_CAPTURED: Reason.ARGUMENTS_NOT_CAPTURED,
    Capture.REDACTED: Reason.ARGUMENTS_REDACTED,
    Capture.TRUNCATED: Reason.ARGUMENTS_TRUNCATED,
    Capture.UNPARSABLE: Reason.ARGUMENTS_UNPARSABLE,
}


def arguments_of(call: ToolCall) -> Mapping[str, JsonValue] | None:
    """Return the arguments of a call, None where they are not known."""
    if call.capture != Capture.CAPTURED:
        return None
    arguments: object = call.arguments
    return call.arguments if isinstance(arguments, dict | Mapping) else None


def why_not_known(call: ToolCall) -> Reason:
    """Say why `arguments_of` has none; captured ones that are no mapping cannot be read."""
    return REASON_OF_CAPTURE[Capture.UNPARSABLE if call.capture == Capture.CAPTURED else call.capture]


def is_hidden(captures: Mapping[str, Capture], name: str) -> bool:
    """Whether the value of an argument is hidden though the call's others are known."""
    return captures.get(name, Capture.CAPTURED) != Capture.CAPTURED


def why_hidden(call: ToolCall) -> Reason | None:
    """Say why the arguments of a call, or the first hidden one of them, are not known; none where all are."""
    return next(
        (
            REASON_OF_CAPTURE[one]
            for one in (call.capture, *call.argument_captures.values())
            if one in REASON_OF_CAPTURE
        ),
        None,
    )
