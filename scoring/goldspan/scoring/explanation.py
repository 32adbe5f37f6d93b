"""Results in one line of words: names and counts, and values only where they are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from goldspan.scoring.json_values import Steps, shown, shown_name, steps_of, value_at
from goldspan.scoring.results import (
    ArgumentResult,
    CallResult,
    Label,
    Outcome,
    Reason,
    SessionResult,
    TurnResult,
)
from goldspan.scoring.sessions import JsonValue

if TYPE_CHECKING:
    from goldspan.scoring.results import PresetResult

REASONS: Mapping[Reason, str] = {
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

_MOST_NAMES = 10
_MOST_PARTS = 3


def explain(detail: CallResult | TurnResult | SessionResult, *, include_values: bool = False) -> str:
    """Say in one line what was found: names of arguments and tools, and counts.

    `include_values` adds expected and actual values, cut where they are long. Telemetry is shared more widely than
    data, so values are left out unless somebody asks for them.
    """
    if isinstance(detail, CallResult):
        return explain_call(detail, include_values=include_values)
    return explain_turn(detail) if isinstance(detail, TurnResult) else explain_session(detail)


def explain_call(call: CallResult, *, include_values: bool = False) -> str:
    """Say what became of one call: `1 of 3 arguments match; mismatched: unit; missing: days`."""
    if call.expected is None:
        if call.violates is not None:
            return "forbidden"
        reason = call.verdict.reason
        if reason is None or reason in (Reason.NOTHING_EXPECTED, Reason.TURN_NOT_EXPECTED):
            return "not expected"
        return f"not expected, and perhaps forbidden: {REASONS[reason]}"
    if call.missing:
        return "; ".join(_of_missing(call, include_values=include_values))
    parts = [f"not evaluated: {REASONS[call.verdict.reason]}"] if call.verdict.reason is not None else []
    if call.arguments:
        matched = len(call.arguments_with(Outcome.MATCHED))
        parts.append(f"{matched} of {len(call.arguments)} arguments match")
    elif not parts:
        parts.append("no arguments are expected")
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


def explain_turn(turn: TurnResult) -> str:
    """Say what became of the calls of a turn, by tool."""
    if turn.answer is not None:
        return _of_preset(turn.answer)
    violations = turn.violations
    others = [call for call in turn.unexpected if call.violates is None]
    wrong = [call for call in turn.calls if call.aligned and _is_wrong(call)]
    required = [call for call in turn.calls if not call.optional]
    unknown = [call for call in required if call.verdict.label is Label.NOT_EVALUATED]
    missing = [call for call in required if call.missing and call.verdict.label is Label.FAIL]
    if required:
        right = sum(call.verdict.exact == 1 for call in required)
        parts = [f"{right} of {turn.expected} calls right"]
        if turn.alternative is not None:
            parts.append(f"by alternative {turn.alternative + 1}")
    elif turn.verdict.label is Label.NOT_EVALUATED:
        parts = [f"not evaluated: {REASONS[turn.verdict.reason or Reason.NOTHING_EXPECTED]}"]
    else:
        parts = [] if violations else ["nothing that is forbidden was called"]
    parts += _names("forbidden", _tools(violations, actual=True))
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
    return "; ".join(parts)


def explain_session(session: SessionResult) -> str:
    """Say what became of the turns of a session, by number."""
    if session.answer is not None:
        return _of_preset(session.answer)
    broken = [turn for turn in session.turns if turn.violations]
    if not session.expected:
        if broken:
            return f"forbidden calls: {', '.join(turn_name(turn) for turn in broken)}"
        if session.verdict.reason is None:
            return "nothing that is forbidden was called"
        return f"not evaluated: {REASONS[session.verdict.reason]}"
    parts = [f"{session.evaluated} of {session.expected} turns evaluated"]
    if broken:
        parts.append(f"forbidden calls: {', '.join(turn_name(turn) for turn in broken)}")
    failed = [turn for turn in session.turns if turn.verdict.label is Label.FAIL and turn not in broken]
    if failed:
        parts.append(f"below the threshold: {', '.join(turn_name(turn) for turn in failed)}")
    if session.verdict.label is Label.NOT_EVALUATED and session.verdict.reason is not None:
        parts.append(f"undecided: {REASONS[session.verdict.reason]}")
    return "; ".join(parts)


def _of_preset(answer: PresetResult) -> str:
    """Name the preset; what it says itself holds values."""
    status = "" if answer.status is None else f": {answer.status}"
    return f"scored by preset {answer.name}{status}"


def turn_name(turn: TurnResult) -> str:
    """Name a turn by its position in the golden, else in the session, counted from 1."""
    if turn.turn is not None and turn.turn_index is None:
        return "all turns"  # of a golden for the whole session
    index = turn.turn_index if turn.expected_index is None else turn.expected_index
    return "turn" if index is None else f"turn {index + 1}"


def counted(number: int, thing: str) -> str:
    """Return `1 call` or `2 calls`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _of_missing(call: CallResult, *, include_values: bool) -> Iterable[str]:
    yield "not called" if call.verdict.reason is None else f"not evaluated: {REASONS[call.verdict.reason]}"
    if call.actual is not None:
        differences = _differences(call, include_values=include_values)
        yield f"nearest call: {', '.join(differences) or 'right, but not where it is expected'}"
        if call.actual.error is not None:
            yield "that call failed"
        if call.actual.rejected:
            yield "that request was not executed"


