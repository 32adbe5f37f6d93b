"""What differs between two golden sets, or between a golden set and traces, and how that is written."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher, ndiff
from itertools import groupby, zip_longest
from typing import Any, Final, NamedTuple

from goldspan.collector_processor.golden_tools.recording import recorded_call, recorded_turn, written_call, written_turn
from goldspan.collector_processor.golden_tools.writing import on_one_line
from goldspan.scoring.api import score_sessions
from goldspan.scoring.comparison import equal
from goldspan.scoring.criterion import Criterion
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.goldens.documents import ValuePath, path_text
from goldspan.scoring.goldens.golden import ExpectedCall, Golden, GoldenTurn
from goldspan.scoring.json_values import is_mapping, shown, shown_name, steps_of
from goldspan.scoring.matchers import escape_literal
from goldspan.scoring.matchers.matcher import ABSENT, MOST_DIFFERING
from goldspan.scoring.pages import counted, listed
from goldspan.scoring.result_words import innermost_parts, user_text_differs
from goldspan.scoring.results import ArgumentOutcome, ArgumentResult, CallResult, TurnResult
from goldspan.scoring.run import ScoringResult
from goldspan.scoring.sessions import JsonValue, Session, ToolCall, Turn
from goldspan.scoring.verdict import Reason

NOTHING: Final = ABSENT
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
    tool: str = ""
    """Empty where a turn or a golden is meant."""
    field: str = ""
    """`args.city`, `optional`, `criterion.threshold`; empty where a whole call, turn or golden is meant."""
    before: Any = NOTHING
    after: Any = NOTHING
    place: CallPlace | None = None
    """Where the call stands in the golden, or after which call it belongs: then `before` is nothing. -1: before all."""
    path: ValuePath = ()
    """The path to the value in the call, for changes of arguments."""
    note: str = ""
    """Why, in a word, where the sides do not say so."""
    argument: tuple[Any, Any] = (NOTHING, NOTHING)
    """The whole argument on both sides, where only a part of one differs."""
    scored: bool = True
    """Whether a score depends on it. An extra call may be one that is only reported."""

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
    document = {name: key for name in ("user", "turn_id") if (key := getattr(turn, name)) is not None}
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
    joins = {name: getattr(golden, name) for name in ("session", "session_pattern", "attribute", "first_user_text")}
    document: dict[str, JsonValue] = {name: key for name, key in joins.items() if key is not None and key != {}}
    if golden.calls is not None:
        return {**document, **(lists_document(golden.calls, golden.alternatives) or {"calls": []})}
    return {**document, "turns": [turn_document(turn) for turn in golden.turns]}


def differing_parts(before: JsonValue, after: JsonValue, path: ValuePath = ()) -> Iterator[tuple[ValuePath, Any, Any]]:
    """Yield the smallest parts of two values that differ; a matcher is one part."""
    return (part for part in innermost_parts(before, after, path) if not equal(*part[1:]))


# What differs between two golden sets.


def set_changes(before: GoldenIndex, after: GoldenIndex) -> Iterator[Change]:
    """Yield what differs, golden by golden: first those of the set before, then those that were added."""
    old = {_identity(golden): golden for golden in before.goldens}
    new = {_identity(golden): golden for golden in after.goldens}
    for key, golden in old.items():
        if key in new:
            yield from _golden_changes(golden, new[key])
        else:
            yield replace(_about(golden), before=golden_document(golden))
    for key, golden in new.items():
        if key not in old:
            yield replace(_about(golden), after=golden_document(golden))


def _identity(golden: Golden) -> tuple[str, ...]:
    """Tell goldens apart by what they are joined by."""
    attribute = sorted(f"{name}={value!r}" for name, value in golden.attribute.items())
    return (golden.session or "", golden.session_pattern or "", golden.first_user_text or "", *attribute)


def _about(golden: Golden, turn: int | None = None, turn_name: str | None = None) -> Change:
    """Return a change of a golden or a turn that does not say yet what differs."""
    return Change(golden.key, golden.source, turn, turn_name or "")


_Criteria = tuple[Criterion, Criterion]


def _golden_changes(before: Golden, after: Golden) -> Iterator[Change]:
    criteria = before.criterion, after.criterion
    yield from _criterion_changes(_about(before), criteria)
    if (before.calls is None) != (after.calls is None):
        yield replace(_about(before), before=golden_document(before), after=golden_document(after))
        return
    old_lists, new_lists = ((golden.calls or (), *golden.alternatives) for golden in (before, after))
    yield from _list_changes(_about(before), old_lists, new_lists, criteria)
    for index, (old, new) in enumerate(zip_longest(before.turns, after.turns)):
        if old is not None and new is not None:
            yield from _turn_changes(_about(before, index, old.user), old, new, criteria)
        elif old is not None:
            yield replace(_about(before, index, old.user), before=turn_document(old))
        elif new is not None:
            yield replace(_about(before, index, new.user), after=turn_document(new))


def _turn_changes(at: Change, before: GoldenTurn, after: GoldenTurn, criteria: _Criteria) -> Iterator[Change]:
    yield from _field_changes(at, turn_document(before), turn_document(after), ("user", "turn_id"))
    yield from _criterion_changes(at, (before.criterion or criteria[0], after.criterion or criteria[1]), before, after)
    yield from _list_changes(at, (before.calls, *before.alternatives), (after.calls, *after.alternatives), criteria)


def _list_changes(
    at: Change, before: Sequence[Sequence[ExpectedCall]], after: Sequence[Sequence[ExpectedCall]], criteria: _Criteria
) -> Iterator[Change]:
    for number, (old, new) in enumerate(zip_longest(before, after, fillvalue=())):
        alternative = number if len(before) > 1 or len(after) > 1 else None
        for one, other in _pairs(old, new):
            if one is None:
                yield replace(at, tool=new[other or 0].name, after=call_document(new[other or 0]))
                continue
            here = replace(at, tool=old[one].name, place=CallPlace(at.turn, alternative, one))
            if other is None:
                yield replace(here, before=call_document(old[one]))
            else:
                yield from _call_changes(here, old[one], new[other], criteria)


def _call_changes(at: Change, before: ExpectedCall, after: ExpectedCall, criteria: _Criteria) -> Iterator[Change]:
    old, new = ({**call_document(call), **({"parallel": True} if call.group else {})} for call in (before, after))
    for path, one, other in differing_parts(old.get("args", {}), new.get("args", {}), ("args",)):
        yield replace(at, field=path_text(path), before=one, after=other)
    yield from _field_changes(at, old, new, ("optional", "forbidden", "result", "parallel"))
    own = before.criterion or criteria[0], after.criterion or criteria[1]
    yield from _criterion_changes(replace(at, place=None), own, before, after)


def _criterion_changes(at: Change, criteria: _Criteria, *owners: GoldenTurn | ExpectedCall) -> Iterator[Change]:
    """Compare two criteria; those of a turn or a call where one of both has a criterion of its own."""
    if owners and all(one.criterion is None for one in owners):
        return
    old, new = (one.model_dump(mode="json", exclude_defaults=True) for one in criteria)
    yield from _field_changes(at, old, new, dict.fromkeys((*old, *new)), "criterion.")


def _field_changes(
    at: Change, before: Mapping[str, Any], after: Mapping[str, Any], fields: Iterable[str], prefix: str = ""
) -> Iterator[Change]:
    for field in fields:
        one, other = before.get(field, NOTHING), after.get(field, NOTHING)
        if one != other:
            yield replace(at, field=prefix + field, before=one, after=other)


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
    runs: list[tuple[Golden, tuple[Change, ...]]] = []
    for one in result.sessions:
        if (golden := one.golden) is not None:
            whole = golden.calls is not None or golden.criterion.scope == "session"
            changes = (change for turn in one.turns for change in _seen_changes(golden, turn, whole=whole))
            runs.append((golden, tuple(changes)))
    return TraceDifference(tuple(runs), tuple(_notes(result)))


def _notes(result: ScoringResult) -> Iterator[str]:
    for golden in result.never_seen:
        yield f"never seen: {shown_name(golden.key)} ({golden.source})"
    without = 0
    for one in result.sessions:
        if one.golden is not None:
            continue
        if one.session is not None and one.verdict.reason is Reason.AMBIGUOUS_GOLDEN:
            yield f"several goldens match {shown_name(one.session.id)}: not compared"
        elif one.session is not None and one.verdict.reason is Reason.NO_GOLDEN:
            without += any(turn.calls for turn in one.session.turns)
    for key, extra in _extra_arguments(result).items():
        yield f"{key}: {listed(extra)} also passed: not scored"
    for key, count in _unknown_calls(result).items():
        yield f"{key}: the arguments of {counted(count, 'call')} are not known: not compared"
    if without:
        yield f"no golden for {counted(without, 'session')} with tool calls: `goldspan goldens record` writes them"


def _extra_arguments(result: ScoringResult) -> dict[str, list[str]]:
    """Return by golden the arguments that were passed and not expected, on which no score depends."""
    found: dict[str, list[str]] = {}
    for one in result.sessions:
        calls = [call for turn in one.turns for call in turn.calls if not call.extra_arguments_count]
        names = [f"{call.tool}.{name}" for call in calls if call.aligned for name in call.extra_arguments]
        if one.golden is not None and names:
            found.setdefault(shown_name(one.golden.key), []).extend(names)
    return found


def _unknown_calls(result: ScoringResult) -> Counter[str]:
    """Count the calls that could not be compared with their golden's, by the shown name of the golden."""
    unknown: Counter[str] = Counter()
    for one in result.sessions:
        if one.golden is not None:
            calls = [call for turn in one.turns for call in turn.calls]
            hidden = sum(call.verdict.exact is None and call.verdict.reason is not None for call in calls)
            unknown.update({shown_name(one.golden.key): hidden} if hidden else {})
    return unknown


