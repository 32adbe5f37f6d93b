"""Verdicts: labels, reasons and scores; what differs between expected and made calls; results of metrics."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from fractions import Fraction
from functools import partial
from typing import Literal, NamedTuple, Protocol
from unicodedata import normalize

from msgspec import Struct

from goldspan.scoring.comparison import instant_of
from goldspan.scoring.json_values import Steps, is_number, pointer_name, shown, shown_name, steps_of, value_at
from goldspan.scoring.matchers.kinds.session_values import UUID
from goldspan.scoring.matchers.matcher import has_dollar_keys
from goldspan.scoring.matchers.reading import matches
from goldspan.scoring.sessions import Capture, JsonValue, ToolCall, Turn

MAIN_METRIC = "tool_parameter_match"
"""The metric that is always scored; chosen metrics are added to it."""


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


class _HasVerdict(Protocol):
    @property
    def verdict(self) -> Verdict | MetricVerdict: ...


class _Judged(Struct, frozen=True, gc=False):
    """Base class of results: the score, label and reason of the verdict."""

    @property
    def score(self: _HasVerdict) -> float | None:
        """The score, from 0 to 1 or in the metric's range; None if nothing was evaluated."""
        return self.verdict.score

    @property
    def label(self: _HasVerdict) -> Label | None:
        """`pass`, `fail` or `not_evaluated`; None if a metric has no threshold."""
        return self.verdict.label

    @property
    def reason(self: _HasVerdict) -> Reason | None:
        """Why it was not evaluated; set only if `label` is `not_evaluated`."""
        return self.verdict.reason

    @property
    def passed(self: _HasVerdict) -> bool:
        """Whether the label is `pass`."""
        return self.verdict.label is Label.PASS


class Scored(_Judged, frozen=True, gc=False):
    """Base class of results by a golden."""

    verdict: Verdict
    """The exact score with its label and reason."""

    @property
    def label(self) -> Label:
        """`pass`, `fail` or `not_evaluated`."""
        return self.verdict.label

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
        inside = [
            f"{shown_name(pointer_name(part) or part)}: {_part(expected, actual, steps_of(part))}" for part in first
        ]
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

_NEAR = Fraction(1, 1_000_000)  # the share of the greater number by which numbers differ that a computation has rounded


def value_hint(expected: JsonValue, actual: JsonValue, parts: tuple[str, ...] = ()) -> str:
    """Return how a golden could accept a value that seems to mean the same; empty if nothing suggests it."""
    for steps in [(), *map(steps_of, parts)]:
        with suppress(LookupError):
            if hint := _hint(value_at(expected, steps), value_at(actual, steps)):
                return hint
    return ""


def _hint(expected: JsonValue, actual: JsonValue) -> str:
    if is_number(expected) and is_number(actual) and (hint := _near_numbers(expected, actual)):
        return hint
    if _are_one_instant(expected, actual) and expected != actual:
        return "the same instant: use $datetime"
    if has_dollar_keys(expected):
        return ""
    if isinstance(expected, str) != isinstance(actual, str) and (is_number(expected) or is_number(actual)):
        return "the same number as text: use $approx" if matches({"$approx": expected}, actual) else ""
    if type(expected) is not type(actual):
        return ""
    same = _same_text(expected, actual) if isinstance(expected, str) and isinstance(actual, str) else ""
    return same or _looser_matcher(expected, actual)


def _same_text(expected: str, actual: str) -> str:
    """Return how a golden could accept a text that is made up, or of another form; empty if neither."""
    if UUID.fullmatch(expected) and UUID.fullmatch(actual):
        return "both are made up: use $generated"
    return next((words for words, folded in _FOLDED if folded(expected) == folded(actual)), "")


_FOLDED: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("the same but for case: use $casefold", str.casefold),
    ("the same but for spaces at the ends: use $regex or $alphanumeric", str.strip),
    ("the same text in another Unicode form: use $alphanumeric", partial(normalize, "NFC")),
)
"""Why texts may mean the same, and what they then are alike in."""