def _differences(call: CallResult, *, include_values: bool) -> list[str]:
    found: list[str] = []
    for outcome in (Outcome.MISMATCHED, Outcome.MISSING, Outcome.UNKNOWN):
        arguments = [argument for argument in call.arguments if argument.outcome is outcome]
        found += _names(outcome.value, [_argument(one, include_values=include_values) for one in arguments], raw=True)
    return found + _names("extra", call.extra_arguments)


def _argument(argument: ArgumentResult, *, include_values: bool) -> str:
    name = shown_name(argument.name)
    parts, more = argument.differing[:_MOST_PARTS], len(argument.differing) - _MOST_PARTS
    rest = [f"and {more} more"] if more > 0 else []
    if not include_values:
        return f"{name} ({', '.join([*map(shown_name, parts), *rest])})" if parts else name
    if argument.outcome is not Outcome.MISMATCHED:
        return f"{name} (expected {shown(argument.expected)})"
    try:
        inside = [f"{shown_name(part)}: {_part(argument, steps_of(part))}" for part in parts]
    except LookupError:
        inside = []  # a part of a matcher, which stands elsewhere than what it matches
    return f"{name} ({'; '.join([*inside, *rest]) if inside else _difference(argument.expected, argument.actual)})"


def _part(argument: ArgumentResult, steps: Steps) -> str:
    expected = value_at(argument.expected, steps)
    try:
        return _difference(expected, value_at(argument.actual, steps))
    except LookupError:
        return f"expected {shown(expected)}, found nothing"


def _difference(expected: JsonValue, actual: JsonValue) -> str:
    return f"expected {shown(expected)}, found {shown(actual)}"


def _is_wrong(call: CallResult) -> bool:
    """Whether a call is wrong as what it stands for; a forbidden one may be right as that."""
    return call.verdict.label is Label.FAIL and call.verdict.exact != 1


def _tools(calls: Iterable[CallResult], *, actual: bool = False) -> list[str]:
    named = ((call.actual or call.expected) if actual else (call.expected or call.actual) for call in calls)
    return [call.name for call in named if call is not None]


def _names(label: str, names: Sequence[str], *, raw: bool = False) -> list[str]:
    if not names:
        return []
    some = [name if raw else shown_name(name) for name in names[:_MOST_NAMES]]
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return [f"{label}: {', '.join(some)}{more}"]
