"""Goldens proposed from production: `goldspan goldens record --from-passing`.

A session is proposed if its calls were valid, grounded and without repeats, as far as that can be known without a
golden. Of sessions that begin alike the newest stands for all. A person reviews what is proposed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from goldspan.collector_processor.golden_tools.recording import Recorded, record
from goldspan.collector_processor.replay.inspection import user_text
from goldspan.scoring.api import score_sessions
from goldspan.scoring.grounding.words import FILLERS, normalised, stem, words_of
from goldspan.scoring.json_values import is_mapping
from goldspan.scoring.results import SessionResult
from goldspan.scoring.sessions import JsonValue, Session
from goldspan.scoring.verdict import Label, Reason
from goldspan.scoring.wording import counted

_ALIKE = 0.5
"""Two first texts are alike if they share this part of all their words."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Sessions whose users began alike."""

    newest: Session
    words: frozenset[str]
    sessions: int = 1
    same_tools: int = 1
    """How many of them called the tools of the newest, in its order."""


def propose(
    sessions: Iterable[Session], name: str, *, redact: Iterable[str] = ()
) -> tuple[Recorded, Mapping[str, int]]:
    """Return goldens for the newest passing session of each cluster, and why how many sessions were left out.

    Goldens are found by the user's first message. `redact` names arguments that only have to be present.
    """
    left: Counter[str] = Counter()
    passing: list[Session] = []
    for result in score_sessions(None, list(sessions)).sessions:
        why = _why_not(result)
        if why is None and result.session is not None:
            passing.append(result.session)
        elif why is not None:
            left[why] += 1
    clusters = list(_clusters(sorted(passing, key=_started, reverse=True)))
    recorded = record((cluster.newest for cluster in clusters), name, redact=redact, by_user_text=True)
    return replace(recorded, comments={**recorded.comments, **_comments(recorded, clusters)}), left


def _why_not(result: SessionResult) -> str | None:
    """Return why a session proves nothing; None if all its calls were right as far as can be known."""
    session = result.session
    calls = [] if session is None else [call for turn in session.turns for call in turn.calls if not call.rejected]
    if session is None or not calls:
        return "no tool was called"
    if session.incomplete or session.ambiguous:
        return "recorded incompletely, or with several session ids"
    if not user_text(session.turns[0].user_text):
        return "the user's first message was not captured"
    if any(call.error is not None for call in calls):
        return "a call failed"
    for metric in result.metrics:
        if metric.label is Label.FAIL or (metric.name == "tool_call_repetition" and metric.score not in (None, 1.0)):
            return _FAILED[metric.name]
        harmless = metric.reason is Reason.NOTHING_EXPECTED
        if metric.name == "tool_parameter_grounding" and metric.score is None and not harmless:
            return "where its arguments come from is not known"
    return None


_FAILED = {
    "tool_parameter_schema": "arguments that the tool's schema does not allow",
    "tool_parameter_grounding": "arguments that come from nowhere",
    "tool_call_repetition": "calls repeated without change",
}


def _clusters(newest_first: Sequence[Session]) -> Iterator[Cluster]:
    """Put each session to the first cluster that begins alike, or make it one of its own."""
    clusters: list[Cluster] = []
    by_word: dict[str, list[int]] = {}
    for session in newest_first:
        words = _words(session)
        near = Counter(index for word in words for index in by_word.get(word, ()))
        found = next(
            (
                index
                for index in sorted(near)
                if len(words & clusters[index].words) >= _ALIKE * len(words | clusters[index].words)
            ),
            None,
        )
        if found is None:
            for word in words:
                by_word.setdefault(word, []).append(len(clusters))
            clusters.append(Cluster(session, words))
        else:
            one = clusters[found]
            same = _tools(session) == _tools(one.newest)
            clusters[found] = replace(one, sessions=one.sessions + 1, same_tools=one.same_tools + same)
    return iter(clusters)


def _words(session: Session) -> frozenset[str]:
    """Return the words of the first message, without numbers and identifiers, in which alike messages differ."""
    words = words_of(normalised(user_text(session.turns[0].user_text) or ""))
    return frozenset(stem(word) for word in words if word not in FILLERS and not any(map(str.isdigit, word)))


def _tools(session: Session) -> list[str]:
    return [call.name for turn in session.turns for call in turn.calls if not call.rejected]


def _started(session: Session) -> int:
    return min((turn.start for turn in session.turns if turn.start), default=0)


def _comments(recorded: Recorded, clusters: Sequence[Cluster]) -> dict[tuple[str | int, ...], list[str]]:
    by_text = {user_text(cluster.newest.turns[0].user_text): cluster for cluster in clusters}
    found: dict[tuple[str | int, ...], list[str]] = {}
    goldens: JsonValue = recorded.document["goldens"]
    for index, golden in enumerate(goldens):
        cluster = by_text.get(golden.get("first_user_text")) if is_mapping(golden) else None
        if cluster is not None:
            others, started = cluster.sessions - 1, _started(cluster.newest)
            day = f" of {datetime.fromtimestamp(started / 1e9, UTC).date()}" if started else ""
            more = (
                f"; {counted(others, 'older session')} began alike, {cluster.same_tools - 1} with the same tools"
                if others
                else ""
            )
            found["goldens", index] = [f"Proposed from session {cluster.newest.id}{day}{more}."]
    return found
