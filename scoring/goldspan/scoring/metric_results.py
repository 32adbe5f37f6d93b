"""Results of metrics and presets."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple, Protocol

from msgspec import Struct

from goldspan.scoring.sessions import JsonValue, ToolCall, Turn
from goldspan.scoring.verdict import ExactScore, Label, Reason


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


class _HasVerdict(Protocol):
    @property
    def verdict(self) -> MetricVerdict: ...


class _MetricScored(Struct, frozen=True, gc=False):
    """Base class of metric results: the score, label and reason of the verdict."""

    @property
    def score(self: _HasVerdict) -> float | None:
        """The score in the metric's range; None if nothing was evaluated."""
        return self.verdict.score

    @property
    def label(self: _HasVerdict) -> Label | None:
        """`pass`, `fail` or `not_evaluated`; None if the metric has no threshold."""
        return self.verdict.label

    @property
    def reason(self: _HasVerdict) -> Reason | None:
        """Why it was not evaluated; set only if `label` is `not_evaluated`."""
        return self.verdict.reason

    @property
    def passed(self: _HasVerdict) -> bool:
        """Whether the label is `pass`."""
        return self.verdict.label is Label.PASS


class MetricCall(_MetricScored, frozen=True, gc=False):
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


class MetricTurn(_MetricScored, frozen=True, gc=False):
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


class MetricResult(_MetricScored, frozen=True, gc=False):
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