def _seen_changes(golden: Golden, result: TurnResult, *, whole: bool) -> Iterator[Change]:
    """Yield what a turn did otherwise than expected; `whole`: the turn stands for the session."""
    actual, index = result.turn, None if whole else result.expected_index
    expected = None if index is None else golden.turns[index]
    at = _about(golden, result.turn_index if index is None and not whole else index, _user_of(expected, actual))
    if actual is None and expected is not None:
        if expected.calls:
            yield replace(at, before=turn_document(expected), note="never seen")
    elif index is None and not whole:
        if actual is not None and any(not call.rejected for call in actual.calls):
            yield replace(at, after=written_turn(recorded_turn(actual)).value, note="not expected", scored=False)
    else:
        if expected is not None and actual is not None and user_text_differs(expected, actual):
            said = recorded_turn(actual).user
            yield replace(at, field="user", path=("user",), before=expected.user, after=said, scored=False)
        yield from _changes_of_calls(at, golden, expected, result)


def _user_of(expected: GoldenTurn | None, actual: Turn | None) -> str | None:
    """Return what the user says in a turn, as the golden has it, else as it was recorded."""
    if expected is not None and expected.user:
        return expected.user
    return None if actual is None else recorded_turn(actual).user


def _changes_of_calls(at: Change, golden: Golden, expected: GoldenTurn | None, result: TurnResult) -> Iterator[Change]:
    pairs = [_pair(call) for call in result.calls if call.aligned]
    missing: list[ExpectedCall] = []
    for call in result.calls:
        yield from _call_difference(at, call, golden.criterion, result.alternative, pairs, missing)
    criterion = (expected.criterion if expected is not None else None) or golden.criterion
    yield from _unexpected_calls(at, result, criterion, pairs, missing)


