"""Golden sets recorded from traces that were right: `goldspan goldens record`.

One golden can be recorded from several runs of a session. Nothing is left out to make them agree: arguments that differ
become `$any_of` of the values that were seen, turns that called other tools become alternatives, and calls that only
some runs have become optional. A notice says so each time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from goldspan.collector_processor.golden_tools.writing import Comments
from goldspan.collector_processor.replay.hints import NO_SESSION_ID
from goldspan.collector_processor.replay.inspection import user_text
from goldspan.scoring.comparison import equal
from goldspan.scoring.errors import GoldenFileError
from goldspan.scoring.goldens import load_goldens
from goldspan.scoring.goldens.documents import MAX_DEPTH, ValuePath
from goldspan.scoring.goldens.golden import MOST_ALTERNATIVES
from goldspan.scoring.json_values import is_mapping, is_sequence, shown, shown_name
from goldspan.scoring.matchers import escape_literal
from goldspan.scoring.matchers.matcher import LITERAL, dollar_keys
from goldspan.scoring.result_words import CAPTURE_WORDS
from goldspan.scoring.sessions import Capture, JsonValue, Session, ToolCall, Turn
from goldspan.scoring.wording import counted

PRESENT: JsonValue = {"$present": True}
"""What stands for a value that is not to be written: the argument is there, whatever its value."""
_MAX_DIGITS = 4_000
_DEEPEST = MAX_DEPTH - 20
"""Arguments stand some levels deep themselves."""
ABSENT: JsonValue = {"$absent": True}
_SHORTEST_SECRET = 4
"""Shorter values stand in any text."""


class Notice(NamedTuple):
    """Something a person should know before the golden set is used."""

    session: str
    message: str

    def __str__(self) -> str:
        return f"{shown_name(self.session)}: {self.message}" if self.session else self.message


@dataclass(frozen=True, slots=True)
class Recorded:
    """A golden set as a document."""

    document: Mapping[str, JsonValue]
    comments: Mapping[ValuePath, Sequence[str]]
    """Lines to write above items of its lists."""
    notices: tuple[Notice, ...]


def record(
    sessions: Iterable[Session],
    name: str,
    *,
    pattern: str | None = None,
    redact: Iterable[str] = (),
    user_texts: bool = True,
    by_user_text: bool = False,
) -> Recorded:
    """Write down what sessions did as what they should do: one golden for each session id, or one for a pattern.

    `pattern` is a glob for session ids; the sessions are then those that match it, recordings of one golden.
    `redact` names arguments, at any depth, that only have to be present. Without `user_texts` turns are found by their
    order instead of by what the user said. With `by_user_text` goldens are found by the user's first message instead of
    the session id, where it is known.
    """
    hidden = frozenset(redact)
    notices: list[Notice] = []
    goldens: list[JsonValue] = []
    comments: dict[ValuePath, Sequence[str]] = {}
    for (key_field, key), recordings in _by_key(sessions, pattern, by_user_text=by_user_text).items():
        turns = [[recorded_turn(turn, hidden) for turn in session.turns] for session in recordings]
        if not user_texts:
            turns = [[replace(turn, user=None) for turn in one] for one in turns]
        if not key.strip():
            notices.append(Notice("", "spans without a session id or trace id: no golden can be joined to them"))
            continue
        if not any(turn.groups for one in turns for turn in one):
            notices.append(Notice(key, "no tool was called: left out"))
            continue
        agreed = merge_sessions(turns)
        if refused := refusal({key_field: key, **agreed.value}):
            notices.append(Notice(key, f"{refused}: left out"))
            continue
        for where, lines in agreed.comments.items():
            comments["goldens", len(goldens), *where] = lines
        goldens.append({key_field: key, **agreed.value})
        said = [
            *_notices(recordings, turns, key_field),
            *agreed.disagreements,
            *_leaks(recordings, hidden, goldens[-1]),
        ]
        notices += [Notice(key, text) for text in said]
    return Recorded({"golden_set": name, "goldens": goldens}, comments, tuple(notices))


def refusal(golden: Mapping[str, JsonValue]) -> str:
    """Return why no golden file can hold this golden, such as a call of a tool without a name; empty if one can."""
    try:
        load_goldens({"golden_set": "x", "goldens": [golden]})
    except GoldenFileError as error:
        first = error.mistakes[0]
        return f"{first.path.partition('.')[2]}: {first.message}"
    return ""


def _by_key(
    sessions: Iterable[Session], pattern: str | None, *, by_user_text: bool
) -> dict[tuple[str, str], list[Session]]:
    """Put recordings of one golden together, by the field that joins it and what stands there."""
    found: dict[tuple[str, str], list[Session]] = {}
    for session in sessions:
        key = ("session", session.id) if pattern is None else ("session_pattern", pattern)
        if by_user_text and session.turns and (text := recorded_turn(session.turns[0]).user):
            key = ("first_user_text", text)
        found.setdefault(key, []).append(session)
    return found


def _leaks(sessions: Sequence[Session], redact: frozenset[str], golden: JsonValue) -> Iterator[str]:
    """Say where values that should not be written stand all the same, in other arguments or in what users said."""
    if not redact:
        return
    written = "\n".join(_texts(golden))
    calls = [call for session in sessions for turn in session.turns for call in turn.calls]
    for name in sorted(redact):
        values = {text for call in calls for text in _hidden(call.arguments, name)}
        if any(len(text) >= _SHORTEST_SECRET and text in written for text in values):
            yield f"the value of {shown_name(name)} also stands in other places of the golden: look for it"


def _hidden(value: JsonValue, name: str) -> Iterator[str]:
    """Yield the texts that are values of this argument, however deep."""
    if is_sequence(value):
        for item in value:
            yield from _hidden(item, name)
    elif is_mapping(value):
        for key, item in value.items():
            yield from _texts(item) if key == name else _hidden(item, name)


def _texts(value: JsonValue) -> Iterator[str]:
    """Yield every text and number in a value, without keys."""
    if is_sequence(value):
        for item in value:
            yield from _texts(item)
    elif is_mapping(value):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, str | int | float):
        yield str(value)


def _notices(sessions: Sequence[Session], recordings: Sequence[Sequence[RecordedTurn]], field: str) -> Iterator[str]:
    """Say what was not written because it was not there, and what is worth a second look."""
    if field == "session" and any(session.id_source in NO_SESSION_ID for session in sessions):
        yield (
            "no session id was recorded: the golden has the trace's id, and no other run will have it; "
            "--by-user-text finds goldens by what the user said first"
        )
    if any(session.incomplete or session.ambiguous for session in sessions):
        yield "recorded incompletely, or with several session ids: check it"
    turns = [turn for recording in recordings for turn in recording]
    if hidden := sum(not turn.visible for turn in turns):
        yield f"no span shows the tool calls of {counted(hidden, 'turn')}: not written"
    calls = [call for turn in turns for call in turn.calls]
    if unknown := [call for call in calls if call.args is None]:
        names = ", ".join(dict.fromkeys(shown_name(call.name) for call in unknown))
        yield f"arguments were not captured in {len(unknown)} of {counted(len(calls), 'call')} ({names}): not written"
    for call in calls:
        for argument, why in call.unknown.items():
            yield f"{shown_name(call.name)}: {shown_name(argument)} was {why}: not written"
    if failed := [call for call in calls if call.failed]:
        names = ", ".join(dict.fromkeys(shown_name(call.name) for call in failed))
        yield f"{counted(len(failed), 'call')} failed when recorded ({names}), and the golden expects them all the same"


# What sessions did, as golden files can write it.


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One call: what a golden should expect of it, and what is not known."""

    name: str
    args: Mapping[str, JsonValue] | None
    """As a golden writes them: what looks like a matcher is escaped. None where none were captured."""
    unknown: Mapping[str, str] = field(default_factory=dict[str, str])
    """Arguments that were passed, but cannot be written, and why."""
    capture: Capture = Capture.CAPTURED
    failed: bool = False


