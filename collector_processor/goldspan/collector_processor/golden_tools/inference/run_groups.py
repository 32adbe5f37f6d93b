"""Which recorded sessions are runs of one task: as their ids say, or what the user said first."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from goldspan.collector_processor.replay.hints import NO_SESSION_ID
from goldspan.collector_processor.replay.inspection import user_text
from goldspan.scoring.sessions import JsonValue, Session, Turn

_RUN_WORD = "run|trial|attempt|repetition|repeat|rep|try|iteration|iter|sample|seed|pass|round|good|fresh"
_RUN = re.compile(rf"(?<![^\W_])(?:{_RUN_WORD})s?[-_ /.:#=]?([0-9]+|[0-9a-f]{{6,}})(?![^\W_])", re.IGNORECASE)
"""What tells the runs of one task apart in a session id: `run-3`, `trial_2`, `seed=7`."""
_LAST_NUMBER = re.compile(r"(?<=[-_/.:#@])[0-9]+$")
_LEAST_TEXT = 12  # shorter texts, such as a greeting, begin conversations of many tasks


_Key = tuple[str, str]  # a field that joins goldens with sessions, and what stands there


class RunGroup(NamedTuple):
    """Sessions that are runs of one task."""

    join: Mapping[str, JsonValue]
    """The field of a golden that finds them, and what stands there."""
    sessions: Sequence[Session]


def group_runs(
    sessions: Sequence[Session], *, pattern: str | None = None, runs: str | None = None, by_user_text: bool = False
) -> list[RunGroup]:
    """Put the runs of each task together, in the order they came.

    `pattern` is a glob that all of them match. `runs` says how session ids are made: in `{task}-run-{run}` the place of
    `{run}` tells runs apart. `by_user_text` groups by the first message. Otherwise the ids and messages decide.
    """
    if pattern is not None:
        return _grouped(sessions, [("session_pattern", pattern)] * len(sessions))
    if runs is not None:
        return _grouped(sessions, [_by_template(session.id, runs) for session in sessions])
    keys = list(map(_by_text, sessions)) if by_user_text else _keys(sessions)
    return _grouped(sessions, [key or ("session", one.id) for key, one in zip(keys, sessions, strict=True)])


def _keys(sessions: Sequence[Session]) -> Sequence[_Key | None]:
    """Return what tells tasks apart; None where only the session's id does."""
    texts, parts = list(map(_by_text, sessions)), list(map(_by_id, sessions))
    ends = [_by_last_number(session.id) for session in sessions]
    if len({session.id for session in sessions}) == len(sessions):
        if _repeat(texts) and _name_tasks(texts, parts):
            return texts
        if _repeat(parts):
            return parts
        if _repeat(ends) and _same_tools(sessions, ends):
            return ends
    return [None] * len(sessions)


def _grouped(sessions: Sequence[Session], keys: Sequence[_Key]) -> list[RunGroup]:
    groups: dict[_Key, list[Session]] = {}
    for session, key in zip(sessions, keys, strict=True):
        groups.setdefault(key, []).append(session)
    alone = {
        key for key, found in groups.items() if len(found) == 1 and key[0] == "session_pattern" and "*" not in key[1]
    }
    return [RunGroup({("session" if key in alone else key[0]): key[1]}, found) for key, found in groups.items()]


def writable_user_text(turn: Turn) -> str | None:
    """Return what the user said; None if it was not captured or is not text that a file can hold."""
    text = user_text(turn.user_text)
    if not text or not text.strip():
        return None
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a character, where the text was cut
        return None
    return text


def _by_text(session: Session) -> _Key | None:
    text = writable_user_text(session.turns[0]) if session.turns else None
    return None if text is None else ("first_user_text", text)


def _by_id(session: Session) -> _Key | None:
    """Return the pattern of an id in which a word says what tells runs apart."""
    if session.id_source in NO_SESSION_ID or not (hits := list(_RUN.finditer(session.id))):
        return None
    start, end = hits[-1].span(1)
    return ("session_pattern", f"{_escaped(session.id[:start])}*{_escaped(session.id[end:])}")


def _by_last_number(session_id: str) -> _Key | None:
    hit = _LAST_NUMBER.search(session_id)
    return None if hit is None else ("session_pattern", f"{_escaped(session_id[: hit.start()])}*")


def _by_template(session_id: str, template: str) -> _Key:
    parts = re.split(r"(\{run\}|\{task\}|\*)", template)
    pattern = "".join({"{run}": "(.+)", "{task}": ".+?", "*": ".*?"}.get(part, re.escape(part)) for part in parts)
    hit = re.fullmatch(pattern, session_id)
    if hit is None:
        return ("session", session_id)
    places = [hit.span(number + 1) for number in range(hit.re.groups)]
    text, at = "", 0
    for start, end in places:
        text, at = f"{text}{_escaped(session_id[at:start])}*", end
    return ("session_pattern", text + _escaped(session_id[at:]))


def _escaped(text: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", text)


def _repeat(keys: Sequence[_Key | None]) -> bool:
    """Whether most sessions share their key with another one."""
    counts = Counter(key for key in keys if key is not None)
    return 2 * sum(number for number in counts.values() if number > 1) > len(keys)


def _name_tasks(texts: Sequence[_Key | None], parts: Sequence[_Key | None]) -> bool:
    """Whether the user's first words tell tasks apart.

    None is a mere greeting, begins runs of several tasks, or is put in other words in runs of one.
    """
    if any(text is not None and len(text[1].strip()) < _LEAST_TEXT for text in texts):
        return False
    tasks: defaultdict[_Key, set[_Key]] = defaultdict(set)
    for text, part in zip(texts, parts, strict=True):
        if text is not None and part is not None:
            tasks[text].add(part)
    apart = len(set(texts)) > len(set(parts))
    return not _repeat(parts) or (not apart and all(len(found) <= 1 for found in tasks.values()))


def _same_tools(sessions: Sequence[Session], keys: Sequence[_Key | None]) -> bool:
    """Whether sessions with one key call mostly the same tools, and sessions with other keys do not all do so."""
    tools: defaultdict[_Key, list[frozenset[str]]] = defaultdict(list)
    for session, key in zip(sessions, keys, strict=True):
        if key is not None:
            tools[key].append(frozenset(call.name for call in session.calls))
    groups = [found for found in tools.values() if len(found) > 1]
    alike = [len(frozenset[str].intersection(*found)) >= 0.5 * len(frozenset[str].union(*found)) for found in groups]
    return len(tools) > 1 and sum(alike) >= 0.8 * len(alike)
