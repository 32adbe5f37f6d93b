"""What scoring returns. Scores are exact fractions until they are emitted; failures are data.

RunResult > SessionResult > TurnResult > CallResult > ArgumentResult
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from goldspan.scoring.errors import Problem
from goldspan.scoring.late import Late
from goldspan.scoring.sessions import JsonValue, Session, ToolCall, Turn

if TYPE_CHECKING:
    from goldspan.scoring.goldens.models import ExpectedCall, Golden
    from goldspan.scoring.metrics.results import MetricResult
    from goldspan.scoring.presets.result import PresetResult
    from goldspan.scoring.repeats import RepeatResult


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
        from goldspan.scoring.repeats import repeats_of  # noqa: PLC0415 - written in terms of this module

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