def _are_one_instant(expected: JsonValue, actual: JsonValue) -> bool:
    """Whether two values are forms of one instant; a small number is none."""
    wanted, found = (
        None if is_number(value) and abs(value) < _UNIX_TIME else instant_of(value) for value in (expected, actual)
    )
    return wanted is not None and found is not None and not wanted.seconds_from(found)


def _looser_matcher(expected: JsonValue, actual: JsonValue) -> str:
    """Return the hint of the first looser matcher by which the values are the same; empty if there is none."""
    matchers = ((words, {name: expected}) for words, name in _LOOSER if not isinstance(expected, int | float))
    return next((words for words, matcher in matchers if matches(matcher, actual)), "")


_LOOSER = (
    ("the same elements in another order: use $unordered", "$unordered"),
    ("the same letters and digits: use $alphanumeric", "$alphanumeric"),
    ("the same but for other keys: use $common_keys", "$common_keys"),
)
"""Why a value may mean the same, and the matcher that accepts it."""


_UNIX_TIME = 10**8  # least number that a hint takes for Unix time: in seconds, March 1973


def _near_numbers(expected: float, actual: float) -> str:
    wanted, found = (Fraction(str(one)) if isinstance(one, float) else Fraction(one) for one in (expected, actual))
    apart, greater = abs(wanted - found), max(abs(wanted), abs(found))
    if expected == actual or apart > _NEAR * greater or wanted.denominator == found.denominator == 1:
        return ""
    amount = f"{float(apart):.1g}".replace("e-0", "e-")
    return f"differ by {amount}: use a tolerance ($approx)"


class Range(NamedTuple):
    """The lowest and highest score of a metric, both inclusive."""

    least: float
    most: float


class Finding(Struct, frozen=True, gc=False):
    """What a metric says of one argument of a call."""

    path: str
    """JSON Pointer into the arguments; empty for the call as a whole."""
    kind: str
    """The metric's own word: `missing_required`, `none`, `tool_result`."""
    message: str = ""
    """One sentence without values of arguments."""
    detailed: str = ""
    """The sentence with values; empty if it is the same."""
    failed: bool = False
    """It lowers the score."""

    def words(self, *, include_values: bool) -> str:
        """Return the sentence, with values if they are wanted."""
        return (self.detailed if include_values else "") or self.message


class MetricScore(Struct, frozen=True, gc=False):
    """What a metric returns for a session, a turn or a call: `MetricScore(0.5, "1 of 2 tools is known")`."""

    score: float | Fraction | None
    """Within the metric's range; None: not evaluated."""
    explanation: str = ""
    """One line for people. Telemetry includes it only if the user chose to include values."""
    reason: Reason | None = None
    """Why there is no score; the default is `nothing_expected`."""
    turns: Sequence[float | Fraction | MetricScore | None] = ()
    """A score for each turn of the session, in order; may be empty."""
    calls: Sequence[float | Fraction | MetricScore | None] = ()
    """In the score of a turn: one for each of its calls, in order; may be empty."""
    findings: tuple[Finding, ...] = ()
    """In the score of a call: what was found in its arguments."""
    detailed: str = ""
    """The explanation with values of arguments; empty if it is the same."""


class MetricVerdict(ExactScore, frozen=True, gc=False):
    """A score of a metric, with a label if the metric has a threshold."""

    label: Label | None = None
    """`not_evaluated` only if there is no score; None if the metric has no threshold."""
    reason: Reason | None = None
    """Set only if `label` is `not_evaluated`."""
    explanation: str = ""
    detailed: str = ""
    """The explanation with values of arguments; empty if it is the same."""


class MetricCall(_Judged, frozen=True, gc=False):
    """The result of a metric for one tool call."""

    verdict: MetricVerdict
    call: ToolCall
    call_index: int
    """Position among the turn's calls, from 0."""
    findings: tuple[Finding, ...] = ()

    @property
    def failures(self) -> tuple[Finding, ...]:
        """The findings that lower the score."""
        return tuple(finding for finding in self.findings if finding.failed)