_Pairs = list[tuple[int, int]]  # positions of expected calls, each with that of the call that was made for it


def _call_difference(
    at: Change,
    call: CallResult,
    criterion: Criterion,
    alternative: int | None,
    pairs: _Pairs,
    missing: list[ExpectedCall],
) -> Iterator[Change]:
    """Yield how a call differs from the expected one: its near miss goes to the pairs, or the call to the missing."""
    if call.violates is not None and call.actual is not None:
        yield replace(at, tool=call.actual.name, after=_seen(call.actual), note="forbidden")
    if call.expected is None:
        return
    place = CallPlace(at.turn, alternative, call.expected_index or 0)
    here = replace(at, tool=call.expected.name, place=place)
    changes = list(_argument_changes(here, call, criterion))
    if call.aligned:
        yield from changes
        return
    near = _pair(call)
    # If a call and its near miss stand between different others, the order is what is wrong.
    if changes and (not criterion.ordered or all((one[0] < near[0]) == (one[1] < near[1]) for one in pairs)):
        pairs.append(near)
        yield from changes
    else:
        missing.append(call.expected)
        yield replace(here, before=call_document(call.expected), note="missing")


def _unexpected_calls(
    at: Change, result: TurnResult, criterion: Criterion, pairs: _Pairs, missing: list[ExpectedCall]
) -> Iterator[Change]:
    """Yield the calls that stand for no expected one, each behind the pair that was made before it."""
    taken = {made for _, made in pairs}
    groups = {one.expected_index: one.expected.group for one in result.calls if one.expected is not None}
    for call in result.unexpected_calls:
        if call.actual is None or call.actual_index in taken:
            continue
        position = call.actual_index or 0
        before = max((one for one, made in pairs if made < position), default=-1)
        later = [groups.get(one) for one, made in pairs if made > position]
        in_group = bool(groups.get(before)) and groups[before] in later
        yield replace(
            at,
            tool=call.actual.name,
            after=_seen(call.actual),
            place=CallPlace(at.turn, result.alternative, before, in_group),
            note="not expected" if call.violates is None else "forbidden",
            scored=_replaces(call.actual, missing) or criterion.extra_calls == "penalize",
        )


