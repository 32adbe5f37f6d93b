"""What scoring returns. Scores are exact fractions until they are emitted; failures are data.

RunResult > SessionResult > TurnResult > CallResult > ArgumentResult
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from goldspan.scoring.errors import Problem
from goldspan.scoring.late import Late
from goldspan.scoring.sessions import JsonValue, Session, ToolCall, Turn

if TYPE_CHECKING:
    from goldspan.scoring.goldens.golden import ExpectedCall, Golden

    # RESTRUCTURE: empty import
    # RESTRUCTURE: empty import
    from goldspan.scoring.run import RepeatResult


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


_HARMLESS = frozenset({Reason.NOTHING_EXPECTED, Reason.NO_GOLDEN})
"""Reasons that leave nothing to be desired."""

Coverage = Literal["strict", "lenient"]
"""Whether something that could not be evaluated stands in the way of passing."""


class Outcome(StrEnum):
    """What became of an expected argument."""

    MATCHED = "matched"
    MISMATCHED = "mismatched"
    MISSING = "missing"
    UNKNOWN = "unknown"
    IGNORED = "ignored"


@dataclass(frozen=True, slots=True)
class Verdict:
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


@dataclass(frozen=True, slots=True)
class ArgumentResult:
    """One expected argument of one call."""

    name: str
    outcome: Outcome
    exact: Fraction | None
    """0 to 1, none where the actual value is unknown or the argument is ignored."""
    strategy: str
    expected: JsonValue
    actual: JsonValue = None
    """The value that was passed, or the declared default of one left out; meaningless unless `outcome` is `matched` or
    `mismatched`."""
    weight: Fraction = Fraction(1)
    differing: tuple[str, ...] = ()
    """JSON Pointers to the parts of an expected object or list that differ; at most 10."""

    @property
    def score(self) -> float | None:
        """The score as a float, or none."""
        return None if self.exact is None else float(self.exact)


@dataclass(frozen=True, slots=True)
class CallResult:
    """An expected call with its partner, an expected call without one, or an unexpected actual call."""

    verdict: Verdict
    expected: ExpectedCall | None = None
    expected_index: int | None = None
    """Position among the turn's expected calls, from 0."""
    actual: ToolCall | None = None
    """The partner; for a missing call its near miss, if there is one."""
    actual_index: int | None = None
    """Position among the turn's calls, from 0."""
    arguments: tuple[ArgumentResult, ...] = ()
    extra_arguments: tuple[str, ...] = ()
    """Names of arguments that were passed but not expected."""

    @property
    def unexpected(self) -> bool:
        """An actual call that stands for no expected one."""
        return self.expected is None

    @property
    def optional(self) -> bool:
        """The expected call may be left out: scored, but outside the mean of its turn."""
        return self.expected is not None and self.expected.optional

    @property
    def missing(self) -> bool:
        """An expected call without a partner; `actual` may name a near miss."""
        return self.expected is not None and not self.aligned

    aligned: bool = False
    """Expected and actual stand for each other."""
    violates: ExpectedCall | None = None
    """The forbidden call that the actual one is: `verdict` is then a failure, whatever the score."""

    def arguments_with(self, outcome: Outcome) -> tuple[str, ...]:
        """Names of the expected arguments that had this outcome."""
        return tuple(argument.name for argument in self.arguments if argument.outcome == outcome)


@dataclass(frozen=True, slots=True)
class TurnResult(Late):
    """One turn against what was expected of it."""

    verdict: Verdict
    calls: tuple[CallResult, ...] = ()
    """One for each expected call, in the golden's order; of optional calls only those that were made."""
    unexpected: tuple[CallResult, ...] = ()
    """One for each actual call that stands for no expected one; reported, not scored, unless it was forbidden."""
    rejected: tuple[ToolCall, ...] = ()
    """Requests that were refused before execution; reported, not scored unless the criterion counts them."""
    turn: Turn | None = None
    """The actual turn, or none where the golden's turn was never seen."""
    turn_index: int | None = None
    """Position among the run's turns, from 0."""
    expected_index: int | None = None
    """Position among the golden's turns, from 0; none for a turn the golden does not have."""
    expected: int = 0
    """How many calls count towards the mean."""
    evaluated: int = 0
    """How many of these were evaluated."""
    matched: int = 0
    """How many of them have a partner."""
    approximate: bool = False
    """The turn was too large to align exactly; the pairs found are good, perhaps not best."""
    answer: PresetResult | None = None
    """What a preset answered, where one scored: there are no calls then."""
    alternative: int | None = None
    """Which of the golden's alternatives was judged, from 0: the best; none where there is only one."""

    @property
    def violations(self) -> tuple[CallResult, ...]:
        """Calls that were made although they are forbidden."""
        return tuple(call for call in (*self.calls, *self.unexpected) if call.violates is not None)

    @property
    def missing(self) -> int:
        """How many expected calls have no partner."""
        return sum(call.missing for call in self.calls)

    def aligned_calls(self) -> dict[int, ToolCall]:
        """Return the actual calls that have an expected call, by that call's index."""
        return {
            call.expected_index: call.actual
            for call in self.calls
            if call.aligned and call.actual is not None and call.expected_index is not None
        }


