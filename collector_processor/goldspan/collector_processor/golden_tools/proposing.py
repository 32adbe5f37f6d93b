"""Goldens proposed from production: `goldspan goldens record --from-passing`.

A session is proposed if its calls are valid and not repeated, and each argument was said or returned before, or is
explained by what other sessions pass: a new id, a day from today, prose, a usual value. Sessions that begin with one
text are runs of one task; of others that begin alike the newest stands for all. A person reviews what is proposed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from goldspan.collector_processor.golden_tools.inference.inferred_set import infer
from goldspan.collector_processor.golden_tools.inference.learned_rules import Argument
from goldspan.collector_processor.golden_tools.inference.run_groups import RunGroup, writable_user_text
from goldspan.collector_processor.golden_tools.inference.task_runs import RecordedTask, TaskRun, leaves, only_reads
from goldspan.collector_processor.golden_tools.recording import Recorded, record_groups
from goldspan.collector_processor.replay.inspection import user_text
from goldspan.scoring.api import score_sessions
from goldspan.scoring.comparison import canonical
from goldspan.scoring.grounding.words import FILLERS, normalised, stem, words_of
from goldspan.scoring.json_values import is_mapping, shown_name, steps_of, value_at
from goldspan.scoring.pages import counted, listed
from goldspan.scoring.results import SessionResult
from goldspan.scoring.sessions import JsonValue, Session, ToolCall
from goldspan.scoring.verdict import MetricResult, Reason

_ALIKE = 0.5  # two first texts are alike if they share this part of all their words
_USUAL = 3  # a value is usual that so many sessions pass, if they are a tenth of all that pass one
_SCHEMA, _GROUNDING = "tool_parameter_schema", "tool_parameter_grounding"


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
    """Return goldens for what users ask in passing sessions, and why how many sessions were left out.

    Goldens are found by the user's first message. `redact` names arguments that only have to be present.
    """
    left: Counter[str] = Counter()
    possible: list[tuple[Session, dict[Argument, JsonValue]]] = []
    for result in score_sessions(None, list(sessions)).sessions:
        why = _why_not(result)
        if why is not None:
            left[why] += 1
        elif result.session is not None:
            possible.append((result.session, dict(_failures(result, _GROUNDING))))
    explains = _Explanations([session for session, _ in possible])
    passing: list[Session] = []
    for session, strange in possible:
        if unknown := [one for one, value in sorted(strange.items()) if not explains(one, value, session)]:
            left[f"arguments that come from nowhere: {listed('.'.join((tool, *way)) for tool, way in unknown)}"] += 1
        else:
            passing.append(session)
    groups, clusters = _tasks(sorted(passing, key=lambda one: one.start, reverse=True))
    recorded = record_groups(groups, name, redact=redact)
    return replace(recorded, comments={**recorded.comments, **_comments(recorded, clusters)}), left


def _why_not(result: SessionResult) -> str | None:
    """Return why a session proves nothing; None if all its calls may have been right."""
    session = result.session
    if session is None or session.incomplete or session.ambiguous:
        return "recorded incompletely, or with several session ids"
    calls = [call for call in session.calls if not call.rejected]
    if not calls:
        return "no tool was called"
    if not writable_user_text(session.turns[0]):
        return "the user's first message was not captured"
    return _why_wrong(result, calls)


def _why_wrong(result: SessionResult, calls: Sequence[ToolCall]) -> str | None:
    """Return what is wrong with a session's calls, as far as can be known."""
    if failed := [call.name for call in _never_mended(calls)]:
        return f"a call failed: {listed(map(shown_name, failed))}"
    if refused := [".".join((tool, *way)) for (tool, way), _ in _failures(result, _SCHEMA)]:
        return f"arguments that the tool's schema does not allow: {listed(refused)}"
    if repeated := [call.name for call in _repeated(calls)]:
        return f"calls repeated without change: {listed(map(shown_name, repeated))}"
    for metric in result.metrics:
        if metric.name == _GROUNDING and metric.score is None and metric.reason is not Reason.NOTHING_EXPECTED:
            return "where its arguments come from is not known"
    return None


def _never_mended(calls: Sequence[ToolCall]) -> Iterator[ToolCall]:
    """Yield the calls that failed, if their tool did not succeed later."""
    for at, call in enumerate(calls):
        if call.error is not None and not any(one.name == call.name and one.error is None for one in calls[at + 1 :]):
            yield call