Group = tuple[RecordedCall, ...]
"""Calls that were asked for at once; most groups are of one call."""


@dataclass(frozen=True, slots=True)
class RecordedTurn:
    """One turn."""

    user: str | None
    groups: tuple[Group, ...]
    visible: bool = True

    @property
    def calls(self) -> Iterator[RecordedCall]:
        """Every call, in order."""
        return (call for group in self.groups for call in group)


def recorded_turn(turn: Turn, redact: frozenset[str] = frozenset()) -> RecordedTurn:
    """Return a turn without refused requests; arguments in `redact` are only said to be present."""
    groups: list[list[RecordedCall]] = []
    batch = 0
    for call in turn.calls:
        if call.rejected:
            continue
        if not (batch and call.batch == batch):
            groups.append([])
        batch = call.batch
        groups[-1].append(recorded_call(call, redact))
    text = user_text(turn.user_text)
    return RecordedTurn(
        text if text and text.strip() and _is_unicode(text) else None, tuple(map(tuple, groups)), turn.calls_visible
    )


def recorded_call(call: ToolCall, redact: frozenset[str] = frozenset()) -> RecordedCall:
    """Return one call, as `recorded_turn` does."""
    failed = call.error is not None
    if call.capture is not Capture.CAPTURED or call.arguments is None:
        return RecordedCall(call.name, None, capture=call.capture, failed=failed)
    args: dict[str, JsonValue] = {}
    unknown: dict[str, str] = {}
    for name, value in call.arguments.items():
        if name in redact:
            args[name] = PRESENT
        elif name in call.argument_captures:
            unknown[name] = call.argument_captures[name].value.replace("_", " ")
        elif not is_json(value):
            unknown[name] = "not a value that JSON can hold"
        else:
            args[name] = _redacted(escape_literal(value), redact)
    return RecordedCall(call.name, args, unknown, failed=failed)


