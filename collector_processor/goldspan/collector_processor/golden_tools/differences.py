"""What differs between two golden sets, or between a golden set and traces, and how that is written."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher, ndiff
from itertools import groupby, zip_longest
from typing import Any, Final, NamedTuple

from goldspan.collector_processor.golden_tools.recording import merge_calls, merge_turns, recorded_call, recorded_turn
from goldspan.collector_processor.golden_tools.writing import on_one_line
from goldspan.collector_processor.replay.wording import counted
from goldspan.scoring.api import score_sessions
from goldspan.scoring.comparison import equal
from goldspan.scoring.criterion import Criterion
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.goldens.documents import ValuePath, path_text
from goldspan.scoring.goldens.golden import ExpectedCall, Golden, GoldenTurn
from goldspan.scoring.json_values import shown, shown_name, steps_of
from goldspan.scoring.matchers import escape_literal
from goldspan.scoring.matchers.kinds.literal import dollar_keys
from goldspan.scoring.matchers.value_score import MOST_DIFFERING
from goldspan.scoring.results import ArgumentResult, CallResult, Outcome, SessionResult, TurnResult
from goldspan.scoring.run import RunResult
from goldspan.scoring.sessions import JsonValue, Session, ToolCall
from goldspan.scoring.type_guards import is_mapping, is_sequence
from goldspan.scoring.verdict import Reason


class _Nothing:
    """The side of a change that is not there."""

    def __repr__(self) -> str:
        return "NOTHING"


NOTHING: Final = _Nothing()
"""Stands where one side has nothing at all, which is not null."""


class CallPlace(NamedTuple):
    """A call in a golden file: its turn, the alternative it stands in, and its number there."""

    turn: int | None
    """None: in the list of the whole session."""
    alternative: int | None
    """None: there is only one list."""
    call: int
    in_group: bool = False
    """For a call that belongs after this one: whether it belongs into the same group of parallel calls."""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that differs. `before` is the golden's side; what stands there is written as in a golden file."""

    golden: str
    """Session id, pattern, or what else the golden is joined by."""
    source: str
    """File and line of the golden; empty where it is not there."""
    turn: int | None
    """From 0; None where the golden or the whole session is meant."""
    turn_name: str
    """What the user said, where that is known."""
    tool: str
    """Empty where a turn or a golden is meant."""
    field: str
    """`args.city`, `optional`, `criterion.threshold`; empty where a whole call, turn or golden is meant."""
    before: Any
    after: Any
    place: CallPlace | None = None
    """Where the call stands in the golden, or after which call it belongs: then `before` is nothing. -1: before all."""
    path: ValuePath = ()
    """The path to the value in the call, for changes of arguments."""
    note: str = ""
    """Why, in a word, where the sides do not say so."""
    argument: tuple[Any, Any] = (NOTHING, NOTHING)
    """The whole argument on both sides, where only a part of one differs."""

    def to_json(self) -> dict[str, JsonValue]:
        """Return the change as JSON; a side that is not there is left out."""
        sides = {"before": self.before, "after": self.after}
        return {
            "golden": self.golden,
            "source": self.source,
            "turn": self.turn,
            "tool": self.tool or None,
            "field": self.field or None,
            **{name: value for name, value in sides.items() if value is not NOTHING},
        }


def call_document(call: ExpectedCall) -> dict[str, JsonValue]:
    """Return an expected call as a golden file writes it."""
    document: dict[str, JsonValue] = {"name": call.name}
    if call.args:
        document["args"] = {name: escape_literal(value) if call.literal else value for name, value in call.args.items()}
    document |= {name: True for name in ("optional", "forbidden") if getattr(call, name)}
    if call.result is not None:
        document["result"] = call.result
    return document


def calls_document(calls: Sequence[ExpectedCall]) -> list[JsonValue]:
    """Return expected calls as a golden file writes them, groups of free order together."""
    items: list[JsonValue] = []
    group = 0
    for call in calls:
        if call.group and call.group == group:
            items[-1]["parallel"].append(call_document(call))
        else:
            items.append({"parallel": [call_document(call)]} if call.group else call_document(call))
        group = call.group
    return items


def turn_document(turn: GoldenTurn) -> dict[str, JsonValue]:
    """Return a golden's turn as a golden file writes it."""
    document: dict[str, JsonValue] = {}
    if turn.user is not None:
        document["user"] = turn.user
    if turn.turn_id is not None:
        document["turn_id"] = turn.turn_id
    return document | lists_document(turn.calls, turn.alternatives)


