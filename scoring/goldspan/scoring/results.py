"""The results of scoring a session, and their explanation in words.

SessionResult > TurnResult > CallResult > ArgumentResult
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from fractions import Fraction
from html import escape
from importlib.metadata import entry_points
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from goldspan.scoring.differences import (
    Difference,
    DifferenceKind,
    heaviest_first,
    part_names,
    value_differences,
    value_hint,
)
from goldspan.scoring.goldens.golden import ExpectedCall, Golden
from goldspan.scoring.json_values import shown, shown_name
from goldspan.scoring.metric_results import MetricResult, MetricVerdict, PresetResult
from goldspan.scoring.sessions import JsonValue, Session, ToolCall, Turn
from goldspan.scoring.verdict import REASON_TEXT, Label, Reason, Scored, Verdict, short_repr

_Result = TypeVar("_Result", "TurnResult", "SessionResult")


class ArgumentOutcome(StrEnum):
    """The outcome of comparing an expected argument."""

    MATCHED = "matched"
    MISMATCHED = "mismatched"
    MISSING = "missing"
    UNKNOWN = "unknown"
    IGNORED = "ignored"


class ArgumentResult(Struct, frozen=True, gc=False):
    """The result for one expected argument of a call."""

    name: str
    outcome: ArgumentOutcome
    exact: Fraction | None
    """The exact score from 0 to 1; None if the actual value is unknown or the argument is ignored."""
    strategy: str
    expected_value: JsonValue
    actual_value: JsonValue = None
    """The value that was passed, or the declared default if none was passed. Only meaningful if `outcome` is `matched`
    or `mismatched`."""
    weight: Fraction = Fraction(1)
    differing: tuple[str, ...] = ()
    """JSON Pointers to the parts of an expected object or list that differ; at most 10."""

    @property
    def score(self) -> float | None:
        """The score as a float, or None."""
        return None if self.exact is None else float(self.exact)

    @property
    def hint(self) -> str:
        """How the golden could accept a value that differs but seems to mean the same; empty in general."""
        if self.outcome is not ArgumentOutcome.MISMATCHED:
            return ""
        return value_hint(self.expected_value, self.actual_value, self.differing)


class CallResult(Scored, frozen=True, gc=False):
    """The result for an expected call, with or without its actual call, or for an unexpected actual call."""

    expected: ExpectedCall | None = None
    expected_index: int | None = None
    """Position among the turn's expected calls, from 0."""
    actual: ToolCall | None = None
    """The aligned call; for a missing call its near miss, if any."""
    actual_index: int | None = None
    """Position among the turn's calls, from 0."""
    arguments: tuple[ArgumentResult, ...] = ()
    extra_arguments: tuple[str, ...] = ()
    """Names of the arguments that were passed but not expected."""

    @property
    def tool(self) -> str:
        """Name of the tool."""
        call = self.expected or self.actual
        return "" if call is None else call.name

    @property
    def unexpected(self) -> bool:
        """Whether this is an actual call that is aligned with no expected call."""
        return self.expected is None

    @property
    def optional(self) -> bool:
        """Whether the expected call is optional: it is scored, but does not count in the mean of its turn."""
        return self.expected is not None and self.expected.optional

    @property
    def missing(self) -> bool:
        """Whether no actual call is aligned with the expected call; `actual` may be a near miss."""
        return self.expected is not None and not self.aligned

    @property
    def has_wrong_arguments(self) -> bool:
        """Whether the aligned call, or the near miss of a missing one, has other arguments than expected."""
        if self.aligned:
            return self.verdict.exact is not None and self.verdict.exact != 1
        wrong = (ArgumentOutcome.MISMATCHED, ArgumentOutcome.MISSING)
        return self.missing and (self.extra_arguments_count or any(one.outcome in wrong for one in self.arguments))

    aligned: bool = False
    """`expected` and `actual` are aligned with each other."""
    violates: ExpectedCall | None = None
    """The forbidden call that the actual call violates: the label is then `fail`, whatever the score."""
    out_of_order: bool = False
    """The near miss could be aligned with the expected call, if it came in another order."""
    extra_arguments_count: bool = False
    """An unexpected argument lowers the score, or keeps the two calls from being aligned."""
    same_arguments_index: int | None = None
    """Position of an unexpected call of another tool with the arguments of this missing call: renamed, perhaps."""
    same_arguments_tool: str = ""
    """The name of that tool."""

    @property
    def differences(self) -> tuple[Difference, ...]:
        """The differences between the two calls, those that explain most first."""
        return heaviest_first(_call_differences(self))

    def __str__(self) -> str:
        return _call_line(self)

    def _repr_html_(self) -> str:
        return html_table(str(self), ARGUMENT_COLUMNS, _argument_rows(self))

    def arguments_with(self, outcome: ArgumentOutcome) -> tuple[str, ...]:
        """Names of the expected arguments with this outcome."""
        return tuple(argument.name for argument in self.arguments if argument.outcome == outcome)