def _redacted(value: JsonValue, redact: frozenset[str]) -> JsonValue:
    """Replace what is not to be written, however deep; nothing can be replaced within what is literal."""
    if not redact:
        return value
    if is_sequence(value):
        return [_redacted(item, redact) for item in value]
    if not is_mapping(value):
        return value
    if LITERAL in value:
        return PRESENT if _mentions(value, redact) else value
    return {name: PRESENT if name in redact else _redacted(item, redact) for name, item in value.items()}


def _mentions(value: JsonValue, names: frozenset[str]) -> bool:
    if is_sequence(value):
        return any(_mentions(item, names) for item in value)
    return is_mapping(value) and (not names.isdisjoint(value) or any(_mentions(item, names) for item in value.values()))


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a character, where the text was cut
        return False
    return True


def is_json(value: Any, depth: int = 0) -> bool:
    """Whether a golden file can hold the value."""
    if value is None or isinstance(value, bool | str):
        return True
    if isinstance(value, int):
        return value.bit_length() < _MAX_DIGITS * 3
    if isinstance(value, float):
        return math.isfinite(value)
    if depth >= _DEEPEST:
        return False
    if is_mapping(value):
        return all(is_json(item, depth + 1) for item in value.values())
    return is_sequence(value) and all(is_json(item, depth + 1) for item in value)


# Several runs of one session merged into one golden.


class MergedPart(NamedTuple):
    """Part of a golden file, lines to write above values in it, and what the recordings disagree about."""

    value: JsonValue
    comments: Comments
    disagreements: Sequence[str]


def merge_sessions(recordings: Sequence[Sequence[RecordedTurn]]) -> MergedPart:
    """Return `turns`, or `any_of` for the whole session where recordings differ in the number of their turns."""
    counts = [len(turns) for turns in recordings]
    if len(set(counts)) == 1:
        turns = [merge_turns([turns[index] for turns in recordings]) for index in range(counts[0])]
        said = [f"turn {number}: {text}" for number, turn in enumerate(turns, 1) for text in turn.disagreements]
        return MergedPart({"turns": [turn.value for turn in turns]}, _comments_under("turns", turns), said)
    flat = [RecordedTurn(None, tuple(group for turn in turns for group in turn.groups)) for turns in recordings]
    whole = merge_turns(flat)
    lengths = " and ".join(map(str, sorted(set(counts))))
    said = [f"recorded with {lengths} turns: written as calls of the whole session", *whole.disagreements]
    return MergedPart(whole.value, whole.comments, said)


def merge_turns(recordings: Sequence[RecordedTurn]) -> MergedPart:
    """Return one turn of a golden."""
    fields, said = _merged_user(recordings)
    shapes = list(dict.fromkeys(_shape(turn.groups) for turn in recordings))
    called = [shape for shape in shapes if shape]
    lists = [merge_call_lists([turn.groups for turn in recordings if _shape(turn.groups) == one]) for one in called]
    said += [text for one in lists for text in one.disagreements]
    if not lists:
        return MergedPart(fields, {}, said)
    if len(lists) == 1:
        calls = lists[0].value
        if len(called) < len(shapes):
            said.append("called nothing in some recordings: its calls are optional")
            calls = list(_optional(calls))
        comments = {("calls", *where): lines for where, lines in lists[0].comments.items()}
        return MergedPart({**fields, "calls": calls}, comments, said)
    if len(called) < len(shapes) or len(lists) > MOST_ALTERNATIVES:
        # An alternative without calls would always do, so that there can be none: what is left is to need none.
        said.append(f"{len(shapes)} different lists of calls: one after the other, all optional")
        merged = [call for one in lists for call in _optional(one.value)]
        return MergedPart({**fields, "calls": merged}, {}, said)
    said.append(f"{len(lists)} different lists of calls: written as alternatives")
    return MergedPart({**fields, "any_of": [one.value for one in lists]}, _comments_under("any_of", lists), said)


def _merged_user(recordings: Sequence[RecordedTurn]) -> tuple[dict[str, JsonValue], list[str]]:
    """Return the user's text if all recordings have one and the same, else what is to say of it."""
    users = [turn.user for turn in recordings if turn.user is not None]
    different = list(dict.fromkeys(" ".join(text.split()) for text in users))
    if len(different) > 1:
        return {}, [f"the user's text differs ({', '.join(shown(text, 40) for text in different)}): left out"]
    return ({"user": users[0]} if users and len(users) == len(recordings) else {}), []