def lists_document(
    calls: Sequence[ExpectedCall], alternatives: Sequence[Sequence[ExpectedCall]]
) -> dict[str, JsonValue]:
    """Return a list of calls, or the alternatives, under the name of its field."""
    if alternatives:
        return {"any_of": [calls_document(one) for one in (calls, *alternatives)]}
    return {"calls": calls_document(calls)} if calls else {}


def golden_document(golden: Golden) -> dict[str, JsonValue]:
    """Return a golden as a golden file writes it, without its criterion."""
    document: dict[str, JsonValue] = {}
    if golden.session is not None:
        document["session"] = golden.session
    if golden.session_pattern is not None:
        document["session_pattern"] = golden.session_pattern
    if golden.attribute:
        document["attribute"] = dict(golden.attribute)
    if golden.first_user_text is not None:
        document["first_user_text"] = golden.first_user_text
    if golden.calls is not None:
        return {**document, **(lists_document(golden.calls, golden.alternatives) or {"calls": []})}
    return {**document, "turns": [turn_document(turn) for turn in golden.turns]}


def differing_parts(before: JsonValue, after: JsonValue, path: ValuePath = ()) -> Iterator[tuple[ValuePath, Any, Any]]:
    """Yield the smallest parts of two values that differ; a matcher is one part."""
    if dollar_keys(before) or dollar_keys(after):
        if before != after:
            yield path, before, after
    elif is_mapping(before) and is_mapping(after):
        yield from _differing_fields(before, after, path)
    elif is_sequence(before) and is_sequence(after) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from differing_parts(one, other, (*path, index))
    elif not equal(before, after):
        yield path, before, after


def argument_changes(
    before: Mapping[str, JsonValue], after: Mapping[str, JsonValue]
) -> Iterator[tuple[ValuePath, Any, Any]]:
    """Yield the smallest parts in which the arguments of two calls differ."""
    return _differing_fields(before, after, ("args",))


def _differing_fields(
    before: Mapping[Any, Any], after: Mapping[Any, Any], path: ValuePath
) -> Iterator[tuple[ValuePath, Any, Any]]:
    for name in dict.fromkeys((*before, *after)):
        one, other = before.get(name, NOTHING), after.get(name, NOTHING)
        if one is NOTHING or other is NOTHING:
            yield (*path, name), one, other
        else:
            yield from differing_parts(one, other, (*path, name))


# What differs between two golden sets.


def set_changes(before: GoldenIndex, after: GoldenIndex) -> Iterator[Change]:
    """Yield what differs, golden by golden: first those of the set before, then those that were added."""
    old = {_identity(golden): golden for golden in before.goldens}
    new = {_identity(golden): golden for golden in after.goldens}
    for key, golden in old.items():
        if key in new:
            yield from _GoldenDifference(golden, new[key]).changes()
        else:
            yield _whole(golden, golden_document(golden), NOTHING)
    for key, golden in new.items():
        if key not in old:
            yield _whole(golden, NOTHING, golden_document(golden))


def _identity(golden: Golden) -> tuple[str, ...]:
    """Tell goldens apart by what they are joined by."""
    attribute = sorted(f"{name}={value!r}" for name, value in golden.attribute.items())
    return (golden.session or "", golden.session_pattern or "", golden.first_user_text or "", *attribute)


def _whole(golden: Golden, before: Any, after: Any) -> Change:
    return Change(golden.key, golden.source, None, "", "", "", before, after)