@dataclass(frozen=True, slots=True)
class SessionResult(Late):
    """One run of a session against its golden."""

    verdict: Verdict
    session: Session | None
    """None for a golden that was never seen."""
    golden: Golden | None
    """None for a session without one."""
    turns: tuple[TurnResult, ...] = ()
    expected: int = 0
    """How many turns count towards the mean."""
    evaluated: int = 0
    metric: str = "tool_parameter_match"
    criterion: str = ""
    """A digest of the criterion, or a preset's name: scores of different criteria are never averaged."""
    preset: str | None = None
    """The preset that scored in the place of `tool_parameter_match`, if one did."""
    answer: PresetResult | None = None
    """What the preset answered for the whole session."""
    metrics: tuple[MetricResult, ...] = ()
    """What other metrics found, beside the main result and never in its place."""

    @property
    def failed(self) -> bool:
        """Whether the session failed, or a metric whose threshold is known did."""
        labels = [self.verdict.label, *(metric.verdict.label for metric in self.metrics)]
        return Label.FAIL in labels

    @property
    def repeated(self) -> bool:
        """Whether it is one of several runs that its golden is judged over: alone it decides nothing."""
        return self.golden is not None and self.golden.repeat is not None

    @property
    def as_one(self) -> bool:
        """Whether the turns were judged as one, so that there is a single turn result without a place of its own."""
        golden = self.golden
        whole = golden is not None and (golden.calls is not None or golden.criterion.scope == "session")
        return whole or any(turn.turn is not None and turn.turn_index is None for turn in self.turns)

    @property
    def calls_expected(self) -> int:
        """Expected calls of all turns."""
        return sum(turn.expected for turn in self.turns)

    @property
    def calls_evaluated(self) -> int:
        """Evaluated calls of all turns."""
        return sum(turn.evaluated for turn in self.turns)


@dataclass(frozen=True, slots=True)
class RunResult:
    """Everything one scoring of many sessions found. `assert result.passed, result` is a test.

    `str(result)` is the readable difference; `to_json()` the document whose schema is published.
    """

    sessions: tuple[SessionResult, ...] = ()
    """One for each run of a session that has a golden, then one for each session without."""
    never_seen: tuple[Golden, ...] = ()
    problems: tuple[Problem, ...] = ()
    golden_sets: Mapping[str, str] = field(default_factory=dict[str, str])
    """`name@version` to digest of the golden sets that were used."""

    @property
    def passed(self) -> bool:
        """Whether all passed, under strict coverage: see `passes`."""
        return self.passes()

    def passes(self, coverage: Coverage = "strict") -> bool:
        """Return whether sessions were found and none failed; of goldens with `repeat`, whether enough runs passed.

        `strict` also asks that nothing went unevaluated, on any level, for another reason than that nothing was
        expected or no golden wanted the session, and that every golden was seen. `lenient` does not.
        """
        if not self.sessions or any(session.failed for session in self.sessions if not session.repeated):
            return False
        repeats = {repeat.verdict.label for repeat in self.repeats}
        if Label.FAIL in repeats or (coverage == "strict" and Label.NOT_EVALUATED in repeats):
            return False
        return coverage == "lenient" or not (self.never_seen or any(self._unevaluated()))

    @property
    def repeats(self) -> tuple[RepeatResult, ...]:
        """Goldens with `repeat`, each judged over its runs."""
        from goldspan.scoring.run import repeats_of  # noqa: PLC0415 - written in terms of this module

        return repeats_of(self.sessions)

    def _unevaluated(self) -> Iterator[Reason]:
        """List why something was not evaluated that should have been."""
        for session in self.sessions:
            calls = (call.verdict.reason for turn in session.turns for call in turn.calls)
            turns = (turn.verdict.reason for turn in session.turns)
            metrics = (metric.verdict.reason for metric in session.metrics if metric.threshold is not None)
            for reason in (session.verdict.reason, *turns, *calls, *metrics):
                if reason is not None and reason not in _HARMLESS:
                    yield reason

    def to_json(self) -> dict[str, Any]:
        """Return the document that `--format json` prints: plain JSON values in a fixed order."""
        from goldspan.scoring.document import document_of  # noqa: PLC0415 - written in terms of this module

        return document_of(self)

    def __str__(self) -> str:
        from goldspan.scoring.difference import difference_of  # noqa: PLC0415 - written in terms of this module

        return difference_of(self)


# What metrics beside the main one found: values that stand beside a session's result and never in its place.


class Range(NamedTuple):
    """The scores a metric can give, both ends included."""

    least: float
    most: float


@dataclass(frozen=True, slots=True)
class MetricScore:
    """What a metric says of a session, or of one turn of it: `MetricScore(0.5, "one of two tools is known")`."""

    score: float | Fraction | None
    """Within the metric's range; None: not evaluated."""
    explanation: str = ""
    """One line for people. It reaches telemetry only where a door includes values."""
    reason: Reason | None = None
    """Why there is no score; `nothing_expected` unless said otherwise."""
    turns: Sequence[float | Fraction | MetricScore | None] = ()
    """One for each turn of the session, in its order; or none at all."""


@dataclass(frozen=True, slots=True)
class MetricVerdict:
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


@dataclass(frozen=True, slots=True)
class MetricTurn:
    """One turn as a metric judged it."""

    verdict: MetricVerdict
    turn: Turn | None = None
    """None for a turn of the golden that never came."""
    turn_index: int | None = None
    """Position among the run's turns, from 0; none also where all turns were judged as one."""
    expected_index: int | None = None
    """Position among the golden's turns, from 0."""


@dataclass(frozen=True, slots=True)
class MetricResult:
    """One run of a session as a metric beside the main one judged it."""

    name: str
    description: str
    range: Range
    verdict: MetricVerdict
    turns: tuple[MetricTurn, ...] = ()
    """None at all where the metric judges sessions only."""
    threshold: Fraction | None = None
    """The least score that passes; None: the metric only informs, and fails nothing."""


# What a preset returns: another system's answer, told in goldspan's shape.


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
