"""What differs between a golden set and traces, as scoring sees it: what it lets pass is no difference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from goldspan.collector_processor.golden_tools.agreement import agree_on_call, agree_on_turn
from goldspan.collector_processor.golden_tools.changes import (
    NOTHING,
    CallPlace,
    Change,
    Way,
    call_document,
    differing_parts,
    turn_document,
)
from goldspan.collector_processor.golden_tools.seen import seen_call, seen_turn
from goldspan.scoring.explanation import counted
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.goldens.documents import path_text
from goldspan.scoring.goldens.models import Golden
from goldspan.scoring.matchers import escape_literal
from goldspan.scoring.matchers.judging import MOST_DIFFERING
from goldspan.scoring.pointers import steps_of
from goldspan.scoring.rendering import shown_name
from goldspan.scoring.results import ArgumentResult, CallResult, Outcome, Reason, RunResult, SessionResult, TurnResult
from goldspan.scoring.score import score_sessions
from goldspan.scoring.sessions import JsonValue, Session, ToolCall


@dataclass(frozen=True, slots=True)
class TraceDifference:
    """Changes, and what could not be compared."""

    runs: tuple[tuple[Golden, tuple[Change, ...]], ...]
    """For each run of a session that has a golden, what differs."""
    without_golden: tuple[Session, ...]
    """Sessions that called tools and that no golden wants."""
    notes: tuple[str, ...]

    @property
    def changes(self) -> tuple[Change, ...]:
        """Every change once, however many runs show it."""
        found: list[Change] = []
        for _, changes in self.runs:
            found += [change for change in changes if change not in found]
        return tuple(found)


def trace_difference(goldens: GoldenIndex, sessions: Iterable[Session]) -> TraceDifference:
    """Score sessions and say what they did otherwise than their goldens expect."""
    result = score_sessions(sessions, goldens)
    runs = [(one.golden, tuple(_session(one, one.golden))) for one in result.sessions if one.golden is not None]
    without = [
        one.session
        for one in result.sessions
        if one.session is not None and one.verdict.reason is Reason.NO_GOLDEN and _calls(one.session)
    ]
    return TraceDifference(tuple(runs), tuple(without), tuple(_notes(result, without)))


def _calls(session: Session) -> bool:
    return any(turn.calls for turn in session.turns)


def _notes(result: RunResult, without: Sequence[Session]) -> Iterator[str]:
    for golden in result.never_seen:
        yield f"never seen: {shown_name(golden.key)} ({golden.source})"
    unknown: Counter[str] = Counter()
    for session in result.sessions:
        if session.golden is not None:
            for turn in session.turns:
                hidden = [call for call in turn.calls if call.verdict.exact is None and call.verdict.reason is not None]
                unknown.update(shown_name(session.golden.key) for _ in hidden)
        elif session.verdict.reason is Reason.AMBIGUOUS_GOLDEN and session.session is not None:
            yield f"several goldens want {shown_name(session.session.id)}: not compared"
    for key, count in unknown.items():
        yield f"{key}: what was passed is not known in {counted(count, 'call')}: not compared"
    if without:
        yield f"no golden for {counted(len(without), 'session')} with tool calls: `goldspan goldens record` writes them"


def _session(result: SessionResult, golden: Golden) -> Iterator[Change]:
    whole = golden.calls is not None or golden.criterion.scope == "session"
    for turn in result.turns:
        yield from _Turn(golden, turn, whole=whole).changes()


class _Turn:
    """One turn that was judged."""

    def __init__(self, golden: Golden, result: TurnResult, *, whole: bool) -> None:
        self.golden, self.result = golden, result
        index = None if golden.calls is not None else result.expected_index
        self.expected = None if whole or index is None else golden.turns[index]
        self.index = None if whole else result.expected_index
        self.where: int | None = self.index if self.index is not None or whole else result.turn_index
        self.whole = whole
        self.pairs: list[tuple[int, int]] = []
        """Expected calls and the calls that were made for them, rightly or nearly."""

    def changes(self) -> Iterator[Change]:
        actual = self.result.turn
        if actual is None and self.expected is not None:
            if self.expected.calls:
                yield self._change("", "", turn_document(self.expected), NOTHING, note="never seen")
            return
        if self.index is None and not self.whole:
            if actual is not None and any(not call.rejected for call in actual.calls):
                yield self._change("", "", NOTHING, agree_on_turn([seen_turn(actual)]).value, note="not expected")
            return
        self.pairs = [_pair(call) for call in self.result.calls if call.aligned]
        for call in self.result.calls:
            if call.violates is not None and call.actual is not None:
                yield self._change(call.actual.name, "", NOTHING, _seen(call.actual), note="forbidden")
            if call.expected is None:
                continue
            changes = list(self._arguments(call))
            if call.aligned:
                yield from changes
            elif changes and self._in_order(_pair(call)):
                self.pairs.append(_pair(call))
                yield from changes
            else:
                sides = call_document(call.expected), NOTHING
                yield self._change(call.expected.name, "", *sides, self._place(call), note="missing")
        taken = {actual for _, actual in self.pairs}
        for call in self.result.unexpected:
            if call.actual is not None and call.actual_index not in taken:
                note = "not expected" if call.violates is None else "forbidden"
                place = CallPlace(self.index, self.result.alternative, self._before(call.actual_index))
                yield self._change(call.actual.name, "", NOTHING, _seen(call.actual), place, note=note)

    def _arguments(self, call: CallResult) -> Iterator[Change]:
        if call.expected is None or call.actual is None or call.actual.arguments is None:
            return
        expected, passed = call_document(call.expected).get("args", {}), call.actual.arguments
        for argument in call.arguments:
            name = argument.name
            if argument.outcome is Outcome.MISSING:
                yield self._argument(call, ("args", name), expected.get(name, NOTHING), NOTHING)
            elif argument.outcome is Outcome.MISMATCHED:
                actual = escape_literal(passed[name]) if name in passed else NOTHING
                sides = expected.get(name, NOTHING), actual
                for way, one, other in _parts(*sides, argument):
                    yield replace(self._argument(call, ("args", name, *way), one, other), argument=sides)
        if self.golden.criterion.extra_arguments == "penalize":
            for name in call.extra_arguments:
                yield self._argument(call, ("args", name), NOTHING, escape_literal(passed.get(name)))

    def _argument(self, call: CallResult, way: Way, before: Any, after: Any) -> Change:
        name = call.expected.name if call.expected else ""
        return self._change(name, path_text(way), before, after, self._place(call), way)

    def _place(self, call: CallResult) -> CallPlace:
        return CallPlace(self.index, self.result.alternative, call.expected_index or 0)

    def _in_order(self, near: tuple[int, int]) -> bool:
        """Whether a call and its near miss stand between the same others: else the order is what is wrong."""
        ordered = self.golden.criterion.ordered
        return not ordered or all((pair[0] < near[0]) == (pair[1] < near[1]) for pair in self.pairs)

    def _before(self, actual_index: int | None) -> int:
        """Return the expected call after which an unexpected one was made, -1 where it was the first."""
        return max((expected for expected, actual in self.pairs if actual < (actual_index or 0)), default=-1)

    def _change(
        self,
        tool: str,
        field: str,
        before: Any,
        after: Any,
        place: CallPlace | None = None,
        way: Way = (),
        note: str = "",
    ) -> Change:
        user = self.expected.user if self.expected is not None else None
        name = user or (seen_turn(self.result.turn).user if self.result.turn is not None else None) or ""
        return Change(
            self.golden.key, self.golden.source, self.where, name, tool, field, before, after, place, way, note
        )


def _pair(call: CallResult) -> tuple[int, int]:
    """Return the places of a call that was expected and of the one that was made."""
    return call.expected_index or 0, call.actual_index or 0


def _seen(call: ToolCall) -> JsonValue:
    return agree_on_call([seen_call(call)]).value


def _parts(before: Any, after: Any, argument: ArgumentResult) -> Iterator[tuple[Way, Any, Any]]:
    """Yield the parts that differ; of those that differ as JSON, the ones that scoring minds.

    It names those that are expected. What only the actual value has it minds unless that may hold more.
    """
    if before is NOTHING or after is NOTHING:
        yield (), before, after
        return
    named = [steps_of(pointer) for pointer in argument.differing]
    found = list(differing_parts(before, after))
    if 0 < len(named) < MOST_DIFFERING:
        may_hold_more = argument.strategy == "contains"
        found = [
            (way, one, other)
            for way, one, other in found
            if (one is NOTHING and not may_hold_more) or any(_around(way, steps) for steps in named)
        ]
    elif len(found) > 1:
        found = []  # some of them may match by a strategy or a matcher: only all together surely do not
    yield from found or [((), before, after)]


def _around(way: Way, steps: Sequence[str]) -> bool:
    """Whether one of two ways leads to something in what the other leads to."""
    return all(str(one) == other for one, other in zip(way, steps, strict=False))