class _GoldenDifference:
    """One golden as it was and as it is."""

    def __init__(self, before: Golden, after: Golden) -> None:
        self.before, self.after = before, after

    def changes(self) -> Iterator[Change]:
        yield from self._criterion(self.before.criterion, self.after.criterion, None, "", "")
        if (self.before.calls is None) != (self.after.calls is None):
            yield _whole(self.before, golden_document(self.before), golden_document(self.after))
            return
        if self.before.calls is not None and self.after.calls is not None:
            one = (self.before.calls, *self.before.alternatives)
            yield from self._lists(one, (self.after.calls, *self.after.alternatives), None, "")
        for index, (old, new) in enumerate(zip_longest(self.before.turns, self.after.turns)):
            name = ((old or new).user or "") if old or new else ""
            if old is None or new is None:
                before, after = (NOTHING if turn is None else turn_document(turn) for turn in (old, new))
                yield self._change(index, name, "", "", before, after)
            else:
                yield from self._turn(index, name, old, new)

    def _turn(self, index: int, name: str, before: GoldenTurn, after: GoldenTurn) -> Iterator[Change]:
        for field in ("user", "turn_id"):
            one, other = getattr(before, field), getattr(after, field)
            if one != other:
                sides = NOTHING if one is None else one, NOTHING if other is None else other
                yield self._change(index, name, "", field, *sides)
        old, new = before.criterion or self.before.criterion, after.criterion or self.after.criterion
        if before.criterion or after.criterion:
            yield from self._criterion(old, new, index, name, "")
        yield from self._lists((before.calls, *before.alternatives), (after.calls, *after.alternatives), index, name)

    def _lists(
        self,
        before: Sequence[Sequence[ExpectedCall]],
        after: Sequence[Sequence[ExpectedCall]],
        turn: int | None,
        name: str,
    ) -> Iterator[Change]:
        for number, (old, new) in enumerate(zip_longest(before, after, fillvalue=())):
            alternative = number if len(before) > 1 or len(after) > 1 else None
            yield from self._calls(old, new, turn, name, alternative)

    def _calls(
        self,
        before: Sequence[ExpectedCall],
        after: Sequence[ExpectedCall],
        turn: int | None,
        name: str,
        alternative: int | None,
    ) -> Iterator[Change]:
        for old, new in _pairs(before, after):
            if old is not None and new is not None:
                yield from self._call(before[old], after[new], turn, name, CallPlace(turn, alternative, old))
            elif old is not None:
                place = CallPlace(turn, alternative, old)
                yield self._change(turn, name, before[old].name, "", call_document(before[old]), NOTHING, place)
            elif new is not None:
                yield self._change(turn, name, after[new].name, "", NOTHING, call_document(after[new]))

    def _call(
        self, before: ExpectedCall, after: ExpectedCall, turn: int | None, name: str, place: CallPlace
    ) -> Iterator[Change]:
        old, new = call_document(before), call_document(after)
        for path, one, other in argument_changes(old.get("args", {}), new.get("args", {})):
            yield self._change(turn, name, before.name, path_text(path), one, other, place)
        for field in ("optional", "forbidden", "result"):
            one, other = old.get(field, NOTHING), new.get(field, NOTHING)
            if one != other:
                yield self._change(turn, name, before.name, field, one, other, place)
        if bool(before.group) != bool(after.group):
            sides = True if before.group else NOTHING, True if after.group else NOTHING
            yield self._change(turn, name, before.name, "parallel", *sides, place)
        if before.criterion is not None or after.criterion is not None:
            above = self.before.criterion, self.after.criterion
            yield from self._criterion(
                before.criterion or above[0], after.criterion or above[1], turn, name, before.name
            )

    def _criterion(
        self, before: Criterion, after: Criterion, turn: int | None, name: str, tool: str
    ) -> Iterator[Change]:
        if before == after:
            return
        old, new = (one.model_dump(mode="json", exclude_defaults=True) for one in (before, after))
        for field in dict.fromkeys((*old, *new)):
            one, other = old.get(field, NOTHING), new.get(field, NOTHING)
            if one != other:
                yield self._change(turn, name, tool, f"criterion.{field}", one, other)

    def _change(
        self,
        turn: int | None,
        name: str,
        tool: str,
        field: str,
        before: Any,
        after: Any,
        place: CallPlace | None = None,
    ) -> Change:
        return Change(self.before.key, self.before.source, turn, name, tool, field, before, after, place)


def _pairs(before: Sequence[ExpectedCall], after: Sequence[ExpectedCall]) -> Iterator[tuple[int | None, int | None]]:
    """Pair calls that are alike: equal ones in their order, then those of one tool between them."""
    old, new = [repr(call_document(call)) for call in before], [repr(call_document(call)) for call in after]
    for tag, first, last, start, stop in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            yield from zip(range(first, last), range(start, stop), strict=True)
            continue
        left = list(range(start, stop))
        for index in range(first, last):
            partner = next((one for one in left if after[one].name == before[index].name), None)
            if partner is not None:
                left.remove(partner)
            yield index, partner
        yield from ((None, one) for one in left)


