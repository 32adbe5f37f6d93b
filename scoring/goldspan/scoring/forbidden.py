"""Forbidden calls: which actual ones are among them, and what that means for the turn.

A forbidden call with arguments is violated by every call that has these, whatever else it stands for; one without, by
every call of its tool that stands for no expected one. A violation fails the turn and its session; scores stay as
they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from goldspan.scoring.call_match import CallMatch
from goldspan.scoring.goldens.models import ANY_TOOL, ExpectedCall
from goldspan.scoring.known_arguments import REASONS, arguments_of, is_hidden, why_hidden, why_not_known
from goldspan.scoring.results import CallResult, Label, Reason, Verdict
from goldspan.scoring.sessions import ToolCall

_KEPT = Verdict(None, Label.PASS)
_VIOLATED = Verdict(None, Label.FAIL)


def judge_forbidden(
    forbidden: Sequence[CallMatch],
    calls: Sequence[CallResult],
    unexpected: Sequence[CallResult],
    unseen: Reason | None,
) -> tuple[list[CallResult], list[CallResult], Verdict]:
    """Mark the calls that were made although they are forbidden, and say whether what is forbidden was left alone.

    `unseen` is a reason why there may be calls that were not seen.
    """
    specific = [match for match in forbidden if match.expected.args]
    kept = _KEPT if unseen is None else Verdict(None, Label.NOT_EVALUATED, unseen)
    marked: list[CallResult] = []
    for result in (*calls, *unexpected):
        call = result.actual if result.aligned or result.unexpected else None
        matches = specific if result.aligned else forbidden
        violated, reason = (None, None) if call is None else _violated(matches, call)
        if call is not None and result.aligned:
            reason = reason or _why_unsure(forbidden, call)
        if violated is not None:
            kept = _VIOLATED
            marked.append(replace(result, violates=violated, verdict=Verdict(result.verdict.exact, Label.FAIL)))
            continue
        if reason is not None and kept is not _VIOLATED:
            kept = Verdict(None, Label.NOT_EVALUATED, kept.reason or reason)
        unknown = reason is not None and result.unexpected
        marked.append(replace(result, verdict=Verdict(None, Label.NOT_EVALUATED, reason)) if unknown else result)
    return marked[: len(calls)], marked[len(calls) :], kept


def with_forbidden(verdict: Verdict, kept: Verdict | None) -> Verdict:
    """Return a verdict on what is expected together with that on what is forbidden."""
    if kept is None:
        return verdict
    nothing = verdict.reason is Reason.NOTHING_EXPECTED
    if kept.label is Label.FAIL:
        return Verdict(verdict.exact, Label.FAIL)
    if kept.label is Label.PASS:
        return _KEPT if nothing else verdict
    if verdict.label is Label.PASS or nothing:
        return Verdict(verdict.exact, Label.NOT_EVALUATED, kept.reason)
    return verdict


def all_kept(parts: Iterable[Verdict | None]) -> Verdict | None:
    """Return whether what is forbidden in several turns was left alone in all of them; none where nothing is."""
    some = [part for part in parts if part is not None]
    order = (Label.FAIL, Label.NOT_EVALUATED, Label.PASS)
    return min(some, key=lambda part: order.index(part.label), default=None)


def _violated(forbidden: Sequence[CallMatch], call: ToolCall) -> tuple[ExpectedCall | None, Reason | None]:
    """Return the first forbidden call that a call is, else why that cannot be told of one, if it cannot."""
    unknown: Reason | None = None
    for match in forbidden:
        if match.expected.name not in (ANY_TOOL, call.name):
            continue
        reason = _unknown(match, call)
        if reason is None and match.may_be(call):
            return match.expected, None
        unknown = unknown or reason
    return None, unknown


def _why_unsure(forbidden: Sequence[CallMatch], call: ToolCall) -> Reason | None:
    """Say why a call may yet turn out to stand for no expected one, where that would be a violation."""
    if not any(not match.expected.args and match.expected.name in (ANY_TOOL, call.name) for match in forbidden):
        return None
    return why_hidden(call)


def _unknown(match: CallMatch, call: ToolCall) -> Reason | None:
    """Say why it is not known whether a call has the forbidden arguments, if that depends on what is not known."""
    wanted = match.expected.args
    if not wanted:
        return None
    actual, hidden = arguments_of(call), call.argument_captures
    if actual is None:
        return why_not_known(call)
    secret = [name for name in wanted if is_hidden(hidden, name)]
    if not secret or not match.may_be(call):
        return None
    return REASONS[hidden[secret[0]]]