class TurnResult(Scored, frozen=True, gc=False):
    """The result for one turn."""

    calls: tuple[CallResult, ...] = ()
    """A result for each expected call, in the golden's order; an optional call only if it was made."""
    unexpected_calls: tuple[CallResult, ...] = ()
    """A result for each actual call that is aligned with no expected call; it fails only if forbidden."""
    rejected: tuple[ToolCall, ...] = ()
    """Requests that were refused before execution; reported, and scored only if the criterion counts them."""
    turn: Turn | None = None
    """The actual turn; None if the golden's turn was never seen."""
    turn_index: int | None = None
    """Position among the run's turns, from 0."""
    expected_index: int | None = None
    """Position among the golden's turns, from 0; None if the golden has no such turn."""
    calls_expected: int = 0
    """Number of expected calls in the mean of the turn."""
    calls_evaluated: int = 0
    """Number of these calls that were evaluated."""
    calls_aligned: int = 0
    """Number of these calls that are aligned with an actual call."""
    approximate: bool = False
    """The turn was too large for the exact alignment; the pairs are good, but may not be the best."""
    answer: PresetResult | None = None
    """The result of the preset that scored the turn, if any. There are no calls then."""
    alternative: int | None = None
    """Index of the golden's alternative with the best result, from 0; None if there are no alternatives."""
    extra_calls_count: bool = False
    """An unexpected call lowers the score."""

    def __str__(self) -> str:
        return "\n".join(turn_lines(self))

    def __repr__(self) -> str:
        return short_repr(self, f"{verdict_text(self.verdict)} {turn_difference(self)}")

    def _repr_html_(self) -> str:
        return html_table(_turn_head(self), CALL_COLUMNS, call_rows("", self))

    @property
    def differences(self) -> tuple[Difference, ...]:
        """The differences of the turn, those that explain most first."""
        return heaviest_first(_turn_differences(self))

    @property
    def first_difference(self) -> Difference | None:
        """The difference that explains most; None if there is none."""
        return next(iter(self.differences), None)

    @property
    def unpaired_calls(self) -> tuple[CallResult, ...]:
        """Results of the unexpected calls, without those that a missing call names as its nearest."""
        near = {
            index for call in self.calls if call.missing for index in (call.actual_index, call.same_arguments_index)
        }
        return tuple(call for call in self.unexpected_calls if call.actual_index not in near - {None})

    @property
    def violations(self) -> tuple[CallResult, ...]:
        """Results of the calls that are forbidden."""
        return tuple(call for call in (*self.calls, *self.unexpected_calls) if call.violates is not None)

    @property
    def calls_right(self) -> int:
        """Number of expected calls in the mean that have the score 1."""
        return len([call for call in self.calls if call.verdict.exact == 1 and not call.optional])

    @property
    def calls_missing(self) -> int:
        """Number of expected calls without an actual call."""
        return sum(call.missing for call in self.calls)

    def aligned_calls(self) -> dict[int, ToolCall]:
        """Return the aligned actual calls, by the index of their expected call."""
        return {
            call.expected_index: call.actual
            for call in self.calls
            if call.aligned and call.actual is not None and call.expected_index is not None
        }


