"""Golden sets from traces that were right: `goldspan goldens record`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from goldspan.collector_processor.golden_tools.agreement import agree_on_golden
from goldspan.collector_processor.golden_tools.seen import SeenTurn, seen_turn, seen_turns
from goldspan.collector_processor.golden_tools.yaml_writing import Where
from goldspan.collector_processor.inspection import NO_SESSION_ID
from goldspan.scoring.comparison import is_list, is_object
from goldspan.scoring.explanation import counted
from goldspan.scoring.rendering import shown_name
from goldspan.scoring.sessions import JsonValue, Session

_TELLING = 4
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
    comments: Mapping[Where, Sequence[str]]
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
    comments: dict[Where, Sequence[str]] = {}
    for (field, key), recordings in _by_key(sessions, pattern, by_user_text=by_user_text).items():
        turns = [_turns(session, hidden, user_texts=user_texts) for session in recordings]
        if not key.strip():
            notices.append(Notice("", "spans without any session or trace id: nothing to call their golden by"))
            continue
        if not any(turn.groups for one in turns for turn in one):
            notices.append(Notice(key, "no tool was called: left out"))
            continue
        agreed = agree_on_golden(turns)
        for where, lines in agreed.comments.items():
            comments["goldens", len(goldens), *where] = lines
        goldens.append({field: key, **agreed.value})
        said = [*_said(recordings, turns, field), *agreed.disagreements, *_leaks(recordings, hidden, goldens[-1])]
        notices += [Notice(key, text) for text in said]
    return Recorded({"golden_set": name, "goldens": goldens}, comments, tuple(notices))


def _by_key(
    sessions: Iterable[Session], pattern: str | None, *, by_user_text: bool
) -> dict[tuple[str, str], list[Session]]:
    """Put recordings of one golden together, by the field that joins it and what stands there."""
    found: dict[tuple[str, str], list[Session]] = {}
    for session in sessions:
        key = ("session", session.id) if pattern is None else ("session_pattern", pattern)
        if by_user_text and session.turns and (text := seen_turn(session.turns[0]).user):
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
        if any(len(text) >= _TELLING and text in written for text in values):
            yield f"the value of {shown_name(name)} stands elsewhere in what was written: look for it"


def _hidden(value: JsonValue, name: str) -> Iterator[str]:
    """Yield the texts that are values of this argument, however deep."""
    if is_list(value):
        for item in value:
            yield from _hidden(item, name)
    elif is_object(value):
        for key, item in value.items():
            yield from _texts(item) if key == name else _hidden(item, name)


def _texts(value: JsonValue) -> Iterator[str]:
    """Yield every text and number in a value, without keys."""
    if is_list(value):
        for item in value:
            yield from _texts(item)
    elif is_object(value):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, str | int | float):
        yield str(value)


def _turns(session: Session, redact: frozenset[str], *, user_texts: bool) -> tuple[SeenTurn, ...]:
    turns = seen_turns(session, redact)
    return turns if user_texts else tuple(SeenTurn(None, turn.groups, turn.visible) for turn in turns)


def _said(sessions: Sequence[Session], recordings: Sequence[Sequence[SeenTurn]], field: str) -> Iterator[str]:
    """Say what was not written because it was not there, and what is worth a second look."""
    if field == "session" and any(session.id_source in NO_SESSION_ID for session in sessions):
        yield (
            "no session id was recorded: the golden has the trace's id, and no other run will have it; "
            "--by-user-text finds goldens by what the user said first"
        )
    if any(session.incomplete or session.ambiguous for session in sessions):
        yield "recorded incompletely, or with several session ids: look it over"
    turns = [turn for recording in recordings for turn in recording]
    if hidden := sum(not turn.visible for turn in turns):
        yield f"tools ran unseen in {counted(hidden, 'turn')}: their calls are not written"
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