def _repeated(calls: Iterable[ToolCall]) -> Iterator[ToolCall]:
    """Yield the calls that change something, and that the session had made before."""
    seen: set[object] = set()
    for call in calls:
        if call.error is None and call.arguments is not None and not only_reads(call.name):
            key = call.name, canonical(dict(call.arguments))
            if key in seen:
                yield call
            seen.add(key)


def _failures(result: SessionResult, name: str) -> Iterator[tuple[Argument, JsonValue]]:
    """Yield the arguments of which a metric says that they are wrong, with their values; `*` is a place in a list."""
    metrics: Iterable[MetricResult] = (metric for metric in result.metrics if metric.name == name)
    for call in (call for metric in metrics for turn in metric.turns for call in turn.calls):
        for steps in (steps_of(one.path) for one in call.failures):
            way = tuple("*" if step.isdecimal() else step for step in steps)
            with suppress(LookupError):
                yield (call.call.name, way), value_at(call.call.arguments, steps)


class _Explanations:
    """Why a value may be right that nobody said or returned before: by what other sessions pass."""

    def __init__(self, sessions: Sequence[Session]) -> None:
        by_text: defaultdict[str, list[TaskRun]] = defaultdict(list)
        for session in sessions:
            by_text[_first_words(session)].append(TaskRun(session))
        inferred = infer([RecordedTask({"first_user_text": text}, runs) for text, runs in by_text.items()])
        self._ruled = {
            key for key, rule in inferred.rules.items() if rule.form not in ("exact", "type", "unordered", "choice")
        }
        self._passed: Counter[Argument] = Counter()
        self._values: Counter[tuple[Argument, object]] = Counter()
        self._of_text: defaultdict[str, Counter[tuple[Argument, object]]] = defaultdict(Counter)
        self._runs = {text: len(runs) for text, runs in by_text.items()}
        for text, runs in by_text.items():
            for run in runs:
                passed = {
                    ((call.name, way), canonical(value))
                    for call in run.calls
                    for way, value in leaves(call.call.arguments)
                }
                self._passed.update({argument for argument, _ in passed})
                self._values.update(passed)
                self._of_text[text].update(passed)

    def __call__(self, argument: Argument, value: JsonValue, session: Session) -> bool:
        """Whether a rule, most sessions, or all that asked the same explain a value."""
        tool, way = argument
        if any(tool == name and field == way[: len(field)] for name, field in self._ruled):
            return True
        one, text = (argument, canonical(value)), _first_words(session)
        if self._runs[text] >= _USUAL and self._of_text[text][one] == self._runs[text]:
            return True
        return self._values[one] >= max(_USUAL, self._passed[argument] / 10)


def _first_words(session: Session) -> str:
    return " ".join((writable_user_text(session.turns[0]) or "").split())


def _tasks(newest_first: Sequence[Session]) -> tuple[list[RunGroup], list[Cluster]]:
    """Return what users ask: sessions that begin with one text, and the newest of those that begin alike."""
    by_text: defaultdict[str, list[Session]] = defaultdict(list)
    for session in newest_first:
        by_text[_first_words(session)].append(session)
    clusters = list(_clusters([found[0] for found in by_text.values() if len(found) == 1]))
    again = [found for found in by_text.values() if len(found) > 1]
    groups = [*again, *([cluster.newest] for cluster in clusters)]
    return [RunGroup({"first_user_text": writable_user_text(one[0].turns[0])}, one) for one in groups], clusters


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
    return [call.name for call in session.calls if not call.rejected]


def _comments(recorded: Recorded, clusters: Sequence[Cluster]) -> dict[tuple[str | int, ...], list[str]]:
    by_text = {user_text(cluster.newest.turns[0].user_text): cluster for cluster in clusters}
    found: dict[tuple[str | int, ...], list[str]] = {}
    goldens: JsonValue = recorded.document["goldens"]
    for index, golden in enumerate(goldens):
        cluster = by_text.get(golden.get("first_user_text")) if is_mapping(golden) else None
        if cluster is not None:
            others, started = cluster.sessions - 1, cluster.newest.start
            day = f" of {datetime.fromtimestamp(started / 1e9, UTC).date()}" if started else ""
            more = (
                f"; {counted(others, 'older session')} began alike, {cluster.same_tools - 1} with the same tools"
                if others
                else ""
            )
            found["goldens", index] = [f"Proposed from session {cluster.newest.id}{day}{more}."]
    return found