class SessionResult(Scored, frozen=True, gc=False):
    """The result for one run of a session."""

    session: Session | None
    """The session; None if the golden was never seen."""
    golden: Golden | None
    """The golden; None if the session has none."""
    turns: tuple[TurnResult, ...] = ()
    turns_expected: int = 0
    """Number of turns in the mean of the session."""
    turns_evaluated: int = 0
    metric: str = "tool_parameter_match"
    criterion: str = ""
    """Digest of the criterion, or the preset's name. Scores of different criteria are never averaged."""
    preset: str | None = None
    """The preset that replaced `tool_parameter_match`, if any."""
    answer: PresetResult | None = None
    """The preset's result for the whole session."""
    metrics: tuple[MetricResult, ...] = ()
    """Results of additional metrics."""

    @property
    def passed(self) -> bool:
        """Whether the label is `pass` and no metric failed its threshold."""
        return self.verdict.label is Label.PASS and not self.failed

    def __str__(self) -> str:
        return "\n".join(session_lines(self))

    def __repr__(self) -> str:
        return short_repr(self, f"{verdict_text(self.verdict)} {session_difference(self)}")

    def _repr_html_(self) -> str:
        rows = [("", *row[1:]) for row in session_rows(self)]  # the line above the table names the session
        return html_table(next(session_lines(self)), CALL_COLUMNS, rows)

    def to_arrow(self) -> Any:
        """Return the rows of `goldspan score --output` as a `pyarrow.Table`. Raises ImportError without pyarrow."""
        return table_of(self, "arrow")

    def to_pandas(self) -> Any:
        """Return the same rows as a `pandas.DataFrame`. Raises ImportError without pandas or pyarrow."""
        return table_of(self, "pandas")

    @property
    def differences(self) -> tuple[Difference, ...]:
        """The differences of all turns, those that explain most first."""
        return heaviest_first(difference for turn in self.turns for difference in _turn_differences(turn))

    @property
    def first_difference(self) -> Difference | None:
        """The difference that explains most; None if there is none."""
        return next(iter(self.differences), None)

    @property
    def failed(self) -> bool:
        """Whether the session failed, or a metric failed its threshold."""
        labels = [self.verdict.label, *(metric.verdict.label for metric in self.metrics)]
        return Label.FAIL in labels

    @property
    def repeated(self) -> bool:
        """Whether the golden has `repeat`: all runs together then pass or fail, not a single run."""
        return self.golden is not None and self.golden.repeat is not None

    @property
    def as_one(self) -> bool:
        """Whether the turns were scored as one: there is a single turn result, without a turn index."""
        golden = self.golden
        whole = golden is not None and (golden.calls is not None or golden.criterion.scope == "session")
        return whole or any(turn.turn is not None and turn.turn_index is None for turn in self.turns)

    @property
    def calls_expected(self) -> int:
        """Number of expected calls in all turns."""
        return sum(turn.calls_expected for turn in self.turns)

    @property
    def calls_evaluated(self) -> int:
        """Number of evaluated calls in all turns."""
        return sum(turn.calls_evaluated for turn in self.turns)


# The differences, from the results.


