"""What a preset returns: another system's answer, told in goldspan's shape."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from goldspan.scoring.results import Label, Reason
from goldspan.scoring.sessions import JsonValue


@dataclass(frozen=True, slots=True)
class PresetResult:
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
