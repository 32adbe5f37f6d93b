"""What differs between two scored runs: whole sessions, metrics, tools, arguments and the values that were passed.

A task is a session id that both sides have, else a golden: its sessions are runs of it. Runs, turns and calls of one
task are averaged first, since they are not independent. Where no task is on both sides, as in production, the sides
are compared as two samples.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean
from typing import NamedTuple

from goldspan.collector_processor.replay import intervals
from goldspan.collector_processor.replay.scored_runs import ScoredArgument, ScoredCall, ScoredSession, set_name
from goldspan.scoring.results import ArgumentOutcome
from goldspan.scoring.sessions import JsonValue
from goldspan.scoring.verdict import Label

SESSIONS_PASS, SESSION_SCORE = "sessions that pass", "session score"


class ComparedTask(NamedTuple):
    """What both sides were asked to do."""

    golden_set: str
    golden: str
    session: str
    """Empty where only the golden is on both sides."""

    def __str__(self) -> str:
        return self.session or self.golden


class Movement(StrEnum):
    """What became of a row.

    It improved or regressed where chance alone gives such a difference in fewer than 5 of 100 comparisons, whatever the
    number of tools or arguments. It perhaps did where only its own interval is on one side of 0.
    """

    IMPROVED = "improved"
    REGRESSED = "regressed"
    PERHAPS_IMPROVED = "perhaps improved"
    PERHAPS_REGRESSED = "perhaps regressed"
    NOISE = "within noise"
    SAME = "unchanged"


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """One number on both sides."""

    name: str
    tasks: int
    """Tasks that both sides have; of two samples, all."""
    before: float
    after: float
    interval: intervals.Interval | None
    """Of the difference; None where there are too few tasks."""
    chance: float
    """How often such a difference comes by chance alone; for tools and arguments corrected for their number."""
    fixed: int = 0
    """Tasks that are better after."""
    broke: int = 0

    @property
    def difference(self) -> float:
        """After minus before."""
        return self.after - self.before

    @property
    def change(self) -> Movement:
        """Whether it is better or worse, outside of noise."""
        if self.before == self.after and not self.fixed and not self.broke:
            return Movement.SAME
        rose = self.difference > 0
        if self.chance < 1 - intervals.LEVEL:
            return Movement.IMPROVED if rose else Movement.REGRESSED
        if self.interval is not None and (self.interval.low > 0 or self.interval.high < 0):
            return Movement.PERHAPS_IMPROVED if rose else Movement.PERHAPS_REGRESSED
        return Movement.NOISE

    def to_json(self) -> dict[str, JsonValue]:
        """Return it as an object of the JSON document."""
        interval = None if self.interval is None else list(self.interval)
        return {
            "name": self.name,
            "tasks": self.tasks,
            "before": self.before,
            "after": self.after,
            "difference": self.difference,
            "interval": interval,
            "chance": self.chance,
            "fixed": self.fixed,
            "broke": self.broke,
            "change": self.change.value,
        }


class ValueChange(NamedTuple):
    """A value that one side passed, what the other passed in its place, and how often."""

    argument: str
    before: str
    after: str
    times: int
    is_right: bool
    """Whether the value after is the right one."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two scored runs side by side."""

    before: str
    after: str
    paired: bool
    overall: tuple[ComparedRow, ...]
    metrics: tuple[ComparedRow, ...]
    tools: tuple[ComparedRow, ...]
    arguments: tuple[ComparedRow, ...]
    groups: Mapping[str, tuple[ComparedRow, ...]]
    """By the value of the attribute that was asked for."""
    values: tuple[ValueChange, ...]
    newly_failing: tuple[ComparedTask, ...]
    """All runs passed before, and one fails now."""
    fixed: tuple[ComparedTask, ...]
    """A run failed before, and all pass now."""
    still_failing: tuple[ComparedTask, ...]
    only_before: tuple[ComparedTask, ...]
    only_after: tuple[ComparedTask, ...]

    def to_json(self) -> dict[str, JsonValue]:
        """Return the document of `--format json`."""
        tasks = ("newly_failing", "fixed", "still_failing", "only_before", "only_after")
        rows = ("overall", "metrics", "tools", "arguments")
        return {
            "before": self.before,
            "after": self.after,
            "paired": self.paired,
            **{name: [row.to_json() for row in getattr(self, name)] for name in rows},
            "groups": {value: [row.to_json() for row in of_value] for value, of_value in self.groups.items()},
            "values": [one._asdict() for one in self.values],
            **{
                name: [dict(zip(ComparedTask._fields, one, strict=True)) for one in getattr(self, name)]
                for name in tasks
            },
        }