def _call_differences(call: CallResult, turn: str = "") -> Iterator[Difference]:
    unseen = call.missing and call.verdict.reason is not None

    def difference(kind: DifferenceKind, argument: str = "", *, counts: bool = True, hint: str = "") -> Difference:
        counts = counts and not (call.optional or unseen)
        return Difference(kind, call.tool, argument, counts, hint=hint, turn=turn)

    if call.violates is not None:
        yield Difference(DifferenceKind.FORBIDDEN_CALL, call.tool, turn=turn)
    if call.expected is None:
        return
    found = False
    for argument in call.arguments:
        found |= argument.outcome in (ArgumentOutcome.MISMATCHED, ArgumentOutcome.MISSING)
        if argument.outcome is ArgumentOutcome.MISSING:
            yield difference(DifferenceKind.ARGUMENT_NOT_PASSED, argument.name)
        elif argument.outcome is ArgumentOutcome.MISMATCHED:
            wrong = difference(DifferenceKind.WRONG_ARGUMENT, argument.name)
            values = argument.expected_value, argument.actual_value, argument.differing
            yield replace(wrong, expected=values[0], actual=values[1], parts=values[2])
    for name in call.extra_arguments:
        found |= call.extra_arguments_count
        yield difference(DifferenceKind.UNEXPECTED_ARGUMENT, name, counts=call.extra_arguments_count)
    if call.out_of_order:
        yield difference(DifferenceKind.OUT_OF_ORDER)
    elif call.missing and not found and not unseen:
        yield difference(DifferenceKind.TOOL_NOT_CALLED, hint=_why_not_called(call))


def _why_not_called(call: CallResult) -> str:
    if call.same_arguments_tool:
        other, aliases = shown_name(call.same_arguments_tool), f"{{{call.tool}: [{call.same_arguments_tool}]}}"
        return f"same arguments as `{other}`: renamed? then add `aliases: {aliases}` to the golden set"
    made = call.actual
    if made is None:
        return ""
    if made.rejected:
        return "the nearest call was requested, but not executed"
    if made.error is not None:
        return "the nearest call failed"
    return "" if made.arguments is not None else "the arguments of the nearest call are not known"


def _turn_differences(turn: TurnResult) -> Iterator[Difference]:
    name = turn_name(turn)
    if turn.turn is None:
        if turn.verdict.label is Label.FAIL:
            yield Difference(DifferenceKind.TURN_NOT_SEEN, turn=name)
        return
    for call in turn.calls:
        yield from _call_differences(call, name)
    for call in turn.unexpected_calls:
        if call.violates is not None:
            yield from _call_differences(call, name)
    for call in turn.unpaired_calls:
        if call.violates is None:
            yield Difference(DifferenceKind.TOOL_NOT_EXPECTED, call.tool, "", turn.extra_calls_count, turn=name)


_MAX_NAMES = 10
_MATCHED, _PASS = ArgumentOutcome.MATCHED, Label.PASS


def explain(detail: CallResult | TurnResult | SessionResult, *, include_values: bool = False) -> str:
    """Explain a result in one line: names of arguments and tools, and counts.

    `include_values` adds expected and actual values; long values are shortened. The default leaves values out, because
    telemetry often has more readers than the data.
    """
    if isinstance(detail, CallResult):
        return explain_call(detail, include_values=include_values)
    return explain_turn(detail) if isinstance(detail, TurnResult) else explain_session(detail)


def explain_call(call: CallResult, *, include_values: bool = False) -> str:
    """Explain the result of a call: `1 of 3 arguments match; mismatched: unit; missing: days`."""
    if call.expected is None:
        if call.violates is not None:
            return "forbidden"
        reason = call.verdict.reason
        if reason is None or reason in (Reason.NOTHING_EXPECTED, Reason.TURN_NOT_EXPECTED):
            return "not expected"
        return f"not expected, and perhaps forbidden: {REASON_TEXT[reason]}"
    if call.missing:
        return _of_missing(call, include_values=include_values)
    parts = [f"not evaluated: {REASON_TEXT[call.verdict.reason]}"] if call.verdict.reason is not None else []
    if call.arguments:
        parts.append(_matched(call))
    elif not parts:
        parts.append("no arguments are expected")
    if call.verdict.exact != 1 or call.extra_arguments:
        parts += _differences(call, include_values=include_values)
    if call.violates is not None:
        parts.append("forbidden")
    if call.optional:
        parts.append("optional")
    if call.actual is not None and call.actual.error is not None:
        parts.append("the call failed")
    if call.actual is not None and call.actual.rejected:
        parts.append("the request was not executed")
    return "; ".join(parts)


_SAID_ANYWAY = (DifferenceKind.FORBIDDEN_CALL, DifferenceKind.TURN_NOT_SEEN)