# What differs between a golden set and traces, as scoring sees it: what it lets pass is no difference.


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
    result = score_sessions(goldens, sessions)
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
            yield f"several goldens match {shown_name(session.session.id)}: not compared"
    for key, count in unknown.items():
        yield f"{key}: the arguments of {counted(count, 'call')} are not known: not compared"
    if without:
        yield f"no golden for {counted(len(without), 'session')} with tool calls: `goldspan goldens record` writes them"


def _session(result: SessionResult, golden: Golden) -> Iterator[Change]:
    whole = golden.calls is not None or golden.criterion.scope == "session"
    for turn in result.turns:
        yield from _TurnDifference(golden, turn, whole=whole).changes()


class _TurnDifference:
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
                yield self._change("", "", NOTHING, merge_turns([recorded_turn(actual)]).value, note="not expected")
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
        for call in self.result.unexpected_calls:
            if call.actual is not None and call.actual_index not in taken:
                note = "not expected" if call.violates is None else "forbidden"
                before = self._before(call.actual_index)
                in_group = self._among_group(before, call.actual_index)
                place = CallPlace(self.index, self.result.alternative, before, in_group)
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
                for path, one, other in _parts(*sides, argument):
                    yield replace(self._argument(call, ("args", name, *path), one, other), argument=sides)
        if self.golden.criterion.extra_arguments == "penalize":
            for name in call.extra_arguments:
                yield self._argument(call, ("args", name), NOTHING, escape_literal(passed.get(name)))

    def _argument(self, call: CallResult, path: ValuePath, before: Any, after: Any) -> Change:
        name = call.expected.name if call.expected else ""
        return self._change(name, path_text(path), before, after, self._place(call), path)

    def _place(self, call: CallResult) -> CallPlace:
        return CallPlace(self.index, self.result.alternative, call.expected_index or 0)

    def _in_order(self, near: tuple[int, int]) -> bool:
        """Whether a call and its near miss stand between the same others: else the order is what is wrong."""
        ordered = self.golden.criterion.ordered
        return not ordered or all((pair[0] < near[0]) == (pair[1] < near[1]) for pair in self.pairs)

    def _before(self, actual_index: int | None) -> int:
        """Return the expected call after which an unexpected one was made, -1 where it was the first."""
        return max((expected for expected, actual in self.pairs if actual < (actual_index or 0)), default=-1)

    def _among_group(self, before: int, actual_index: int | None) -> bool:
        """Whether calls of the group that this expected call is in were made after the unexpected one, too."""
        groups = {one.expected_index: one.expected.group for one in self.result.calls if one.expected is not None}
        later = (expected for expected, actual in self.pairs if actual > (actual_index or 0))
        return bool(groups.get(before)) and any(groups.get(expected) == groups[before] for expected in later)

    def _change(
        self,
        tool: str,
        field: str,
        before: Any,
        after: Any,
        place: CallPlace | None = None,
        path: ValuePath = (),
        note: str = "",
    ) -> Change:
        user = self.expected.user if self.expected is not None else None
        name = user or (recorded_turn(self.result.turn).user if self.result.turn is not None else None) or ""
        return Change(
            self.golden.key, self.golden.source, self.where, name, tool, field, before, after, place, path, note
        )


def _pair(call: CallResult) -> tuple[int, int]:
    """Return the places of a call that was expected and of the one that was made."""
    return call.expected_index or 0, call.actual_index or 0


def _seen(call: ToolCall) -> JsonValue:
    return merge_calls([recorded_call(call)]).value


def _parts(before: Any, after: Any, argument: ArgumentResult) -> Iterator[tuple[ValuePath, Any, Any]]:
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
            (path, one, other)
            for path, one, other in found
            if (one is NOTHING and not may_hold_more) or any(_around(path, steps) for steps in named)
        ]
    elif len(found) > 1:
        found = []  # some of them may match by a strategy or a matcher: only all together surely do not
    yield from found or [((), before, after)]


def _around(path: ValuePath, steps: Sequence[str]) -> bool:
    """Whether one of two paths leads to something in what the other leads to."""
    return all(str(one) == other for one, other in zip(path, steps, strict=False))


# Changes as text: like `diff` on a terminal, and the same in Markdown for a pull request.

_LONGEST_USER = 70
_BACKTICKS = re.compile(r"`{3,}")


class Line(NamedTuple):
    """One line: a blank, `-` or `+`, and what follows it."""

    sign: str
    text: str

    def __str__(self) -> str:
        return f"{self.sign} {self.text}".rstrip()