class Side(NamedTuple):
    """The sessions of one side."""

    name: str
    sessions: Sequence[ScoredSession]


_ByTask = Mapping[ComparedTask, Sequence[ScoredSession]]
_Numbers = dict[ComparedTask, float]  # one number from 0 to 1 for each task


def pair(before: Iterable[ScoredSession], after: Iterable[ScoredSession]) -> tuple[_ByTask, _ByTask]:
    """Return the sessions of both sides by task: by session id where both have it, else by golden."""
    sides = [[one for one in side if one.id is not None] for side in (before, after)]
    first, second = ({_exact(one) for one in side} for side in sides)
    found: tuple[defaultdict[ComparedTask, list[ScoredSession]], ...] = (defaultdict(list), defaultdict(list))
    for tasks, side in zip(found, sides, strict=True):
        for one in side:
            exact = _exact(one)
            tasks[exact if exact in first & second or not exact.golden else exact._replace(session="")].append(one)
    return found[0], found[1]


def _exact(session: ScoredSession) -> ComparedTask:
    return ComparedTask(set_name(session.golden_set), session.golden or "", session.id or "")


def compare(before: Side, after: Side, *, group_of: Callable[[ScoredSession], str | None] | None = None) -> Comparison:
    """Compare two sides; with `group_of` also those sessions of both that are of one group."""
    first, second = pair(before.sessions, after.sessions)
    both = [task for task in first if task in second]
    outcomes = {task: (_passed(first[task]), _passed(second[task])) for task in both}
    newly_failing, fixed, still_failing = _by_outcome(outcomes)
    return Comparison(
        before.name,
        after.name,
        bool(both),
        _overall(first, second),
        _family(first, second, _metric_scores, correct=False),
        _family(first, second, _call_scores),
        _family(first, second, _arguments_right),
        {} if group_of is None else _groups(before, after, group_of),
        tuple(_value_changes(first, second, both)),
        newly_failing,
        fixed,
        still_failing,
        tuple(task for task in first if task not in second),
        tuple(task for task in second if task not in first),
    )


def _by_outcome(
    outcomes: Mapping[ComparedTask, tuple[float | None, float | None]],
) -> tuple[tuple[ComparedTask, ...], ...]:
    """Return the tasks that fail now only, before only, and on both sides."""
    known = [(task, was == 1, now == 1) for task, (was, now) in outcomes.items() if was is not None and now is not None]
    kinds = ((True, False), (False, True), (False, False))
    return tuple(tuple(task for task, *passed in known if tuple(passed) == kind) for kind in kinds)


def _overall(before: _ByTask, after: _ByTask) -> tuple[ComparedRow, ...]:
    rows = ((SESSIONS_PASS, _passed), (SESSION_SCORE, _score))
    return tuple(row for name, of in rows if (row := _row(name, _numbers(before, of), _numbers(after, of))))


def _numbers(tasks: _ByTask, of: Callable[[Sequence[ScoredSession]], float | None]) -> _Numbers:
    return {task: number for task, runs in tasks.items() if (number := of(runs)) is not None}


def _passed(runs: Sequence[ScoredSession]) -> float | None:
    known = [one.label == Label.PASS for one in runs if one.label != Label.NOT_EVALUATED]
    return fmean(known) if known else None


def _score(runs: Sequence[ScoredSession]) -> float | None:
    known = [one.score for one in runs if one.score is not None]
    return fmean(known) if known else None


def _row(name: str, before: _Numbers, after: _Numbers) -> ComparedRow | None:
    """Return a row of the tasks that both sides have; of both as samples, if they share none; None without tasks."""
    if both := [task for task in before if task in after]:
        was, now = [before[task] for task in both], [after[task] for task in both]
        differences = [one - other for one, other in zip(now, was, strict=True)]
        fixed, broke = sum(one > 0 for one in differences), sum(one < 0 for one in differences)
        interval, chance = intervals.difference_interval(differences), intervals.chance_of(differences)
        return ComparedRow(name, len(both), fmean(was), fmean(now), interval, chance, fixed, broke)
    was, now = list(before.values()), list(after.values())
    if not was or not now:
        return None
    interval, chance = intervals.unpaired_interval(was, now), intervals.unpaired_chance(was, now)
    return ComparedRow(name, len(was) + len(now), fmean(was), fmean(now), interval, chance)


_Place = tuple[object, ...]
_Found = Iterator[tuple[str, _Place, float]]  # what a row is named, the place in a session, and the number there