class MetricTurn(_Judged, frozen=True, gc=False):
    """The result of a metric for one turn."""

    verdict: MetricVerdict
    turn: Turn | None = None
    """The actual turn; None if the golden's turn was never seen."""
    turn_index: int | None = None
    """Position among the run's turns, from 0; None if all turns were scored as one."""
    expected_index: int | None = None
    """Position among the golden's turns, from 0."""
    calls: tuple[MetricCall, ...] = ()
    """Empty if the metric scores no single calls."""


class MetricResult(_Judged, frozen=True, gc=False):
    """The result of an additional metric for one run of a session."""

    name: str
    description: str
    range: Range
    verdict: MetricVerdict
    turns: tuple[MetricTurn, ...] = ()
    """Empty if the metric scores only whole sessions."""
    threshold: Fraction | None = None
    """The lowest score that passes; None: the metric cannot fail a session."""
    needs_golden: bool = True
    """Without one, a metric scores every session, and a result without a score fails no run: unknown is not wrong."""

    def __str__(self) -> str:
        score = "no score" if self.score is None else f"{self.score:.3g}"
        return f"{self.label or 'no threshold'} {score} {self.name}: {self.verdict.explanation or self.description}"


class PresetResult(Struct, frozen=True, gc=False):
    """What the reproduced system returns. Never average scores of different presets."""

    name: str
    """The preset, such as `axion`."""
    score: float | None
    """In the system's own float arithmetic and range; None if it returns no score."""
    status: str | None = None
    """The system's own status (ADK: `PASSED`; UiPath: `NUMERICAL`); None if it has none."""
    label: Label | None = None
    """`not_evaluated` only if there is no score; None if the system has no pass threshold."""
    reason: Reason | None = None
    """Why there is no score; set only if `label` is `not_evaluated`."""
    per_call: tuple[Mapping[str, JsonValue], ...] | None = None
    """The score of each call, with the system's own keys; None if it reports none."""
    per_invocation: tuple[Mapping[str, JsonValue], ...] | None = None
    """ADK: score and status of each invocation; None for other systems."""
    explanation: str | Mapping[str, JsonValue] | None = None
    """The explanation in the system's own format."""
    error: str | None = None
    """The exception that the system raises, as `Type: message`."""

    @property
    def passed(self) -> bool:
        """Whether the label is `pass`."""
        return self.label is Label.PASS

    def __str__(self) -> str:
        score = "no score" if self.score is None else f"{self.score:.3g}"
        return f"{self.label or 'no label'} {score} {self.name}: {self.words or self.status or ''}"

    @property
    def words(self) -> str:
        """The explanation as text, which may include argument values; empty if there is none."""
        if self.explanation is None:
            return ""
        if isinstance(self.explanation, str):
            return self.explanation
        return json.dumps(dict(self.explanation), ensure_ascii=False, default=str)

    def to_json(self) -> dict[str, JsonValue]:
        """Every field as JSON types."""
        explanation = self.explanation
        return {
            "name": self.name,
            "score": self.score,
            "status": self.status,
            "label": None if self.label is None else self.label.value,
            "reason": None if self.reason is None else self.reason.value,
            "per_call": None if self.per_call is None else [dict(call) for call in self.per_call],
            "per_invocation": None if self.per_invocation is None else [dict(scores) for scores in self.per_invocation],
            "explanation": dict(explanation) if isinstance(explanation, Mapping) else explanation,
            "error": self.error,
        }


def not_evaluated(name: str, reason: Reason, explanation: str) -> PresetResult:
    """Return a result without a score."""
    return PresetResult(name, None, label=Label.NOT_EVALUATED, reason=reason, explanation=explanation)


def raised(name: str, problem: Exception, status: str) -> PresetResult:
    """Return the result for an exception that the system raises."""
    text = f"{type(problem).__name__}: {problem}"
    return PresetResult(
        name,
        None,
        status=status,
        label=Label.NOT_EVALUATED,
        reason=Reason.EVALUATOR_ERROR,
        explanation=text,
        error=text,
    )


def judged(*, passed: bool) -> Label:
    """Return the label for a system's pass or fail."""
    return Label.PASS if passed else Label.FAIL
