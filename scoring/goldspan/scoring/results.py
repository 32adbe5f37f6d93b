"""The results of scoring a session, and their explanation in one line for telemetry and documents.

SessionResult > TurnResult > CallResult > ArgumentResult
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from fractions import Fraction
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from goldspan.scoring.goldens.golden import ExpectedCall, Golden
from goldspan.scoring.json_values import shown, shown_name
from goldspan.scoring.sessions import Doubt, JsonValue, Session, ToolCall, Turn
from goldspan.scoring.verdict import (
    REASON_TEXT,
    Difference,
    DifferenceKind,
    Label,
    MetricResult,
    PresetResult,
    Reason,
    Scored,
    Verdict,
    heaviest_first,
    part_names,
    short_repr,
    value_differences,
    value_hint,
)


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
        if self.outcome is ArgumentOutcome.MISSING and self.expected_value is None:
            return "null is not left out: use {$any_of: [null, {$absent: true}]} for both"
        if self.outcome is not ArgumentOutcome.MISMATCHED:
            return ""
        return value_hint(self.expected_value, self.actual_value, self.differing)


_LINES, _TABLES = "goldspan.scoring.result_lines", "goldspan.scoring.result_lines"
"""What reads results and says them in words: imported by name when a result is shown, since it imports this module."""


class Readable:
    """Base class of results that say in words, and in a table of a notebook, what differs."""

    __slots__ = ()

    def __str__(self) -> str:
        return str(import_module(_LINES).text_of_result(self))

    def __repr__(self) -> str:
        return short_repr(self, import_module(_LINES).brief(self))

    def _repr_html_(self) -> str:
        return str(import_module(_TABLES).html_of_result(self))


class HasTable:
    """Base class of results that become a table: rows have the ids and spans of what is emitted, unknown to scoring."""

    __slots__ = ()

    def to_arrow(self) -> Any:
        """Return the rows of `goldspan score --output` as a `pyarrow.Table`. Raises ImportError without pyarrow."""
        return _table_of(self, "arrow")

    def to_pandas(self) -> Any:
        """Return the same rows as a `pandas.DataFrame`. Raises ImportError without pandas or pyarrow."""
        return _table_of(self, "pandas")


def _table_of(result: object, form: str) -> Any:
    [found, *_] = entry_points(group="goldspan.result_tables", name=form)
    return found.load()(result)


class CallResult(Readable, Scored, frozen=True, gc=False):
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

    @property
    def other_agent(self) -> str:
        """The agent that made the near miss of a missing call, if the golden names another one."""
        wanted, made = self.expected and self.expected.agent, self.actual and self.actual.agent
        return made if self.missing and wanted and made and made != wanted else ""

    @property
    def wrong_status(self) -> bool:
        """Whether the near miss of a missing call ended otherwise than the golden says."""
        status = self.expected and self.expected.status
        return bool(self.missing and status and self.actual and (self.actual.error is None) != (status == "succeeded"))

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
    repeats: bool = False
    """It writes, is forbidden since it is not expected, and repeats a call that succeeded."""

    @property
    def differences(self) -> tuple[Difference, ...]:
        """The differences between the two calls, those that explain most first."""
        return heaviest_first(_call_differences(self))

    def arguments_with(self, outcome: ArgumentOutcome) -> tuple[str, ...]:
        """Names of the expected arguments with this outcome."""
        return tuple(argument.name for argument in self.arguments if argument.outcome == outcome)


class TurnResult(Readable, Scored, frozen=True, gc=False):
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
    def doubts(self) -> tuple[Doubt, ...]:
        """What its own telemetry contradicts."""
        return () if self.turn is None else self.turn.doubts

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


class SessionResult(Readable, HasTable, Scored, frozen=True, gc=False):
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

    @property
    def name(self) -> str:
        """The id of the session, else the name of its golden; may be empty."""
        return (self.session.id if self.session else "") or (self.golden.key if self.golden else "")

    @property
    def has_golden(self) -> bool:
        """Whether the session was seen and some golden is for it."""
        return self.session is not None and self.verdict.reason is not Reason.NO_GOLDEN

    @property
    def label_of_metrics(self) -> Label:
        """What the metrics with a threshold say: failed if one failed, passed if one passed, or if all only inform."""
        labels = {metric.verdict.label for metric in self.metrics}
        if all(metric.threshold is None for metric in self.metrics) and Label.FAIL not in labels:
            return Label.PASS if None in labels else Label.NOT_EVALUATED
        return next((label for label in (Label.FAIL, Label.PASS) if label in labels), Label.NOT_EVALUATED)

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

REPEATED = "the same call succeeded before"
"""Why a repeated call of a writing tool fails."""


def _call_differences(call: CallResult, turn: str = "") -> Iterator[Difference]:
    unseen = call.missing and call.verdict.reason is not None

    def difference(kind: DifferenceKind, argument: str = "", *, counts: bool = True, hint: str = "") -> Difference:
        counts = counts and not (call.optional or unseen)
        return Difference(kind, call.tool, argument, counts, hint=hint, turn=turn)

    if call.violates is not None:
        hint = REPEATED if call.repeats else ""
        yield Difference(DifferenceKind.FORBIDDEN_CALL, call.tool, hint=hint, turn=turn)
    if call.expected is None:
        return
    found = False
    for argument in call.arguments:
        found |= argument.outcome in (ArgumentOutcome.MISMATCHED, ArgumentOutcome.MISSING)
        if argument.outcome is ArgumentOutcome.MISSING:
            yield difference(DifferenceKind.ARGUMENT_NOT_PASSED, argument.name, hint=argument.hint)
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
        return _of_call(detail, include_values=include_values)
    if detail.answer is not None:
        return _of_preset(detail.answer)
    if isinstance(detail, SessionResult):
        return "; ".join(_session_parts(detail) if detail.turns_expected else _of_nothing_expected(detail))
    right = detail.calls_right
    remarks = detail.unexpected_calls or detail.rejected or detail.approximate or detail.alternative is not None
    if right == len(detail.calls) and right and detail.verdict.label is _PASS and not remarks:
        return f"{right} of {right} calls right"
    return "; ".join(_turn_parts(detail))


def _of_call(call: CallResult, *, include_values: bool) -> str:
    """Explain the result of a call: `1 of 3 arguments match; mismatched: unit; missing: days`."""
    if call.expected is None:
        return _of_unexpected(call)
    if call.missing:
        return _of_missing(call, include_values=include_values)
    parts = [f"not evaluated: {REASON_TEXT[call.verdict.reason]}"] if call.verdict.reason is not None else []
    if matched := _matched(call):
        parts.append(matched)
    elif not parts:
        parts.append("no arguments are expected")
    if call.verdict.exact != 1 or call.extra_arguments:
        parts += _differences(call, include_values=include_values)
    if call.violates is not None:
        parts.append("forbidden")
    if call.optional:
        parts.append("optional")
    made = call.actual
    if made is not None and made.error is not None:
        parts.append("the call failed")
    if made is not None and made.rejected:
        parts.append("the request was not executed")
    return "; ".join(parts)


def _of_unexpected(call: CallResult) -> str:
    if call.violates is not None:
        return f"forbidden: {REPEATED}" if call.repeats else "forbidden"
    reason = call.verdict.reason
    if reason is None or reason in (Reason.NOTHING_EXPECTED, Reason.TURN_NOT_EXPECTED):
        return "not expected"
    return f"not expected, and perhaps forbidden: {REASON_TEXT[reason]}"


_SAID_ANYWAY = (DifferenceKind.FORBIDDEN_CALL, DifferenceKind.TURN_NOT_SEEN)
_NOTHING_FORBIDDEN = "nothing that is forbidden was called"


def _turn_parts(turn: TurnResult) -> Iterator[str]:
    """Yield the first difference, how many calls are right, and the names of those that are not, by what they are."""
    first = _explains_failure(turn.first_difference, turn.verdict)
    if first is not None and first.kind not in _SAID_ANYWAY:
        yield first.text()
    requires = any(not call.optional for call in turn.calls)
    forbidden = [call.actual.name for call in turn.violations if call.actual is not None]
    if requires:
        yield f"{turn.calls_right} of {turn.calls_expected} calls right"
        yield from [] if turn.alternative is None else [f"by alternative {turn.alternative + 1}"]
    elif turn.verdict.label is Label.NOT_EVALUATED:
        yield f"not evaluated: {REASON_TEXT[turn.verdict.reason or Reason.NOTHING_EXPECTED]}"
    elif not forbidden:
        yield _NOTHING_FORBIDDEN
    yield from _names("forbidden", forbidden)
    yield from _calls_by_standing(turn, seen=turn.turn is not None or not requires)
    yield from _remarks(turn)


def _remarks(turn: TurnResult) -> Iterator[str]:
    """Yield the names of calls that nothing expected or that were refused, and how the calls were aligned."""
    yield from _names("unexpected", [call.tool for call in turn.unexpected_calls if call.violates is None])
    yield from _names("not executed", [call.name for call in turn.rejected])
    if turn.approximate:
        yield "aligned approximately"


def _explains_failure(difference: Difference | None, verdict: Verdict) -> Difference | None:
    failed = verdict.label is Label.FAIL and difference is not None and difference.lowers_score
    return difference if failed else None


def _calls_by_standing(turn: TurnResult, *, seen: bool) -> Iterator[str]:
    """Yield the names of the expected calls that are not right, by what became of them."""
    groups: dict[str, list[str]] = {}
    for call in turn.calls:
        groups.setdefault(_standing(call), []).append(call.tool)
    groups["wrong"] = groups.get("wrong", []) + groups.get("nearly", [])
    if not seen:
        yield "the turn was never seen"
    for standing in (*(("wrong", "missing", "optional and wrong") if seen else ()), "not evaluated"):
        yield from _names(standing, groups.get(standing, ()))


def _standing(call: CallResult) -> str:
    """Return what became of an expected call; `nearly` if it is missing and its near miss has wrong arguments."""
    wrong = call.verdict.label is Label.FAIL and call.verdict.exact != 1  # a forbidden call may match
    if call.optional:
        return "optional and wrong" if wrong and call.aligned else ""
    if call.verdict.label is Label.NOT_EVALUATED:
        return "not evaluated"
    if not wrong:
        return ""
    return "wrong" if call.aligned else "nearly" if call.has_wrong_arguments else "missing"


def _of_nothing_expected(session: SessionResult) -> Iterator[str]:
    yield from (forbidden := list(_turns("forbidden calls", [turn for turn in session.turns if turn.violations])))
    reason = session.verdict.reason
    if not forbidden:
        yield _NOTHING_FORBIDDEN if reason is None else f"not evaluated: {REASON_TEXT[reason]}"


def _session_parts(session: SessionResult) -> Iterator[str]:
    first = _explains_failure(session.first_difference, session.verdict)
    if first is not None:
        yield first.text() if first.kind is DifferenceKind.TURN_NOT_SEEN else f"{first.turn}: {first.text()}"
    yield f"{session.turns_evaluated} of {session.turns_expected} turns evaluated"
    broken = [turn for turn in session.turns if turn.violations]
    failed = [turn for turn in session.turns if turn.verdict.label is Label.FAIL and turn not in broken]
    yield from _turns("forbidden calls", broken)
    yield from _turns("below the threshold", failed)
    if session.verdict.label is Label.NOT_EVALUATED and session.verdict.reason is not None:
        yield f"undecided: {REASON_TEXT[session.verdict.reason]}"
    if session.session is not None and session.session.used_again:
        yield "session id used again: a new run"


def _turns(what: str, turns: Sequence[TurnResult]) -> Iterator[str]:
    if turns:
        yield f"{what}: {', '.join(map(turn_name, turns))}"


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
    if matched := _matched(call):
        parts.append(matched)
    return "; ".join(parts)


def _matched(call: CallResult) -> str:
    """Say how many arguments match of those that count; nothing where none counts."""
    counted = [argument for argument in call.arguments if argument.outcome is not ArgumentOutcome.IGNORED]
    matched = sum(argument.outcome is _MATCHED for argument in counted)
    return f"{matched} of {len(counted)} arguments match" if counted else ""


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


def _names(label: str, names: Sequence[str], *, raw: bool = False) -> list[str]:
    if not names:
        return []
    first = [name if raw else shown_name(name) for name in names[:_MAX_NAMES]]
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return [f"{label}: {', '.join(first)}{more}"]
