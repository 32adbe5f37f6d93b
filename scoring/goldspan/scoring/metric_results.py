"""What metrics and presets find: they are part of a session's result, never a replacement for its own score."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple, Protocol

from msgspec import Struct

from goldspan.scoring.sessions import JsonValue, Turn
from goldspan.scoring.verdict import Label, Reason


class Range(NamedTuple):
    """The scores a metric can give, both ends included."""

    least: float
    most: float


class MetricScore(Struct, frozen=True, gc=False):
    """What a metric says of a session, or of one turn of it: `MetricScore(0.5, "one of two tools is known")`."""

    score: float | Fraction | None
    """Within the metric's range; None: not evaluated."""
    explanation: str = ""
    """One line for people. It reaches telemetry only where a door includes values."""
    reason: Reason | None = None
    """Why there is no score; `nothing_expected` unless said otherwise."""
    turns: Sequence[float | Fraction | MetricScore | None] = ()
    """One for each turn of the session, in its order; or none at all."""


class MetricVerdict(Struct, frozen=True, gc=False):
    """A score of a metric, and what it means where a threshold was given."""

    exact: Fraction | None
    label: Label | None = None
    """`not_evaluated` exactly where there is no score; None where no threshold says what passes."""
    reason: Reason | None = None
    """Set exactly where `label` is `not_evaluated`."""
    explanation: str = ""

    @property
    def score(self) -> float | None:
        """The score as a float, or none."""
        return None if self.exact is None else float(self.exact)


class _HasVerdict(Protocol):
    @property
    def verdict(self) -> MetricVerdict: ...


class _Judged(Struct, frozen=True, gc=False):
    """What a metric judged: score, label and reason of its verdict."""

    @property
    def score(self: _HasVerdict) -> float | None:
        """The score in the metric's range, or none where nothing was evaluated."""
        return self.verdict.score

    @property
    def label(self: _HasVerdict) -> Label | None:
        """`pass`, `fail` or `not_evaluated`; none where no threshold says what passes."""
        return self.verdict.label

    @property
    def reason(self: _HasVerdict) -> Reason | None:
        """Why it was not evaluated; set exactly where `label` is `not_evaluated`."""
        return self.verdict.reason

    @property
    def passed(self: _HasVerdict) -> bool:
        """Whether the label is `pass`."""
        return self.verdict.label is Label.PASS


class MetricTurn(_Judged, frozen=True, gc=False):
    """One turn as a metric judged it."""

    verdict: MetricVerdict
    turn: Turn | None = None
    """None for a turn of the golden that never came."""
    turn_index: int | None = None
    """Position among the run's turns, from 0; none also where all turns were judged as one."""
    expected_index: int | None = None
    """Position among the golden's turns, from 0."""


class MetricResult(_Judged, frozen=True, gc=False):
    """One run of a session as a metric beside the main one judged it."""

    name: str
    description: str
    range: Range
    verdict: MetricVerdict
    turns: tuple[MetricTurn, ...] = ()
    """None at all where the metric judges sessions only."""
    threshold: Fraction | None = None
    """The least score that passes; None: the metric only informs, and fails nothing."""

    def __str__(self) -> str:
        score = "no score" if self.score is None else f"{self.score:.3g}"
        return f"{self.label or 'no threshold'} {score} {self.name}: {self.verdict.explanation or self.description}"


class PresetResult(Struct, frozen=True, gc=False):
    """What the reproduced system would have answered. Never average scores whose `name` differs."""

    name: str
    """The preset, such as `axion`."""
    score: float | None
    """In the system's own float arithmetic and range; none where it gives none."""
    status: str | None = None
    """The system's own word for the result (ADK: `PASSED`; UiPath: `NUMERICAL`), none where it has no such word."""
    label: Label | None = None
    """`not_evaluated` exactly where there is no score; none where the system gives a score but draws no line."""
    reason: Reason | None = None
    """Why there is no score; set exactly where `label` is `not_evaluated`."""
    per_call: tuple[Mapping[str, JsonValue], ...] | None = None
    """The score of each call, keyed as the system keys it; none where the system reports none."""
    per_invocation: tuple[Mapping[str, JsonValue], ...] | None = None
    """ADK: score and status of each invocation; none elsewhere."""
    explanation: str | Mapping[str, JsonValue] | None = None
    """In the system's own layout."""
    error: str | None = None
    """What the system raised, as `Type: message`."""

    @property
    def passed(self) -> bool:
        """Whether the label is `pass`."""
        return self.label is Label.PASS

    def __str__(self) -> str:
        score = "no score" if self.score is None else f"{self.score:.3g}"
        return f"{self.label or 'no label'} {score} {self.name}: {self.words or self.status or ''}"

    @property
    def words(self) -> str:
        """The explanation as text, empty where there is none: it holds values, so it is for people on this machine."""
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
            "per_invocation": None if self.per_invocation is None else [dict(one) for one in self.per_invocation],
            "explanation": dict(explanation) if isinstance(explanation, Mapping) else explanation,
            "error": self.error,
        }


def not_evaluated(name: str, reason: Reason, explanation: str) -> PresetResult:
    """Make a result without a score, for a reason the system itself has no word for."""
    return PresetResult(name, None, label=Label.NOT_EVALUATED, reason=reason, explanation=explanation)


def raised(name: str, problem: Exception, status: str) -> PresetResult:
    """Make a result of an exception the system would have raised: no score, and the exception as data."""
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
    """Label the result of a system that draws a line."""
    return Label.PASS if passed else Label.FAIL