def _family(
    before: _ByTask, after: _ByTask, of: Callable[[ScoredSession], _Found], *, correct: bool = True
) -> tuple[ComparedRow, ...]:
    """Return a row for each name, those that changed most first; chances are corrected for the number of rows."""
    numbers = [_by_name(tasks, of) for tasks in (before, after)]
    paired = bool(before.keys() & after.keys())
    rows: list[ComparedRow] = []
    for name in dict.fromkeys([*numbers[0], *numbers[1]]):
        places = [side.get(name, {}) for side in numbers]
        if paired:
            # A call that only one side made has no arguments to compare: it shows in the scores of calls.
            shared = places[0].keys() & places[1].keys()
            places = [{at: number for at, number in side.items() if at in shared} for side in places]
        if row := _row(name, *(_means(side) for side in places)):
            rows.append(row)
    if correct:
        chances = intervals.corrected([row.chance for row in rows])
        rows = [replace(row, chance=chance) for row, chance in zip(rows, chances, strict=True)]
    return tuple(sorted(rows, key=lambda row: (row.change is Movement.SAME, row.difference, row.name)))


def _by_name(
    tasks: _ByTask, of: Callable[[ScoredSession], _Found]
) -> dict[str, dict[tuple[ComparedTask, _Place], list[float]]]:
    found: dict[str, dict[tuple[ComparedTask, _Place], list[float]]] = {}
    for task, runs in tasks.items():
        for run in runs:
            for name, place, number in of(run):
                found.setdefault(name, {}).setdefault((task, place), []).append(number)
    return found


def _means(places: Mapping[tuple[ComparedTask, _Place], list[float]]) -> _Numbers:
    by_task: dict[ComparedTask, list[float]] = {}
    for (task, _), numbers in places.items():
        by_task.setdefault(task, []).append(fmean(numbers))
    return {task: fmean(numbers) for task, numbers in by_task.items()}


def _metric_scores(session: ScoredSession) -> _Found:
    for one in session.metrics:
        if one.score is not None:
            yield one.name, (), one.score


def _call_scores(session: ScoredSession) -> _Found:
    for place, call in _expected_calls(session):
        if call.score is not None:
            yield call.tool, place, call.score


def _arguments_right(session: ScoredSession) -> _Found:
    for place, call, argument in _judged_arguments(session):
        yield f"{call.tool}.{argument.name}", place, float(argument.outcome == ArgumentOutcome.MATCHED)


def _expected_calls(session: ScoredSession) -> Iterator[tuple[_Place, ScoredCall]]:
    for turn in session.turns:
        for call in turn.calls:
            if call.expected_index is not None:
                yield (turn.expected_index, call.expected_index), call


_JUDGED = {ArgumentOutcome.MATCHED, ArgumentOutcome.MISMATCHED, ArgumentOutcome.MISSING}


def _judged_arguments(session: ScoredSession) -> Iterator[tuple[_Place, ScoredCall, ScoredArgument]]:
    for place, call in _expected_calls(session):
        for argument in call.arguments:
            if argument.outcome in _JUDGED:
                yield (*place, argument.name), call, argument


def _value_changes(before: _ByTask, after: _ByTask, both: Iterable[ComparedTask]) -> Iterator[ValueChange]:
    """Yield which values one side passed where the other passed another one, most often first."""
    counts: Counter[tuple[str, str, str, bool]] = Counter()
    for task in both:
        for was, now in zip(before[task], after[task], strict=False):
            known = {place: argument for place, _, argument in _judged_arguments(was)}
            for place, call, argument in _judged_arguments(now):
                old = known.get(place)
                if old is not None and old.outcome != argument.outcome and old.is_known and argument.is_known:
                    is_right = argument.outcome == ArgumentOutcome.MATCHED
                    counts[f"{call.tool}.{argument.name}", _text(old), _text(argument), is_right] += 1
    for (name, old_text, new_text, is_right), times in counts.most_common():
        yield ValueChange(name, old_text, new_text, times, is_right)


def _text(argument: ScoredArgument) -> str:
    if argument.outcome == ArgumentOutcome.MISSING:
        return "not passed"
    return json.dumps(argument.actual, ensure_ascii=False)


def _groups(
    before: Side, after: Side, group_of: Callable[[ScoredSession], str | None]
) -> dict[str, tuple[ComparedRow, ...]]:
    groups = dict.fromkeys(group for side in (before, after) for group in map(group_of, side.sessions) if group)
    found: dict[str, tuple[ComparedRow, ...]] = {}
    for group in groups:
        sides = ([one for one in side.sessions if group_of(one) == group] for side in (before, after))
        if rows := _overall(*pair(*sides)):
            found[group] = rows
    return found