def explain_turn(turn: TurnResult) -> str:
    """Explain the result of a turn, with the names of its tools."""
    if turn.answer is not None:
        return _of_preset(turn.answer)
    right = turn.calls_right
    if right == len(turn.calls) and right and turn.verdict.label is _PASS and not _has_remarks(turn):
        return f"{right} of {right} calls right"
    violations = turn.violations
    others = [call for call in turn.unexpected_calls if call.violates is None]
    wrong = [call for call in turn.calls if call.aligned and _is_wrong(call)]
    required = [call for call in turn.calls if not call.optional]
    first = turn.first_difference if turn.verdict.label is Label.FAIL else None
    unknown = [call for call in required if call.verdict.label is Label.NOT_EVALUATED]
    wrong += [call for call in required if call.missing and call.has_wrong_arguments and _is_wrong(call)]
    missing = [call for call in required if call.missing and _is_wrong(call) and call not in wrong]
    if required:
        parts = [f"{right} of {turn.calls_expected} calls right"]
        if turn.alternative is not None:
            parts.append(f"by alternative {turn.alternative + 1}")
    elif turn.verdict.label is Label.NOT_EVALUATED:
        parts = [f"not evaluated: {REASON_TEXT[turn.verdict.reason or Reason.NOTHING_EXPECTED]}"]
    else:
        parts = [] if violations else ["nothing that is forbidden was called"]
    parts += _names("forbidden", [call.actual.name for call in violations if call.actual is not None])
    if turn.turn is None and required:
        parts.append("the turn was never seen")
    else:
        parts += _names("wrong", _tools(call for call in wrong if not call.optional))
        parts += _names("missing", _tools(missing))
        parts += _names("optional and wrong", _tools(call for call in wrong if call.optional))
    parts += _names("not evaluated", _tools(unknown))
    parts += _names("unexpected", _tools(others))
    parts += _names("not executed", [call.name for call in turn.rejected])
    if turn.approximate:
        parts.append("aligned approximately")
    if first is not None and first.lowers_score and first.kind not in _SAID_ANYWAY:
        parts.insert(0, first.text())
    return "; ".join(parts)


def _has_remarks(turn: TurnResult) -> bool:
    """Whether there is more to say of a turn than how many of its calls are right."""
    return bool(turn.unexpected_calls or turn.rejected or turn.approximate or turn.alternative is not None)


def explain_session(session: SessionResult) -> str:
    """Explain the result of a session, with the numbers of its turns."""
    if session.answer is not None:
        return _of_preset(session.answer)
    broken = [turn for turn in session.turns if turn.violations]
    if not session.turns_expected:
        if broken:
            return f"forbidden calls: {', '.join(turn_name(turn) for turn in broken)}"
        if session.verdict.reason is None:
            return "nothing that is forbidden was called"
        return f"not evaluated: {REASON_TEXT[session.verdict.reason]}"
    first = session.first_difference if session.verdict.label is Label.FAIL else None
    parts = [_in_turn(first, include_values=False)] if first is not None and first.lowers_score else []
    parts.append(f"{session.turns_evaluated} of {session.turns_expected} turns evaluated")
    if broken:
        parts.append(f"forbidden calls: {', '.join(turn_name(turn) for turn in broken)}")
    failed = [turn for turn in session.turns if turn.verdict.label is Label.FAIL and turn not in broken]
    if failed:
        parts.append(f"below the threshold: {', '.join(turn_name(turn) for turn in failed)}")
    if session.verdict.label is Label.NOT_EVALUATED and session.verdict.reason is not None:
        parts.append(f"undecided: {REASON_TEXT[session.verdict.reason]}")
    if session.session is not None and session.session.used_again:
        parts.append("session id used again: a new run")
    return "; ".join(parts)


def _of_preset(answer: PresetResult) -> str:
    """Name the preset and its status. Its own explanation may include values."""
    status = "" if answer.status is None else f": {answer.status}"
    return f"scored by preset {answer.name}{status}"