def _replaces(made: ToolCall, missing: list[ExpectedCall]) -> bool:
    """Whether a call stands for one of the missing, at another place or under another name; that is taken away."""
    for expected in missing:
        if expected.name == made.name or (made.arguments and made.arguments == expected.args):
            missing.remove(expected)
            return True
    return False


def _argument_changes(at: Change, call: CallResult, criterion: Criterion) -> Iterator[Change]:
    if call.expected is None or call.actual is None or call.actual.arguments is None:
        return

    def change(path: ValuePath, before: Any, after: Any, argument: tuple[Any, Any] = (NOTHING, NOTHING)) -> Change:
        return replace(at, field=path_text(path), path=path, before=before, after=after, argument=argument)

    expected, passed = call_document(call.expected).get("args", {}), call.actual.arguments
    for argument in call.arguments:
        name = argument.name
        if argument.outcome is ArgumentOutcome.MISSING:
            yield change(("args", name), expected.get(name, NOTHING), NOTHING)
        elif argument.outcome is ArgumentOutcome.MISMATCHED:
            sides = expected.get(name, NOTHING), escape_literal(passed[name]) if name in passed else NOTHING
            for path, one, other in _parts(*sides, argument):
                yield change(("args", name, *path), one, other, sides)
    if criterion.extra_arguments == "penalize":
        for name in call.extra_arguments:
            yield change(("args", name), NOTHING, escape_literal(passed.get(name)))


def _pair(call: CallResult) -> tuple[int, int]:
    return call.expected_index or 0, call.actual_index or 0


def _seen(call: ToolCall) -> JsonValue:
    return written_call(recorded_call(call)).value


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
            inner = margin
            if tool and any(change.field for change in listed):
                number = f", call {place.call + 1}" if place is not None else ""
                yield Line(" ", f"{margin}{shown_name(tool)}{number}")
                inner += "  "
            for change in listed:
                yield from _sides(change, inner)


def _sides(change: Change, margin: str) -> Iterator[Line]:
    name = change.field.removeprefix("args.")
    if isinstance(change.before, str) and isinstance(change.after, str) and "\n" in change.before + change.after:
        yield Line(" ", f"{margin}{name}:")
        for line in ndiff(change.before.split("\n"), change.after.split("\n")):
            if line[0] in "-+ ":
                text = line[2:] if line[2:].isprintable() else shown(line[2:], 10_000)
                yield Line(line[0], f"{margin}  {text}")
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
        of_turns = f"{counted(len(turns), 'turn')} and " if turns else ""
        yield f"golden of {of_turns}{counted(calls, 'call')}"
    elif is_mapping(side):
        yield f"turn{note}"
        for field in ("calls", "any_of"):
            yield from (f"  {on_one_line(item)}" for item in side.get(field, ()))


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
    return re.sub(r"([\\`*_{}\[\]<>#|~&])", r"\\\1", text)


def _goldens(changes: Sequence[Change]) -> Iterator[tuple[str, str, Iterator[Change]]]:
    for (golden, source), found in groupby(changes, key=lambda change: (change.golden, change.source)):
        yield golden, source, found