def merge_call_lists(recordings: Sequence[tuple[Group, ...]]) -> MergedPart:
    """Return the list of calls of recordings that called the same tools, group by group."""
    items: list[MergedPart] = []
    for groups in zip(*recordings, strict=True):
        first = groups[0]
        partners = [_paired_with(first, group) for group in groups]
        calls = [merge_calls([group[index] for group in partners]) for index in range(len(first))]
        if len(calls) == 1:
            items += calls
            continue
        said = [text for call in calls for text in call.disagreements]
        items.append(MergedPart({"parallel": [call.value for call in calls]}, _comments_under("parallel", calls), said))
    comments = {(index, *where): lines for index, one in enumerate(items) for where, lines in one.comments.items()}
    return MergedPart([item.value for item in items], comments, [text for item in items for text in item.disagreements])


def merge_calls(recordings: Sequence[RecordedCall]) -> MergedPart:
    """Return one expected call."""
    name = recordings[0].name
    known = [call for call in recordings if call.args is not None]
    if not known:
        captures = (call.capture for call in recordings)
        unknown = (Capture.NOT_CAPTURED if one is Capture.CAPTURED else one for one in captures)
        states = dict.fromkeys(CAPTURE_WORDS[one] for one in unknown)
        return MergedPart({"name": name}, {(): [f"arguments {' or '.join(states)} when this was recorded"]}, [])
    args: dict[str, JsonValue] = {}
    comments: list[str] = []
    said: list[str] = []
    for argument in dict.fromkeys(key for call in known for key in (*(call.args or {}), *call.unknown)):
        values = [call.args[argument] for call in known if call.args is not None and argument in call.args]
        hidden = [call.unknown[argument] for call in known if argument in call.unknown]
        if not values:
            comments.append(f"{shown_name(argument)}: {' or '.join(dict.fromkeys(hidden))} when this was recorded")
            continue
        value, differing = _merge_values(values, (argument,))
        said += [f"{shown_name(name)}: {text}" for text in differing]
        if len(values) + len(hidden) < len(known):
            said.append(f"{shown_name(name)}: {shown_name(argument)} was left out in some recordings")
            value = {"$any_of": [*choices(value), ABSENT]}
        args[argument] = value
    return MergedPart(
        {"name": name, "args": args} if args else {"name": name}, {(): comments} if comments else {}, said
    )


def _merge_values(values: Sequence[JsonValue], path: tuple[str, ...]) -> tuple[JsonValue, list[str]]:
    """Return one expected value for those seen, differing as deep inside as they do."""
    seen = any_of(values)
    if len(seen) == 1:
        return seen[0], []
    if all(is_mapping(value) and not dollar_keys(value) and value.keys() == seen[0].keys() for value in seen):
        said: list[str] = []
        merged: dict[str, JsonValue] = {}
        for key in seen[0]:
            merged[key], differing = _merge_values([value[key] for value in values], (*path, key))
            said += differing
        return merged, said
    return {"$any_of": seen}, [f"{'.'.join(map(shown_name, path))} was {' and '.join(shown(one, 40) for one in seen)}"]


def any_of(values: Iterable[JsonValue]) -> list[JsonValue]:
    """Return the values that differ as JSON, in the order they came."""
    seen: list[JsonValue] = []
    for value in values:
        if not any(equal(one, value) for one in seen):
            seen.append(value)
    return seen


def choices(value: JsonValue) -> list[JsonValue]:
    """Return what an expected value chooses from; another one than `$any_of` is its only choice."""
    return list(value["$any_of"]) if is_mapping(value) and "$any_of" in value else [value]


def _paired_with(first: Group, group: Group) -> list[RecordedCall]:
    """Put the calls of a group, whose order means nothing, beside those of another that they resemble most."""
    left = list(group)
    ordered: list[RecordedCall] = []
    for call in first:
        partner = max((one for one in left if one.name == call.name), key=lambda one: _equal_arguments(call, one))
        left.remove(partner)
        ordered.append(partner)
    return ordered


def _equal_arguments(one: RecordedCall, other: RecordedCall) -> int:
    args, others = one.args or {}, other.args or {}
    return sum(name in others and equal(value, others[name]) for name, value in args.items())


def _shape(groups: Sequence[Group]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(sorted(call.name for call in group)) for group in groups)


def _optional(calls: list[Any]) -> Iterator[JsonValue]:
    for call in calls:
        yield {"parallel": list(_optional(call["parallel"]))} if "parallel" in call else {**call, "optional": True}


def _comments_under(field: str, parts: Sequence[MergedPart]) -> dict[ValuePath, Sequence[str]]:
    return {(field, index, *where): lines for index, part in enumerate(parts) for where, lines in part.comments.items()}