def turn_name(turn: TurnResult) -> str:
    """Return the name of a turn: its position in the golden, else in the session, from 1."""
    if turn.turn is not None and turn.turn_index is None:
        return "all turns"  # the turns were scored as one
    index = turn.turn_index if turn.expected_index is None else turn.expected_index
    return "turn" if index is None else f"turn {index + 1}"


def _of_missing(call: CallResult, *, include_values: bool) -> str:
    found = [difference.text(include_values=include_values) for difference in call.differences]
    parts = found[:_MAX_NAMES] + ([f"and {len(found) - _MAX_NAMES} more"] if len(found) > _MAX_NAMES else [])
    if call.verdict.reason is not None:
        parts.insert(0, f"not evaluated: {REASON_TEXT[call.verdict.reason]}")
    if call.arguments:
        parts.append(_matched(call))
    return "; ".join(parts)


def _matched(call: CallResult) -> str:
    matched = [argument for argument in call.arguments if argument.outcome is _MATCHED]
    return f"{len(matched)} of {len(call.arguments)} arguments match"


def _differences(call: CallResult, *, include_values: bool) -> list[str]:
    found: list[str] = []
    for outcome in (ArgumentOutcome.MISMATCHED, ArgumentOutcome.MISSING, ArgumentOutcome.UNKNOWN):
        arguments = [argument for argument in call.arguments if argument.outcome is outcome]
        found += _names(
            outcome.value, [_argument(argument, include_values=include_values) for argument in arguments], raw=True
        )
    return found + _names("extra", call.extra_arguments)


def _argument(argument: ArgumentResult, *, include_values: bool) -> str:
    name, parts = shown_name(argument.name), part_names(argument.differing)
    if not include_values:
        return f"{name} ({parts})" if parts else name
    if argument.outcome is not ArgumentOutcome.MISMATCHED:
        return f"{name} (expected {shown(argument.expected_value)})"
    return f"{name} ({value_differences(argument.expected_value, argument.actual_value, argument.differing)})"


def _is_wrong(call: CallResult) -> bool:
    """Whether a call does not match its expected call; a forbidden call may match."""
    return call.verdict.label is Label.FAIL and call.verdict.exact != 1


def _tools(calls: Iterable[CallResult]) -> list[str]:
    return [call.tool for call in calls]


def _names(label: str, names: Sequence[str], *, raw: bool = False) -> list[str]:
    if not names:
        return []
    first = [name if raw else shown_name(name) for name in names[:_MAX_NAMES]]
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return [f"{label}: {', '.join(first)}{more}"]


def failures_first(results: Iterable[_Result]) -> Iterator[_Result]:
    """Yield results in their order, but those that failed before all others."""
    return iter(sorted(results, key=lambda result: result.verdict.label is not Label.FAIL))


def is_interesting(session: SessionResult) -> bool:
    """Whether the session has a golden, and anything besides a pass to report; without one, whether it failed."""
    if session.verdict.reason is Reason.NO_GOLDEN:
        return session.failed
    metric_differs = any(metric.label not in {None, Label.PASS} for metric in session.metrics)
    return metric_differs or session.verdict.label is not Label.PASS or any(_has_more(turn) for turn in session.turns)


def _has_more(turn: TurnResult) -> bool:
    verdicts = [turn.verdict, *(call.verdict for call in turn.calls)]
    return bool(turn.unexpected_calls or turn.rejected) or any(map(_differs, verdicts))


def _differs(verdict: Verdict) -> bool:
    return verdict.label is not Label.PASS and verdict.reason is not Reason.NOTHING_EXPECTED


def session_lines(result: SessionResult) -> Iterator[str]:
    """Yield the differences in a session as lines, with values."""
    if result.verdict.reason is Reason.NO_GOLDEN and result.failed:
        yield f"FAIL {_session_name(result)}, {REASON_TEXT[Reason.NO_GOLDEN]}"
    else:
        yield f"{verdict_text(result.verdict)} {_session_name(result)}: {explain_session(result)}"
    for metric in result.metrics:
        if text := _metric_problem(metric):
            yield f"  {verdict_text(metric.verdict)} {metric.name}: {text}"
    for turn in result.turns:
        if _has_more(turn):
            yield f"  {_turn_head(turn)}"
            yield from (f"    {line}" for line in _details(turn))