def change_lines(changes: Iterable[Change]) -> Iterator[Line]:
    """Yield the changes of one golden, under the turns and tools they belong to."""
    for (turn, name), of_turn in groupby(changes, key=lambda change: (change.turn, change.turn_name)):
        margin = ""
        if turn is not None:
            yield Line(" ", f"turn {turn + 1}{f': {shown(name, _LONGEST_USER)}' if name else ''}")
            margin = "  "
        for (tool, place), of_call in groupby(of_turn, key=lambda change: (change.tool, change.place)):
            listed = list(of_call)
            if tool and any(change.field for change in listed):
                number = f", call {place.call + 1}" if place is not None else ""
                yield Line(" ", f"{margin}{shown_name(tool)}{number}")
                inner = margin + "  "
            else:
                inner = margin
            for change in listed:
                yield from _sides(change, inner)


def _sides(change: Change, margin: str) -> Iterator[Line]:
    name = change.field.removeprefix("args.") if change.field.startswith("args.") else change.field
    if isinstance(change.before, str) and isinstance(change.after, str) and "\n" in change.before + change.after:
        yield Line(" ", f"{margin}{name}:")
        for line in ndiff(change.before.split("\n"), change.after.split("\n")):
            if line[0] in "-+ ":
                yield Line(line[0], f"{margin}  {_printable(line[2:])}")
        return
    for sign, side in (("-", change.before), ("+", change.after)):
        if side is not NOTHING:
            for line in _side(change, name, side):
                yield Line(sign, margin + line)


def _side(change: Change, name: str, side: Any) -> Iterator[str]:
    note = f"  # {change.note}" if change.note else ""
    if name:
        yield f"{name}: {on_one_line(side)}{note}"
    elif change.tool:
        yield on_one_line(side) + note
    elif is_mapping(side) and change.turn is None:
        turns = side.get("turns", [])
        calls = sum(len(turn.get("calls", ())) for turn in turns) + len(side.get("calls", ()))
        yield (
            f"golden of {counted(len(turns), 'turn')} and {counted(calls, 'call')}"
            if turns
            else (f"golden of {counted(calls, 'call')}")
        )
    elif is_mapping(side):
        yield f"turn{note}"
        for field in ("calls", "any_of"):
            yield from (f"  {on_one_line(item)}" for item in side.get(field, ()))


def _printable(text: str) -> str:
    return text if text.isprintable() else shown(text, 10_000)


def summary(changes: Sequence[Change]) -> str:
    """Say how much differs."""
    if not changes:
        return "no differences"
    return f"{counted(len(changes), 'difference')} in {counted(len({change.golden for change in changes}), 'golden')}"


def as_text(changes: Sequence[Change], notes: Sequence[str] = ()) -> Iterator[Line]:
    """Yield the lines of a terminal."""
    for golden, source, of_golden in _goldens(changes):
        yield Line(" ", f"{shown_name(golden)}{f' ({source})' if source else ''}")
        yield from (Line(line.sign, f"  {line.text}") for line in change_lines(of_golden))
    yield from (Line("?", note) for note in notes)
    yield Line("=", summary(changes))


def as_markdown(changes: Sequence[Change], notes: Sequence[str] = ()) -> str:
    """Return the same for a comment on a pull request."""
    parts = [f"### Goldens: {summary(changes)}"]
    for golden, source, of_golden in _goldens(changes):
        lines = "\n".join(map(str, change_lines(of_golden)))
        fence = "`" * max((len(found) + 1 for found in _BACKTICKS.findall(lines)), default=3)
        parts.append(f"**{_plain(shown_name(golden))}**{f' ({_plain(source)})' if source else ''}")
        parts.append(f"{fence}diff\n{lines}\n{fence}")
    if notes:
        parts.append("\n".join(f"- {_plain(note)}" for note in notes))
    return "\n\n".join(parts) + "\n"


def _plain(text: str) -> str:
    """Escape what Markdown or HTML would take for markup."""
    return re.sub(r"([\\`*_{}\[\]<>#|~&])", r"\\\1", text)


def _goldens(changes: Sequence[Change]) -> Iterator[tuple[str, str, Iterator[Change]]]:
    for (golden, source), found in groupby(changes, key=lambda change: (change.golden, change.source)):
        yield golden, source, found
