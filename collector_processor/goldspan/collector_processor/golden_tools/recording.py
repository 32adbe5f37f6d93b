"""Golden sets from traces that were right: `goldspan goldens record`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from goldspan.collector_processor.golden_tools.agreement import agree_on_golden
from goldspan.collector_processor.golden_tools.seen import SeenTurn, seen_turns
from goldspan.collector_processor.golden_tools.yaml_writing import Where
from goldspan.scoring.explanation import counted
from goldspan.scoring.rendering import shown_name
from goldspan.scoring.sessions import JsonValue, Session

_NO_SESSION_ID = frozenset({"trace_id", "input"})


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
) -> Recorded:
    """Write down what sessions did as what they should do: one golden for each session id, or one for a pattern.

    `pattern` is a glob for session ids; the sessions are then those that match it, recordings of one golden.
    `redact` names arguments, at any depth, that only have to be present. Without `user_texts` turns are found by their
    order instead of by what the user said.
    """
    hidden = frozenset(redact)
    notices: list[Notice] = []
    goldens: list[JsonValue] = []
    comments: dict[Where, Sequence[str]] = {}
    for key, recordings in _by_key(sessions, pattern).items():
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
        goldens.append({"session" if pattern is None else "session_pattern": key, **agreed.value})
        notices += [Notice(key, text) for text in _said(recordings, turns)]
        notices += [Notice(key, text) for text in agreed.disagreements]
    return Recorded({"golden_set": name, "goldens": goldens}, comments, tuple(notices))


def _by_key(sessions: Iterable[Session], pattern: str | None) -> dict[str, list[Session]]:
    found: dict[str, list[Session]] = {}
    for session in sessions:
        found.setdefault(session.id if pattern is None else pattern, []).append(session)
    return found


def _turns(session: Session, redact: frozenset[str], *, user_texts: bool) -> tuple[SeenTurn, ...]:
    turns = seen_turns(session, redact)
    return turns if user_texts else tuple(SeenTurn(None, turn.groups, turn.visible) for turn in turns)


def _said(sessions: Sequence[Session], recordings: Sequence[Sequence[SeenTurn]]) -> Iterator[str]:
    """Say what was not written because it was not there, and what is worth a second look."""
    if any(session.id_source in _NO_SESSION_ID for session in sessions):
        yield "no session id was recorded: the golden has the trace's id, and no other run will have it"
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