def _metric_problem(metric: MetricResult) -> str:
    """Return what a metric found, if it failed or was not evaluated; empty otherwise."""
    verdict = metric.verdict
    return "" if verdict.label in {None, Label.PASS} else verdict.detailed or verdict.explanation or "no score"


def turn_lines(turn: TurnResult) -> Iterator[str]:
    """Yield the differences in a turn as lines, with values."""
    yield f"{verdict_text(turn.verdict)} {turn_name(turn)}: {explain_turn(turn)}"
    yield from (f"  {line}" for line in _details(turn))


def turn_difference(turn: TurnResult) -> str:
    """Return the name of the turn and its first difference, on one line."""
    first = turn.first_difference if turn.verdict.label is not Label.PASS else None
    if turn.turn is None or first is None:
        return _turn_name_and_reason(turn) if turn.turn is None else f"{turn_name(turn)}: {explain_turn(turn)}"
    return f"{turn_name(turn)}: {first}"


def session_difference(session: SessionResult) -> str:
    """Return the name of the session and its first difference, on one line."""
    first = session.first_difference
    if first is None or not first.lowers_score:
        failed = next((one for one in session.metrics if one.verdict.label is Label.FAIL), None)
        if failed is not None and session.verdict.reason is Reason.NO_GOLDEN:
            verdict = failed.verdict
            return f"{_session_name(session)}: {failed.name}: {verdict.detailed or verdict.explanation or 'too low'}"
        return f"{_session_name(session)}: {explain_session(session)}"
    return f"{_session_name(session)}: {_in_turn(first)}"


def _in_turn(difference: Difference, *, include_values: bool = True) -> str:
    text = difference.text(include_values=include_values)
    return text if difference.kind is DifferenceKind.TURN_NOT_SEEN else f"{difference.turn}: {text}"


def _session_name(result: SessionResult) -> str:
    name = (result.session.id if result.session else "") or (result.golden.key if result.golden else "")
    return f"session {shown_name(name) if name else 'without id'}"


def _turn_head(turn: TurnResult) -> str:
    return f"{verdict_text(turn.verdict)} {_turn_name_and_reason(turn)}"


def _turn_name_and_reason(turn: TurnResult) -> str:
    if turn.turn is None:
        return f"{turn_name(turn)}: never seen"
    return turn_name(turn) if turn.verdict.reason is None else f"{turn_name(turn)}: {REASON_TEXT[turn.verdict.reason]}"


def _details(turn: TurnResult) -> Iterator[str]:
    if turn.answer is not None and turn.answer.words:
        yield turn.answer.words
    yield from _calls(turn)


def _calls(turn: TurnResult) -> Iterator[str]:
    for call in turn.calls:
        if _differs(call.verdict) or call.extra_arguments:
            yield _call_line(call)
    unpaired = {call.actual_index for call in turn.unpaired_calls}
    for call in turn.unexpected_calls:
        if call.violates is not None:
            yield _call_line(call)
        elif call.actual_index in unpaired:
            yield _call_line(call, "extra")
    for request in turn.rejected:
        yield f"extra {shown_name(request.name)}: requested, never executed"


def _call_line(call: CallResult, head: str = "") -> str:
    text = explain_call(call, include_values=True)
    named = text if call.missing and call.verdict.reason is None else f"{shown_name(call.tool)}: {text}"
    return f"{head or verdict_text(call.verdict)} {named}"


def verdict_text(verdict: Verdict | MetricVerdict) -> str:
    """Return `pass`, `FAIL` or `?` (not evaluated), with the score unless it passed."""
    if verdict.label is Label.PASS:
        return "pass"
    score = "" if verdict.score is None else f" {verdict.score:.3g}"
    return f"{'FAIL' if verdict.label is Label.FAIL else '?'}{score}"


CALL_COLUMNS = ("session", "turn", "call", "label", "score", "explanation")
ARGUMENT_COLUMNS = ("argument", "outcome", "expected", "actual")

_MAX_ROWS = 200
_JUDGED_COLUMNS = {"label", "outcome"}
_WRAPPED_COLUMNS = {"explanation", "expected", "actual"}
_RED, _YELLOW = "#d32f2f", "#8a6d00"
_ROW_COLOURS = {
    "fail": _RED,
    "mismatched": _RED,
    "missing": _RED,
    "not_evaluated": _YELLOW,
    "unknown": _YELLOW,
}
"""The colours of rows by label or outcome, readable on light and dark pages."""


def call_rows(session: str, turn: TurnResult) -> list[tuple[str, ...]]:
    """Return the table rows of a turn: a row for each call, or a row for a turn without calls."""
    head = (session, turn_name(turn))
    if not turn.calls and not turn.unexpected_calls:
        return [(*head, "", *_label_and_score(turn.verdict), explain_turn(turn))]
    return [
        (*head, shown_name(call.tool), *_label_and_score(call.verdict), explain_call(call, include_values=True))
        for call in (*turn.calls, *turn.unexpected_calls)
    ]


def session_rows(result: SessionResult) -> list[tuple[str, ...]]:
    """Return the table rows of a session: for each call, or for a session without turns; for metrics that fail."""
    name = _session_name(result).removeprefix("session ")
    rows = [row for turn in result.turns for row in call_rows(name, turn)]
    rows = rows or [(name, "", "", *_label_and_score(result.verdict), explain_session(result))]
    return rows + [
        (name, "", "", *_label_and_score(one.verdict), f"{one.name}: {text}")
        for one in result.metrics
        if (text := _metric_problem(one))
    ]


def _argument_rows(call: CallResult) -> list[tuple[str, ...]]:
    passed = (ArgumentOutcome.MATCHED, ArgumentOutcome.MISMATCHED)
    return [
        (
            argument.name,
            argument.outcome.value,
            shown(argument.expected_value),
            shown(argument.actual_value) if argument.outcome in passed else "",
        )
        for argument in call.arguments
    ]


def _label_and_score(verdict: Verdict | MetricVerdict) -> tuple[str, str]:
    return "" if verdict.label is None else verdict.label.value, "" if verdict.score is None else f"{verdict.score:.3g}"


def html_table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an HTML table for notebooks, without columns that are empty; all text is escaped."""
    used = [at for at, _ in enumerate(columns) if not rows or any(row[at] for row in rows)]
    judged = next(at for at, name in enumerate(columns) if name in _JUDGED_COLUMNS)

    def row(cells: Sequence[str], tag: str, colour: str = "inherit") -> str:
        style = f"text-align:left;vertical-align:top;color:{colour};white-space:"
        wraps = {at: "normal" if columns[at] in _WRAPPED_COLUMNS else "nowrap" for at in used}
        inner = (f"<{tag} style='{style}{wraps[at]}'>{escape(cells[at])}</{tag}>" for at in used)
        return f"<tr>{''.join(inner)}</tr>"

    body = "".join(row(cells, "td", _ROW_COLOURS.get(cells[judged], "inherit")) for cells in rows[:_MAX_ROWS])
    more = f"<p>and {len(rows) - _MAX_ROWS} more</p>" if len(rows) > _MAX_ROWS else ""
    table = f"<table><thead>{row(columns, 'th')}</thead><tbody>{body}</tbody></table>"
    return f"<div><p>{escape(caption)}</p>{table}{more}</div>"


TABLE_GROUP = "goldspan.result_tables"
"""Entry points by which results become tables: rows have the ids and spans of what is emitted, unknown to scoring."""


def table_of(result: object, form: str) -> Any:
    """Return the table of a session's or a run's results in a form: `arrow`, `pandas`."""
    [found, *_] = entry_points(group=TABLE_GROUP, name=form)
    return found.load()(result)
